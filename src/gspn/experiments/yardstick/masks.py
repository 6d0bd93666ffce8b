"""What is hidden of a complete set: at random, given another column, or by the value itself, at a wanted rate.

- "random": every entry with the same probability.
- "given": with a probability that depends on one column, which is never hidden itself.
- "value": with a probability that depends on the entry's own value.

The probability is logistic in a normal score of what it depends on, rising in some columns and falling in others, with
a constant such that the mean of every column is the rate. Scores of categories are drawn.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, get_args

import torch
from torch import Tensor

from gspn.arguments import check_choice
from gspn.attributes import Attribute, Binary, Categorical
from gspn.graphs import GraphDataset
from gspn.random_streams import keyed_uniform

Mechanism = Literal["random", "given", "value"]
MECHANISMS = get_args(Mechanism)

_SLOPE = 2.0
"""Of the logit, per deviation of the score: at a rate of 0.2 from 0.02 to 0.6 within two deviations."""
_HIDDEN, _SIGN, _DRIVER, _CODES = 31, 32, 33, 34
"""Names of streams of random numbers."""
_HALVINGS = 60


def hidden_entries(
    dataset: GraphDataset, mechanism: str, rate: float, seed: int, visible: Collection[str] = ()
) -> Tensor:
    """[N, d] True where an observed entry is to be hidden; columns named in `visible` never are."""
    check_choice("mechanism", mechanism, MECHANISMS)
    x = dataset.entries().double()
    free = [column for column, name in enumerate(dataset.schema.names) if name not in visible]
    kept = [column for column in range(len(dataset.schema)) if column not in free]
    driver = -1
    if mechanism == "given":
        candidates = kept or free
        driver = candidates[int(float(keyed_uniform(seed, _DRIVER, torch.tensor([0]))) * len(candidates))]
    graph, vertex = dataset.vertex_keys()
    mask = torch.zeros(x.shape, dtype=torch.bool)
    for column in free:
        if column == driver:
            continue
        probability = torch.full((len(x),), rate, dtype=torch.float64)
        if mechanism != "random":
            cause = column if mechanism == "value" else driver
            sign = 1.0 if float(keyed_uniform(seed, _SIGN, torch.tensor([column]))) < 0.5 else -1.0
            probability = _at_rate(sign * _SLOPE * scores(dataset.schema[cause], x[:, cause], seed), rate)
        mask[:, column] = keyed_uniform(seed, _HIDDEN, graph, vertex, column) < probability
    return mask & ~x.isnan()


def scores(attribute: Attribute, column: Tensor, seed: int) -> Tensor:
    """[N] normal scores of the ranks of numbers; of categories, drawn ones; 0 where an entry is missing."""
    known = ~column.isnan()
    values = column[known]
    if isinstance(attribute, Categorical | Binary):
        codes = torch.arange(int(values.max()) + 1)
        found = torch.special.ndtri(keyed_uniform(seed, _CODES, codes).clamp(1e-6, 1 - 1e-6))[values.long()]
        spread = found.std()
        found = (found - found.mean()) / torch.where(spread > 0, spread, 1.0)
    else:
        distinct, place = values.unique(return_inverse=True)
        count = torch.bincount(place, minlength=len(distinct)).double()
        found = torch.special.ndtri((count.cumsum(0) - count / 2) / len(values))[place]  # equal values, equal scores
    scored = torch.zeros_like(column)
    scored[known] = found
    return scored


def _at_rate(logits: Tensor, rate: float) -> Tensor:
    """Probabilities with the given mean: a constant is added to the logits."""
    low, high = -50.0, 50.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if float(torch.sigmoid(logits + middle).mean()) < rate:
            low = middle
        else:
            high = middle
    return torch.sigmoid(logits + high)
