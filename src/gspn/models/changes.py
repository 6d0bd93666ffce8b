"""What changes if …: the questions of `gspn.queries.what_if` as thin methods, beside the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import torch
from torch import Tensor
from torch_geometric.data import Data

from gspn.errors import InputError
from gspn.graphs import OneGraph, SeveralGraphs, is_single_graph
from gspn.graphs.edits import edit
from gspn.hierarchy.roots import COPIES_AT_ONCE
from gspn.models.checks import check_entries
from gspn.models.questions import Graphs, Questions, Vertices
from gspn.queries.contract import chunk_size
from gspn.queries.what_if import WhatIf, replacements_of, what_if, what_if_all


def _listed(edges: Iterable[Any] | None) -> list[Any] | None:
    """Edges that can be read twice; the check refuses what is not a list of edges."""
    return list(edges) if isinstance(edges, Iterable) and not isinstance(edges, str) else edges  # type: ignore[return-value]


class WhatIfQuestions(Questions):
    """The questions, with those about changes."""

    def what_if(
        self,
        graph: Data,
        changes: Mapping[int, Mapping[str, Any]] | None = None,
        add_edges: Iterable[Any] | None = None,
        remove_edges: Iterable[Any] | None = None,
        leave_one_out: bool = True,
        directed: bool | None = None,
        derived: bool = True,
    ) -> WhatIf:
        """Log-likelihoods of the vertices before and after changes, all made at once: `{4: {"element": "O"}}`.

        Sides are compared over entries observed on both; an entry that is unknown on one side is not scored at its own
        vertex, but other vertices still use it.

        An edge is (source, target) or (source, target, type), one occurrence of it; a model with several edge types
        needs the type of an added edge. A graph in which every edge has its opposite, of the same type, stays so: an
        edge given here stands for its opposite, too.

        In molecules, hydrogens, hybridisation, partial charges and the like follow from elements, charges and bonds:
        they are recomputed where the changed molecule is possible, otherwise made unknown at the changed atoms. The
        answer reports what was done; values in `changes` are taken literally.

        graph: one graph.
        changes: values by vertex and attribute, as the schema has them; None is unknown.
        add_edges, remove_edges: edges to add and to remove.
        leave_one_out: True scores every vertex given all others, False by the paper's pseudo-likelihood, in which it
            sees its own value.
        directed: True takes edges literally, False adds the opposites in any graph; None adds them where every edge
            of the graph has its opposite.
        derived: whether attributes of molecules are recomputed.
        """
        self._tell_objective(leave_one_out)
        if not is_single_graph(graph):
            raise InputError(f"what_if compares two versions of one graph, a Data; got {type(graph).__name__}")
        before = self._pack(graph)
        added, removed = (_listed(edges) for edges in (add_edges, remove_edges))
        settings: dict[str, Any] = {"directed": directed, "num_edge_types": self.num_edge_types}
        edited = edit(before[0], self.schema, changes, added, removed, **settings)
        follows, problem = (
            self._following(before[0], changes or {}, added or (), removed or ()) if derived else ({}, None)
        )
        if follows:
            every = {v: {**follows.get(v, {}), **(changes or {}).get(v, {})} for v in {*follows, *(changes or {})}}
            edited = edit(before[0], self.schema, every, added, removed, **settings)
        after = self._pack(edited.graph)
        for dataset in (before, after):
            self._check_magnitudes(dataset)
        old, new = (dataset.batch(torch.arange(1)) for dataset in (before, after))
        found = what_if(self.answering, old, new, edited.revalued, edited.rewired, leave_one_out)
        return replace(found, derived=follows, problem=problem)

    def _following(
        self, graph: Data, changes: Mapping[int, Mapping[str, Any]], added: Sequence[Any], removed: Sequence[Any]
    ) -> tuple[dict[int, dict[str, Any]], str | None]:
        """Entries that follow from changes of a molecule, and why they are unknown, if they are."""
        if not {"element", "atomic_number"} & {*self.schema.names}:
            return {}, None
        from gspn.convert.derived import derive  # only where atoms may be meant

        found = derive(graph, self.schema, changes, added, removed)
        return found.entries, found.problem

    @overload
    def what_if_all(
        self,
        graphs: SeveralGraphs,
        attribute: str,
        vertices: None = None,
        leave_one_out: bool = True,
        values: Sequence[Any] | Tensor | None = None,
    ) -> list[Tensor]: ...
    @overload
    def what_if_all(
        self,
        graphs: OneGraph,
        attribute: str,
        vertices: Vertices = None,
        leave_one_out: bool = True,
        values: Sequence[Any] | Tensor | None = None,
    ) -> Tensor: ...
    def what_if_all(
        self,
        graphs: Graphs,
        attribute: str,
        vertices: Vertices = None,
        leave_one_out: bool = True,
        values: Sequence[Any] | Tensor | None = None,
    ) -> Tensor | list[Tensor]:
        """[N, K] change of the graph's total for every single replacement of an entry: `what_if(…).total` for all.

        Columns are the categories in schema order, False and True, or the given `values`.

        graphs: one graph, or a sequence of graphs, which gives a list.
        attribute: the name of the attribute to replace.
        vertices: numbers of some vertices of one graph; None asks for all.
        leave_one_out: as in `what_if`.
        values: the values to try; continuous attributes and counts need them.
        """
        self._tell_objective(leave_one_out)
        column, codes = replacements_of(self.schema, attribute, values)
        beyond = torch.full((len(codes), len(self.schema)), torch.nan, dtype=torch.float64)
        beyond[:, column] = codes
        for hierarchy in self._hierarchies:
            check_entries(hierarchy, beyond, lambda row: "")
        budget = min(chunk_size(self.answering), COPIES_AT_ONCE)
        return self._ask(
            graphs,
            lambda batch, numbers: what_if_all(self.answering, batch, column, codes, numbers, leave_one_out, budget),
            vertices,
        )
