"""Which circuits are valid templates: smooth, decomposable, complete, and every sum with exactly C children.

These are the conditions under which marginals are exact with one pass; a circuit that breaks one is refused with the
unit and the reason, never repaired.
"""

from __future__ import annotations

from gspn.attributes import Schema
from gspn.circuits.structure import Leaf, Product, Sum, Unit, bottom_up, walk
from gspn.errors import CircuitError


def check_circuit(root: Unit, schema: Schema, num_states: int) -> None:
    """Raise a CircuitError unless `root` is a valid template for the schema with `num_states` states a sum."""
    if not isinstance(root, Unit):
        raise CircuitError(f"a template is built of Sum, Product and Leaf units, got {root!r}")
    names = _names(root)
    scopes: dict[int, frozenset[str]] = {}
    for unit in bottom_up(root):
        name = names[id(unit)]
        if isinstance(unit, Leaf):
            for attribute in unit.attributes:
                if attribute not in schema:
                    raise CircuitError(f"{name}: the schema has no attribute '{attribute}', only {schema.names}")
            scopes[id(unit)] = frozenset(unit.attributes)
            continue
        below = [scopes[id(child)] for child in unit.children]
        if isinstance(unit, Sum):
            _check_sum(unit, name, below, names, num_states)
        elif not isinstance(unit, Product):
            raise CircuitError(f"{name} is neither a Sum, a Product nor a Leaf")
        else:
            _check_product(unit, name, below, names)
        scopes[id(unit)] = frozenset().union(*below)
    absent = [name for name in schema.names if name not in scopes[id(root)]]
    if absent:
        raise CircuitError(f"{names[id(root)]} is the root but does not cover the attributes {_listed(absent)}")
    if not any(isinstance(unit, Sum) for unit in walk(root)):
        raise CircuitError(f"{names[id(root)]}: a template needs at least one Sum, else no state could be passed on")


def _check_sum(unit: Sum, name: str, below: list[frozenset[str]], names: dict[int, str], num_states: int) -> None:
    if len(unit.children) != num_states:
        raise CircuitError(
            f"{name} has the wrong number of children: {len(unit.children)} instead of num_states = {num_states}"
        )
    for child, scope in zip(unit.children[1:], below[1:], strict=True):
        if scope != below[0]:
            raise CircuitError(
                f"{name} is not smooth: its child {names[id(unit.children[0])]} covers {_listed(below[0])}, "
                f"its child {names[id(child)]} covers {_listed(scope)}"
            )


def _check_product(unit: Product | Unit, name: str, below: list[frozenset[str]], names: dict[int, str]) -> None:
    taken: dict[str, str] = {}
    for child, scope in zip(unit.children, below, strict=True):
        for attribute in sorted(scope):
            if attribute in taken:
                raise CircuitError(
                    f"{name} is not decomposable: its children {taken[attribute]} and {names[id(child)]} "
                    f"both cover '{attribute}'"
                )
            taken[attribute] = names[id(child)]


def _names(root: Unit) -> dict[int, str]:
    """Names people can find: the kind and its number in the order in which the circuit is written."""
    counts: dict[str, int] = {}
    names: dict[int, str] = {}
    for unit in walk(root):
        kind = type(unit).__name__
        what = f" ({', '.join(map(repr, unit.attributes))})" if isinstance(unit, Leaf) else ""
        names[id(unit)] = f"{kind} {counts.get(kind, 0)}{what}"
        counts[kind] = counts.get(kind, 0) + 1
    return names


def _listed(names: frozenset[str] | list[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))
