"""Starting points of all leaf families from groups of rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from seeded import generator
from small_leaves import FAMILIES, LEAVES, Case, over_dtypes, over_families, univariate

from gspn.attributes import Binary, Categorical, Continuous, Count
from gspn.circuits.leaves import GaussianLeaves
from gspn.circuits.leaves.gaussian import MAX_INITIAL_VARIANCE
from gspn.circuits.leaves.poisson import LEAST_INITIAL_MEAN


@over_families
@over_dtypes
def test_initialise_survives_any_groups(case: Case, dtype: torch.dtype) -> None:
    """No value, one value, always the same value, ordinary values; and every group empty."""
    ordinary = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    groups = [ordinary[:0], ordinary[1:2], ordinary[1:3], ordinary]
    family = case.empty(dtype, leaves=4)
    nothing = case.empty(dtype, leaves=4)
    before = torch.get_rng_state()
    family.initialise(groups, generator())
    nothing.initialise([ordinary[:0]] * 4, generator())
    assert torch.equal(torch.get_rng_state(), before)
    for started in (family, nothing):
        assert all(torch.isfinite(p).all() for p in started.parameters())
        log_density = started.log_density(started.natural(), ordinary)
        log_density.sum().backward()
        assert torch.isfinite(log_density).all()
        assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in started.parameters())
        # What starts must be able to leave: no gradient is lost in a saturated parameter.
        assert all(bool((p.grad != 0).any()) for p in started.parameters() if p.grad is not None)
    # States that start alike would stay alike.
    if not isinstance(case.attribute, Categorical):
        mean = nothing.mean(nothing.natural())
        assert len(mean[0].unique()) == 4
    else:
        assert len(nothing.export(nothing.natural())["probs"][0].unique(dim=0)) == 4


@over_families
def test_initialise_is_reproducible(case: Case) -> None:
    groups = [torch.tensor([0.0, 1.0, 1.0]).double(), torch.tensor([]).double()]
    first, again, other = (case.empty() for _ in range(3))
    for family, seed in ((first, 1), (again, 1), (other, 2)):
        family.initialise(groups, generator(seed))
    ours, same, different = (torch.cat([p.detach().flatten() for p in f.parameters()]) for f in (first, again, other))
    assert torch.equal(ours, same)
    assert not torch.equal(ours, different)


def test_gaussians_start_at_the_moments_of_their_groups() -> None:
    case = FAMILIES[0]
    groups = [torch.randn(50, generator=generator(m)).double() * (m + 1) + 10 * m - 40 for m in range(LEAVES)]
    family = case.empty()
    family.initialise(groups, generator())
    exported = family.export(family.natural())
    for m, group in enumerate(groups):
        np.testing.assert_allclose(exported["mean"][:, m].detach(), group.mean(), rtol=1e-12)
        np.testing.assert_allclose(exported["std"][:, m].detach(), group.std(correction=0), rtol=1e-9)


@over_dtypes
@pytest.mark.parametrize("floor", [1e-6, 1e-3, 0.3, 1.0])
def test_gaussians_start_between_the_floor_and_variance_10(floor: float, dtype: torch.dtype) -> None:
    """In standardised units; a group of one value sits above the floor, where the scale still learns."""
    family = univariate(Continuous("x", floor=floor), 1, 3).to(dtype)
    assert isinstance(family, GaussianLeaves)
    family.center, family.spread = 5.0, 0.1
    wild = torch.tensor([-1e6, 1e6]).double()
    family.initialise([wild, torch.tensor([5.0]).double(), torch.tensor([]).double()], generator())
    scale = family.natural()["scale"].detach().double()
    assert scale.square().max() <= MAX_INITIAL_VARIANCE * (1 + 1e-6)
    assert scale.min() > 1.5 * floor
    np.testing.assert_allclose(scale[0, 0], math.sqrt(MAX_INITIAL_VARIANCE), rtol=1e-6)


@pytest.mark.parametrize("case", [c for c in FAMILIES if isinstance(c.attribute, (Categorical, Binary))], ids=str)
def test_tables_start_at_the_frequencies_of_their_groups(case: Case) -> None:
    """Up to one pseudo-observation a value and the noise on the logits, whose mean over many levels vanishes."""
    size = 2 if isinstance(case.attribute, Binary) else 3
    groups = [torch.tensor([0.0] * 60 + [1.0] * 20).double(), torch.tensor([0.0] * 10 + [1.0] * 70).double()]
    levels = 4000
    family = case.empty(levels=levels)
    family.initialise(groups, generator())
    log_probs = family.natural()["log_probs"].detach()
    log_ratio = (log_probs[..., 1] - log_probs[..., 0]).numpy()
    # Overall frequencies with one more of each: 71 and 91 of 160 + size.
    extra = size * np.array([71, 91]) / (160 + size)
    expected = [math.log((20 + extra[1]) / (60 + extra[0])), math.log((70 + extra[1]) / (10 + extra[0]))]
    # Noise of deviation √2 on each ratio; five deviations of the mean over the levels.
    np.testing.assert_allclose(log_ratio.mean(0), expected, atol=5 * math.sqrt(2 / levels))
    np.testing.assert_allclose(log_ratio.std(0), math.sqrt(2), rtol=0.1)


def test_counts_start_at_the_means_of_their_groups() -> None:
    groups = [torch.tensor([0.0, 0.0, 0.0]).double(), torch.tensor([3.0, 4.0, 8.0]).double()]
    expected = np.array([LEAST_INITIAL_MEAN, 5.0])
    levels = 1000
    poisson = univariate(Count("n"), levels, 2).double()
    poisson.initialise(groups, generator())
    log_rate = poisson.mean(poisson.natural()).detach().log().numpy()
    # Noise of deviation 0.1 on every level's log-rate.
    np.testing.assert_allclose(log_rate.mean(0), np.log(expected), atol=5 * 0.1 / math.sqrt(levels))
    assert (log_rate.std(0) > 0).all()
    negative = univariate(Count("n", "negative_binomial"), 1, 2).double()
    negative.initialise(groups, generator())
    np.testing.assert_allclose(negative.mean(negative.natural()).detach().numpy()[0], expected, rtol=1e-12)


def test_negative_binomials_start_with_the_dispersion_of_their_groups() -> None:
    """Method of moments, within bounds from which the dispersion can still learn."""
    rng = np.random.default_rng(0)
    heavy = torch.from_numpy(rng.negative_binomial(2, 2 / (2 + 10), 200).astype(float))
    groups = [heavy, torch.full((5,), 4.0).double(), torch.tensor([0.0] * 99 + [1e4]).double()]
    family = univariate(Count("n", "negative_binomial"), 2, 3).double()
    family.initialise(groups, generator())
    dispersion = family.export(family.natural())["dispersion"].detach().numpy()
    moments = (heavy.var(correction=0) - heavy.mean()) / heavy.mean().square()
    np.testing.assert_allclose(dispersion, [[moments.item(), 0.05, 10.0]] * 2, rtol=1e-9)


def test_a_column_is_measured_in_its_own_units() -> None:
    family = univariate(Continuous("x"), 1, 1)
    assert isinstance(family, GaussianLeaves)
    column = torch.tensor([1.0, 3.0, 5.0, 7.0]).double()
    family.standardise(column)
    assert family.center == 4.0
    assert family.spread == pytest.approx(math.sqrt(5))
    torch.testing.assert_close(family.standardised(column).std(correction=0).item(), 1.0)
    for constant in (0.0, 0.1, -1e9 / 3, 1e-20):
        family.standardise(torch.full((7,), constant, dtype=torch.float64))
        assert family.center == pytest.approx(constant, rel=1e-12)
        assert family.spread == 1.0
    # Units are kept with the parameters, in full precision whatever the dtype.
    family.float().standardise(torch.tensor([1.7e9, 1.7e9 + 1 / 3], dtype=torch.float64))
    other = univariate(Continuous("x"), 1, 1)
    other.load_state_dict(family.state_dict())
    assert isinstance(other, GaussianLeaves)
    assert (other.center, other.spread) == (family.center, family.spread)
