"""The definition of what is right: Algorithm 1 written literally, one tree at a time, in float64.

For one root vertex the oracle grows the whole computational tree node by node, walks it from level 0 to the root and
enumerates, at every node, all induced trees of the template. The library is compared with it; the two share no code.
Leaves and aggregations that it does not know are brought by whoever asks, as plain functions of plain numbers. Leaves
that it has are in `oracle_leaves`, one node with its template in `oracle_template`; what nodes receive where leaves
regress on neighbours, in `oracle_contexts`.

What does not belong here: anything of the library, vectorisation over vertices, reuse of equal subtrees, derivatives
of circuits, learning. Graphs, levels and circuits must therefore be small.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from gspn.testing import oracle_contexts
from gspn.testing.oracle_atoms import log_guard
from gspn.testing.oracle_contexts import Regression
from gspn.testing.oracle_leaves import Array, NodeContext, log, log_density, log_sum_exp
from gspn.testing.oracle_template import (
    Context,
    Density,
    Entry,
    Expectation,
    Induced,
    Leaves,
    Message,
    Mix,
    Model,
    Received,
    Scope,
    Unit,
    Weigh,
    expect,
    explain,
    induced_trees,
    names_of,
)

__all__ = [
    "Array",
    "Context",
    "Density",
    "Entry",
    "Expectation",
    "Graph",
    "Hidden",
    "Induced",
    "Leaves",
    "Message",
    "Mix",
    "Model",
    "Node",
    "NodeContext",
    "ReadoutParameters",
    "Received",
    "Regression",
    "Result",
    "Scope",
    "Unit",
    "Weigh",
    "answer",
    "answering",
    "answers",
    "entry",
    "expect",
    "explain",
    "graph_states",
    "grow",
    "induced_trees",
    "infer",
    "leave_one_out",
    "log_density",
    "log_likelihood",
    "log_sum_exp",
    "masked",
    "names_of",
    "posteriors",
    "readout",
    "root",
    "visible",
]

Hidden: TypeAlias = AbstractSet[tuple[int, int]]  # (vertex, column) pairs


@dataclass(frozen=True)
class Graph:
    """Attributes [N, d], NaN = missing, and edges (source, target, type), which count as often as they are given."""

    x: Array
    edges: list[tuple[int, int, int]]


@dataclass(frozen=True)
class Result:
    """What the root of one tree says about its vertex.

    With a regression, a vertex without incoming edges has the priors by which it is answered for; its posteriors are
    those it sends.
    """

    log_likelihood: float  # log P(observed entries, the hidden ones included | tree below the root)
    log_visible: float  # log P(observed entries that are not hidden | tree below the root)
    priors: Array  # [S, C]
    posteriors: Array  # [S, C], given the visible entries; NaN if these have probability zero


@dataclass(frozen=True)
class ReadoutParameters:
    """What stands on top of a model with targets, in the user's units; G graph states.

    `leaves` are those of a `Model`, one row per graph state: arrays [G, ...].
    """

    kinds: dict[str, str]  # target -> kind, in column order
    transitions: Array  # [L, S, C, G]
    leaves: Leaves
    pooling: str  # "sum" | "mean"


@dataclass
class Node:
    """One occurrence of a vertex in a tree."""

    vertex: int
    level: int
    edge_type: int | None  # of the edge to the parent; None at the root
    children: list[Node]
    sender_out_degree: int = 0  # of its vertex
    further: list[list[Node]] = field(default_factory=list)  # for each child its senders, without this vertex
    context: Context = None
    told: list[float] = field(default_factory=list)  # what it expects of its entries, attribute after attribute
    uncertainty: Array | None = None  # the covariance of what it tells
    priors: Array = field(init=False)  # [S, C]
    posteriors: Array = field(init=False)  # [S, C]


def root(model: Model, graph: Graph, v: int, hidden: Hidden = frozenset()) -> Result:
    """The tree of v with `hidden` marginalised at every node; `log_likelihood` has them back at the root alone."""
    tree = infer(model, graph, grow(graph, v, model.num_levels - 1, hops=model.hops), hidden)
    level, priors, context = answering(model, tree)
    log_visible, _ = explain(model, level, priors, visible(model, graph, v, hidden), context)
    log_all, _ = explain(model, level, priors, visible(model, graph, v), context)
    return Result(log_all, log_visible, priors, tree.posteriors)


def answering(model: Model, tree: Node) -> tuple[int, Array, Context]:
    """Level, priors and context that answer for the vertex at the root of a tree: the root's own.

    With a regression, a vertex without incoming edges is answered for by level 0, which expects no neighbours.
    """
    if model.regression is not None and not tree.children:
        return 0, model.prior, None
    return tree.level, tree.priors, tree.context


def answer(
    model: Model,
    graph: Graph,
    v: int,
    values: Mapping[int, float],
    hidden: Hidden = frozenset(),
    *,
    guard: float = 0.0,
) -> float:
    """log density of v's unknown entries at the values, by column: they become known, and why they were not stays.

    Asked for entries that are hidden, it is that of a conditional; for missing ones, that of filling gaps. `guard` is
    the weight of a component with Cauchys in place of the density of continuous entries; their atoms share its weight.
    """
    return answers(model, graph, v, hidden, guard=guard)(values)


def answers(
    model: Model, graph: Graph, v: int, hidden: Hidden = frozenset(), *, guard: float = 0.0
) -> Callable[[Mapping[int, float]], float]:
    """`answer` as a function of the values: none of them is seen in the tree."""
    level, priors, context = answering(
        model, infer(model, graph, grow(graph, v, model.num_levels - 1, hops=model.hops), hidden)
    )
    before, names = visible(model, graph, v, hidden), list(model.kinds)
    given, _ = explain(model, level, priors, before, context)

    def plain(values: Mapping[int, float]) -> float:
        after = dict(before)
        for column, value in values.items():
            name = names[column]
            assert before[name][0] is None, f"'{name}' is known"
            after[name] = (float(value), before[name][1])
        return explain(model, level, priors, after, context)[0] - given

    def guarded(values: Mapping[int, float]) -> float:
        discrete = {column: x for column, x in values.items() if model.kinds[names[column]] != "continuous"}
        continuous = {names[column]: x for column, x in values.items() if column not in discrete}
        if guard == 0 or not continuous:
            return plain(values)
        far = math.fsum(
            log_guard(x, model.units.get(name, (0.0, 1.0)), model.atoms.get(name, ())) for name, x in continuous.items()
        )
        return log_sum_exp([log(1 - guard) + plain(values), log(guard) + far + plain(discrete)])

    return guarded


def log_likelihood(model: Model, graph: Graph, v: int) -> float:
    """v's term of the pseudo-likelihood: nothing is hidden, so v may see its own value."""
    return root(model, graph, v).log_likelihood


def leave_one_out(model: Model, graph: Graph, v: int) -> float:
    """log P(observed entries of v, and where gaps are evidence which are missing | the rest of the graph)."""
    return root(model, graph, v, {(v, column) for column in range(len(model.kinds))}).log_likelihood


def entry(model: Model, graph: Graph, v: int, column: int) -> float:
    """log P(entry | v's other entries, the rest of the graph); 0 for a missing entry, unless gaps are evidence."""
    result = root(model, graph, v, {(v, column)})
    return result.log_likelihood - result.log_visible


def masked(model: Model, graph: Graph, hidden: Hidden) -> list[float]:
    """For each vertex log P(its hidden entries, also gaps that are evidence | everything visible); 0 without any."""
    terms = []
    for v in range(len(graph.x)):
        if any(vertex == v for vertex, _ in hidden):
            result = root(model, graph, v, hidden)
            terms.append(result.log_likelihood - result.log_visible)
        else:
            terms.append(0.0)
    return terms


def posteriors(model: Model, graph: Graph, v: int) -> Array:
    """[L, S, C]: v as the root of its own trees that end at level 0, 1, ..., L-1."""
    trees = [grow(graph, v, level, hops=model.hops) for level in range(model.num_levels)]
    return np.stack([infer(model, graph, tree).posteriors for tree in trees])


# ---- The readout


def graph_states(model: Model, head: ReadoutParameters, graph: Graph, vertices: Iterable[int]) -> Array:
    """[G] the weights of the graph states, from every vertex as the root of its own trees of every height.

    Each state's posterior hands its share to the graph states by its own row of the transitions, one after another. The
    total is divided by the number of posteriors (mean pooling) or put through a softmax (sum pooling). Without any
    vertex nothing is known: all graph states are alike.
    """
    total, number = np.zeros(head.transitions.shape[-1]), 0
    for vertex in vertices:
        for level, h in enumerate(posteriors(model, graph, vertex)):
            for j in range(len(h)):
                for k in range(len(h[j])):
                    total = total + h[j, k] * head.transitions[level, j, k]
                number += 1
    if number == 0:
        return np.full(len(total), 1 / len(total))
    if head.pooling == "mean":
        return total / number
    weights = np.exp(total - total.max())
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def readout(
    model: Model, head: ReadoutParameters, graph: Graph, targets: Iterable[float], vertex: int | None = None
) -> float:
    """log P(observed targets | graph), or those of one vertex; a target that is NaN is missing."""
    weights = graph_states(model, head, graph, range(len(graph.x)) if vertex is None else [vertex])
    observed = {name: y for name, y in zip(head.kinds, targets, strict=True) if not math.isnan(y)}
    return log_sum_exp(
        log(float(weight)) + math.fsum(log_density(head.kinds[t], head.leaves[t], i, y) for t, y in observed.items())
        for i, weight in enumerate(weights)
    )


# ---- The tree


def grow(graph: Graph, vertex: int, level: int, edge_type: int | None = None, hops: int = 1) -> Node:
    """The tree below one occurrence of a vertex: one child per incoming edge, down to level 0.

    With two hops also one node, of the children's level, for each edge that a child's vertex receives from others.
    """
    incoming = senders(graph, vertex) if level > 0 else []
    children = [grow(graph, u, level - 1, t, hops) for u, t in incoming]
    node = Node(vertex, level, edge_type, children, sum(source == vertex for source, _, _ in graph.edges))
    if hops == 2:
        for u, _ in incoming:
            others = [(w, t) for w, t in senders(graph, u) if w != vertex]
            node.further.append([grow(graph, w, level - 1, t, hops) for w, t in others])
    return node


def senders(graph: Graph, vertex: int) -> list[tuple[int, int]]:
    """Source and type of every incoming edge."""
    return [(u, t) for u, target, t in graph.edges if target == vertex]


def nodes(tree: Node) -> Iterator[Node]:
    yield tree
    for child in itertools.chain(tree.children, *tree.further):
        yield from nodes(child)


def infer(model: Model, graph: Graph, tree: Node, hidden: Hidden = frozenset()) -> Node:
    """Algorithm 1: level by level, the priors and the posteriors of every node of the tree."""
    for level in range(tree.level + 1):
        for node in (n for n in nodes(tree) if n.level == level):
            entries = visible(model, graph, node.vertex, hidden)
            node.priors = mix(model, node) if level > 0 else model.prior
            node.context = received(model, node)
            _, node.posteriors = explain(model, level, node.priors, entries, node.context)
            if model.tells:
                node.told, node.uncertainty = expect(model, level, node.priors, entries, node.context)
    return tree


def mix(model: Model, node: Node) -> Array:
    """The prior of each sum unit j: the mean over the children of theta_j^T h_j, or what the model has instead."""
    start = model.prior
    if model.regression is not None:
        shares = model.regression.edge_shares
        start = oracle_contexts.priors_without_edges(model.prior, model.transitions, shares)[node.level]
    if model.mix is not None:
        return model.mix(node.level, messages(node), model.transitions[node.level - 1], start)
    if not node.children:
        return start
    priors = np.zeros_like(model.prior)
    for child in node.children:
        for j, h in enumerate(child.posteriors):
            priors[j] += model.transitions[node.level - 1, child.edge_type, j].T @ h / len(node.children)
    return priors


def received(model: Model, node: Node) -> Context:
    """The context: what the children expect, weighted; with a regression, relative to what is usual."""
    children, regression = node.children, model.regression
    if not children:
        return None if regression is None or node.level == 0 else regression.nothing(node.level)
    if not model.tells:
        return None
    weights = [1 / len(children)] * len(children) if model.weigh is None else model.weigh(messages(node))
    near = oracle_contexts.from_neighbours([np.array(child.told) for child in children], weights)
    if regression is None:
        return [float(number) for number in near]
    far = oracle_contexts.from_their_neighbours([[np.array(w.told) for w in of_edge] for of_edge in node.further])
    uncertainty = np.zeros((len(near), len(near)))
    if regression.variance > 0:
        covariances = [child.uncertainty for child in children if child.uncertainty is not None]
        assert len(covariances) == len(children), "nobody has said how uncertain what is told is"
        uncertainty = oracle_contexts.uncertainty([child.vertex for child in children], covariances, weights)
    return regression.received(node.level, near, far, uncertainty)


def messages(node: Node) -> list[Message]:
    degree = len(node.children)
    return [Message(c.posteriors, c.edge_type or 0, c.sender_out_degree, degree) for c in node.children]


def visible(model: Model, graph: Graph, vertex: int, hidden: Hidden = frozenset()) -> dict[str, Entry]:
    """The vertex's entries by attribute: their values, and why there is none."""
    entries: dict[str, Entry] = {}
    for column, (name, x) in enumerate(zip(model.kinds, map(float, graph.x[vertex]), strict=True)):
        if (vertex, column) in hidden:
            entries[name] = (None, "hidden")
        else:
            entries[name] = (None, "missing") if math.isnan(x) else (x, "observed")
    return entries
