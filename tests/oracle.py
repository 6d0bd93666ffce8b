"""The definition of what is right: Algorithm 1 written literally, one tree at a time, in float64.

For one root vertex the oracle grows the whole computational tree node by node, walks it from level 0 to the root and
enumerates, at every node, all induced trees of the template. The library is compared with it; the two share no code.

What does not belong here: anything of the library, vectorisation over vertices, reuse of equal subtrees, derivatives
of circuits, learning. Graphs, levels and circuits must therefore be small.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Hidden: TypeAlias = AbstractSet[tuple[int, int]]  # (vertex, column) pairs
Unit: TypeAlias = tuple[Any, ...]  # ("sum", j, [children]) | ("product", [children]) | ("leaf", attribute, m)
Leaves: TypeAlias = dict[str, dict[str, Array]]  # parameters by attribute and name


@dataclass(frozen=True)
class Model:
    """A template with its parameters, in the user's units; S sum units, C states, L levels, T edge types, M leaves.

    `leaves` holds arrays [levels with own parameters, M, ...]: continuous {"mean", "std"}, categorical {"probs"}
    [.., M, K], binary {"probs"} (of the value 1), count {"rate"}, negative_binomial {"mean", "dispersion"} with
    variance = mean + dispersion * mean^2. With a shortcut the root has no parameters of its own: L - 1 rows.
    """

    circuit: Unit
    kinds: dict[str, str]  # attribute -> kind, in column order
    prior: Array  # [S, C]
    transitions: Array  # [L-1, T, S, C, C]; transitions[l-1, t, j] maps a posterior of level l-1 to a prior of level l
    leaves: Leaves
    shortcut: Array | None = None  # weights [L-1] of the levels 0 ... L-2

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
    priors: Array = field(init=False)  # [S, C]
    posteriors: Array = field(init=False)  # [S, C]


def root(model: Model, graph: Graph, v: int, hidden: Hidden = frozenset()) -> Result:
    """The tree of v with `hidden` marginalised at every node; `log_likelihood` has them back at the root alone."""
    tree = infer(model, graph, grow(graph, v, model.num_levels - 1), hidden)
    log_visible, _ = explain(model, tree.level, tree.priors, visible(model, graph, v, hidden))
    log_all, _ = explain(model, tree.level, tree.priors, visible(model, graph, v))
    return Result(log_all, log_visible, tree.priors, tree.posteriors)


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
    return Node(vertex, level, edge_type, [grow(graph, u, level - 1, t) for u, t in incoming])


def nodes(tree: Node) -> Iterator[Node]:
    yield tree
    for child in tree.children:
        yield from nodes(child)


def infer(model: Model, graph: Graph, tree: Node, hidden: Hidden = frozenset()) -> Node:
    """Algorithm 1: level by level, the priors and the posteriors of every node of the tree."""
    for level in range(tree.level + 1):
        for node in (n for n in nodes(tree) if n.level == level):
            node.priors = mix(model, node) if node.children else model.prior
            _, node.posteriors = explain(model, level, node.priors, visible(model, graph, node.vertex, hidden))
    return tree


def mix(model: Model, node: Node) -> Array:
    """The prior of each sum unit j: the mean over the children of theta_j^T h_j."""
    priors = np.zeros_like(model.prior)
    for child in node.children:
        for j, h in enumerate(child.posteriors):
            priors[j] += model.transitions[node.level - 1, child.edge_type, j].T @ h / len(node.children)
    return priors


def visible(model: Model, graph: Graph, vertex: int, hidden: Hidden = frozenset()) -> dict[str, float]:
    """The vertex's entries, by attribute, that are neither missing nor hidden."""
    entries = enumerate(zip(model.kinds, map(float, graph.x[vertex]), strict=True))
    return {name: x for column, (name, x) in entries if not math.isnan(x) and (vertex, column) not in hidden}


# ---- One node: the template


def explain(model: Model, level: int, priors: Array, evidence: dict[str, float]) -> tuple[float, Array]:
    """log P(evidence) and the posteriors [S, C], by summing over all induced trees of the template.

    An induced tree that reaches sum unit j gives its probability to the state it picks there; one that does not
    reach j tells nothing about j and spreads its probability as the prior does.
    """
    leaves = parameters(model, level)
    trees = list(induced_trees(model.circuit, model.kinds, leaves, priors, evidence))
    total = log_sum_exp(weight for _, weight in trees)
    if total == -math.inf:
        return total, np.full_like(priors, math.nan)
    h = np.zeros_like(priors)
    for picks, weight in trees:
        probability = math.exp(weight - total)
        for j in range(len(priors)):
            if j in picks:
                h[j, picks[j]] += probability
            else:
                h[j] += probability * priors[j]
    return total, h


def induced_trees(
    unit: Unit, kinds: dict[str, str], leaves: Leaves, priors: Array, evidence: dict[str, float]
) -> Iterator[tuple[dict[int, int], float]]:
    """All complete choices below a unit: the state picked at each reached sum unit, and the log weight."""
    match unit:
        case ("leaf", name, m):
            yield {}, log_density(kinds[name], leaves[name], m, evidence[name]) if name in evidence else 0.0
        case ("product", children):
            choices = (list(induced_trees(child, kinds, leaves, priors, evidence)) for child in children)
            for combination in itertools.product(*choices):
                picks = {j: k for part, _ in combination for j, k in part.items()}
                assert len(picks) == sum(len(part) for part, _ in combination), "the circuit is not decomposable"
                yield picks, math.fsum(weight for _, weight in combination)
        case ("sum", j, children):
            for k, child in enumerate(children):
                for picks, weight in induced_trees(child, kinds, leaves, priors, evidence):
                    assert j not in picks, "the circuit has a cycle"
                    yield {j: k, **picks}, log(float(priors[j, k])) + weight
        case _:
            raise ValueError(f"not a unit of a circuit: {unit!r}")


def parameters(model: Model, level: int) -> Leaves:
    """The leaf parameters of a level; those of the root are combined from the levels below if there is a shortcut."""
    if model.shortcut is None or level < model.num_levels - 1:
        return {name: {key: rows[level] for key, rows in leaf.items()} for name, leaf in model.leaves.items()}
    w, combined = model.shortcut, {}
    for name, leaf in model.leaves.items():
        combined[name] = {key: np.tensordot(w, rows, axes=1) for key, rows in leaf.items()}
        if model.kinds[name] == "continuous":  # a weighted sum of independent Gaussians
            combined[name]["std"] = np.sqrt(np.tensordot(w**2, leaf["std"] ** 2, axes=1))
    return combined


def log_density(kind: str, leaf: dict[str, Array], m: int, x: float) -> float:
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
