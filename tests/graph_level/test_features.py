"""GraphFeatures: what the columns are, that they follow no order, that chunks and company change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from small_graphs import EVERY_KIND, draw_graphs
from torch_geometric.data import Data

from gspn import GSPN, GraphFeatures, GSPNError, pack
from gspn.baselines import CGMM, GAE, GraphEmbedder
from gspn.graph_level import blocks
from gspn.graphs.degrees import DEGREE, with_degree

GRAPHS = draw_graphs(40, seed=0, missing=0.1)
OTHERS = draw_graphs(7, seed=1, missing=0.1)
EMPTY = Data(x=torch.empty(0, 5), edge_index=torch.empty(2, 0, dtype=torch.long))


@pytest.fixture(scope="module")
def model() -> GSPN:
    return GSPN(EVERY_KIND, num_layers=3, num_states=3, epochs=2).fit(GRAPHS, progress=False)


def named(features: GraphFeatures, graphs: Any) -> dict[str, Any]:
    return dict(zip(features.get_feature_names_out(), np.asarray(features.transform(graphs)).T, strict=True))


def test_columns_are_what_their_names_say(model: GSPN) -> None:
    features = GraphFeatures(model, pairs=3, left_out=True, rare=0.0).fit(GRAPHS, progress=False)
    found = named(features, OTHERS)
    left_out, entropies = model.score_graphs(OTHERS), model.posterior_entropy(OTHERS)
    for number, (graph, h) in enumerate(zip(OTHERS, model.posteriors(OTHERS), strict=True)):
        h = h.double()
        row = {name: column[number] for name, column in found.items()}
        np.testing.assert_allclose(row["log_vertices"], np.log1p(graph.num_nodes))
        np.testing.assert_allclose(row["mean_level1_state2"], h[:, 1, 0, 2].mean(), rtol=1e-5)
        np.testing.assert_allclose(row["logsum_level2_state0"], h[:, 2, 0, 0].sum().log1p(), rtol=1e-5)
        np.testing.assert_allclose(row["sd_level0_state1"], h[:, 0, 0, 1].std(correction=0), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(row["mean_entropy_level1"], entropies[number][:, 1, 0].mean(), rtol=1e-4)
        source, target = graph.edge_index
        pairs = torch.einsum("ei,ej->ij", h[source, 1, 0], h[target, 1, 0])
        np.testing.assert_allclose(row["pairs_level1_state0_to_state1"], pairs[0, 1] / len(source), rtol=1e-5)
        np.testing.assert_allclose(row["logpairs_level1_state0_to_state0"], pairs[0, 0].log1p(), rtol=1e-5)
        np.testing.assert_allclose(row["left_out_likelihood"], left_out[number], rtol=1e-4)
        pseudo = model.log_likelihood(graph).double().sum() / (~graph.x.isnan()).sum()
        np.testing.assert_allclose(row["pseudo_likelihood"], pseudo, rtol=1e-4)


def test_columns_that_repeat_or_hardly_vary_are_dropped(model: GSPN) -> None:
    """Edges go both ways, so a pair of states and its mirror are one column; and every graph has a first vertex."""
    features = GraphFeatures(model).fit(GRAPHS, progress=False)
    names = set(features.get_feature_names_out())
    assert "pairs_level1_state0_to_state1" in names
    assert "pairs_level1_state1_to_state0" not in names
    rows = np.asarray(features.transform(GRAPHS))
    assert (rows.std(0) > 1e-5).all()
    extra = np.zeros((40, 3))
    extra[0, 1], extra[::2, 2] = 1.0, 1.0
    kept = GraphFeatures(model, rare=0.05).fit(GRAPHS, extra=extra, progress=False).get_feature_names_out()
    assert "extra2" in kept
    assert not {"extra0", "extra1"} & set(kept)


def test_one_row_whatever_stands_beside_it(model: GSPN, monkeypatch: pytest.MonkeyPatch) -> None:
    features = GraphFeatures(model, attributes=True, subtrees=2).fit(GRAPHS, progress=False)
    together = np.asarray(features.transform([*OTHERS, EMPTY]))
    assert np.isfinite(together).all()
    # Sums of single precision in another order.
    monkeypatch.setattr(blocks, "_NUMBERS_AT_ONCE", 50)
    apart = np.concatenate([np.asarray(features.transform([graph])) for graph in [*OTHERS, EMPTY]])
    np.testing.assert_allclose(apart, together, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.asarray(features.transform(OTHERS[0])), together[:1], rtol=1e-5, atol=1e-5)
    order = torch.randperm(OTHERS[0].num_nodes, generator=torch.Generator().manual_seed(0))
    permuted = Data(x=OTHERS[0].x[order], edge_index=torch.argsort(order)[OTHERS[0].edge_index])
    np.testing.assert_allclose(np.asarray(features.transform([permuted])), together[:1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "embedder",
    [
        CGMM(EVERY_KIND, num_layers=2, num_states=3),
        GraphEmbedder(EVERY_KIND, GAE(hidden=4), epochs=1),
        [GSPN(EVERY_KIND, num_layers=2, num_states=2, epochs=1, seed=seed) for seed in (0, 1)],
    ],
    ids=["CGMM", "GAE", "two GSPNs"],
)
def test_whatever_embeds(embedder: Any) -> None:
    features = GraphFeatures(embedder)
    rows = np.asarray(features.fit_transform(GRAPHS, progress=False))
    assert rows.shape == (40, features.n_features_out_) == (40, len(features.get_feature_names_out()))
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(np.asarray(features.transform(GRAPHS)), rows, rtol=1e-5, atol=1e-5)
    assert len(set(features.get_feature_names_out())) == rows.shape[1]
    for one in embedder if isinstance(embedder, list) else [embedder]:
        with pytest.raises(GSPNError, match="not fitted"):
            one.embed(GRAPHS)  # a clone has learned, not what was given


def test_the_degree_as_a_further_attribute(model: GSPN) -> None:
    features = GraphFeatures(GSPN(EVERY_KIND, num_layers=2, num_states=2, epochs=1), degree=True)
    features.fit(GRAPHS, progress=False)
    (learned,) = features.learned_.models
    assert learned.schema.names == (*EVERY_KIND.names, DEGREE)
    dataset = with_degree(pack(GRAPHS, EVERY_KIND))
    codes = dataset.entries()[:, -1]
    degrees = torch.cat([torch.bincount(g.edge_index[1], minlength=g.num_nodes) for g in GRAPHS])
    assert (codes[degrees <= 8] == degrees[degrees <= 8]).all()
    again = GraphFeatures(learned, degree=True).fit(GRAPHS, progress=False)
    np.testing.assert_array_equal(np.asarray(again.transform(OTHERS)), np.asarray(features.transform(OTHERS)))
    with pytest.raises(GSPNError, match=DEGREE):
        GraphFeatures(
            GSPN(EVERY_KIND, num_layers=1, num_states=2, epochs=1).fit(GRAPHS, progress=False), degree=True
        ).fit(GRAPHS, progress=False)


def test_kinds_of_columns_weigh_the_same(model: GSPN) -> None:
    graphs, extra = draw_graphs(30, seed=0), np.random.default_rng(0).standard_normal((30, 2))
    features = GraphFeatures(model, attributes=True, subtrees=1)
    features.fit(graphs, extra=extra, progress=False)
    names = features.get_feature_names_out().tolist()
    balanced, attributes, own = features.views()
    pairs = np.array(["pairs_" in name for name in names])
    subtrees = np.array([name.startswith("subtree_") for name in names])
    assert [names[place] for place in np.flatnonzero(own)] == ["extra0", "extra1"]
    assert names[int(np.flatnonzero(attributes)[0])] in ("log_vertices", "log_edges")
    assert not (attributes.astype(bool) & (pairs | subtrees)).any()
    for kind in (pairs, subtrees, attributes > 0, own > 0):
        assert np.square(balanced[kind]).sum() == pytest.approx(100)
    assert GraphFeatures(None, subtrees=1).fit(pack(graphs, EVERY_KIND)).views() != []
    assert GraphFeatures(None, attributes=True).fit(pack(graphs, EVERY_KIND)).views() == []


def test_manners_of_scikit_learn(model: GSPN) -> None:
    features = GraphFeatures(model).set_output(transform="pandas")
    table = features.fit_transform(GRAPHS, progress=False)
    assert isinstance(table, pd.DataFrame)
    assert list(table.columns) == list(features.get_feature_names_out())
    with pytest.raises(GSPNError, match="not fitted"):
        clone(GraphFeatures(model)).transform(GRAPHS)


def test_columns_of_somebody_else(model: GSPN) -> None:
    extra = pd.DataFrame({"weight": np.arange(40.0), "logp": np.arange(40.0)[::-1] ** 2})
    features = GraphFeatures(model).fit(GRAPHS, extra=extra, progress=False)
    assert {"weight", "logp"} <= set(features.get_feature_names_out())
    np.testing.assert_array_equal(named_with(features, GRAPHS, extra)["logp"], extra["logp"])
    with pytest.raises(GSPNError, match="weight, logp"):
        features.transform(GRAPHS)
    with pytest.raises(GSPNError, match="40 graphs"):
        features.transform(GRAPHS, extra=extra[:3])
    with pytest.raises(GSPNError, match="graph 3, column 'logp'"):
        features.transform(GRAPHS, extra=extra.assign(logp=[np.nan if row == 3 else 1.0 for row in range(40)]))


def named_with(features: GraphFeatures, graphs: Any, extra: Any) -> dict[str, Any]:
    rows = np.asarray(features.transform(graphs, extra=extra))
    return dict(zip(features.get_feature_names_out(), rows.T, strict=True))


def test_refusals(model: GSPN) -> None:
    with pytest.raises(GSPNError, match="must have embed"):
        GraphFeatures("model").fit(GRAPHS)
    with pytest.raises(GSPNError, match="without a model"):
        GraphFeatures().fit(GRAPHS)
    with pytest.raises(GSPNError, match="no column varies"):
        GraphFeatures(model).fit([GRAPHS[0]] * 3, progress=False)
