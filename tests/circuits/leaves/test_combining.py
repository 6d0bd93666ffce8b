"""The shortcut's combined level follows the rule of the design in all leaf families."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from seeded import generator
from small_leaves import LEAVES, LEVELS, Case, numbers, over_cases, over_dtypes, over_families, values

from gspn.circuits.leaves.contract import at_level, with_level

WEIGHTS = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


def combined_by_hand(exported: dict[str, NDArray[np.float64]], weights: NDArray[np.float64]) -> dict[str, Any]:
    """What the design says: Σ w p, Σ w λ, Σ w m, Σ w α, and for Gaussians mean Σ w μ with variance Σ w² σ²."""

    def mix(value: NDArray[np.float64], w: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.tensordot(w, value, axes=1)[None]

    return {
        key: np.sqrt(mix(value**2, weights**2)) if key == "std" else mix(value, weights)
        for key, value in exported.items()
    }


@over_cases
@over_dtypes
def test_combine_is_the_rule_of_the_design(case: Case, dtype: torch.dtype) -> None:
    family = case.build(dtype)
    combined = family.combine(family.natural(), WEIGHTS.to(dtype))
    ours = numbers(family.export(combined))
    expected = combined_by_hand(numbers(family.export(family.natural())), WEIGHTS.numpy())
    assert set(ours) == set(expected) == set(family.exported)
    exact = 1e-12 if dtype == torch.float64 else 3e-6
    for key, value in expected.items():
        assert ours[key].shape == value.shape
        # Means of both signs may cancel.
        np.testing.assert_allclose(ours[key], value, rtol=exact, atol=exact * np.abs(value).max())


@over_cases
@over_dtypes
def test_combining_one_level_is_the_identity(case: Case, dtype: torch.dtype) -> None:
    family = case.build(dtype)
    natural = family.natural()
    for level in range(LEVELS):
        alone = at_level(natural, level)
        combined = family.combine(alone, torch.ones(1, dtype=dtype))
        for key, value in combined.items():
            torch.testing.assert_close(value, alone[key], rtol=2 * torch.finfo(dtype).eps, atol=0)


@over_families
def test_a_level_of_weight_zero_is_ignored(case: Case) -> None:
    """Learned weights are a softmax, which may underflow: values and gradients must stay finite."""
    family = case.build()
    natural = {key: value.detach().requires_grad_() for key, value in family.natural().items()}
    weights = torch.tensor([0.6, 0.4, 0.0], dtype=torch.float64, requires_grad=True)
    combined = family.combine(natural, weights)
    first_two = family.combine({key: value[:2] for key, value in natural.items()}, weights[:2])
    for key, value in combined.items():
        torch.testing.assert_close(value, first_two[key])
    torch.stack([value.sum() for value in combined.values()]).sum().backward()
    for leaf in (weights, *natural.values()):
        assert leaf.grad is not None
        assert torch.isfinite(leaf.grad).all()


@over_families
def test_a_combined_level_is_a_level_like_any_other(case: Case) -> None:
    family = case.build()
    natural = family.natural()
    combined = family.combine(natural, WEIGHTS)
    stacked = with_level(natural, combined)
    x = torch.from_numpy(values(case, family))
    below, above = family.log_density(natural, x), family.log_density(combined, x)
    torch.testing.assert_close(family.log_density(stacked, x), torch.cat([below, above]), rtol=1e-13, atol=1e-13)
    for level in (-1, LEVELS):
        alone = at_level(stacked, level)
        assert all(torch.equal(alone[key], combined[key]) for key in alone)
    with torch.no_grad():
        assert family.sample(stacked, 2, generator()).shape == (2, LEVELS + 1, LEAVES)
