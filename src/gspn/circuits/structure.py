"""The structure of a circuit, as the user writes it: `Sum`, `Product` and `Leaf`, composed freely; and which are valid.

What a circuit computes is in `templates`. Units are compared by identity: using the same object twice shares it,
building it twice makes two. Valid templates are smooth, decomposable and complete, and every sum has exactly C
children: under these conditions marginals are exact with one pass; a circuit that breaks one is refused with the unit
and the reason, never repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from gspn.attributes import Schema
from gspn.errors import CircuitError, InputError


class Unit:
    """A unit of a circuit; `children` is empty for leaves."""

    children: tuple[Unit, ...] = ()

    def __repr__(self) -> str:
        inner = [repr(child) for child in self.children[:3]] + ["…"] * (len(self.children) > 3)
        return f"{type(self).__name__}({', '.join(inner)})"


class Leaf(Unit):
    """One distribution per level of an attribute, or of several attributes together."""

    def __init__(self, *attributes: str) -> None:
        for attribute in attributes or (None,):
            if not isinstance(attribute, str):
                raise CircuitError(f"Leaf takes the name of an attribute, or several, got {attribute!r}")
        if len(set(attributes)) < len(attributes):
            raise CircuitError(f"Leaf names an attribute twice: {attributes!r}")
        self.attributes = attributes

    def __repr__(self) -> str:
        return f"Leaf({', '.join(map(repr, self.attributes))})"


class _Inner(Unit):
    def __init__(self, *children: Unit) -> None:
        kind = type(self).__name__
        if not children:
            raise CircuitError(f"a {kind} needs at least one child")
        for i, child in enumerate(children):
            if not isinstance(child, Unit):
                raise CircuitError(f"child {i} of a {kind} must be a Sum, Product or Leaf, got {child!r}")
        self.children = children


class Product(_Inner):
    """Children over disjoint sets of attributes, independent of each other."""


class Sum(_Inner):
    """A mixture of its children, all over the same attributes; its weights come from the neighbours' posteriors."""


def walk(root: Unit) -> Iterator[Unit]:
    """Every unit once, parents' first visit before children's (the order in which the circuit is written)."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        unit = stack.pop()
        if id(unit) not in seen:
            seen.add(id(unit))
            yield unit
            stack.extend(reversed(unit.children))


def bottom_up(root: Unit) -> list[Unit]:
    """Every unit once, children before parents."""
    order: list[Unit] = []
    seen: set[int] = set()
    stack: list[tuple[Unit, bool]] = [(root, False)]
    while stack:
        unit, children_done = stack.pop()
        if children_done:
            order.append(unit)
        elif id(unit) not in seen:
            seen.add(id(unit))
            stack.append((unit, True))
            stack.extend((child, False) for child in reversed(unit.children))
    return order


def naive_bayes(schema: Schema, num_states: int, scopes: Sequence[tuple[str, ...]] | None = None) -> Sum:
    """The default template written as a circuit: one sum over products of leaves, each over one of the scopes."""
    return Sum(*(_factorised(scopes or [(name,) for name in schema.names]) for _ in range(num_states)))


def _factorised(scopes: Sequence[tuple[str, ...]]) -> Unit:
    leaves = [Leaf(*names) for names in scopes]
    return leaves[0] if len(leaves) == 1 else Product(*leaves)


def random_circuit(schema: Schema, num_states: int, depth: int = 2, repetitions: int = 1, seed: int = 0) -> Sum:
    """A random circuit: attributes split in two, `depth` times over, in `repetitions` different ways.

    Each region of attributes holds up to `num_states` units: sums over the products of its two halves, or, where it is
    not split further, products of leaves. The root mixes `num_states` products drawn from the repetitions in turn.
    """
    if num_states < 1:
        raise InputError(f"num_states must be at least 1, got {num_states}")
    if not 1 <= repetitions <= num_states:
        raise InputError(f"repetitions must be between 1 and num_states = {num_states}, got {repetitions}")
    if depth < 0:
        raise InputError(f"depth must be at least 0, got {depth}")
    generator = torch.Generator().manual_seed(seed)

    def permutation(n: int) -> list[int]:
        order: list[int] = torch.randperm(n, generator=generator).tolist()
        return order

    def region(names: list[str], depth: int) -> list[Unit]:
        if depth == 0 or len(names) == 1:
            return [_factorised([(name,) for name in names]) for _ in range(num_states)]
        products = partition(names, depth)
        return [Sum(*products) for _ in range(num_states)]

    def partition(names: list[str], depth: int) -> list[Unit]:
        shuffled = [names[i] for i in permutation(len(names))]
        half = len(shuffled) // 2
        left, right = region(shuffled[:half], depth - 1), region(shuffled[half:], depth - 1)
        return [Product(left[k], right[j]) for k, j in enumerate(permutation(num_states))]

    names = list(schema.names)
    if depth == 0 or len(names) == 1:
        return naive_bayes(schema, num_states)
    ways = [partition(names, depth) for _ in range(repetitions)]
    return Sum(*(ways[k % repetitions][k // repetitions] for k in range(num_states)))


def circuit_to_json(root: Unit) -> list[dict[str, Any]]:
    """Units children-first, each naming its children by position; the last one is the root."""
    number: dict[int, int] = {}
    listed: list[dict[str, Any]] = []
    for unit in bottom_up(root):
        number[id(unit)] = len(listed)
        if isinstance(unit, Leaf):
            named = (
                {"attribute": unit.attributes[0]} if len(unit.attributes) == 1 else {"attributes": [*unit.attributes]}
            )
            listed.append({"kind": "leaf", **named})
        else:
            kind = "sum" if isinstance(unit, Sum) else "product"
            listed.append({"kind": kind, "children": [number[id(child)] for child in unit.children]})
    return listed


def circuit_from_json(listed: Sequence[Mapping[str, Any]]) -> Unit:
    """The inverse of `circuit_to_json`; refuses what it does not know."""
    inner: dict[str, Callable[..., Unit]] = {"sum": Sum, "product": Product}
    units: list[Unit] = []
    if not isinstance(listed, list):
        raise CircuitError(f"a stored circuit is a list of units, got {type(listed).__name__}")
    for i, entry in enumerate(listed):
        kind = entry.get("kind") if isinstance(entry, Mapping) else None
        if not isinstance(kind, str):
            raise CircuitError(f"unit {i} of the stored circuit is not understood: {entry!r}")
        if kind == "leaf" and set(entry) == {"kind", "attribute"}:
            units.append(Leaf(entry["attribute"]))
        elif kind == "leaf" and set(entry) == {"kind", "attributes"} and isinstance(entry["attributes"], list):
            units.append(Leaf(*entry["attributes"]))
        elif kind in inner and set(entry) == {"kind", "children"}:
            children = entry["children"]
            if not isinstance(children, list) or not all(type(c) is int and 0 <= c < i for c in children):
                raise CircuitError(f"unit {i} of the stored circuit refers to a unit that does not come before it")
            units.append(inner[kind](*(units[c] for c in children)))
        else:
            raise CircuitError(f"unit {i} of the stored circuit is not understood: {dict(entry)!r}")
    if not units:
        raise CircuitError("the stored circuit is empty")
    return units[-1]


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
