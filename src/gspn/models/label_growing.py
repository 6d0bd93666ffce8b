"""How trees of the label's leaf are grown: on which of the rows, how many of them, and how the leaf reads them.

Rows come in copies that differ in which labels are hidden; trees need fewer of them than regressions do.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from gspn.attributes import FloatArray
from gspn.circuits.leaves.regression import RegressingLeaves
from gspn.hierarchy.label_readout import LabelRegression
from gspn.rows.task import Task
from gspn.rows.trees import Trees, boosted, forests

_MOST = 20_000
"""Rows that trees are grown on, at most."""
_LEAST, _SHARE, _FOREST = 3, 0.33, 100
"""Vertices in a leaf of a forest, the share of columns that a split looks at, and trees."""
_DEPTH, _BOOSTED, _FEWEST, _WORK, _DISTANCE = 4, 60, 30, 400_000, 7.5
"""Levels of a boosted tree; how many there are at most and at least, and rows times classes of all; their number times
what each one adds."""


class RegressionData(NamedTuple):
    """What is learned from."""

    z: Tensor
    """[n, ≥ W]"""
    y: Tensor
    """[n, T]"""
    weights: Tensor
    """[n]"""
    copies: int = 1
    """Of every vertex, one after another"""


@torch.no_grad()
def grow(part: LabelRegression, rows: RegressionData, boosts: bool, seed: int) -> None:
    """Grow the trees of all targets, and set leaves that take what they say as it is."""
    assert part.trees is not None
    vertices = len(rows.y) // rows.copies
    copies = min(rows.copies, 2, max(1, _MOST // vertices))
    taken = torch.arange(copies * vertices)
    if len(taken) > _MOST:
        taken = taken[:: -(-len(taken) // _MOST)]
    seen = np.asarray(rows.z[taken][:, part.columns].numpy(), dtype=np.float64)
    place = 0
    for trees, family, column in zip(part.trees, part.families, rows.y[taken].unbind(1), strict=True):
        known = ~column.isnan().numpy()
        present, labels = np.unique(column.numpy()[known], return_inverse=True)
        own = None
        if len(present) > 1:
            task, weights = Task(labels.astype(np.float64), len(present)), rows.weights[taken].numpy()[known]
            own = _grown(seen[known], task, weights / weights.mean(), copies, boosts, seed)
        trees.keep(own, present.astype(np.int64))
        leaves = cast(RegressingLeaves, family)
        slope = leaves.raw_slope
        slope.zero_()
        slope[0, 0, :, place : place + trees.width] = torch.eye(trees.width).to(slope)
        leaves.assign_predictors(0, slope.new_zeros(1, trees.width))
        place += trees.width


def _grown(seen: FloatArray, task: Task, weights: FloatArray, copies: int, boosts: bool, seed: int) -> Trees:
    found: Any
    if boosts:
        number = int(np.clip(_WORK // (len(seen) * task.width), _FEWEST, _BOOSTED))
        found = boosted(seen, task, seed, [_DEPTH], number=number, rate=_DISTANCE / number, weights=weights)
    else:
        found = forests(seen, task, seed, [_LEAST * copies], number=_FOREST, share=_SHARE, weights=weights)
    ((_, trees),) = found
    return cast(Trees, trees)
