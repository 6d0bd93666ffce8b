"""Leaves: the univariate distributions of attributes given a state, one family a file, behind one contract."""

from gspn.attributes import Attribute, Binary, Categorical, Continuous
from gspn.circuits.leaves.contract import Leaves, Natural
from gspn.circuits.leaves.gaussian import GaussianLeaves
from gspn.circuits.leaves.negative_binomial import NegativeBinomialLeaves
from gspn.circuits.leaves.poisson import PoissonLeaves
from gspn.circuits.leaves.tables import BernoulliLeaves, CategoricalLeaves, TableLeaves

__all__ = [
    "BernoulliLeaves",
    "CategoricalLeaves",
    "GaussianLeaves",
    "Leaves",
    "Natural",
    "NegativeBinomialLeaves",
    "PoissonLeaves",
    "TableLeaves",
    "leaves_for",
]


def leaves_for(attribute: Attribute, num_levels: int, num_leaves: int) -> Leaves:
    """The family that models an attribute."""
    if isinstance(attribute, Continuous):
        return GaussianLeaves(attribute, num_levels, num_leaves)
    if isinstance(attribute, Categorical):
        return CategoricalLeaves(attribute, num_levels, num_leaves)
    if isinstance(attribute, Binary):
        return BernoulliLeaves(attribute, num_levels, num_leaves)
    if attribute.distribution == "negative_binomial":
        return NegativeBinomialLeaves(attribute, num_levels, num_leaves)
    return PoissonLeaves(attribute, num_levels, num_leaves)
