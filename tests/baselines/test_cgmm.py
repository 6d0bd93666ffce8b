"""CGMM and E-CGMM: EM never loses, marginalises what is missing, and learns what the structure says."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from small_graphs import EVERY_KIND, draw_graphs
from torch_geometric.data import Data
from two_hop import SCHEMA, TARGET, rings

from gspn import DeepSets, GSPNError, pack
from gspn.attributes import FloatArray
from gspn.baselines import CGMM, ECGMM, ICGMM
from gspn.baselines.contexts import neighbour_means
from gspn.baselines.evidence import read_entries
from gspn.baselines.mixture_layer import CategoricalEmission, GaussianEmission, Layer

GRAPHS = draw_graphs(30, seed=0, edge_types=3)

MODELS: dict[str, Any] = {
    "CGMM": lambda **more: CGMM(EVERY_KIND, num_layers=3, num_states=4, **more),
    "CGMM, types": lambda **more: CGMM(EVERY_KIND, num_layers=3, num_states=4, num_edge_types=3, **more),
    "E-CGMM": lambda **more: ECGMM(EVERY_KIND, num_layers=3, num_states=4, num_edge_states=3, **more),
    "E-CGMM, types": lambda **more: ECGMM(
        EVERY_KIND, num_layers=3, num_states=4, num_edge_states=3, num_edge_types=3, context=None, **more
    ),
}
every_model = pytest.mark.parametrize("name", MODELS)


def gains(history: list[dict[str, Any]], what: str) -> list[float]:
    """Differences between steps of the same layer and part."""
    return [after[what] - before[what] for before, after in pairwise(history) if after["step"] > 0]


# ---- EM


@every_model
@pytest.mark.parametrize("seed", range(3))
def test_no_step_loses(name: str, seed: int) -> None:
    """The objective is likelihood times the tables' prior; with next to no prior the likelihood itself never falls."""
    learned = MODELS[name](em_steps=20, tolerance=0.0, seed=seed).fit(GRAPHS)
    # Sums of some hundred terms of size 10 in float64.
    assert min(gains(learned.history_, "objective")) > -1e-10
    likelihood = MODELS[name](em_steps=20, tolerance=0.0, smoothing=1e-13, seed=seed).fit(GRAPHS)
    found = gains(likelihood.history_, "log_likelihood")
    # The prior's own gain is at most its log-density: 1e-13 a cell times some hundred cells of size log(1e13).
    assert min(found) > -1e-9
    assert max(found) > 0.1


@every_model
def test_steps_end_where_nothing_is_gained(name: str) -> None:
    model = MODELS[name](em_steps=300, tolerance=1e-3).fit(GRAPHS)
    last = [step for step, after in zip(model.history_, [*model.history_[1:], {"step": 0}], strict=True)
            if after["step"] == 0]  # fmt: skip
    assert len(last) == 3 * (2 if name.startswith("E") else 1)
    assert all(step["step"] < 299 for step in last)
    assert max(gains(model.history_, "objective")) >= 1e-3


def test_layer_by_hand() -> None:
    """Posterior and likelihood of one vertex, summed state by state; a missing entry is summed out."""
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(3), 2).T
    layer = Layer(
        np.array([0.3, 0.7]),
        rng.dirichlet(np.ones(2), (2, 3)),
        (CategoricalEmission(table), GaussianEmission(np.array([-1.0, 2.0]), np.array([0.5, 1.5]), 0.1)),
    )
    contexts = rng.dirichlet(np.ones(3), (1, 2))

    def joint(code: int, value: float) -> FloatArray:
        found = np.zeros(2)
        for i in range(2):
            prior = sum(
                layer.arcs[a] * contexts[0, a, j] * layer.transitions[a, j, i] for a in range(2) for j in range(3)
            )
            mean, deviation = (-1.0, 0.5) if i == 0 else (2.0, 1.5)
            density = math.exp(-0.5 * ((value - mean) / deviation) ** 2) / deviation / math.sqrt(2 * math.pi)
            found[i] = prior * table[code, i] * density
        return found

    both = joint(1, 0.4)
    np.testing.assert_allclose(layer.posteriors(contexts, np.array([[1, 0.4]]))[0], both / both.sum(), rtol=1e-12)
    np.testing.assert_allclose(layer.log_likelihood(contexts, np.array([[1, 0.4]])), np.log(both.sum()), rtol=1e-12)
    unknown = np.sum([joint(code, 0.4) for code in range(3)], axis=0)
    np.testing.assert_allclose(layer.posteriors(contexts, np.array([[np.nan, 0.4]]))[0], unknown / unknown.sum())


def test_first_layer_finds_planted_parameters() -> None:
    """Two kinds of vertices, a tenth of the entries missing: the means come back."""
    graphs = draw_graphs(150, seed=3, center=5.0)
    model = CGMM(EVERY_KIND, num_layers=1, num_states=2, em_steps=200, tolerance=1e-9, seed=1).fit(graphs)
    charge = model.layers_[0]["vertices"].emissions[0]
    assert isinstance(charge, GaussianEmission)
    units = model.columns_[0]
    means = np.sort(charge.mean * units.spread + units.center)
    np.testing.assert_allclose(means, [3.0, 7.0], atol=0.25)  # deviation 0.7 of some 500 vertices each
    np.testing.assert_allclose(charge.deviation * units.spread, 0.7, atol=0.15)


# ---- What a vertex sees


def test_neighbours_by_edge_type_and_bottom() -> None:
    """Vertex 0 hears 1 and 2 along type 0, nobody along type 1; vertex 1 hears nobody at all."""
    graph = Data(
        x=torch.zeros(3, 1), edge_index=torch.tensor([[1, 2, 0], [0, 0, 2]]), edge_type=torch.tensor([0, 0, 1])
    )
    batch = pack([graph], SCHEMA).batch(torch.arange(1))
    posteriors = np.array([[0.5, 0.5], [0.9, 0.1], [0.3, 0.7]])
    hard = np.array([[1.0, 0], [1, 0], [0, 1]])
    found = neighbour_means(batch, posteriors, hard, of_all=False)
    bottom = [0.0, 0.0, 1.0]
    expected = [[[0.6, 0.4, 0.0], bottom], [bottom, bottom], [bottom, [0.5, 0.5, 0.0]]]
    np.testing.assert_allclose(found, expected, atol=1e-15)
    soft = np.array([[0.5, 0.5], [0.2, 0.8], [0.0, 1.0]])
    shared = neighbour_means(batch, posteriors, soft, of_all=True)
    first = [(0.5 * 0.9 + 0.2 * 0.3) / 2, (0.5 * 0.1 + 0.2 * 0.7) / 2]
    np.testing.assert_allclose(shared[0, 0], [*first, 1 - sum(first)])
    np.testing.assert_allclose(shared.sum(2), 1)


def test_layers_below_are_mixed_by_learned_weights() -> None:
    model = CGMM(EVERY_KIND, num_layers=4, num_states=3, num_edge_types=3).fit(GRAPHS)
    for number in range(1, 4):
        weights = model.layer_weights(number)
        assert weights.shape == (number,)
        assert weights.sum() == pytest.approx(1)
    assert np.abs(model.layer_weights(2) - 0.5).max() > 0.01
    assert CGMM(EVERY_KIND, num_layers=4, num_states=3, context=2).fit(GRAPHS).layer_weights(3).shape == (2,)


# ---- Embeddings


@every_model
def test_embeddings(name: str) -> None:
    model = MODELS[name](em_steps=5).fit(GRAPHS)
    rows, edges = model.embed(GRAPHS), 3 * 3 if name.startswith("E") else 0
    assert rows[7].shape == (GRAPHS[7].num_nodes, 3 * 4 + edges)
    torch.testing.assert_close(model.embed(GRAPHS[7]), rows[7])
    torch.testing.assert_close(rows[7][:, :4].sum(1), torch.ones(len(rows[7])))
    if edges:
        degree = torch.bincount(GRAPHS[7].edge_index[1], minlength=len(rows[7])).float()
        torch.testing.assert_close(rows[7][:, 12:15].sum(1), degree)
    own, (source, target) = rows[7][:, :4], GRAPHS[7].edge_index
    theirs = torch.zeros_like(own).index_add(0, target, own[source])
    bigrams = model.set_params(embedding="bigram").embed(GRAPHS[7])
    assert bigrams.shape[1] == 3 * 16
    torch.testing.assert_close(bigrams[:, :16], (own[:, :, None] * theirs[:, None]).flatten(1))
    model.set_params(embedding="both")
    torch.testing.assert_close(model.embed(GRAPHS[7]), torch.cat([rows[7], bigrams], dim=1))
    torch.testing.assert_close(model.embed_graphs(GRAPHS[:2])[1], model.embed(GRAPHS[1]).sum(0, keepdim=True))


@every_model
def test_seeds_fix_it_and_order_is_nothing(name: str) -> None:
    one, same, other = (MODELS[name](em_steps=5, seed=seed).fit(GRAPHS) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(one.embed(GRAPHS), same.embed(GRAPHS), strict=True))
    assert one.history_ == same.history_ != other.history_
    graph = GRAPHS[4]
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    place = torch.argsort(order)
    moved = Data(x=graph.x[order], edge_index=place[graph.edge_index], edge_type=graph.edge_type)
    torch.testing.assert_close(one.embed(moved), one.embed(graph)[order], atol=1e-6, rtol=1e-5)


@every_model
def test_what_training_has_not_seen(name: str) -> None:
    """A lonely vertex with nothing observed, a graph without vertices, and values far out."""
    model = MODELS[name](em_steps=5, embedding="both").fit(GRAPHS)
    nothing = torch.empty(2, 0, dtype=torch.long)
    for x in (torch.full((1, 5), torch.nan), torch.empty(0, 5), torch.tensor([[1e5, 0, 1, 10_000, 0]])):
        found = model.embed(Data(x=x, edge_index=nothing))
        assert len(found) == len(x)
        assert torch.isfinite(found).all()
    edgeless = [Data(x=graph.x, edge_index=nothing) for graph in GRAPHS]
    assert torch.isfinite(MODELS[name](em_steps=5).fit(edgeless).embed(GRAPHS)[0]).all()


# ---- A planted signal


def judged(embeddings: list[torch.Tensor], labels: list[float], cut: int) -> float:
    y = torch.tensor(labels)
    head = DeepSets(TARGET, hidden=16, epochs=80, lr=0.01).fit(embeddings[:cut], y[:cut], progress=False)
    return head.score(embeddings[cut:], y[cut:])


@pytest.mark.parametrize(
    "model",
    [
        CGMM(SCHEMA, num_layers=3, num_states=8),
        ECGMM(SCHEMA, num_layers=3, num_states=8, num_edge_states=4),
        ICGMM(SCHEMA, num_layers=3, pseudo_count=0.01),
    ],
    ids=lambda model: type(model).__name__,
)
def test_learns_two_hops_and_nothing_without_structure(model: Any) -> None:
    graphs = rings(200, seed=0)
    labels = [float(graph.y) for graph in graphs]
    assert judged(model.fit(graphs).embed(graphs), labels, 140) > 0.9
    # One layer knows the attributes alone, which say nothing; 60 graphs at chance have a deviation of 0.065. States of
    # edges depend on both ends, so there must be only one.
    model.set_params(num_layers=1, **({"num_edge_states": 1} if isinstance(model, ECGMM) else {}))
    blind = model.fit(graphs)
    assert judged(blind.embed(graphs), labels, 140) < 0.7


# ---- Refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_states": 0}, "num_states must be an integer of at least 1"),
        ({"context": 0}, "context must be an integer of at least 1"),
        ({"smoothing": 0.0}, "smoothing must be a number above 0"),
        ({"embedding": "all"}, "embedding must be one of"),
        ({"num_edge_types": 2}, "edge type 2 is out of range"),
    ],
)
def test_arguments_that_cannot_work_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(GSPNError, match=message):
        CGMM(EVERY_KIND, **arguments).fit(GRAPHS)


def test_counts_are_read_on_a_log_scale() -> None:
    model = CGMM(EVERY_KIND, num_layers=1, num_states=2).fit(GRAPHS)
    entries = pack(GRAPHS, EVERY_KIND).entries()
    read = read_entries(model.columns_, entries)
    expected = np.log1p(entries[:, 3].numpy())
    np.testing.assert_allclose(read[:, 3], (expected - np.nanmean(expected)) / np.nanstd(expected))
    np.testing.assert_array_equal(read[:, 1], entries[:, 1].numpy())
