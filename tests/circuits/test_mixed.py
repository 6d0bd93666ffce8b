"""Mixtures of roots against their formula: constant weights for what is asked, Bayes' rule inside an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from small_graphs import EVERY_KIND, draw_graph
from small_models import hand_made, random_model
from torch import Tensor
from torch_geometric.data import Data

from gspn.attributes import Binary, Continuous, Schema
from gspn.circuits.distributions import CategoricalDistribution, MixtureDistribution
from gspn.circuits.given import Joint, Roots, distribution, draw_many
from gspn.circuits.mixed import Mixed, mixed, mixed_log_prob

WEIGHTS = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
GUARDS = (0.01, 0.0, 0.2)
NAMES = EVERY_KIND.names
FAR, NEAR = {"charge": 40.0}, {"charge": 1.0, "element": "N"}


def members(guards: Sequence[float] = GUARDS, hidden: Sequence[str] = NAMES) -> list[Roots]:
    """Roots of three models of different shapes on four vertices with gaps, which vertices' own entries they know."""
    graph = draw_graph(np.random.default_rng(3), 4, missing=0.3)
    shapes: list[dict[str, Any]] = [{}, {"template": hand_made(EVERY_KIND, 3), "num_layers": 2}, {"num_layers": 1}]
    found = []
    for seed, (shape, guard) in enumerate(zip(shapes, guards, strict=True)):
        model = random_model(EVERY_KIND, seed, guard=guard, **shape)
        batch = model.collate(graph)
        mask = torch.tensor([name in hidden for name in NAMES]).expand(4, -1)
        found.append(model.hierarchy.roots(batch, torch.arange(4), mask | ~batch.observed))
    return found


def mixture(guards: Sequence[float] = GUARDS, hidden: Sequence[str] = NAMES) -> Roots:
    return mixed(members(guards, hidden), WEIGHTS.log())


def agree(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def densities(roots: Sequence[Roots], values: Mapping[str, Any]) -> Tensor:
    """[n, members] of the values, jointly."""
    return torch.stack([Joint(one, NAMES).log_prob(values).exp() for one in roots], dim=1)


@pytest.mark.parametrize("values", [{}, {"element": "O"}, FAR, NEAR], ids=["nothing", "one", "far", "two"])
def test_a_joint_is_the_mixture_of_joints(values: Mapping[str, Any]) -> None:
    ours = Joint(mixture(), NAMES).log_prob(values)
    agree(ours, (densities(members(), values) @ WEIGHTS).log())
    if not values:
        assert (ours == 0).all()


@pytest.mark.parametrize("seen", [FAR, NEAR], ids=["far", "near"])
@pytest.mark.parametrize("guards", [(0.0, 0.0, 0.0), GUARDS], ids=["plain", "guarded"])
def test_what_becomes_known_shifts_weight_by_bayes_rule(guards: Sequence[float], seen: Mapping[str, Any]) -> None:
    roots = members(guards)
    posterior = WEIGHTS * densities(roots, seen)
    posterior = posterior / posterior.sum(1, keepdim=True)
    joint = Joint(mixture(guards), NAMES).condition(seen)
    theirs = [Joint(one, NAMES).condition(seen) for one in roots]
    for values in ({"hydrogens": 2}, {"aromatic": True, "degree": 3}):
        expected = (posterior * torch.stack([one.log_prob(values).exp() for one in theirs], dim=1)).sum(1).log()
        agree(joint.log_prob(values), expected)
        # The chain rule, and one thing after the other.
        whole = Joint(mixture(guards), NAMES)
        agree(joint.log_prob(values) + whole.log_prob(seen), whole.log_prob({**seen, **values}))
    later = joint.condition({"aromatic": True})
    agree(later.log_prob({"degree": 3}), whole.condition({**seen, "aromatic": True}).log_prob({"degree": 3}))
    agree(later.marginal("degree").log_prob(3), later.log_prob({"degree": 3}))
    assert (posterior - WEIGHTS).abs().max() > 0.05, "nothing was to be seen"


TWO = Schema([Continuous("x"), Continuous("y"), Binary("b")])


def roots_of_two(guards: Sequence[float]) -> Roots:
    x = torch.tensor([[torch.nan, torch.nan, 1.0], [torch.nan, torch.nan, torch.nan]])
    found = []
    for seed, guard in enumerate(guards):
        model = random_model(TWO, seed, num_layers=1, guard=guard)
        batch = model.collate(Data(x=x, edge_index=torch.zeros(2, 0, dtype=torch.long)))
        found.append(model.hierarchy.roots(batch, torch.arange(2), ~batch.observed))
    return mixed(found, WEIGHTS.log())


@pytest.mark.parametrize("seen", [{}, {"b": 0.0}, {"y": 2.0}, {"y": 40.0}], ids=str)
@pytest.mark.parametrize("guards", [GUARDS, (0.1, 0.1, 0.1)], ids=["different", "alike"])
def test_moments_are_those_without_guards(guards: Sequence[float], seen: Mapping[str, float]) -> None:
    """As of the mixture that was never guarded, whatever the guards' weights."""
    ours, plain = roots_of_two(guards), roots_of_two((0.0, 0.0, 0.0))
    if seen:
        x = ours.evidence.x.clone()
        for name, value in seen.items():
            x[1:, TWO.index(name)] = value
        ours, plain = (one.given(one.evidence.having(x)) for one in (ours, plain))
    one, other = distribution(ours, 0), distribution(plain, 0)
    assert isinstance(one, MixtureDistribution)
    assert isinstance(other, MixtureDistribution)
    agree(one.mean, other.mean)
    agree(one.variance, other.variance)
    agree(one[1].mean, other.mean[1:])
    assert (one.cumulative(-1e3) > 100 * other.cumulative(-1e3)).all(), "the density has the guards"


def _given(roots: Roots, values: Mapping[str, Any]) -> Roots:
    x = roots.evidence.x.clone()
    for name, value in values.items():
        column = EVERY_KIND.index(name)
        x[:, column] = float(EVERY_KIND[column].encode([value])[0])
    return roots.given(roots.evidence.having(x))


def test_other_evidence_is_a_new_question() -> None:
    roots = members(hidden=["charge", "element"])
    ours = mixed(roots, WEIGHTS.log())
    expected = mixed_log_prob([one.log_value() for one in roots], WEIGHTS.log())
    agree(ours.log_value(), expected)
    later = _given(ours, NEAR)
    agree(later.log_value(), expected + Joint(ours, NAMES).log_prob(NEAR))
    again = later.having(ours.evidence)
    agree(again.log_value(), expected)
    for column, value in ((0, 1.0), (1, "O")):
        agree(distribution(again, column).log_prob(value), distribution(ours, column).log_prob(value))


def test_rows_can_be_taken_before_or_after() -> None:
    ours, rows = mixture(), torch.tensor([2, 0, 0])
    later = _given(ours, NEAR)
    for roots in (ours, later):
        agree(roots[rows].log_value(), roots.log_value()[rows])
        agree(distribution(roots[rows], 3).log_prob(2), distribution(roots, 3).log_prob(2)[rows])
        assert len(roots[rows]) == 3
        assert torch.equal(roots[rows].evidence.x.isnan(), roots.evidence.x[rows].isnan())
    agree(_given(ours[rows], NEAR).log_value(), later.log_value()[rows])
    assert len(ours[:0].draw(torch.zeros(0, len(NAMES), dtype=torch.bool))) == 0


@pytest.mark.parametrize("seen", [{}, {"charge": 1.0}], ids=["nothing", "charge"])
def test_draws_come_from_the_mixture(seen: Mapping[str, Any]) -> None:
    """Their positions among the conditional probabilities are uniform, one attribute after another."""
    count, roots = 4000, _given(mixture(), seen)
    wanted = ~roots.evidence.known
    drawn = draw_many(roots, wanted, count, torch.Generator().manual_seed(1))
    assert not drawn.isnan().any()
    x, before = drawn[:, 0], roots[torch.zeros(count, dtype=torch.long)]
    for column, name in enumerate(NAMES):
        if name in seen:
            assert (x[:, column] == seen[name]).all()
            continue
        own = distribution(before, column)
        noise = torch.rand(count, generator=torch.Generator().manual_seed(column), dtype=torch.float64)
        if isinstance(own, CategoricalDistribution):
            codes = x[:, column].long()[:, None]
            share = own.probs.cumsum(1).gather(1, codes)[:, 0] - noise * own.probs.gather(1, codes)[:, 0]
        else:
            jump = own.log_prob(x[:, column]).exp() if EVERY_KIND[column].kind == "count" else 0.0
            share = own.cumulative(x[:, column]) - noise * jump
        assert scipy.stats.kstest(share.numpy(), "uniform").pvalue > 1e-4, name
        filled = before.evidence.x.clone()
        filled[:, column] = x[:, column]
        before = before.given(before.evidence.having(filled))


def test_a_member_without_weight_is_not_heard() -> None:
    first, second, _ = members()
    alone = mixed([first, second], torch.tensor([0.0, -torch.inf], dtype=torch.float64))
    for values in (FAR, NEAR):
        agree(Joint(alone, NAMES).log_prob(values), Joint(first, NAMES).log_prob(values))
        rest = [Joint(one, NAMES).condition(values).log_prob({"degree": 2}) for one in (alone, first)]
        agree(*rest)
    agree(distribution(alone, 0).mean, distribution(first, 0).mean)
    quantiles = []
    for one in (alone, first):
        found = distribution(one, 0)
        assert isinstance(found, MixtureDistribution)
        quantiles.append(found.quantile(0.05))
    agree(*quantiles)


def test_one_member_is_the_answer_itself() -> None:
    (first, *_) = members()
    assert mixed([first], torch.zeros(1, dtype=torch.float64)) is first
    assert isinstance(mixture(), Mixed)


def test_what_says_nothing_has_probability_one() -> None:
    thirds = torch.full((7,), 1 / 7, dtype=torch.float64).log()
    assert torch.logsumexp(thirds, 0) != 0, "the case is no case"
    zero = torch.zeros(2)
    assert mixed_log_prob([zero] * 7, thirds).tolist() == [0.0, 0.0]
