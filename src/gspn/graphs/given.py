"""What people hand over as graphs, one or several, in the words of the type checker.

Methods answer for one graph with one answer, for several with a list of them; these are the two that overloads tell
apart. PyTorch Geometric ships no types, so to most type checkers a `Data` is anything at all, also a list of graphs.
One graph is therefore described by what it has and several do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from torch_geometric.data import Batch as PyGBatch
from torch_geometric.data import Data
from torch_geometric.data import Dataset as PyGDataset

from gspn.graphs.dataset import GraphDataset


class OneGraph(Protocol):
    """A torch_geometric `Data`. Nothing else passes at run time; a PyG Batch is several graphs."""

    @property
    def x(self) -> Any: ...

    @property
    def edge_index(self) -> Any: ...

    def subgraph(self, subset: Any, /) -> Any: ...


SeveralGraphs: TypeAlias = Sequence[Data] | GraphDataset | PyGBatch | PyGDataset

Graphs: TypeAlias = OneGraph | SeveralGraphs
