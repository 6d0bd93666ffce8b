"""The questions that a fitted model answers: thin methods that check, cut into chunks and call `gspn.queries`."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, overload

import torch
from torch import Tensor
from torch_geometric.data import Data

from gspn.arguments import check_choice, check_integer
from gspn.attributes import Schema
from gspn.circuits.distributions import Distribution, check_draws
from gspn.circuits.given import Joint, Roots
from gspn.errors import InputError
from gspn.graphs import Batch, GraphDataset, OneGraph, SeveralGraphs, is_single_graph, pack
from gspn.graphs import Graphs as Graphs
from gspn.hierarchy import Hierarchy
from gspn.models.checks import check_edge_types, check_magnitudes
from gspn.queries.contract import Answering, chunk_size
from gspn.queries.entries import HOW, conditional, conditional_of_one, fill, gaps_of, sample_missing
from gspn.queries.pseudo_gibbs import pseudo_gibbs
from gspn.queries.scoring import per_entry, rank, score_entries, totals, training_scores

Vertices: TypeAlias = Sequence[int] | Tensor | None

Answer = TypeVar("Answer")
"""Something with a row per vertex"""


class Questions:
    """The questions; the model that inherits them answers by its `answering`."""

    schema: Schema
    num_edge_types: int
    training_scores_: dict[str, list[float]] | None

    if TYPE_CHECKING:

        @property
        def answering(self) -> Answering: ...
        @property
        def _hierarchies(self) -> Sequence[Hierarchy]: ...
        def _require_fitted(self) -> None: ...
        def _tell_objective(self, hidden: bool = True) -> None: ...

    # Likelihoods.

    @overload
    def log_likelihood(
        self, graphs: SeveralGraphs, leave_one_out: bool = False, vertices: None = None
    ) -> list[Tensor]: ...
    @overload
    def log_likelihood(self, graphs: OneGraph, leave_one_out: bool = False, vertices: Vertices = None) -> Tensor: ...
    def log_likelihood(
        self, graphs: Graphs, leave_one_out: bool = False, vertices: Vertices = None
    ) -> Tensor | list[Tensor]:
        """[N] log P(x_v | tree below v), the paper's, or with `leave_one_out` log P(x_v | all other vertices).

        graphs: one graph, or a sequence of graphs, which gives a list.
        leave_one_out: whether a vertex is hidden in its own tree. Here it is not unless asked for: these are the terms
            of the paper's objective. Scores and `what_if`, which say how likely something is, hide it.
        vertices: numbers of some vertices of one graph; None asks for all.
        """
        return self._ask(
            graphs,
            self.answering.log_prob_hidden if leave_one_out else self.answering.log_likelihood,
            vertices,
        )

    # Conditionals and missing entries.

    # A text is a sequence of texts, too; that it comes first makes it one name.
    @overload
    def conditional(  # type: ignore[overload-overlap]
        self, graphs: SeveralGraphs, attributes: str, vertices: None = None
    ) -> list[Distribution]: ...
    @overload
    def conditional(self, graphs: SeveralGraphs, attributes: Sequence[str], vertices: None = None) -> list[Joint]: ...
    @overload
    def conditional(  # type: ignore[overload-overlap]
        self, graphs: OneGraph, attributes: str, vertices: Vertices = None
    ) -> Distribution: ...
    @overload
    def conditional(self, graphs: OneGraph, attributes: Sequence[str], vertices: Vertices = None) -> Joint: ...
    def conditional(
        self, graphs: Graphs, attributes: str | Sequence[str], vertices: Vertices = None
    ) -> Distribution | Joint | list[Distribution] | list[Joint]:
        """The distribution of an attribute at every vertex (or the given ones), given all else that is observed.

        An entry that is asked for is never in its own evidence: the answer is the same whether it was observed or
        missing. For one name, returns n univariate distributions (`log_prob`, `mean`, `variance`, `mode`, `entropy`,
        `sample`; discrete ones `probs`, `categories`; others `quantile`, `interval`). For a list of names, n joint ones
        (`log_prob`, `marginal`, `condition`, `sample`, `mode`).

        graphs: one graph, or a sequence of graphs, which gives a list.
        attributes: a name, or a list of names.
        vertices: numbers of some vertices of one graph; None asks for all.
        """
        self._tell_objective()
        names = _checked_names(self.schema, attributes)
        if isinstance(attributes, str):
            of_one = self._ask(
                graphs, lambda batch, numbers: conditional_of_one(self.answering, batch, numbers, names), vertices
            )
            return of_one
        of_several = self._ask(
            graphs, lambda batch, numbers: conditional(self.answering, batch, numbers, names), vertices
        )
        return of_several

    @overload
    def log_prob_missing(self, graphs: SeveralGraphs, truth: Any) -> list[Tensor]: ...
    @overload
    def log_prob_missing(self, graphs: OneGraph, truth: Any) -> Tensor: ...
    def log_prob_missing(self, graphs: Graphs, truth: Any) -> Tensor | list[Tensor]:
        """[N] joint log-density of each vertex's missing entries at `truth`, given all that is observed.

        0 where nothing is missing.

        graphs: one graph, or a sequence of graphs, which gives a list.
        truth: a tensor [N, d] or a graph with the same vertices (a sequence of them for a sequence of graphs). Only
            the entries that are missing in the graph are read from it; one that is also NaN there is summed out.
        """
        self._tell_objective()
        graphs = _kept(graphs)
        truths = self._truths(graphs, truth)
        return self._ask(graphs, lambda batch, _: self.answering.log_prob_missing(batch, _rows(truths, batch)))

    @overload
    def impute(
        self, graphs: SeveralGraphs, how: str = "mean", generator: torch.Generator | None = None
    ) -> list[Data]: ...
    @overload
    def impute(self, graphs: OneGraph, how: str = "mean", generator: torch.Generator | None = None) -> Data: ...
    def impute(self, graphs: Graphs, how: str = "mean", generator: torch.Generator | None = None) -> Data | list[Data]:
        """A copy of the graph with missing entries filled, and everything else as it is.

        graphs: one graph, or a sequence of graphs, which gives a list.
        how: "mean" takes the mean of continuous attributes and the mode of the others, "median" the median of numbers
            and the mode of the others, "mode" the mode of each entry, "closest" the value of least expected error (the
            mean of numbers, rounded for counts, and the mode of the others), "sample" a draw that is joint within a
            vertex.
        generator: what "sample" draws from; None is torch's own.
        """
        check_choice("how", how, HOW)
        self._tell_objective()
        graphs = _kept(graphs)
        filled = self._ask(graphs, lambda batch, _: fill(self.answering, batch, how, generator))
        if isinstance(filled, Tensor):
            return with_entries(graphs, filled)
        return [with_entries(graph, x) for graph, x in zip(listed(graphs), filled, strict=True)]

    def gaps_of(self, dataset: GraphDataset) -> Iterator[tuple[Batch, Tensor, Roots]]:
        """Answers about gaps, for callers with several questions: chunks, vertices with gaps, their roots."""
        self._require_fitted()
        self._tell_objective()
        dataset = self._pack(dataset)
        self._check_magnitudes(dataset)
        for batch in dataset.chunks(chunk_size(self.answering)):
            vertices = (~batch.observed).any(1).nonzero().squeeze(1)
            yield batch, vertices, gaps_of(self.answering, batch, vertices)

    @overload
    def sample_missing(
        self, graphs: SeveralGraphs, n: int, generator: torch.Generator | None = None
    ) -> list[Tensor]: ...
    @overload
    def sample_missing(self, graphs: OneGraph, n: int, generator: torch.Generator | None = None) -> Tensor: ...
    def sample_missing(self, graphs: Graphs, n: int, generator: torch.Generator | None = None) -> Tensor | list[Tensor]:
        """[n, N, d] copies of the entries with missing ones drawn given what is observed, for multiple imputation.

        Joint within a vertex, independent across vertices: a joint over several vertices is not defined.

        graphs: one graph, or a sequence of graphs, which gives a list.
        n: number of draws.
        generator: where randomness comes from; None is torch's own.
        """
        check_draws(n)
        self._tell_objective()
        # Vertices first, as everywhere, so that draws are cut by graph like other answers.
        drawn = self._ask(graphs, lambda batch, _: sample_missing(self.answering, batch, n, generator).transpose(0, 1))
        return drawn.transpose(0, 1) if isinstance(drawn, Tensor) else [one.transpose(0, 1) for one in drawn]

    @overload
    def pseudo_gibbs(
        self,
        graphs: SeveralGraphs,
        n: int = 1,
        sweeps: int = 20,
        entries: str = "all",
        vertices: None = None,
        generator: torch.Generator | None = None,
    ) -> list[Tensor]: ...
    @overload
    def pseudo_gibbs(
        self,
        graphs: OneGraph,
        n: int = 1,
        sweeps: int = 20,
        entries: str = "all",
        vertices: Vertices = None,
        generator: torch.Generator | None = None,
    ) -> Tensor: ...
    def pseudo_gibbs(
        self,
        graphs: Graphs,
        n: int = 1,
        sweeps: int = 20,
        entries: str = "all",
        vertices: Vertices = None,
        generator: torch.Generator | None = None,
    ) -> Tensor | list[Tensor]:
        """[n, N, d] whole attribute sets: n chains in which vertex after vertex is drawn given all others.

        Not an exact sampler: the model is a family of conditionals, one for each vertex, which need not belong to one
        joint distribution; the chains' limit may depend on the order of the vertices. Every sweep costs a pass for each
        group of vertices that do not depend on each other: in small dense graphs, one pass per vertex.

        graphs: one graph, or a sequence of graphs, which gives a list.
        n: number of chains.
        sweeps: how often each chain visits all vertices.
        entries: "all" draws every entry anew, "missing" only missing ones.
        vertices: numbers of some vertices of one graph to draw; None draws all.
        generator: where randomness comes from; None is torch's own.
        """
        check_draws(n)
        check_integer("sweeps", sweeps, 0)
        check_choice("entries", entries, ("all", "missing"))
        self._tell_objective()

        def draw(batch: Batch, numbers: Tensor) -> Tensor:
            redrawn = torch.zeros(batch.x.shape, dtype=torch.bool)
            redrawn[numbers] = True if entries == "all" else ~batch.observed[numbers]
            return pseudo_gibbs(self.answering, batch, redrawn, n, sweeps, generator).transpose(0, 1)

        drawn = self._ask(graphs, draw, vertices)
        return drawn.transpose(0, 1) if isinstance(drawn, Tensor) else [one.transpose(0, 1) for one in drawn]

    # Scores.

    @overload
    def score_entries(self, graphs: SeveralGraphs, vertices: None = None) -> list[Tensor]: ...
    @overload
    def score_entries(self, graphs: OneGraph, vertices: Vertices = None) -> Tensor: ...
    def score_entries(self, graphs: Graphs, vertices: Vertices = None) -> Tensor | list[Tensor]:
        """[N, d] log P(entry | the vertex's other observed entries, all other vertices); NaN where it is missing.

        Always leave-one-out: an entry is never in its own evidence. The lowest one is what is strange about a vertex.

        graphs: one graph, or a sequence of graphs, which gives a list.
        vertices: numbers of some vertices of one graph; None asks for all.
        """
        self._tell_objective()
        return self._ask(graphs, lambda batch, numbers: score_entries(self.answering, batch, numbers), vertices)

    @overload
    def score_vertices(
        self, graphs: SeveralGraphs, leave_one_out: bool = True, vertices: None = None
    ) -> list[Tensor]: ...
    @overload
    def score_vertices(self, graphs: OneGraph, leave_one_out: bool = True, vertices: Vertices = None) -> Tensor: ...
    def score_vertices(
        self, graphs: Graphs, leave_one_out: bool = True, vertices: Vertices = None
    ) -> Tensor | list[Tensor]:
        """[N] log-likelihood of every vertex per observed entry, given all other vertices; NaN where none is observed.

        Comparable between vertices with different gaps.

        graphs: one graph, or a sequence of graphs, which gives a list.
        leave_one_out: True, as if not said otherwise, hides a vertex in its own tree; False takes the paper's
            pseudo-likelihood.
        vertices: numbers of some vertices of one graph; None asks for all.
        """
        return self._score_vertices(graphs, leave_one_out, vertices)

    def _score_vertices(self, graphs: Graphs, leave_one_out: bool, vertices: Vertices) -> Tensor | list[Tensor]:
        self._tell_objective(leave_one_out)
        return self._ask(
            graphs,
            lambda batch, numbers: per_entry(totals(self.answering, batch, numbers, leave_one_out)),
            vertices,
        )

    @overload
    def score_graphs(self, graphs: SeveralGraphs, leave_one_out: bool = True) -> Tensor: ...
    @overload
    def score_graphs(self, graphs: OneGraph, leave_one_out: bool = True) -> float: ...
    def score_graphs(self, graphs: Graphs, leave_one_out: bool = True) -> float | Tensor:
        """The log-likelihood of all vertices per observed entry: one number for a graph, [G] for a sequence of graphs.

        Comparable between graphs of different sizes and gaps; NaN where nothing is observed.

        graphs: one graph, or a sequence of graphs.
        leave_one_out: as in `score_vertices`.
        """
        self._tell_objective(leave_one_out)
        found = self._ask(graphs, lambda batch, numbers: totals(self.answering, batch, numbers, leave_one_out))
        if isinstance(found, Tensor):
            return per_entry(found.sum(0)).item()
        return torch.stack([per_entry(one.sum(0)) for one in found])

    @overload
    def unusualness_of_vertices(self, graphs: SeveralGraphs, vertices: None = None) -> list[Tensor]: ...
    @overload
    def unusualness_of_vertices(self, graphs: OneGraph, vertices: Vertices = None) -> Tensor: ...
    def unusualness_of_vertices(self, graphs: Graphs, vertices: Vertices = None) -> Tensor | list[Tensor]:
        """[N] the share of the training vertices (a sample) that have a higher `score_vertices`: that are more usual.

        1 is stranger than all of them; about uniform on vertices like those of training. Leave-one-out, as the scores.

        graphs: one graph, or a sequence of graphs, which gives a list.
        vertices: numbers of some vertices of one graph; None asks for all.
        """
        among = self._kept_scores("vertices")
        found = self._score_vertices(graphs, True, vertices)
        return rank(found, among) if isinstance(found, Tensor) else [rank(one, among) for one in found]

    @overload
    def unusualness_of_graphs(self, graphs: SeveralGraphs) -> Tensor: ...
    @overload
    def unusualness_of_graphs(self, graphs: OneGraph) -> float: ...
    def unusualness_of_graphs(self, graphs: Graphs) -> float | Tensor:
        """The share of the training graphs (a sample) that have a higher `score_graphs`: that are more usual."""
        shares = rank(torch.as_tensor(self.score_graphs(graphs)), self._kept_scores("graphs"))
        return shares.item() if is_single_graph(graphs) else shares

    @overload
    def rank_vertices(self, graphs: SeveralGraphs, vertices: None = None) -> list[Tensor]: ...
    @overload
    def rank_vertices(self, graphs: OneGraph, vertices: Vertices = None) -> Tensor: ...
    def rank_vertices(self, graphs: Graphs, vertices: Vertices = None) -> Tensor | list[Tensor]:
        """The old name of `unusualness_of_vertices`, which goes away in the next minor version."""
        _tell_new_name("rank_vertices", "unusualness_of_vertices")
        unusualness: Any = self.unusualness_of_vertices
        found: Tensor | list[Tensor] = unusualness(graphs, vertices)
        return found

    def rank_graphs(self, graphs: Graphs) -> float | Tensor:
        """The old name of `unusualness_of_graphs`, which goes away in the next minor version."""
        _tell_new_name("rank_graphs", "unusualness_of_graphs")
        return self.unusualness_of_graphs(graphs)

    def keep_scores(self, graphs: Graphs, most_vertices: int = 1_000, seed: int = 0) -> Self:
        """Keep the scores of (a sample of) these graphs to compare others with; `fit` does it with the training graphs.

        graphs: one graph, or a sequence of graphs.
        most_vertices: at most this many vertices are scored, and whole graphs with at most this many in all.
        seed: fixes the sample.
        """
        check_integer("most_vertices", most_vertices, 1)
        self._require_fitted()
        dataset = self._pack(graphs)
        self._check_magnitudes(dataset)
        self.training_scores_ = training_scores(self.answering, dataset, most_vertices, seed)
        return self

    def _kept_scores(self, of: str) -> list[float]:
        self._require_fitted()
        scores: dict[str, list[float]] = getattr(self, "training_scores_", None) or {}
        if not scores.get(of):
            raise InputError(f"there are no scores of {of} to compare with; call keep_scores with typical graphs")
        return scores[of]

    # How a question is asked.

    @torch.no_grad()
    def _ask(
        self, graphs: Graphs, answer: Callable[[Batch, Tensor], Answer], vertices: Vertices = None
    ) -> Answer | list[Answer]:
        """Answers about vertices, in chunks, one per graph."""
        self._require_fitted()
        dataset = self._pack(graphs)
        self._check_magnitudes(dataset)
        if is_single_graph(graphs):
            batch = dataset.batch(torch.arange(1))
            every = torch.arange(batch.num_vertices)
            return answer(batch, every if vertices is None else _numbers(vertices, batch.num_vertices))
        if vertices is not None:
            raise InputError("vertices can be chosen in one graph only, not in a sequence of graphs")
        answers: list[Answer] = []
        for batch in dataset.chunks(chunk_size(self.answering)):
            found: Any = answer(batch, torch.arange(batch.num_vertices))
            if isinstance(found, Tensor):  # in one go: there may be a hundred thousand graphs
                answers.extend(found.split(batch.vertex_ptr.diff().tolist()))
            else:
                answers.extend(found[start:end] for start, end in itertools.pairwise(batch.vertex_ptr.tolist()))
        return answers

    def _pack(self, graphs: Graphs) -> GraphDataset:
        dataset = pack(graphs, self.schema)
        check_edge_types(dataset, self.num_edge_types)
        return dataset

    def _check_magnitudes(self, dataset: GraphDataset) -> None:
        for hierarchy in self._hierarchies:
            check_magnitudes(hierarchy, dataset)

    def _truths(self, graphs: Graphs, truth: Any) -> list[Tensor]:
        """Checked true entries [N, d], one tensor per graph."""
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
            self._check_magnitudes(known)
        except InputError as error:
            raise InputError(f"truth: {error}") from error
        return list(known.entries().split(sizes))


def _tell_new_name(old: str, new: str) -> None:
    warnings.warn(f"{old} is now called {new}", FutureWarning, stacklevel=3)


def _rows(by_graph: list[Tensor], batch: Batch) -> Tensor:
    return torch.cat([by_graph[graph] for graph in batch.graph_ids.tolist()])


def _kept(graphs: Any) -> Any:
    """Graphs that can be iterated over twice."""
    return list(graphs) if isinstance(graphs, Iterator) else graphs


def listed(graphs: Any) -> list[Data]:
    """A sequence of graphs, one by one as they were given."""
    return graphs.to_data_list() if hasattr(graphs, "to_data_list") else list(graphs)


def with_entries(graph: Any, x: Tensor) -> Data:
    """A copy of the graph with other entries, everything else as it is."""
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
