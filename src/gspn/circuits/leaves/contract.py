"""The contract of a leaf family: all distributions of one attribute, M of them at each of L levels, at once.

Learned parameters are unconstrained tensors. `natural` turns them into the distributions' own parameters (positive
scales, normalised probabilities); everything else is a function of those, so that the shortcut's combined level, which
has no learned parameters, is treated like any other. Numbers that leave a family (moments, samples, `export`) are in
the users' units and in float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gspn.attributes import Attribute
from gspn.errors import InputError

Natural = dict[str, Tensor]
"""The distributions' own parameters by name, each [levels, leaves, …]."""


class Leaves(nn.Module, ABC):
    """`num_leaves` distributions of one attribute at each of `num_levels` levels."""

    exported: ClassVar[tuple[str, ...]]
    """Names of the parameters in `export` and `assign`."""

    def __init__(self, attribute: Attribute, num_levels: int, num_leaves: int) -> None:
        super().__init__()
        self.attribute = attribute
        self.num_levels = num_levels
        self.num_leaves = num_leaves

    # What a family must know.

    @abstractmethod
    def natural(self) -> Natural:
        """The present parameters of the levels that have their own."""

    @abstractmethod
    def combine(self, natural: Natural, weights: Tensor) -> Natural:
        """One level combined from several with the given weights [levels] (the shortcut)."""

    @abstractmethod
    def log_density_of(self, natural: Natural, x: Tensor) -> Tensor:
        """[levels, N, leaves] log-densities of values without gaps."""

    @abstractmethod
    def mean(self, natural: Natural) -> Tensor:
        """[levels, leaves]"""

    @abstractmethod
    def variance(self, natural: Natural) -> Tensor:
        """[levels, leaves]"""

    @abstractmethod
    def mode(self, natural: Natural) -> Tensor:
        """[levels, leaves] a most likely value."""

    @abstractmethod
    def quantile(self, natural: Natural, q: float) -> Tensor:
        """[levels, leaves] the smallest value whose cumulative probability is at least q."""

    @abstractmethod
    def cumulative(self, natural: Natural, x: Tensor) -> Tensor:
        """[levels, N, leaves] probability of a value of at most x [N]."""

    @abstractmethod
    def sample(self, natural: Natural, n: int, generator: torch.Generator | None = None) -> Tensor:
        """[n, levels, leaves] draws."""

    @abstractmethod
    def initialise(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        """Set every level's leaf m from the observed values groups[m] (possibly none), with noise where needed."""

    @abstractmethod
    def export(self, natural: Natural) -> Natural:
        """The parameters as people read them, under the names in `exported`."""

    @abstractmethod
    def assign(self, exported: Mapping[str, Tensor]) -> None:
        """Set the learned parameters from checked, exported ones (levels that have their own)."""

    # What all families share.

    def log_density(self, natural: Natural, x: Tensor) -> Tensor:
        """[levels, N, leaves] log-densities of a column; 0 where it is NaN, which marginalises the attribute."""
        missing = torch.isnan(x)
        # A valid stand-in instead of NaN: the gradient of a discarded branch must be finite too.
        log_density = self.log_density_of(natural, x.masked_fill(missing, 0.0))
        return log_density.masked_fill(missing[None, :, None], 0.0)

    def check_exported(self, exported: Mapping[str, Any], *num_levels: int) -> Natural:
        """Exported parameters of one of the given numbers of levels, or an error that names what is wrong with them."""
        name = self.attribute.name
        if set(exported) != set(self.exported):
            raise InputError(f"leaves of '{name}' need {list(self.exported)}, got {sorted(map(str, exported))}")
        checked = {key: as_numbers(f"leaves of '{name}': '{key}'", value) for key, value in exported.items()}
        levels = {value.shape[0] if value.dim() else 0 for value in checked.values()}
        wanted = max(levels) if len(levels) == 1 and levels <= set(num_levels) else min(num_levels)
        for key, like in self.export(self.natural()).items():
            value, shape = checked[key], [wanted, *like.shape[1:]]
            if list(value.shape) != shape:
                raise InputError(f"leaves of '{name}': '{key}' has shape {list(value.shape)} instead of {shape}")
            if not torch.isfinite(value).all():
                raise InputError(f"leaves of '{name}': '{key}' must be finite")
        return checked

    def refuse(self, key: str, requirement: str) -> InputError:
        return InputError(f"leaves of '{self.attribute.name}': '{key}' must be {requirement}")


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


def as_mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be a mapping by name, got {type(value).__name__}")
    return value
