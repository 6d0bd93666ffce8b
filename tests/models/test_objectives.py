"""What the three objectives learn, what training reports of them, and the leave-one-out NLL at its end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from small_graphs import EVERY_KIND, draw_graphs
from torch import Tensor
from torch_geometric.data import Data

import gspn
from gspn import GSPN, Categorical, GraphDataset, Schema
from gspn.graphs.masks import FIXED, choose_vertices, hide_entries
from gspn.hierarchy import Hierarchy
from gspn.models.fitting import VALIDATION_ROOTS
from gspn.testing import oracle

# ---- Graphs whose neighbours tell much about a vertex

COLOURS = Schema([Categorical("colour", ["red", "green", "blue", "black"])])


def draw_coloured(count: int, seed: int) -> list[Data]:
    """Trees of 20 vertices, where a child copies its parent's colour with probability 0.85, and five more edges.

    The colour of the first vertex, and of a child that does not copy, is drawn from four equally likely ones: by
    themselves, vertices have an entropy of log 4.
    """
    rng = np.random.default_rng(seed)
    graphs = []
    for _ in range(count):
        colour = rng.integers(4, size=20)
        parent = [int(rng.integers(child)) for child in range(1, 20)]
        for child, above in enumerate(parent, start=1):
            if rng.random() < 0.85:
                colour[child] = colour[above]
        edges = [(child, above) for child, above in enumerate(parent, start=1)]
        alike = [(u, v) for u in range(20) for v in range(u) if colour[u] == colour[v] and (u, v) not in edges]
        edges += [alike[i] for i in rng.permutation(len(alike))[:5]]
        index = torch.tensor(edges + [(v, u) for u, v in edges]).T
        graphs.append(Data(x=torch.from_numpy(colour[:, None].astype(np.float64)), edge_index=index))
    return graphs


def test_prediction_from_the_others() -> None:
    """Sketches gave 0.33 (masked), 0.65 (pseudo) and 1.385 (colours alone) nats: the differences are no luck."""
    training, validation = draw_coloured(300, seed=0), draw_coloured(100, seed=1)
    codes = torch.cat([data.x[:, 0] for data in validation]).long()
    share = torch.bincount(codes).double() / len(codes)
    entropy = -float((share * share.log()).sum())
    nll = {}
    for objective in ("pseudo", "masked", "leave_one_out"):
        model = GSPN(COLOURS, num_layers=3, num_states=6, objective=objective, epochs=30, patience=20)
        model.fit(training, validation=validation, progress=False)
        assert model.leave_one_out_nll_ is not None
        assert model.leave_one_out_nll_ > 0
        nll[objective] = model.leave_one_out_nll_
        # What is trained falls, in training and beyond.
        history = model.history_
        assert history[-1]["train"] < history[0]["train"] - 0.1
        assert min(record["validation"] for record in history) < history[0]["validation"] - 0.1
    assert nll["masked"] < 0.9 * entropy
    assert nll["masked"] < nll["pseudo"]
    assert nll["leave_one_out"] < 0.9 * entropy
    assert nll["leave_one_out"] < nll["pseudo"]


# ---- The leave-one-out NLL


def small_model(**arguments: Any) -> GSPN:
    return GSPN(EVERY_KIND, **{"num_layers": 3, "num_states": 2, "epochs": 1} | arguments)


def test_the_nll_is_the_mean_over_all_validation_vertices_where_they_are_few() -> None:
    training, validation = draw_graphs(8, seed=2), draw_graphs(30, seed=3, missing=0.4)
    validation[4].x[:3] = torch.nan
    model = small_model().double().fit(training, validation=validation, progress=False)
    log_likelihoods = torch.cat(model.log_likelihood(validation, leave_one_out=True))
    # A vertex of which nothing is known is no prediction; counting its 0 would flatter the model.
    known = torch.cat([(~torch.isnan(data.x)).any(1) for data in validation])
    assert int((~known).sum()) >= 3
    assert int(known.sum()) < VALIDATION_ROOTS
    assert model.leave_one_out_nll_ == pytest.approx(-float(log_likelihoods[known].mean()), rel=1e-12)


def test_the_nll_uses_a_fixed_sample_of_2000_roots_where_there_are_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tried with 200 roots of 40 graphs: every graph has its share, in whatever form they come."""
    assert VALIDATION_ROOTS == 2000
    monkeypatch.setattr("gspn.models.fitting.VALIDATION_ROOTS", 200)
    training, validation = draw_graphs(4, seed=4), draw_graphs(40, seed=5, missing=0.0)
    assert sum(data.num_nodes for data in validation) > 250
    asked: list[tuple[int, int]] = []  # (graph, vertex inside it)
    original = Hierarchy.log_prob_hidden
    first = {tuple(data.x[0].tolist()): g for g, data in enumerate(validation)}
    assert len(first) == len(validation)

    def spy(hierarchy: Hierarchy, batch: gspn.graphs.Batch, vertices: Tensor, hidden: Tensor | None = None) -> Tensor:
        _, number = batch.vertex_keys()
        start = torch.repeat_interleave(batch.vertex_ptr[:-1], batch.vertex_ptr.diff())
        asked.extend((first[tuple(batch.x[start[v]].tolist())], int(number[v])) for v in vertices)
        return original(hierarchy, batch, vertices, hidden)

    monkeypatch.setattr(Hierarchy, "log_prob_hidden", spy)

    def sampled(seed: int, data: GraphDataset | list[Data]) -> tuple[GSPN, list[tuple[int, int]]]:
        asked.clear()
        # Scores to keep would ask about training vertices.
        model = small_model(seed=seed).double().fit(training, validation=data, progress=False, keep_scores=False)
        return model, list(asked)

    model, sample = sampled(11, validation)
    assert len(sample) == len(set(sample)) == 200
    assert len({g for g, _ in sample}) == 40, "not the first ones"
    exact = model.log_likelihood(validation, leave_one_out=True)
    assert model.leave_one_out_nll_ == pytest.approx(-np.mean([float(exact[g][v]) for g, v in sample]), rel=1e-12)
    again, same_sample = sampled(11, gspn.pack(validation, EVERY_KIND))
    assert (set(same_sample), again.leave_one_out_nll_) == (set(sample), model.leave_one_out_nll_)
    assert set(sampled(12, validation)[1]) != set(sample)


def test_the_nll_does_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    training, validation = draw_graphs(4, seed=4), draw_graphs(10, seed=5)
    expected = small_model().double().fit(training, validation=validation, progress=False).leave_one_out_nll_
    monkeypatch.setattr("gspn.queries.contract._NUMBERS_AT_ONCE", 1)
    monkeypatch.setattr("gspn.models.fitting.VALIDATION_ROOTS", 10**6)
    ours = small_model().double().fit(training, validation=validation, progress=False).leave_one_out_nll_
    assert ours == pytest.approx(expected, rel=1e-12)


def test_there_is_no_nll_without_validation_or_where_nothing_is_known() -> None:
    model = small_model().fit(draw_graphs(4, seed=4), validation=draw_graphs(2, seed=5), progress=False)
    assert model.leave_one_out_nll_ is not None
    assert model.fit(draw_graphs(4, seed=4), progress=False).leave_one_out_nll_ is None
    blind = draw_graphs(2, seed=5, missing=1.0)
    assert model.fit(draw_graphs(4, seed=4), validation=blind, progress=False).leave_one_out_nll_ is None


def test_the_nll_is_of_the_weights_that_are_kept() -> None:
    """With a step far too long the first epoch is the best; the number must not be the last epoch's."""
    training, validation = draw_graphs(8, seed=2, missing=0.0), draw_graphs(10, seed=3, missing=0.0)
    model = small_model(epochs=6, lr=3.0).double().fit(training, validation=validation, progress=False)
    losses = [record["validation"] for record in model.history_]
    assert min(losses) < losses[-1] - 0.1
    log_likelihoods = torch.cat(model.log_likelihood(validation, leave_one_out=True))
    assert model.leave_one_out_nll_ == pytest.approx(-float(log_likelihoods.mean()), rel=1e-12)
    pseudo = torch.cat(model.log_likelihood(validation))
    assert min(losses) == pytest.approx(-float(pseudo.mean()), rel=1e-12)


# ---- Losses by hand


def by_hand(model: GSPN, data: Data, hidden: Tensor) -> float:
    """Σ_v log P(hidden entries of v | everything visible), from the oracle's own tree of every vertex."""
    parameters = model.get_parameters()
    states = range(model.num_states)
    names = model.schema.names
    kinds = dict(zip(names, ["continuous", "categorical", "binary", "count", "negative_binomial"], strict=True))
    theirs = oracle.Model(
        circuit=("sum", 0, [("product", [("leaf", name, k) for name in names]) for k in states]),
        kinds=kinds,
        prior=parameters["prior"].numpy(),
        transitions=parameters["transitions"].numpy(),
        leaves={
            name: {key: value.numpy() for key, value in leaf.items()} for name, leaf in parameters["leaves"].items()
        },
    )
    graph = oracle.Graph(data.x.numpy(), [(int(u), int(v), 0) for u, v in data.edge_index.T])
    return math.fsum(oracle.masked(theirs, graph, {(int(v), int(c)) for v, c in hidden.nonzero()}))


@pytest.mark.parametrize("seed", [0, 1])
def test_the_masked_loss_is_the_mean_over_hidden_entries(seed: int) -> None:
    training, validation = draw_graphs(5, seed=6, missing=0.3), draw_graphs(4, seed=7, missing=0.3)
    settings = {"objective": "masked", "mask_rate": 0.5, "batch_size": 10, "seed": seed}
    start = small_model(**settings).double().fit(training, epochs=0, progress=False)
    model = small_model(**settings).double().fit(training, validation=validation, progress=False)
    # One batch, one step: the training loss is that of the start, with the masks of epoch 0; the validation loss is
    # that of the end, with the masks that never change.
    for graphs, weights, epoch, reported in (
        (training, start, 0, model.history_[0]["train"]),
        (validation, model, FIXED, model.history_[0]["validation"]),
    ):
        batch = model.collate(graphs)
        hidden = hide_entries(batch, 0.5, seed, epoch)
        assert not hidden[torch.isnan(batch.x)].any()
        assert 0 < int(hidden.sum()) < int(batch.observed.sum())
        parts = hidden.split(batch.vertex_ptr.diff().tolist())
        total = math.fsum(by_hand(weights, data, part) for data, part in zip(graphs, parts, strict=True))
        assert reported == pytest.approx(-total / int(hidden.sum()), rel=1e-9)


@pytest.mark.parametrize("objective", ["pseudo", "leave_one_out"])
def test_the_other_losses_are_means_over_vertices(objective: str) -> None:
    training, validation = draw_graphs(5, seed=8, missing=0.3), draw_graphs(4, seed=9, missing=0.3)
    training[1].x[2] = torch.nan
    settings = {"objective": objective, "mask_rate": 0.5, "batch_size": 10}
    start = small_model(**settings).double().fit(training, epochs=0, progress=False)
    model = small_model(**settings).double().fit(training, validation=validation, progress=False)
    for graphs, weights, epoch, reported in (
        (training, start, 0, model.history_[0]["train"]),
        (validation, model, FIXED, model.history_[0]["validation"]),
    ):
        log_likelihoods = torch.cat(weights.log_likelihood(graphs, leave_one_out=objective == "leave_one_out"))
        batch = model.collate(graphs)
        chosen = torch.ones(batch.num_vertices, dtype=torch.bool)
        if objective == "leave_one_out":
            chosen = choose_vertices(batch, 0.5, 0, epoch)
            assert 0 < int(chosen.sum()) < batch.num_vertices
        assert reported == pytest.approx(-float(log_likelihoods[chosen].mean()), rel=1e-9)


def test_batches_are_weighted_by_their_terms() -> None:
    """Where steps are too small to matter, the loss is the mean over all hidden entries, not over batches."""
    training = draw_graphs(7, seed=10, sizes=(2, 12))
    losses = [
        small_model(objective="masked", mask_rate=0.5, lr=1e-300, batch_size=size)
        .double()
        .fit(training, progress=False)
        .history_[0]["train"]
        for size in (1, 3, 10)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-12)
    assert losses[2] == pytest.approx(losses[0], rel=1e-12)
