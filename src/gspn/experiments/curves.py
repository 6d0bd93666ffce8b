"""Training curves, thinned out to what can be seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

_POINTS = 40


def curve_of(model: Any) -> dict[str, list[float | None]]:
    """Losses and scores over the epochs, thinned out."""
    history: Sequence[Mapping[str, float]] = getattr(model, "history_", ())
    if not history:
        return {}
    steps = min(len(history), _POINTS)
    picked = [history[i] for i in torch.linspace(0, len(history) - 1, steps).round().long().tolist()]
    names = [name for name in ("epoch", "train", "validation", "score") if name in picked[0]]
    return {name: [_rounded(entry[name]) for entry in picked] for name in names}


def _rounded(value: float) -> float | None:
    """Six digits; None where a loss was no number, which JSON does not know."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
