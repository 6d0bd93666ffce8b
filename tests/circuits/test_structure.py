"""Circuits as they are written: orders, sharing by identity, JSON, and the circuits that the library builds itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gspn.attributes import Binary, Continuous, Count, Schema
from gspn.circuits import Leaf, Product, Sum, Unit, check_circuit, naive_bayes, random_circuit
from gspn.circuits.structure import bottom_up, circuit_from_json, circuit_to_json, walk
from gspn.errors import CircuitError, InputError


def schema_of(size: int) -> Schema:
    kinds = (Continuous, Binary, Count)
    return Schema([kinds[i % 3](f"x{i}") for i in range(size)])


def shape(root: Unit) -> Any:
    """A circuit as nested tuples with a number for every unit, so that equal means the same units shared alike."""
    numbers: dict[int, int] = {}

    def describe(unit: Unit) -> Any:
        known = id(unit) in numbers
        number = numbers.setdefault(id(unit), len(numbers))
        if known:
            return number
        what = unit.attributes[0] if isinstance(unit, Leaf) else type(unit).__name__
        return (number, what, *(describe(child) for child in unit.children))

    return describe(root)


@st.composite
def units(draw: st.DrawFn) -> Unit:
    """Any directed acyclic structure, valid as a template or not: every unit takes earlier ones as children."""
    made: list[Unit] = [Leaf(name) for name in draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=4))]
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from([Sum, Product]))
        made.append(kind(*draw(st.lists(st.sampled_from(made), min_size=1, max_size=3))))
    return made[-1]


@st.composite
def random_circuits(draw: st.DrawFn) -> tuple[Schema, int, dict[str, int]]:
    num_states = draw(st.integers(1, 5))
    arguments = {
        "depth": draw(st.integers(0, 4)),
        "repetitions": draw(st.integers(1, num_states)),
        "seed": draw(st.integers(0, 2**31)),
    }
    return schema_of(draw(st.integers(1, 9))), num_states, arguments


# Orders and sharing.


def test_units_come_in_the_order_in_which_they_are_written() -> None:
    a, b, c, d = (Leaf(name) for name in "abcd")
    inner = Sum(c, d)
    left, right = Product(a, inner), Product(b, inner)
    root = Sum(left, right)
    assert list(walk(root)) == [root, left, a, inner, c, d, right, b]
    assert bottom_up(root) == [a, c, d, inner, left, b, right, root]


@given(units())
def test_every_order_has_every_unit_once(root: Unit) -> None:
    down, up = list(walk(root)), bottom_up(root)
    assert len({id(unit) for unit in down}) == len(down) == len(up)
    assert {id(unit) for unit in down} == {id(unit) for unit in up}
    assert all(id(child) in {id(unit) for unit in down} for unit in down for child in unit.children)
    position = {id(unit): i for i, unit in enumerate(up)}
    assert all(position[id(child)] < position[id(unit)] for unit in up for child in unit.children)
    assert down[0] is up[-1] is root
    # A unit is met before its children at least once: some parent precedes it.
    seen: set[int] = {id(root)}
    for unit in down:
        assert id(unit) in seen
        seen.update(id(child) for child in unit.children)


def test_deep_circuits_do_not_exhaust_the_stack() -> None:
    root: Unit = Leaf("a")
    for _ in range(5000):
        root = Sum(root)
    assert len(bottom_up(root)) == len(list(walk(root))) == 5001
    assert len(list(walk(circuit_from_json(circuit_to_json(root))))) == 5001


def test_sharing_is_by_identity() -> None:
    one = Leaf("a")
    assert len(list(walk(Sum(one, one)))) == 2
    assert len(list(walk(Sum(Leaf("a"), Leaf("a"))))) == 3
    assert Leaf("a") != Leaf("a")


def test_what_is_no_unit_is_refused() -> None:
    with pytest.raises(CircuitError, match="a Sum needs at least one child"):
        Sum()
    with pytest.raises(CircuitError, match="a Product needs at least one child"):
        Product()
    with pytest.raises(CircuitError, match="child 1 of a Product must be a Sum, Product or Leaf, got 'b'"):
        Product(Leaf("a"), "b")  # type: ignore[arg-type]
    with pytest.raises(CircuitError, match="Leaf takes the name of an attribute, or several, got 3"):
        Leaf(3)  # type: ignore[arg-type]


def test_repr_reads_like_the_code_that_made_it() -> None:
    assert repr(Sum(Product(Leaf("a"), Leaf("b")), Leaf("c"))) == "Sum(Product(Leaf('a'), Leaf('b')), Leaf('c'))"
    assert repr(Sum(*(Leaf("a") for _ in range(9)))) == "Sum(Leaf('a'), Leaf('a'), Leaf('a'), …)"


# JSON.


@given(units())
def test_json_round_trip_keeps_structure_and_sharing(root: Unit) -> None:
    text = json.dumps(circuit_to_json(root))
    assert shape(circuit_from_json(json.loads(text))) == shape(root)


LEAF = {"kind": "leaf", "attribute": "a"}
REFUSED: dict[str, tuple[Any, str]] = {
    "nothing": ([], "empty"),
    "unknown kind": ([LEAF, {"kind": "max", "children": [0]}], "unit 1 .*not understood.*max"),
    "no kind": ([{"attribute": "a"}], "unit 0 .*not understood"),
    "leaf without attribute": ([{"kind": "leaf"}], "unit 0 .*not understood"),
    "leaf with children": ([{**LEAF, "children": []}], "unit 0 .*not understood"),
    "surplus key": ([LEAF, {"kind": "sum", "children": [0], "weights": [1]}], "unit 1 .*not understood.*weights"),
    "attribute that is no name": (
        [{"kind": "leaf", "attribute": 3}],
        "Leaf takes the name of an attribute, or several, got 3",
    ),
    "no children": ([{"kind": "sum", "children": []}], "a Sum needs at least one child"),
    "child that comes later": ([LEAF, {"kind": "sum", "children": [0, 2]}, LEAF], "unit 1 .*does not come before"),
    "its own child": ([LEAF, {"kind": "sum", "children": [1]}], "unit 1 .*does not come before"),
    "child with a negative number": ([LEAF, {"kind": "sum", "children": [-1]}], "unit 1 .*does not come before"),
    "child that is not a number": ([LEAF, {"kind": "product", "children": ["0"]}], "unit 1 .*does not come before"),
    "child that is a truth value": ([LEAF, LEAF, {"kind": "product", "children": [True]}], "unit 2 "),
    "children that are no list": ([LEAF, {"kind": "product", "children": 0}], "unit 1 "),
    "unit that is no object": (["leaf"], "unit 0 "),
    "kind that is no text": ([LEAF, {"kind": ["sum"], "children": [0]}], "unit 1 .*not understood"),
    "no list at all": ({"kind": "leaf", "attribute": "a"}, "stored circuit"),
}


@pytest.mark.parametrize(("listed", "reason"), REFUSED.values(), ids=REFUSED)
def test_json_that_is_not_understood_is_refused(listed: Any, reason: str) -> None:
    """Files come from anywhere: always the library's own error, with the unit."""
    with pytest.raises(CircuitError, match=reason):
        circuit_from_json(listed)


# Circuits that the library builds.


def test_naive_bayes_is_one_sum_over_products_of_leaves() -> None:
    root = naive_bayes(schema_of(3), 2)
    names = ["x0", "x1", "x2"]
    expected = Sum(Product(*map(Leaf, names)), Product(*map(Leaf, names)))
    assert shape(root) == shape(expected)
    assert shape(naive_bayes(schema_of(1), 3)) == shape(Sum(Leaf("x0"), Leaf("x0"), Leaf("x0")))


@given(st.integers(1, 6), st.integers(1, 6))
def test_naive_bayes_is_valid(size: int, num_states: int) -> None:
    check_circuit(naive_bayes(schema_of(size), num_states), schema_of(size), num_states)


@given(random_circuits())
def test_random_circuits_are_valid_and_reproducible(case: tuple[Schema, int, dict[str, int]]) -> None:
    schema, num_states, arguments = case
    root = random_circuit(schema, num_states, **arguments)
    check_circuit(root, schema, num_states)
    assert shape(random_circuit(schema, num_states, **arguments)) == shape(root)


def test_random_circuits_grow_with_depth_and_repetitions() -> None:
    """Inner sums appear with depth 2; a second repetition splits the attributes in a second way."""
    schema = schema_of(8)

    def sums(root: Unit) -> int:
        return sum(isinstance(unit, Sum) for unit in walk(root))

    def first_splits(root: Unit) -> set[frozenset[str]]:
        return {
            frozenset(unit.attributes[0] for unit in walk(product.children[0]) if isinstance(unit, Leaf))
            for product in root.children
        }

    by_depth = [sums(random_circuit(schema, 3, depth=depth)) for depth in range(4)]
    assert by_depth[:2] == [1, 1]
    assert 1 < by_depth[2] < by_depth[3]
    once, twice = (random_circuit(schema, 4, depth=2, repetitions=r) for r in (1, 2))
    assert len(first_splits(once)) == 1
    assert len(first_splits(twice)) == 2


def test_depth_beyond_the_attributes_changes_nothing() -> None:
    schema = schema_of(4)
    assert shape(random_circuit(schema, 2, depth=2, seed=3)) == shape(random_circuit(schema, 2, depth=9, seed=3))


def test_different_seeds_give_different_circuits() -> None:
    """Of 8 attributes there are 70 ordered halves alone: ten seeds that agree would be no accident."""
    assert len({shape(random_circuit(schema_of(8), 3, seed=seed)) for seed in range(10)}) == 10


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"repetitions": 0}, "repetitions must be between 1 and num_states = 3, got 0"),
        ({"repetitions": 4}, "repetitions must be between 1 and num_states = 3, got 4"),
        ({"depth": -1}, "depth must be at least 0, got -1"),
    ],
)
def test_arguments_of_random_circuits_are_checked(arguments: dict[str, int], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        random_circuit(schema_of(3), 3, **arguments)
