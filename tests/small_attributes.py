"""Attributes and schemas as hypothesis draws them, and comparisons as strict as users' eyes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from refusals import naming

from gspn.attributes import Attribute, Binary, Categorical, Continuous, Count, Schema
from gspn.errors import InputError

ELEMENT = Categorical("element", ["C", "N", "O", "Cl"])
SCHEMA = Schema([ELEMENT, Continuous("charge"), Binary("aromatic"), Count("hydrogens")])

finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.one_of(st.text(), st.integers(), finite, st.booleans())
names = st.text(min_size=1)


@st.composite
def categoricals(draw: st.DrawFn) -> Categorical:
    return Categorical(draw(names), draw(st.lists(scalars, min_size=1, max_size=8, unique=True)))


attributes: st.SearchStrategy[Attribute] = st.one_of(
    st.builds(Continuous, names, st.floats(min_value=1e-9, max_value=10)),
    categoricals(),
    st.builds(Binary, names),
    st.builds(Count, names, st.sampled_from(["poisson", "negative_binomial"])),
)
schemas = st.lists(attributes, min_size=1, max_size=5, unique_by=lambda attribute: attribute.name).map(Schema)


def values_of(attribute: Attribute) -> st.SearchStrategy[Any]:
    if isinstance(attribute, Categorical):
        return st.sampled_from(attribute.categories)
    if isinstance(attribute, Count):
        return st.integers(0, 2**53 - 1)
    return st.booleans() if isinstance(attribute, Binary) else finite


def same(first: list[Any], second: list[Any]) -> bool:
    """Equal values of equal types: 1, 1.0 and True are three things here."""
    return first == second and list(map(type, first)) == list(map(type, second))


def raises(message: str, call: Callable[..., object], *arguments: Any, **named: Any) -> None:
    """The call is refused with this message; two dots by themselves stand for anything."""
    with pytest.raises(InputError) as caught:
        call(*arguments, **named)
    assert re.search(naming(message), caught.value.told)
