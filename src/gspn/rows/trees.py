"""Trees: forests of extremely randomised ones, and boosted ones; scikit-learn grows them, compiled code walks them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.attributes import FloatArray
from gspn.compiling import compiled
from gspn.rows.task import Task

FOREST = 300
LEAVES = (1,)
"""Rows in a leaf of a forest, at least."""
BOOSTED = 200
DEPTHS = (4,)

_RATE, _ROWS = 0.05, 0.7
"""What a boosted tree adds, and the share of the rows that it sees."""
_COLUMNS = 100
"""That a split of a forest for values looks at, at most: more take long."""
_LEAST = 1e-3
"""Probability of a class that no tree has seen."""


@dataclass(frozen=True, eq=False)
class Trees:
    """The sum of what all trees say, from there to outputs by a logarithm if they say probabilities."""

    roots: NDArray[np.int64]
    """[T]"""
    children: NDArray[np.int64]
    """[nodes, 2] where rows go that are at most the threshold, and the others; -1 in leaves"""
    columns: NDArray[np.int64]
    """[nodes]"""
    thresholds: FloatArray
    """[nodes]"""
    values: FloatArray
    """[nodes, K]"""
    probabilities: NDArray[np.int64]
    """[1] whether values are shares of classes"""

    def outputs(self, rows: FloatArray) -> FloatArray:
        total = np.zeros((len(rows), self.values.shape[1]))
        # Trees were grown on single precision, and must be walked in it.
        single = rows.astype(np.float32)
        _walk(single, self.roots, self.children, self.columns, self.thresholds, self.values, total)
        if not self.probabilities[0]:
            return total
        logs = np.log(np.maximum(total, _LEAST))
        return logs[:, 1:] - logs[:, :1] if logs.shape[1] == 2 else logs

    def is_sound(self, columns: int, width: int) -> bool:
        """Whether walks end and read nothing that is not there, on rows of so many columns for so many outputs.

        What is computed from damaged numbers may be wrong, but no more than that.
        """
        nodes = len(self.thresholds)
        shapes: Sequence[tuple[Any, tuple[int, ...]]] = (
            (self.children, (nodes, 2)),
            (self.columns, (nodes,)),
            (self.probabilities, (1,)),
        )
        if self.roots.ndim != 1 or any(array.shape != shape for array, shape in shapes):
            return False
        integers = (self.roots, self.children, self.columns, self.probabilities)
        if any(array.dtype != np.int64 for array in integers) or self.thresholds.dtype != np.float64:
            return False
        own = 2 if self.probabilities[0] and width == 1 else width
        if self.values.shape != (nodes, own) or self.values.dtype != np.float64:
            return False
        # Children come after their parents: walks end.
        below = np.arange(nodes)[:, None]
        leads = ((self.children > below) & (self.children < nodes)).all(1) | (self.children == -1).all(1)
        inside = (self.roots >= 0).all() and (self.roots < nodes).all()
        return bool(leads.all() and inside and (self.columns >= 0).all() and (self.columns < columns).all())


def forests(
    rows: FloatArray,
    task: Task,
    seed: int,
    only: Sequence[int] | None = None,
    *,
    number: int = FOREST,
    share: float | None = None,
    weights: FloatArray | None = None,
) -> Iterator[tuple[int, Trees]]:
    """Extremely randomised trees with so many rows in a leaf at least.

    A split for classes looks at a share of the columns, or at the root of their number.
    """
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    for least in LEAVES if only is None else only:
        arguments: dict[str, Any] = {"n_estimators": number, "min_samples_leaf": least, "random_state": seed}
        grown = (
            ExtraTreesClassifier(max_features=share or "sqrt", **arguments)
            if task.classes
            else ExtraTreesRegressor(max_features=max(1, min(rows.shape[1] // 3, _COLUMNS)), **arguments)
        ).fit(rows, task.labels, weights)
        values = [each.tree_.value[:, 0, :] / len(grown.estimators_) for each in grown.estimators_]
        yield least, _flat([each.tree_ for each in grown.estimators_], values, bool(task.classes))


def boosted(
    rows: FloatArray,
    task: Task,
    seed: int,
    only: Sequence[int] | None = None,
    *,
    number: int = BOOSTED,
    rate: float = _RATE,
    weights: FloatArray | None = None,
) -> Iterator[tuple[int, Trees]]:
    """Boosted trees of so many levels, on shares of rows and columns."""
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    for depth in DEPTHS if only is None else only:
        arguments: dict[str, Any] = {
            "n_estimators": number, "learning_rate": rate, "subsample": _ROWS, "max_features": "sqrt",
            "max_depth": depth, "min_samples_leaf": 3, "init": "zero", "random_state": seed,
        }  # fmt: skip
        grown = (GradientBoostingClassifier if task.classes else GradientBoostingRegressor)(**arguments)
        grown.fit(rows, task.labels, weights)
        trees, values = [], []
        for stage in grown.estimators_:
            for column, each in enumerate(stage):
                value = np.zeros((each.tree_.node_count, task.width))
                value[:, column] = rate * each.tree_.value[:, 0, 0]
                trees.append(each.tree_)
                values.append(value)
        yield depth, _flat(trees, values, False)


def _flat(trees: list[Any], values: list[FloatArray], probabilities: bool) -> Trees:
    """All trees' nodes one after another."""
    starts = np.cumsum([0, *[tree.node_count for tree in trees[:-1]]])
    children = [
        np.column_stack([_moved(tree.children_left, start), _moved(tree.children_right, start)])
        for tree, start in zip(trees, starts, strict=True)
    ]
    return Trees(
        starts.astype(np.int64),
        np.concatenate(children),
        np.concatenate([np.maximum(tree.feature, 0) for tree in trees]).astype(np.int64),
        np.concatenate([tree.threshold for tree in trees]),
        np.ascontiguousarray(np.concatenate(values)),
        np.array([int(probabilities)]),
    )


def _moved(children: NDArray[Any], start: int) -> NDArray[np.int64]:
    return np.where(children < 0, -1, children + start).astype(np.int64)


@compiled
def _walk(
    rows: NDArray[np.float32],
    roots: NDArray[np.int64],
    children: NDArray[np.int64],
    columns: NDArray[np.int64],
    thresholds: FloatArray,
    values: FloatArray,
    total: FloatArray,
) -> None:
    for row in range(rows.shape[0]):
        for root in roots:
            node = root
            while children[node, 0] >= 0:
                node = children[node, 0 if rows[row, columns[node]] <= thresholds[node] else 1]
            for k in range(values.shape[1]):
                total[row, k] += values[node, k]
