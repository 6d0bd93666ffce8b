"""Parameters in the users' units: what is assigned is exported, and what is impossible is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from seeded import generator
from small_leaves import CASES, LEAVES, LEVELS, SHARP, Case, over_cases, over_dtypes, over_families

from gspn.circuits.leaves.negative_binomial import LEAST_DISPERSION
from gspn.errors import InputError


@over_cases
@over_dtypes
def test_what_is_assigned_is_exported(case: Case, dtype: torch.dtype) -> None:
    family = case.build(dtype)
    exported = family.export(family.natural())
    assert tuple(exported) == family.exported
    # Float32 keeps logarithms: an error of 6e-8 times their size, up to 10 here.
    exact = 1e-12 if dtype == torch.float64 else 2e-6
    for key, value in case.parameters().items():
        assert exported[key].dtype == torch.float64
        torch.testing.assert_close(exported[key].detach(), value, rtol=exact, atol=0)
    again = case.empty(dtype)
    again.assign(again.check_exported(exported, LEVELS))
    for key, value in again.export(again.natural()).items():
        torch.testing.assert_close(value, exported[key], rtol=exact, atol=0)


@over_families
def test_lists_and_arrays_are_assigned_as_well(case: Case) -> None:
    """In full precision: numbers written in Python are float64."""
    family = case.empty()
    lists: dict[str, Any] = case.exported
    arrays: dict[str, Any] = {key: np.array(value, dtype=np.float64) for key, value in lists.items()}
    for given in (arrays, lists):
        family.assign(family.check_exported(given, LEVELS))
        for key, value in family.export(family.natural()).items():
            np.testing.assert_allclose(value.detach().numpy(), arrays[key], rtol=1e-12)


@over_families
def test_wrong_names_and_shapes_are_refused(case: Case) -> None:
    family = case.empty()
    good = case.parameters()
    first = family.exported[0]
    name = f"'{case.attribute.name}'"
    with pytest.raises(InputError, match=f"{name}.*{first}"):
        family.check_exported({}, LEVELS)
    with pytest.raises(InputError, match=f"{name}.*surplus"):
        family.check_exported({**good, "surplus": good[first]}, LEVELS)
    renamed = {f"{key}s": value for key, value in good.items()}
    with pytest.raises(InputError, match=f"{name}.*{first}"):
        family.check_exported(renamed, LEVELS)
    for key, value in good.items():
        for wrong in (value[:-1], value[:, :1], value.unsqueeze(-1), value.flatten()):
            with pytest.raises(InputError, match=rf"{name}: '{key}' has shape .* instead of \[{LEVELS}, {LEAVES}"):
                family.check_exported({**good, key: wrong}, LEVELS)
    with pytest.raises(InputError, match=rf"{name}.*shape .* instead of \[{LEVELS + 1}, {LEAVES}"):
        family.check_exported(good, LEVELS + 1)


@over_families
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_parameters_that_are_not_finite_are_refused(case: Case, bad: float) -> None:
    family = case.empty()
    for key, value in case.parameters().items():
        value.view(-1)[-1] = bad
        with pytest.raises(InputError, match=f"'{case.attribute.name}': '{key}' must be finite"):
            family.check_exported({**case.parameters(), key: value}, LEVELS)


IMPOSSIBLE: list[tuple[str, str, list[Any]]] = [
    ("gaussian in units of the data", "std", [0.0, -1.0, 2.4e-3]),  # the floor is 1e-3 of 2.5
    ("gaussian, sharp", "std", [0.99 * 3 * SHARP]),
    ("categorical", "probs", [[-0.1, 0.6, 0.5], [0.2, 0.3, 0.49], [0.5, 0.5, 0.5], [0.0, 0.0, 0.0]]),
    ("bernoulli", "probs", [-1e-3, 1.001]),
    ("poisson", "rate", [-1e-9]),
    ("negative binomial", "mean", [-1e-9]),
    ("negative binomial", "dispersion", [-1.0, 0.0, 0.5 * LEAST_DISPERSION]),
]


@pytest.mark.parametrize(("name", "key", "wrongs"), IMPOSSIBLE, ids=[f"{name}: {key}" for name, key, _ in IMPOSSIBLE])
def test_impossible_parameters_are_refused_and_nothing_is_set(name: str, key: str, wrongs: list[Any]) -> None:
    case = next(case for case in CASES if case.name == name)
    family = case.build()
    before = {name: p.detach().clone() for name, p in family.named_parameters()}
    for wrong in wrongs:
        given = case.parameters()
        given[key][-1, -1] = torch.tensor(wrong, dtype=torch.float64)
        with pytest.raises(InputError, match=f"'{case.attribute.name}': '{key}' must be"):
            family.assign(family.check_exported(given, LEVELS))
        assert all(torch.equal(p, before[name]) for name, p in family.named_parameters())


BOUNDARY: list[tuple[str, dict[str, float | list[float]]]] = [
    ("gaussian in units of the data", {"std": 2.5e-3}),
    ("categorical", {"probs": [0.0, 1.0, 0.0]}),
    ("bernoulli", {"probs": 0.0}),
    ("bernoulli", {"probs": 1.0}),
    ("poisson", {"rate": 0.0}),
    ("negative binomial", {"mean": 0.0}),
    ("negative binomial", {"dispersion": LEAST_DISPERSION}),
    ("negative binomial", {"mean": 0.0, "dispersion": LEAST_DISPERSION}),
]


@over_dtypes
@pytest.mark.parametrize(("name", "extreme"), BOUNDARY, ids=lambda value: str(value))
def test_the_least_allowed_parameters_stay_finite(
    name: str, extreme: dict[str, float | list[float]], dtype: torch.dtype
) -> None:
    """Certain events and impossible ones: representable, nothing infinite, gradients neither."""
    case = next(case for case in CASES if case.name == name)
    family = case.empty(dtype)
    given = case.parameters()
    for key, least in extreme.items():
        given[key][:] = torch.tensor(least, dtype=torch.float64)
    family.assign(family.check_exported(given, LEVELS))
    natural = family.natural()
    for key, value in family.export(natural).items():
        torch.testing.assert_close(value.detach(), given[key], rtol=2e-6, atol=1e-30)
    x = torch.tensor([-40.0, -30.0] if case.continuous else [0.0, 1.0], dtype=torch.float64)
    log_density = family.log_density(natural, x)
    log_density.sum().backward()
    assert torch.isfinite(log_density).all()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in family.parameters())
    with torch.no_grad():
        draws = family.sample(natural, 5, generator())
        assert torch.isfinite(draws).all()
        assert torch.isfinite(family.mode(natural)).all()
