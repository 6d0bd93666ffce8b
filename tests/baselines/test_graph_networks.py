"""What the networks can represent they learn, what they cannot they do not; and how they are trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import two_hop
from small_graphs import EVERY_KIND, draw_graphs
from torch_geometric.data import Data

from gspn import Binary, Categorical, Continuous, Count, DeepSets, GSPNError, Schema, pack
from gspn.baselines import DGCNN, DGI, ECC, GAE, GIN, DeepMultisets, DiffPool, GraphEmbedder, GraphNetwork, GraphSAGE
from gspn.baselines.constant import best_outputs
from gspn.baselines.encoders import non_edges
from gspn.baselines.features import Features
from gspn.baselines.graph_network import loss_of
from gspn.baselines.networks import Inputs, inputs_of
from gspn.errors import InputError
from gspn.predictors.outputs import outputs_for

RINGS, OTHER_RINGS = two_hop.rings(160, 0), two_hop.rings(80, 1)


def on_rings(network: Any, **arguments: Any) -> GraphNetwork:
    model = GraphNetwork(two_hop.SCHEMA, two_hop.TARGET, network, **{"epochs": 30, "batch_size": 40} | arguments)
    return model.fit(RINGS, progress=False)


@pytest.mark.parametrize(
    "network",
    [
        GIN(hidden=16, num_layers=3),
        GraphSAGE(hidden=16, num_layers=3, aggregation="sum"),
        DGCNN(hidden=16, num_layers=3),
        DiffPool(hidden=16, embedding=16),
        ECC(hidden=16, num_layers=3),
    ],
    ids=lambda network: type(network).__name__,
)
def test_two_hops_are_seen(network: Any) -> None:
    # Chance is one half.
    assert on_rings(network).score(OTHER_RINGS) > 0.8


@pytest.mark.parametrize("network", [DeepMultisets(), GIN(num_layers=0)], ids=["multisets", "no layer"])
def test_without_edges_they_are_not(network: Any) -> None:
    """Both labels have the same multisets of colours: 80 coins, of which more than 50 fall alike in 3 of 100 cases."""
    assert abs(on_rings(network).score(OTHER_RINGS) - 0.5) < 0.14


def test_edge_types_are_seen_by_ecc_alone() -> None:
    """The label is the type of all edges; nothing else differs."""
    rng = np.random.default_rng(0)
    graphs = []
    for number in range(80):
        n = int(rng.integers(4, 8))
        ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
        data = Data(x=torch.from_numpy(rng.integers(2, size=(n, 1)).astype(float)), edge_index=ring)
        data.edge_type, data.y = torch.full((n,), number % 2), torch.tensor([float(number % 2)])
        graphs.append(data)
    schema = Schema([Binary("x")])
    told = GraphNetwork(schema, Binary("y"), ECC(hidden=8, num_edge_types=2), epochs=30, batch_size=20)
    assert told.fit(graphs[:60], progress=False).score(graphs[60:]) > 0.9
    untold = GraphNetwork(schema, Binary("y"), ECC(hidden=8), epochs=10, batch_size=20).fit(graphs[:60], progress=False)
    assert untold.score(graphs[60:]) < 0.8
    with pytest.raises(InputError, match="edge type"):
        told.predict([Data(x=graphs[0].x, edge_index=graphs[0].edge_index, edge_type=graphs[0].edge_type + 7)])


# ---- How they are trained


def test_the_loss_has_the_gradient_it_says() -> None:
    """Every kind of target with gaps, against finite differences."""
    target = Schema([Categorical("a", ["x", "y", "z"]), Binary("b"), Continuous("c"), Count("d")])
    rng = np.random.default_rng(0)
    columns = [rng.integers(3, size=12), rng.integers(2, size=12), rng.normal(5, 2, size=12), rng.poisson(3, size=12)]
    labels = np.stack(columns, axis=1).astype(float)
    labels[rng.random(labels.shape) < 0.2] = np.nan
    meaning = outputs_for(target, labels)
    outputs = torch.from_numpy(rng.normal(size=(12, 6))).requires_grad_()
    assert torch.autograd.gradcheck(lambda o: loss_of(o, torch.from_numpy(labels), meaning), (outputs,))
    # And the constant predictor stands where it is least.
    best = torch.from_numpy(best_outputs(meaning, labels)).expand(12, -1)
    least = loss_of(best, torch.from_numpy(labels), meaning)
    for step in torch.eye(6, dtype=torch.float64) * 0.05:
        assert loss_of(best + step, torch.from_numpy(labels), meaning) >= least - 1e-9
        assert loss_of(best - step, torch.from_numpy(labels), meaning) >= least - 1e-9


@pytest.mark.parametrize("network", [GIN(hidden=8, num_layers=1, dropout=0.5), DGCNN(hidden=8, dense=8)])
def test_interrupted_and_continued(network: Any, tmp_path: Path) -> None:
    """A checkpoint holds weights, statistics and best epoch; dropout of an epoch does not depend on those before it."""
    arguments: dict[str, Any] = {"batch_size": 40, "halve_every": 2}
    straight = on_rings(network, epochs=5, **arguments)
    file = tmp_path / "run"
    for epochs in (2, 5):
        model = GraphNetwork(two_hop.SCHEMA, two_hop.TARGET, network, epochs=epochs, **arguments)
        model.fit(RINGS, checkpoint=file, progress=False)
    np.testing.assert_array_equal(model.predict_proba(OTHER_RINGS), straight.predict_proba(OTHER_RINGS))
    with pytest.raises(GSPNError, match="network"):
        GraphNetwork(two_hop.SCHEMA, two_hop.TARGET, GIN(hidden=4), epochs=5, **arguments).fit(
            RINGS, checkpoint=file, progress=False
        )


def test_the_best_epoch_is_kept() -> None:
    model = GraphNetwork(two_hop.SCHEMA, two_hop.TARGET, GIN(hidden=8), epochs=12, batch_size=40, monitor="score")
    model.fit(RINGS, validation=OTHER_RINGS, progress=False)
    assert model.score(OTHER_RINGS) == max(record["score"] for record in model.history_)
    # The better it learns, the worse it does on labels that say the opposite.
    opposite = (OTHER_RINGS, torch.cat([1 - graph.y for graph in OTHER_RINGS]))
    model.set_params(monitor="loss", patience=3, epochs=60).fit(RINGS, validation=opposite, progress=False)
    assert len(model.history_) < 60


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"epochs": -1}, "epochs"), ({"lr": 0.0}, "lr"), ({"monitor": "luck"}, "monitor"), ({"seed": -1}, "seed")],
)
def test_arguments_are_checked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        on_rings(GIN(), **arguments)
    with pytest.raises(InputError, match="hidden"):
        GIN(hidden=0)


# ---- Without labels


@pytest.mark.parametrize("network", [GAE(hidden=32, num_layers=3), DGI(hidden=32, num_layers=3)], ids=["GAE", "DGI"])
def test_embeddings_know_two_hops(network: Any) -> None:
    model = GraphEmbedder(two_hop.SCHEMA, network, epochs=30, batch_size=40, patience=30)
    model.fit(RINGS, validation=OTHER_RINGS, progress=False)
    assert min(r["validation"] for r in model.history_) < model.history_[0]["validation"]
    # With 0.01 some heads on DGI's nearly parallel rows never learn anything, whatever the embeddings know.
    head = DeepSets(two_hop.TARGET, epochs=200, lr=0.003)
    head.fit(model.embed(RINGS), [graph.y for graph in RINGS], progress=False)
    assert head.score(model.embed(OTHER_RINGS), [graph.y for graph in OTHER_RINGS]) > 0.8


def test_gae_tells_edges_from_others() -> None:
    """Two cliques of different vertices: who is like me is my neighbour."""
    side = torch.arange(10) // 5
    edges = torch.tensor([[i, j] for i in range(10) for j in range(10) if i != j and side[i] == side[j]]).T
    graph = Data(x=side[:, None].double(), edge_index=edges)
    row = GraphEmbedder(Schema([Binary("side")]), GAE(), epochs=60, lr=0.05).fit(graph, progress=False).embed(graph)
    alike = (row @ row.T)[side[:, None] == side]
    apart = (row @ row.T)[side[:, None] != side]
    assert alike.min() > 0 > apart.max()


def test_negative_samples_are_no_edges_and_stay_in_their_graph() -> None:
    graphs = pack(draw_graphs(30, 0), EVERY_KIND)
    batch = graphs.batch(torch.arange(len(graphs)))
    inputs: Inputs = inputs_of(batch, Features.of(EVERY_KIND, graphs.entries()))
    torch.manual_seed(0)
    pairs = torch.cat([non_edges(inputs) for _ in range(20)], dim=1)
    assert torch.equal(inputs.graph[pairs[0]], inputs.graph[pairs[1]])
    edges = set(map(tuple, inputs.edges.T.tolist()))
    found = set(map(tuple, pairs.T.tolist()))
    assert not found & edges
    assert all(u != v for u, v in found)
    # And all of them are reached: each of at most 10 vertices is drawn with probability 1/10 or more, 40 times.
    sizes = inputs.sizes.tolist()
    possible = sum(n * (n - 1) for n in sizes) - len({edge for edge in edges if edge[0] != edge[1]})
    assert len(found) > 0.95 * possible
