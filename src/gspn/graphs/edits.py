"""One graph after some changes: entries set or made unknown, edges added and removed.

Every change is checked here, with the vertex, attribute or edge in the message. How likely the changed graph is, is a
question for `queries`.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data

from gspn.attributes import Schema
from gspn.columns import shorten
from gspn.errors import InputError

Edge: TypeAlias = tuple[int, int, int | None]
"""source, target, type; None where it is not said."""


@dataclass(frozen=True, eq=False)
class Edited:
    """A graph after changes, and where they are."""

    graph: Data
    revalued: Tensor
    """vertices whose entries may have changed"""
    rewired: Tensor
    """vertices whose incoming edges have changed"""


def edit(
    graph: Data,
    schema: Schema,
    changes: Mapping[int, Mapping[str, Any]] | None = None,
    add_edges: Iterable[Any] | None = None,
    remove_edges: Iterable[Any] | None = None,
    *,
    directed: bool | None = None,
    num_edge_types: int = 1,
) -> Edited:
    """A checked graph with other entries and other edges; the given one stays as it is.

    `changes` maps vertices to values by attribute, None for unknown. An edge is (source, target) or (source, target,
    type), and every mention of it stands for one occurrence. Edges are removed from the given graph before any is
    added. With `directed=None` a graph in which every edge has its opposite, of the same type, stays so: what is said
    of an edge is said of its opposite, whether that is listed or not. `directed` True takes edges as they are listed,
    and False adds the opposites in any graph.
    """
    x, revalued = _with_values(graph, schema, {} if changes is None else changes)
    edges = _Edges(graph, num_edge_types)
    removed, added = edges.read("remove_edges", remove_edges), edges.read("add_edges", add_edges)
    if directed not in (None, True, False):
        raise InputError(f"directed must be True, False or None, got {shorten(directed)}")
    if directed is None:
        directed = bool(removed or added) and not edges.are_paired()
    removed = [edges.found(edge) for edge in removed]
    added = [edges.typed(edge) for edge in added]
    if not directed:
        removed, added = _both_ways(removed), _both_ways(added)
    for edge in removed:
        edges.remove(edge)
    edited = Data(x=x, edge_index=edges.index_with(added))
    if edges.types is not None:
        edited.edge_type = edges.types_with(added)
    return Edited(edited, torch.tensor(revalued).long(), torch.tensor([v for _, v, _ in removed + added]).long())


def _with_values(graph: Data, schema: Schema, changes: Mapping[int, Mapping[str, Any]]) -> tuple[Tensor, list[int]]:
    if not isinstance(changes, Mapping):
        raise InputError(f"changes must map vertices to values by attribute, got {shorten(changes)}")
    x, vertices = graph.x.to(torch.float64, copy=True), []
    for key, values in changes.items():
        vertex = _vertex(key, len(x), "changes")
        if not isinstance(values, Mapping):
            raise InputError(f"changes, vertex {vertex}: values must be given by attribute, got {shorten(values)}")
        for name, value in values.items():
            column = schema.index(name)
            try:
                x[vertex, column] = float(schema[column].encode([value])[0])
            except InputError as error:
                raise InputError(f"changes, vertex {vertex}, attribute {name!r}: {error.reason}") from None
        vertices.append(vertex)
    return x, vertices


def _vertex(number: Any, num_vertices: int, where: str) -> int:
    try:
        vertex = operator.index(number)
    except (TypeError, RuntimeError):
        vertex = None
    if vertex is None or isinstance(number, bool):
        raise InputError(f"{where}: {shorten(number)} is not the number of a vertex")
    if not 0 <= vertex < num_vertices:
        raise InputError(f"{where}: vertex {vertex} does not exist: the graph has {num_vertices} vertices")
    return vertex


class _Edges:
    """The edges of a graph, some of them removed."""

    def __init__(self, graph: Data, num_edge_types: int) -> None:
        self.num_vertices, self.num_edge_types = len(graph.x), num_edge_types
        self.index: Tensor = graph.edge_index
        self.types: Tensor | None = graph.get("edge_type")
        if self.types is None and num_edge_types > 1:  # a graph without edges has no types either
            self.types = torch.zeros(self.index.shape[1], dtype=torch.long)
        self.left = torch.ones(self.index.shape[1], dtype=torch.bool)

    def read(self, argument: str, given: Iterable[Any] | None) -> list[Edge]:
        """The listed edges, each with ends that exist."""
        if given is not None and not isinstance(given, Iterable):
            raise InputError(f"{argument} must be a list of edges (source, target), got {shorten(given)}")
        edges: list[Edge] = []
        for one in () if given is None else given:
            parts = list(one) if isinstance(one, Iterable) and not isinstance(one, str) else []
            if len(parts) not in (2, 3):
                raise InputError(
                    f"{argument}: an edge is (source, target) or (source, target, type), got {shorten(one)}"
                )
            source, target = (_vertex(end, self.num_vertices, argument) for end in parts[:2])
            edge_type = self._type(parts[2], f"{argument}, edge {source} → {target}") if len(parts) == 3 else None
            edges.append((source, target, edge_type))
        return edges

    def _type(self, given: Any, where: str) -> int | None:
        if given is None:
            return None
        if self.types is None:
            raise InputError(f"{where}: the graph's edges have no types; leave the type out")
        try:
            code = operator.index(given)
        except (TypeError, RuntimeError):
            code = -1
        if isinstance(given, bool) or code < 0 or (self.num_edge_types > 1 and code >= self.num_edge_types):
            known = f"the model has num_edge_types={self.num_edge_types}"
            raise InputError(f"{where}: {shorten(given)} is no edge type; a type is a number from 0 on, and {known}")
        return code

    def are_paired(self) -> bool:
        """Whether every edge has its opposite, of the same type: an undirected graph."""
        types = torch.zeros_like(self.index[0]) if self.types is None else self.types
        num_types = 1 + int(types.max()) if len(types) else 1
        ways = (self.index, self.index.flip(0))
        there, back = ((source * self.num_vertices + target) * num_types + types for source, target in ways)
        return torch.equal(there.sort().values, back.sort().values)

    def found(self, edge: Edge) -> Edge:
        """An edge to remove with the type it has in the graph."""
        source, target, edge_type = edge
        if self.types is None or edge_type is not None:
            return edge
        present = self.types[(self.index[0] == source) & (self.index[1] == target)].unique().tolist()
        if len(present) > 1:
            raise InputError(
                f"remove_edges: there are edges {source} → {target} of the types {', '.join(map(str, present))}; say "
                f"which one is meant, ({source}, {target}, type)"
            )
        return (source, target, present[0]) if present else edge

    def typed(self, edge: Edge) -> Edge:
        """An edge to add with a type where types matter."""
        source, target, edge_type = edge
        if edge_type is None and self.num_edge_types > 1:
            raise InputError(
                f"add_edges: the model tells {self.num_edge_types} edge types apart, so the edge {source} → {target} "
                f"needs one, ({source}, {target}, type)"
            )
        return source, target, 0 if edge_type is None and self.types is not None else edge_type

    def remove(self, edge: Edge) -> None:
        source, target, edge_type = edge
        alike = (self.index[0] == source) & (self.index[1] == target)
        if self.types is not None and edge_type is not None:
            alike &= self.types == edge_type
        places = (alike & self.left).nonzero()
        if not len(places):
            kind = "" if edge_type is None else f" of type {edge_type}"
            times = int(alike.sum())
            have = f"the graph has it {times} times only" if times else "the graph has no such edge"
            raise InputError(f"remove_edges: the edge {source} → {target}{kind} cannot be removed: {have}")
        self.left[places[0]] = False

    def index_with(self, added: list[Edge]) -> Tensor:
        new = torch.tensor([edge[:2] for edge in added], dtype=torch.long).reshape(-1, 2)
        return torch.cat([self.index[:, self.left], new.T], dim=1)

    def types_with(self, added: list[Edge]) -> Tensor:
        assert self.types is not None
        return torch.cat([self.types[self.left], torch.tensor([t for _, _, t in added], dtype=torch.long)])


def _both_ways(edges: list[Edge]) -> list[Edge]:
    """The edges with their opposites, where these are not among them; a self-loop is its own."""
    listed = Counter(edges)
    opposites = {(v, u, t): count - listed[v, u, t] for (u, v, t), count in listed.items() if u != v}
    return edges + [edge for edge, lacking in opposites.items() for _ in range(lacking)]
