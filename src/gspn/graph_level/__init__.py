"""Whole graphs: from graphs to one row of numbers each, and predictions from such rows.

Here belong `GraphFeatures`, which reads the rows off fitted models, and `GraphClassifier` and `GraphRegressor`, which
learn a model without labels, then a head on the rows. Heads on given rows belong to `predictors`, what rows can be
made without any model to `baselines`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gspn.graph_level.predicting import GraphClassifier, GraphRegressor

__all__ = ["GraphClassifier", "GraphRegressor"]


def __getattr__(name: str) -> object:
    """Predictors bring heads and what they learn by; who loads a model does not wait for these."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gspn.graph_level import predicting

    return getattr(predicting, name)
