"""The numbers themselves: precision, long sums, vertices without evidence.

Gradients are those of the reference, by autograd, and compared with it in `kernels/test_parity.py`.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from small_graphs import EVERY_KIND, draw_graphs
from small_models import TEMPLATES, random_model, template
from torch_geometric.data import Data

from gspn import GSPN, Categorical, Continuous, Schema


def draw_model(name: str, seed: int, **arguments: Any) -> GSPN:
    states = arguments.get("num_states", 3)
    return random_model(EVERY_KIND, seed, template=template(name, EVERY_KIND, states, seed), **arguments)


# ---- Precision


@pytest.mark.parametrize("name", TEMPLATES)
def test_float32_agrees_with_float64(name: str) -> None:
    """Each level adds some ten roundings of 6e-8 to log-densities of size up to 100; 1e-4 is relative to their size."""
    double = draw_model(name, 0, num_layers=5)
    single = copy.deepcopy(double).float()
    graphs = draw_graphs(5, seed=0, missing=0.2)
    for leave_one_out in (False, True):
        for one, other in zip(*(m.log_likelihood(graphs, leave_one_out) for m in (single, double)), strict=True):
            assert one.dtype == torch.float32
            assert other.dtype == torch.float64
            torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
    for one, other in zip(single.posteriors(graphs), double.posteriors(graphs), strict=True):
        assert one.dtype == torch.float32
        assert other.dtype == torch.float64
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)


def test_dtype_follows_the_model() -> None:
    graphs = draw_graphs(2, seed=1)
    model = GSPN(EVERY_KIND, num_layers=2, num_states=2, epochs=1).fit(graphs, progress=False)
    assert model.log_likelihood(graphs[0]).dtype == torch.float32  # the graphs hold float64
    assert model.double().log_likelihood(graphs[0]).dtype == torch.float64
    assert model.embed(graphs[0]).dtype == torch.float64
    assert model(model.collate(graphs)).log_likelihood.dtype == torch.float64
    assert model.float().posteriors(graphs[0]).dtype == torch.float32
    trained = GSPN(EVERY_KIND, num_layers=2, num_states=2, epochs=1).double().fit(graphs, progress=False)
    assert all(p.dtype == torch.float64 for p in trained.parameters())


def test_units_survive_a_change_of_dtype() -> None:
    """Time stamps in seconds: in float32 neighbouring ones are 128 apart, so standardising must happen before."""
    schema = Schema([Continuous("time"), Categorical("colour", ["red", "green"])])
    rng = np.random.default_rng(2)
    x = torch.from_numpy(np.stack([1.7e9 + rng.normal(0, 30, 50), rng.integers(2, size=50)], axis=1))
    data = Data(x=x, edge_index=torch.from_numpy(rng.integers(50, size=(2, 100))))
    model = GSPN(schema, num_layers=2, num_states=3, epochs=5).fit(data, progress=False)
    units = model.get_parameters()["units"]["time"]
    single = model.log_likelihood(data).double()
    model.double()
    torch.testing.assert_close(model.get_parameters()["units"]["time"], units, rtol=0, atol=0)
    torch.testing.assert_close(single, model.log_likelihood(data), rtol=1e-4, atol=1e-4)
    # The entropy of the time alone, were it known to 128 seconds only, would be off by about log(128 / 30).
    assert float(single.mean()) > -(np.log(30) + 0.5 * np.log(2 * np.pi * np.e) + np.log(2)) - 0.1


# ---- Long sums


COLOUR = Schema([Categorical("colour", list("abcdefgh"))])


def star(edges: int, senders: int) -> Data:
    """Edges from `senders` vertices, as equally often as possible but in random order, all into vertex 0."""
    rng = np.random.default_rng(3)
    source = rng.permutation(np.arange(edges) % senders) + 1
    x = torch.from_numpy(rng.integers(8, size=(senders + 1, 1)).astype(np.float64))
    return Data(x=x, edge_index=torch.from_numpy(np.stack([source, np.zeros(edges, dtype=np.int64)])))


@pytest.mark.parametrize(("edges", "senders"), [(1_000_000, 1000), (1024, 1024), (1025, 1025), (100_000, 10)])
def test_long_sums_in_float32(edges: int, senders: int) -> None:
    """A float32 sum of a million posteriors is wrong in the third digit; of 1024 it loses 1e-6 or so."""
    double = random_model(COLOUR, 4, num_layers=2, num_states=8)
    single = copy.deepcopy(double).float()
    data = star(edges, senders)
    expected = double.log_likelihood(data)
    torch.testing.assert_close(single.log_likelihood(data).double(), expected, rtol=1e-4, atol=0)
    exact = double.log_likelihood(data, leave_one_out=True, vertices=[0])
    torch.testing.assert_close(
        single.log_likelihood(data, leave_one_out=True, vertices=[0]).double(), exact, rtol=1e-4, atol=0
    )
    # The hub hears no echo of itself: its pseudo-likelihood is exact already.
    # A float64 sum of n terms loses at most n · 1e-16 of its size.
    torch.testing.assert_close(exact[0], expected[0], rtol=1e-9, atol=0)


def test_the_million_edges_count_one_by_one() -> None:
    """With two levels and one sum unit, P(x_v) is linear in the messages: the mean of what each sender alone gives."""
    model = random_model(COLOUR, 5, num_layers=2, num_states=4)
    data = star(1_000_000, 3)
    alone = [
        model.log_likelihood(Data(x=data.x, edge_index=torch.tensor([[sender], [0]])), vertices=[0]).exp()
        for sender in (1, 2, 3)
    ]
    counts = torch.bincount(data.edge_index[0])[1:].double()
    expected = (torch.cat(alone) * counts).sum() / counts.sum()
    # A float64 sum of a million terms loses at most 1e6 · 1e-16 of its size.
    torch.testing.assert_close(model.log_likelihood(data, vertices=[0]).exp()[0], expected, rtol=1e-9, atol=0)


# ---- No evidence


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", TEMPLATES)
def test_vertices_without_evidence_have_log_likelihood_zero(name: str, dtype: torch.dtype) -> None:
    model = draw_model(name, 6, shortcut="learned").to(dtype)
    graphs = draw_graphs(3, seed=6, sizes=(6, 6), missing=0.0)
    for data in graphs:
        data.x[[1, 4]] = torch.nan
    graphs[2].x[:] = torch.nan
    for leave_one_out in (False, True):
        first, second, third = model.log_likelihood(graphs, leave_one_out)
        for result in (first, second):
            assert result[[1, 4]].tolist() == [0.0, 0.0]
            assert (result[[0, 2, 3, 5]] != 0).all()
        assert third.tolist() == [0.0] * 6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("name", TEMPLATES)
def test_vertices_without_evidence_have_finite_gradients(name: str, everywhere: bool, dtype: torch.dtype) -> None:
    model = draw_model(name, 7, shortcut="learned", num_edge_types=2).to(dtype)
    data = draw_graphs(1, seed=7, sizes=(6, 6), missing=0.0, edge_types=2)[0]
    data.x[: 6 if everywhere else 3] = torch.nan
    batch = model.collate(data)
    evaluation = model(batch)
    weights = torch.randn(evaluation.posteriors.shape, generator=torch.Generator().manual_seed(8), dtype=dtype)
    (evaluation.log_likelihood.sum() + (weights * evaluation.posteriors).sum()).backward()
    for parameter, value in model.named_parameters():
        assert value.grad is not None, parameter
        assert torch.isfinite(value.grad).all(), parameter
        if everywhere and ".leaves." in parameter:
            assert not value.grad.any(), f"{parameter} learns from nothing"


def test_training_on_graphs_some_of_which_say_nothing() -> None:
    graphs = draw_graphs(6, seed=9)
    for data in graphs[::2]:
        data.x[:] = torch.nan
    for objective in ("pseudo", "masked", "leave_one_out"):
        model = GSPN(EVERY_KIND, num_layers=2, num_states=2, epochs=3, batch_size=1, objective=objective, mask_rate=0.5)
        model.fit(graphs, validation=graphs[0], progress=False)
        assert all(torch.isfinite(p).all() for p in model.parameters())
        assert model.leave_one_out_nll_ is None or np.isfinite(model.leave_one_out_nll_)


def test_states_that_are_impossible() -> None:
    """Transitions and priors of exactly 0 and 1, as people may set them, give finite values and gradients."""
    model = random_model(COLOUR, 10, num_layers=2, num_states=2)
    parameters = model.get_parameters()
    parameters["prior"] = torch.tensor([[1.0, 0.0]])
    parameters["transitions"][:] = torch.eye(2)
    model.set_parameters(parameters).float()
    data = Data(x=torch.tensor([[0.0], [3.0], [torch.nan]]), edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]))
    evaluation = model(model.collate(data))
    evaluation.log_likelihood.sum().backward()
    torch.testing.assert_close(evaluation.posteriors[:, :, 0, 0], torch.ones(3, 2))
    probs = parameters["leaves"]["colour"]["probs"][1, 0]
    expected = torch.stack([probs[0], probs[3], torch.ones(())]).log().float()
    torch.testing.assert_close(evaluation.log_likelihood.detach(), expected, rtol=1e-5, atol=1e-6)
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_large_values_before_any_fit() -> None:
    """An unfitted model knows no mean to be far from: salaries and time stamps can be collated and evaluated."""
    model = GSPN(Schema([Continuous("time")]), num_layers=2, num_states=2)
    data = Data(x=torch.tensor([[1.7e9], [1.8e9]], dtype=torch.float64), edge_index=torch.tensor([[0], [1]]))
    assert torch.isfinite(model(model.collate(data)).log_likelihood).all()
