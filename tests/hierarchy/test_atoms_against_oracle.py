"""The library against the oracle where continuous attributes have atoms: whole models, of all covariances and contexts.

The tolerance is that of `test_context_against_oracle`, which has the same models without atoms.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from context_cases import COVARIANCES, TOLERANCE, Case, assert_close, assert_likelihoods_agree, at_atoms, make_case
from numpy.typing import NDArray
from oracle_cases import draw_values
from regressing_models import line

from gspn.attributes import Continuous
from gspn.circuits.distributions import MixtureDistribution
from gspn.testing import oracle

GUARD = 0.01
SEEDS = [seed for seed in range(24) if seed != 5]  # whose trees take the oracle half a minute


def truth(case: Case, seed: int) -> NDArray[np.float64]:
    """Values for all entries, some at atoms, some far out."""
    rng = np.random.default_rng(seed)
    x = draw_values(rng, case.model.schema, len(case.graph.x), 0.0)
    return at_atoms(rng, case.model.schema, case.atoms, x)


def first_with_atoms(case: Case) -> int:
    return case.model.schema.index(next(iter(case.atoms)))


@pytest.mark.parametrize("seed", SEEDS)
def test_agrees(seed: int) -> None:
    """Likelihoods with and without the vertex in its own tree, posteriors, masked entries."""
    assert_likelihoods_agree(make_case(seed, atoms=True), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_agree(seed: int) -> None:
    """One entry, two at once, one given the other, and the gaps as they are."""
    case = make_case(seed, atoms=True)
    x, names, values = case.graph.x, list(case.model.schema.names), truth(case, seed)
    first = first_with_atoms(case)
    second = (first + 1) % len(names)
    found = case.model.conditional(case.data, names[first]).log_prob(torch.from_numpy(values[:, first]))
    answers = [oracle.answers(case.theirs, case.graph, v, {(v, first)}) for v in range(len(x))]
    assert_close(case, found, [answer({first: values[v, first]}) for v, answer in enumerate(answers)])
    joint = case.model.conditional(case.data, [names[first], names[second]])
    answers = [oracle.answers(case.theirs, case.graph, v, {(v, first), (v, second)}) for v in range(len(x))]
    both = [answer({c: values[v, c] for c in (first, second)}) for v, answer in enumerate(answers)]
    assert_close(case, joint.log_prob(torch.from_numpy(values[:, [first, second]])), both)
    part = [answer({first: values[v, first]}) for v, answer in enumerate(answers)]
    given = joint.condition({names[first]: torch.from_numpy(values[:, first])}).marginal(names[second])
    assert_close(case, given.log_prob(torch.from_numpy(values[:, second])), np.array(both) - np.array(part))
    missing = [{c: values[v, c] for c in range(len(names)) if math.isnan(x[v, c])} for v in range(len(x))]
    expected = [oracle.answer(case.theirs, case.graph, v, missing[v]) for v in range(len(x))]
    assert_close(case, case.model.log_prob_missing(case.data, torch.from_numpy(values)), expected)


@pytest.mark.parametrize("guard", [0.0, GUARD])
@pytest.mark.parametrize("seed", range(0, 24, 4))
def test_masses_and_density_are_1_together(seed: int, guard: float) -> None:
    """And quantiles lead back through cumulative probabilities, which jump at atoms by their masses."""
    case = make_case(seed, atoms=True)
    if guard:
        parameters = case.model.get_parameters()
        case = replace(case, model=case.model.set_params(guard=guard).set_parameters(parameters))
    column = first_with_atoms(case)
    found = case.model.conditional(case.data, case.model.schema.names[column])[0]
    places, steps = line(0.2, 1.0, 20_001, 40.0)
    density = torch.stack([found.log_prob(float(x))[0].exp() for x in places[::2_000]])
    again = case.model.conditional(case.data, case.model.schema.names[column])[
        torch.zeros(len(places), dtype=torch.int)
    ]
    whole = again.log_prob(torch.from_numpy(places)).exp()
    torch.testing.assert_close(density, whole[::2_000], rtol=1e-12, atol=1e-300)
    assert isinstance(found, MixtureDistribution)
    masses = [float(found.log_prob(value).exp()) for value in found.atoms.tolist()]
    assert min(masses) > 0.0
    assert float(whole @ torch.from_numpy(steps)) + sum(masses) == pytest.approx(1.0, abs=TOLERANCE)
    jumps = 0
    for q in np.linspace(0.01, 0.99, 23):
        place = found.quantile(float(q))
        assert float(found.cumulative(place)) >= q - 1e-9
        assert float(found.cumulative(torch.nextafter(place, torch.tensor(-math.inf).double()))) <= q + 1e-9
        jumps += bool(torch.isin(place, found.atoms))
    assert jumps > 0
    for value, mass in zip(found.atoms, masses, strict=True):
        before = found.cumulative(torch.nextafter(value, torch.tensor(-math.inf).double())[None])
        assert float(found.cumulative(value[None]) - before) == pytest.approx(mass, abs=1e-12)


@pytest.mark.parametrize("seed", range(0, 24, 3))
def test_guarded_answers_agree(seed: int) -> None:
    """The guard's weight is shared by Cauchys and atoms; likelihoods do not know it."""
    case = make_case(seed, atoms=True)
    before = case.model.log_likelihood(case.data)
    parameters = case.model.get_parameters()
    case = replace(case, model=case.model.set_params(guard=GUARD).set_parameters(parameters))
    torch.testing.assert_close(case.model.log_likelihood(case.data), before, rtol=1e-9, atol=1e-9)
    names, n, values = list(case.model.schema.names), len(case.graph.x), truth(case, seed)
    for column, attribute in enumerate(case.model.schema):
        if isinstance(attribute, Continuous) and attribute.name not in case.atoms:
            values[:, column] += 500.0
    hidden = [{(v, c) for c in range(len(names))} for v in range(n)]
    answers = [oracle.answers(case.theirs, case.graph, v, hidden[v], guard=GUARD) for v in range(n)]
    joint = case.model.conditional(case.data, names)
    both = [answer(dict(enumerate(values[v]))) for v, answer in enumerate(answers)]
    assert_close(case, joint.log_prob(torch.from_numpy(values)), both)
    column = first_with_atoms(case)
    part = [answer({column: values[v, column]}) for v, answer in enumerate(answers)]
    rest = [c for c in range(len(names)) if c != column]
    given = joint.condition({names[column]: torch.from_numpy(values[:, column])})
    assert_close(case, given.log_prob(torch.from_numpy(values[:, rest])), np.array(both) - np.array(part))


def test_cases_cover_every_axis() -> None:
    cases = [make_case(seed, atoms=True) for seed in SEEDS]
    axes = [case.axes for case in cases]
    assert {a["covariance"] for a in axes} == set(COVARIANCES)
    assert {(a["context"], a["variance"] > 0) for a in axes if a["context"]} >= {
        ("neighbours", True),
        ("two_hops", True),
    }
    assert {a["template"] for a in axes} >= {"naive Bayes", "together"}
    assert {len(values) for case in cases for values in case.atoms.values()} == {1, 2}
    assert {len(case.atoms) for case in cases} >= {1, 2}
