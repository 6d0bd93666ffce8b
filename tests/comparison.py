"""When two models, or two training runs, are the same."""

from __future__ import annotations

import torch

from gspn import GSPN


def same(one: GSPN, other: GSPN) -> bool:
    """The same bits in all weights, units and the fitted flag."""
    mine, theirs = one.state_dict(), other.state_dict()
    alike = set(mine) == set(theirs) and all(mine[name].dtype == theirs[name].dtype for name in mine)
    return alike and all(torch.equal(mine[name], theirs[name]) for name in mine)


def losses(model: GSPN) -> list[dict[str, float]]:
    """The history without the times, which are never the same."""
    return [{name: value for name, value in record.items() if name != "seconds"} for record in model.history_]
