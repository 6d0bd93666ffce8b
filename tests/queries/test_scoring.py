"""Scores per observed entry, what each attribute contributes, ranks among the training data, entropies of states."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from forged import without_seal
from oracle_cases import make_case
from small_graphs import EVERY_KIND, draw_graphs
from small_models import TEMPLATES, random_model, template
from torch_geometric.data import Data

import gspn
from gspn import GSPN, Binary, GSPNError, SupervisedGSPN
from gspn.testing import oracle

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("seed", range(3, 240, 9))
def test_contributions_are_the_oracles(seed: int) -> None:
    case = make_case(seed)
    x = case.graph.x
    ours = case.model.score_entries(case.data).numpy()
    assert np.array_equal(np.isnan(ours), np.isnan(x))
    theirs = [[oracle.entry(case.theirs, case.graph, v, c) for c in range(x.shape[1])] for v in range(len(x))]
    np.testing.assert_allclose(ours[~np.isnan(x)], np.array(theirs)[~np.isnan(x)], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", TEMPLATES)
def test_scores_are_likelihoods_per_observed_entry(name: str) -> None:
    model = random_model(EVERY_KIND, 1, template=template(name, EVERY_KIND, 3))
    graphs = draw_graphs(4, seed=1, missing=0.4)
    graphs[0].x[0], graphs[1].x[:] = math.nan, math.nan
    for leave_one_out in (True, False):
        log_likelihood = model.log_likelihood(graphs, leave_one_out=leave_one_out)
        of_vertices = model.score_vertices(graphs, leave_one_out=leave_one_out)
        of_graphs = model.score_graphs(graphs, leave_one_out=leave_one_out)
        assert of_graphs.shape == (4,)
        for number, graph in enumerate(graphs):
            observed = (~torch.isnan(graph.x)).sum(1)
            torch.testing.assert_close(of_vertices[number], log_likelihood[number] / observed, equal_nan=True)
            total = log_likelihood[number].sum() / observed.sum()
            torch.testing.assert_close(of_graphs[number], total, equal_nan=True)
            alone = model.score_graphs(graph, leave_one_out=leave_one_out)
            assert alone == pytest.approx(of_graphs[number].item(), nan_ok=True)
            some = model.score_vertices(graph, leave_one_out, vertices=[2, 0])
            torch.testing.assert_close(some, of_vertices[number][[2, 0]], equal_nan=True)
    assert torch.isnan(model.score_vertices(graphs)[0][0])
    assert math.isnan(model.score_graphs(graphs[1]))
    torch.testing.assert_close(
        model.score_entries(graphs[2], vertices=[1]), model.score_entries(graphs)[2][1:2], equal_nan=True
    )


def test_twice_the_same_graph_has_the_same_score() -> None:
    """A graph and its double, side by side as one graph: comparable whatever the size."""
    model, graph = random_model(EVERY_KIND, 2), draw_graphs(1, seed=2)[0]
    double = graph.clone()
    double.x = graph.x.repeat(2, 1)
    double.edge_index = torch.cat([graph.edge_index, graph.edge_index + graph.num_nodes], dim=1)
    assert model.score_graphs(double) == pytest.approx(model.score_graphs(graph), rel=1e-12)


def test_entropies_of_posteriors() -> None:
    model, graphs = random_model(EVERY_KIND, 3, template=template("random", EVERY_KIND, 3)), draw_graphs(2, seed=3)
    for posteriors, entropy in zip(model.posteriors(graphs), model.posterior_entropy(graphs), strict=True):
        expected = -(posteriors * posteriors.log()).nansum(-1)
        torch.testing.assert_close(entropy, expected, rtol=1e-12, atol=1e-12)
        assert bool((entropy >= 0).all())
        assert bool((entropy <= math.log(3) + 1e-12).all())


# ---- Ranks


def fitted() -> GSPN:
    model = GSPN(EVERY_KIND, num_layers=2, num_states=3, objective="masked", epochs=5)
    return model.fit(draw_graphs(60, seed=4), progress=False)


def test_ranks_are_uniform_on_the_training_data_and_high_for_the_strange() -> None:
    model, graphs = fitted(), draw_graphs(60, seed=4)
    assert model.training_scores_ is not None
    vertices = sum(graph.num_nodes for graph in graphs)
    assert len(model.training_scores_["vertices"]) == vertices  # fewer than would be sampled
    assert len(model.training_scores_["graphs"]) == 60
    ranks = torch.cat(model.unusualness_of_vertices(graphs))
    expected = (torch.arange(vertices, dtype=torch.float64)) / vertices
    torch.testing.assert_close(ranks.sort().values, expected, rtol=0, atol=3 / vertices)  # there may be ties
    torch.testing.assert_close(model.unusualness_of_graphs(graphs).sort().values, torch.arange(60).double() / 60)
    strange = graphs[0].clone()
    strange.x[1] = torch.tensor([40.0, 1.0, 0.0, 60.0, 90.0])
    assert model.unusualness_of_vertices(strange, vertices=[1]).item() == 1
    assert model.score_entries(strange)[1].argmin() in (0, 3)
    assert model.unusualness_of_graphs(strange) > model.unusualness_of_graphs(graphs[0])
    strange.x[1] = math.nan
    assert torch.isnan(model.unusualness_of_vertices(strange)[1])


def test_a_higher_score_never_ranks_stranger() -> None:
    model, others = fitted(), draw_graphs(20, seed=5)
    scores, ranks = torch.cat(model.score_vertices(others)), torch.cat(model.unusualness_of_vertices(others))
    order = scores.argsort()
    assert bool((ranks[order].diff() <= 0).all())
    assert bool((ranks >= 0).all())
    assert bool((ranks <= 1).all())


def test_kept_scores_are_saved_and_forgotten_with_the_parameters(tmp_path: Path) -> None:
    model, graphs = fitted(), draw_graphs(3, seed=6)
    model.save(tmp_path)
    loaded = gspn.load(tmp_path, GSPN)
    assert loaded.training_scores_ == model.training_scores_
    assert torch.equal(loaded.unusualness_of_graphs(graphs), model.unusualness_of_graphs(graphs))
    loaded.set_parameters(model.get_parameters())
    with pytest.raises(GSPNError, match="no scores of vertices to compare with; call keep_scores"):
        loaded.unusualness_of_vertices(graphs)
    again = gspn.load(tmp_path).keep_scores(draw_graphs(60, seed=4))
    assert again.training_scores_ == model.training_scores_
    description = without_seal(tmp_path / "model.json")
    for damaged in ([1.0], {"vertices": [1.0]}, {"vertices": ["a"], "graphs": []}, {"vertices": 1.0, "graphs": []}):
        description["results"]["training_scores"] = damaged
        (tmp_path / "model.json").write_text(json.dumps(description))
        with pytest.raises(GSPNError, match="training_scores must hold"):
            gspn.load(tmp_path)
    assert not hasattr(model.set_params(num_states=2), "training_scores_")


def test_a_model_saved_before_scores_were_kept() -> None:
    model = gspn.load(GOLDEN / "format-1")
    assert model.training_scores_ is None


def test_samples_are_bounded_and_seeded() -> None:
    model, graphs = random_model(EVERY_KIND, 7), draw_graphs(60, seed=4)
    kept = model.keep_scores(graphs, most_vertices=50).training_scores_
    assert kept is not None
    assert len(kept["vertices"]) == 50
    assert 3 <= len(kept["graphs"]) < 13  # of 4 to 10 vertices each
    assert kept == model.keep_scores(graphs, most_vertices=50).training_scores_
    assert kept != model.keep_scores(graphs, most_vertices=50, seed=1).training_scores_
    assert kept["vertices"] == sorted(kept["vertices"])
    model.keep_scores(graphs, most_vertices=3)  # no graph is that small
    with pytest.raises(GSPNError, match="no scores of graphs"):
        model.unusualness_of_graphs(graphs)
    with pytest.raises(GSPNError, match="most_vertices must be"):
        model.keep_scores(graphs, most_vertices=0)


def test_vertices_that_were_no_part_of_the_training_rank_nobody() -> None:
    graphs = draw_graphs(6, seed=8)
    model = SupervisedGSPN(EVERY_KIND, Binary("y"), num_layers=2, num_states=3, epochs=1)
    model.fit(graphs, [True, False] * 3, progress=False)
    assert model.training_scores_ is None
    model.fit(graphs, [True, False] * 3, progress=False, likelihood_weight=1.0)
    assert len(torch.cat(model.unusualness_of_vertices(graphs))) == sum(graph.num_nodes for graph in graphs)


def test_what_would_take_long_is_not_done_unasked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Leaving out a neighbour of a hub takes copies of all its neighbours: 301 times 300 here."""
    spokes = torch.stack([torch.zeros(300, dtype=torch.long), torch.arange(1, 301)])
    wheel = Data(x=torch.rand(301, 1, dtype=torch.float64), edge_index=torch.cat([spokes, spokes.flip(0)], 1))
    model = GSPN(gspn.Schema([gspn.Continuous("a")]), num_layers=5, num_states=2, epochs=1)
    assert model.fit(wheel, validation=wheel).training_scores_ is not None
    assert model.leave_one_out_nll_ is not None
    monkeypatch.setattr("gspn.queries.scoring._CHEAP_COPIES", 10_000)
    with caplog.at_level("INFO", logger="gspn"):
        model.fit(wheel, validation=wheel)
    assert model.training_scores_ is model.leave_one_out_nll_ is None
    assert "keep_scores makes them" in caplog.text
    assert "leave-one-out NLL of the validation graphs is not computed" in caplog.text
    assert model.keep_scores(wheel, most_vertices=3).training_scores_ is not None
