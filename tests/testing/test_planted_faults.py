"""Faults that the suites must find: each is planted in a part that is otherwise right, which passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from informative_leaves import InformativeGaussianLeaves
from leaf_cases import CASES, INFORMATIVE
from torch import Tensor

from gspn import register_aggregation
from gspn.circuits import Context, Evidence
from gspn.circuits.leaves import GaussianLeaves, Natural
from gspn.hierarchy.aggregation import Aggregation, Mean, Messages
from gspn.kernels import Climb, Kernel, Levels, Received, register_kernel
from gspn.kernels.contract import Expectations
from gspn.kernels.reference import REFERENCE
from gspn.testing import AggregationCase, AggregationSuite, KernelSuite, LeafCase, LeafSuite, Suite, failures, oracle

pytestmark = pytest.mark.usefixtures("own_registries")

GAUSSIAN = CASES["gaussian in units of the data"]


def assert_found(suite: type[Suite], *checks: str) -> None:
    """The named checks fail, and by an assertion: the part works, it is just wrong."""
    found = failures(suite)
    assert set(checks) <= set(found), f"not found by {set(checks) - set(found)}, only by {set(found)}"
    for check in checks:
        assert isinstance(found[check], AssertionError), f"{check} fails for another reason: {found[check]!r}"


def planted(case: LeafCase, build: Callable[..., Any]) -> type[Suite]:
    return LeafSuite.on(case=replace(case, build=build))


@pytest.mark.parametrize("case", [GAUSSIAN, INFORMATIVE], ids=["ignorable", "informative"])
def test_what_is_right_passes(case: LeafCase) -> None:
    assert failures(LeafSuite.on(case=case)) == {}


def test_a_wrong_normaliser() -> None:
    """The Jacobian of the units is left out."""

    class Unscaled(GaussianLeaves):
        def log_density_of(self, natural: Natural, x: Tensor) -> Tensor:
            return super().log_density_of(natural, x) + float(np.log(self.spread))

    assert_found(
        planted(GAUSSIAN, Unscaled),
        "test_log_prob_is_the_density",
        "test_probabilities_sum_to_one",
        "test_units_change_no_density",
    )


def test_a_gap_read_as_zero() -> None:
    class Zero(GaussianLeaves):
        def log_density(self, natural: Natural, x: Tensor) -> Tensor:
            return super().log_density(natural, x.nan_to_num(0.0))

    assert_found(
        planted(GAUSSIAN, Zero), "test_log_prob_is_the_density", "test_a_gap_is_summed_out", "test_hidden_says_nothing"
    )


def test_hidden_taken_for_missing() -> None:
    class Confused(InformativeGaussianLeaves):
        def log_prob(self, natural: Natural, evidence: Evidence, context: Context | None = None) -> Tensor:
            return super().log_prob(natural, Evidence(evidence.x), context)

    assert_found(planted(INFORMATIVE, Confused), "test_log_prob_is_the_density", "test_hidden_says_nothing")


def test_a_mode_that_is_not_the_mode() -> None:
    """The mean of a mixture is between its modes."""

    class Between(GaussianLeaves):
        def mixture_mode(self, natural: Natural, weights: Tensor) -> Tensor:
            return (weights * self.mean(natural)).sum(1)

    assert_found(planted(GAUSSIAN, Between), "test_modes_are_nowhere_exceeded")


def test_an_estimate_that_forgets_its_prior() -> None:
    class Forgetful(GaussianLeaves):
        def estimate(self, evidence: Evidence, weights: Tensor, **settings: Any) -> None:
            super().estimate(evidence, weights, **settings | {"prior": 0.0})

    # A leaf without weight keeps what it has, although the prior has seen something of it.
    assert_found(planted(GAUSSIAN, Forgetful), "test_an_estimate_is_not_beaten")


def test_draws_of_another_width() -> None:
    class Narrow(GaussianLeaves):
        def sample(self, natural: Natural, n: int, generator: torch.Generator | None = None) -> Tensor:
            mean = self.mean(natural)
            return mean + 0.8 * (super().sample(natural, n, generator) - mean)

    assert_found(planted(GAUSSIAN, Narrow), "test_samples_follow_the_density", "test_draws_are_joint")


def test_parameters_beside_the_natural_ones() -> None:
    class Beside(GaussianLeaves):
        def log_density_of(self, natural: Natural, x: Tensor) -> Tensor:
            return super().log_density_of(natural, x) + 0.01 * self.raw_mean.sum().to(natural["mean"].dtype)

    assert_found(planted(GAUSSIAN, Beside), "test_everything_learned_is_in_natural_parameters")


# Aggregations.


class Leaking(Mean):
    """Its priors sum to 0.99."""

    def forward(self, messages: Messages) -> Received:
        return replace(super().forward(messages), prior=0.99 * super().forward(messages).prior)


class CountsHere(Aggregation):
    """Weighs senders by the edges of the batch, which lacks some where a question needs a part of a graph only."""

    def forward(self, messages: Messages) -> Received:
        batch, target, source = messages.batch, messages.target.long(), messages.batch.source.long()
        degree = torch.bincount(source, minlength=batch.num_vertices).to(messages.posterior.dtype)
        weight = degree[source].rsqrt()
        weight = weight / torch.zeros_like(degree).index_add(0, target, weight)[target]
        types = torch.zeros_like(source) if batch.edge_type is None else batch.edge_type.long()
        said = torch.zeros_like(messages.posterior)
        for kind, transition in enumerate(messages.transition):
            sent = torch.einsum("nsk,ski->nsi", messages.posterior, transition)[source]
            said = said.index_add(0, target, ((types == kind) * weight)[:, None, None] * sent)
        return Received(torch.where((messages.in_degree == 0)[:, None, None], messages.start, said))


def mean(level: int, messages: list[oracle.Message], theta: oracle.Array, start: oracle.Array) -> oracle.Array:
    said = [theta[m.edge_type, 0].T @ m.posterior[0] for m in messages]
    return np.asarray(np.mean(said, axis=0), dtype=np.float64)[None] if messages else start


def by_sender(level: int, messages: list[oracle.Message], theta: oracle.Array, start: oracle.Array) -> oracle.Array:
    if not messages:
        return start
    weights = np.array([message.sender_out_degree**-0.5 for message in messages])
    said = [theta[m.edge_type, 0].T @ m.posterior[0] for m in messages]
    return np.asarray((weights / weights.sum()) @ np.stack(said), dtype=np.float64)[None]


def test_a_prior_that_sums_to_less() -> None:
    register_aggregation("leaking", Leaking)
    suite = AggregationSuite.on(case=AggregationCase("leaking", lambda module: mean))
    assert_found(suite, "test_priors_are_distributions", "test_agrees_with_the_literal_function")


def test_degrees_counted_in_a_part_of_the_graph() -> None:
    register_aggregation("counts_here", CountsHere)
    suite = AggregationSuite.on(case=AggregationCase("counts_here", lambda module: by_sender))
    found = failures(suite)
    assert "test_agrees_with_the_literal_function" not in found
    assert_found(suite, "test_agrees_where_a_vertex_is_left_out", "test_expectations_become_a_context")


# Kernels.


def forgetful(climb: Climb) -> Levels:
    """All edges are of the first type."""
    batch, aggregate = climb.batch, climb.aggregate
    if batch.edge_type is None:
        return REFERENCE.climb(climb)
    first = climb.transitions[:, :1].expand_as(climb.transitions)

    def without_types(level: int, posterior: Tensor | None, told: Expectations | None) -> Received:
        if posterior is None:
            return aggregate(level, posterior, told)
        start = climb.prior.expand(batch.num_vertices, *climb.prior.shape)
        known = level, first[level - 1], batch, start, batch.target, batch.in_degree, climb.prior
        said = posterior, None if told is None else told.mean, *known
        return Mean(0, 0, 0, 0).forward(Messages(*said))

    return REFERENCE.climb(climb._replace(aggregate=without_types))


def test_a_kernel_that_forgets_edge_types() -> None:
    register_kernel(Kernel("forgetful", forgetful, lambda climb: None))
    suite = KernelSuite.on(kernel="forgetful")
    assert_found(suite, "test_values_and_gradients", "test_single_precision")
    found = failures(suite)["test_values_and_gradients"]
    assert "edge types" in str(found)


def test_a_kernel_that_refuses_without_a_reason() -> None:
    register_kernel(Kernel("silent", REFERENCE.climb, lambda climb: None if climb.batch.edge_type is None else ""))
    suite = KernelSuite.on(kernel="silent", refuses=frozenset({"edge types"}))
    assert_found(suite, "test_what_is_not_supported_is_refused")
