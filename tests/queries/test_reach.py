"""Questions to models that hear two steps per level: private copies, worlds and groups reach as far as the model does.

Every answer is compared with whole passes over whole graphs. The model is put together from parts of this file: leaves
that regress on a context, and an aggregation whose context is made of one hop and two.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_models import random_model
from torch import Tensor, nn
from torch_geometric.data import Data

from gspn import GSPN, Continuous, Schema, register_aggregation
from gspn.circuits import Context, register_leaf
from gspn.circuits.leaves import GaussianLeaves
from gspn.graphs.batch import Batch
from gspn.graphs.edits import edit
from gspn.graphs.walks import independent_groups
from gspn.hierarchy import Hierarchy
from gspn.hierarchy.aggregation import Mean, Messages
from gspn.hierarchy.contexts import two_hops
from gspn.kernels import Received
from gspn.queries.what_if import what_if, what_if_all

SCHEMA = Schema([Continuous("a"), Continuous("b")])
LEVELS = [1, 2, 3]


class RegressingLeaves(GaussianLeaves):
    """The mean of a state moves with the context, where there is one."""

    exported = ("mean", "std", "slope")

    def __init__(self, attribute: Any, num_levels: int, num_leaves: int, *, context_width: int = 0) -> None:
        super().__init__(attribute, num_levels, num_leaves)
        self.context_width = context_width
        self.raw_slope = nn.Parameter(torch.zeros(num_levels, num_leaves, context_width))

    def natural(self) -> dict[str, Tensor]:
        return {**super().natural(), "slope": self.raw_slope}

    def regress(self, natural: dict[str, Tensor], context: Context) -> dict[str, Tensor]:
        mean = context.mean.to(natural["mean"].dtype)
        return {"mean": natural["mean"] + mean @ natural["slope"][0].T, "scale": natural["scale"]}

    def export(self, natural: dict[str, Tensor]) -> dict[str, Tensor]:
        return {**super().export(natural), "slope": natural["slope"].double()}

    def assign(self, exported: Any) -> None:
        super().assign(exported)
        with torch.no_grad():
            self.raw_slope.copy_(exported["slope"])


class OneHopAndTwo(Mean):
    def forward(self, messages: Messages) -> Received:
        received = super().forward(messages)
        assert received.context is not None
        assert messages.expectation is not None
        mean = received.context.mean - 1.3 * two_hops(messages.expectation, messages.batch)[0]
        return replace(received, context=Context(mean, received.context.present))


@pytest.fixture(autouse=True)
def two_steps_a_level(own_registries: None, monkeypatch: pytest.MonkeyPatch) -> None:
    register_leaf("tests' regressing", ["continuous"], RegressingLeaves, context=True)
    register_aggregation("tests' two hops", OneHopAndTwo)
    monkeypatch.setattr(Hierarchy, "reach", property(lambda self: 2 * (self.num_layers - 1)))


def model_of(levels: int) -> GSPN:
    leaves = {"a": "tests' regressing", "b": "tests' regressing"}
    return random_model(SCHEMA, 3, num_layers=levels, num_states=2, leaves=leaves, aggregation="tests' two hops")


def ladder(seed: int, n: int = 22) -> Data:
    """Long enough that nobody hears everybody: a path, mostly both ways, a self-loop, a parallel edge, a triangle.

    With gaps: an observed entry is told as it is, whoever was heard, so nothing would be handed on over two levels.
    """
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(2.5, 3.0, size=(n, 2)))
    x[torch.from_numpy(rng.random((n, 2)) < 0.3)] = torch.nan
    path = [(v, v + 1) for v in range(n - 1)]
    edges = path + [(v, u) for u, v in path if u % 4] + [(3, 3), (5, 6), (8, 10), (10, 8)]
    return Data(x=x, edge_index=torch.tensor(edges).T)


def left_out(model: GSPN, batch: Batch, vertex: int) -> Tensor:
    """log P(vertex | all others): one pass over the whole graph with the vertex hidden everywhere."""
    hidden = torch.zeros(batch.x.shape, dtype=torch.bool)
    hidden[vertex] = True
    log_hidden: Tensor = model(batch.hiding(hidden)).log_hidden
    return log_hidden[vertex]


def agree(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("levels", LEVELS)
@torch.no_grad()
def test_left_out_vertices(levels: int) -> None:
    model = model_of(levels)
    for seed in range(3):
        data = ladder(seed)
        batch = model.collate(data)
        expected = torch.stack([left_out(model, batch, v) for v in range(batch.num_vertices)])
        agree(model.log_likelihood(data, leave_one_out=True), expected)
        # One vertex alone: just the part of the graph that it hears is evaluated.
        for v in (0, 9, 21):
            agree(model.log_likelihood(data, leave_one_out=True, vertices=[v]), expected[v : v + 1])


@pytest.mark.parametrize("levels", LEVELS)
@torch.no_grad()
def test_conditionals(levels: int) -> None:
    """Of all vertices and of one: the entry is hidden in its own tree, everywhere."""
    model, data = model_of(levels), ladder(4)
    batch, values = model.collate(data), torch.full((22,), 1.5, dtype=torch.float64)
    for vertices in (list(range(22)), [7]):
        found = model.conditional(data, "a", vertices=vertices).log_prob(values[vertices])
        for v, answer in zip(vertices, found, strict=True):
            hidden = torch.zeros(batch.x.shape, dtype=torch.bool)
            hidden[v, 0] = True
            given = batch.x.masked_fill(hidden, 1.5)
            agree(answer, model(replace(batch, x=given).hiding(hidden)).log_hidden[v])


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize("levels", LEVELS)
@torch.no_grad()
def test_changes_of_entries_and_edges(levels: int, leave_one_out: bool) -> None:
    """After any change every vertex is as likely as in the changed graph, and some at the rim do hear it."""
    model, data = model_of(levels), ladder(5)
    changes: list[dict[str, Any]] = [
        {"changes": {11: {"a": 9.0}}},
        {"remove_edges": [(11, 12)]},
        {"add_edges": [(13, 9), (2, 9)]},
        {"changes": {4: {"b": -3.0}}, "remove_edges": [(18, 17)], "add_edges": [(20, 20)]},
    ]
    for change in changes:
        edited = edit(data, SCHEMA, **change, directed=True)
        before, after = model.collate(data), model.collate(edited.graph)
        found = what_if(model.hierarchy, before, after, edited.revalued, edited.rewired, leave_one_out)
        agree(found.before, model.log_likelihood(data, leave_one_out))
        agree(found.after, model.log_likelihood(edited.graph, leave_one_out))


@torch.no_grad()
def test_a_value_is_heard_as_far_as_the_model_reaches_and_edges_one_step_less() -> None:
    """On a one-way path, where steps can be counted."""
    model, n = model_of(3), 12
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[4:, 1] = torch.nan  # what is observed is told as it is, whoever was heard
    data = Data(x=x, edge_index=torch.stack([torch.arange(n - 1), torch.arange(1, n)]))
    for change, last in (({"changes": {3: {"a": 5.0}}}, 3 + 4), ({"add_edges": [(0, 3)]}, 3 + 3)):
        edited = edit(data, SCHEMA, **change, directed=True)
        before, after = model.collate(data), model.collate(edited.graph)
        found = what_if(model.hierarchy, before, after, edited.revalued, edited.rewired, False)
        assert found.change.nonzero().squeeze(1).tolist() == list(range(3, last + 1))
        agree(found.after, model.log_likelihood(edited.graph))


@pytest.mark.parametrize("budget", [10, 100_000])
@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize("levels", LEVELS)
@torch.no_grad()
def test_every_single_replacement(levels: int, leave_one_out: bool, budget: int) -> None:
    model, data = model_of(levels), ladder(6)
    batch, vertices = model.collate(data), torch.tensor([0, 3, 6, 9, 14, 21])
    values = torch.tensor([-2.0, 6.0], dtype=torch.float64)
    found = what_if_all(model.hierarchy, batch, 0, values, vertices, leave_one_out, budget)
    for row, v in enumerate(vertices.tolist()):
        for k, value in enumerate(values.tolist()):
            edited = edit(data, SCHEMA, {v: {"a": value}})
            after = model.collate(edited.graph)
            expected = what_if(model.hierarchy, batch, after, edited.revalued, edited.rewired, leave_one_out)
            agree(found[row, k], expected.total)


@pytest.mark.parametrize("levels", LEVELS)
@torch.no_grad()
def test_vertices_of_a_group_do_not_hear_each_other(levels: int) -> None:
    """Drawn at once they are drawn as if one after the other: hiding the group hides nothing from its members."""
    model = model_of(levels)
    batch = model.collate(ladder(7))
    groups = independent_groups(batch, torch.arange(batch.num_vertices), model.hierarchy.reach)
    assert len(groups) < batch.num_vertices
    for group in groups:
        hidden = torch.zeros(batch.x.shape, dtype=torch.bool)
        hidden[group] = True
        together = model(batch.hiding(hidden)).log_hidden[group]
        agree(together, torch.stack([left_out(model, batch, v) for v in group.tolist()]))


def test_how_far_a_hierarchy_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step per level, or two; with two levels a vertex hears itself through a self-loop alone."""
    monkeypatch.undo()
    for levels, reach, echo in ((1, 0, 0), (2, 1, 1), (4, 3, 3)):
        hierarchy = GSPN(SCHEMA, num_layers=levels, num_states=2).hierarchy
        assert (hierarchy.reach, hierarchy.longest_closed_walk) == (reach, echo)
    of: Any = Hierarchy
    for levels, reach, echo in ((1, 0, 0), (2, 2, 1), (4, 6, 6)):
        one, two = (SimpleNamespace(num_layers=levels, context=kind) for kind in ("neighbours", "two_hops"))
        assert of.reach.fget(one) == levels - 1
        assert of.reach.fget(two) == reach
        assert of.longest_closed_walk.fget(SimpleNamespace(num_layers=levels, reach=reach)) == echo
