"""The contract of a leaf family: M distributions over one or several attributes at each of L levels, all at once.

Learned parameters are unconstrained tensors [levels, leaves, …]. `natural` turns them into the distributions' own
parameters (positive scales, normalised probabilities); everything else is a function of those, so that the shortcut's
combined level, which has no learned parameters, is treated like any other. Numbers that leave a family (moments,
samples, `export`) are in the users' units and in float64.

Whatever depends on the family stands behind this contract; nothing outside this folder asks which family it has. A
family over a single attribute has less to write: see `univariate`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from gspn.attributes import Attribute, Categorical
from gspn.circuits.evidence import Context, Evidence
from gspn.errors import InputError

if TYPE_CHECKING:
    from gspn.circuits.leaves.univariate import UnivariateLeaves

RIDGE = 1.0
"""What is held against slopes on a context, in any case: their columns may be collinear (probabilities sum to 1)."""

Natural = dict[str, Tensor]
"""The distributions' own parameters by name, each [levels, leaves, …]."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Univariate distributions of one attribute, a leaf each: the same for all rows, or every row with its own."""

    family: UnivariateLeaves
    natural: Natural
    """Each [1, leaves, …] or, where any differs from row to row, each [n, leaves, …]"""

    def __post_init__(self) -> None:
        rows = common_length([len(value) for value in self.natural.values()])
        whole = {name: value.expand(rows, *value.shape[1:]) for name, value in self.natural.items()}
        object.__setattr__(self, "natural", whole)

    @property
    def shared(self) -> bool:
        """Whether all rows have the same distributions."""
        return len(next(iter(self.natural.values()))) == 1

    def __getitem__(self, rows: slice | Tensor) -> Rows:
        taken = {name: value if len(value) == 1 else value[rows] for name, value in self.natural.items()}
        return Rows(self.family, taken)


def common_length(lengths: Sequence[int]) -> int:
    """The number of rows of several things, of which 1 means that all rows share it; it may be 0."""
    return next((length for length in lengths if length != 1), 1)


class Leaves(nn.Module, ABC):
    """`num_leaves` distributions over the attributes in `scope` at each of `num_levels` levels.

    `context_width` is the number D of columns of the context that the densities depend on; 0 for those without one.
    A family with a context is evaluated level by level, one without for all levels at once.
    """

    exported: tuple[str, ...]
    """Names of the parameters in `export` and `assign`; with a context there may be more."""
    gaps: ClassVar[Literal["ignorable", "informative"]] = "ignorable"
    """Whether a missing entry says nothing, or is evidence of its own. A hidden one never is.

    A family may say so itself; `gaps` has leaves around any others for which gaps are evidence.
    """
    penalised: bool = False
    """Whether `log_prior` says something even without pseudo-observations: of slopes, or of how leaves differ."""

    def __init__(self, scope: Sequence[Attribute], num_levels: int, num_leaves: int, *, context_width: int = 0) -> None:
        super().__init__()
        self.scope = tuple(scope)
        self.num_levels = num_levels
        self.num_leaves = num_leaves
        self.context_width = context_width

    @property
    def key(self) -> str | tuple[str, ...]:
        """The attribute's name, or those of several: what the family is called in parameters."""
        names = tuple(attribute.name for attribute in self.scope)
        return names[0] if len(names) == 1 else names

    # Densities and conditionals.

    @abstractmethod
    def natural(self) -> Natural:
        """The present parameters of the levels that have their own."""

    @abstractmethod
    def log_prob(self, natural: Natural, evidence: Evidence, context: Context | None = None) -> Tensor:
        """[levels, n, leaves] log-density of what is known of the scope, everything unknown marginalised.

        `evidence` has the columns of the scope. With a context `natural` has a single level; None is level 0, which
        receives nothing.
        """

    @abstractmethod
    def conditional(self, natural: Natural, column: int, evidence: Evidence, context: Context | None = None) -> Rows:
        """The distributions of one attribute of the scope, which the evidence does not hold, given the others known.

        `natural` has a single level.
        """

    @abstractmethod
    def draw(
        self,
        natural: Natural,
        leaf: Tensor,
        wanted: Tensor,
        evidence: Evidence,
        context: Context | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """[n, attributes] the evidence with `wanted` entries [n, attributes] drawn, jointly, from leaf [n] of each row.

        `natural` has a single level.
        """

    @abstractmethod
    def expectation(self, natural: Natural, evidence: Evidence, context: Context | None = None) -> list[Tensor]:
        """What a vertex tells its receivers of each attribute, by leaf: [n, leaves, `message_width(attribute)`].

        Continuous: the standardised value; categorical: one column per category; binary: 1 for True; count: log(1 + x).
        Known entries as they are, others by their conditional expectation. `natural` has a single level.
        """

    def uncertainty(self, natural: Natural, weights: Tensor, evidence: Evidence, context: Context | None) -> Tensor:
        """[n, W, W] covariance of what `expectation` tells, attribute after attribute, averaged over the leaves.

        Within the leaves alone, with weights [n, leaves]; 0 where entries are known. `natural` has a single level. For
        models that take into account how uncertain a context is.
        """
        raise InputError(f"leaves of {self.named()} ({type(self).__name__}) know no uncertainty of what they expect")

    def table(self, natural: Natural) -> Tensor | None:
        """[levels, K + 1, leaves] log-densities of the K values, and of an unknown one, where there are few; else None.

        Only asked where gaps are ignorable: hidden and missing are one row.
        """
        return None

    def atoms(self) -> dict[str, Tensor]:
        """[K] by attribute, ascending: values that have a mass of their own, where there are any.

        There `log_prob` is in the measure that counts at the atoms; elsewhere it is a density as ever.
        """
        return {}

    # Learning.

    @abstractmethod
    def start(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        """Set every level's leaf m from the rows groups[m] [n, attributes] (possibly none; NaN = missing)."""

    @abstractmethod
    def estimate(
        self,
        evidence: Evidence,
        weights: Tensor,
        *,
        level: int = 0,
        context: Context | None = None,
        prior: float = 0.0,
    ) -> None:
        """Set a level to the weighted estimate of EM: the maximum of Σ weights · log_prob + `log_prior(…, prior)`.

        `weights` is [n, leaves]. A leaf without any weight keeps what it has. Where there is no formula: a step that
        does not lower it (generalised EM).
        """

    def prepare_estimates(
        self, evidence: Evidence, weights: Tensor, *, level: int = 0, context: Context | None = None
    ) -> None:
        """Take from a first fit, given by weights [n, leaves], what the estimates of a level are drawn towards."""

    def copy_from_below(self, level: int) -> None:
        """Let a level have what the one below has learned."""
        with torch.no_grad():
            for parameter in self.parameters():
                parameter[level] = parameter[level - 1]

    def widen(self, factor: float) -> None:
        """Multiply the deviations of continuous densities, down to the floor at most; what is discrete stays."""

    def pseudo_observations(self) -> tuple[Tensor, Tensor]:
        """Rows [p, attributes] in users' units and their shares [p], which sum to 1: what the prior has seen."""
        raise InputError(f"{type(self).__name__} of {self.named()} have no prior")

    def log_prior(self, natural: Natural, strength: float) -> Tensor:
        """[levels] log-density of the parameters: that of `strength` pseudo-observations, up to a constant.

        With it goes what a family holds against its parameters in any case (`penalised`).
        """
        rows, shares = self.pseudo_observations()
        log_prob = self.log_prob(natural, Evidence(rows.to(next(iter(natural.values())).device)))
        return strength * (shares.to(log_prob)[:, None] * log_prob).sum((1, 2))

    def features(self, x: Tensor) -> Tensor | None:
        """[n, p] columns of deviation about 1 to cluster rows x [n, attributes] by; None where there are none."""
        return None

    # Units: what a family measures in, learned from the data before anything else.

    def set_units(self, x: Tensor) -> None:
        """Take the units from rows x [n, attributes], NaN = missing."""

    def set_gaps(self, missing: Tensor) -> None:
        """Take from the data which entries [n, attributes] are missing; others without a value are withheld."""

    def units(self) -> dict[str, Tensor]:
        """[centre, spread] by attribute, for those that are measured in units of the data."""
        return {}

    def assign_units(self, units: Mapping[str, Any], given: Natural, fitted: bool) -> None:
        """Set the units as people give them, or, where nothing has been fitted, choose some that suit `given`."""
        if units:
            raise InputError(f"leaves of {self.named()} have no units, got {sorted(units)}")

    def deviations(self, x: Tensor) -> Tensor | None:
        """[n, attributes] distance of x from the centre, in units; None where a value cannot be too far."""
        return None

    # The shortcut.

    def combine(self, natural: Natural, weights: Tensor) -> Natural:
        """One level combined from several with the given weights [levels], or a refusal."""
        raise InputError(f"leaves of {self.named()} ({type(self).__name__}) cannot be combined by a shortcut")

    # Parameters as people read them.

    @abstractmethod
    def export(self, natural: Natural) -> Natural:
        """The parameters under the names in `exported`, in users' units."""

    @abstractmethod
    def assign(self, exported: Mapping[str, Tensor]) -> None:
        """Set the learned parameters from checked, exported ones (levels that have their own)."""

    def unlike(self, one: Natural, other: Natural) -> str | None:
        """The name of an exported parameter in which the two differ by more than rounding; None if none does."""
        for key, value in one.items():
            if not torch.allclose(value, other[key], rtol=1e-4, atol=1e-4):
                return key
        return None

    def check_exported(self, exported: Mapping[str, Any], *num_levels: int) -> Natural:
        """Exported parameters of one of the given numbers of levels, or an error that names what is wrong with them."""
        name = self.named()
        if set(exported) != set(self.exported):
            raise InputError(f"leaves of {name} need {list(self.exported)}, got {sorted(map(str, exported))}")
        checked = {key: as_numbers(f"leaves of {name}: '{key}'", value) for key, value in exported.items()}
        levels = {value.shape[0] if value.dim() else 0 for value in checked.values()}
        wanted = max(levels) if len(levels) == 1 and levels <= set(num_levels) else min(num_levels)
        for key, like in self.export(self.natural()).items():
            value, shape = checked[key], [wanted, *like.shape[1:]]
            if list(value.shape) != shape:
                raise InputError(f"leaves of {name}: '{key}' has shape {list(value.shape)} instead of {shape}")
            if not torch.isfinite(value).all():
                raise InputError(f"leaves of {name}: '{key}' must be finite")
        return checked

    def named(self) -> str:
        return ", ".join(f"'{attribute.name}'" for attribute in self.scope)

    def refuse(self, key: str, requirement: str) -> InputError:
        return InputError(f"leaves of {self.named()}: '{key}' must be {requirement}")

    # Memory.

    def bytes_per_vertex(self) -> int:
        """Bytes that `log_prob` of one level takes at most beside its result, for each row.

        Six intermediate results, in double precision, are enough for all families that compute a leaf at a time.
        """
        return 6 * 8 * self.num_leaves


def message_width(attribute: Attribute) -> int:
    """Columns of the context that tell of an attribute."""
    return len(attribute.categories) if isinstance(attribute, Categorical) else 1


def at_level(natural: Natural, level: int) -> Natural:
    """The parameters of one level, as a single-level Natural."""
    index = range(next(iter(natural.values())).shape[0])[level]
    return {name: value[index : index + 1] for name, value in natural.items()}


def with_level(natural: Natural, another: Natural) -> Natural:
    """Another level put on top."""
    return {name: torch.cat([value, another[name]]) for name, value in natural.items()}


def as_numbers(name: str, value: Any) -> Tensor:
    """Given numbers as a float64 tensor."""
    try:
        return torch.as_tensor(value, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(f"{name} must be an array of numbers: {error}") from error


def as_mapping(name: str, value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be a mapping by name, got {type(value).__name__}")
    return value
