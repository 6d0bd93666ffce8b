"""The library against the oracle where leaves are correlated and regress on neighbours, through public methods.

Both compute in float64. Solving with covariances of a few attributes costs some digits more than sums do; 1e-8 leaves
room for those.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from context_cases import CASES, CONTEXTS, COVARIANCES, GRAPHS, TEMPLATES, VARIANCES, Case, make_case
from oracle_cases import draw_values

from gspn.attributes import Continuous
from gspn.hierarchy.roots import leave_one_out
from gspn.testing import oracle

TOLERANCE = 1e-8
GUARD = 0.01


def whole(case: Case, v: int) -> set[tuple[int, int]]:
    return {(v, column) for column in range(case.graph.x.shape[1])}


def assert_close(case: Case, ours: torch.Tensor, theirs: object) -> None:
    np.testing.assert_allclose(
        ours.detach().numpy(), np.asarray(theirs), rtol=TOLERANCE, atol=TOLERANCE, err_msg=str(case.axes)
    )


@pytest.mark.parametrize("seed", range(CASES))
def test_agrees(seed: int) -> None:
    """Likelihoods with and without the vertex in its own tree, and posteriors of every level and sum unit."""
    case = make_case(seed)
    vertices = range(len(case.graph.x))
    pseudo = [oracle.log_likelihood(case.theirs, case.graph, v) for v in vertices]
    assert_close(case, case.model.log_likelihood(case.data), pseudo)
    alone = [oracle.leave_one_out(case.theirs, case.graph, v) for v in vertices]
    assert_close(case, case.model.log_likelihood(case.data, leave_one_out=True), alone)
    last = case.model.log_likelihood(case.data, leave_one_out=True, vertices=[vertices[-1]])
    assert_close(case, last, alone[-1:])
    assert_close(
        case, case.model.posteriors(case.data), [oracle.posteriors(case.theirs, case.graph, v) for v in vertices]
    )


@pytest.mark.parametrize("seed", range(CASES))
def test_answers_agree(seed: int) -> None:
    """One entry, two at once and all of a vertex, observed or missing; and the gaps as they are."""
    case = make_case(seed)
    x, names = case.graph.x, list(case.model.schema.names)
    truth = draw_values(np.random.default_rng(seed), case.model.schema, len(x), 0.0)
    column = seed % len(names)
    found = case.model.conditional(case.data, names[column]).log_prob(torch.from_numpy(truth[:, column]))
    expected = [
        oracle.answer(case.theirs, case.graph, v, {column: truth[v, column]}, {(v, column)}) for v in range(len(x))
    ]
    assert_close(case, found, expected)
    two = sorted({column, (column + 1) % len(names)})
    joint = case.model.conditional(case.data, [names[c] for c in two])
    answers = [oracle.answers(case.theirs, case.graph, v, {(v, c) for c in two}) for v in range(len(x))]
    expected = [answer({c: truth[v, c] for c in two}) for v, answer in enumerate(answers)]
    assert_close(case, joint.log_prob(torch.from_numpy(truth[:, two])), expected)
    # The marginal, and the chain rule inside one answer.
    part = [answer({two[0]: truth[v, two[0]]}) for v, answer in enumerate(answers)]
    assert_close(case, joint.marginal(names[two[0]]).log_prob(torch.from_numpy(truth[:, two[0]])), part)
    given = joint.condition({names[two[0]]: torch.from_numpy(truth[:, two[0]])}).marginal(names[two[1]])
    ratio = np.array(expected) - np.array(part)
    assert_close(case, given.log_prob(torch.from_numpy(truth[:, two[1]])), ratio)
    missing = [{c: truth[v, c] for c in range(len(names)) if math.isnan(x[v, c])} for v in range(len(x))]
    expected = [oracle.answer(case.theirs, case.graph, v, missing[v]) for v in range(len(x))]
    assert_close(case, case.model.log_prob_missing(case.data, torch.from_numpy(truth)), expected)


@pytest.mark.parametrize("seed", range(0, CASES, 3))
def test_masked_entries_agree(seed: int) -> None:
    """What is hidden is hidden everywhere: in training, and through private copies at a small budget."""
    case = make_case(seed)
    n = len(case.graph.x)
    entries = torch.from_numpy(np.random.default_rng(seed).random(case.graph.x.shape) < 0.4)
    batch = case.model.collate(case.data)
    pairs = {(int(v), int(c)) for v, c in entries.nonzero()}
    assert_close(case, case.model(batch.hiding(entries)).log_hidden, oracle.masked(case.theirs, case.graph, pairs))
    pieces = list(leave_one_out(case.model.hierarchy, batch, torch.arange(n), budget=2))
    assert_close(case, torch.cat(pieces), [oracle.leave_one_out(case.theirs, case.graph, v) for v in range(n)])


@pytest.mark.parametrize("seed", range(1, CASES, 7))
def test_moments_are_those_of_the_oracles_density(seed: int) -> None:
    """Mean and variance of a continuous entry, by trapezoids over the oracle's density."""
    case = make_case(seed)
    column = next(c for c, attribute in enumerate(case.model.schema) if isinstance(attribute, Continuous))
    found = case.model.conditional(case.data, case.model.schema.names[column])
    for v in range(2):
        answer = oracle.answers(case.theirs, case.graph, v, {(v, column)})
        center, scale = float(found.mean[v]), math.sqrt(float(found.variance[v]))
        places = np.linspace(center - 20 * scale, center + 20 * scale, 801)
        density = np.array([math.exp(answer({column: float(x)})) for x in places]) * (places[1] - places[0])
        assert density.sum() == pytest.approx(1.0, abs=1e-6)
        assert density @ places == pytest.approx(center, abs=1e-5 * scale)
        assert density @ (places - center) ** 2 == pytest.approx(scale**2, rel=1e-4)


@pytest.mark.parametrize("seed", range(0, CASES, 20))
def test_marginals_are_integrals(seed: int) -> None:
    """Over one attribute of a joint, by trapezoids: exact to many digits for what falls off like a Gaussian."""
    case = make_case(seed)
    one, two = [a.name for a in case.model.schema if isinstance(a, Continuous)][:2]
    joint, n = case.model.conditional(case.data, [one, two]), len(case.graph.x)
    first, other = joint.marginal(one), joint.marginal(two)
    places = first.mean + 0.7 * first.variance.sqrt()
    reach = 25 * other.variance.sqrt()  # given an unlikely value, a state that is far away may be the likely one
    steps = torch.linspace(-1.0, 1.0, 2001, dtype=torch.float64)
    density, mass = torch.zeros(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
    for step in steps:
        at = other.mean + step * reach
        density += joint.log_prob(torch.stack([places, at], dim=1)).exp()
        mass += other.log_prob(at).exp()
    width = (steps[1] - steps[0]) * reach
    torch.testing.assert_close(density * width, first.log_prob(places).exp(), rtol=TOLERANCE, atol=TOLERANCE)
    torch.testing.assert_close(mass * width, torch.ones(n, dtype=torch.float64), rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("seed", range(0, CASES, 6))
def test_guarded_answers_agree(seed: int) -> None:
    """Answers have one more component; likelihoods and posteriors do not."""
    case = make_case(seed)
    names, n = list(case.model.schema.names), len(case.graph.x)
    before = case.model.log_likelihood(case.data), case.model.posteriors(case.data)
    parameters = case.model.get_parameters()
    model = case.model.set_params(guard=GUARD).set_parameters(parameters)
    torch.testing.assert_close(model.log_likelihood(case.data), before[0], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(model.posteriors(case.data), before[1], rtol=1e-9, atol=1e-9)
    case = replace(case, model=model)
    values = draw_values(np.random.default_rng(seed), model.schema, n, 0.0)
    for far in (False, True):
        for column, attribute in enumerate(model.schema):
            if far and isinstance(attribute, Continuous):
                values[:, column] += 500.0
        answers = [oracle.answers(case.theirs, case.graph, v, whole(case, v), guard=GUARD) for v in range(n)]
        expected = [answer(dict(enumerate(values[v]))) for v, answer in enumerate(answers)]
        joint = model.conditional(case.data, names)
        assert_close(case, joint.log_prob(torch.from_numpy(values)), expected)
        for column, name in enumerate(names):
            single = [
                oracle.answer(case.theirs, case.graph, v, {column: values[v, column]}, {(v, column)}, guard=GUARD)
                for v in range(n)
            ]
            found = model.conditional(case.data, name).log_prob(torch.from_numpy(values[:, column]))
            assert_close(case, found, single)
        # A conditional inside an answer is a ratio of the guarded joint.
        first = [answer({0: values[v, 0]}) for v, answer in enumerate(answers)]
        rest = joint.condition({names[0]: torch.from_numpy(values[:, 0])})
        assert_close(case, rest.log_prob(torch.from_numpy(values[:, 1:])), np.array(expected) - np.array(first))


def test_cases_cover_every_axis() -> None:
    axes = [make_case(seed).axes for seed in range(CASES)]
    wanted = {
        "levels": {2, 3},
        "covariance": set(COVARIANCES),
        "context": set(CONTEXTS),
        "variance": set(VARIANCES),
        "slopes": {"tied", "free"},
        "template": set(TEMPLATES),
        "graph": set(GRAPHS),
        "edge types": {1, 2},
        "missing": {0.0, 0.3, 0.6},
    }
    for name, values in wanted.items():
        assert {a[name] for a in axes} == values
    contextual = [a for a in axes if a["context"] is not None]
    for name in ("covariance", "variance", "levels"):
        pairs = {(a["context"], a[name]) for a in contextual}
        assert len(pairs) == 2 * len({value for _, value in pairs}), name
    assert {a["template"] for a in contextual} == set(TEMPLATES)
