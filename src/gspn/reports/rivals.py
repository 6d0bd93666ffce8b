"""What people would fill gaps with otherwise: means, nearest rows, regression in rounds, the mean of neighbours.

All learn from the very entries that gspn learns from. Counts are plain numbers to them, as to those who would use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from gspn.attributes import Continuous, Count, Schema
from gspn.baselines.features import Features
from gspn.baselines.imputers import FeatureImputer
from gspn.baselines.neighbour_means import neighbour_means
from gspn.graphs import GraphDataset

MEAN = "mean or most common"
NEIGHBOURS = "mean of neighbours"
NEAREST = "nearest rows"
ROUNDS = "regressions in rounds"

_WIDEST = {NEAREST: 2_000, ROUNDS: 120}
"""Columns (a category has one a value) beyond which these take too long."""


@dataclass(frozen=True)
class Rival:
    """A method by its name, and what it does in a sentence."""

    name: str
    explained: str
    fill: Callable[[], Tensor]
    """[R, d] the rows with hidden entries, filled"""


def rivals(training: GraphDataset, hidden: Tensor, seed: int) -> tuple[list[Rival], dict[str, str]]:
    """Those that can be asked, the simplest first; and those that cannot, with the reason."""
    plain = Schema(Continuous(one.name) if isinstance(one, Count) else one for one in training.schema)
    seen = replace(training, schema=plain)
    entries = seen.entries()
    features, rows = Features.of(plain, entries), hidden.any(1)
    # None of the methods of tables looks at edges, so their rows need none.
    alone = Data(x=entries[rows], edge_index=torch.zeros(2, 0, dtype=torch.long))

    def by_table(method: str) -> Tensor:
        imputer = FeatureImputer(plain, method, seed=seed).fit(seen)
        filled: Tensor = imputer.impute(alone).x.double()
        return filled

    def by_neighbours() -> Tensor:
        gaps = features(entries).masked_fill(features.gaps(entries), torch.nan)
        told, rest = neighbour_means(seen, gaps)[rows], features(torch.full_like(entries[:1], torch.nan))
        return features.entries(torch.where(told.isnan(), rest, told))

    def known() -> Iterator[Rival]:
        yield Rival(MEAN, "the column's mean, or its most common value", lambda: by_table("mean"))
        if int(seen.num_edges_per_graph().sum()):
            yield Rival(NEIGHBOURS, "the mean or most common value of what neighbours have observed", by_neighbours)
        nearest = "the mean or most common value of the five most similar rows (scikit-learn's KNNImputer)"
        yield Rival(NEAREST, nearest, lambda: by_table("nearest"))
        rounds = "each column regressed on the others, again and again (scikit-learn's IterativeImputer)"
        yield Rival(ROUNDS, rounds, lambda: by_table("iterative"))

    found, left_out = list[Rival](), dict[str, str]()
    for rival in known():
        most = _WIDEST.get(rival.name, features.width)
        if features.width <= most:
            found.append(rival)
        else:
            left_out[rival.name] = f"{features.width:,} columns and values would take it too long"
    return found, left_out
