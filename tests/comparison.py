"""When two models, or two training runs, are the same."""

from __future__ import annotations

import torch

from gspn import GSPN

OF_PROCESSES = 1e-8
"""By what runs of one process and of several may differ in float64: the order in which they sum losses and gradients is
a relative 1e-16 a step, which Adam turns into 5e-13 of a weight after the hundred steps that are tried."""


def same(one: GSPN, other: GSPN) -> bool:
    """The same bits in all weights, units and the fitted flag."""
    mine, theirs = one.state_dict(), other.state_dict()
    alike = set(mine) == set(theirs) and all(mine[name].dtype == theirs[name].dtype for name in mine)
    return alike and all(torch.equal(mine[name], theirs[name]) for name in mine)


def losses(model: GSPN) -> list[dict[str, float]]:
    """The history without the times, which are never the same."""
    return [{name: value for name, value in record.items() if name != "seconds"} for record in model.history_]
