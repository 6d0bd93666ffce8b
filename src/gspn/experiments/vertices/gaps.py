"""What is hidden of the attributes of a set before anyone learns: at random, whole vertices, by label, by value.

- "random": every entry with the same probability. "vertices": all entries of a vertex, or none.
- "label": with a probability that rises from the first class to the last, the rate on average.
- "value": with a probability that depends on the entry's own value (`yardstick.masks`).
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from gspn.experiments.vertices.sets import LabelledGraphs
from gspn.experiments.yardstick.masks import hidden_entries
from gspn.random_streams import keyed_uniform

Mechanism = Literal["random", "vertices", "label", "value"]
MECHANISMS = get_args(Mechanism)

_GAPS = 42
"""Names a stream of random numbers."""


def gaps(found: LabelledGraphs, mechanism: str, rate: float, seed: int) -> Tensor:
    """[N, d] True where an entry is hidden."""
    x = found.dataset.entries()
    visible = [found.dataset.schema.names[column] for column in found.visible]
    if rate == 0:
        return torch.zeros(x.shape, dtype=torch.bool)
    if mechanism in ("random", "value"):
        return hidden_entries(found.dataset, mechanism, rate, seed, visible)
    graph, vertex = found.dataset.vertex_keys()
    if mechanism == "vertices":
        mask = (keyed_uniform(seed, _GAPS, graph, vertex) < rate)[:, None].expand(x.shape).clone()
    else:
        place = found.labels.nan_to_num(0.0) / max(len(found.target.categories) - 1, 1)
        width = min(rate, 1 - rate)
        probability = rate + width * (2 * place - 1) - width * (2 * place.mean() - 1)
        columns = torch.arange(x.shape[1])
        mask = keyed_uniform(seed, _GAPS, graph[:, None], vertex[:, None], columns) < probability[:, None]
    mask[:, list(found.visible)] = False
    return mask & ~x.isnan()
