"""Every way in which a circuit can be no template, with a message that names the unit and the reason."""

from __future__ import annotations

from typing import Any

import pytest

from gspn.attributes import Binary, Categorical, Continuous, Schema
from gspn.circuits import Leaf, Product, Sum, Unit, check_circuit
from gspn.errors import CircuitError, GSPNError

SCHEMA = Schema([Continuous("charge"), Categorical("element", ["C", "N"]), Binary("aromatic")])


def everything() -> Product:
    return Product(Leaf("charge"), Leaf("element"), Leaf("aromatic"))


def mixture(*names: str) -> Sum:
    return Sum(*(Product(*map(Leaf, names)) if len(names) > 1 else Leaf(names[0]) for _ in range(2)))


SHARED = mixture("element", "aromatic")
VALID: dict[str, Unit] = {
    "naive Bayes": Sum(everything(), everything()),
    "inner sums": Sum(*(Product(Leaf("charge"), mixture("element", "aromatic")) for _ in range(2))),
    "shared unit": Sum(Product(Leaf("charge"), SHARED), Product(Leaf("charge"), SHARED)),
    "product of sums": Product(mixture("charge"), mixture("element"), Leaf("aromatic")),
    "sum of a sum": Sum(Sum(everything(), everything()), everything()),
    "product with one child": Sum(Product(everything()), everything()),
    "twice the same child": Sum(*[everything()] * 2),
}

INVALID: dict[str, tuple[Unit, str]] = {
    "sum not smooth": (
        Sum(everything(), Product(Leaf("charge"), Leaf("element"))),
        r"^Sum 0 is not smooth: its child Product 0 covers 'aromatic', 'charge', 'element', "
        r"its child Product 1 covers 'charge', 'element'$",
    ),
    "inner sum not smooth": (
        Sum(everything(), Product(Leaf("charge"), Sum(Leaf("element"), Leaf("aromatic")))),
        r"^Sum 1 is not smooth: its child Leaf 4 \('element'\) covers 'element', "
        r"its child Leaf 5 \('aromatic'\) covers 'aromatic'$",
    ),
    "product not decomposable": (
        Sum(everything(), Product(Leaf("charge"), Leaf("element"), Leaf("charge"))),
        r"^Product 1 is not decomposable: its children Leaf 3 \('charge'\) and Leaf 5 \('charge'\) "
        r"both cover 'charge'$",
    ),
    "product of overlapping sums": (
        Product(mixture("charge", "element"), mixture("element", "aromatic")),
        r"^Product 0 is not decomposable: its children Sum 0 and Sum 1 both cover 'element'$",
    ),
    "product with the same child twice": (
        Product(*[Sum(everything(), everything())] * 2),
        r"^Product 0 is not decomposable: its children Sum 0 and Sum 0 both cover 'aromatic'$",
    ),
    "too few children": (
        Sum(everything()),
        r"^Sum 0 has the wrong number of children: 1 instead of num_states = 2$",
    ),
    "too many children, inside": (
        Product(mixture("charge"), Sum(*(Leaf("element") for _ in range(3))), Leaf("aromatic")),
        r"^Sum 1 has the wrong number of children: 3 instead of num_states = 2$",
    ),
    "unknown attribute": (
        Sum(everything(), Product(everything(), Leaf("mass"))),
        r"^Leaf 6 \('mass'\): the schema has no attribute 'mass', only .*'charge', 'element', 'aromatic'",
    ),
    "uncovered attributes": (
        Product(mixture("charge")),
        r"^Product 0 is the root but does not cover the attributes 'aromatic', 'element'$",
    ),
    "no sum": (everything(), r"^Product 0: a template needs at least one Sum, else no state could be passed on$"),
}


@pytest.mark.parametrize("root", VALID.values(), ids=VALID)
def test_valid_circuits_pass(root: Unit) -> None:
    check_circuit(root, SCHEMA, 2)


@pytest.mark.parametrize(("root", "message"), INVALID.values(), ids=INVALID)
def test_invalid_circuits_are_refused_with_unit_and_reason(root: Unit, message: str) -> None:
    with pytest.raises(CircuitError, match=message) as caught:
        check_circuit(root, SCHEMA, 2)
    assert isinstance(caught.value, GSPNError)


@pytest.mark.parametrize("thing", ["naive Bayes", None, Sum, 3], ids=repr)
def test_what_is_no_unit_is_refused(thing: Any) -> None:
    with pytest.raises(CircuitError, match="a template is built of Sum, Product and Leaf units, got"):
        check_circuit(thing, SCHEMA, 2)


def test_a_leaf_alone_is_no_template() -> None:
    with pytest.raises(CircuitError, match=r"Leaf 0 \('x'\): a template needs at least one Sum"):
        check_circuit(Leaf("x"), Schema([Binary("x")]), 2)


def test_a_unit_of_no_kind_is_refused() -> None:
    """The base class is no unit that computes anything, even beside proper ones."""
    schema = Schema([Binary("x")])
    root = Product(Sum(Leaf("x"), Leaf("x")), Unit())
    with pytest.raises(CircuitError, match="Unit 0"):
        check_circuit(root, schema, 2)


def test_the_first_fault_from_below_is_named() -> None:
    """A fault below often causes one above; the message points at the cause."""
    broken = Product(Leaf("charge"), Leaf("charge"))
    with pytest.raises(CircuitError, match="Product 1 is not decomposable"):
        check_circuit(Sum(everything(), broken, everything()), SCHEMA, 2)


def test_every_child_of_a_sum_is_checked() -> None:
    """The last of many, too."""
    root = Sum(everything(), everything(), everything(), Product(Leaf("charge"), Leaf("aromatic")))
    with pytest.raises(CircuitError, match=r"Sum 0 is not smooth: .*, its child Product 3 covers 'aromatic', 'charge'"):
        check_circuit(root, SCHEMA, 4)


def test_every_number_of_states_is_checked_against_the_sums() -> None:
    root = Sum(everything(), everything(), everything())
    check_circuit(root, SCHEMA, 3)
    for num_states in (1, 2, 4):
        with pytest.raises(CircuitError, match=f"3 instead of num_states = {num_states}"):
            check_circuit(root, SCHEMA, num_states)
