"""What the label of one vertex depends on where labels are evidence, written out vertex by vertex in plain Python.

The tree of the vertex has two levels, beside walks of any length; its own label is left out wherever the vertex occurs.
Nothing of the library belongs here but what the oracle knows of a model: expectations of attributes, and posteriors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gspn.testing import oracle
from gspn.testing.oracle_leaves import Array

Label = tuple[str, int]
"""Kind of a target and the number of its categories, 1 for other kinds"""

_WALK = 400
"""Steps after which a walk has stopped: by then it goes on with a probability below 1e-18."""


def blocks(
    model: oracle.Model,
    graph: oracle.Graph,
    v: int,
    labels: Array,
    targets: Sequence[Label],
    usual: Sequence[Array],
    spread: Sequence[Array],
    widths: Sequence[int],
    hidden: oracle.Hidden = frozenset(),
) -> dict[str, list[float]]:
    """The numbers by block, before they are standardised; NaN where there is nobody to tell anything.

    `labels` [N, T] are the known ones, NaN elsewhere; `usual` and `spread` are by target, `widths` by attribute: how
    many numbers tell it.
    """
    return _of_attributes(model, graph, v, widths, hidden) | _of_labels(graph, v, labels, targets, usual, spread)


def _of_attributes(
    model: oracle.Model, graph: oracle.Graph, v: int, widths: Sequence[int], hidden: oracle.Hidden
) -> dict[str, list[float]]:
    into, through = _neighbours(graph, v)
    told = {u: _own(model, graph, u, hidden) for u in range(len(graph.x))}
    states = {u: _states(model, graph, u, hidden) for u in {v, *into, *(w for others in through for w in others)}}

    def near_of(of: Mapping[int, Array], u: int) -> Array:
        return _mean([of[w] for w, _ in oracle.senders(graph, u)], len(of[u]))

    def near(of: Mapping[int, Array]) -> Array:
        return near_of(of, v)

    def far(of: Mapping[int, Array]) -> Array:
        return _mean([_mean([of[w] for w in others], len(of[v])) for others in through], len(of[v]))

    means = [told[v], near(told), far(told)]
    present = [one for one in means if not np.isnan(one).any()]
    entries = oracle.visible(model, graph, v, hidden)
    symmetric, ones = list[float](), {u: np.append(one, 1.0) for u, one in told.items()}
    for _ in range(2):
        ones = {u: _symmetric(graph, ones, u) for u in ones}
        symmetric += list(ones[v])
    filled = told
    for _ in range(10):
        filled = {u: _taken(told[u], near_of(filled, u), _is_known(model, graph, u, widths, hidden)) for u in told}
    diffused = filled
    for _ in range(10):
        diffused = {u: 0.15 * filled[u] + 0.85 * _with_own(graph, diffused, u) for u in told}
    return {
        "own": list(told[v]),
        "gaps": [math.nan if why == "hidden" else float(why == "missing") for _, why in entries.values()],
        "degree": [math.log(1 + len(into))],
        "near": list(means[1]),
        "far": list(means[2]),
        "smooth": list(sum(present[1:], start=present[0]) / len(present)),
        "symmetric": symmetric,
        "filled": list(filled[v]),
        "diffused": list(diffused[v]),
        "states": [*states[v], *near(states), *far(states)],
    }


def _of_labels(
    graph: oracle.Graph,
    v: int,
    labels: Array,
    targets: Sequence[Label],
    usual: Sequence[Array],
    spread: Sequence[Array],
) -> dict[str, list[float]]:
    into, through = _neighbours(graph, v)
    walks = [_stops(graph, v, stopping) for stopping in (0.1, 0.3)]
    reached: list[list[list[float]]] = [[[], [], []] for _ in walks]
    near, far, counts, shares = list[float](), list[float](), list[float](), list[float]()
    of_sums, of_two_hops = list[float](), list[float]()
    for t, (kind, size) in enumerate(targets):
        said = {
            u: (_label(kind, size, float(labels[u, t])) - usual[t]) / spread[t]
            for u in range(len(labels))
            if not math.isnan(labels[u, t])
        }
        nothing = np.zeros(size)
        received = [said[u] for u in into if u != v and u in said]
        near += list(sum(received, start=nothing) / (len(received) + 1.0))
        counts.append(math.log(1 + len(received)))
        of_sums += list(sum(received, start=nothing))
        total, known = nothing, 0.0
        for others in through:
            for w in others:
                if w in said:
                    total = total + said[w] / len(others) / len(through)
                    known += 1 / len(others) / len(through)
        far += list(total / (known + 0.1))
        shares.append(known)
        of_two_hops += list(total * len(through))
        for stops, (average, scaled, ends) in zip(walks, reached, strict=True):
            at_known = [u for u in stops if u in said]
            share = math.fsum(stops[u] for u in at_known)
            average += list(sum((stops[u] * said[u] for u in at_known), start=nothing) / (share + 0.02))
            ratio = {u: _root(graph, v) / _root(graph, u) for u in at_known}
            scaled += list(sum((stops[u] * ratio[u] * said[u] for u in at_known), start=nothing))
            ends.append(math.log((share + 0.02) / 0.02))
    return {
        "near labels": near,
        "far labels": far,
        "known": [*counts, *shares],
        "sums": [*of_sums, *of_two_hops],
        "reached": [number for parts in reached for part in parts for number in part],
    }


def messages(
    graph: oracle.Graph, v: int, told: Array, labels: Array, weights: Mapping[str, Array], convolves: bool
) -> Array:
    """What two layers of messages make of what vertices tell [N, W], and of known labels [N, D], 0 where there is none.

    `weights` are "bias", "near", "own", "near labels" and "own labels"; a convolution has no "own" ones.
    """
    near, of_labels = weights["near"], weights["near labels"]
    own, of_own_label = (near, of_labels) if convolves else (weights["own"], weights["own labels"])

    def others(u: int) -> list[int]:
        return [w for w, _ in oracle.senders(graph, u) if w != u]

    size = {u: 1 + len(others(u)) for u in range(len(told))}

    def hidden(u: int, sends: bool) -> Array:
        found = weights["bias"] + own @ told[u] / size[u]
        if sends:
            found = found + of_own_label @ labels[u] / size[u]
        for w in others(u):
            carried = near @ told[w] + (of_labels @ labels[w] if w != v else 0.0)
            found = found + carried / math.sqrt(size[w] * size[u])
        positive: Array = np.maximum(found, 0.0)
        return positive

    kept = hidden(v, sends=False) / size[v]
    received = sum((hidden(u, sends=True) / math.sqrt(size[u] * size[v]) for u in others(v)), start=np.zeros(len(kept)))
    told_of: Array = kept + received if convolves else np.concatenate([kept, received])
    return told_of


def _neighbours(graph: oracle.Graph, v: int) -> tuple[list[int], list[list[int]]]:
    """Who sends to v, and for each of them who else sends to it, where there is anybody."""
    into = [u for u, _ in oracle.senders(graph, v)]
    through = [[w for w, _ in oracle.senders(graph, u) if w != v] for u in into]
    return into, [others for others in through if others]


def _root(graph: oracle.Graph, u: int) -> float:
    return math.sqrt(max(1, len(oracle.senders(graph, u))))


def _symmetric(graph: oracle.Graph, of: Mapping[int, Array], v: int) -> Array:
    """Sum over the vertex and its senders, each divided by the roots of 1 + both numbers of senders."""

    def root(u: int) -> float:
        return math.sqrt(1 + len(oracle.senders(graph, u)))

    received = [of[u] / root(u) / root(v) for u, _ in oracle.senders(graph, v)]
    total: Array = sum(received, start=of[v] / root(v) ** 2)
    return total


def _with_own(graph: oracle.Graph, of: Mapping[int, Array], v: int) -> Array:
    """Mean over the vertex and its senders."""
    return _mean([of[v], *(of[u] for u, _ in oracle.senders(graph, v))], len(of[v]))


def _stops(graph: oracle.Graph, v: int, stopping: float) -> dict[int, float]:
    """Where walks from v against the edges stop, and how probably; v itself is left out."""
    at, stops = {v: 1.0}, dict[int, float]()
    for _ in range(_WALK):
        onward = dict[int, float]()
        for u, mass in at.items():
            others = [w for w, _ in oracle.senders(graph, u) if w != u]
            stops[u] = stops.get(u, 0.0) + mass * (stopping if others else 1.0)
            for w in others:
                onward[w] = onward.get(w, 0.0) + mass * (1 - stopping) / len(others)
        at = onward
    return {u: mass for u, mass in stops.items() if u != v}


def _own(model: oracle.Model, graph: oracle.Graph, u: int, hidden: oracle.Hidden) -> Array:
    told, _ = oracle.expect(model, 0, model.prior, oracle.visible(model, graph, u, hidden), None)
    return np.array(told)


def _is_known(
    model: oracle.Model, graph: oracle.Graph, u: int, widths: Sequence[int], hidden: oracle.Hidden
) -> list[bool]:
    entries = oracle.visible(model, graph, u, hidden).values()
    return [why == "observed" for (_, why), width in zip(entries, widths, strict=True) for _ in range(width)]


def _taken(own: Array, others: Array, is_known: Sequence[bool]) -> Array:
    """What is known, or else what others say, if there are any."""
    return np.where(np.array(is_known) | np.isnan(others), own, others)


def _states(model: oracle.Model, graph: oracle.Graph, u: int, hidden: oracle.Hidden) -> Array:
    _, posteriors = oracle.explain(model, 0, model.prior, oracle.visible(model, graph, u, hidden), None)
    return np.array(posteriors).reshape(-1)


def _mean(rows: Sequence[Array], size: int) -> Array:
    return sum(rows[1:], start=rows[0]) / len(rows) if rows else np.full(size, math.nan)


def _label(kind: str, size: int, label: float) -> Array:
    if kind == "categorical":
        return np.array([float(code == label) for code in range(size)])
    return np.array([math.log1p(label) if kind == "count" else label])
