"""Leaves: the distributions of attributes given a state, one family a file, behind one contract and one registry."""

from functools import partial

from gspn.circuits.leaves.atoms import with_atoms
from gspn.circuits.leaves.contract import Leaves, Natural, Rows, at_level, message_width, with_level
from gspn.circuits.leaves.correlated import CorrelatedGaussianLeaves
from gspn.circuits.leaves.count_tables import CountTableLeaves
from gspn.circuits.leaves.covariances import STRUCTURES
from gspn.circuits.leaves.gaussian import GaussianLeaves
from gspn.circuits.leaves.negative_binomial import NegativeBinomialLeaves
from gspn.circuits.leaves.poisson import PoissonLeaves
from gspn.circuits.leaves.registry import leaves_for, register_leaf
from gspn.circuits.leaves.tables import BernoulliLeaves, CategoricalLeaves
from gspn.circuits.leaves.univariate import UnivariateLeaves

__all__ = [
    "BernoulliLeaves",
    "CategoricalLeaves",
    "CorrelatedGaussianLeaves",
    "CountTableLeaves",
    "GaussianLeaves",
    "Leaves",
    "Natural",
    "NegativeBinomialLeaves",
    "PoissonLeaves",
    "Rows",
    "UnivariateLeaves",
    "at_level",
    "leaves_for",
    "message_width",
    "register_leaf",
    "with_atoms",
    "with_level",
]

register_leaf("gaussian", ["continuous"], GaussianLeaves)
register_leaf("categorical", ["categorical"], CategoricalLeaves, context="optional")
register_leaf("bernoulli", ["binary"], BernoulliLeaves, context="optional")
register_leaf("poisson", ["count"], PoissonLeaves, context="optional")
register_leaf("negative_binomial", ["count"], NegativeBinomialLeaves, context="optional")
register_leaf("count_table", ["count"], CountTableLeaves, context="optional")
for _name in STRUCTURES:
    register_leaf(
        f"{_name}_gaussian",
        ["continuous"],
        partial(CorrelatedGaussianLeaves, covariance=_name),
        attributes=(1, None),
        context="optional",
    )
