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
from gspn.queries.what_if import Alternative, WhatIf, replacements_of, what_if, what_if_all


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
        from gspn.convert.derived import Derived, changed  # models load nothing of reading before they need it

        self._tell_objective(leave_one_out)
        if not is_single_graph(graph):
            raise InputError(f"what_if compares two versions of one graph, a Data; got {type(graph).__name__}")
        before = self._pack(graph)
        asked = before[0], self.schema, changes or {}, _listed(add_edges) or (), _listed(remove_edges) or ()
        settings: dict[str, Any] = {"directed": directed, "num_edge_types": self.num_edge_types}
        edited, follows = changed(*asked, **settings) if derived else (edit(*asked, **settings), Derived())
        after = self._pack(edited.graph)
        for dataset in (before, after):
            self._check_magnitudes(dataset)
        old, new = (dataset.batch(torch.arange(1)) for dataset in (before, after))
        found = what_if(self.answering, old, new, edited.revalued, edited.rewired, leave_one_out)
        return replace(found, derived=follows.entries, problem=follows.problem, forbidden=follows.forbidden)

    def replacements(
        self,
        graph: Data,
        attribute: str,
        *,
        vertices: Vertices = None,
        values: Sequence[Any] | None = None,
        changes: Mapping[int, Mapping[str, Any]] | None = None,
        add_edges: Iterable[Any] | None = None,
        remove_edges: Iterable[Any] | None = None,
        leave_one_out: bool = True,
        directed: bool | None = None,
        progress: bool = False,
    ) -> list[Alternative]:
        """Every other value of an attribute at every vertex: what it changes of the whole graph, and what follows.

        The same as `what_if` of each. In molecules an atom that becomes another element takes its hydrogens and
        all that follows along, and `forbidden` marks what valences forbid.

        graph: one graph.
        attribute: the name of the attribute to replace.
        vertices: numbers of some vertices; None asks for all.
        values: the values to try, None for unknown; continuous attributes and counts need them.
        changes, add_edges, remove_edges, directed: changes that come first, as in `what_if`.
        leave_one_out: as in `what_if`.
        progress: whether a bar is shown.
        """
        from gspn.models.replacing import replacements, values_of

        if not is_single_graph(graph):
            raise InputError(f"replacements are of one graph, a Data; got {type(graph).__name__}")
        checked = self._pack(graph)[0]
        after = {
            "changes": changes or {},
            "add_edges": _listed(add_edges) or (),
            "remove_edges": _listed(remove_edges) or (),
            "directed": directed,
            "num_edge_types": self.num_edge_types,
        }
        numbers = range(len(checked.x)) if vertices is None else torch.as_tensor(vertices).reshape(-1).tolist()
        tried = values_of(self.schema, attribute) if values is None else list(values)
        return replacements(self, checked, attribute, list(numbers), tried, after, leave_one_out, progress)

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
        """[N, K] change of the graph's total for every single replacement of an entry, all else being as it is.

        `what_if(…, derived=False).total` for all, in one pass; `replacements` also derives what follows. Columns are
        the categories in schema order, False and True, or the given `values`.

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
