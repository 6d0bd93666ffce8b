"""Learned parameters in the users' form and back: probabilities, leaves by attribute, units of continuous columns.

Shared by the levels of a hierarchy and its readout. Which parameters there are is their own business; here is how each
kind is checked and set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gspn.circuits.leaves import GaussianLeaves, Leaves, Natural
from gspn.circuits.leaves.contract import as_mapping, as_numbers
from gspn.circuits.numerics import log_positive
from gspn.errors import InputError


def take_units(families: Sequence[Leaves], x: Tensor, what: str, where: str) -> None:
    """Take the units of continuous columns from rows x [n, d]; every column must be observed somewhere.

    `what` and `where` name columns and rows in messages.
    """
    for family, column in zip(families, x.unbind(1), strict=True):
        name, known = family.attribute.name, column[~torch.isnan(column)]
        if not len(known):
            raise InputError(f"{what} '{name}' is missing {where}; nothing can be learned of it")
        if isinstance(family, GaussianLeaves):
            family.standardise(known)
            if not math.isfinite(family.spread):
                largest = known[known.abs().argmax()].item()
                raise InputError(f"{what} '{name}': values as large as {largest:g} cannot be squared")


def export_leaves(families: Sequence[Leaves], naturals: Sequence[Natural]) -> dict[str, Natural]:
    pairs = zip(families, naturals, strict=True)
    return {family.attribute.name: family.export(natural) for family, natural in pairs}


def export_units(families: Sequence[Leaves]) -> dict[str, Tensor]:
    """[centre, spread] by continuous attribute."""
    return {
        family.attribute.name: torch.tensor([family.center, family.spread], dtype=torch.float64)
        for family in families
        if isinstance(family, GaussianLeaves)
    }


def assign_probabilities(raw: Tensor, name: str, value: Any) -> None:
    """Set logits so that their softmax over the last dimension is the given probabilities."""
    probabilities = as_numbers(name, value).to(raw)
    if probabilities.shape != raw.shape:
        raise InputError(f"{name} has shape {list(probabilities.shape)} instead of {list(raw.shape)}")
    total = probabilities.sum(-1)
    if bool((probabilities < 0).any()) or not torch.allclose(total, torch.ones_like(total), atol=1e-5):
        raise InputError(f"{name} must be non-negative and sum to 1 over its last dimension")
    with torch.no_grad():
        raw.copy_(log_positive(probabilities))


def assign_leaves(
    families: Sequence[Leaves], leaves: Mapping[str, Any], units: Mapping[str, Any], num_levels: int, fitted: bool
) -> dict[str, Natural]:
    """Set leaves by attribute; gives what was given, checked.

    `num_levels` rows may be given also where a family has fewer of its own: with a shortcut the root's row follows from
    the others.
    """
    names = [family.attribute.name for family in families]
    if set(leaves) != set(names):
        raise InputError(f"'leaves' must have the attributes {names}, got {sorted(map(str, leaves))}")
    continuous = [family.attribute.name for family in families if isinstance(family, GaussianLeaves)]
    if not set(units) <= set(continuous):
        raise InputError(f"'units' are for the continuous attributes {continuous}, got {sorted(map(str, units))}")
    checked = {}
    for family in families:
        name = family.attribute.name
        values = as_mapping(f"leaves of '{name}'", leaves[name])
        given = checked[name] = family.check_exported(values, family.num_levels, num_levels)
        if isinstance(family, GaussianLeaves):
            _set_units(family, given, units.get(name), fitted)
        family.assign({key: value[: family.num_levels] for key, value in given.items()})
    return checked


def _set_units(family: GaussianLeaves, given: Natural, units: Any, fitted: bool) -> None:
    name = family.attribute.name
    if units is not None:
        numbers = as_numbers(f"units of '{name}'", units)
        center, spread = numbers.tolist() if numbers.shape == (2,) else (math.nan, math.nan)
        if not (math.isfinite(center) and math.isfinite(spread) and spread > 0):
            raise InputError(f"units of '{name}' must be a finite centre and a positive spread, got {numbers.tolist()}")
        family.center, family.spread = center, spread
    elif not fitted:
        # No data seen: measure in the sharpest given state, so that no given deviation falls below the floor.
        if bool((given["std"] <= 0).any()):
            raise family.refuse("std", "positive")
        family.center, family.spread = given["mean"].mean().item(), given["std"].min().item()
