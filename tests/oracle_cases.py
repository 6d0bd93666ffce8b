"""Random small models on random small graphs, in the library's form and in the oracle's: everything that can vary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from gspn import GSPN, Binary, Categorical, Continuous, Count, Schema
from gspn.circuits import Leaf, Product, Sum, Unit, random_circuit
from gspn.testing import oracle, oracle_model

CASES = 240


HIDDEN = ("none", "own vertex", "one entry", "masked")
TEMPLATES = ("naive Bayes", "hand-made", "random")
GRAPHS = ("cyclic", "directed", "self-loops", "parallel", "components", "no edges")
SHORTCUTS = (None, "mean", "learned")
GAPS = ("ignorable", "informative")


@dataclass
class Case:
    """One random model on one random graph, in the library's form and in the oracle's."""

    axes: dict[str, Any]
    model: GSPN
    data: Data
    theirs: oracle.Model
    graph: oracle.Graph


def draw_schema(rng: np.random.Generator) -> Schema:
    kinds: list[Callable[[str], Any]] = [
        Continuous,
        lambda name: Categorical(name, ["a", "b", "c"]),
        Binary,
        Count,
        lambda name: Count(name, distribution="negative_binomial"),
        lambda name: Count(name, distribution="count_table"),
    ]
    chosen = rng.choice(len(kinds), size=rng.integers(1, 5), replace=True)
    return Schema([kinds[k](f"x{i}") for i, k in enumerate(chosen)])


def draw_edges(rng: np.random.Generator, kind: str, n: int) -> list[tuple[int, int]]:
    if kind == "no edges" or n == 1:
        return [(0, 0)] if kind == "self-loops" else []
    if kind == "components":
        half = n // 2
        left, right = draw_edges(rng, "cyclic", half), draw_edges(rng, "directed", n - half)
        return left + [(u + half, v + half) for u, v in right]
    if kind == "directed":
        return [(int(u), int(v)) for u, v in rng.integers(n, size=(n, 2)) if u != v]
    ring = [(i, (i + 1) % n) for i in range(n)]
    chord = [(int(u), int(v)) for u, v in rng.integers(n, size=(1, 2)) if u != v]
    edges = ring + chord
    edges += [(v, u) for u, v in edges]
    if kind == "self-loops":
        edges += [(int(v), int(v)) for v in rng.integers(n, size=2)]
    if kind == "parallel":
        edges += [edges[int(i)] for i in rng.integers(len(edges), size=3)]
    return edges


def hand_made(schema: Schema, num_states: int) -> Unit:
    """A circuit with inner sums, a shared unit and a leaf directly under a sum, for any number of attributes."""
    first, *rest = schema.names
    if not rest:
        return Sum(Sum(*(Leaf(first) for _ in range(num_states))), *(Leaf(first) for _ in range(num_states - 1)))

    def mixture(names: list[str]) -> Unit:
        parts = [[Leaf(name) for name in names] for _ in range(num_states)]
        return Sum(*(part[0] if len(part) == 1 else Product(*part) for part in parts))

    shared = mixture(rest)
    children = [Product(Leaf(first), shared if k < 2 else mixture(rest)) for k in range(num_states)]
    return Sum(*children)


def kind_of(attribute: Any) -> str:
    if isinstance(attribute, Count):
        return "count" if attribute.distribution == "poisson" else attribute.distribution
    return type(attribute).__name__.lower()


def draw_values(rng: np.random.Generator, schema: Schema, n: int, missing: float) -> NDArray[np.float64]:
    draw: dict[str, Callable[[], NDArray[Any]]] = {
        "continuous": lambda: rng.normal(3.0, 4.0, n),
        "categorical": lambda: rng.integers(3, size=n),
        "binary": lambda: rng.integers(2, size=n),
        "count": lambda: rng.poisson(3, n),
        "negative_binomial": lambda: rng.poisson(rng.gamma(2, 3, n)),
        "count_table": lambda: rng.integers(15, size=n),
    }
    x = np.stack([draw[kind_of(a)]().astype(float) for a in schema], axis=1)
    x[rng.random(x.shape) < missing] = np.nan
    return x


def make_case(seed: int, gaps: str | None = None) -> Case:
    """Gaps are evidence in every other dozen, unless it is said."""
    rng = np.random.default_rng(seed)
    axes: dict[str, Any] = {
        "levels": int(rng.integers(1, 5)),
        "template": TEMPLATES[seed % 3],
        "graph": GRAPHS[int(rng.integers(len(GRAPHS)))],
        "edge types": int(rng.integers(1, 4)),
        "missing": float(rng.choice([0.0, 0.25, 0.6, 1.0], p=[0.3, 0.3, 0.3, 0.1])),
        "hidden": HIDDEN[(seed // 3) % 4],
        "states": int(rng.integers(2, 4)),
        "gaps": gaps or GAPS[(seed // 12) % 2],
    }
    axes["shortcut"] = SHORTCUTS[int(rng.integers(3))] if axes["levels"] > 1 else None
    schema = draw_schema(rng)
    template: Unit | None = None
    if axes["template"] == "hand-made":
        template = hand_made(schema, axes["states"])
    elif axes["template"] == "random":
        template = random_circuit(schema, axes["states"], depth=2, repetitions=2, seed=seed)
    n = int(rng.integers(1, 6))
    edges = draw_edges(rng, axes["graph"], n)
    types = rng.integers(axes["edge types"], size=len(edges))
    x = draw_values(rng, schema, n, axes["missing"])
    data = Data(
        x=torch.from_numpy(x),
        edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T,
        edge_type=torch.from_numpy(types),
    )
    model = GSPN(
        schema,
        num_layers=axes["levels"],
        num_states=axes["states"],
        template=template,
        shortcut=axes["shortcut"],
        num_edge_types=axes["edge types"],
        seed=seed,
        gaps=axes["gaps"],
    ).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=p.dtype))
    parameters = model.get_parameters()
    parameters["units"] = {name: torch.tensor([2.5, 3.0]) for name in parameters["units"]}
    model.set_parameters(parameters)
    theirs = oracle_model(model)
    edge_list = [(u, v, int(t)) for (u, v), t in zip(edges, types, strict=True)]
    return Case(axes, model, data, theirs, oracle.Graph(x, edge_list))
