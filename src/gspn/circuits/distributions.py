"""Univariate distributions as answers: n of them over one attribute, with moments, intervals and draws.

What is discrete is a table of probabilities; what is not is a mixture of leaves, each row with weights of its own. How
the tables and weights are computed is up to what answers.
"""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gspn import sketches
from gspn.attributes import Attribute, Binary, Categorical
from gspn.circuits.components import Components
from gspn.columns import is_number, shorten, tensor_to_array
from gspn.errors import InputError

_OLD_NAMES = {"Table": "CategoricalDistribution", "Mixture": "MixtureDistribution"}

_SHOWN, _SHOWN_VALUES = 6, 8
"""Rows, and values of each, that a notebook shows."""

_HALVINGS = 80
"""Steps of bisection: more than float64 has digits."""


class CategoricalDistribution:
    """n distributions of a categorical or binary attribute."""

    def __init__(self, attribute: Categorical | Binary, log_probs: Tensor) -> None:
        self.attribute = attribute
        self._log_probs = log_probs.detach().cpu().double()

    def __len__(self) -> int:
        return len(self._log_probs)

    def __getitem__(self, rows: int | slice | Tensor) -> CategoricalDistribution:
        return CategoricalDistribution(self.attribute, self._log_probs[several(rows, len(self))])

    def __repr__(self) -> str:
        return f"CategoricalDistribution({len(self)} distributions of {self.attribute!r})"

    def _repr_html_(self) -> str:
        pictures = []
        for row, probs in enumerate(self.probs[:_SHOWN].tolist()):
            likeliest = sorted(range(len(probs)), key=probs.__getitem__, reverse=True)[:_SHOWN_VALUES]
            labels = [str(self.categories[code]) for code in likeliest]
            pictures.append(sketches.shares(labels, [probs[code] for code in likeliest], f"row {row}"))
        return sketches.shown(f"{self.attribute.name}, {_count(self)}", *pictures, note=_rest(self))

    @property
    def categories(self) -> tuple[Any, ...]:
        return self.attribute.categories if isinstance(self.attribute, Categorical) else (False, True)

    @property
    def probs(self) -> Tensor:
        """[n, K] in the order of `categories`."""
        return self._log_probs.exp()

    def log_prob(self, values: Any) -> Tensor:
        """[n] log-probability of one value per row, or of the same value in all rows; 0 where it is missing."""
        codes = encoded(self.attribute, values, len(self))
        missing = torch.isnan(codes)
        found = self._log_probs.gather(1, codes.masked_fill(missing, 0.0).long()[:, None]).squeeze(1)
        return found.masked_fill(missing, 0.0)

    @property
    def mode(self) -> Tensor:
        """[n] code of a most likely value."""
        return self._log_probs.argmax(-1)

    @property
    def mean(self) -> Tensor:
        """[n] probability of True; categories have no mean."""
        if not isinstance(self.attribute, Binary):
            raise InputError(f"'{self.attribute.name}' is categorical: it has a mode but no mean")
        return self.probs[:, 1]

    @property
    def variance(self) -> Tensor:
        mean = self.mean
        return mean * (1 - mean)

    @property
    def entropy(self) -> Tensor:
        """[n] in nats."""
        return -torch.xlogy(self.probs, self.probs).sum(-1)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """[n, rows] codes."""
        check_draws(n)
        if not n or not len(self):
            return torch.zeros(n, len(self), dtype=torch.float64)
        return torch.multinomial(self.probs, n, replacement=True, generator=generator).T.double()


class MixtureDistribution:
    """n mixtures of leaves of a continuous or count attribute."""

    def __init__(self, components: Components, log_weights: Tensor) -> None:
        """`log_weights` is [n, C]."""
        self.attribute = components.attribute
        self._components = components
        self._log_weights = log_weights.detach().cpu().double()

    def __len__(self) -> int:
        return len(self._log_weights)

    def __getitem__(self, rows: int | slice | Tensor) -> MixtureDistribution:
        chosen = several(rows, len(self))
        return MixtureDistribution(self._components[chosen], self._log_weights[chosen])

    def __repr__(self) -> str:
        return f"MixtureDistribution({len(self)} distributions of {self.attribute!r})"

    def _repr_html_(self) -> str:
        pictures = []
        for row in range(min(len(self), _SHOWN)):
            own = self[row]
            low, high = own.interval(0.9)[0].tolist()
            (start,), (end,) = own.quantile(0.002).tolist(), own.quantile(0.998).tolist()
            x = np.linspace(start, end, 81)
            if self.attribute.kind == "count":
                x = np.unique(x.round())
            density = self[torch.full((len(x),), row)].log_prob(torch.from_numpy(x)).exp()
            title = f"row {row}: mean {own.mean.item():.4g}, 90 % in {low:.4g} … {high:.4g}"
            pictures.append(sketches.curve(x.tolist(), density.tolist(), title, (low, high)))
        return sketches.shown(f"{self.attribute.name}, {_count(self)}", *pictures, note=_rest(self))

    @property
    def weights(self) -> Tensor:
        """[n, C] mixing weights."""
        return torch.softmax(self._log_weights, dim=-1)

    @property
    def atoms(self) -> Tensor:
        """[A] values that have a mass of their own beside the density, ascending."""
        return self._components.atoms

    def log_prob(self, values: Any) -> Tensor:
        """[n] log-density of one value per row, or of the same value in all rows; 0 where it is missing.

        At an atom it is the logarithm of its mass.
        """
        x = encoded(self.attribute, values, len(self))
        log_density = self._components.log_density(x)
        return torch.logsumexp(self._log_weights + log_density, dim=-1).masked_fill(torch.isnan(x), 0.0)

    @property
    def mean(self) -> Tensor:
        """[n] of the components that have one: a guard has none."""
        components, weights = self._with_moments()
        return _averaged(weights, components.mean())

    @property
    def variance(self) -> Tensor:
        """[n] by the law of total variance, centred, so that nothing large cancels; without a guard, as the mean."""
        components, weights = self._with_moments()
        means, mean = components.mean(), self.mean
        within = _averaged(weights, components.variance())
        return within + (weights * (means - mean[:, None]).square()).sum(-1)

    def _with_moments(self) -> tuple[Components, Tensor]:
        components, log_weights = self._components.with_moments(self._log_weights)
        return components, torch.softmax(log_weights, dim=-1)

    @property
    def mode(self) -> Tensor:
        """[n] a most likely value; of a continuous attribute, the place of the highest density found by climbing.

        The highest density may be that of a narrow leaf with little weight: a mode is no typical value.
        """
        return self._components.mode(self.weights)

    @property
    def entropy(self) -> Tensor:
        """[n] in nats. Of counts: summed; of a continuous attribute: differential, by quadrature, right to 1e-7."""
        return self._components.entropy(self.weights)

    def cumulative(self, values: Any) -> Tensor:
        """[n] probability of at most the value."""
        return self._cumulative(encoded(self.attribute, values, len(self)))

    def _cumulative(self, x: Tensor) -> Tensor:
        return (self.weights * self._components.cumulative(x)).sum(-1)

    def quantile(self, q: float) -> Tensor:
        """[n] the smallest value whose cumulative probability is at least q."""
        _check_share("q", q)
        of_leaves = self._components.quantile(q)
        # A mixture's quantile lies between those of its leaves.
        low, high = of_leaves.amin(1).expand(len(self)), of_leaves.amax(1).expand(len(self))
        whole = self.attribute.kind == "count"
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            middle = middle.floor() if whole else middle
            enough = self._cumulative(middle) >= q
            low, high = torch.where(enough, low, middle + 1 if whole else middle), torch.where(enough, middle, high)
            if whole:
                low = torch.minimum(low, high)
        for value, mass in zip(self.atoms, self._components.masses(self.weights).T, strict=True):
            # Bisection comes near an atom; the quantile is the atom itself.
            at = self._cumulative(value.expand(len(self)))
            high = torch.where((at - mass < q) & (q <= at), value, high)
        return high

    def interval(self, level: float = 0.9) -> Tensor:
        """[n, 2] the central interval that holds the value with at least the given probability."""
        _check_share("level", level)
        return torch.stack([self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)], dim=-1)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """[n, rows] draws."""
        check_draws(n)
        if not n or not len(self):
            return torch.zeros(n, len(self), dtype=torch.float64)
        state = torch.multinomial(self.weights, n, replacement=True, generator=generator).T
        draws = [self._components.sample(len(self), generator).gather(1, k[:, None]) for k in state]
        return torch.stack(draws).squeeze(-1)


def _count(distributions: CategoricalDistribution | MixtureDistribution) -> str:
    return f"{len(distributions):,} distribution{'' if len(distributions) == 1 else 's'}"


def _rest(distributions: CategoricalDistribution | MixtureDistribution) -> str:
    more = len(distributions) - _SHOWN
    return f"and {more:,} more rows" if more > 0 else ""


Distribution: TypeAlias = CategoricalDistribution | MixtureDistribution


def mix(components: Components, log_weights: Tensor) -> Distribution:
    """The distributions with the given weights [n, C] over the components."""
    attribute = components.attribute
    if not isinstance(attribute, Categorical | Binary):
        return MixtureDistribution(components, log_weights)
    weights = torch.log_softmax(log_weights.detach().cpu().double(), dim=-1)
    codes = len(attribute.categories) if isinstance(attribute, Categorical) else 2
    # Category by category: all at once would need room for n · C · K numbers.
    columns = [torch.logsumexp(weights + of_code, dim=-1) for of_code in components.log_probs(codes)]
    return CategoricalDistribution(attribute, torch.stack(columns, dim=-1))


def _averaged(weights: Tensor, values: Tensor) -> Tensor:
    """[n] Σ weights · values, whose rows [n or 1, C] may be shared."""
    return weights @ values[0] if len(values) == 1 else (weights * values).sum(-1)


def encoded(attribute: Attribute, values: Any, rows: int) -> Tensor:
    """[rows] encoded values from a tensor of them, from people's values, or from one of either for all rows."""
    is_tensor = hasattr(values, "detach")
    if isinstance(values, str) or not hasattr(values, "__len__") or getattr(values, "ndim", 1) == 0:
        values = values.reshape(1).expand(rows) if is_tensor else [values] * rows
    if is_tensor:
        column = tensor_to_array(values).astype(np.float64)
        fault = attribute.find_fault(column)
        if fault is not None:
            raise InputError(fault[1], attribute=attribute.name, row=fault[0])
    else:
        column = attribute.encode(values)
    if len(column) != rows:
        raise InputError(f"there are {rows} distributions, but {len(column)} values")
    return torch.from_numpy(column)


def several(rows: int | slice | Tensor, length: int) -> slice | Tensor:
    """One row is a batch of one."""
    return torch.tensor([range(length)[rows]]) if isinstance(rows, int | np.integer) else rows


def _check_share(name: str, value: Any) -> None:
    if not is_number(value) or not 0 < value < 1:
        raise InputError(f"{name} must be a number between 0 and 1, got {shorten(value)}")


def check_draws(n: Any) -> None:
    if not isinstance(n, Integral) or int(n) < 0:
        raise InputError(f"n must be a number of draws, got {shorten(n)}")


def __getattr__(name: str) -> Any:
    """The names that these classes had first; they go away in the next minor version."""
    if name not in _OLD_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new = _OLD_NAMES[name]
    warnings.warn(f"{__name__}.{name} is now called {new}", FutureWarning, stacklevel=2)
    return globals()[new]
