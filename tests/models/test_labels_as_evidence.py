"""Labels as evidence: exact against the oracle, deaf to the own label, of use, and never worse than frequencies."""

from __future__ import annotations

import itertools
import json
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from oracle_cases import draw_edges, draw_values
from torch import Tensor
from torch_geometric.data import Data

import gspn
from gspn import Binary, Categorical, Continuous, Count, Schema, SupervisedGSPN
from gspn.errors import InputError
from gspn.hierarchy.label_readout import KINDS, LabelNetwork, LabelReadout
from gspn.models import label_exams, label_learning, label_lessons
from gspn.targets import Target
from gspn.testing import oracle, oracle_labels, oracle_model

KIND, WARM = Categorical("kind", ["a", "b", "c"]), Binary("warm")
SIZE, HITS = Continuous("size"), Count("hits")
SEVERAL = Schema([KIND, WARM, SIZE, HITS])
ATTRIBUTES = Schema([Continuous("u"), Categorical("e", ["x", "y", "z"]), Count("n"), Continuous("w")])
EVIDENCE: dict[str, Any] = {"target_level": "vertex", "labels": "evidence", "num_layers": 1, "num_states": 2}


@pytest.fixture(autouse=True, scope="module")
def little_work() -> Iterator[None]:
    """Fewer held-out labels and finalists than usual; trees are for `test_label_trees.py`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_exams, "_JUDGES", 40)
        patch.setattr(label_learning, "_FINALISTS", 3)
        patch.setattr(label_lessons, "_LEAST_OF_TREES", 1_000)
        patch.setattr(label_lessons, "OF_MESSAGES", (20.0, 40.0))
        yield


def draw_labels(rng: np.random.Generator, targets: Schema, n: int, missing: float) -> NDArray[np.float64]:
    return draw_values(rng, targets, n, missing)


def random_model(rng: np.random.Generator, schema: Schema, targets: Target, **arguments: Any) -> SupervisedGSPN:
    """In float64, fitted as far as anyone can tell: all parameters and weights at random, also those of no use."""
    model = SupervisedGSPN(schema, targets, **EVIDENCE | {"hidden": 3} | arguments).double()
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(0.3 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    parameters = model.get_parameters()
    parameters["units"] = {name: torch.tensor([2.5, 3.0]) for name in parameters["units"]}
    own = parameters["readout"]
    own["context.center"] = torch.rand(own["context.center"].shape, generator=generator)
    own["context.scale"] = torch.rand(own["context.scale"].shape, generator=generator)
    own["context.usual"] = torch.rand(own["context.usual"].shape, generator=generator)
    own["context.spread"] = 1 + torch.rand(own["context.spread"].shape, generator=generator)
    own["weights"] = torch.softmax(torch.randn(own["weights"].shape, generator=generator, dtype=torch.float64), dim=1)
    return model.set_parameters(parameters)


def readout_of(model: SupervisedGSPN) -> LabelReadout:
    assert isinstance(model.readout, LabelReadout)
    return model.readout


def network_of(model: SupervisedGSPN) -> LabelNetwork:
    assert isinstance(model.supervised, LabelNetwork)
    return model.supervised


def as_graph(x: NDArray[Any], edges: list[tuple[int, int]], y: NDArray[Any] | None = None) -> Data:
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return Data(x=torch.from_numpy(x), edge_index=edge_index, y=None if y is None else torch.from_numpy(y))


# ---- Against the oracle


@pytest.mark.parametrize("kind", ["cyclic", "directed", "self-loops", "parallel", "components", "no edges"])
@pytest.mark.parametrize("targets", [Schema([KIND]), SEVERAL], ids=["one target", "several"])
@pytest.mark.parametrize("seed", range(3))
def test_what_labels_depend_on_is_the_oracles(targets: Schema, kind: str, seed: int) -> None:
    """Block by block, with gaps of either kind, hidden entries, unknown labels and every kind of graph.

    Walks leave out what is hardly ever reached; how much, `tests/hierarchy/test_reach.py` tells.
    """
    rng = np.random.default_rng(seed)
    n = 6
    edges = draw_edges(rng, kind, n)
    x, y = draw_values(rng, ATTRIBUTES, n, 0.3), draw_labels(rng, targets, n, 0.4)
    model = random_model(rng, ATTRIBUTES, targets, gaps=("ignorable", "informative")[seed % 2])
    hidden = rng.random(x.shape) < 0.2
    dataset = gspn.pack(as_graph(x, edges), ATTRIBUTES).with_targets(torch.from_numpy(y), "vertex")
    batch = dataset.batch(torch.arange(1)).hiding(torch.from_numpy(hidden))
    found = network_of(model).told(batch).detach().numpy()

    context = readout_of(model).context
    usual, spread = context.usual.numpy(), context.spread.numpy()
    sizes = [len(one.categories) if isinstance(one, Categorical) else 1 for one in targets]
    cuts = np.cumsum([0, *sizes])
    graph = oracle.Graph(x, [(u, v, 0) for u, v in edges])
    for v in range(n):
        raw = oracle_labels.blocks(
            oracle_model(model),
            graph,
            v,
            y,
            list(zip([one.kind for one in targets], sizes, strict=True)),
            [usual[a:b] for a, b in itertools.pairwise(cuts)],
            [spread[a:b] for a, b in itertools.pairwise(cuts)],
            [len(one.categories) if isinstance(one, Categorical) else 1 for one in ATTRIBUTES],
            frozenset((int(u), int(c)) for u, c in np.argwhere(hidden)),
        )
        for name, block in context.blocks.items():
            theirs = (np.array(raw[name]) - context.center.numpy()[block]) * context.scale.numpy()[block]
            rtol, atol = (0.1, 0.05) if name == "reached" else (1e-10, 1e-12)
            np.testing.assert_allclose(found[v, block], np.nan_to_num(theirs), rtol=rtol, atol=atol, err_msg=name)
        assert found[v, -1] == float(bool(np.any(raw["known"]) or np.any(raw["reached"])))
    expected = by_messages(readout_of(model), graph, found, y)
    assert len(expected) == 6
    for columns, values in expected:
        np.testing.assert_allclose(found[:, columns], values, rtol=1e-9, atol=1e-11)


def by_messages(
    readout: LabelReadout, graph: oracle.Graph, z: NDArray[np.float64], y: NDArray[np.float64]
) -> list[tuple[list[int], NDArray[np.float64]]]:
    """For every regression that looks through messages, its columns of z and what the oracle says of them."""
    context, found = readout.context, []
    own, present = (one.numpy() for one in context.relative(torch.from_numpy(y)))
    labels = np.concatenate([own, present[:, context.first_columns]], axis=1)
    for regression in readout:
        if (module := regression.messages) is None:
            continue
        given = {name: value.detach().numpy() for name, value in module.named_parameters()}
        nothing = np.zeros((len(given["near.bias"]), labels.shape[1]))
        weights = {
            "bias": given["near.bias"],
            "near": given["near.weight"],
            "own": given.get("own.weight", given["near.weight"]),
            "near labels": given.get("near_labels.weight", nothing),
            "own labels": given.get("own_labels.weight", nothing),
        }
        told = z[:, context.columns(*module.blocks)]
        values = [oracle_labels.messages(graph, v, told, labels, weights, module.convolves) for v in range(len(z))]
        found.append((regression.columns.tolist(), np.array(values)))
    return found


def by_hand(readout: LabelReadout, z: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """log P(known labels y | z) of one vertex: the mixture with its leaves written out."""
    total = []
    for m, regression in enumerate(readout):
        seen = z[regression.columns.numpy()]
        if regression.messages is None:
            seen = seen * float(regression.strength)
        if regression.trees is not None:  # none has been grown
            seen = np.zeros(regression.trees.width)
        if regression.hidden is not None:
            weight, bias = (p.detach().numpy() for p in (regression.hidden.weight, regression.hidden.bias))
            seen = np.concatenate([seen, np.maximum(weight @ seen + bias, 0.0)])
        log_p = math.log(float(readout.weights[int(z[-1]), m]))
        for family, label in zip(regression.families, y, strict=True):
            if np.isnan(label):
                continue
            natural = {name: value.detach() for name, value in family.export(family.natural()).items()}
            slope = natural["slope"][0, 0].numpy() if "slope" in natural else np.zeros((1, len(seen)))
            shift = slope @ seen
            match family.scope[0].kind:
                case "categorical":
                    logits = np.log(natural["probs"][0, 0].numpy()) + shift
                    log_p += logits[int(label)] - np.log(np.exp(logits).sum())
                case "binary":
                    p = float(natural["probs"][0, 0])
                    logit = np.log(p / (1 - p)) + shift[0]
                    log_p += -np.log1p(np.exp(-logit if label else logit))
                case "count":
                    rate = float(natural["rate"][0, 0]) * np.exp(shift[0])
                    log_p += label * np.log(rate) - rate - math.lgamma(label + 1)
                case "continuous":
                    mean = float(natural["mean"][0, 0].reshape(-1)[0]) + shift[0]
                    key = "covariance" if "covariance" in natural else "std"
                    spread = float(natural[key].reshape(-1)[0]) ** (0.5 if key == "covariance" else 1.0)
                    log_p += -0.5 * ((label - mean) / spread) ** 2 - np.log(spread) - 0.5 * np.log(2 * np.pi)
        total.append(log_p)
    return float(np.logaddexp.reduce(total))


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_are_those_of_the_mixture_written_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = draw_values(rng, ATTRIBUTES, 6, 0.3), draw_labels(rng, SEVERAL, 6, 0.3)
    model = random_model(rng, ATTRIBUTES, SEVERAL)
    graph = as_graph(x, draw_edges(rng, "parallel", 6), y)
    z = network_of(model).told(model.collate(graph)).detach().numpy()
    found = model.log_prob(graph)
    for v in range(6):
        expected = 0.0 if np.isnan(y[v]).all() else by_hand(readout_of(model), z[v], y[v])
        assert found[v].item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


# ---- The own label


@pytest.mark.parametrize("kind", ["cyclic", "self-loops", "parallel"])
def test_the_own_label_changes_nothing_bit_for_bit(kind: str) -> None:
    """On graphs with cycles, loops and parallel edges; the labels of others do change something."""
    rng = np.random.default_rng(4)
    n = 7
    x, y = draw_values(rng, ATTRIBUTES, n, 0.2), draw_labels(rng, Schema([KIND]), n, 0.0)
    edges = draw_edges(rng, kind, n)
    model = random_model(rng, ATTRIBUTES, Schema([KIND]))
    before = model.predictive(as_graph(x, edges, y))
    reached = 0
    for v in range(n):
        for other in ((y[v, 0] + 1) % 3, np.nan):
            changed = y.copy()
            changed[v] = other
            after = model.predictive(as_graph(x, edges, changed))
            own, theirs = (one["kind"].log_prob(torch.tensor([0.0] * n)) for one in (before, after))  # type: ignore
            assert torch.equal(own[v], theirs[v])
            reached += int((own != theirs).sum())
    assert reached > n


def test_labels_reach_whoever_receives_from_them() -> None:
    rng = np.random.default_rng(5)
    n = 6
    x, y = draw_values(rng, ATTRIBUTES, n, 0.0), draw_labels(rng, Schema([KIND]), n, 0.0)
    path = [(i, i + 1) for i in range(n - 1)]
    model = random_model(rng, ATTRIBUTES, KIND)
    changed = y.copy()
    changed[0] = (y[0] + 1) % 3
    one, other = (model.predict_proba(as_graph(x, path, labels)) for labels in (y, changed))
    assert [bool((one[v] != other[v]).any()) for v in range(n)] == [False, *[True] * (n - 1)]


# ---- Learning


def planted(seed: int, n: int = 120, mixing: float = 0.1) -> tuple[Data, NDArray[np.float64]]:
    """Three kinds, of which the attributes say little and the neighbours much; with gaps. Labels [n, 4]."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=n)
    ends = rng.integers(n, size=(2, 6 * n))
    kept = (kind[ends[0]] == kind[ends[1]]) | (rng.random(6 * n) < mixing)
    ends = ends[:, kept]
    x = np.stack([rng.normal(0.7 * kind, 1.0), rng.integers(3, size=n), rng.poisson(1 + kind), rng.normal(size=n)], 1)
    x[rng.random(x.shape) < 0.2] = np.nan
    y = np.stack([kind, kind == 1, rng.normal(10.0 * kind, 1.0), rng.poisson(1 + 4 * kind)], 1).astype(float)
    edges = torch.from_numpy(np.concatenate([ends, ends[::-1]], axis=1).copy())
    return Data(x=torch.from_numpy(x), edge_index=edges), y


def some(y: NDArray[np.float64], seed: int, share: float = 0.5) -> NDArray[np.float64]:
    return np.where(np.random.default_rng(seed).random((len(y), 1)) < share, y, np.nan)


def labelled(graph: Data, y: NDArray[np.float64]) -> Data:
    found = graph.clone()
    found.y = torch.from_numpy(y)
    return found


LEAST = {"kind": 0.8, "warm": 0.85, "size": 0.7, "hits": -math.inf}
"""Scores where neighbours' labels are known. Means of counts are exponentials of what is linear: one that is far off
costs more than all others, so of counts the probability alone is judged."""


@pytest.mark.parametrize("column", range(4), ids=SEVERAL.names)
def test_every_kind_of_label_is_learned_and_known_ones_help(column: int) -> None:
    graph, y = planted(0)
    target = SEVERAL[column]
    known = some(y, 1)[:, column]
    model = SupervisedGSPN(ATTRIBUTES, target, **EVIDENCE, hidden=0)
    model.fit(labelled(graph, known), progress=False)
    asked = torch.from_numpy(np.isnan(known))
    truth = torch.from_numpy(np.where(asked, y[:, column], np.nan))
    bare = Data(x=graph.x, edge_index=graph.edge_index)
    with_labels, without = (float(model.log_prob(g, truth)[asked].mean()) for g in (labelled(graph, known), bare))
    assert model.score(labelled(graph, known), truth) > LEAST[target.name]
    assert with_labels > without + 0.05
    assert without > -model.label_outcome_.of_frequencies - 0.05
    assert model.history_ == []


def test_several_targets_with_missing_labels() -> None:
    graph, y = planted(2)
    known = np.where(np.random.default_rng(3).random(y.shape) < 0.5, y, np.nan)
    model = SupervisedGSPN(ATTRIBUTES, SEVERAL, **EVIDENCE, hidden=0).fit(labelled(graph, known), progress=False)
    predicted = model.predict(labelled(graph, known))
    asked = np.isnan(known[:, 0])
    assert np.mean(predicted[asked, 0] == np.array(["a", "b", "c"])[y[asked, 0].astype(int)]) > 0.8
    assert model.log_prob(labelled(graph, known))[torch.from_numpy(np.isnan(known).all(1))].abs().max() == 0.0


def test_validation_graphs_judge_with_the_labels_that_they_carry() -> None:
    graph, y = planted(6)
    known = some(y, 7)[:, 0]
    asked = np.where(np.isnan(known), y[:, 0], np.nan)
    model = SupervisedGSPN(ATTRIBUTES, KIND, **EVIDENCE, hidden=0)
    held_out = (labelled(graph, known), torch.from_numpy(asked))
    model.fit(labelled(graph, known), validation=held_out, progress=False)
    found, rows = model.label_outcome_, torch.from_numpy(~np.isnan(asked))
    z, truth = network_of(model).told(model.collate(held_out[0]))[rows].detach(), held_out[1][rows][:, None]
    assert bool(found.informed.any())
    assert torch.equal(z[:, -1] > 0, found.informed)
    for name, strength in found.strengths.items():
        alone = list(readout_of(model))[list(KINDS).index(name)]
        loss = -float(alone.log_prob(z, truth).detach().mean())
        assert found.losses[name, strength] == pytest.approx(loss, rel=0.05)  # steps end early


def test_new_graphs_without_labels_are_judged_so() -> None:
    """Where all vertices of all graphs are labelled, what is predicted are other graphs, which have none."""
    graphs = [labelled(graph, y[:, 0]) for graph, y in (planted(seed, 20) for seed in range(8))]
    model = SupervisedGSPN(ATTRIBUTES, KIND, **EVIDENCE, hidden=0).fit(graphs, progress=False)
    assert not bool(model.label_outcome_.informed.any())
    other, _ = planted(9, 20)
    assert model.predict_proba(other).shape == (20, 3)
    assert len(model.predict([other, other])) == 2


def test_fifty_words_that_say_nothing_do_not_drown_the_neighbours() -> None:
    """A regression on labels alone is among those that are mixed."""
    rng = np.random.default_rng(14)
    n = 400
    topic = rng.integers(3, size=n)
    ends = rng.integers(n, size=(2, 5 * n))
    ends = ends[:, (topic[ends[0]] == topic[ends[1]]) | (rng.random(5 * n) < 0.08)]
    edges = torch.from_numpy(np.concatenate([ends, ends[::-1]], axis=1).copy())
    words = Data(x=torch.from_numpy(rng.integers(2, size=(n, 50)).astype(float)), edge_index=edges)
    known = np.where(rng.random(n) < 0.5, topic, np.nan)
    model = SupervisedGSPN(Schema([Binary(f"word {i}") for i in range(50)]), KIND, **EVIDENCE, hidden=0)
    predicted = model.fit(labelled(words, known), progress=False).predict_proba(labelled(words, known)).argmax(1)
    assert (predicted == topic)[np.isnan(known)].mean() > 0.86


def test_what_says_nothing_is_no_worse_than_frequencies_and_said_so(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(11)
    n = 200
    x = draw_values(rng, ATTRIBUTES, n, 0.2)
    y = rng.choice(3, p=[0.7, 0.2, 0.1], size=n).astype(float)
    ends = rng.integers(n, size=(2, 400))
    graph = Data(x=torch.from_numpy(x), edge_index=torch.from_numpy(ends))
    known = np.where(rng.random(n) < 0.5, y, np.nan)
    with caplog.at_level(logging.WARNING, logger="gspn"):
        model = SupervisedGSPN(ATTRIBUTES, KIND, **EVIDENCE, hidden=0).fit(labelled(graph, known), progress=False)
    asked = np.isnan(known)
    loss = -float(np.log(model.predict_proba(labelled(graph, known))[asked, y[asked].astype(int)]).mean())
    share = np.bincount(known[~asked].astype(int), minlength=3) / (~asked).sum()
    assert loss < -float(np.log(share[y[asked].astype(int)]).mean()) + 0.03
    assert model.label_outcome_.better or "no better on held-out labels" in caplog.text


def test_balanced_classes_find_more_of_the_rare_one() -> None:
    graph, y = planted(12, 300, mixing=1.0)
    rare = (y[:, 3] > 11).astype(float)
    known = np.where(np.random.default_rng(1).random(300) < 0.6, rare, np.nan)
    found = []
    for weight in (None, "balanced"):
        model = SupervisedGSPN(ATTRIBUTES, WARM, **EVIDENCE, hidden=0, class_weight=weight)
        found.append(model.fit(labelled(graph, known), progress=False).predict_proba(graph)[:, 1].mean())
    assert found[1] > found[0] + 0.1


def test_learned_jointly_with_the_attributes() -> None:
    graph, y = planted(13, 60)
    known = labelled(graph, some(y, 2)[:, 0])
    arguments = EVIDENCE | {"num_layers": 2, "likelihood_weight": 0.1, "epochs": 3, "hidden": 0}
    model = SupervisedGSPN(ATTRIBUTES, KIND, **arguments).fit(known, validation=known, progress=False)
    assert len(model.history_) == 3
    assert np.isfinite(model.history_[-1]["validation"])
    assert model.history_[-1]["train"] != model.history_[0]["train"]
    still = SupervisedGSPN(ATTRIBUTES, KIND, **arguments | {"likelihood_weight": 0.0}).fit(known, progress=False)
    assert not torch.equal(model.hierarchy.raw_prior, still.hierarchy.raw_prior)


# ---- Everything else


@pytest.fixture(scope="module")
def fitted() -> tuple[SupervisedGSPN, Data]:
    graph, y = planted(20, 60)
    known = labelled(graph, some(y, 3)[:, 0])
    return SupervisedGSPN(ATTRIBUTES, KIND, **EVIDENCE, hidden=4).fit(known, progress=False), known


def test_saved_and_loaded_it_answers_the_same(fitted: tuple[SupervisedGSPN, Data], tmp_path: Path) -> None:
    model, graph = fitted
    model.save(tmp_path)
    again = gspn.load(tmp_path, SupervisedGSPN)
    assert again.labels == "evidence"
    np.testing.assert_array_equal(again.predict_proba(graph), model.predict_proba(graph))


def test_a_seed_fixes_everything(fitted: tuple[SupervisedGSPN, Data]) -> None:
    model, graph = fitted
    again = SupervisedGSPN(ATTRIBUTES, KIND, **EVIDENCE, hidden=4).fit(graph, progress=False)
    np.testing.assert_array_equal(again.predict_proba(graph), model.predict_proba(graph))


def test_probabilities_sum_to_one_and_unused_regressions_have_no_weight(fitted: tuple[SupervisedGSPN, Data]) -> None:
    model, graph = fitted
    np.testing.assert_allclose(model.predict_proba(graph).sum(1), 1.0, atol=1e-6)
    weights: Tensor = readout_of(model).weights
    assert weights.shape == (2, len(KINDS))
    assert bool((weights >= 0).all())
    np.testing.assert_allclose(weights.sum(1).numpy(), 1.0, atol=1e-6)


def test_labels_say_nothing_of_attributes(fitted: tuple[SupervisedGSPN, Data]) -> None:
    """An own attribute is asked for as if nobody had a label."""
    model, graph = fitted
    bare = Data(x=graph.x, edge_index=graph.edge_index)
    one, other = (model.conditional(g, "u").mean for g in (graph, bare))
    assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target_level": "graph"}, "target_level='vertex'"),
        ({"head": "linear"}, "head"),
        ({"labels": "both"}, "labels must be one of"),
        ({"hidden": -1}, "hidden"),
        ({"class_weight": "rare"}, "class_weight"),
        ({"labels": "targets", "class_weight": "balanced"}, "class_weight"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SupervisedGSPN(ATTRIBUTES, KIND, **EVIDENCE | arguments)


def test_classes_of_numbers_have_no_weights() -> None:
    with pytest.raises(InputError, match="class_weight"):
        SupervisedGSPN(ATTRIBUTES, SIZE, **EVIDENCE, class_weight="balanced")


def test_settings_of_models_without_it_are_saved_as_before(tmp_path: Path) -> None:
    SupervisedGSPN(ATTRIBUTES, KIND, num_layers=1, num_states=2).save(tmp_path)
    assert '"labels"' not in (tmp_path / "model.json").read_text()


# ---- What labels are where nobody says


def test_labels_of_vertices_are_evidence_unless_one_says_otherwise() -> None:
    assert SupervisedGSPN(ATTRIBUTES, KIND, target_level="vertex").goal.kind == "labels"
    assert SupervisedGSPN(ATTRIBUTES, KIND, target_level="vertex", labels="targets").goal.kind == "targets"
    assert SupervisedGSPN(ATTRIBUTES, KIND).goal.kind == "targets"
    model: Any = SupervisedGSPN(ATTRIBUTES, KIND, target_level="vertex")
    assert model.get_params()["labels"] is None
    assert model.set_params(labels="targets").goal.kind == "targets"


@pytest.mark.parametrize("argument", [{"head": "linear"}, {"num_graph_states": 16}, {"pooling": "mean"}])
def test_what_only_the_readout_has_is_not_ignored(argument: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(argument))}=.* is for labels='targets'"):
        SupervisedGSPN(ATTRIBUTES, KIND, target_level="vertex", labels="evidence", **argument)
    for labels in (None, "targets"):  # who sets it means targets
        model: Any = SupervisedGSPN(ATTRIBUTES, KIND, target_level="vertex", labels=labels, **argument)
        assert model.goal.kind == "targets"


@pytest.mark.parametrize("level", ["graph", "vertex"])
@pytest.mark.parametrize("labels", [None, "targets"])
def test_files_keep_what_labels_are(level: str, labels: str | None, tmp_path: Path) -> None:
    """Older files say nothing of it, and mean targets."""
    model: Any = SupervisedGSPN(ATTRIBUTES, KIND, num_layers=1, num_states=2, target_level=level, labels=labels)
    model.save(tmp_path)
    again = gspn.load(tmp_path, SupervisedGSPN)
    assert again.goal.kind == model.goal.kind
    saved = json.loads((tmp_path / "model.json").read_text())["settings"]
    assert ("labels" in saved) == (level == "vertex" and labels is None)
