"""The fast kernel against the reference: values and gradients, relative to each tensor's largest magnitude.

Whole models are compared in float64. In float32, rounding in the leaves and the cancellation in gradients of almost
certain posteriors cost either kernel up to some 1e-5 of a parameter's gradient; there, each is compared with float64.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from small_graphs import EVERY_KIND, draw_graphs
from small_models import random_model
from torch import Tensor
from torch_geometric.data import Data

from gspn import GSPN, Categorical, Continuous, Schema
from gspn.circuits.evidence import Evidence
from gspn.graphs.batch import Batch
from gspn.kernels.compiled.fast import fast
from gspn.kernels.contract import Levels
from gspn.kernels.reference import climb_inputs

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}

LABEL = Schema([Categorical("label", ["a", "b", "c", "d"])])
VALUE = Schema([Continuous("value")])


@dataclass
class Case:
    """A model and graphs, with a hidden set or none."""

    graphs: list[Data]
    schema: Schema = field(default_factory=lambda: EVERY_KIND)
    arguments: dict[str, Any] = field(default_factory=dict)
    hidden: float = 0.0


def graph(x: Tensor, edges: list[tuple[int, int]]) -> Data:
    return Data(x=x.double(), edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T)


def hub(in_degree: int) -> Data:
    """A vertex that hears from many, some of whom hear from it."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randint(4, (in_degree + 1, 1), generator=generator)
    inward = [(u, 0) for u in range(1, in_degree + 1)]
    return graph(x, inward + [(0, u) for u in range(1, in_degree + 1, 3)])


def labels(vertices: int, seed: int = 0) -> Tensor:
    return torch.randint(4, (vertices, 1), generator=torch.Generator().manual_seed(seed))


def all_missing(graphs: list[Data]) -> list[Data]:
    for data in graphs:
        data.x[::3] = torch.nan
    return graphs


CASES: dict[str, Case] = {
    "every kind of attribute, missing values": Case(draw_graphs(7, seed=1, missing=0.3)),
    "vertices without any entry": Case(all_missing(draw_graphs(5, seed=2))),
    "nothing observed at all": Case(draw_graphs(3, seed=3, missing=1.0)),
    "vertices without incoming edges": Case(
        [graph(labels(9), [(0, 1), (1, 2), (2, 1), (4, 2), (4, 4), (7, 8)]), graph(labels(3), [(0, 1), (0, 2)])], LABEL
    ),
    "parallel edges": Case([graph(labels(4), [(0, 1), (0, 1), (1, 0), (2, 2), (2, 2), (3, 2)])], LABEL),
    "edge types": Case(draw_graphs(6, seed=4, edge_types=3), arguments={"num_edge_types": 3}),
    "types that are not told apart": Case(draw_graphs(3, seed=5, edge_types=3)),
    "one level": Case(draw_graphs(4, seed=6), arguments={"num_layers": 1}),
    "two levels": Case(draw_graphs(4, seed=6), arguments={"num_layers": 2}),
    "one state": Case(draw_graphs(4, seed=7), arguments={"num_states": 1}),
    "eight states": Case(draw_graphs(4, seed=7), arguments={"num_states": 8}),
    "twenty states, ten levels": Case(draw_graphs(9, seed=8), arguments={"num_states": 20, "num_layers": 10}),
    "64 states": Case(draw_graphs(4, seed=9), arguments={"num_states": 64}),
    "one vertex": Case([graph(labels(1), [])], LABEL),
    "one vertex that hears itself": Case([graph(labels(1), [(0, 0)])], LABEL),
    "no edges": Case([graph(labels(11), []), graph(labels(2), [])], LABEL),
    "no vertices": Case([graph(labels(0), [])], LABEL),
    "graphs without vertices among others": Case(
        [graph(labels(n), [(0, n - 1)] if n else []) for n in (0, 3, 0, 0, 2, 0)], LABEL
    ),
    "a hub": Case([hub(1500)], LABEL, {"num_states": 5}),
    "a hub of several edge types": Case([hub(1500)], LABEL, {"num_states": 5, "num_edge_types": 2}),
    "hidden entries": Case(draw_graphs(6, seed=10), hidden=0.3),
    "hidden entries and missing ones": Case(draw_graphs(6, seed=11, missing=0.4), hidden=0.5),
    "everything hidden": Case(draw_graphs(3, seed=12), hidden=1.0),
    "shortcut: mean": Case(draw_graphs(4, seed=13), arguments={"shortcut": "mean"}),
    "shortcut: learned": Case(draw_graphs(4, seed=14), arguments={"shortcut": "learned"}),
    "few distinct values": Case(
        [graph(labels(40, seed), [(v, (v + s) % 40) for v in range(40) for s in (1, 3)]) for seed in range(30)],
        LABEL,
        {"num_states": 20, "num_layers": 6},
    ),
    "few distinct values in one large graph": Case(
        [graph(labels(3000), [(v, (v * s + 1) % 3000) for v in range(3000) for s in (1, 3)])], LABEL, {"num_layers": 6}
    ),
    "a large graph among small ones": Case(
        [graph(labels(n), [(v, (v * s + 1) % n) for v in range(n) for s in (1, 3)]) for n in (3, 5, 3000, 8, 20)],
        LABEL,
        {"num_layers": 6},
    ),
    "many distinct values in one large graph": Case(
        [graph(torch.linspace(-4, 9, 2500)[:, None], [(v, (v * 7 + 1) % 2500) for v in range(2500)])],
        VALUE,
        {"num_layers": 5},
    ),
}


def prepare(case: Case, dtype: torch.dtype) -> tuple[GSPN, Batch]:
    model = random_model(case.schema, 5, **case.arguments)
    graphs = [data.clone() for data in case.graphs]
    if case.arguments.get("num_edge_types", 1) > 1:
        for data in graphs:
            if "edge_type" not in data:
                data.edge_type = torch.arange(data.num_edges) % 2
    batch = model.collate(graphs)
    if case.hidden:
        draw = torch.rand(batch.x.shape, generator=torch.Generator().manual_seed(0))
        batch = batch.hiding((draw < case.hidden) & batch.observed)
    return model.to(dtype), batch


def outcome(model: GSPN, batch: Batch, kernel: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Tensor]:
    """Everything an evaluation gives, and the gradients of losses that depend on each of these things."""
    monkeypatch.setenv("GSPN_KERNEL", kernel)
    found: dict[str, Tensor] = {}
    names = ("log_likelihood", "log_visible", "posteriors", "root_log_prior", "graph_sums", "all")
    for name in names:
        model.zero_grad()
        evaluation = model(batch)
        loss = evaluation.log_likelihood.new_zeros(())
        for field_name in names[:-1] if name == "all" else (name,):
            value: Tensor = getattr(evaluation, field_name)
            found[field_name] = value.detach()
            weight = torch.rand(value.shape, generator=torch.Generator().manual_seed(7)).to(value)
            loss = loss + (weight * value).sum() + (weight * value.square()).sum() / 2
        if loss.requires_grad:
            loss.backward()
        for parameter_name, parameter in model.named_parameters():
            found[f"{name} by {parameter_name}"] = (
                torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
            )
    return found


def assert_alike(ours: dict[str, Tensor], theirs: dict[str, Tensor], tolerance: float) -> None:
    assert set(ours) == set(theirs)
    for name, expected in theirs.items():
        assert ours[name].shape == expected.shape, name
        assert ours[name].dtype == expected.dtype, name
        assert torch.isfinite(ours[name]).all(), name
        if expected.numel():
            error = (ours[name].double() - expected.double()).abs().max().item()
            assert error <= tolerance * max(expected.abs().max().item(), 1e-30), name


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = prepare(CASES[name], torch.float64)
    theirs = outcome(model, batch, "reference", monkeypatch)
    assert_alike(outcome(model, batch, "fast", monkeypatch), theirs, TOLERANCE[torch.float64])


@pytest.mark.parametrize("name", CASES)
def test_single_precision(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never further from float64 than 1e-5, or than the reference is."""
    model, batch = prepare(CASES[name], torch.float32)
    truth = outcome(model.double(), batch, "reference", monkeypatch)
    theirs = outcome(model.float(), batch, "reference", monkeypatch)
    for key, ours in outcome(model, batch, "fast", monkeypatch).items():
        assert ours.dtype == torch.float32
        assert torch.isfinite(ours).all(), key
        if ours.numel():
            error, their_error = ((value - truth[key]).abs().max().item() for value in (ours, theirs[key]))
            assert error <= max(2 * their_error, 1e-5 * truth[key].abs().max().item()), key


Inputs = tuple[Tensor, Tensor, Tensor]


def kernel_inputs(batch: Batch, levels: int, states: int, kinds: int, dtype: torch.dtype) -> Inputs:
    """Random log-densities [L, 10, C], prior and transitions."""
    generator = torch.Generator().manual_seed(levels)
    log_density = torch.randn(levels, 10, states, generator=generator, dtype=torch.float64)
    prior = torch.randn(1, states, generator=generator, dtype=torch.float64).softmax(-1)
    transitions = torch.randn(levels - 1, kinds, 1, states, states, generator=generator, dtype=torch.float64)
    inputs = log_density, prior, transitions.softmax(-1)
    return tuple(value.to(dtype).requires_grad_() for value in inputs)  # type: ignore[return-value]


def reference(log_density: Tensor, evidence: Tensor, prior: Tensor, transitions: Tensor, batch: Batch) -> Levels:
    """The reference's loop on densities of distinct evidence, with the paper's mean."""
    hierarchy = GSPN(LABEL, 1 + len(transitions), prior.shape[1], num_edge_types=transitions.shape[1]).hierarchy
    template = hierarchy.template
    climb = hierarchy.climb(Evidence(batch.x[:, :1]), batch, prior, transitions)
    return climb_inputs(template, log_density.index_select(1, evidence), climb.aggregate)


def evidence_of(batch: Batch) -> Tensor:
    return torch.arange(batch.num_vertices) * 7 % 10


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("states", [1, 3, 8, 20, 64])
@pytest.mark.parametrize("kinds", [1, 3])
def test_the_kernels_themselves(states: int, kinds: int, dtype: torch.dtype) -> None:
    batch = prepare(Case(draw_graphs(40, seed=3, edge_types=3)), dtype)[1]
    outcomes: list[dict[str, Tensor]] = []
    for kernel in (fast, reference):
        inputs = kernel_inputs(batch, 6, states, kinds, dtype)
        levels = kernel(inputs[0], evidence_of(batch), *inputs[1:], batch)
        found = {name: levels.at_vertices(getattr(levels, name)) for name in ("posteriors", "root_prior", "log_value")}
        generator = torch.Generator().manual_seed(0)
        weighted = [value * torch.randn(value.shape, generator=generator).to(dtype) for value in found.values()]
        loss = torch.stack([value.sum() for value in weighted]).sum()
        gradients = torch.autograd.grad(loss, inputs)
        names = ("log_density", "prior", "transitions")
        outcomes.append(found | {f"by {name}": g for name, g in zip(names, gradients, strict=True)})
    ours, theirs = outcomes
    assert_alike(ours, theirs, TOLERANCE[dtype])


@pytest.mark.parametrize("kinds", [1, 2])
def test_gradients_are_derivatives(kinds: int) -> None:
    batch = prepare(Case(draw_graphs(2, seed=3, edge_types=2)), torch.float64)[1]

    def evaluate(log_density: Tensor, prior: Tensor, transitions: Tensor) -> tuple[Tensor, ...]:
        levels = fast(log_density, evidence_of(batch), prior, transitions, batch)
        assert levels.graph_sums is not None
        return levels.posteriors, levels.root_prior, levels.log_value, levels.graph_sums

    assert torch.autograd.gradcheck(evaluate, kernel_inputs(batch, 3, 4, kinds, torch.float64))


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("name", [name for name in CASES if "large" in name or "few" in name or "edge types" in name])
def test_divided_among_threads(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = prepare(CASES[name], torch.float64)
    theirs = outcome(model, batch, "reference", monkeypatch)
    monkeypatch.setattr("gspn.kernels.compiled.threads.WORTH_A_THREAD", 10)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    ours = outcome(model, batch, "fast", monkeypatch)
    assert_alike(ours, theirs, TOLERANCE[torch.float64])
    again = outcome(model, batch, "fast", monkeypatch)
    assert all(torch.equal(value, again[key]) for key, value in ours.items())


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("distance", [10.0, 1e2, 1e3, 1e5])
def test_extreme_evidence(dtype: torch.dtype, distance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Densities that no floating-point number can hold: sharp states, values far away on both sides, sure priors."""
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(60, 1)) * distance)
    data = graph(x, [(v, (v * 3 + 1) % 60) for v in range(60)])
    model = random_model(VALUE, 1, num_states=6, spread=1.0)
    with torch.no_grad():
        model.hierarchy.families[0].get_parameter("raw_scale")[:, ::2] = -30.0
        model.hierarchy.raw_transitions.mul_(40)
        model.hierarchy.raw_prior.mul_(40)
    batch = model.collate(data)
    model.to(dtype)
    found: dict[str, list[Tensor]] = {}
    for kernel in ("reference", "fast"):
        monkeypatch.setenv("GSPN_KERNEL", kernel)
        model.zero_grad()
        evaluation = model(batch)
        loss = (
            evaluation.log_likelihood.mean() + evaluation.posteriors[..., 0].sum() + evaluation.graph_sums[0, 0, 0, 1]
        )
        loss.backward()
        values = evaluation.posteriors.detach(), evaluation.root_prior.detach(), evaluation.log_likelihood.detach()
        found[kernel] = [*values, *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
        assert all(torch.isfinite(value).all() for value in found[kernel])
    for ours, theirs in zip(found["fast"], found["reference"], strict=True):
        # Gradients span 40 orders of magnitude here; those that vanish are compared with 1.
        scale = max(theirs.abs().max().item(), 1.0)
        assert (ours - theirs).abs().max() <= TOLERANCE[dtype] * scale
