"""Leaf families by name: which there are, what each can model, and how one is built.

A family is registered once, when the module that brings it is imported. An attribute names the family of its leaves
(`distribution`); a model may name one for an attribute or for several together (`leaves`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gspn.attributes import DISTRIBUTIONS, KINDS, Attribute, Schema
from gspn.circuits.leaves.atoms import with_atoms
from gspn.circuits.leaves.contract import Leaves, message_width
from gspn.circuits.leaves.gaps import with_gaps
from gspn.circuits.structure import Leaf, Unit, walk
from gspn.errors import InputError

Dependence: TypeAlias = bool | Literal["optional"]
"""Whether densities of a family depend on a context: never, always, or where a model says so."""


@dataclass(frozen=True)
class _Family:
    build: Callable[..., Leaves]
    kinds: frozenset[str]
    least: int
    most: int | None
    context: Dependence


_FAMILIES: dict[str, _Family] = {}


def register_leaf(
    name: str,
    kinds: Collection[str],
    build: Callable[..., Leaves],
    *,
    attributes: int | tuple[int, int | None] = 1,
    context: Dependence = False,
) -> None:
    """Register a leaf family under a name, by which attributes, models and saved files refer to it.

    Parameters
    ----------
    name:
        A new name; registering the same family again changes nothing.
    kinds:
        The kinds of attributes it can model: of "continuous", "categorical", "binary" and "count".
    build:
        Gives the leaves: called as `build(attributes, num_levels, num_leaves)`; with a context,
        `build(attributes, num_levels, num_leaves, context_width=D)`.
    attributes:
        Over how many attributes a leaf is: a number, or the least and the most (None: no end).
    context:
        Whether its densities depend on what a vertex receives from the level below: False, True, or "optional": where
        a model has a context. Then `build` is also told, as `tied_slopes`, whether all leaves of a level share how they
        depend on it.
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"the name of a leaf family must be a non-empty string, got {name!r}")
    if isinstance(kinds, str) or not isinstance(kinds, Collection) or not kinds or not set(kinds) <= set(KINDS):
        raise InputError(f"leaf family '{name}': kinds must be some of {', '.join(KINDS)}, got {kinds!r}")
    least, most = attributes if isinstance(attributes, tuple) and len(attributes) == 2 else (attributes, attributes)
    if type(least) is not int or least < 1 or not (most is None or (type(most) is int and most >= least)):
        raise InputError(
            f"leaf family '{name}': attributes must be a number, or the least and the most: {attributes!r}"
        )
    family = _Family(build, frozenset(kinds), least, most, context)
    if _FAMILIES.get(name, family) != family:
        raise InputError(f"there is a leaf family '{name}' already; choose another name")
    _FAMILIES[name] = family
    if least == 1:
        for kind in kinds:
            if name not in DISTRIBUTIONS[kind]:
                DISTRIBUTIONS[kind].append(name)


def families() -> list[str]:
    """The names of all families."""
    return sorted(_FAMILIES)


def needs_context(name: str) -> bool:
    """Whether the family cannot do without a context."""
    return find_family(name).context is True


def takes_context(name: str) -> bool:
    """Whether the family can depend on a context."""
    return find_family(name).context is not False


def find_family(name: str) -> _Family:
    if name not in _FAMILIES:
        raise InputError(
            f"there is no leaf family '{name}', only {', '.join(families())}; if another package brings it, import "
            "that package first"
        )
    return _FAMILIES[name]


def check_family(name: str, scope: Sequence[Attribute]) -> None:
    """Raise unless the family can model these attributes together."""
    family, named = find_family(name), ", ".join(f"'{attribute.name}'" for attribute in scope)
    if len(scope) < family.least or (family.most is not None and len(scope) > family.most):
        most = "any number of" if family.most is None else family.most
        wanted = family.least if family.most == family.least else f"{family.least} to {most}"
        raise InputError(
            f"leaf family '{name}' is over {wanted} attribute{'s' * (wanted != 1)}, not over {len(scope)} ({named})"
        )
    for attribute in scope:
        if attribute.kind not in family.kinds:
            kinds = ", ".join(sorted(family.kinds))
            raise InputError(
                f"leaf family '{name}' models attributes of kind {kinds}, but '{attribute.name}' is {attribute.kind}"
            )


def family_name(scope: Sequence[Attribute], chosen: Mapping[tuple[str, ...], str]) -> str:
    """The family that models these attributes: the chosen one, or that which a single attribute names itself."""
    names = tuple(attribute.name for attribute in scope)
    if names in chosen:
        return chosen[names]
    if len(scope) == 1:
        return scope[0].distribution
    listed = ", ".join(map(repr, names))
    raise InputError(f"no leaf family is named for the attributes {listed} together: leaves={{({listed}): NAME}}")


def correlated_scopes(
    schema: Schema,
    structure: Unit | None,
    chosen: Mapping[tuple[str, ...], str],
    covariance: str,
    context: str | None,
) -> dict[tuple[str, ...], str]:
    """The chosen families, and those of correlated Gaussians for all other continuous attributes.

    Naive Bayes has one leaf over all of them, a circuit one over each of its scopes that has no other attributes.
    Where attributes are independent, and nothing is received, each has its own leaf unless a circuit says otherwise.
    """
    plainly = covariance == "diagonal" and context is None
    family, taken = f"{covariance}_gaussian", {name for names in chosen for name in names}
    plain = {attribute.name for attribute in schema if attribute.distribution == "gaussian"}
    if structure is None:
        if plainly:
            return dict(chosen)
        scopes = [tuple(name for name in schema.names if name in plain - taken)]
    else:
        leaves = [unit for unit in walk(structure) if isinstance(unit, Leaf)]
        found = {tuple(sorted(leaf.attributes, key=schema.index)) for leaf in leaves}
        fitting = [names for names in sorted(found) if names not in chosen and plain.issuperset(names)]
        scopes = [names for names in fitting if len(names) > 1 or not plainly]
    return {**chosen, **{names: family for names in scopes if names}}


def leaves_for(
    attribute: Attribute | Sequence[Attribute],
    num_levels: int,
    num_leaves: int,
    *,
    family: str | None = None,
    context_width: int = 0,
    tied_slopes: bool = True,
    atoms: Mapping[str, Sequence[float]] | None = None,
    gaps: str = "ignorable",
) -> Leaves:
    """The leaves of a family (by default the attribute's own) over one or several attributes.

    `context_width` is for families that can depend on a context; 0 means none. `atoms` are values, by attribute, that
    have a mass of their own; `gaps` says whether a missing entry is evidence: "ignorable" or "informative".
    """
    scope = tuple(attribute) if isinstance(attribute, Sequence) else (attribute,)
    name = family_name(scope, {}) if family is None else family
    check_family(name, scope)
    known = _FAMILIES[name]
    more: dict[str, int | bool] = {}
    if known.context is True or (known.context == "optional" and context_width):
        more["context_width"] = context_width
    if known.context == "optional" and context_width:
        more["tied_slopes"] = tied_slopes
    found = known.build(scope, num_levels, num_leaves, **more)
    if not isinstance(found, Leaves) or found.scope != scope:
        raise InputError(f"leaf family '{name}' was to build Leaves over its attributes, but gave {found!r}")
    return with_gaps(with_atoms(found, atoms or {}), gaps)


def context_width(attributes: Sequence[Attribute]) -> int:
    """Columns of the context of a schema: what all attributes of a vertex are told as, one after another."""
    return sum(map(message_width, attributes))
