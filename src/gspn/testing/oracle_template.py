"""The oracle's models, and one node of a tree: all induced trees of the template, given priors and what was received.

How nodes hang together, and what is asked of their root, is the business of `oracle`; nothing of the library belongs
here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from gspn.testing import oracle_atoms, oracle_gaps, oracle_leaves
from gspn.testing.oracle_contexts import Regression
from gspn.testing.oracle_leaves import Array, LeafExpectation, NodeContext, log, log_sum_exp

Scope: TypeAlias = str | tuple[str, ...]  # an attribute, or several that have a leaf in common
Unit: TypeAlias = tuple[Any, ...]  # ("sum", j, [children]) | ("product", [children]) | ("leaf", scope, m)
Leaves: TypeAlias = Mapping[Any, Mapping[str, Array]]  # parameters by scope and name
Entry: TypeAlias = tuple[float | None, str]  # the value, if there is one, and "observed", "missing" or "hidden"
Received: TypeAlias = Sequence[float] | None  # what a node has received; None where nothing was
Context: TypeAlias = Received | NodeContext

Density: TypeAlias = Callable[[Mapping[str, Any], Sequence[float | None], Sequence[str], Received], float]
"""(parameters of one leaf, values of its scope, their codes, context) -> log density, unknown values summed out."""

Expectation: TypeAlias = Callable[
    [Mapping[str, Any], Sequence[float | None], Sequence[str], Received], list[list[float]]
]
"""The same -> for each attribute of the scope what is told of it, in expectation where it is unknown."""


@dataclass(frozen=True)
class Message:
    """What travels along one edge."""

    posterior: Array  # [S, C] of the sender, at the level below
    edge_type: int
    sender_out_degree: int  # in the whole graph, with multiplicity
    receiver_in_degree: int


Mix: TypeAlias = Callable[[int, list[Message], Array, Array], Array]
"""(level, messages, transitions [T, S, C, C], prior [S, C] where nothing is received) -> prior [S, C] of the receiver

Where nothing is received the prior is that of level 0; with a regression, what edges usually make of it.
"""

Weigh: TypeAlias = Callable[[list[Message]], list[float]]
"""The weight of each message in the context of the receiver; they sum to 1."""


@dataclass(frozen=True)
class Model:
    """A template with its parameters, in the user's units; S sum units, C states, L levels, T edge types, M leaves.

    `leaves` holds arrays [levels with own parameters, M, ...]: continuous {"mean", "std"}, categorical {"probs"}
    [.., M, K], binary {"probs"} (of the value 1), count {"rate"}, negative_binomial {"mean", "dispersion"} with
    variance = mean + dispersion * mean^2, count_table {"probs"} [.., M, K + 1], the tail's at the end. With a shortcut
    the root has no parameters of its own: L - 1 rows. A scope of d continuous attributes may have a Gaussian in
    common: {"mean"} [.., M, d], {"covariance"} [.., M, d, d].

    With a `regression` leaves have {"slope"} [.., M, P, D], too, for the D numbers that a node has received: it
    is added to the P = d means in users' units, to the P = K logits, to a logit, a log-rate or a log-mean (P = 1).
    Level 0 has received nothing.

    A continuous scope with `atoms` has {"atoms"} [.., M, K], too: their masses, attribute after attribute.

    Where gaps are evidence, a scope of one attribute has {"gaps"} [.., M], one of d attributes [.., M, d]: how likely
    an entry is missing. The value of an entry does not depend on it, given the leaf.

    A scope in `densities` has leaves of another family, with parameters under any names. Where `contextual`, every
    vertex tells its receivers what it expects of its entries, and leaves may depend on what is received: continuous
    entries are told in `units`, categories as probabilities, counts as log(1 + x). A regression says it by itself.
    """

    circuit: Unit
    kinds: dict[str, str]  # attribute -> kind, in column order
    prior: Array  # [S, C]
    transitions: Array  # [L-1, T, S, C, C]; transitions[l-1, t, j] maps a posterior of level l-1 to a prior of level l
    leaves: Leaves
    shortcut: Array | None = None  # weights [L-1] of the levels 0 ... L-2
    densities: Mapping[Scope, Density] = field(default_factory=dict)
    expectations: Mapping[Scope, Expectation] = field(default_factory=dict)
    contextual: bool = False
    units: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # centre and spread by attribute
    mix: Mix | None = None  # None: the mean
    weigh: Weigh | None = None  # None: all alike
    regression: Regression | None = None  # None: built-in leaves do not depend on what is received
    atoms: oracle_atoms.Atoms = field(default_factory=dict)  # values of continuous attributes with a mass of their own

    def __post_init__(self) -> None:
        arrays = [self.prior, self.transitions, *(rows for leaf in self.leaves.values() for rows in leaf.values())]
        arrays += [] if self.shortcut is None else [self.shortcut]
        assert all(array.dtype == np.float64 for array in arrays), "the oracle computes in float64"
        assert self.shortcut is None or self.regression is None, "a shortcut has no level below its root"

    @property
    def num_levels(self) -> int:
        return len(self.transitions) + 1

    @property
    def tells(self) -> bool:
        """Whether vertices tell their receivers what they expect of their entries."""
        return self.contextual or self.regression is not None

    @property
    def hops(self) -> int:
        return 1 if self.regression is None else self.regression.hops


# ---- One node: the template


@dataclass(frozen=True)
class Induced:
    """One complete choice below a unit of the template."""

    picks: dict[int, int]  # the state at each reached sum unit
    reached: list[tuple[Scope, int]]  # the leaves
    log_weight: float


def explain(
    model: Model, level: int, priors: Array, entries: dict[str, Entry], context: Context = None
) -> tuple[float, Array]:
    """log P(entries) and the posteriors [S, C], by summing over all induced trees of the template.

    An induced tree that reaches sum unit j gives its probability to the state it picks there; one that does not
    reach j tells nothing about j and spreads its probability as the prior does.
    """
    trees = list(induced_trees(model, level, model.circuit, priors, entries, context))
    total = log_sum_exp(tree.log_weight for tree in trees)
    if total == -math.inf:
        return total, np.full_like(priors, math.nan)
    h = np.zeros_like(priors)
    for tree in trees:
        probability = math.exp(tree.log_weight - total)
        for j in range(len(priors)):
            if j in tree.picks:
                h[j, tree.picks[j]] += probability
            else:
                h[j] += probability * priors[j]
    return total, h


def expect(
    model: Model, level: int, priors: Array, entries: dict[str, Entry], context: Context = None
) -> tuple[list[float], Array | None]:
    """What a node tells of its entries, with its covariance: what leaves expect, weighted by the trees that reach them.

    Between the trees, and within the leaves of each. Without `across` what is told of different attributes counts as
    uncorrelated.
    """
    trees = list(induced_trees(model, level, model.circuit, priors, entries, context))
    total = log_sum_exp(tree.log_weight for tree in trees)
    said = [together(model, level, tree, entries, context) for tree in trees]
    probabilities = [math.exp(tree.log_weight - total) for tree in trees]
    attribute_of, _, _ = said[0]
    mean = np.zeros(len(attribute_of))
    for probability, (_, own, _) in zip(probabilities, said, strict=True):
        mean = mean + probability * own
    covariance = np.zeros((len(mean), len(mean)))
    for probability, (_, own, within) in zip(probabilities, said, strict=True):
        if within is None:
            return [float(number) for number in mean], None
        covariance = covariance + probability * (within + np.outer(own - mean, own - mean))
    if model.regression is not None and not model.regression.across:
        for i, j in itertools.product(range(len(mean)), repeat=2):
            if attribute_of[i] != attribute_of[j]:
                covariance[i, j] = 0.0
    return [float(number) for number in mean], covariance


def together(
    model: Model, level: int, tree: Induced, entries: dict[str, Entry], context: Context
) -> tuple[list[str], Array, Array | None]:
    """What the leaves of an induced tree tell, in the order of the attributes: whose numbers, expected, covariance."""
    said = [(scope, told_by_leaf(model, level, scope, m, entries, context)) for scope, m in tree.reached]
    attribute_of = [name for scope, own in said for name, n in zip(names_of(scope), own.mean, strict=True) for _ in n]
    mean = np.array([number for _, own in said for numbers in own.mean for number in numbers])
    order = sorted(range(len(mean)), key=lambda i: list(model.kinds).index(attribute_of[i]))
    ordered = [attribute_of[i] for i in order]
    covariance, start = np.zeros((len(mean), len(mean))), 0
    for _, own in said:
        if own.covariance is None:
            return ordered, mean[order], None
        end = start + len(own.covariance)
        covariance[start:end, start:end] = own.covariance
        start = end
    return ordered, mean[order], covariance[np.ix_(order, order)]


def induced_trees(
    model: Model, level: int, unit: Unit, priors: Array, entries: dict[str, Entry], context: Context
) -> Iterator[Induced]:
    """All complete choices below a unit."""
    match unit:
        case ("leaf", scope, m):
            yield Induced({}, [(scope, m)], log_leaf(model, level, scope, m, entries, context))
        case ("product", children):
            choices = (list(induced_trees(model, level, child, priors, entries, context)) for child in children)
            for parts in itertools.product(*choices):
                picks = {j: k for part in parts for j, k in part.picks.items()}
                assert len(picks) == sum(len(part.picks) for part in parts), "the circuit is not decomposable"
                leaves = [leaf for part in parts for leaf in part.reached]
                yield Induced(picks, leaves, math.fsum(part.log_weight for part in parts))
        case ("sum", j, children):
            for k, child in enumerate(children):
                for tree in induced_trees(model, level, child, priors, entries, context):
                    assert j not in tree.picks, "the circuit has a cycle"
                    weight = log(float(priors[j, k])) + tree.log_weight
                    yield Induced({j: k, **tree.picks}, tree.reached, weight)
        case _:
            raise ValueError(f"not a unit of a circuit: {unit!r}")


# ---- Leaves


def names_of(scope: Scope) -> tuple[str, ...]:
    return (scope,) if isinstance(scope, str) else scope


def log_leaf(model: Model, level: int, scope: Scope, m: int, entries: dict[str, Entry], context: Context) -> float:
    """Log density of what is known of a leaf's scope, and of which entries are missing where that is evidence."""
    (values, codes), whole = known(scope, entries), parameters(model, level, scope, m)
    of_codes, leaf = oracle_gaps.log_codes(whole, codes), oracle_gaps.without(whole)
    return of_codes + log_known(model, scope, leaf, values, codes, context)


def log_known(
    model: Model, scope: Scope, leaf: dict[str, Any], values: list[float | None], codes: list[str], context: Context
) -> float:
    """Log density of the values that are known."""
    if "atoms" in leaf:
        of = oracle_atoms.masses(names_of(scope), leaf, model.atoms)
        rest, received = oracle_atoms.elsewhere(values, of), context if isinstance(context, NodeContext) else None
        density = oracle_leaves.log_leaf(["continuous"] * len(rest), oracle_atoms.without(leaf), rest, received)
        return oracle_atoms.log_places(values, of) + density
    if scope in model.densities:
        return model.densities[scope](leaf, values, codes, plain(context))
    kinds = [model.kinds[name] for name in names_of(scope)]
    return oracle_leaves.log_leaf(kinds, leaf, values, context if isinstance(context, NodeContext) else None)


def told_by_leaf(
    model: Model, level: int, scope: Scope, m: int, entries: dict[str, Entry], context: Context
) -> LeafExpectation:
    """What a vertex tells of a scope if this leaf is its distribution."""
    leaf, (values, codes) = oracle_gaps.without(parameters(model, level, scope, m)), known(scope, entries)
    if scope in model.expectations:
        return LeafExpectation(model.expectations[scope](leaf, values, codes, plain(context)), None)
    if scope in model.densities and not {"std", "covariance"} & set(leaf):
        leaf["std"] = math.nan  # a mean is enough to tell; how uncertain it is, nobody has said
    names, received = names_of(scope), context if isinstance(context, NodeContext) else None
    units = [model.units.get(name, (0.0, 1.0)) for name in names]
    if "atoms" in leaf:
        of = oracle_atoms.masses(names, leaf, model.atoms)
        rest = oracle_atoms.elsewhere(values, of)
        alone = oracle_leaves.told(["continuous"] * len(names), oracle_atoms.without(leaf), rest, units, received)
        return oracle_atoms.told(alone, values, of, units)
    return oracle_leaves.told([model.kinds[name] for name in names], leaf, values, units, received)


def plain(context: Context) -> Received:
    """A context as densities from elsewhere take it."""
    if isinstance(context, NodeContext):
        return [float(number) for number in context.mean] if context.present else None
    return context


def known(scope: Scope, entries: dict[str, Entry]) -> tuple[list[float | None], list[str]]:
    """Values and codes of a scope."""
    own = [entries[name] for name in names_of(scope)]
    return [value for value, _ in own], [code for _, code in own]


def parameters(model: Model, level: int, scope: Scope, m: int) -> dict[str, Any]:
    """A leaf's parameters at a level; those of the root are combined from the levels below if there is a shortcut."""
    leaf = model.leaves[scope]
    if model.shortcut is None or level < model.num_levels - 1:
        return {key: rows[level, m] for key, rows in leaf.items()}
    combined = {key: np.tensordot(model.shortcut, rows[:, m], axes=1) for key, rows in leaf.items()}
    if all(model.kinds[name] == "continuous" for name in names_of(scope)):  # a weighted sum of independent Gaussians
        if "std" in leaf:
            combined["std"] = np.sqrt(np.tensordot(model.shortcut**2, leaf["std"][:, m] ** 2, axes=1))
        if "covariance" in leaf:
            combined["covariance"] = np.tensordot(model.shortcut**2, leaf["covariance"][:, m], axes=1)
    return combined
