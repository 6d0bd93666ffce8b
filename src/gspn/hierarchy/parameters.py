"""Learned parameters in the users' form and back: probabilities, leaves by attribute, units of continuous columns.

Shared by the levels of a hierarchy and its readout. Which parameters there are is their own business; here is how each
kind is checked and set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gspn.circuits.leaves import Leaves, Natural
from gspn.circuits.leaves.contract import as_mapping, as_numbers
from gspn.circuits.numerics import log_positive
from gspn.errors import InputError


def take_units(families: Sequence[Leaves], scopes: Sequence[tuple[int, ...]], x: Tensor, what: str, where: str) -> None:
    """Take the units of families from the columns of rows x [n, d]; every column must be observed somewhere.

    `what` and `where` name columns and rows in messages.
    """
    for family, scope in zip(families, scopes, strict=True):
        for attribute, column in zip(family.scope, scope, strict=True):
            if bool(torch.isnan(x[:, column]).all()):
                raise InputError(f"{what} '{attribute.name}' is missing {where}; nothing can be learned of it")
        try:
            family.set_units(x[:, list(scope)])
        except InputError as error:
            raise InputError(f"{what} {error}") from None


def export_leaves(families: Sequence[Leaves], naturals: Sequence[Natural]) -> dict[str | tuple[str, ...], Natural]:
    """By attribute, or by several that have leaves in common; copies, also where a family gives what it learns."""
    exported = ((family.key, family.export(natural)) for family, natural in zip(families, naturals, strict=True))
    return {key: {name: value.detach().clone() for name, value in own.items()} for key, own in exported}


def export_units(families: Sequence[Leaves]) -> dict[str, Tensor]:
    """[centre, spread] by attribute, for those that are measured in units of the data."""
    return {name: units for family in families for name, units in family.units().items()}


def atoms_of(families: Sequence[Leaves]) -> dict[str, Tensor]:
    """Values that have a mass of their own, by attribute."""
    return {name: values for family in families for name, values in family.atoms().items()}


def check_like(what: str, given: Any, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Given numbers by name, all finite, with the names and shapes of others; `what` they belong to."""
    values = as_mapping(f"parameters of {what}", given)
    if set(values) != set(like):
        raise InputError(f"parameters of {what} are {sorted(like)}, got {sorted(map(str, values))}")
    checked = {key: as_numbers(f"'{key}' of {what}", value) for key, value in values.items()}
    for key, value in checked.items():
        if value.shape != like[key].shape:
            raise InputError(f"'{key}' of {what} has shape {list(value.shape)} instead of {list(like[key].shape)}")
        if not bool(torch.isfinite(value).all()):
            raise InputError(f"'{key}' of {what} must be finite")
    return checked


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
    families: Sequence[Leaves], leaves: Mapping[Any, Any], units: Mapping[Any, Any], num_levels: int, fitted: bool
) -> dict[str | tuple[str, ...], Natural]:
    """Set leaves by attribute; gives what was given, checked.

    `num_levels` rows may be given also where a family has fewer of its own: with a shortcut the root's row follows from
    the others.
    """
    keys = [family.key for family in families]
    if set(leaves) != set(keys):
        raise InputError(f"'leaves' must have the attributes {keys}, got {sorted(map(str, leaves))}")
    measured = list(export_units(families))
    if not set(units) <= set(measured):
        raise InputError(f"'units' are for the continuous attributes {measured}, got {sorted(map(str, units))}")
    checked = {}
    for family in families:
        values = as_mapping(f"leaves of {family.named()}", leaves[family.key])
        given = checked[family.key] = family.check_exported(values, family.num_levels, num_levels)
        own = {attribute.name for attribute in family.scope}
        family.assign_units({name: value for name, value in units.items() if name in own}, given, fitted)
        family.assign({key: value[: family.num_levels] for key, value in given.items()})
    return checked
