"""Types of optional packages, for annotations that do not import the packages.

A type checker sees the types themselves, as far as it knows the packages. At run time the names stand for what these
types can do, so that annotations can be read where pandas or NetworkX have not been imported, or are not installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from networkx import MultiDiGraph as MultiDiGraph
    from networkx import MultiGraph as MultiGraph
    from pandas import DataFrame as DataFrame
else:

    @runtime_checkable
    class DataFrame(Protocol):
        """A `pandas.DataFrame`."""

        columns: Any
        index: Any
        dtypes: Any
        iloc: Any

    @runtime_checkable
    class MultiGraph(Protocol):
        """A `networkx.MultiGraph`."""

        nodes: Any
        edges: Any

        def new_edge_key(self, u: Any, v: Any) -> Any: ...

    @runtime_checkable
    class MultiDiGraph(MultiGraph, Protocol):
        """A `networkx.MultiDiGraph`."""

        in_edges: Any
        out_edges: Any
