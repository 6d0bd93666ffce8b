"""Starting points: leaves near the clusters of the data, priors near their shares, for any circuit and any gaps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from seeded import generator
from torch import Tensor

from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
from gspn.circuits import Leaf, Product, Sum, Unit, random_circuit
from gspn.circuits.evidence import Evidence
from gspn.circuits.initialisation import initialise
from gspn.circuits.leaves import GaussianLeaves, Leaves, leaves_for
from gspn.circuits.templates import CompiledCircuit, NaiveBayes, Template, compile_template

LEVELS = 2
MIXED = Schema(
    [
        Continuous("charge"),
        Categorical("element", ["C", "N", "O"]),
        Binary("aromatic"),
        Count("hydrogens"),
        Count("degree", distribution="negative_binomial"),
    ]
)
DISCRETE = Schema([Categorical("element", ["C", "N", "O"]), Binary("aromatic"), Binary("ring")])


def families_for(template: Template, schema: Schema, x: Tensor) -> list[Leaves]:
    """Leaves in double precision, continuous ones in the units of the column, as the hierarchy prepares them."""
    families = []
    for attribute, count, column in zip(schema, template.leaf_counts, x.unbind(1), strict=True):
        family = leaves_for(attribute, LEVELS, count).double()
        known = column[~torch.isnan(column)]
        if isinstance(family, GaussianLeaves) and len(known):
            family.standardise(known)
        families.append(family)
    return families


def start(
    structure: Unit | None, schema: Schema, x: Tensor, num_states: int, seed: int = 0
) -> tuple[Template, list[Leaves], Tensor]:
    template = compile_template(structure, schema, num_states)
    families = families_for(template, schema, x)
    return template, families, initialise(template, families, schema, x, num_states, generator(seed))


def draw_rows(schema: Schema, n: int, missing: float = 0.3, seed: int = 0) -> Tensor:
    rng = np.random.default_rng(seed)
    draws: dict[str, Callable[[], NDArray[Any]]] = {
        "charge": lambda: rng.normal(-40, 3, n),
        "element": lambda: rng.integers(3, size=n),
        "aromatic": lambda: rng.integers(2, size=n),
        "ring": lambda: rng.integers(2, size=n),
        "hydrogens": lambda: rng.poisson(2, n),
        "degree": lambda: rng.negative_binomial(1, 0.1, n),
    }
    x = np.stack([draws[name]().astype(np.float64) for name in schema.names], axis=1)
    x[rng.random(x.shape) < missing] = np.nan
    return torch.from_numpy(x)


def exported(family: Leaves) -> dict[str, Tensor]:
    return {key: value.detach() for key, value in family.export(family.natural()).items()}


def test_naive_bayes_starts_at_separated_clusters() -> None:
    """Means within five standard errors of the clusters', priors at their shares, with a fifth of the table missing."""
    n, shares, means, rates = 2000, [0.5, 0.3, 0.2], [100.0, 160.0, 220.0], [1.0, 20.0, 400.0]
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [int(share * n) for share in shares])
    columns = [
        rng.normal(np.array(means)[truth], 4.0),
        rng.poisson(np.array(rates)[truth]),
        rng.poisson(np.array(rates)[::-1][truth]),
    ]
    x = np.stack(columns, axis=1).astype(np.float64)
    x[rng.random(x.shape) < 0.2] = np.nan
    schema = Schema([Continuous("mass"), Count("a", distribution="negative_binomial"), Count("b")])
    _, (mass, a, b), logits = start(None, schema, torch.from_numpy(x), 3)
    order = exported(mass)["mean"][0].argsort()
    assert logits.shape == (1, 3)
    # A few rows keep one entry only, or none (under 1 %): those may go astray.
    np.testing.assert_allclose(logits.softmax(-1)[0, order], shares, atol=0.01)
    for level in range(LEVELS):
        np.testing.assert_allclose(exported(mass)["mean"][level, order], means, atol=5 * 4.0 / math.sqrt(0.2 * 0.8 * n))
        np.testing.assert_allclose(exported(mass)["std"][level, order], [4.0] * 3, rtol=0.2)
        np.testing.assert_allclose(exported(a)["mean"][level, order], rates, rtol=0.1)
        # Poisson leaves get noise of deviation 0.1 on their log-rates.
        np.testing.assert_allclose(exported(b)["rate"][level, order].log(), np.log(rates[::-1]), atol=0.5)


@pytest.mark.parametrize("seed", range(3))
def test_large_counts_with_gaps_are_clustered(seed: int) -> None:
    """Their logarithms lie thirty deviations from 0, which a gap must not be mistaken for."""
    rng = np.random.default_rng(1)
    n = 600
    rates = np.array([[1000, 1700, 1300], [1700, 1300, 1000], [1300, 1000, 1700]])
    truth = np.arange(n) % 3
    x = rng.poisson(rates[truth]).astype(np.float64)
    x[rng.random(x.shape) < 0.3] = np.nan
    schema = Schema([Count(name, distribution="negative_binomial") for name in "abc"])
    _, families, logits = start(None, schema, torch.from_numpy(x), 3, seed=seed)
    found = torch.stack([exported(family)["mean"][0] for family in families], dim=1)
    order = found[:, 0].argsort()
    # Rows without any entry (3 %) go to random clusters but count nowhere; the rest is unmistakable.
    np.testing.assert_allclose(found[order], rates[[0, 2, 1]], rtol=0.02)
    np.testing.assert_allclose(logits.softmax(-1)[0], [1 / 3] * 3, atol=0.02)


def test_priors_are_smoothed_shares() -> None:
    """log((rows + 1) / (all rows + C)): an empty cluster keeps a chance, and the logits are normalised already."""
    x = torch.tensor([0.0] * 6 + [100.0] * 3, dtype=torch.float64)[:, None]
    _, _, logits = start(None, Schema([Continuous("a")]), x, 3)
    assert sorted(logits.exp()[0].tolist()) == pytest.approx([1 / 12, 4 / 12, 7 / 12])


def test_inner_sums_split_what_reaches_them() -> None:
    """Clusters within clusters: a leaf below two sums starts from the rows that both have dealt to it."""
    rng = np.random.default_rng(0)
    outer, inner = np.arange(800) % 2, np.arange(800) // 2 % 2
    a = rng.normal(np.array([-50.0, 50.0])[outer], 1.0)
    b = rng.normal(np.array([[0.0, 8.0], [100.0, 108.0]])[outer, inner], 1.0)
    schema = Schema([Continuous("a"), Continuous("b")])
    root = Sum(*(Product(Leaf("a"), Sum(Leaf("b"), Leaf("b"))) for _ in range(2)))
    template, (of_a, of_b), logits = start(root, schema, torch.from_numpy(np.stack([a, b], axis=1)), 2)
    assert template.num_sum_units == 3
    assert logits.shape == (3, 2)
    np.testing.assert_allclose(logits.softmax(-1), 0.5, atol=0.01)
    mean_a, mean_b = exported(of_a)["mean"][0], exported(of_b)["mean"][0].reshape(2, 2)
    for state in range(2):
        expected = [0.0, 8.0] if mean_a[state] < 0 else [100.0, 108.0]
        # 200 rows each: five standard errors.
        np.testing.assert_allclose(sorted(mean_b[state].tolist()), expected, atol=5 / math.sqrt(200))
    np.testing.assert_allclose(sorted(mean_a.tolist()), [-50, 50], atol=5 / math.sqrt(400))


def shared_circuit(num_states: int) -> Unit:
    def mixture(*names: str) -> Unit:
        return Sum(*(Product(*map(Leaf, names)) if len(names) > 1 else Leaf(names[0]) for _ in range(num_states)))

    shared = mixture("element", "aromatic", "hydrogens")
    return Product(Sum(*(Product(Leaf("charge"), shared) for _ in range(num_states))), mixture("degree"))


@pytest.mark.parametrize("n", [0, 1, 2, 60])
@pytest.mark.parametrize("missing", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("kind", ["naive Bayes", "random", "shared", "deep"])
def test_any_circuit_and_any_rows_start_finite(kind: str, missing: float, n: int) -> None:
    structures = {
        "naive Bayes": None,
        "random": random_circuit(MIXED, 3, depth=2, repetitions=2, seed=1),
        "shared": shared_circuit(3),
        "deep": random_circuit(MIXED, 3, depth=4, repetitions=3, seed=2),
    }
    x = draw_rows(MIXED, n, missing)
    template, families, logits = start(structures[kind], MIXED, x, 3)
    assert isinstance(template, NaiveBayes if kind == "naive Bayes" else CompiledCircuit)
    assert logits.shape == (template.num_sum_units, 3)
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(p).all() for family in families for p in family.parameters())
    # And what follows from them, on rows that were not there.
    other = draw_rows(MIXED, 20, 0.2, seed=5)
    columns = [Evidence(other).columns([column]) for column in range(len(families))]
    log_densities = [f.log_prob(f.natural(), column)[0] for f, column in zip(families, columns, strict=True)]
    log_prior = torch.log_softmax(logits, -1).expand(20, -1, -1)
    log_value = template.log_value(template.join(log_densities), log_prior)
    log_value.sum().backward()
    assert torch.isfinite(log_value).all()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for family in families for p in family.parameters())


def test_constant_columns_start_finite() -> None:
    x = draw_rows(MIXED, 30, 0.0)
    x[:] = x[0]
    _, families, logits = start(None, MIXED, x, 4)
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(p).all() for family in families for p in family.parameters())


@pytest.mark.parametrize("depth", [0, 2])
def test_states_of_discrete_attributes_differ(depth: int) -> None:
    """Nothing to cluster by, so noise must tell the states apart: alike they would stay alike."""
    x = draw_rows(DISCRETE, 200)
    structure = random_circuit(DISCRETE, 4, depth=depth) if depth else None
    _, families, logits = start(structure, DISCRETE, x, 4)
    assert len(logits.unique()) == logits.numel()
    for family in families:
        probs = exported(family)["probs"].flatten(0, 1)
        assert len(probs.unique(dim=0)) == len(probs) == LEVELS * family.num_leaves
        assert probs.min() > 0
        assert probs.max() < 1


def test_a_generator_reproduces_the_start() -> None:
    x = draw_rows(MIXED, 100)
    structure = random_circuit(MIXED, 3, depth=2, repetitions=2, seed=1)
    template = compile_template(structure, MIXED, 3)
    results = []
    for seed in (1, 1, 2):
        families = families_for(template, MIXED, x)
        before = torch.get_rng_state()
        logits = initialise(template, families, MIXED, x, 3, generator(seed))
        assert torch.equal(torch.get_rng_state(), before)
        parameters = [p.detach().flatten() for family in families for p in family.parameters()]
        results.append(torch.cat([logits.flatten(), *parameters]))
    first, again, other = results
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_large_tables_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random part of the rows, not the first ones: tables are often sorted."""
    monkeypatch.setattr("gspn.circuits.initialisation.MAX_ROWS", 100)
    x = torch.cat([torch.zeros(1000, 1), torch.full((1000, 1), 10.0)]).double()
    _, (family,), logits = start(None, Schema([Continuous("a")]), x, 2)
    rows = logits.exp()[0] * (100 + 2) - 1
    np.testing.assert_allclose(rows, rows.round(), atol=1e-9)
    assert rows.sum().item() == pytest.approx(100)
    # Half of them each, give or take five deviations of a hundred coins.
    assert rows.min() >= 25
    assert sorted(exported(family)["mean"][0].tolist()) == pytest.approx([0.0, 10.0])
