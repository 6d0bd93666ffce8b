"""The graph-induced part: templates stacked into levels over a graph, and what is maximised.

Parameters and their evaluation on a batch (`hierarchy`), the targets of whole graphs (`readout`), and the objectives
(`objectives`). Training loops, files and
the users' interface live elsewhere.
"""

from gspn.hierarchy.aggregation import register_aggregation
from gspn.hierarchy.hierarchy import Evaluation, Hierarchy
from gspn.hierarchy.product import MessageProduct
from gspn.hierarchy.readout import Readout, SupervisedEvaluation, SupervisedHierarchy

register_aggregation("product", MessageProduct)

__all__ = ["Evaluation", "Hierarchy", "Readout", "SupervisedEvaluation", "SupervisedHierarchy"]
