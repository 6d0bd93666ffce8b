"""Models without labels that have been trained lately: runs that differ in labels or heads share one.

Records are made by processes that live long, piece after piece. A model that has seen no label is the same for every
number of labels, so a process that has it need not train it again. Nothing is written to disk.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gspn.experiments.runs import Run

_KEPT = 24
"""Models, which are small: the folds of a dataset, and some more."""

_models: OrderedDict[str, tuple[Any, float]] = OrderedDict()


def fitted_once(run: Run, train: Callable[[], tuple[Any, float]]) -> tuple[Any, float]:
    """A model and the seconds that its training took, trained unless another run has had the same."""
    key = replace(run, source=run.source.model_copy(update={"labels": None}), head={}).key
    if key not in _models:
        _models[key] = train()
    _models.move_to_end(key)
    while len(_models) > _KEPT:
        _models.popitem(last=False)
    return _models[key]
