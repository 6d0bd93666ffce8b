"""Models with the extension's parts: against the oracle, fitted, asked, saved, and loaded by a new process."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gspn_extension  # noqa: F401
import numpy as np
import pytest
import torch
from literal import bivariate, by_degree, regression, student_t, weigh
from torch_geometric.data import Data

import gspn
from gspn import GSPN, Binary, Continuous, Schema
from gspn.circuits import Leaf, Product, Sum
from gspn.circuits.distributions import MixtureDistribution
from gspn.testing import oracle, oracle_graph, oracle_model

SCHEMA = Schema([Continuous("x"), Continuous("y"), Binary("b"), Continuous("z", distribution="student_t")])
TOGETHER: dict[str | tuple[str, ...], str] = {("y", "x"): "bivariate_gaussian"}
REGRESSION = {"x": "neighbour_regression"}


def circuit() -> Sum:
    """x and y together in one branch, apart in the other: an attribute has leaves of two families."""
    inner = Sum(Product(Leaf("b"), Leaf("z")), Product(Leaf("b"), Leaf("z")))
    return Sum(Product(Leaf("x", "y"), inner), Product(Leaf("x"), Leaf("y"), Leaf("b"), Leaf("z")))


MODELS: dict[str, dict[str, Any]] = {
    "student-t alone": {},
    "two attributes together": {"leaves": TOGETHER},
    "two attributes together, by degree": {"leaves": TOGETHER, "aggregation": "by_degree"},
    "regression on neighbours": {"leaves": REGRESSION},
    "regression and two together": {
        "leaves": {("x", "y"): "bivariate_gaussian", "z": "neighbour_regression"},
        "aggregation": "by_degree",
    },
    "several families for one attribute": {"leaves": {("x", "y"): "bivariate_gaussian"}, "template": circuit()},
    "several families and a context": {
        "leaves": {("x", "y"): "bivariate_gaussian", "y": "neighbour_regression"},
        "template": circuit(),
    },
}


def draw(seed: int, vertices: int = 4, missing: float = 0.25) -> Data:
    rng = np.random.default_rng(seed)
    kind = rng.random(vertices) < 0.5
    x = rng.normal(np.where(kind, 2.0, -1.0), 1.0)
    rows = np.stack([x, 0.8 * x + rng.normal(10, 0.5, vertices), kind, rng.standard_t(3, vertices)], axis=1)
    rows[rng.random(rows.shape) < missing] = np.nan
    ring = [(v, (v + 1) % (vertices - 1)) for v in range(vertices - 1)]
    edges = ring + [(v, u) for u, v in ring] + [(vertices - 1, 0), (0, 1)]
    return Data(x=torch.from_numpy(rows), edge_index=torch.tensor(edges).T, edge_type=torch.arange(len(edges)) % 2)


def build(name: str, levels: int = 3) -> GSPN:
    """In float64, with random parameters and units that are not 0 and 1."""
    model = GSPN(SCHEMA, levels, 2, num_edge_types=2, **MODELS[name]).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.7 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    parameters = model.get_parameters()
    parameters["units"] = {key: torch.tensor([1.0 + i, 2.0 + i]) for i, key in enumerate(parameters["units"])}
    return model.set_parameters(parameters)


def theirs(model: GSPN) -> oracle.Model:
    """The same model for the oracle, with the densities of the extension."""
    units = {name: pair.tolist() for name, pair in model.get_parameters()["units"].items()}
    chosen = {
        (key,) if isinstance(key, str) else tuple(sorted(key)): name for key, name in (model.leaves or {}).items()
    }

    def standardised(name: str, value: float) -> float:
        center, spread = units[name]
        return float((value - center) / spread)

    def one(name: str, mean: Any) -> oracle.Expectation:
        def tell(
            leaf: Mapping[str, Any], values: Sequence[float | None], codes: Any, context: Any
        ) -> list[list[float]]:
            (value,) = values
            return [[standardised(name, mean(leaf, context) if value is None else value)]]

        return tell

    def both(leaf: Mapping[str, Any], values: Sequence[float | None], codes: Any, context: Any) -> list[list[float]]:
        told = []
        for i, name in enumerate(("x", "y")):
            own, other = values[i], values[1 - i]
            if own is None:
                own = leaf["mean"][i]
                if other is not None:
                    ratio = leaf["std"][i] / leaf["std"][1 - i]
                    own = own + leaf["correlation"] * ratio * (other - leaf["mean"][1 - i])
            told.append([standardised(name, float(own))])
        return told

    def regressed(leaf: Mapping[str, Any], context: Any) -> float:
        shift = 0.0 if context is None else sum(b * m for b, m in zip(leaf["slope"], context, strict=True))
        return float(leaf["mean"] + shift)

    densities: dict[Any, Any] = {}
    expectations: dict[Any, Any] = {}
    for name in SCHEMA.names:
        if chosen.get((name,)) == "neighbour_regression":
            densities[name], expectations[name] = regression, one(name, regressed)
        elif name == "z":
            densities[name], expectations[name] = student_t, one(name, lambda leaf, context: leaf["location"])
    densities["x", "y"], expectations["x", "y"] = bivariate, both
    module, degree = model.hierarchy.aggregation, model.aggregation == "by_degree"
    return oracle_model(
        model,
        densities=densities,
        expectations=expectations,
        mix=by_degree(module) if degree else None,
        weigh=weigh if degree else None,
    )


@pytest.mark.parametrize("name", MODELS)
def test_agrees_with_the_oracle(name: str) -> None:
    model = build(name)
    literal = theirs(model)
    for seed in range(2):
        data = draw(seed)
        graph, n = oracle_graph(data), data.num_nodes
        expected = [oracle.log_likelihood(literal, graph, v) for v in range(n)]
        np.testing.assert_allclose(model.log_likelihood(data).numpy(), expected, rtol=1e-8, atol=1e-8)
        posteriors = np.stack([oracle.posteriors(literal, graph, v) for v in range(n)])
        np.testing.assert_allclose(model.posteriors(data).numpy(), posteriors, rtol=0, atol=1e-8)
        expected = [oracle.leave_one_out(literal, graph, v) for v in range(n)]
        found = model.log_likelihood(data, leave_one_out=True)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-8, atol=1e-8)
        hidden = torch.from_numpy(np.random.default_rng(seed).random(data.x.shape) < 0.4)
        pairs = {(int(v), int(c)) for v, c in hidden.nonzero()}
        batch = model.collate(data).hiding(hidden)
        np.testing.assert_allclose(
            model(batch).log_hidden.detach().numpy(), oracle.masked(literal, graph, pairs), rtol=1e-8, atol=1e-8
        )


@pytest.mark.parametrize("name", MODELS)
def test_answers_agree_with_the_oracle(name: str) -> None:
    """Conditionals of every attribute, joint ones, gaps; and the chain rule inside one answer."""
    model, data = build(name), draw(3)
    literal, graph, n = theirs(model), oracle_graph(data), data.num_nodes
    for column, (attribute, value) in enumerate(zip(SCHEMA.names, [0.3, 9.0, 1.0, -0.7], strict=True)):
        found = model.conditional(data, attribute).log_prob(value)
        expected = [oracle.answer(literal, graph, v, {column: value}, {(v, column)}) for v in range(n)]
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-8, atol=1e-8)
    joint = model.conditional(data, ["y", "x"])
    expected = [oracle.answer(literal, graph, v, {0: 0.3, 1: 9.0}, {(v, 0), (v, 1)}) for v in range(n)]
    np.testing.assert_allclose(joint.log_prob({"x": 0.3, "y": 9.0}).numpy(), expected, rtol=1e-8, atol=1e-8)
    first, rest = joint.marginal("x"), joint.condition({"x": 0.3}).marginal("y")
    assert not isinstance(first, type(joint))
    assert not isinstance(rest, type(joint))
    np.testing.assert_allclose((first.log_prob(0.3) + rest.log_prob(9.0)).numpy(), expected, rtol=1e-8, atol=1e-8)
    truth = torch.tensor([0.3, 9.0, 1.0, -0.7], dtype=torch.float64).expand(n, -1)
    gaps = [{c: float(truth[v, c]) for c in range(4) if math.isnan(graph.x[v, c])} for v in range(n)]
    expected = [oracle.answer(literal, graph, v, gaps[v]) for v in range(n)]
    np.testing.assert_allclose(model.log_prob_missing(data, truth).numpy(), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", MODELS)
def test_shapes_of_answers(name: str) -> None:
    """Means, quantiles, modes and entropies of what is asked, against the density on a grid."""
    model, data = build(name), draw(4)
    for attribute, center in (("x", 0.0), ("y", 2.0), ("z", 0.0)):
        found = model.conditional(data, attribute)
        assert isinstance(found, MixtureDistribution)
        t, step = np.linspace(-9.0, 9.0, 501, retstep=True)
        grid, weight = center + np.sinh(t), np.cosh(t) * step
        log_density = np.stack([found.log_prob(float(place)).numpy() for place in grid], axis=1)
        density = np.exp(log_density)
        np.testing.assert_allclose(density @ weight, 1, atol=1e-4)
        np.testing.assert_allclose(found.mean.numpy(), density @ (weight * grid), rtol=1e-2, atol=1e-2)
        np.testing.assert_allclose(found.entropy.numpy(), -(density * log_density) @ weight, rtol=1e-2, atol=1e-2)
        at_mode = found.log_prob(found.mode).numpy()
        assert (at_mode >= log_density.max(1) - 1e-6).all()
        below = np.stack(
            [(density[v] * weight)[grid <= found.quantile(0.3)[v].item()].sum() for v in range(len(found))]
        )
        np.testing.assert_allclose(below, 0.3, atol=0.04)  # a cell of the grid
        draws = found.sample(4000, torch.Generator().manual_seed(0))
        np.testing.assert_allclose((draws <= found.quantile(0.3)).double().mean(0).numpy(), 0.3, atol=0.04)


@pytest.mark.parametrize("name", MODELS)
def test_fits_fills_and_comes_back(name: str, tmp_path: Path) -> None:
    graphs = [draw(seed, vertices=8) for seed in range(12)]
    model = GSPN(SCHEMA, 2, 2, num_edge_types=2, objective="masked", epochs=4, seed=1, **MODELS[name])
    model.fit(graphs, progress=False)
    asked = graphs[0]
    expected = model.conditional(asked, "x").mean
    assert torch.isfinite(expected).all()
    for how in ("mean", "mode", "sample"):
        filled = model.impute(asked, how=how).x
        assert not torch.isnan(filled).any()
        known = ~torch.isnan(asked.x)
        assert torch.equal(filled[known], asked.x[known].to(filled.dtype))
    assert model.sample_missing(asked, 3).shape == (3, *asked.x.shape)
    model.save(tmp_path / "model")
    again = gspn.load(tmp_path / "model")
    assert torch.equal(again.conditional(asked, "x").mean, expected)
    other = GSPN(SCHEMA, 2, 2, num_edge_types=2, **MODELS[name]).set_parameters(model.get_parameters())
    torch.testing.assert_close(other.conditional(asked, "x").mean, expected, rtol=1e-4, atol=1e-4)


def script(folder: Path, lines: str) -> subprocess.CompletedProcess[str]:
    text = f"import gspn, torch\n{lines}\n"
    return subprocess.run([sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, check=False)


PLAIN = Schema([Continuous("x"), Continuous("y"), Binary("b"), Continuous("z")])
NEEDED: dict[str, dict[str, Any]] = {
    "student_t": {"schema": SCHEMA},
    "bivariate_gaussian": {"schema": PLAIN, "leaves": TOGETHER},
    "neighbour_regression": {"schema": PLAIN, "leaves": REGRESSION},
    "by_degree": {"schema": PLAIN, "aggregation": "by_degree"},
}


def test_another_process_needs_the_import(tmp_path: Path) -> None:
    """With it models say the same; without it the error names what is missing and what to do."""
    data, expected = draw(0), []
    for name, arguments in NEEDED.items():
        model = GSPN(**arguments, num_layers=2, num_states=2, epochs=1).fit([data], progress=False)
        model.save(tmp_path / name)
        expected.append(model.log_likelihood(data).sum().item())
    torch.save(data.x, tmp_path / "x.pt")
    ask = (
        "import gspn_extension\n"
        "from torch_geometric.data import Data\n"
        f"data = Data(x=torch.load('x.pt'), edge_index=torch.tensor({data.edge_index.tolist()}))\n"
        f"for name in {list(NEEDED)}:\n"
        "    print(gspn.load(name).log_likelihood(data).sum().item())"
    )
    done = script(tmp_path, ask)
    assert done.returncode == 0, done.stderr
    assert [float(line) for line in done.stdout.split()] == pytest.approx(expected, rel=1e-5)
    ask = (
        f"for name in {list(NEEDED)}:\n"
        "    try:\n"
        "        gspn.load(name)\n"
        "    except gspn.GSPNError as error:\n"
        "        print(error)"
    )
    done = script(tmp_path, ask)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.strip().split("\n")
    assert len(lines) == len(NEEDED), done.stdout
    for name, line in zip(NEEDED, lines, strict=True):
        assert f"'{name}'" in line
        assert "import that package first" in line


def test_the_kernel_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for by name, it gives what the others give."""
    graphs, found = [draw(seed) for seed in range(3)], []
    for kernel in ("loops", "reference"):
        monkeypatch.setenv("GSPN_KERNEL", kernel)
        model = GSPN(SCHEMA, 2, 2, num_edge_types=2, epochs=2, leaves=TOGETHER).double().fit(graphs, progress=False)
        found.append(model.log_likelihood(graphs[0]))
    torch.testing.assert_close(found[0], found[1], rtol=1e-6, atol=1e-6)
