"""What a fitted model can be asked: thin methods that check, cut into chunks and call `gspn.queries`."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data

from gspn.attributes import Schema
from gspn.circuits.distributions import check_draws
from gspn.errors import InputError
from gspn.graphs import Batch, GraphDataset, is_single_graph, pack
from gspn.hierarchy import Hierarchy
from gspn.models.arguments import check_choice
from gspn.models.compatibility import check_magnitudes
from gspn.queries import missing
from gspn.queries.conditional import conditional, conditional_of_one
from gspn.queries.likelihood import log_likelihood, log_prob_hidden

_log = logging.getLogger(__name__)

_NUMBERS_AT_ONCE = 40_000_000
"""Posterior entries that public methods compute in one chunk (about 160 MB in float32, a few times that in all)."""

Graphs: TypeAlias = Data | Sequence[Data] | GraphDataset
Vertices: TypeAlias = Sequence[int] | Tensor | None


class Questions:
    """The questions; what is asked is the model that inherits them."""

    schema: Schema
    num_layers: int
    num_states: int
    objective: str
    hierarchy: Hierarchy

    if TYPE_CHECKING:

        def _require_fitted(self) -> None: ...
        def _pack(self, graphs: Graphs) -> GraphDataset: ...

    # Likelihoods and representations.

    def log_likelihood(self, graphs: Graphs, leave_one_out: bool = False, vertices: Vertices = None) -> Any:
        """[N] log P(x_v | tree below v), or with `leave_one_out` log P(x_v | all other vertices).

        `vertices` asks for some vertices of one graph only. A sequence of graphs gives a list.
        """
        ask = log_prob_hidden if leave_one_out else log_likelihood
        return self._ask(graphs, lambda batch, numbers: ask(self.hierarchy, batch, numbers), vertices)

    def posteriors(self, graphs: Graphs) -> Any:
        """[N, L, S, C] posterior of every sum unit of every level; a list for a sequence of graphs."""
        return self._ask(graphs, lambda batch, _: self.hierarchy(batch).posteriors)

    def embed(self, graphs: Graphs) -> Any:
        """[N, L·S·C] the posteriors as one vector a vertex; a list for a sequence of graphs."""
        return self._ask(graphs, lambda batch, _: self.hierarchy(batch).posteriors.flatten(1))

    def transform(self, graphs: Graphs) -> Any:
        """The same as `embed`, under the name that pipelines use."""
        return self.embed(graphs)

    # Conditionals and missing entries.

    def conditional(self, graphs: Graphs, attributes: str | Sequence[str], vertices: Vertices = None) -> Any:
        """The distribution of an attribute at every vertex (or the given ones), given all else that is observed.

        An entry that is asked for is never in its own evidence: the answer is the same whether it was observed or
        missing. For one name: n univariate distributions (`log_prob`, `mean`, `variance`, `mode`, `entropy`, `sample`;
        discrete ones `probs`, `categories`; others `quantile`, `interval`). For a list of names: n joint ones
        (`log_prob`, `marginal`, `condition`, `sample`, `mode`). A sequence of graphs gives a list.
        """
        self._tell_objective()
        names = _checked_names(self.schema, attributes)
        ask = conditional_of_one if isinstance(attributes, str) else conditional
        return self._ask(graphs, lambda batch, numbers: ask(self.hierarchy, batch, numbers, names), vertices)

    def log_prob_missing(self, graphs: Graphs, truth: Any) -> Any:
        """[N] joint log-density of each vertex's missing entries at `truth`, given all that is observed.

        `truth` is a tensor [N, d] or a graph with the same vertices (a sequence of them for a sequence of graphs); only
        the entries that are missing in the graph are read from it, and one that is NaN there too is summed out. 0 where
        nothing is missing.
        """
        self._tell_objective()
        truths = self._truths(graphs, truth)
        return self._ask(graphs, lambda batch, _: missing.log_prob_missing(self.hierarchy, batch, _rows(truths, batch)))

    def impute(self, graphs: Graphs, how: str = "mean", generator: torch.Generator | None = None) -> Any:
        """A copy of the graph with missing entries filled; a list for a sequence of graphs.

        `how`: "mean" takes the mean of continuous attributes and the mode of the others, "mode" the mode of each entry,
        "sample" a draw that is joint within a vertex. Everything else of the graph stays as it is.
        """
        check_choice("how", how, missing.HOW)
        self._tell_objective()
        filled = self._ask(graphs, lambda batch, _: missing.fill(self.hierarchy, batch, how, generator))
        if is_single_graph(graphs):
            return _with_entries(graphs, filled)
        return [_with_entries(graph, x) for graph, x in zip(_listed(graphs), filled, strict=True)]

    def sample_missing(self, graphs: Graphs, n: int, generator: torch.Generator | None = None) -> Any:
        """[n, N, d] copies of the entries with missing ones drawn given what is observed, for multiple imputation.

        Joint within a vertex, independent across vertices: a joint over several vertices is not defined.
        """
        check_draws(n)
        self._tell_objective()
        # Vertices first, as everywhere, so that draws are cut by graph like other answers.
        drawn = self._ask(
            graphs, lambda batch, _: missing.sample_missing(self.hierarchy, batch, n, generator).transpose(0, 1)
        )
        return drawn.transpose(0, 1) if isinstance(drawn, Tensor) else [one.transpose(0, 1) for one in drawn]

    # How a question is put.

    @torch.no_grad()
    def _ask(self, graphs: Graphs, answer: Callable[[Batch, Tensor], Any], vertices: Vertices = None) -> Any:
        """Answers about vertices, in chunks, one a graph."""
        self._require_fitted()
        dataset = self._pack(graphs)
        check_magnitudes(self.hierarchy, dataset)
        if is_single_graph(graphs):
            batch = dataset.batch(torch.arange(1))
            every = torch.arange(batch.num_vertices)
            return answer(batch, every if vertices is None else _numbers(vertices, batch.num_vertices))
        if vertices is not None:
            raise InputError("vertices can be chosen in one graph only, not in a sequence of graphs")
        answers: list[Any] = []
        for batch in dataset.chunks(self._chunk_size()):
            found, ends = answer(batch, torch.arange(batch.num_vertices)), batch.vertex_ptr.tolist()
            answers.extend(found[start:end] for start, end in itertools.pairwise(ends))
        return answers

    def _chunk_size(self) -> int:
        numbers = self.num_layers * self.hierarchy.template.num_sum_units * self.num_states
        return max(1, _NUMBERS_AT_ONCE // numbers)

    def _truths(self, graphs: Graphs, truth: Any) -> list[Tensor]:
        """Checked true entries [N, d], one tensor a graph."""
        sizes = self._pack(graphs).num_vertices_per_graph().tolist()
        truths = [truth] if is_single_graph(graphs) else list(truth)
        if len(truths) != len(sizes):
            raise InputError(f"there are {len(sizes)} graphs, but truth has {len(truths)}")
        tables = [Data(x=one.x if isinstance(one, Data) else one) for one in truths]
        for number, (size, table) in enumerate(zip(sizes, tables, strict=True)):
            if not isinstance(table.x, Tensor) or table.x.shape[:1] != (size,):
                found = list(table.x.shape) if isinstance(table.x, Tensor) else type(table.x).__name__
                raise InputError(f"truth of graph {number} must have shape {[size, len(self.schema)]}, got {found}")
        try:
            known = pack(tables, self.schema)
            check_magnitudes(self.hierarchy, known)
        except InputError as error:
            raise InputError(f"truth: {error}") from error
        return list(known.entries().split(sizes))

    def _tell_objective(self) -> None:
        """Say once what a model that was trained with the paper's objective is not made for."""
        if self.__dict__.get("_told") or not self.__dict__.get("history_"):
            return
        if self.objective == "pseudo" and self.num_layers > 1:
            self.__dict__["_told"] = True
            _log.warning(
                "this model was trained with objective='pseudo', which hears a vertex's own echo; "
                "objective='masked' answers questions about hidden entries better"
            )


def _rows(by_graph: list[Tensor], batch: Batch) -> Tensor:
    return torch.cat([by_graph[graph] for graph in batch.graph_ids.tolist()])


def _listed(graphs: Any) -> list[Data]:
    return graphs.to_data_list() if hasattr(graphs, "to_data_list") else list(graphs)


def _with_entries(graph: Any, x: Tensor) -> Data:
    copy: Data = graph.clone()
    copy.x = x.to(graph.x.dtype).to(graph.x.device)
    return copy


def _checked_names(schema: Schema, names: Any) -> list[str]:
    listed = [names] if isinstance(names, str) or not isinstance(names, Sequence) else list(names)
    for name in listed:
        schema.index(name)
    if not listed or len(set(listed)) < len(listed):
        raise InputError(f"attributes must be one name or several different ones, got {listed}")
    return listed


def _numbers(vertices: Sequence[int] | Tensor, num_vertices: int) -> Tensor:
    try:
        numbers = torch.as_tensor(vertices).reshape(-1)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"vertices must be integers, got {vertices!r}") from error
    if numbers.numel() and (numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool):
        raise InputError(f"vertices must be integers, got {numbers.dtype}")
    outside = (numbers < 0) | (numbers >= num_vertices)
    if outside.any():
        raise InputError(f"vertex {int(numbers[outside][0])} does not exist: the graph has {num_vertices} vertices")
    return numbers.long()
