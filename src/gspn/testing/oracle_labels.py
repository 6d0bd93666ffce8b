"""What the label of one vertex depends on where labels are evidence, written out vertex by vertex in plain Python.

The tree of the vertex has two levels; its own label is left out of it wherever the vertex occurs. Nothing of the
library belongs here but what the oracle knows of a model: what is expected of attributes, and posteriors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gspn.testing import oracle
from gspn.testing.oracle_leaves import Array

Label = tuple[str, int]
"""Kind of a target and the number of its categories, 1 for other kinds"""


def blocks(
    model: oracle.Model,
    graph: oracle.Graph,
    v: int,
    labels: Array,
    targets: Sequence[Label],
    usual: Sequence[Array],
    spread: Sequence[Array],
    hidden: oracle.Hidden = frozenset(),
) -> dict[str, list[float]]:
    """The numbers by block, before they are standardised; NaN where there is nobody to tell anything.

    `labels` [N, T] are the known ones, NaN elsewhere; `usual` and `spread` are by target.
    """
    into = [u for u, _ in oracle.senders(graph, v)]
    through = [[w for w, _ in oracle.senders(graph, u) if w != v] for u in into]
    through = [others for others in through if others]
    told = {u: _own(model, graph, u, hidden) for u in {v, *into, *(w for others in through for w in others)}}
    states = {u: _states(model, graph, u, hidden) for u in told}

    def near(of: Mapping[int, Array]) -> Array:
        return _mean([of[u] for u in into], len(of[v]))

    def far(of: Mapping[int, Array]) -> Array:
        return _mean([_mean([of[w] for w in others], len(of[v])) for others in through], len(of[v]))

    means = [told[v], near(told), far(told)]
    present = [one for one in means if not np.isnan(one).any()]
    entries = oracle.visible(model, graph, v, hidden)
    gaps = [math.nan if why == "hidden" else float(why == "missing") for _, why in entries.values()]
    found: dict[str, list[float]] = {
        "own": list(told[v]),
        "gaps": gaps,
        "degree": [math.log(1 + len(into))],
        "near": list(means[1]),
        "far": list(means[2]),
        "smooth": list(sum(present[1:], start=present[0]) / len(present)),
        "states": [*states[v], *near(states), *far(states)],
        "near labels": [],
        "far labels": [],
    }
    counts, shares = [], []
    for t, (kind, size) in enumerate(targets):

        def said(u: int, t: int = t, kind: str = kind, size: int = size) -> Array | None:
            label = labels[u, t]
            if math.isnan(label):
                return None
            told = _label(kind, size, float(label))
            relative: Array = (told - usual[t]) / spread[t]
            return relative

        received = [one for u in into if u != v and (one := said(u)) is not None]
        found["near labels"] += list(sum(received, start=np.zeros(size)) / (len(received) + 1.0))
        counts.append(math.log(1 + len(received)))
        total, known = np.zeros(size), 0.0
        for others in through:
            for w in others:
                one = said(w)
                if one is not None:
                    total = total + one / len(others) / len(through)
                    known += 1 / len(others) / len(through)
        found["far labels"] += list(total / (known + 0.1))
        shares.append(known)
    found["known"] = [*counts, *shares]
    return found


def _own(model: oracle.Model, graph: oracle.Graph, u: int, hidden: oracle.Hidden) -> Array:
    told, _ = oracle.expect(model, 0, model.prior, oracle.visible(model, graph, u, hidden), None)
    return np.array(told)


def _states(model: oracle.Model, graph: oracle.Graph, u: int, hidden: oracle.Hidden) -> Array:
    _, posteriors = oracle.explain(model, 0, model.prior, oracle.visible(model, graph, u, hidden), None)
    return np.array(posteriors).reshape(-1)


def _mean(rows: Sequence[Array], size: int) -> Array:
    return sum(rows[1:], start=rows[0]) / len(rows) if rows else np.full(size, math.nan)


def _label(kind: str, size: int, label: float) -> Array:
    if kind == "categorical":
        return np.array([float(code == label) for code in range(size)])
    return np.array([math.log1p(label) if kind == "count" else label])
