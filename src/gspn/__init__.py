"""Graph-Induced Sum-Product Networks: probabilistic models of graphs with typed and missing vertex attributes.

Names are imported when they are first used: torch and PyTorch Geometric take seconds, and not every use needs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gspn import circuits
    from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
    from gspn.errors import GSPNError
    from gspn.graphs import GraphDataset, pack
    from gspn.models.gspn import GSPN
    from gspn.models.saving import load

_HOMES = {
    "Binary": "gspn.attributes",
    "Categorical": "gspn.attributes",
    "Continuous": "gspn.attributes",
    "Count": "gspn.attributes",
    "GSPN": "gspn.models.gspn",
    "GSPNError": "gspn.errors",
    "GraphDataset": "gspn.graphs",
    "Schema": "gspn.attributes",
    "load": "gspn.models.saving",
    "pack": "gspn.graphs",
}

__all__ = [
    "GSPN",
    "Binary",
    "Categorical",
    "Continuous",
    "Count",
    "GSPNError",
    "GraphDataset",
    "Schema",
    "__version__",
    "circuits",
    "load",
    "pack",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "circuits":
        return import_module("gspn.circuits")
    raise AttributeError(f"module 'gspn' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
