"""Sum-product networks over one vertex's attributes: leaves, templates and their validity.

This room knows nothing of graphs: a template gets leaf log-densities and mixing weights, and gives values and
posteriors. Where the mixing weights come from is the hierarchy's business.
"""

from gspn.circuits.structure import Leaf, Product, Sum, Unit, naive_bayes, random_circuit
from gspn.circuits.validity import check_circuit

__all__ = ["Leaf", "Product", "Sum", "Unit", "check_circuit", "naive_bayes", "random_circuit"]
