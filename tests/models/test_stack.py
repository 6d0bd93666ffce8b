"""Several models as one, against pencil and paper: what a stack must say follows from what its models say."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from small_graphs import EVERY_KIND, draw_graph, draw_graphs
from small_models import hand_made, random_model
from torch import Tensor
from torch_geometric.data import Batch, Data

from gspn import GSPN, Binary, Categorical, Continuous, Count, GSPNError, Impute, Schema, Stack, SupervisedGSPN
from gspn.circuits.distributions import CategoricalDistribution, Distribution, MixtureDistribution
from gspn.errors import InputError, NotFittedError

WEIGHTS = (0.2, 0.5, 0.3)
NAMES = EVERY_KIND.names


def three(edge_types: bool = False) -> list[GSPN]:
    """Models that differ in all that they may differ in."""
    return [
        random_model(EVERY_KIND, 1, num_edge_types=3 if edge_types else 1, guard=0.01),
        random_model(EVERY_KIND, 2, num_layers=2, template=hand_made(EVERY_KIND, 3)),
        random_model(EVERY_KIND, 3, num_layers=1, num_states=5, num_edge_types=2 if edge_types else 1),
    ]


MODELS = three()
STACK = Stack(MODELS, WEIGHTS)
GRAPH = draw_graph(np.random.default_rng(0), 7, missing=0.3)
GRAPHS = [*draw_graphs(2, seed=5, missing=0.3), GRAPH]


def agree(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9, equal_nan=True)


def mixed(log_probs: list[Tensor], weights: Sequence[float] = WEIGHTS) -> Tensor:
    return averaged([one.exp() for one in log_probs], weights).log()


def averaged(values: list[Tensor], weights: Sequence[float] = WEIGHTS) -> Tensor:
    return torch.stack([weight * one for weight, one in zip(weights, values, strict=True)]).sum(0)


# ---- Questions


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_likelihoods_are_mixed_vertex_by_vertex(leave_one_out: bool) -> None:
    found = STACK.log_likelihood(GRAPH, leave_one_out)
    expected = mixed([model.log_likelihood(GRAPH, leave_one_out) for model in MODELS])
    agree(found, expected)
    agree(STACK.log_likelihood(GRAPH, leave_one_out, vertices=[3, 1]), expected[[3, 1]])
    of_all = STACK.log_likelihood(GRAPHS, leave_one_out)
    agree(of_all[2], found)
    # Scores are made of these.
    observed = (~GRAPH.x.isnan()).sum(1)
    agree(STACK.score_vertices(GRAPH, leave_one_out), expected / observed)
    agree(STACK.score_graphs(GRAPH, leave_one_out), (expected.sum() / observed.sum()).item())
    agree(STACK.score_graphs(GRAPHS, leave_one_out)[2].item(), STACK.score_graphs(GRAPH, leave_one_out))


def test_scores_of_entries_are_mixed_entry_by_entry() -> None:
    found = STACK.score_entries(GRAPH)
    agree(found, mixed([model.score_entries(GRAPH) for model in MODELS]))
    assert torch.equal(found.isnan(), GRAPH.x.isnan())


@pytest.mark.parametrize("name", NAMES)
def test_conditionals_are_mixtures(name: str) -> None:
    ours, theirs = STACK.conditional(GRAPH, name), [model.conditional(GRAPH, name) for model in MODELS]
    values = GRAPH.x[:, EVERY_KIND.index(name)].nan_to_num(1.0)
    agree(ours.log_prob(values), mixed([one.log_prob(values) for one in theirs]))
    if isinstance(ours, CategoricalDistribution):
        agree(ours.probs, averaged([_table(one).probs for one in theirs]))
        agree(ours.mode, ours.probs.argmax(1))
        return
    agree(ours.mean, averaged([one.mean for one in theirs]))
    spread = averaged([one.variance + (one.mean - ours.mean).square() for one in theirs])
    agree(ours.variance, spread)
    agree(ours.cumulative(values), averaged([_mixture(one).cumulative(values) for one in theirs]))
    for end, share in zip(ours.interval(0.9).T, (0.05, 0.95), strict=True):
        below = averaged([_mixture(one).cumulative(end) for one in theirs])
        assert (below >= share - 1e-9).all()
        if ours.attribute.kind == "continuous":
            agree(below, torch.full_like(below, share))


def _table(found: Distribution) -> CategoricalDistribution:
    assert isinstance(found, CategoricalDistribution)
    return found


def _mixture(found: Distribution) -> MixtureDistribution:
    assert isinstance(found, MixtureDistribution)
    return found


def test_joints_are_mixtures_and_condition_by_bayes_rule() -> None:
    asked = ["charge", "element", "hydrogens"]
    ours, theirs = STACK.conditional(GRAPH, asked), [model.conditional(GRAPH, asked) for model in MODELS]
    values = {"charge": 0.5, "element": "N", "hydrogens": 2}
    agree(ours.log_prob(values), mixed([one.log_prob(values) for one in theirs]))
    rest = ours.condition({"element": "N"})
    agree(
        ours.marginal("element").log_prob("N") + rest.log_prob({"charge": 0.5, "hydrogens": 2}), ours.log_prob(values)
    )


def test_missing_entries_are_mixed() -> None:
    truth = draw_graph(np.random.default_rng(9), 7, missing=0.0).x
    found = STACK.log_prob_missing(GRAPH, truth)
    agree(found, mixed([model.log_prob_missing(GRAPH, truth) for model in MODELS]))
    assert (found[~GRAPH.x.isnan().any(1)] == 0).all()
    agree(STACK.log_prob_missing(GRAPHS[::-1], [truth, GRAPHS[1].x, GRAPHS[0].x])[0], found)
    gaps = GRAPH.x.isnan()
    for how in ("mean", "mode"):
        x = STACK.impute(GRAPH, how).x
        assert torch.equal(x[~gaps], GRAPH.x[~gaps])
        for column, attribute in enumerate(EVERY_KIND):
            rows = gaps[:, column]
            own = STACK.conditional(GRAPH, attribute.name)
            by_mean = how == "mean" and attribute.kind == "continuous"
            agree(x[rows, column], (own.mean if by_mean else own.mode).double()[rows])
    means = averaged([model.impute(GRAPH).x for model in MODELS])
    agree(STACK.impute(GRAPH).x[gaps[:, 0], 0], means[gaps[:, 0], 0])


def test_draws_are_of_the_mixture() -> None:
    """Joint frequencies of two discrete attributes where both are missing; of chains, where no vertex hears another."""
    schema = Schema([Categorical("a", ["x", "y", "z"]), Binary("b")])
    models = [random_model(schema, seed, num_layers=levels) for seed, levels in enumerate((1, 3))]
    stack, rows, n = Stack(models, [0.35, 0.65]), 4, 4000
    graph = Data(x=torch.full((rows, 2), torch.nan), edge_index=torch.tensor([[0, 1], [1, 0]]))
    alone = Data(x=graph.x, edge_index=torch.zeros(2, 0, dtype=torch.long))
    drawn = stack.sample_missing(graph, n, torch.Generator().manual_seed(0))
    ends = stack.pseudo_gibbs(alone, n, sweeps=1, generator=torch.Generator().manual_seed(1))
    for asked, draws in ((graph, drawn), (alone, ends)):
        codes = (2 * draws[..., 0] + draws[..., 1]).long()
        joint = stack.conditional(asked, ["a", "b"])
        for code in range(6):
            expected = joint.log_prob(torch.tensor([code // 2, code % 2]).expand(rows, 2)).exp()
            found = (codes == code).double().mean(0)
            assert ((found - expected).abs() < 5 * (expected * (1 - expected) / n).sqrt() + 1e-6).all()
    # Given what a chain does not draw.
    kept = stack.pseudo_gibbs(GRAPH_OF_TWO, 2, sweeps=1, entries="missing")
    assert torch.equal(kept[:, 0, 0], torch.ones(2, dtype=torch.float64))


GRAPH_OF_TWO = Data(x=torch.tensor([[1.0, torch.nan], [torch.nan, 0.0]]), edge_index=torch.tensor([[0], [1]]))


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_changes_are_those_of_mixed_likelihoods(leave_one_out: bool) -> None:
    vertex = int((~GRAPH.x[:, 1].isnan()).nonzero()[0])  # so that both sides score the same entries
    answer = STACK.what_if(GRAPH, {vertex: {"element": "O"}}, remove_edges=[(0, 1)], leave_one_out=leave_one_out)
    changed = GRAPH.clone()
    changed.x[vertex, 1] = 2.0
    edges = GRAPH.edge_index
    dropped = ((edges[0] == 0) & (edges[1] == 1)).nonzero()[0], ((edges[0] == 1) & (edges[1] == 0)).nonzero()[0]
    left = torch.ones(edges.shape[1], dtype=torch.bool)
    left[torch.cat(dropped)] = False
    changed.edge_index = edges[:, left]
    agree(answer.before, STACK.log_likelihood(GRAPH, leave_one_out))
    agree(answer.after, STACK.log_likelihood(changed, leave_one_out))
    every = STACK.what_if_all(GRAPH, "element", leave_one_out=leave_one_out)
    one = STACK.what_if(GRAPH, {4: {"element": "N"}}, leave_one_out=leave_one_out)
    agree(every[4, 1], one.total)
    agree(STACK.what_if_all(GRAPHS, "aromatic", leave_one_out=leave_one_out)[2].shape, torch.Size([7, 2]))
    agree(
        STACK.what_if_all(GRAPH, "charge", [4], leave_one_out, [1.5])[0, 0],
        STACK.what_if(GRAPH, {4: {"charge": 1.5}}, leave_one_out=leave_one_out).total,
    )


def test_ranks_are_among_scores_that_were_kept() -> None:
    stack = Stack(MODELS, WEIGHTS)
    with pytest.raises(InputError, match="no scores of vertices to compare with; call keep_scores"):
        stack.unusualness_of_vertices(GRAPH)
    many = draw_graphs(30, seed=8)
    stack.keep_scores(many)
    kept = torch.cat(stack.score_vertices(many))
    own = stack.score_vertices(GRAPH)
    agree(
        stack.unusualness_of_vertices(GRAPH),
        (kept[~kept.isnan()] > own[:, None]).double().mean(1).masked_fill(own.isnan(), torch.nan),
    )
    of_graphs = stack.score_graphs(many)
    agree(stack.unusualness_of_graphs(GRAPH), (of_graphs > stack.score_graphs(GRAPH)).double().mean().item())


# ---- One model, many models, any order


def asked(model: GSPN | Stack, graph: Data, graphs: list[Data]) -> dict[str, Tensor]:
    """Every question, with draws."""
    kept = copy.copy(model) if isinstance(model, Stack) else copy.deepcopy(model)
    joint = model.conditional(graph, ["charge", "element"])
    charge, element, count = (model.conditional(graph, name) for name in ("charge", "element", "hydrogens"))
    charge = _mixture(charge)
    generator = torch.Generator().manual_seed(0)
    return {
        "log_likelihood": model.log_likelihood(graph),
        "leave_one_out": torch.cat(model.log_likelihood(graphs, leave_one_out=True)),
        "charge": torch.stack([charge.mean, charge.variance, charge.mode, charge.entropy, charge.quantile(0.3)]),
        "element": torch.cat([_table(element).probs, element.sample(3, generator).T], dim=1),
        "hydrogens": torch.stack([count.mean, count.mode.double(), count.log_prob(2)]),
        "joint": joint.condition({"element": "C"}).sample(3, generator),
        "log_prob_missing": model.log_prob_missing(graph, torch.ones_like(graph.x)),
        "filled": torch.stack([model.impute(graph, how, generator).x for how in ("mean", "mode", "sample")]),
        "sample_missing": model.sample_missing(graph, 3, generator),
        "pseudo_gibbs": model.pseudo_gibbs(graph, 2, 2, generator=generator),
        "score_entries": model.score_entries(graph),
        "score_vertices": model.score_vertices(graph),
        "score_graphs": model.score_graphs(graphs),
        "ranks": kept.keep_scores(graphs).unusualness_of_vertices(graph),
        "what_if": model.what_if(graph, {1: {"element": "O"}}).change,
        "what_if_all": model.what_if_all(graph, "element", leave_one_out=True),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("number", range(3))
def test_one_model_is_the_model_itself(number: int, dtype: torch.dtype) -> None:
    """Bit for bit, draws included."""
    model = copy.deepcopy(MODELS[number]).to(dtype)
    ours, theirs = (asked(one, GRAPH, GRAPHS) for one in (Stack([model]), model))
    for name, expected in theirs.items():
        assert ours[name].dtype == expected.dtype, name
        assert torch.equal(ours[name].nan_to_num(7.0), expected.nan_to_num(7.0)), name


DRAWN = ("joint", "filled", "sample_missing", "pseudo_gibbs")


def test_the_order_of_models_does_not_matter() -> None:
    order = [2, 0, 1]
    other = Stack([MODELS[i] for i in order], [WEIGHTS[i] for i in order])
    ours, theirs = asked(STACK, GRAPH, GRAPHS), asked(other, GRAPH, GRAPHS)
    for name, expected in ours.items():
        if name == "element":
            agree(theirs[name][:, :3], expected[:, :3])
        elif name == "charge":  # a mode is found by climbing, to 1e-6
            torch.testing.assert_close(theirs[name], expected, rtol=1e-6, atol=1e-6)
        elif name not in DRAWN:
            agree(theirs[name], expected)


def test_equal_models_and_weights_of_zero() -> None:
    (first, second, _), expected = MODELS, asked(MODELS[0], GRAPH, GRAPHS)
    for stack in (Stack([first, first, first]), Stack([second, first], [0, 1])):
        found = asked(stack, GRAPH, GRAPHS)
        for name in expected:
            if name not in (*DRAWN, "element"):
                torch.testing.assert_close(found[name], expected[name], rtol=1e-6, atol=1e-6, equal_nan=True)
    assert Stack(MODELS).weights == (1 / 3, 1 / 3, 1 / 3)


def test_numbers_are_the_widest_and_reach_the_longest() -> None:
    mixed_types = Stack([copy.deepcopy(MODELS[0]).float(), MODELS[1]])
    assert mixed_types.log_likelihood(GRAPH).dtype == torch.float64
    assert Stack([copy.deepcopy(model).float() for model in MODELS]).log_likelihood(GRAPH).dtype == torch.float32
    answering = STACK.answering
    assert (answering.reach, answering.longest_closed_walk) == (2, 2)
    assert Stack(MODELS[1:]).answering.longest_closed_walk == 1
    assert answering.numbers_per_vertex == sum(model.answering.numbers_per_vertex for model in MODELS)
    assert not answering.reads_out_degree


# ---- Models that differ


def test_edge_types_are_told_apart_by_those_that_can() -> None:
    models, graph = three(edge_types=True), draw_graph(np.random.default_rng(4), 7, missing=0.2, edge_types=3)
    stack, bare = Stack(models, WEIGHTS), graph.clone()
    del bare.edge_type
    # The model with one level never hears an edge: it takes types that it would refuse, and graphs without.
    single = Data(x=graph.x, edge_index=torch.zeros(2, 0, dtype=torch.long))
    theirs = [models[0].log_likelihood(graph), models[1].log_likelihood(bare), models[2].log_likelihood(single)]
    agree(stack.log_likelihood(graph), mixed(theirs))
    with pytest.raises(InputError, match="graph 0 has no edge_type, but the model tells 3 edge types apart"):
        stack.log_likelihood(bare)
    graph.edge_type[5] = 3
    with pytest.raises(InputError, match="edge 5: edge type 3 is out of range, the model has num_edge_types=3"):
        stack.log_likelihood(graph)
    for one in (graph, bare):  # nobody tells types apart who hears edges
        agree(Stack(models[1:]).log_likelihood(one), mixed([theirs[1], theirs[2]], (0.5, 0.5)))
    # New edges need a type where one tells them apart.
    graph.edge_type[5] = 2
    with pytest.raises(InputError, match="the model tells 3 edge types apart, so the edge 0 → 3 needs one"):
        stack.what_if(graph, add_edges=[(0, 3)])
    stack.what_if(graph, add_edges=[(0, 3, 1)])
    Stack(models[1:]).what_if(bare, add_edges=[(0, 3)])


def test_the_strictest_model_decides_which_types_there_may_be() -> None:
    models = [random_model(EVERY_KIND, seed, num_edge_types=types) for seed, types in enumerate((4, 2, 1))]
    graph = draw_graph(np.random.default_rng(4), 5, edge_types=2)
    Stack(models).log_likelihood(graph)
    graph.edge_type[0] = 2
    with pytest.raises(InputError, match="edge type 2 is out of range, the model has num_edge_types=2"):
        Stack(models).log_likelihood(graph)


def test_contexts_and_gaps_of_any_kind() -> None:
    schema = Schema([Continuous("x"), Continuous("y"), Count("n")])
    models = [
        random_model(schema, 1, num_layers=1, covariance="full"),
        random_model(schema, 2, num_layers=2, context="neighbours"),
        random_model(schema, 3, num_layers=2, context="two_hops", covariance="tied", context_variance=0.5, guard=0.01),
    ]
    rng = np.random.default_rng(1)
    x = torch.tensor(np.stack([rng.normal(size=6), rng.normal(size=6), rng.poisson(2.0, 6)], 1))
    x[0, 0] = x[3, 2] = x[5, :2] = math.nan
    graph = Data(x=x, edge_index=torch.tensor([[0, 1, 2, 3, 1, 0], [1, 2, 3, 0, 0, 4]]))  # vertex 5 is alone
    stack = Stack(models, WEIGHTS)
    for leave_one_out in (False, True):
        agree(
            stack.log_likelihood(graph, leave_one_out), mixed([m.log_likelihood(graph, leave_one_out) for m in models])
        )
    truth = torch.ones_like(x)
    agree(stack.log_prob_missing(graph, truth), mixed([m.log_prob_missing(graph, truth) for m in models]))
    agree(stack.conditional(graph, "x").mean, averaged([m.conditional(graph, "x").mean for m in models]))
    assert stack.answering.reach == 2
    total = stack.what_if(graph, {2: {"x": 0.5}}, leave_one_out=True).total
    agree(stack.what_if_all(graph, "x", [2], True, [0.5])[0, 0], total)


def test_a_supervised_model_can_be_a_member() -> None:
    graphs = draw_graphs(6, seed=0)
    supervised = SupervisedGSPN(EVERY_KIND, Binary("y"), num_layers=2, num_states=2, epochs=1)
    supervised.double().fit(graphs, [True, False] * 3, progress=False)
    stack = Stack([supervised, MODELS[1]])
    agree(
        stack.log_likelihood(GRAPH),
        mixed([supervised.log_likelihood(GRAPH), MODELS[1].log_likelihood(GRAPH)], (0.5, 0.5)),
    )


# ---- Transforms


def test_impute_takes_a_stack() -> None:
    expected = STACK.impute(GRAPHS)
    for found, graph in zip(Impute(STACK)([graph.clone() for graph in GRAPHS]), expected, strict=True):
        assert torch.equal(found.x, graph.x)
    together = Impute(STACK)(Batch.from_data_list(GRAPHS))
    agree(together.x, torch.cat([graph.x for graph in expected]))
    assert repr(Impute(STACK, "mode")) == "Impute(Stack, how='mode')"


# ---- What is told and refused


def test_members_tell_once_what_they_were_not_trained_for(caplog: pytest.LogCaptureFixture) -> None:
    graphs = draw_graphs(4, seed=0)
    models = [
        GSPN(EVERY_KIND, 2, 2, epochs=1, objective=kind).fit(graphs, progress=False) for kind in ("pseudo", "masked")
    ]
    stack = Stack(models)
    with caplog.at_level(logging.WARNING, logger="gspn"):
        stack.impute(graphs[0])
        stack.conditional(graphs[0], "element")
    assert [record.message for record in caplog.records if "objective='pseudo'" in record.message] == [
        "this model was trained with objective='pseudo', the paper's, in which a vertex sees its own value through its "
        "neighbours: good for embeddings; for questions about hidden entries, fit it again with objective='masked'"
    ]


def other(*attributes: Any) -> GSPN:
    return random_model(Schema(attributes), num_layers=1)


TWO = other(Continuous("x"), Binary("b"))


@pytest.mark.parametrize(
    ("models", "weights", "message"),
    [
        ([], None, "at least one model"),
        (MODELS[0], None, "models must be a list of fitted models, got GSPN"),
        ("ab", None, "model 0 must be a GSPN, got 'a'"),
        ([MODELS[0], STACK], None, "model 1 must be a GSPN, got Stack"),
        (MODELS, [0.5, 0.5], "there are 3 models, but 2 weights"),
        (MODELS, [0.5, 0.5, 0.5], r"weights must sum to 1, got \[0.5, 0.5, 0.5\], together 1.5"),
        (MODELS, [1.2, -0.2, 0.0], "the weight of model 1 must be a number of at least 0, got -0.2"),
        (MODELS, [math.nan, 0.5, 0.5], "the weight of model 0 must be a number"),
        (MODELS, torch.tensor([0.5, 0.5, math.inf]), "the weight of model 2 must be a number"),
        (MODELS, ["a", 0.5, 0.5], "the weight of model 0 must be a number of at least 0, got 'a'"),
        (MODELS, 1.0, "weights must be one number per model, got 1.0"),
        (MODELS, "abc", "weights must be one number per model"),
        (
            [TWO, other(Continuous("x"), Binary("c"))],
            None,
            r"of model 1 is not .*model 0: column 1 is Binary\(name='c'\)",
        ),
        ([TWO, other(Continuous("x"))], None, r"column 1 is no attribute, there it is Binary\(name='b'\)"),
        ([TWO, other(Continuous("x"), Binary("b"), Count("n"))], None, r"column 2 is Count\(name='n'.*no attribute"),
    ],
)
def test_refusals(models: Any, weights: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Stack(models, weights)


def test_members_must_be_fitted_and_stay_so() -> None:
    unfitted = GSPN(EVERY_KIND, num_layers=2, num_states=2)
    with pytest.raises(NotFittedError, match="model 1 of the stack is not fitted yet"):
        Stack([MODELS[0], unfitted])
    later = copy.deepcopy(MODELS[1])
    stack = Stack([MODELS[0], later])
    later.set_params(num_states=2, template=None)
    with pytest.raises(NotFittedError, match="model 1 of the stack is not fitted yet"):
        stack.log_likelihood(GRAPH)


@pytest.mark.parametrize("name", ["fit", "embed", "transform", "posteriors", "posterior_entropy"])
def test_what_is_of_one_model_alone_is_not_offered(name: str) -> None:
    assert not hasattr(STACK, name)
    with pytest.raises(
        AttributeError, match=r"a Stack (is not fitted itself: fit its models|has no states of its own)"
    ):
        getattr(STACK, name)
    with pytest.raises(AttributeError, match="a Stack has no attribute 'nonsense'"):
        STACK.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_values_out_of_reach_are_refused_by_the_model_that_cannot() -> None:
    graph = GRAPH.clone()
    graph.x[3, 0] = 1e8
    for ask in (STACK.log_likelihood, STACK.impute):
        with pytest.raises(GSPNError, match="vertex 3, attribute 'charge': 1e"):
            ask(graph)
    with pytest.raises(GSPNError, match="attribute 'charge': 1e"):
        STACK.what_if_all(GRAPH, "charge", values=[1e8])


def test_a_stack_shows_its_weights() -> None:
    assert repr(STACK) == "Stack(3 models, weights 0.2, 0.5, 0.3)"
