"""The suite of leaf families: all that `Leaves` promises, measured against an independent density.

What is checked stands in `leaf_densities`, `leaf_answers` and `leaf_learning`; what it is checked on in `leaf_case`.
"""

from __future__ import annotations

from gspn.testing.leaf_answers import LeafAnswers
from gspn.testing.leaf_case import LeafCase
from gspn.testing.leaf_densities import LeafDensities
from gspn.testing.leaf_learning import LeafLearning

__all__ = ["LeafCase", "LeafSuite"]


class LeafSuite(LeafDensities, LeafAnswers, LeafLearning):
    """Subclass it under a name that begins with Test, and set `case`."""

    case: LeafCase
