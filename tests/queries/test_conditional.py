"""Conditionals against the oracle, by enumeration and by quadrature, all in float64.

Sums of a few hundred rounded terms are right to about 1e-12; 1e-8 is asked for where something is integrated. The
trapezoidal rule is exact to rounding for smooth densities that vanish at both ends, once it resolves the sharpest one.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from oracle_cases import Case, draw_values, make_case
from seeded import generator
from small_distributions import as_mixture, as_table
from small_graphs import EVERY_KIND, draw_graphs
from small_models import TEMPLATES, random_model, template
from torch import Tensor
from torch_geometric.data import Data

from gspn import GSPN, Binary, Categorical, Count, GSPNError, Schema, SupervisedGSPN
from gspn.circuits.distributions import CategoricalDistribution
from gspn.testing import oracle

SIGNIFICANCE = 1e-4
"""Seeds are fixed, so a test of draws fails only if the code changes; then by chance once in ten thousand."""

over_templates = pytest.mark.parametrize("name", TEMPLATES)


def model_and_graph(name: str, seed: int = 1, missing: float = 0.3, **arguments: Any) -> tuple[GSPN, Data]:
    model = random_model(EVERY_KIND, seed, template=template(name, EVERY_KIND, 3, seed), num_edge_types=2, **arguments)
    return model, draw_graphs(1, seed=seed, sizes=(5, 5), missing=missing, edge_types=2)[0]


# ---- Against the oracle


def asked(case: Case, v: int, columns: Iterable[int]) -> float:
    """log P(what is known of these entries of v | all else), whether gaps are evidence or not."""
    hidden = {(v, column) for column in columns}
    values = {column: x for _, column in hidden if not math.isnan(x := float(case.graph.x[v, column]))}
    return oracle.answer(case.theirs, case.graph, v, values, hidden)


@pytest.mark.parametrize("seed", range(0, 240, 8))
def test_one_entry_and_all_entries_of_a_vertex_are_the_oracles(seed: int) -> None:
    case = make_case(seed)
    vertices, names = range(len(case.graph.x)), list(case.model.schema.names)
    for column, name in enumerate(names):
        ours = case.model.conditional(case.data, name).log_prob(case.data.x[:, column])
        theirs = [asked(case, v, [column]) for v in vertices]
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-9, atol=1e-9, err_msg=str(case.axes))
    ours = case.model.conditional(case.data, names).log_prob(case.data.x)
    theirs = [asked(case, v, range(len(names))) for v in vertices]
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-9, atol=1e-9, err_msg=str(case.axes))


@pytest.mark.parametrize("seed", [seed for seed in range(2, 240, 9) if len(make_case(seed).model.schema) > 1])
def test_a_joint_of_two_and_its_conditional_are_the_oracles(seed: int) -> None:
    """log P(a, b | rest) with values that are not the observed ones, and log P(a | b, rest) as their difference."""
    case = make_case(seed)
    other = draw_values(np.random.default_rng(1000 + seed), case.model.schema, len(case.graph.x), 0.0)
    names = list(case.model.schema.names)[:2]
    joint = case.model.conditional(case.data, names)
    ours = joint.log_prob(torch.from_numpy(other[:, :2]))
    of_second = joint.marginal(names[1]).log_prob(torch.from_numpy(other[:, 1]))
    given_second = joint.condition({names[1]: torch.from_numpy(other[:, 1])})
    for v in range(len(other)):
        answer = oracle.answers(case.theirs, case.graph, v, {(v, 0), (v, 1)})
        assert ours[v].item() == pytest.approx(answer({0: other[v, 0], 1: other[v, 1]}), rel=1e-9, abs=1e-9)
        assert of_second[v].item() == pytest.approx(answer({1: other[v, 1]}), rel=1e-9, abs=1e-9)
    ratio = ours - of_second
    for found_ratio in (
        given_second.log_prob({names[0]: torch.from_numpy(other[:, 0])}),
        given_second.marginal(names[0]).log_prob(torch.from_numpy(other[:, 0])),
    ):
        torch.testing.assert_close(found_ratio, ratio, rtol=1e-9, atol=1e-9)


# ---- What leaves the evidence, and what stays


def everything(distribution: Any) -> list[Tensor]:
    """What a univariate distribution says of itself."""
    if isinstance(distribution, CategoricalDistribution):
        return [distribution.probs, distribution.entropy]
    return [
        distribution.mean,
        distribution.variance,
        distribution.mode,
        distribution.entropy,
        distribution.interval(),
        distribution.log_prob(torch.tensor(2.0)),
    ]


@over_templates
@pytest.mark.parametrize("column", range(5))
def test_the_same_whether_the_entry_is_observed_missing_or_another(name: str, column: int) -> None:
    model, graph = model_and_graph(name, missing=0.0)
    attribute, v = EVERY_KIND.names[column], 2
    before = everything(model.conditional(graph, attribute, vertices=[v]))
    for value in (math.nan, 1.0, 0.0):
        other = graph.clone()
        other.x[v, column] = value
        for one, two in zip(before, everything(model.conditional(other, attribute, vertices=[v])), strict=True):
            torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


@over_templates
def test_other_vertices_entries_of_the_attribute_stay_in_the_evidence(name: str) -> None:
    model, graph = model_and_graph(name, missing=0.0)
    graph.x[0, [0, 2, 3, 4]] = math.nan  # or they might say all that the element has to say
    before = as_table(model.conditional(graph, "element")).probs
    other = graph.clone()
    other.x[0, 1] = (other.x[0, 1] + 1) % 3
    after = as_table(model.conditional(other, "element")).probs
    torch.testing.assert_close(after[0], before[0], rtol=1e-12, atol=1e-12)
    heard = [int(v) for u, v in graph.edge_index.T if u == 0 and v != 0]
    assert heard
    for v in heard:
        assert (after[v] - before[v]).abs().max() > 1e-9  # far above rounding


def test_two_attributes_leave_the_evidence_together() -> None:
    """The joint's marginal does not know the other attribute's own value; the univariate conditional does."""
    model, graph = model_and_graph("naive Bayes", missing=0.0)
    joint = model.conditional(graph, ["element", "charge"])
    alone = as_table(model.conditional(graph, "element")).probs
    assert (as_table(joint.marginal("element")).probs - alone).abs().max() > 1e-3
    hidden = graph.clone()
    hidden.x[1, 0] = math.nan
    without = as_table(model.conditional(hidden, "element", vertices=[1])).probs[0]
    torch.testing.assert_close(as_table(joint.marginal("element")).probs[1], without, rtol=1e-12, atol=1e-12)


# ---- Sums, ratios and integrals inside one object


@over_templates
def test_marginals_are_sums_and_conditionals_ratios_of_discrete_attributes(name: str) -> None:
    model, graph = model_and_graph(name)
    joint = model.conditional(graph, ["aromatic", "element"])
    table = torch.stack(
        [torch.stack([joint.log_prob({"aromatic": a, "element": e}).exp() for e in "CNO"], 1) for a in (False, True)], 1
    )
    torch.testing.assert_close(table.sum((1, 2)), torch.ones(5).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(as_table(joint.marginal("element")).probs, table.sum(1), rtol=0, atol=1e-12)
    torch.testing.assert_close(as_table(joint.marginal("aromatic")).probs, table.sum(2), rtol=0, atol=1e-12)
    given = as_table(joint.condition({"element": "N"}).marginal("aromatic")).probs
    torch.testing.assert_close(given, table[:, :, 1] / table[:, :, 1].sum(1, keepdim=True), rtol=0, atol=1e-12)
    torch.testing.assert_close(joint.log_prob({"element": "N"}).exp(), table[:, :, 1].sum(1), rtol=0, atol=1e-12)
    best = table.flatten(1).argmax(1)
    assert torch.equal(joint.mode, torch.stack([best // 3, best % 3], 1).double())


# ---- Draws


@over_templates
def test_joint_draws(name: str) -> None:
    """Cells of (element, aromatic) by chi-square; the charge in each cell by Kolmogorov–Smirnov."""
    model, graph = model_and_graph(name)
    joint = model.conditional(graph, ["charge", "element", "aromatic"], vertices=[0, 4])
    n = 10_000
    draws = joint.sample(n, generator())
    assert draws.shape == (n, 2, 3)
    assert torch.equal(draws, joint.sample(n, generator()))
    for row in range(2):
        one = joint[row]
        charge, cell = draws[:, row, 0].numpy(), (draws[:, row, 1] * 2 + draws[:, row, 2]).numpy().astype(int)
        cells = list(itertools.product("CNO", (False, True)))
        expected = [one.log_prob({"element": e, "aromatic": a}).exp().item() for e, a in cells]
        found = np.bincount(cell, minlength=6)
        assert scipy.stats.chisquare(found, n * np.array(expected) / sum(expected)).pvalue > SIGNIFICANCE
        for number, (e, a) in enumerate(cells):
            given = as_mixture(one.condition({"element": e, "aromatic": a}).marginal("charge"))
            drawn = charge[cell == number]
            if len(drawn):
                below = given[torch.zeros(len(drawn), dtype=torch.long)].cumulative(torch.from_numpy(drawn)).numpy()
                assert scipy.stats.kstest(below, "uniform").pvalue > SIGNIFICANCE


@over_templates
def test_draws_of_one_attribute(name: str) -> None:
    model, graph = model_and_graph(name)
    charge = as_mixture(model.conditional(graph, "charge", vertices=[2]))
    drawn = charge.sample(10_000, generator(1))[:, 0]
    below = charge[torch.zeros(len(drawn), dtype=torch.long)].cumulative(drawn).numpy()
    assert scipy.stats.kstest(below, "uniform").pvalue > SIGNIFICANCE


# ---- Vertices, sequences, memory


@over_templates
@pytest.mark.parametrize("asked", ["charge", ["element", "hydrogens"]])
def test_chosen_vertices_and_sequences(name: str, asked: Any) -> None:
    model, _ = model_and_graph(name)
    graphs = draw_graphs(4, seed=3, missing=0.3, edge_types=2)
    values = torch.tensor(1.0) if isinstance(asked, str) else {"element": "C", "hydrogens": 2}
    answers = model.conditional(graphs, asked)
    assert [len(answer) for answer in answers] == [graph.num_nodes for graph in graphs]
    for graph, answer in zip(graphs, answers, strict=True):
        alone = model.conditional(graph, asked)
        torch.testing.assert_close(alone.log_prob(values), answer.log_prob(values), rtol=1e-12, atol=1e-12)
        for vertices in ([3, 0, 3], torch.tensor([1]), []):
            some = model.conditional(graph, asked, vertices=vertices)
            rows = torch.as_tensor(vertices, dtype=torch.long)
            torch.testing.assert_close(some.log_prob(values), alone.log_prob(values)[rows], rtol=1e-12, atol=1e-12)


@over_templates
def test_small_pieces_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, graph = model_and_graph(name)
    names = ["charge", "element"]

    def answers() -> list[Tensor]:
        joint = model.conditional([graph, graph], names)[1]
        charge = joint.marginal("charge")
        return [
            joint.log_prob(graph.x[:, :2]),
            charge.mean,
            charge.mode,
            charge.entropy,
            as_table(joint.marginal("element")).probs,
        ]

    before = answers()
    for place in ("circuits.given", "circuits.mixture_shape", "queries.contract"):
        monkeypatch.setattr(f"gspn.{place}._NUMBERS_AT_ONCE", 1)
    monkeypatch.setattr("gspn.hierarchy.roots.COPIES_AT_ONCE", 2)
    for one, two in zip(before, answers(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


def test_few_vertices_of_a_large_graph_need_only_what_they_hear() -> None:
    """A ring of 2,000 vertices, three levels: each root hears five."""
    model = random_model(EVERY_KIND, 4)
    ring = torch.arange(2_000)
    x = draw_graphs(1, seed=4, sizes=(2_000, 2_000))[0].x
    graph = Data(x=x, edge_index=torch.stack([torch.cat([ring, ring.roll(1)]), torch.cat([ring.roll(1), ring])]))
    sizes: list[int] = []
    hook = model.hierarchy.register_forward_pre_hook(lambda _, given: sizes.append(given[0].num_vertices))
    some = model.conditional(graph, "charge", vertices=[7, 1_000])
    hook.remove()
    assert max(sizes) < 50
    torch.testing.assert_close(some.mean, model.conditional(graph, "charge").mean[[7, 1_000]], rtol=1e-12, atol=1e-12)


def test_float32_and_a_supervised_model() -> None:
    graphs = draw_graphs(6, seed=5)
    exact = random_model(EVERY_KIND, 5)
    rounded = GSPN(EVERY_KIND, num_layers=3, num_states=3).set_parameters(exact.get_parameters())
    for one, two in zip(exact.conditional(graphs, "charge"), rounded.conditional(graphs, "charge"), strict=True):
        torch.testing.assert_close(one.mean, two.mean, rtol=1e-4, atol=1e-4)
    supervised = SupervisedGSPN(EVERY_KIND, Binary("y"), num_layers=2, num_states=3).double()
    supervised.fit(graphs, [True, False] * 3, epochs=1, progress=False)
    assert as_table(supervised.conditional(graphs[0], "element")).probs.shape == (graphs[0].num_nodes, 3)
    assert not torch.isnan(supervised.impute(graphs)[3].x).any()


def test_an_answer_does_not_change_with_the_model() -> None:
    model, graph = model_and_graph("random")
    joint = model.conditional(graph, ["charge", "element"])
    before = joint.log_prob(graph.x[:, :2]), joint.marginal("charge").mean
    other = random_model(EVERY_KIND, 9, template=model.template, num_edge_types=2, spread=1.0)
    model.set_parameters(other.get_parameters())
    assert torch.equal(before[0], joint.log_prob(graph.x[:, :2]))
    assert torch.equal(before[1], joint.marginal("charge").mean)


# ---- Errors, and what a model says of itself


def test_errors_say_what_is_wrong() -> None:
    model, graph = model_and_graph("naive Bayes")
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        ("mass", {}, "no attribute 'mass' in the schema; known: .*charge"),
        (["charge", "mass"], {}, "no attribute 'mass'"),
        ([], {}, "one name or several different ones"),
        (["charge", "charge"], {}, "one name or several different ones"),
        (3, {}, "no attribute 3"),
        ("charge", {"vertices": [5]}, "vertex 5 does not exist: the graph has 5 vertices"),
        ("charge", {"vertices": [0.5]}, "vertices must be integers"),
    ]
    for attributes, arguments, message in wrong:
        with pytest.raises(GSPNError, match=message):
            model.conditional(graph, attributes, **arguments)
    with pytest.raises(GSPNError, match="not in a sequence of graphs"):
        model.conditional([graph], "charge", vertices=[0])  # type: ignore[call-overload]
    with pytest.raises(GSPNError, match="not fitted"):
        GSPN(EVERY_KIND).conditional(graph, "charge")
    joint = model.conditional(graph, ["charge", "element"])
    asked: list[tuple[Callable[[], Any], str]] = [
        (lambda: joint.marginal("mass"), "'mass' is not among the attributes of this distribution: charge, element"),
        (lambda: joint.condition({"charge": 1.0, "element": "C"}), "all of charge, element are given"),
        (lambda: joint.log_prob({"element": "Xe"}), "'element', row 0: 'Xe'"),
        (lambda: joint.log_prob(torch.zeros(5, 3)), r"shape \[5, 2\] for charge, element; got \[5, 3\]"),
        (lambda: joint.mode, r"'charge' is continuous; ask marginal\('charge'\).mode"),
        (lambda: joint.sample(-1), "n must be a number of draws"),
    ]
    for ask, message in asked:
        with pytest.raises(GSPNError, match=message):
            ask()


def test_no_joint_mode_among_too_many_combinations() -> None:
    schema = Schema([Categorical(name, range(30)) for name in "abc"])
    joint = random_model(schema, 1).conditional(Data(x=torch.zeros(2, 3)), ["a", "b", "c"])
    with pytest.raises(GSPNError, match="27000 combinations of a, b, c are too many"):
        _ = joint.mode
    assert joint.marginal(["a", "c"]).mode.shape == (2, 2)


def test_parts_of_a_joint() -> None:
    model, graph = model_and_graph("hand-made")
    joint = model.conditional(graph, ["charge", "element", "hydrogens"])
    assert "5 distributions of charge, element, hydrogens" in repr(joint)
    assert joint.names == ("charge", "element", "hydrogens")
    pair = joint.marginal(["hydrogens", "charge"])
    assert pair.names == ("hydrogens", "charge")
    torch.testing.assert_close(
        pair.log_prob({"hydrogens": 2, "charge": 1.0}), joint.log_prob({"hydrogens": 2, "charge": 1.0})
    )
    assert joint.sample(0).shape == (0, 5, 3)
    assert joint[:0].sample(2).shape == (2, 0, 3)
    assert len(joint[:0].marginal("charge")) == 0
    assert joint.log_prob({}).tolist() == [0.0] * 5
    assert len(joint[2]) == len(joint[-1]) == 1


def test_a_pseudo_trained_model_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    graphs = draw_graphs(4, seed=6)

    def said(model: GSPN) -> int:
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="gspn"):
            model.conditional(graphs[0], "charge")
            model.impute(graphs[0])
            model.log_prob_missing(graphs[0], graphs[0])
        return sum("fit it again with objective='masked'" in record.message for record in caplog.records)

    small: dict[str, Any] = {"num_layers": 2, "num_states": 2, "epochs": 1}
    pseudo = GSPN(EVERY_KIND, **small).fit(graphs, progress=False)
    assert said(pseudo) == 1
    assert said(pseudo) == 0
    assert said(GSPN(EVERY_KIND, objective="masked", **small).fit(graphs, progress=False)) == 0
    assert said(GSPN(EVERY_KIND, **small).fit(graphs, progress=False, objective="masked")) == 0
    assert said(GSPN(EVERY_KIND, **small | {"num_layers": 1}).fit(graphs, progress=False)) == 0  # no echo to hear
    assert said(random_model(EVERY_KIND)) == 0  # nobody knows how it was trained
    pseudo.log_likelihood(graphs, leave_one_out=True)


def test_counts_without_end_have_no_mode() -> None:
    model = random_model(Schema([Count("n")]), 1)
    parameters = model.get_parameters()
    parameters["leaves"]["n"]["rate"] = parameters["leaves"]["n"]["rate"] * 0 + torch.tensor([1.0, 2.0, 1e9])
    model.set_parameters(parameters)
    with pytest.raises(GSPNError, match="too many to go through one by one"):
        _ = model.conditional(Data(x=torch.zeros(1, 1)), "n").mode
