"""Graph-Induced Sum-Product Networks: probabilistic models of graphs with typed and missing vertex attributes.

Names are imported when they are first used: torch and PyTorch Geometric take seconds, and not every use needs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gspn import circuits, datasets, testing
    from gspn.atoms import find_atoms
    from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
    from gspn.convert.arrays import from_arrays, to_arrays
    from gspn.convert.frames import from_tables, graph_table, to_tables, vertex_table
    from gspn.convert.molecules import from_sdf, from_smiles
    from gspn.convert.networkx import from_networkx, to_networkx
    from gspn.errors import GSPNError
    from gspn.graph_level.edit_list import edit_list
    from gspn.graph_level.features import GraphFeatures
    from gspn.graph_level.loading import load
    from gspn.graph_level.predicting import GraphClassifier, GraphRegressor
    from gspn.graphs import GraphDataset, pack
    from gspn.graphs.stored import StoredGraph, store_graph
    from gspn.hierarchy.aggregation import register_aggregation
    from gspn.imputation import Impute, TableImputer
    from gspn.models.gspn import GSPN
    from gspn.models.shards import Shards
    from gspn.models.stack import Stack
    from gspn.models.supervised import SupervisedGSPN
    from gspn.predictors import DeepSets
    from gspn.reports import Report, report

_HOMES = {
    "Binary": "gspn.attributes",
    "Categorical": "gspn.attributes",
    "Continuous": "gspn.attributes",
    "Count": "gspn.attributes",
    "DeepSets": "gspn.predictors",
    "GSPN": "gspn.models.gspn",
    "GSPNError": "gspn.errors",
    "GraphClassifier": "gspn.graph_level.predicting",
    "GraphDataset": "gspn.graphs",
    "GraphFeatures": "gspn.graph_level.features",
    "GraphRegressor": "gspn.graph_level.predicting",
    "Impute": "gspn.imputation",
    "Report": "gspn.reports",
    "Schema": "gspn.attributes",
    "Shards": "gspn.models.shards",
    "Stack": "gspn.models.stack",
    "StoredGraph": "gspn.graphs.stored",
    "SupervisedGSPN": "gspn.models.supervised",
    "TableImputer": "gspn.imputation",
    "edit_list": "gspn.graph_level.edit_list",
    "find_atoms": "gspn.atoms",
    "from_arrays": "gspn.convert.arrays",
    "from_networkx": "gspn.convert.networkx",
    "from_sdf": "gspn.convert.molecules",
    "from_smiles": "gspn.convert.molecules",
    "from_tables": "gspn.convert.frames",
    "graph_table": "gspn.convert.frames",
    "load": "gspn.graph_level.loading",
    "pack": "gspn.graphs",
    "register_aggregation": "gspn.hierarchy.aggregation",
    "report": "gspn.reports",
    "store_graph": "gspn.graphs.stored",
    "to_arrays": "gspn.convert.arrays",
    "to_networkx": "gspn.convert.networkx",
    "to_tables": "gspn.convert.frames",
    "vertex_table": "gspn.convert.frames",
}

__all__ = [
    "GSPN",
    "Binary",
    "Categorical",
    "Continuous",
    "Count",
    "DeepSets",
    "GSPNError",
    "GraphClassifier",
    "GraphDataset",
    "GraphFeatures",
    "GraphRegressor",
    "Impute",
    "Report",
    "Schema",
    "Shards",
    "Stack",
    "StoredGraph",
    "SupervisedGSPN",
    "TableImputer",
    "__version__",
    "circuits",
    "datasets",
    "edit_list",
    "find_atoms",
    "from_arrays",
    "from_networkx",
    "from_sdf",
    "from_smiles",
    "from_tables",
    "graph_table",
    "load",
    "pack",
    "register_aggregation",
    "report",
    "store_graph",
    "testing",
    "to_arrays",
    "to_networkx",
    "to_tables",
    "vertex_table",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in ("circuits", "datasets", "testing"):
        return import_module(f"gspn.{name}")
    raise AttributeError(f"module 'gspn' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
