"""Models whose parts go by name: what they learn of gaps, what they refuse, and what is written of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from informative_leaves import InformativeGaussianLeaves
from torch_geometric.data import Data

from gspn import GSPN, Continuous, Schema, pack, register_aggregation, store_graph
from gspn.circuits import Leaves, register_leaf
from gspn.errors import CheckpointError, InputError
from gspn.hierarchy.aggregation import Aggregation, Mean, Messages
from gspn.kernels import Received
from gspn.models.growing import fit_grown
from gspn.models.saving import settings_to_json
from gspn.policy import hold_out, model_for

SCHEMA = Schema([Continuous("a"), Continuous("b")])


class Regressing(InformativeGaussianLeaves):
    """Depends on a context in name only."""

    def __init__(self, attribute: Any, num_levels: int, num_leaves: int, *, context_width: int = 0) -> None:
        super().__init__(attribute, num_levels, num_leaves)
        self.context_width = context_width


class Sharpened(Mean):
    """The mean, with a parameter for every level that receives."""

    def __init__(self, num_levels: int, num_edge_types: int, num_sum_units: int, num_states: int) -> None:
        super().__init__(num_levels, num_edge_types, num_sum_units, num_states)
        self.raw = torch.nn.Parameter(torch.zeros(num_levels - 1))

    def start(self, generator: torch.Generator) -> None:
        with torch.no_grad():
            self.raw.zero_()

    def forward(self, messages: Messages) -> Received:
        prior = super().forward(messages).prior
        sharp = prior.clamp_min(1e-30) ** self.raw[messages.level - 1].exp()
        return Received(sharp / sharp.sum(-1, keepdim=True))


class WithoutContext(Aggregation):
    def forward(self, messages: Messages) -> Received:
        return Received(messages.start)


@pytest.fixture(autouse=True)
def registered(own_registries: None) -> None:
    """For the time of a test: the registries are put back after each."""
    register_leaf("tests' gaps", ["continuous"], InformativeGaussianLeaves)
    register_leaf("tests' regression", ["continuous"], Regressing, context=True)
    register_aggregation("tests' sharpened", Sharpened)
    register_aggregation("tests' without context", WithoutContext)


def rings(count: int, missing: float = 0.3, vertices: int = 12) -> list[Data]:
    generator = torch.Generator().manual_seed(0)
    ring = torch.arange(vertices)
    graphs = []
    for _ in range(count):
        x = torch.randn(vertices, 2, generator=generator, dtype=torch.float64)
        x[torch.rand(x.shape, generator=generator) < missing] = torch.nan
        graphs.append(Data(x=x, edge_index=torch.stack([ring, ring.roll(1)])))
    return graphs


@pytest.mark.parametrize("objective", ["pseudo", "masked"])
def test_hiding_entries_does_not_make_gaps_forgotten(objective: str) -> None:
    """30 % are missing at random; masks over observed entries alone would teach that nothing ever is."""
    graphs = rings(60)
    model = GSPN(
        SCHEMA, 1, 2, objective=objective, mask_rate=0.5, epochs=60, lr=0.05, leaves={"a": "tests' gaps"}, seed=1
    )
    model.fit(graphs, progress=False)
    unknown = Data(x=torch.full((1, 2), torch.nan, dtype=torch.float64), edge_index=torch.empty(2, 0).long())
    missing = torch.cat([graph.x[:, 0].isnan() for graph in graphs]).double().mean().item()
    # A sample of 720 entries is within 0.05 of what generated it, and so is what is learned from it.
    assert model.log_likelihood(unknown).exp().item() == pytest.approx(missing, abs=0.06)


def test_a_context_that_nobody_gives_is_an_error() -> None:
    model = GSPN(SCHEMA, 2, 2, leaves={"a": "tests' regression"}, aggregation="tests' without context", epochs=1)
    with pytest.raises(InputError, match="'tests' without context' gives no context, which the leaves of 'a' depend"):
        model.fit(rings(2), progress=False)


def test_levels_grow_also_where_an_aggregation_has_parameters() -> None:
    model = GSPN(SCHEMA, 3, 2, objective="masked", aggregation="tests' sharpened", epochs=4, seed=0)
    fit_grown(model, pack(rings(4), SCHEMA), progress=False)
    assert model.get_parameters()["aggregation"]["raw"].shape == (2,)


def test_leaves_are_written_in_one_form() -> None:
    forms: list[Any] = [{"a": "gaussian", "b": "gaussian"}, {("b",): "gaussian", ("a",): "gaussian"}]
    one, other = (settings_to_json(GSPN(SCHEMA, 1, 2, leaves=leaves).arguments()) for leaves in forms)
    assert one == other
    assert "leaves" not in settings_to_json(GSPN(SCHEMA, 1, 2, leaves={}).arguments())


def test_stored_results_belong_to_their_leaves(tmp_path: Path) -> None:
    class Doubled(InformativeGaussianLeaves):
        def log_density_of(self, natural: Any, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().log_density_of(natural, x)

    register_leaf("tests' doubled", ["continuous"], Doubled)
    data = rings(1)[0]
    graph = store_graph(tmp_path / "graph", data.x, data.edge_index, SCHEMA, progress=False)
    models = [GSPN(SCHEMA, 1, 2, leaves={"a": name}) for name in ("tests' gaps", "tests' doubled")]
    parameters = models[0].get_parameters()
    for model in models:
        model.set_parameters(parameters)
    models[0].evaluate_stored(graph, tmp_path / "results", progress=False)
    with pytest.raises(CheckpointError, match="leaves"):
        models[1].evaluate_stored(graph, tmp_path / "results", progress=False)


def test_families_that_cannot_be_are_refused_when_they_are_registered_or_built() -> None:
    build: Any = InformativeGaussianLeaves
    wrong: list[Any] = [0, (3, 2), "2", (1,), True]
    for attributes in wrong:
        with pytest.raises(InputError, match="attributes must be"):
            register_leaf("tests' wrong", ["continuous"], build, attributes=attributes)
    for kinds in ([], None, "continuous", ["colour"]):
        with pytest.raises(InputError, match="kinds must be some of"):
            register_leaf("tests' wrong", kinds, build)  # type: ignore[arg-type]
    no_leaves: Any = lambda *_: torch.nn.Identity()  # noqa: E731
    register_leaf("tests' identity", ["continuous"], no_leaves)
    with pytest.raises(InputError, match="'tests' identity' was to build Leaves"):
        GSPN(SCHEMA, 1, 2, leaves={"a": "tests' identity"})
    assert issubclass(build, Leaves)


def test_a_single_row_of_many_columns_is_learned_without_holding_out() -> None:
    """Each of its entries is the only one of its column."""
    schema = Schema([Continuous(f"c{i}") for i in range(300)])
    row = Data(x=torch.randn(1, 300, dtype=torch.float64), edge_index=torch.empty(2, 0).long())
    dataset = pack([row], schema)
    assert hold_out(model_for(dataset), dataset)[1] is None


class ByOutDegree(Aggregation):
    """Every sender counts by one over its number of outgoing edges."""

    reads_out_degree = True

    def forward(self, messages: Messages) -> Received:
        source, target = messages.batch.source.long(), messages.target.long()
        weight = 1 / messages.out_degree.to(messages.posterior.dtype)[source]
        total = torch.zeros(messages.batch.num_vertices, dtype=weight.dtype).index_add(0, target, weight)
        told = torch.einsum("nsk,ski->nsi", messages.posterior, messages.transition[0])[source]
        prior = torch.zeros_like(messages.posterior)
        prior = prior.index_add(0, target, (weight / total[target])[:, None, None] * told)
        return Received(torch.where((messages.in_degree == 0)[:, None, None], messages.start, prior))


def test_an_edge_changes_what_its_sender_tells_all_others() -> None:
    """Where out-degrees count, a removed edge is heard beyond the vertex that it led to."""
    register_aggregation("tests' by out-degree", ByOutDegree)
    model = GSPN(SCHEMA, 2, 3, aggregation="tests' by out-degree", epochs=3, lr=0.3).double()
    graph = rings(1, missing=0.0)[0]
    graph.edge_index = torch.cat([graph.edge_index, torch.tensor([[0, 0, 3], [4, 7, 4]])], dim=1)
    model.fit([graph], progress=False)
    answer = model.what_if(graph, {}, remove_edges=[(0, 7)], directed=True, leave_one_out=False)
    without = graph.clone()
    without.edge_index = graph.edge_index[:, ~((graph.edge_index[0] == 0) & (graph.edge_index[1] == 7))]
    torch.testing.assert_close(answer.after, model.log_likelihood(without), rtol=1e-9, atol=1e-9)
    assert answer.change[4] != 0
