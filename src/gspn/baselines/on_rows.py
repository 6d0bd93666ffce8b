"""What controls have in common that make one row of numbers per graph, without any model, and put a head on it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from gspn.arguments import check_choice, check_integer
from gspn.attributes import FloatArray
from gspn.baselines.predicting import Predicting
from gspn.errors import InputError
from gspn.graphs import GraphDataset
from gspn.models.fitting import with_labels
from gspn.models.questions import Graphs
from gspn.predictors.outputs import outputs_for
from gspn.predictors.vectors import FAMILIES, MONITORS, Chosen, choose_heads
from gspn.predictors.vectors.choosing import TOGETHER

JUDGES = ("validation", "folds")
"""Who judges heads: validation graphs, or the labelled training graphs in turn."""

_LEAST = 1e-9
"""Deviation of a column that counts as constant."""

_FAR = 10.0
"""Deviations: as far as rows may lie from the mean."""


class OnRows(Predicting):
    """Rows, then the head that validation graphs (or, without them, cross-validation) find best."""

    heads: Sequence[str] | str
    monitor: str
    refit: bool
    judged_by: str
    seed: int
    chosen_: Chosen

    @abstractmethod
    def _learn_rows(self, dataset: GraphDataset) -> Any:
        """Learn from training graphs how rows are made; gives their rows, [G, F] dense or sparse."""

    @abstractmethod
    def _rows(self, dataset: GraphDataset) -> Any:
        """[G, F] rows of checked graphs."""

    def fit(
        self,
        graphs: Graphs,
        y: Any = None,
        *,
        validation: Graphs | tuple[Graphs, Any] | None = None,
        progress: bool = True,
    ) -> Self:
        """Learn from graphs and their labels; `validation` are graphs that carry labels, or a pair (graphs, y)."""
        families = check_heads(self.heads)
        check_choice("monitor", self.monitor, MONITORS)
        check_choice("judged_by", self.judged_by, JUDGES)
        check_integer("seed", self.seed, 0, 2**32 - 1)
        dataset, labels = self._labelled(graphs, y)
        held_out = None if validation is None else self._labelled(*with_labels(validation))
        rows = self._learn_rows(dataset)
        judged = None
        if held_out is not None and self.judged_by == "validation":
            judged = self._rows(held_out[0]), held_out[1]
        chosen = choose_heads(
            rows,
            labels,
            self.target,
            validation=judged,
            families=families,
            monitor=self.monitor,
            refit=self.refit,
            seed=self.seed,
        )
        self.chosen_, self.meaning_ = chosen, outputs_for(self.target, labels)
        return self

    def _outputs(self, dataset: GraphDataset) -> FloatArray:
        return self.chosen_.outputs(self._rows(dataset), self.meaning_)


def check_heads(heads: Sequence[str] | str) -> tuple[str, ...]:
    """The names of families of heads, one or several."""
    names = (heads,) if isinstance(heads, str) else tuple(heads)
    for name in names:
        check_choice("heads", name, (*FAMILIES, TOGETHER))
    if not set(names) & set(FAMILIES):
        raise InputError(f"heads must have one of {', '.join(FAMILIES)} among them")
    return names


def standardised(rows: FloatArray, centre: FloatArray, scale: FloatArray) -> FloatArray:
    """Rows in units of training rows; columns that were constant there say nothing.

    What is nearly constant there may lie thousands of deviations away elsewhere, where no line has been learned: it
    counts as `_FAR` deviations away, in training as well.
    """
    found = np.where(scale > _LEAST, (rows - centre) / np.where(scale > _LEAST, scale, 1.0), 0.0)
    return np.clip(found, -_FAR, _FAR)
