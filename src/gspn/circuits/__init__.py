"""Sum-product networks over one vertex's attributes: leaves, templates and their validity.

This room knows nothing of graphs: a template gets leaf log-densities and mixing weights, and gives values and
posteriors. Where the mixing weights come from is the hierarchy's business.
"""

from gspn.circuits.evidence import Context, Evidence
from gspn.circuits.leaves import Leaves, Rows, UnivariateLeaves, leaves_for, register_leaf
from gspn.circuits.structure import Leaf, Product, Sum, Unit, check_circuit, naive_bayes, random_circuit

__all__ = [
    "Context",
    "Evidence",
    "Leaf",
    "Leaves",
    "Product",
    "Rows",
    "Sum",
    "Unit",
    "UnivariateLeaves",
    "check_circuit",
    "leaves_for",
    "naive_bayes",
    "random_circuit",
    "register_leaf",
]
