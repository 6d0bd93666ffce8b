"""Gaps as evidence in models and questions: hidden is not missing, anywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from informative_leaves import InformativeBernoulliLeaves, InformativeGaussianLeaves, density
from torch_geometric.data import Data

from gspn import GSPN, Binary, Continuous, Schema
from gspn.circuits import register_leaf
from gspn.testing import oracle, oracle_graph, oracle_model

pytestmark = pytest.mark.usefixtures("own_registries")

SCHEMA = Schema([Continuous("x"), Binary("b"), Continuous("y")])
ALONE = Schema([Continuous("x")])


def prepare(schema: Schema, kernel: str, monkeypatch: pytest.MonkeyPatch) -> tuple[GSPN, oracle.Model, Data]:
    monkeypatch.setenv("GSPN_KERNEL", kernel)
    register_leaf("informative_gaussian", ["continuous"], InformativeGaussianLeaves)
    model = GSPN(schema, 3, 3, leaves={"x": "informative_gaussian"}).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    model.set_parameters(model.get_parameters())
    x = torch.randn(4, len(schema), generator=generator, dtype=torch.float64)
    if len(schema) > 1:
        x[:, 1] = torch.tensor([1.0, 0.0, torch.nan, 1.0])
    x[1, 0] = x[2, 0] = torch.nan
    edges = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (3, 0), (0, 0)]
    return model, oracle_model(model, densities={"x": density}), Data(x=x, edge_index=torch.tensor(edges).T)


@pytest.mark.parametrize("kernel", ["reference", "fast"])
@pytest.mark.parametrize("schema", [SCHEMA, ALONE], ids=["several attributes", "one attribute"])
def test_agrees_with_the_oracle(schema: Schema, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, theirs, data = prepare(schema, kernel, monkeypatch)
    graph = oracle_graph(data)
    expected = [oracle.log_likelihood(theirs, graph, v) for v in range(4)]
    np.testing.assert_allclose(model.log_likelihood(data).numpy(), expected, rtol=1e-9, atol=1e-9)
    for value in (-0.7, 1.9):
        # The same whether the entry was observed or missing: value and gap leave the evidence everywhere.
        expected = [oracle.answer(theirs, graph, v, {0: value}, {(v, 0)}) for v in range(4)]
        found = model.conditional(data, "x").log_prob(value)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-9)
    hidden = {(0, 0), (1, 0), (3, len(schema) - 1)}
    mask = torch.zeros_like(data.x, dtype=torch.bool)
    for v, column in hidden:
        mask[v, column] = True
    roots = [oracle.root(theirs, graph, v, hidden) for v in range(4)]
    evaluation = model(model.collate(data).hiding(mask))
    np.testing.assert_allclose(
        evaluation.log_visible.detach().numpy(), [r.log_visible for r in roots], rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(
        evaluation.log_likelihood.detach().numpy(), [r.log_likelihood for r in roots], rtol=1e-9, atol=1e-9
    )


def test_filling_keeps_the_gap_as_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    model, theirs, data = prepare(SCHEMA, "reference", monkeypatch)
    graph = oracle_graph(data)
    truth = torch.tensor([0.4, 1.0, -0.2], dtype=torch.float64).expand(4, -1)
    gaps = [{c: float(truth[v, c]) for c in range(3) if math.isnan(graph.x[v, c])} for v in range(4)]
    expected = [oracle.answer(theirs, graph, v, gaps[v]) for v in range(4)]
    np.testing.assert_allclose(model.log_prob_missing(data, truth).numpy(), expected, rtol=1e-9, atol=1e-9)


def test_a_table_knows_no_hidden_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table has a row for a gap, which a hidden entry is not; the compiled kernel may not look it up."""
    register_leaf("informative_bernoulli", ["binary"], InformativeBernoulliLeaves)
    model = GSPN(Schema([Binary("b")]), 2, 2, leaves={"b": "informative_bernoulli"}).double()
    x = torch.tensor([1.0, 0.0, torch.nan, 1.0] * 10, dtype=torch.float64)[:, None]
    ring = torch.stack([torch.arange(40), torch.arange(1, 41) % 40])
    batch = model.collate(Data(x=x, edge_index=ring)).hiding(torch.arange(40)[:, None] % 3 == 0)
    found = []
    for kernel in ("fast", "reference"):
        monkeypatch.setenv("GSPN_KERNEL", kernel)
        found.append(model(batch).posteriors.detach())
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)
