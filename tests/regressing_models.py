"""Random small models whose leaves regress on neighbours, in the oracle's form; nothing of the library belongs here."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gspn.testing import oracle
from gspn.testing.oracle import Array, Graph, Model

CATEGORIES = 3
WIDTHS = {"continuous": 1, "categorical": CATEGORIES, "binary": 1, "count": 1, "negative_binomial": 1}

RING = [(0, 1), (1, 2), (2, 3), (3, 0), (1, 0), (2, 1), (3, 2), (0, 3)]
TANGLED = [*RING, (0, 2), (0, 1), (0, 1), (2, 2), (4, 1), (0, 0)]
"""A cycle with a chord, edges given thrice, self-loops, and a vertex 4 that nobody speaks to"""


def draw_regression(
    seed: int,
    kinds: dict[str, str],
    scopes: Sequence[oracle.Scope] | None = None,
    *,
    levels: int = 2,
    states: int = 2,
    edge_types: int = 1,
    hops: int = 1,
    variance: float = 0.0,
    circuit: oracle.Unit | None = None,
    leaves: int | None = None,
) -> Model:
    """Naive Bayes over the scopes, or a circuit with so many leaves of each; slopes and contexts of about 1."""
    rng = np.random.default_rng(seed)
    parts = list(kinds) if scopes is None else list(scopes)
    width = hops * sum(WIDTHS[kind] for kind in kinds.values())
    made = circuit or ("sum", 0, [("product", [("leaf", scope, m) for scope in parts]) for m in range(states)])
    units = len({unit[1] for unit in walk(made) if unit[0] == "sum"})
    shape = (levels, leaves or states)
    return Model(
        circuit=made,
        kinds=kinds,
        prior=rng.dirichlet(np.full(states, 3.0), size=units),
        transitions=rng.dirichlet(np.full(states, 1.0), size=(levels - 1, edge_types, units, states)),
        leaves={scope: draw_leaves(rng, kinds, scope, shape, width) for scope in parts},
        units={name: (0.7, 2.0) for name, kind in kinds.items() if kind == "continuous"},
        regression=oracle.Regression(
            mean=rng.normal(size=(levels - 1, width)),
            covariance=draw_covariances(rng, (levels - 1,), width),
            edge_shares=rng.dirichlet(np.ones(edge_types)),
            hops=hops,
            variance=variance,
            across=circuit is None,
        ),
    )


def draw_leaves(
    rng: np.random.Generator, kinds: dict[str, str], scope: oracle.Scope, shape: tuple[int, int], width: int
) -> dict[str, Array]:
    names = oracle.names_of(scope)
    slopes = 0.4 * rng.normal(size=(*shape, WIDTHS[kinds[names[0]]] if len(names) == 1 else len(names), width))
    match kinds[names[0]]:
        case "continuous":
            own = {
                "mean": 2.0 * rng.normal(size=(*shape, len(names))),
                "covariance": draw_covariances(rng, shape, len(names)),
            }
        case "categorical":
            own = {"probs": rng.dirichlet(np.ones(CATEGORIES), size=shape)}
        case "binary":
            own = {"probs": rng.uniform(0.1, 0.9, size=shape)}
        case "count":
            own = {"rate": rng.uniform(0.5, 4.0, size=shape)}
        case _:
            own = {"mean": rng.uniform(0.5, 4.0, size=shape), "dispersion": rng.uniform(0.1, 1.0, size=shape)}
    return {**own, "slope": slopes}


def draw_covariances(rng: np.random.Generator, shape: tuple[int, ...], width: int) -> Array:
    factor = rng.normal(size=(*shape, width, width))
    return np.asarray(factor @ factor.swapaxes(-1, -2) / width + 0.3 * np.eye(width), dtype=np.float64)


def draw_values(seed: int, kinds: dict[str, str], vertices: int, missing: float = 0.0) -> Array:
    rng = np.random.default_rng(seed)
    draw: dict[str, Any] = {
        "continuous": lambda: rng.normal(1.0, 2.0, vertices),
        "categorical": lambda: rng.integers(CATEGORIES, size=vertices),
        "binary": lambda: rng.integers(2, size=vertices),
        "count": lambda: rng.poisson(2.0, vertices),
        "negative_binomial": lambda: rng.poisson(2.0, vertices),
    }
    x = np.stack([np.asarray(draw[kind](), dtype=np.float64) for kind in kinds.values()], axis=1)
    x[rng.random(x.shape) < missing] = np.nan
    return x


def typed(edges: Sequence[tuple[int, int]], edge_types: int = 1) -> list[tuple[int, int, int]]:
    return [(u, v, i % edge_types) for i, (u, v) in enumerate(edges)]


def whole(v: int, kinds: dict[str, str]) -> set[tuple[int, int]]:
    """All entries of a vertex."""
    return {(v, column) for column in range(len(kinds))}


def having(graph: Graph, v: int, values: Sequence[float]) -> Graph:
    x = graph.x.copy()
    x[v] = values
    return Graph(x, graph.edges)


def walk(unit: oracle.Unit) -> list[oracle.Unit]:
    children = [] if unit[0] == "leaf" else unit[-1]
    return [unit, *itertools.chain.from_iterable(walk(child) for child in children)]


def line(center: float, scale: float, points: int, reach: float) -> tuple[Array, Array]:
    """Places and weights of an integral over all numbers: trapezoids in t with x = centre + scale · sinh t."""
    t, step = np.linspace(-reach, reach, points, retstep=True)
    return center + scale * np.sinh(t), scale * np.cosh(t) * step
