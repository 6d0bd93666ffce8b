"""SupervisedGSPN's manners: labels in every form, scikit-learn's and torch's habits, files; and what it refuses."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from comparison import same
from forged import without_seal
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from small_distributions import as_mixture
from small_graphs import EVERY_KIND, draw_graphs
from small_supervised import GRAPHS, HELD_OUT, HELD_OUT_LABELS, KIND, LABELS, SCHEMA, SEVERAL, SIDES, make
from supervised_cases import TARGETS, random_supervised
from torch_geometric.data import Data

import gspn
from gspn import Binary, Categorical, Continuous, Count, Schema, SupervisedGSPN
from gspn.attributes import Attribute
from gspn.errors import CheckpointError, GSPNError, InputError, NotFittedError
from gspn.hierarchy.readout import SupervisedEvaluation

NAN = math.nan
CODES = torch.from_numpy(SIDES)
BINARIES = Schema([Binary("toxic"), Binary("safe")])
NOTHING = Data(x=torch.zeros(0, 2), edge_index=torch.zeros(2, 0, dtype=torch.long))
HEADS: list[tuple[str, Attribute | Schema]] = [
    *(("circuit", target) for target in TARGETS.values()),
    *(("linear", target) for target in (TARGETS["categorical"], TARGETS["binary"], BINARIES)),
]
over_heads = pytest.mark.parametrize(("head", "target"), HEADS, ids=[*TARGETS, *(f"linear {i}" for i in range(3))])


def carrying(y: Any, graphs: list[Data] = GRAPHS) -> list[Data]:
    """Copies of the graphs with a y of their own each."""
    copies = [data.clone() for data in graphs]
    for data, own in zip(copies, y, strict=True):
        data.y = own
    return copies


def quick(target: Attribute | Schema = KIND, **arguments: Any) -> SupervisedGSPN:
    return make(target, **{"epochs": 1} | arguments)


# ---- Labels in every form


@pytest.mark.parametrize(
    "y",
    [
        LABELS["kind"].tolist(),
        tuple(LABELS["kind"].tolist()),
        pd.Series(LABELS["kind"], index=range(100, 160)),
        pd.DataFrame({"kind": LABELS["kind"]}),
        {"kind": LABELS["kind"]},
        CODES,
        CODES.float()[:, None],
        [torch.tensor([int(side)]) for side in SIDES],
    ],
    ids=["list", "tuple", "series", "frame", "mapping", "codes", "column of codes", "tensors"],
)
def test_labels_of_graphs_in_every_form(y: Any) -> None:
    model = quick().fit(GRAPHS, LABELS["kind"])
    assert same(model, quick().fit(GRAPHS, y))
    assert model.score(GRAPHS, y) == model.score(GRAPHS, LABELS["kind"])
    assert torch.equal(model.log_prob(GRAPHS, y), model.log_prob(GRAPHS, LABELS["kind"]))


@pytest.mark.parametrize("target", [KIND, Schema([KIND, Binary("toxic")])], ids=["one", "two"])
def test_labels_of_vertices_in_every_form(target: Attribute | Schema) -> None:
    """Graph by graph or all in one; a graph without vertices has no labels."""
    graphs, several = [*GRAPHS[:5], NOTHING], isinstance(target, Schema)
    rows = [[[SIDES[g], v % 2] if several else SIDES[g] for v in range(len(graphs[g].x))] for g in range(6)]

    def called(row: Any) -> Any:
        return [KIND.categories[row[0]], bool(row[1])] if several else KIND.categories[row]

    by_graph = [[called(row) for row in own] for own in rows]
    flat = [row for own in by_graph for row in own]
    tensors = [torch.tensor(np.array(own)).reshape(len(own), *([2] if several else [])) for own in rows]
    forms = [flat, by_graph, tensors, torch.cat(tensors), np.array(flat, dtype=object)]
    forms += [[np.array(own, dtype=object).reshape(len(own), *([2] if several else [])) for own in by_graph]]
    forms += [] if several else [pd.Series(flat), [pd.Series(own) for own in by_graph]]
    expected = quick(target, target_level="vertex", batch_size=1).fit(carrying(tensors, graphs))
    for y in forms:
        assert same(expected, quick(target, target_level="vertex", batch_size=1).fit(graphs, y))
    predictions = expected.predict(graphs)
    shapes = [(len(g.x), 2) if several else (len(g.x),) for g in graphs]
    assert [p.shape for p in predictions] == shapes
    assert [len(p) for p in expected.log_prob(graphs, flat)] == [len(g.x) for g in graphs]
    assert expected.predict(graphs[0]).tolist() == predictions[0].tolist()


def test_given_labels_come_before_carried_ones() -> None:
    other = carrying([torch.tensor([1 - int(side)]) for side in SIDES])
    assert same(quick().fit(other, LABELS["kind"]), quick().fit(GRAPHS, LABELS["kind"]))
    validated = quick(epochs=2).fit(other, LABELS["kind"], validation=(HELD_OUT, HELD_OUT_LABELS["kind"]))
    held_out = carrying([torch.tensor([int(k == "cold")]) for k in HELD_OUT_LABELS["kind"]], HELD_OUT)
    assert same(validated, quick(epochs=2).fit(GRAPHS, LABELS["kind"], validation=held_out))


def test_repeated_graphs_may_have_labels_of_their_own() -> None:
    """A selection of a dataset in which graphs occur twice trains like a list of the same graphs."""
    chosen = [0, 1, 1, 2, 0, 3]
    y = ["warm", "cold", "warm", None, "cold", "warm"]
    dataset = gspn.pack(carrying([torch.tensor([side]) for side in SIDES]), SCHEMA)
    listed = [GRAPHS[i] for i in chosen]
    assert same(quick().fit(dataset[chosen], y), quick().fit(listed, y))
    assert same(quick().fit(dataset[chosen]), quick().fit(listed, CODES[chosen]))
    assert len(dataset) == 60


@pytest.mark.parametrize(
    "y",
    [torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([-1]), torch.tensor([1e30]), torch.tensor([NAN]), "by vertex"],
    ids=["other targets", "-1 for unknown", "far", "missing", "of vertices"],
)
def test_predictions_do_not_look_at_labels(y: Any) -> None:
    foreign = carrying([torch.zeros(len(g.x)) if isinstance(y, str) else y for g in GRAPHS])
    for level in ("graph", "vertex"):
        model = random_supervised(SCHEMA, KIND, target_level=level)
        expected, found = model.predict_proba(GRAPHS), model.predict_proba(foreign)
        assert np.array_equal(np.concatenate(expected), np.concatenate(found))
        assert torch.equal(torch.cat(model.posteriors(GRAPHS)), torch.cat(model.posteriors(foreign)))


def test_validation_counts_labelled_graphs_alone() -> None:
    labels = HELD_OUT_LABELS["kind"].astype(object)
    labels[10:] = None
    model = quick().fit(GRAPHS, LABELS["kind"], validation=(HELD_OUT, labels))
    expected = -model.log_prob(HELD_OUT[:10], labels[:10]).double().mean().item()
    assert model.history_[0]["validation"] == pytest.approx(expected, rel=1e-5)
    assert model.history_[0]["score"] == model.score(HELD_OUT[:10], labels[:10])
    model.fit(GRAPHS, LABELS["kind"], warm_start=True, epochs=5)
    assert -model.log_prob(HELD_OUT[:10], labels[:10]).mean().item() < expected, "goes on from the present weights"


# ---- What answers look like


@over_heads
def test_shapes_of_answers(head: str, target: Attribute | Schema) -> None:
    graphs = draw_graphs(4, seed=0)
    model = random_supervised(EVERY_KIND, target, head=head)
    several = isinstance(target, Schema)
    number = len(target) if isinstance(target, Schema) else 1
    assert model.predict(graphs).shape == ((4, number) if several else (4,))
    assert model.predict(graphs[0]).shape == ((1, number) if several else (1,))
    predictive: Any = model.predictive(graphs)
    assert list(predictive) == list(target.names) if isinstance(target, Schema) else len(predictive) == 4
    y = torch.zeros(4, number)
    assert model.log_prob(graphs, y).shape == (4,)
    assert not model.log_prob(graphs, y).requires_grad
    if isinstance(target, Binary | Categorical) or target == BINARIES:
        probabilities = model.predict_proba(graphs)
        assert probabilities.shape == (4, 3 if isinstance(target, Categorical) else 2)
        tables = predictive.values() if several else [predictive]
        assert not any(table.probs.requires_grad for table in tables)
    else:
        with pytest.raises(InputError, match="predict_proba is for a categorical or binary target"):
            model.predict_proba(graphs)
    if isinstance(target, Binary | Categorical):
        assert model.predict(graphs).tolist() == model.classes_[probabilities.argmax(1)].tolist()
        np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-12)
        for value, column in zip(model.classes_, probabilities.T, strict=True):
            np.testing.assert_allclose(model.log_prob(graphs, [value] * 4).exp(), column, rtol=1e-12)
        np.testing.assert_array_equal(predictive.probs.numpy(), probabilities)
    else:
        assert not hasattr(model, "classes_")
    if isinstance(target, Continuous | Count):
        np.testing.assert_array_equal(model.predict(graphs), predictive.mean.numpy())
        torch.testing.assert_close(model.log_prob(graphs, y), predictive.log_prob(y[:, 0]), rtol=1e-12, atol=1e-12)
    if target == BINARIES:
        assert model.predict(graphs).dtype == bool
        np.testing.assert_array_equal(model.predict(graphs), probabilities > 0.5)


def test_an_answer_stays_when_the_model_is_trained_again() -> None:
    model = quick(Continuous("energy")).fit(GRAPHS, LABELS["energy"])
    answer = as_mixture(model.predictive(GRAPHS))
    before = answer.mean, answer.interval()
    model.fit(GRAPHS, 1e6 + 50 * LABELS["energy"])
    assert torch.equal(answer.mean, before[0])
    assert torch.equal(answer.interval(), before[1])


# ---- scikit-learn


def test_arguments_and_clones() -> None:
    arguments: dict[str, Any] = {
        "num_graph_states": 3,
        "pooling": "mean",
        "target_level": "vertex",
        "head": "linear",
        "likelihood_weight": 0.5,
        "monitor": "score",
    }
    model: Any = quick(**arguments)
    assert model.get_params() | arguments == model.get_params()
    assert model.get_params()["target"] is KIND
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert twin.set_params(target=Continuous("e"), head="circuit", num_graph_states=6) is twin
    assert twin.readout.raw_transitions.shape == (2, 1, 3, 6)
    with pytest.raises(InputError, match="head='linear'"):
        twin.set_params(head="linear")
    assert twin.head == "circuit"
    assert "pooling='mean'" in repr(model)


@pytest.mark.parametrize("target", [*TARGETS.values(), BINARIES], ids=[*TARGETS, "binaries"])
def test_scikit_learn_knows_what_it_is(target: Attribute | Schema) -> None:
    model = quick(target)
    assert is_classifier(model) == isinstance(target, Binary | Categorical)
    assert is_regressor(model) == isinstance(target, Continuous | Count)
    assert not model.__sklearn_tags__().target_tags.required


@pytest.mark.parametrize("with_y", [True, False])
def test_grid_search_and_cross_validation(with_y: bool) -> None:
    """Labels given beside the graphs, or carried by them; a state for everything loses to four."""
    graphs: Any = GRAPHS if with_y else carrying(CODES.split(1))
    y = LABELS["kind"] if with_y else None
    search = GridSearchCV(make(epochs=4), {"num_graph_states": [1, 4]}, cv=3, error_score="raise").fit(graphs, y)
    assert search.best_params_ == {"num_graph_states": 4}
    assert search.best_score_ > 0.8
    assert search.predict(HELD_OUT[:3]).shape == (3,)
    assert search.predict_proba(HELD_OUT[:3]).shape == (3, 2)
    scores = cross_val_score(make(epochs=4), graphs, y, cv=2, error_score="raise")
    assert scores.min() > 0.7
    if with_y:
        energies = cross_val_score(make(Continuous("e"), epochs=4), graphs, LABELS["energy"], cv=2, error_score="raise")
        assert energies.min() > 0.3
        # Here scikit-learn itself turns labels into 0, 1, …, so these must be the categories.
        numbered = make(Categorical("side", [0, 1]), epochs=4)
        found = cross_val_predict(numbered, graphs, SIDES, cv=2, method="predict_proba")
        assert (found.argmax(1) == SIDES).mean() > 0.7


def test_pipeline() -> None:
    def first_column(graphs: list[Data]) -> list[Data]:
        return [Data(x=g.x[:, :1], edge_index=g.edge_index) for g in graphs]

    colour = SupervisedGSPN(Schema([SCHEMA[0]]), KIND, 2, 3, 4, epochs=5, lr=0.1)
    pipeline = Pipeline([("take", FunctionTransformer(first_column)), ("model", colour)]).fit(GRAPHS, LABELS["kind"])
    assert pipeline.score(HELD_OUT, HELD_OUT_LABELS["kind"]) > 0.8
    assert pipeline.predict_proba(HELD_OUT).shape == (80, 2)
    assert pipeline.classes_.tolist() == ["warm", "cold"]


# ---- torch


def test_a_module_among_others(tmp_path: Path) -> None:
    model = quick(SEVERAL).fit(GRAPHS, LABELS).double()
    twin = copy.deepcopy(model)
    other = quick(SEVERAL, seed=9).double()
    other.load_state_dict(model.state_dict())
    assert same(model, other)
    assert torch.equal(twin.log_prob(GRAPHS, LABELS), other.log_prob(GRAPHS, LABELS))
    assert twin.log_prob(GRAPHS, LABELS).dtype == torch.float64
    y = gspn.targets.encode_labels(SEVERAL, LABELS)
    evaluation = model(model.collate(carrying(torch.from_numpy(y).split(1))))
    assert isinstance(evaluation, SupervisedEvaluation)
    assert evaluation.log_prob is not None
    torch.testing.assert_close(evaluation.log_prob.detach(), model.log_prob(GRAPHS, LABELS))
    evaluation.log_prob.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    twin.fit(GRAPHS, LABELS)
    assert not same(twin, model)


@over_heads
def test_shapes_on_the_meta_device(head: str, target: Attribute | Schema) -> None:
    number = len(target) if isinstance(target, Schema) else 1
    for pooling, level in (("sum", "graph"), ("mean", "graph"), ("sum", "vertex")):
        model = random_supervised(EVERY_KIND, target, head=head, pooling=pooling, target_level=level)
        graphs = draw_graphs(3, seed=0)
        labelled = carrying([torch.zeros(len(g.x) if level == "vertex" else 1, number) for g in graphs], graphs)
        here = model(model.collate(labelled))
        there = model.to("meta")(model.collate(labelled))
        for name in ("readout_log_prior", "log_prob", "posteriors", "log_likelihood"):
            assert getattr(there, name).device.type == "meta"
            assert getattr(there, name).shape == getattr(here, name).shape
            assert getattr(there, name).dtype == getattr(here, name).dtype


# ---- Parameters and files


@over_heads
def test_parameters_and_files_bring_everything_back(head: str, target: Attribute | Schema, tmp_path: Path) -> None:
    graphs, number = draw_graphs(4, seed=0), len(target) if isinstance(target, Schema) else 1
    model = random_supervised(EVERY_KIND, target, head=head, pooling="mean")
    model.save(tmp_path)
    loaded = gspn.load(tmp_path)
    assert isinstance(loaded, SupervisedGSPN)
    assert loaded.target == target
    assert same(model, loaded)
    twin = SupervisedGSPN(EVERY_KIND, target, 3, 3, 4, pooling="mean", head=head, seed=5).double()
    parameters = model.get_parameters()
    assert ("leaves" in parameters["readout"]) == (head == "circuit")
    torch.testing.assert_close(twin.set_parameters(parameters).get_parameters(), parameters)
    y = torch.zeros(4, number)
    for other in (loaded, twin):
        torch.testing.assert_close(other.log_prob(graphs, y), model.log_prob(graphs, y), rtol=1e-9, atol=1e-9)
    # What was given out is a copy.
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for value in parameters["readout"].values():
        for tensor in [value] if isinstance(value, torch.Tensor) else []:
            tensor.zero_()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def wrong_parameters() -> list[tuple[str, Callable[[dict[str, Any]], Any]]]:
    def leaf(p: dict[str, Any]) -> Any:
        return p["readout"]["leaves"]

    return [
        ("need a 'readout'", lambda p: p.pop("readout")),
        ("'readout' must be a mapping", lambda p: p.update(readout=3)),
        ("parameters of the readout are", lambda p: p["readout"].pop("transitions")),
        ("parameters of the readout are", lambda p: p["readout"].update(weight=1)),
        ("'transitions' of the readout must be non-negative", lambda p: p["readout"]["transitions"].mul_(2)),
        ("'transitions' of the readout has shape", lambda p: p["readout"].update(transitions=torch.ones(1))),
        ("'leaves' must have the attributes", lambda p: leaf(p).pop("toxic")),
        ("leaves of 'energy': 'std'", lambda p: leaf(p)["energy"]["std"].fill_(-1.0)),
        ("leaves of 'rings'", lambda p: leaf(p)["rings"].update(rate=torch.ones(1, 9))),
        ("'units' are for the continuous", lambda p: p["readout"].update(units={"toxic": [0, 1]})),
        ("'transitions' must be", lambda p: p["transitions"].neg_()),
        ("leaves of 'charge'", lambda p: p["leaves"].update(charge={})),
    ]


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize(("message", "spoil"), wrong_parameters(), ids=lambda v: v if isinstance(v, str) else "")
def test_nothing_is_set_if_anything_is_wrong(message: str, spoil: Callable[[Any], Any], fitted: bool) -> None:
    parameters = random_supervised(EVERY_KIND, TARGETS["several"], 1).get_parameters()
    model = random_supervised(EVERY_KIND, TARGETS["several"], 2)
    model = model if fitted else clone(model).double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    spoil(parameters)
    with pytest.raises(InputError, match=message):
        model.set_parameters(parameters)
    found = model.state_dict()
    assert [name for name in before if not torch.equal(found[name], before[name])] == []


@pytest.mark.parametrize(
    "target", [None, 3, "attributes", [], {}, {"kind": "ordinal", "name": "y"}, {"attributes": 3}, {"attributes": []}]
)
def test_a_damaged_target_in_the_file(target: Any, tmp_path: Path) -> None:
    quick().save(tmp_path)
    path = tmp_path / "model.json"
    description = without_seal(path)
    description["settings"]["target"] = target
    path.write_text(json.dumps(description))
    with pytest.raises(CheckpointError, match="cannot be built"):
        gspn.load(tmp_path)
    del description["settings"]["target"]
    path.write_text(json.dumps(description))
    with pytest.raises(CheckpointError, match="cannot be built"):
        gspn.load(tmp_path)


# ---- Refusals


def refused_fits() -> list[tuple[str, Callable[[], Any]]]:
    far = [1e30] * 80
    codes = CODES.double()
    two = [CODES[:, None].double(), torch.full((60, 1), torch.nan)]
    by_vertex = [torch.zeros(len(g.x)) for g in GRAPHS]
    unequal = [Data(x=torch.zeros(2, 2), y=torch.tensor([0])), Data(x=torch.zeros(0, 2), y=torch.tensor([1]))]
    numbers, one = Continuous("e"), (GRAPHS[:1], [1.0])
    return [
        ("carry no y, and none was given; the target is 'kind'", lambda: quick().fit(GRAPHS)),
        ("y has 3 rows, but there are 60 to predict", lambda: quick().fit(GRAPHS, ["warm"] * 3)),
        ("y has 0 rows", lambda: quick().fit(GRAPHS, [])),
        ("'kind', row 1: 'hot' is none of the categories warm, cold", lambda: quick().fit(GRAPHS[:2], ["warm", "hot"])),
        ("'e', row 1: the value is infinite", lambda: quick(numbers).fit(GRAPHS[:2], [1.0, math.inf])),
        ("graph 1: y is infinite", lambda: quick(numbers).fit(carrying(torch.tensor([[1.0], [math.inf]]), GRAPHS[:2]))),
        ("no graph has a label of 'kind'", lambda: quick().fit(GRAPHS, codes * NAN)),
        ("no graph has a label of 'kind'", lambda: quick(likelihood_weight=1.0).fit(GRAPHS, codes * NAN)),
        ("no graph has a label of 'toxic', 'safe'", lambda: quick(BINARIES).fit(GRAPHS, torch.full((60, 2), NAN))),
        ("target 'safe' has no label at all", lambda: quick(BINARIES).fit(GRAPHS, torch.cat(two, 1))),
        ("target 'safe' has no label", lambda: quick(BINARIES, head="linear").fit(GRAPHS, torch.cat(two, 1))),
        (f"y, row {SIDES.argmin()}, target 'kind': code -1 is none", lambda: quick().fit(GRAPHS, codes - 1)),
        ("y, row 1, target 'kind': code 7", lambda: quick().fit(carrying(torch.tensor([[0], [7]]), GRAPHS[:2]))),
        ("y has 2 rows", lambda: quick().fit(gspn.pack(GRAPHS, SCHEMA)[[0, 0, 1]], ["warm", "cold"])),
        ("y has .* rows, but there are 60 to predict", lambda: quick().fit(GRAPHS, torch.cat(by_vertex))),
        ("carry one y per vertex, but", lambda: quick().fit(carrying(by_vertex))),
        ("carry one y per graph, but", lambda: quick(target_level="vertex").fit(carrying(CODES.split(1)))),
        ("carry one y per graph, but", lambda: quick(target_level="vertex").fit(unequal)),
        ("the list of graphs is empty", lambda: quick().fit([], [])),
        (r"shape \[60, 3\], but there is one target: kind", lambda: quick().fit(carrying(torch.zeros(60, 1, 3)))),
        ("no graph has a label", lambda: quick().fit(GRAPHS, CODES, validation=(HELD_OUT, [None] * 80))),
        ("y has 2 rows", lambda: quick().fit(GRAPHS, CODES, validation=(HELD_OUT, ["warm", "cold"]))),
        ("carry no y", lambda: quick().fit(GRAPHS, CODES, validation=HELD_OUT)),
        ("1e[+]30 is more than 1e[+]06 dev", lambda: quick(numbers).fit(GRAPHS, codes, validation=(HELD_OUT, far))),
        ("too few labels to score", lambda: quick(numbers, monitor="score").fit(GRAPHS, codes, validation=one)),
        ("fit cannot override pooling", lambda: quick().fit(GRAPHS, CODES, pooling="mean")),
        ("monitor must be one of", lambda: quick().fit(GRAPHS, CODES, monitor="accuracy")),
        ("likelihood_weight must be", lambda: quick().fit(GRAPHS, CODES, likelihood_weight=math.inf)),
    ]


@pytest.mark.parametrize(("message", "fit"), refused_fits(), ids=[str(i) for i in range(len(refused_fits()))])
def test_refused_fits(message: str, fit: Callable[[], Any]) -> None:
    with pytest.raises(GSPNError, match=message):
        fit()


def test_an_override_is_refused_like_the_argument() -> None:
    with pytest.raises(InputError, match="too few labels to score"):
        make(Continuous("e"), epochs=3).fit(GRAPHS, SIDES, validation=(GRAPHS[:1], [1.0]), monitor="score")


def test_a_refused_fit_leaves_the_model_as_it_was() -> None:
    model = quick(BINARIES).fit(GRAPHS, torch.stack([CODES, 1 - CODES], 1))
    before, history = copy.deepcopy(model), model.history_
    with pytest.raises(InputError, match="'safe' has no label"):
        model.fit(GRAPHS, torch.stack([CODES, CODES * NAN], 1))
    assert same(model, before)
    assert model.history_ is history


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "kind"}, "target must be a Categorical, Continuous, Binary or Count, or a Schema of several"),
        ({"target": None}, "target must be"),
        ({"target_level": "edge"}, "target_level must be one of 'graph', 'vertex', got 'edge'"),
        ({"pooling": "max"}, "pooling must be one of 'sum', 'mean', 'standardised', got 'max'"),
        ({"head": "deep"}, "head must be one of 'circuit', 'linear', got 'deep'"),
        ({"num_graph_states": 0}, "num_graph_states must be an integer of at least 1, got 0"),
        ({"num_graph_states": 2.5}, "num_graph_states must be an integer"),
        ({"likelihood_weight": -0.1}, "likelihood_weight must be a number at least 0"),
        ({"likelihood_weight": NAN}, "likelihood_weight must be a number"),
        ({"monitor": None}, "monitor must be one of 'loss', 'score'"),
        ({"head": "linear", "target": Continuous("e")}, "target 'e' is continuous: use head='circuit'"),
        ({"head": "linear", "target": Schema([KIND, Count("n")])}, "target 'n' is count: use head='circuit'"),
    ],
)
def test_refused_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(GSPNError, match=message):
        SupervisedGSPN(SCHEMA, **{"target": KIND} | arguments)


@pytest.mark.parametrize("ask", ["predict", "predict_proba", "predictive", "log_prob", "score", "embed"])
def test_questions_to_an_unfitted_model(ask: str) -> None:
    with pytest.raises(NotFittedError, match="this SupervisedGSPN is not fitted yet"):
        getattr(quick(), ask)(GRAPHS)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.tensor([2]), "y, row 0, target 'kind': code 2 is none of the 2 categories"),
        (torch.zeros(1, 3), r"y has shape \[60, 3\], but there is one target: kind"),
        (None, "carry one y per vertex, but one per graph is needed"),
    ],
)
def test_carried_labels_are_checked_where_they_are_used(y: Any, message: str) -> None:
    model = quick().fit(GRAPHS, CODES)
    graphs = carrying([torch.zeros(len(g.x)) if y is None else y for g in GRAPHS])
    for use in (model.collate, model.score, model.log_prob, model.fit):
        with pytest.raises(InputError, match=message):
            use(graphs)


def test_refused_questions() -> None:
    model = quick(Continuous("energy")).fit(GRAPHS, LABELS["energy"])
    refused: list[tuple[str, Callable[[], Any]]] = [
        ("y, row 1, target 'energy': 1e[+]30 is more than", lambda: model.log_prob(GRAPHS[:2], [100.0, 1e30])),
        ("too few labels to score", lambda: model.score(GRAPHS[:1], [100.0])),
        ("too few labels to score", lambda: model.score(GRAPHS, [None] * 60)),
        ("y has 1 rows", lambda: model.log_prob(GRAPHS, [1.0])),
        ("carry no y", lambda: model.log_prob(GRAPHS)),
        ("the list of graphs is empty", lambda: model.predict([])),
        ("x has shape", lambda: model.predict(Data(x=torch.zeros(3, 5)))),
        ("level must be a number between 0 and 1", lambda: as_mixture(model.predictive(GRAPHS)).interval(90)),
    ]
    for message, ask in refused:
        with pytest.raises(GSPNError, match=message):
            ask()
    assert math.isfinite(model.log_prob(GRAPHS[:1], [1e7])[0])
    assert model.log_prob(GRAPHS[:1], [None]).tolist() == [0.0]
