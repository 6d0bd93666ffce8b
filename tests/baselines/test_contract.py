"""What every baseline keeps, whatever it is: one suite over three lists. A new baseline is a new line in its list.

A predictor has fit, predict, predict_proba and score; an imputer fit and impute, and where it has a density
log_prob_missing; an embedder fit and embed. All are scikit-learn estimators whose seed fixes everything, and all take
graphs with missing entries. Every line is a function of (schema, target, seed), of which it takes what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier, is_regressor
from small_graphs import draw_graphs
from torch_geometric.data import Data

from gspn import GSPN, Binary, Categorical, Continuous, Count, DeepSets, GSPNError, Schema, pack
from gspn.baselines import (
    CGMM,
    DGCNN,
    DGI,
    ECC,
    ECGMM,
    GAE,
    GIN,
    ICGMM,
    Constant,
    DeepMultisets,
    DiffPool,
    FeatureImputer,
    GraphEmbedder,
    GraphNetwork,
    GraphSAGE,
    Mixture,
    PooledAttributes,
    StructureAgnostic,
    WeisfeilerLehman,
)
from gspn.baselines.imputers import METHODS
from gspn.errors import NotFittedError

Make = Callable[[Schema, Any, int], Any]

SCHEMA = Schema([Continuous("charge"), Categorical("element", ["C", "N", "O"]), Binary("aromatic"), Count("hydrogens")])


def network(settings: Any, **arguments: Any) -> Make:
    return lambda schema, target, seed: GraphNetwork(
        schema, target, settings, **{"epochs": 15, "batch_size": 16, "seed": seed} | arguments
    )


def imputer(method: str) -> Make:
    return lambda schema, target, seed: FeatureImputer(schema, method, seed=seed)


PREDICTORS: dict[str, Make] = {
    "constant": lambda schema, target, seed: Constant(schema, target),
    "structure-agnostic": lambda schema, target, seed: StructureAgnostic(schema, target, epochs=60, lr=0.01, seed=seed),
    "deep multisets": network(DeepMultisets(hidden=16)),
    "GIN": network(GIN(hidden=16, num_layers=2), halve_every=10),
    "GraphSAGE": network(GraphSAGE(hidden=16, num_layers=2)),
    "DGCNN": network(DGCNN(hidden=16, num_layers=2, dense=32)),
    "DiffPool": network(DiffPool(hidden=16, embedding=16), clip=2.0),
    "ECC": network(ECC(hidden=16)),
    "pooled attributes, subtrees": lambda schema, target, seed: PooledAttributes(
        schema, target, heads="linear", seed=seed, subtrees=2
    ),
    "pooled attributes": lambda schema, target, seed: PooledAttributes(schema, target, heads="linear", seed=seed),
    "Weisfeiler-Lehman": lambda schema, target, seed: WeisfeilerLehman(schema, target, rounds=1, seed=seed),
    "Weisfeiler-Lehman, linear": lambda schema, target, seed: WeisfeilerLehman(
        schema, target, rounds=1, heads="linear", seed=seed
    ),
}

IMPUTERS: dict[str, Make] = {
    "independent": lambda schema, target, seed: Mixture(schema, num_states=1, seed=seed),
    "mixture by EM": lambda schema, target, seed: Mixture(schema, num_states=3, seed=seed),
    "mixture by gradient": lambda schema, target, seed: GSPN(schema, num_layers=1, num_states=3, epochs=10, seed=seed),
    **{method: imputer(method) for method in METHODS},
}

EMBEDDERS: dict[str, Make] = {
    "GAE": lambda schema, target, seed: GraphEmbedder(schema, GAE(hidden=16), epochs=15, batch_size=40, seed=seed),
    "DGI": lambda schema, target, seed: GraphEmbedder(schema, DGI(hidden=16), epochs=15, batch_size=40, seed=seed),
    "CGMM": lambda schema, target, seed: CGMM(schema, num_layers=3, num_states=5, seed=seed),
    "E-CGMM": lambda schema, target, seed: ECGMM(schema, num_layers=3, num_states=5, num_edge_states=3, seed=seed),
    "iCGMM": lambda schema, target, seed: ICGMM(schema, num_layers=2, sweeps=20, seed=seed),
}

KNOWS_NOTHING = {"constant"}
"""Predictors that learn nothing of a graph."""

WITHOUT_SEED = {"constant"}
"""Nothing in them is random."""

EVERY = PREDICTORS | IMPUTERS | EMBEDDERS
TARGETS: dict[str, Any] = {
    "categorical": Categorical("y", ["low", "high"]),
    "binary": Binary("y"),
    "continuous": Continuous("y"),
    "count": Count("y"),
    "several binary": Schema([Binary("high"), Binary("low")]),
    "several": Schema([Categorical("class", ["low", "high"]), Continuous("value"), Count("number")]),
}


def graphs_of(count: int, seed: int, missing: float = 0.1) -> list[Data]:
    """Graphs over `SCHEMA`: those of every kind without their last attribute."""
    drawn = draw_graphs(count, seed, missing=missing)
    return [Data(x=graph.x[:, :4], edge_index=graph.edge_index) for graph in drawn]


TRAINING, HELD_OUT = graphs_of(80, seed=0), graphs_of(40, seed=1)
EMPTY = Data(x=torch.empty(0, 4), edge_index=torch.empty(2, 0, dtype=torch.long))
LONELY = Data(x=torch.full((1, 4), torch.nan), edge_index=torch.empty(2, 0, dtype=torch.long))
ODD = [EMPTY, LONELY, HELD_OUT[0], EMPTY]


def labels(graphs: list[Data], target: Any) -> torch.Tensor:
    """What the vertices' mean charge says; of several targets, some are missing."""
    charge = torch.stack([graph.x[:, 0].nanmean() for graph in graphs]).nan_to_num(0.0)
    columns = {
        Categorical: (charge > 0).double(),
        Binary: (charge > 0).double(),
        Continuous: 10 * charge + 3,
        Count: (2 + charge).clamp(min=0).round(),
    }
    if not isinstance(target, Schema):
        return columns[type(target)]
    table = torch.stack([columns[type(attribute)] for attribute in target], dim=1)
    if isinstance(target[1], Binary):
        table[:, 1] = 1 - table[:, 1]
    table[torch.arange(len(table)) % 5 == 0, 1] = torch.nan
    return table


def brief(model: Any) -> Any:
    """The same model with two epochs, where how much it learns does not matter."""
    return model.set_params(epochs=2) if "epochs" in model.get_params() else model


def fitted(name: str, target: Any = TARGETS["binary"], seed: int = 0, training: list[Data] = TRAINING) -> Any:
    model = brief(EVERY[name](SCHEMA, target, seed))
    if name in PREDICTORS:
        return model.fit(training, labels(training, target), progress=False)
    return model.fit(training, progress=False)


def answer(name: str, model: Any, graphs: list[Data]) -> np.ndarray:
    """All that the model says of these graphs, as one array."""
    if name in PREDICTORS:
        return np.asarray(model.predict_proba(graphs))
    parts = [graph.x for graph in model.impute(graphs)] if name in IMPUTERS else model.embed(graphs)
    return torch.cat(list(parts)).numpy()


# ---- All of them


@pytest.mark.parametrize("name", EVERY)
def test_manners(name: str) -> None:
    """The seed fixes all, torch's own random numbers stay as they are, and neither graphs nor arguments are changed."""
    before = [graph.x.clone() for graph in TRAINING]
    torch.manual_seed(1)
    state = torch.get_rng_state()
    model = fitted(name)
    assert torch.equal(torch.get_rng_state(), state)
    for graph, x in zip(TRAINING, before, strict=True):
        torch.testing.assert_close(graph.x, x, rtol=0, atol=0, equal_nan=True)
    torch.manual_seed(2)
    twin = clone(model)
    assert {k: repr(v) for k, v in twin.get_params().items()} == {k: repr(v) for k, v in model.get_params().items()}
    with pytest.raises(NotFittedError, match="not fitted"):
        answer(name, twin, HELD_OUT)
    if name in PREDICTORS:
        twin.fit(TRAINING, labels(TRAINING, TARGETS["binary"]), progress=False)
    else:
        twin.fit(TRAINING, progress=False)
    np.testing.assert_array_equal(answer(name, twin, HELD_OUT), answer(name, model, HELD_OUT))
    if name not in WITHOUT_SEED:
        assert "seed" in model.get_params()


@pytest.mark.parametrize("name", EVERY)
def test_one_answer_whatever_stands_beside_it(name: str) -> None:
    model = fitted(name)
    together = answer(name, model, HELD_OUT)
    apart = np.concatenate([answer(name, model, HELD_OUT[:7]), answer(name, model, HELD_OUT[7:])])
    # Sums of single precision in another order: some hundred roundings of 1e-7, relative to numbers of order 1 to 10.
    np.testing.assert_allclose(apart, together, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", EVERY)
def test_gaps_and_odd_graphs(name: str) -> None:
    """No vertex, one vertex, no edge, nothing observed: an answer all the same, in training as well."""
    model = brief(EVERY[name](SCHEMA, TARGETS["binary"], 0))
    graphs = [*TRAINING, EMPTY, LONELY]
    if name in PREDICTORS:
        y = torch.cat([labels(TRAINING, TARGETS["binary"]), torch.tensor([1.0, torch.nan])])
        model.fit(graphs, y, progress=False)
    else:
        model.fit(graphs, progress=False)
    assert np.isfinite(answer(name, model, ODD)).all()
    gaps = [Data(x=torch.full_like(graph.x, torch.nan), edge_index=graph.edge_index) for graph in HELD_OUT[:3]]
    assert np.isfinite(answer(name, model, gaps)).all()
    assert len(answer(name, model, [EMPTY])) == (1 if name in PREDICTORS else 0)


@pytest.mark.parametrize("name", sorted(set(EVERY) - KNOWS_NOTHING))
def test_an_attribute_that_is_never_observed_is_refused(name: str) -> None:
    blind = [Data(x=graph.x.clone(), edge_index=graph.edge_index) for graph in TRAINING]
    for graph in blind:
        graph.x[:, 1] = torch.nan
    with pytest.raises(GSPNError, match="element"):
        fitted(name, training=blind)


# ---- Predictors


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("name", PREDICTORS)
def test_predictions_of_every_kind(name: str, kind: str) -> None:
    target = TARGETS[kind]
    model = brief(PREDICTORS[name](SCHEMA, target, 0))
    assert (is_classifier(model), is_regressor(model)) == (
        isinstance(target, Categorical | Binary),
        isinstance(target, Continuous | Count),
    )
    held_out = (HELD_OUT, labels(HELD_OUT, target))
    model.fit(TRAINING, labels(TRAINING, target), validation=held_out, progress=False)
    predictions = model.predict(HELD_OUT)
    assert predictions.shape == ((len(HELD_OUT), len(target)) if isinstance(target, Schema) else (len(HELD_OUT),))
    if isinstance(target, Categorical):
        assert set(predictions) <= {"low", "high"}
    if kind in ("categorical", "binary"):
        # "low" before "high": the columns follow the target, sorted or not.
        assert model.classes_.tolist() == (["low", "high"] if kind == "categorical" else [False, True])
        probabilities = model.predict_proba(HELD_OUT)
        np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-6)
        np.testing.assert_array_equal(predictions, model.classes_[probabilities.argmax(1)])
    elif kind == "several binary":
        assert ((model.predict_proba(HELD_OUT) >= 0) & (model.predict_proba(HELD_OUT) <= 1)).all()
    else:
        with pytest.raises(GSPNError, match="predict_proba"):
            model.predict_proba(HELD_OUT)
    assert hasattr(model, "classes_") == isinstance(target, Categorical | Binary)
    assert np.isfinite(model.score(*held_out))


@pytest.mark.parametrize("name", PREDICTORS)
def test_learns_what_the_vertices_say(name: str) -> None:
    target = TARGETS["categorical"]
    model = PREDICTORS[name](SCHEMA, target, 0).fit(TRAINING, labels(TRAINING, target), progress=False)
    score = model.score(HELD_OUT, labels(HELD_OUT, target))
    # Chance is one half; the sign of a mean is nearly linear in what all of them see.
    assert score <= 0.65 if name in KNOWS_NOTHING else score > 0.8


@pytest.mark.parametrize("name", PREDICTORS)
def test_labels_that_the_graphs_carry(name: str) -> None:
    y = labels(TRAINING, TARGETS["binary"])
    carrying = [Data(x=g.x, edge_index=g.edge_index, y=own[None]) for g, own in zip(TRAINING, y, strict=True)]
    model = brief(PREDICTORS[name](SCHEMA, TARGETS["binary"], 0)).fit(
        carrying, validation=carrying[:10], progress=False
    )
    assert model.score(carrying) == model.score(TRAINING, y)
    with pytest.raises(GSPNError, match="carry no y"):
        clone(model).fit(TRAINING, progress=False)
    with pytest.raises(GSPNError, match="label"):
        clone(model).fit(TRAINING, torch.full((len(TRAINING),), torch.nan), progress=False)


# ---- Imputers


@pytest.mark.parametrize("name", IMPUTERS)
def test_observed_entries_stay_and_filled_ones_are_valid(name: str) -> None:
    model = fitted(name)
    for graph, complete in zip(HELD_OUT, model.impute(HELD_OUT), strict=True):
        assert not torch.isnan(complete.x).any()
        observed = ~torch.isnan(graph.x)
        assert torch.equal(complete.x[observed], graph.x[observed])
        assert torch.equal(complete.edge_index, graph.edge_index)
    pack(model.impute(HELD_OUT), SCHEMA)  # refuses codes that are none
    assert isinstance(model.impute(HELD_OUT[0]), Data)
    torch.testing.assert_close(model.impute(HELD_OUT[0]).x, model.impute(HELD_OUT)[0].x)


@pytest.mark.parametrize("name", IMPUTERS)
def test_densities_of_missing_entries(name: str) -> None:
    model = fitted(name)
    if not hasattr(model, "log_prob_missing"):
        pytest.skip("fills without a density")
    truths = graphs_of(40, seed=1, missing=0.0)
    gone = [graph.x.isnan().any(1) for graph in HELD_OUT]
    found = model.log_prob_missing(HELD_OUT, truths)
    for own, some in zip(found, gone, strict=True):
        assert torch.isfinite(own).all()
        assert (own[~some] == 0).all()
    alone = model.log_prob_missing(HELD_OUT[0], truths[0].x)
    torch.testing.assert_close(alone, found[0])


# ---- Embedders


@pytest.mark.parametrize("name", EMBEDDERS)
def test_embeddings_follow_the_vertices_and_carry_the_label(name: str) -> None:
    model = EMBEDDERS[name](SCHEMA, None, 0).fit(TRAINING, progress=False)
    graph = HELD_OUT[0]
    rows = model.embed(graph)
    assert rows.shape[0] == graph.num_nodes
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    place = torch.argsort(order)
    permuted = Data(x=graph.x[order], edge_index=place[graph.edge_index])
    torch.testing.assert_close(model.embed(permuted), rows[order], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model.transform([graph])[0], rows, rtol=1e-4, atol=1e-4)
    target = TARGETS["binary"]
    head = DeepSets(target, epochs=100, lr=0.01).fit(model.embed(TRAINING), labels(TRAINING, target), progress=False)
    assert head.score(model.embed(HELD_OUT), labels(HELD_OUT, target)) > 0.75
