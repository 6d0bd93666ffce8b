"""The definition of what is right: Algorithm 1 written literally, one tree at a time, in float64.

For one root vertex the oracle grows the whole computational tree node by node, walks it from level 0 to the root and
enumerates, at every node, all induced trees of the template. The library is compared with it; the two share no code.
Leaves and aggregations that it does not know are brought by whoever asks, as plain functions of plain numbers.

What does not belong here: anything of the library, vectorisation over vertices, reuse of equal subtrees, derivatives
of circuits, learning. Graphs, levels and circuits must therefore be small.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Hidden: TypeAlias = AbstractSet[tuple[int, int]]  # (vertex, column) pairs
Scope: TypeAlias = str | tuple[str, ...]  # an attribute, or several that have a leaf in common
Unit: TypeAlias = tuple[Any, ...]  # ("sum", j, [children]) | ("product", [children]) | ("leaf", scope, m)
Leaves: TypeAlias = Mapping[Any, Mapping[str, Array]]  # parameters by scope and name
Entry: TypeAlias = tuple[float | None, str]  # the value, if there is one, and "observed", "missing" or "hidden"
Received: TypeAlias = Sequence[float] | None  # the context of a node; None where nothing was received

Density: TypeAlias = Callable[[Mapping[str, Any], Sequence[float | None], Sequence[str], Received], float]
"""(parameters of one leaf, values of its scope, their codes, context) -> log density, unknown values summed out."""

Expectation: TypeAlias = Callable[
    [Mapping[str, Any], Sequence[float | None], Sequence[str], Received], list[list[float]]
]
"""The same -> for each attribute of the scope what is told of it, in expectation where it is unknown."""


@dataclass(frozen=True)
class Message:
    """What travels along one edge."""

    posterior: Array  # [S, C] of the sender, at the level below
    edge_type: int
    sender_out_degree: int  # in the whole graph, with multiplicity
    receiver_in_degree: int


Mix: TypeAlias = Callable[[int, list[Message], Array, Array], Array]
"""(level, messages, transitions [T, S, C, C], prior of level 0 [S, C]) -> prior [S, C] of the receiver"""

Weigh: TypeAlias = Callable[[list[Message]], list[float]]
"""The weight of each message in the context of the receiver; they sum to 1."""


@dataclass(frozen=True)
class Model:
    """A template with its parameters, in the user's units; S sum units, C states, L levels, T edge types, M leaves.

    `leaves` holds arrays [levels with own parameters, M, ...]: continuous {"mean", "std"}, categorical {"probs"}
    [.., M, K], binary {"probs"} (of the value 1), count {"rate"}, negative_binomial {"mean", "dispersion"} with
    variance = mean + dispersion * mean^2. With a shortcut the root has no parameters of its own: L - 1 rows.

    A scope in `densities` has leaves of another family, with parameters under any names. Where `contextual`, every
    vertex tells its receivers what it expects of its entries, and leaves may depend on what is received: continuous
    entries are told in `units`, categories as probabilities, counts as log(1 + x).
    """

    circuit: Unit
    kinds: dict[str, str]  # attribute -> kind, in column order
    prior: Array  # [S, C]
    transitions: Array  # [L-1, T, S, C, C]; transitions[l-1, t, j] maps a posterior of level l-1 to a prior of level l
    leaves: Leaves
    shortcut: Array | None = None  # weights [L-1] of the levels 0 ... L-2
    densities: Mapping[Scope, Density] = field(default_factory=dict)
    expectations: Mapping[Scope, Expectation] = field(default_factory=dict)
    contextual: bool = False
    units: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # centre and spread by attribute
    mix: Mix | None = None  # None: the mean
    weigh: Weigh | None = None  # None: all alike

    def __post_init__(self) -> None:
        arrays = [self.prior, self.transitions, *(rows for leaf in self.leaves.values() for rows in leaf.values())]
        arrays += [] if self.shortcut is None else [self.shortcut]
        assert all(array.dtype == np.float64 for array in arrays), "the oracle computes in float64"

    @property
    def num_levels(self) -> int:
        return len(self.transitions) + 1


@dataclass(frozen=True)
class Graph:
    """Attributes [N, d], NaN = missing, and edges (source, target, type), which count as often as they are given."""

    x: Array
    edges: list[tuple[int, int, int]]


@dataclass(frozen=True)
class Result:
    """What the root of one tree says about its vertex."""

    log_likelihood: float  # log P(observed entries, the hidden ones included | tree below the root)
    log_visible: float  # log P(observed entries that are not hidden | tree below the root)
    priors: Array  # [S, C]
    posteriors: Array  # [S, C], given the visible entries; NaN if these have probability zero


@dataclass(frozen=True)
class Readout:
    """What stands on top of a model with targets, in the user's units; G graph states.

    `leaves` are those of a `Model`, one row a graph state: arrays [G, ...].
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
    context: list[float] | None = None
    told: list[float] = field(default_factory=list)  # what it expects of its entries, attribute after attribute
    priors: Array = field(init=False)  # [S, C]
    posteriors: Array = field(init=False)  # [S, C]


def root(model: Model, graph: Graph, v: int, hidden: Hidden = frozenset()) -> Result:
    """The tree of v with `hidden` marginalised at every node; `log_likelihood` has them back at the root alone."""
    tree = infer(model, graph, grow(graph, v, model.num_levels - 1), hidden)
    log_visible, _ = explain(model, tree.level, tree.priors, visible(model, graph, v, hidden), tree.context)
    log_all, _ = explain(model, tree.level, tree.priors, visible(model, graph, v), tree.context)
    return Result(log_all, log_visible, tree.priors, tree.posteriors)


def answer(model: Model, graph: Graph, v: int, values: Mapping[int, float], hidden: Hidden = frozenset()) -> float:
    """log density of v's unknown entries at the values, by column: they become known, and why they were not stays.

    Asked for entries that are hidden, it is that of a conditional; for missing ones, that of filling gaps.
    """
    tree = infer(model, graph, grow(graph, v, model.num_levels - 1), hidden)
    before = visible(model, graph, v, hidden)
    after = dict(before)
    for column, value in values.items():
        name = list(model.kinds)[column]
        assert before[name][0] is None, f"'{name}' is known"
        after[name] = (float(value), before[name][1])
    given, _ = explain(model, tree.level, tree.priors, before, tree.context)
    together, _ = explain(model, tree.level, tree.priors, after, tree.context)
    return together - given


def log_likelihood(model: Model, graph: Graph, v: int) -> float:
    """v's term of the pseudo-likelihood: nothing is hidden, so v may hear its own echo."""
    return root(model, graph, v).log_likelihood


def leave_one_out(model: Model, graph: Graph, v: int) -> float:
    """log P(observed entries of v | the rest of the graph)."""
    return root(model, graph, v, {(v, column) for column in range(len(model.kinds))}).log_likelihood


def entry(model: Model, graph: Graph, v: int, column: int) -> float:
    """log P(entry | v's other observed entries, the rest of the graph); 0 for a missing entry."""
    result = root(model, graph, v, {(v, column)})
    return result.log_likelihood - result.log_visible


def masked(model: Model, graph: Graph, hidden: Hidden) -> list[float]:
    """For each vertex log P(its hidden entries | everything visible); 0 if it hides no observed entry."""
    terms = []
    for v, row in enumerate(graph.x):
        if any(vertex == v and not math.isnan(row[column]) for vertex, column in hidden):
            result = root(model, graph, v, hidden)
            terms.append(result.log_likelihood - result.log_visible)
        else:
            terms.append(0.0)
    return terms


def posteriors(model: Model, graph: Graph, v: int) -> Array:
    """[L, S, C]: v as the root of its own trees that end at level 0, 1, ..., L-1."""
    return np.stack([infer(model, graph, grow(graph, v, level)).posteriors for level in range(model.num_levels)])


# ---- The readout


def graph_states(model: Model, head: Readout, graph: Graph, vertices: Iterable[int]) -> Array:
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


def readout(model: Model, head: Readout, graph: Graph, targets: Iterable[float], vertex: int | None = None) -> float:
    """log P(observed targets | graph), or those of one vertex; a target that is NaN is missing."""
    weights = graph_states(model, head, graph, range(len(graph.x)) if vertex is None else [vertex])
    observed = {name: y for name, y in zip(head.kinds, targets, strict=True) if not math.isnan(y)}
    return log_sum_exp(
        log(float(weight)) + math.fsum(log_density(head.kinds[t], head.leaves[t], i, y) for t, y in observed.items())
        for i, weight in enumerate(weights)
    )


# ---- The tree


def grow(graph: Graph, vertex: int, level: int, edge_type: int | None = None) -> Node:
    """The tree below one occurrence of a vertex: one child per incoming edge, down to level 0."""
    incoming = [(u, t) for u, target, t in graph.edges if target == vertex] if level > 0 else []
    children = [grow(graph, u, level - 1, t) for u, t in incoming]
    return Node(vertex, level, edge_type, children, sum(source == vertex for source, _, _ in graph.edges))


def nodes(tree: Node) -> Iterator[Node]:
    yield tree
    for child in tree.children:
        yield from nodes(child)


def infer(model: Model, graph: Graph, tree: Node, hidden: Hidden = frozenset()) -> Node:
    """Algorithm 1: level by level, the priors and the posteriors of every node of the tree."""
    for level in range(tree.level + 1):
        for node in (n for n in nodes(tree) if n.level == level):
            entries = visible(model, graph, node.vertex, hidden)
            node.priors = mix(model, node) if level > 0 else model.prior
            node.context = received(model, node) if model.contextual and node.children else None
            _, node.posteriors = explain(model, level, node.priors, entries, node.context)
            if model.contextual:
                node.told = expect(model, level, node.priors, entries, node.context)
    return tree


def mix(model: Model, node: Node) -> Array:
    """The prior of each sum unit j: the mean over the children of theta_j^T h_j, or what the model has instead."""
    if model.mix is not None:
        return model.mix(node.level, messages(node), model.transitions[node.level - 1], model.prior)
    if not node.children:
        return model.prior
    priors = np.zeros_like(model.prior)
    for child in node.children:
        for j, h in enumerate(child.posteriors):
            priors[j] += model.transitions[node.level - 1, child.edge_type, j].T @ h / len(node.children)
    return priors


def received(model: Model, node: Node) -> list[float]:
    """The context: what the children expect, weighted."""
    children = node.children
    weights = [1 / len(children)] * len(children) if model.weigh is None else model.weigh(messages(node))
    columns = zip(*(child.told for child in children), strict=True)
    return [math.fsum(w * e for w, e in zip(weights, column, strict=True)) for column in columns]


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


# ---- One node: the template


@dataclass(frozen=True)
class Induced:
    """One complete choice below a unit of the template."""

    picks: dict[int, int]  # the state at each reached sum unit
    reached: list[tuple[Scope, int]]  # the leaves
    log_weight: float


def explain(
    model: Model, level: int, priors: Array, entries: dict[str, Entry], context: Received = None
) -> tuple[float, Array]:
    """log P(entries) and the posteriors [S, C], by summing over all induced trees of the template.

    An induced tree that reaches sum unit j gives its probability to the state it picks there; one that does not
    reach j tells nothing about j and spreads its probability as the prior does.
    """
    trees = list(induced_trees(model, level, model.circuit, priors, entries, context))
    total = log_sum_exp(tree.log_weight for tree in trees)
    if total == -math.inf:
        return total, np.full_like(priors, math.nan)
    h = np.zeros_like(priors)
    for tree in trees:
        probability = math.exp(tree.log_weight - total)
        for j in range(len(priors)):
            if j in tree.picks:
                h[j, tree.picks[j]] += probability
            else:
                h[j] += probability * priors[j]
    return total, h


def expect(model: Model, level: int, priors: Array, entries: dict[str, Entry], context: Received = None) -> list[float]:
    """What a node tells of its entries: what each leaf expects, weighted by the trees that reach it."""
    trees = list(induced_trees(model, level, model.circuit, priors, entries, context))
    total = log_sum_exp(tree.log_weight for tree in trees)
    told: dict[str, Any] = {}
    for tree in trees:
        probability = math.exp(tree.log_weight - total)
        for scope, m in tree.reached:
            own = told_by_leaf(model, level, scope, m, entries, context)
            for name, numbers in zip(names_of(scope), own, strict=True):
                before = told.get(name, [0.0] * len(numbers))
                told[name] = [b + probability * n for b, n in zip(before, numbers, strict=True)]
    return [number for name in model.kinds for number in told[name]]


def induced_trees(
    model: Model, level: int, unit: Unit, priors: Array, entries: dict[str, Entry], context: Received
) -> Iterator[Induced]:
    """All complete choices below a unit."""
    match unit:
        case ("leaf", scope, m):
            yield Induced({}, [(scope, m)], log_leaf(model, level, scope, m, entries, context))
        case ("product", children):
            choices = (list(induced_trees(model, level, child, priors, entries, context)) for child in children)
            for parts in itertools.product(*choices):
                picks = {j: k for part in parts for j, k in part.picks.items()}
                assert len(picks) == sum(len(part.picks) for part in parts), "the circuit is not decomposable"
                leaves = [leaf for part in parts for leaf in part.reached]
                yield Induced(picks, leaves, math.fsum(part.log_weight for part in parts))
        case ("sum", j, children):
            for k, child in enumerate(children):
                for tree in induced_trees(model, level, child, priors, entries, context):
                    assert j not in tree.picks, "the circuit has a cycle"
                    weight = log(float(priors[j, k])) + tree.log_weight
                    yield Induced({j: k, **tree.picks}, tree.reached, weight)
        case _:
            raise ValueError(f"not a unit of a circuit: {unit!r}")


# ---- Leaves


def names_of(scope: Scope) -> tuple[str, ...]:
    return (scope,) if isinstance(scope, str) else scope


def log_leaf(model: Model, level: int, scope: Scope, m: int, entries: dict[str, Entry], context: Received) -> float:
    """Log density of what is known of a leaf's scope."""
    leaf, (values, codes) = parameters(model, level, scope), known(scope, entries)
    if scope in model.densities:
        return model.densities[scope]({key: rows[m] for key, rows in leaf.items()}, values, codes, context)
    (name,), (value,) = names_of(scope), values
    return 0.0 if value is None else log_density(model.kinds[name], leaf, m, value)


def told_by_leaf(
    model: Model, level: int, scope: Scope, m: int, entries: dict[str, Entry], context: Received
) -> list[list[float]]:
    """For each attribute of the scope what a vertex tells of it if this leaf is its distribution."""
    leaf, (values, codes) = parameters(model, level, scope), known(scope, entries)
    if scope in model.expectations:
        return model.expectations[scope]({key: rows[m] for key, rows in leaf.items()}, values, codes, context)
    (name,), (value,) = names_of(scope), values
    match model.kinds[name]:
        case "continuous":
            center, spread = model.units.get(name, (0.0, 1.0))
            return [[((float(leaf["mean"][m]) if value is None else value) - center) / spread]]
        case "categorical":
            probs = [float(p) for p in leaf["probs"][m]]
            return [probs if value is None else [float(code == value) for code in range(len(probs))]]
        case "binary":
            return [[float(leaf["probs"][m]) if value is None else value]]
        case kind:  # a count
            if value is not None:
                return [[math.log1p(value)]]
            probs = [math.exp(log_density(kind, leaf, m, float(n))) for n in range(2000)]
            assert math.fsum(probs) > 1 - 1e-12, f"'{name}' has larger counts than the oracle sums over"
            return [[math.fsum(p * math.log1p(n) for n, p in enumerate(probs))]]


def known(scope: Scope, entries: dict[str, Entry]) -> tuple[list[float | None], list[str]]:
    """Values and codes of a scope."""
    own = [entries[name] for name in names_of(scope)]
    return [value for value, _ in own], [code for _, code in own]


def parameters(model: Model, level: int, scope: Scope) -> dict[str, Array]:
    """A scope's parameters at a level; those of the root are combined from the levels below if there is a shortcut."""
    leaf = model.leaves[scope]
    if model.shortcut is None or level < model.num_levels - 1:
        return {key: rows[level] for key, rows in leaf.items()}
    combined = {key: np.tensordot(model.shortcut, rows, axes=1) for key, rows in leaf.items()}
    if isinstance(scope, str) and model.kinds[scope] == "continuous":  # a weighted sum of independent Gaussians
        combined["std"] = np.sqrt(np.tensordot(model.shortcut**2, leaf["std"] ** 2, axes=1))
    return combined


def log_density(kind: str, leaf: Mapping[str, Array], m: int, x: float) -> float:
    """Log density (or probability) of the value x under the m-th leaf of an attribute."""
    match kind:
        case "continuous":
            mean, std = float(leaf["mean"][m]), float(leaf["std"][m])
            return -0.5 * ((x - mean) / std) ** 2 - log(std) - 0.5 * log(2 * math.pi)
        case "categorical":
            return log(float(leaf["probs"][m, int(x)]))
        case "binary":
            p = float(leaf["probs"][m])
            return log(p) if x == 1 else log(1 - p)
        case "count":
            rate = float(leaf["rate"][m])
            return log_power(rate, int(x)) - rate
        case "negative_binomial":  # the Gamma functions written out as a product: exact for tiny dispersions, too
            mean, dispersion = float(leaf["mean"][m]), float(leaf["dispersion"][m])
            spread = math.log1p(dispersion * mean)
            ratios = math.fsum(math.log1p(dispersion * i) - spread for i in range(int(x)))
            return log_power(mean, int(x)) + ratios - spread / dispersion
    raise ValueError(f"no such kind of attribute: {kind!r}")


def log_power(mean: float, x: int) -> float:
    """log(mean^x / x!)"""
    return (x * log(mean) if x > 0 else 0.0) - math.lgamma(x + 1)


def log(p: float) -> float:
    return -math.inf if p == 0 else math.log(p)


def log_sum_exp(terms: Iterable[float]) -> float:
    values = list(terms)
    top = max(values)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(value - top) for value in values))
