"""Every way in which a circuit can be no template, with a message that names the unit and the reason."""

from __future__ import annotations

from typing import Any

import pytest

from gspn.attributes import Binary, Categorical, Continuous, Schema
from gspn.circuits import Leaf, Product, Sum, Unit, check_circuit
from gspn.errors import CircuitError

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

NOT_DECOMPOSABLE = Product(Leaf("charge"), Leaf("charge"))
OF_TWO = Product(Leaf("charge"), Leaf("element"))
SWAPPED = Product(Leaf("charge"), Sum(Leaf("element"), Leaf("aromatic")))

INVALID: list[tuple[Unit, str]] = [
    (
        Sum(everything(), OF_TWO),
        "^Sum 0 is not smooth: .*Product 0 covers .*Product 1 covers 'charge', 'element'$",
    ),
    (Sum(everything(), SWAPPED), r"^Sum 1 is not smooth: .*Leaf 4 \('element'\) covers .*Leaf 5 \('aromatic'\) covers"),
    (Sum(everything(), Product(OF_TWO, Leaf("charge"))), r"^Product 1 is not decomposable: .*both cover 'charge'$"),
    (Product(mixture("charge", "element"), mixture("element", "aromatic")), "Sum 0 and Sum 1 both cover 'element'$"),
    (Product(*[Sum(everything(), everything())] * 2), "Sum 0 and Sum 0 both cover 'aromatic'$"),
    (Sum(everything(), NOT_DECOMPOSABLE), "Product 1 is not decomposable"),  # a fault below often causes one above
    (Sum(everything()), "^Sum 0 has the wrong number of children: 1 instead of num_states = 2$"),
    (
        Product(mixture("charge"), Sum(*map(Leaf, ["element"] * 3)), Leaf("aromatic")),
        "^Sum 1 .*: 3 instead of .* 2$",
    ),
    (
        Sum(everything(), Product(everything(), Leaf("mass"))),
        r"^Leaf 6 \('mass'\): .*only .*'element', 'aromatic'",
    ),
    (Product(mixture("charge")), "^Product 0 is the root but does not cover the attributes 'aromatic', 'element'$"),
    (everything(), "^Product 0: a template needs at least one Sum"),
    (Sum(everything(), Product(OF_TWO, Unit())), "Unit 0"),  # the base class computes nothing, even beside proper ones
]


@pytest.mark.parametrize("root", VALID.values(), ids=VALID)
def test_valid_circuits_pass(root: Unit) -> None:
    check_circuit(root, SCHEMA, 2)


@pytest.mark.parametrize(("root", "named"), INVALID, ids=[named for _, named in INVALID])
def test_invalid_circuits_are_refused_with_unit_and_reason(root: Unit, named: str) -> None:
    with pytest.raises(CircuitError, match=named):
        check_circuit(root, SCHEMA, 2)


@pytest.mark.parametrize("thing", ["naive Bayes", None, Sum, 3], ids=repr)
def test_what_is_no_unit_is_refused(thing: Any) -> None:
    with pytest.raises(CircuitError, match="a template is built of Sum, Product and Leaf units, got"):
        check_circuit(thing, SCHEMA, 2)


def test_a_leaf_alone_is_no_template() -> None:
    with pytest.raises(CircuitError, match=r"Leaf 0 \('x'\): a template needs at least one Sum"):
        check_circuit(Leaf("x"), Schema([Binary("x")]), 2)


def test_every_child_of_a_sum_is_checked() -> None:
    """The last of many, too."""
    root = Sum(everything(), everything(), everything(), Product(Leaf("charge"), Leaf("aromatic")))
    with pytest.raises(CircuitError, match=r"Sum 0 is not smooth: .*Product 3 covers 'aromatic', 'charge'"):
        check_circuit(root, SCHEMA, 4)


def test_every_number_of_states_is_checked_against_the_sums() -> None:
    root = Sum(everything(), everything(), everything())
    check_circuit(root, SCHEMA, 3)
    for num_states in (1, 2, 4):
        with pytest.raises(CircuitError, match=f"3 instead of num_states = {num_states}"):
            check_circuit(root, SCHEMA, num_states)
