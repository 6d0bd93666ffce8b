"""Random small models whose leaves are correlated and regress on neighbours, in the library's form and the oracle's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from oracle_cases import draw_edges, draw_values, hand_made
from torch_geometric.data import Data

from gspn import GSPN, Binary, Categorical, Continuous, Count, Schema
from gspn.circuits import Leaf, Product, Sum, Unit, random_circuit
from gspn.testing import oracle, oracle_graph, oracle_model

CASES = 48

COVARIANCES = ("diagonal", "full", "shrunk", "tied", "low_rank")
CONTEXTS = (None, "neighbours", "two_hops")
VARIANCES = (0.0, 0.5, 1.0)
TEMPLATES = ("naive Bayes", "hand-made", "together", "random")
GRAPHS = ("cyclic", "self-loops", "parallel", "components", "isolated", "no edges")

Atoms: TypeAlias = dict[str, list[float]]


@dataclass
class Case:
    """One random model on one random graph, in the library's form and in the oracle's."""

    axes: dict[str, Any]
    model: GSPN
    data: Data
    theirs: oracle.Model
    graph: oracle.Graph
    atoms: Atoms = field(default_factory=dict)


def draw_schema(rng: np.random.Generator) -> Schema:
    """At least two continuous attributes, not always side by side, and up to two of other kinds."""
    others: list[Callable[[str], Any]] = [
        lambda name: Categorical(name, ["a", "b", "c"]),
        Binary,
        Count,
        lambda name: Count(name, distribution="negative_binomial"),
        lambda name: Count(name, distribution="count_table"),
    ]
    chosen: list[Callable[[str], Any]] = [Continuous] * int(rng.integers(2, 4))
    chosen += [others[int(k)] for k in rng.integers(len(others), size=4 - len(chosen))]
    return Schema([chosen[int(k)](f"x{i}") for i, k in enumerate(rng.permutation(len(chosen)))])


def together(schema: Schema) -> Unit:
    """Two continuous attributes with a leaf in common in one branch, each by itself in the other."""
    names = [attribute.name for attribute in schema if isinstance(attribute, Continuous)][:2]
    rest = [name for name in schema.names if name not in names]

    def others() -> list[Unit]:
        return [Leaf(name) for name in rest]

    inner = Sum(*(Product(Leaf(names[1]), *others()) if rest else Leaf(names[1]) for _ in range(2)))
    return Sum(Product(Leaf(*names), *others()) if rest else Leaf(*names), Product(Leaf(names[0]), inner))


def draw_template(name: str, schema: Schema, seed: int) -> Unit | None:
    if name == "hand-made":
        return hand_made(schema, 2)
    if name == "together":
        return together(schema)
    return random_circuit(schema, 2, depth=1, repetitions=2, seed=seed) if name == "random" else None


def draw_graph(rng: np.random.Generator, schema: Schema, axes: dict[str, Any]) -> Data:
    """Small, for the oracle's trees grow with the square of the degree at every level of two hops."""
    n = int(rng.integers(3, 6 if axes["levels"] == 2 else 5))
    if axes["graph"] == "isolated":  # 0 speaks to others and hears nobody, the last one does neither
        edges = [(u + 1, v + 1) for u, v in draw_edges(rng, "cyclic", n - 2)] + [(0, 1), (0, 1), (0, n - 2)]
    else:
        edges = draw_edges(rng, axes["graph"], n)
    return Data(
        x=torch.from_numpy(draw_values(rng, schema, n, axes["missing"])),
        edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T,
        edge_type=torch.from_numpy(rng.integers(axes["edge types"], size=len(edges))),
    )


def at_atoms(rng: np.random.Generator, schema: Schema, atoms: Atoms, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values of which four in ten are at an atom where their attribute has some; gaps stay."""
    x = x.copy()
    for name, values in atoms.items():
        column = schema.index(name)
        chosen = (rng.random(len(x)) < 0.4) & ~np.isnan(x[:, column])
        x[chosen, column] = rng.choice(values, size=int(chosen.sum()))
    return x


def draw_atoms(rng: np.random.Generator, schema: Schema) -> Atoms:
    """Of the first continuous attribute, and of the others by chance: 0, sometimes with a sentinel."""
    names = [attribute.name for attribute in schema if isinstance(attribute, Continuous)]
    chosen = [name for i, name in enumerate(names) if i == 0 or rng.random() < 0.5]
    return {name: [0.0, -30.0][: int(rng.integers(1, 3))] for name in chosen}


def make_case(seed: int, *, atoms: bool = False, gaps: str = "ignorable") -> Case:
    rng = np.random.default_rng(1000 + seed)
    context = CONTEXTS[(seed + 1) % 3] if seed % 8 else CONTEXTS[1 + seed // 8 % 2]
    axes: dict[str, Any] = {
        "levels": 2 + seed // 2 % 2,
        "covariance": COVARIANCES[seed % 5],
        "context": context,
        "variance": 0.0 if context is None else VARIANCES[int(rng.integers(3))],
        "slopes": ("tied", "free")[int(rng.integers(2))],
        "template": TEMPLATES[0] if seed % 2 else TEMPLATES[int(rng.integers(4))],
        "graph": "no edges" if seed % 16 == 7 else GRAPHS[int(rng.integers(len(GRAPHS) - 1))],
        "edge types": int(rng.integers(1, 3)),
        "missing": float(rng.choice([0.0, 0.3, 0.6])),
    }
    schema = draw_schema(rng)
    data = draw_graph(rng, schema, axes)
    more: dict[str, Any] = {"gaps": gaps}
    if atoms:
        other = np.random.default_rng(2000 + seed)
        more["atoms"] = draw_atoms(other, schema)
        data.x = torch.from_numpy(at_atoms(other, schema, more["atoms"], data.x.numpy()))
    settings: dict[str, Any] = {
        "num_layers": axes["levels"],
        "num_states": 2,
        "template": draw_template(axes["template"], schema, seed),
        "num_edge_types": axes["edge types"],
        "covariance": axes["covariance"],
        "context": axes["context"],
        "context_variance": axes["variance"],
        "slopes": axes["slopes"],
    }
    model = GSPN(schema, **settings, **more)
    set_at_random(model.double(), rng)
    return Case(axes, model, data, oracle_model(model), oracle_graph(data), more.get("atoms", {}))


def set_at_random(model: GSPN, rng: np.random.Generator) -> None:
    """Parameters, units and what is usual of contexts; slopes are moderate, so that counts stay countable."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 0.3 if "slope" in name else 0.8
            parameter.copy_(torch.from_numpy(scale * rng.normal(size=tuple(parameter.shape))))
    parameters = model.get_parameters()
    parameters["units"] = {name: torch.tensor([2.5, 3.0], dtype=torch.float64) for name in parameters["units"]}
    if "context" in parameters:
        mean, covariance = parameters["context"]["mean"], parameters["context"]["covariance"]
        factor = rng.normal(size=tuple(covariance.shape))
        drawn: dict[str, NDArray[np.float64]] = {
            "mean": 0.5 * rng.normal(size=tuple(mean.shape)),
            "covariance": factor @ factor.swapaxes(-1, -2) / factor.shape[-1],
            "edge_shares": rng.dirichlet(np.ones(model.num_edge_types)),
        }
        parameters["context"] = {key: torch.from_numpy(np.asarray(value)) for key, value in drawn.items()}
    model.set_parameters(parameters)


TOLERANCE = 1e-8
"""Solving with covariances costs some digits."""


def assert_close(case: Case, ours: torch.Tensor, theirs: object) -> None:
    np.testing.assert_allclose(
        ours.detach().numpy(), np.asarray(theirs), rtol=TOLERANCE, atol=TOLERANCE, err_msg=str(case.axes)
    )


def assert_likelihoods_agree(case: Case, seed: int) -> None:
    """With and without the vertex in its own tree; posteriors, and masked entries."""
    vertices = range(len(case.graph.x))
    pseudo = [oracle.log_likelihood(case.theirs, case.graph, v) for v in vertices]
    assert_close(case, case.model.log_likelihood(case.data), pseudo)
    alone = [oracle.leave_one_out(case.theirs, case.graph, v) for v in vertices]
    assert_close(case, case.model.log_likelihood(case.data, leave_one_out=True), alone)
    posteriors = [oracle.posteriors(case.theirs, case.graph, v) for v in vertices]
    assert_close(case, case.model.posteriors(case.data), posteriors)
    entries = torch.from_numpy(np.random.default_rng(seed).random(case.graph.x.shape) < 0.4)
    pairs = {(int(v), int(c)) for v, c in entries.nonzero()}
    found = case.model(case.model.collate(case.data).hiding(entries)).log_hidden
    assert_close(case, found, oracle.masked(case.theirs, case.graph, pairs))
