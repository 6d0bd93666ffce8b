"""What families over a single attribute share: they say what one distribution is, and everything else follows.

The elementwise functions (`log_density_of`, `cumulative_of`, the moments) broadcast: `natural` may be [levels, leaves,
…] as it is learned, [levels, 1, leaves, …] beside rows of values, or [n, leaves, …] where every row has its own.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from gspn.attributes import Attribute, Categorical
from gspn.circuits.evidence import Context, Evidence
from gspn.circuits.leaves.contract import Leaves, Natural, Rows

_COUNTS_SUMMED, _STEPS = 512, 256
"""Up to which count E[log(1 + X)] is summed one by one, and how many steps of equal ratio cover the rest."""

_NARROW = 0.05
"""Squared coefficient of variation below which the expansion of log(1 + X) at the mean is right to 2e-4."""

_QUANTILES = (1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
"""With their mirror images and the median, the places around a leaf of any shape between which it is smooth."""


class UnivariateLeaves(Leaves):
    """`num_leaves` distributions of one attribute at each of `num_levels` levels."""

    has_moments: bool = True
    """Whether there are a mean and a variance, if perhaps infinite; moments of mixtures are those of the others."""

    def __init__(
        self, attribute: Attribute | Sequence[Attribute], num_levels: int, num_leaves: int, *, context_width: int = 0
    ) -> None:
        scope = tuple(attribute) if isinstance(attribute, Sequence) else (attribute,)
        super().__init__(scope, num_levels, num_leaves, context_width=context_width)
        (self.attribute,) = scope

    # What a family must know.

    @abstractmethod
    def log_density_of(self, natural: Natural, x: Tensor) -> Tensor:
        """Log-densities of values without gaps, elementwise; x has 1 in the place of the leaves."""

    @abstractmethod
    def cumulative_of(self, natural: Natural, x: Tensor) -> Tensor:
        """Probabilities of a value of at most x, elementwise."""

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
    def sample(self, natural: Natural, n: int, generator: torch.Generator | None = None) -> Tensor:
        """[n, levels, leaves] draws."""

    @abstractmethod
    def initialise(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        """Set every level's leaf m from the observed values groups[m] (possibly none), with noise where needed."""

    @abstractmethod
    def weighted_estimate(self, x: Tensor, weights: Tensor) -> Mapping[str, Tensor]:
        """Likeliest exported parameters [leaves, …] of observed values x [n] with weights [n, leaves]."""

    def regress(self, natural: Natural, context: Context) -> Natural:
        """[n, leaves, …] one level's parameters at every row, given its context; for families with one."""
        raise NotImplementedError(f"{type(self).__name__} have no context")

    def standardised(self, x: Tensor) -> Tensor:
        """Values in units of the data."""
        return x

    # What follows.

    def log_density(self, natural: Natural, x: Tensor) -> Tensor:
        """[levels, n, leaves] log-densities of a column; 0 where it is NaN, which marginalises the attribute."""
        return self._log_density(beside_rows(natural), x)

    def _log_density(self, natural: Natural, x: Tensor) -> Tensor:
        """The same from parameters that have a place for rows, or a row each."""
        missing = torch.isnan(x)
        # A valid stand-in instead of NaN: the gradient of a discarded branch must be finite too.
        log_density = self.log_density_of(natural, x.masked_fill(missing, 0.0)[:, None])
        return log_density.masked_fill(missing[None, :, None], 0.0)

    def cumulative(self, natural: Natural, x: Tensor) -> Tensor:
        """[levels, n, leaves] probability of a value of at most x [n]."""
        return self.cumulative_of(beside_rows(natural), x[:, None])

    def log_prob(self, natural: Natural, evidence: Evidence, context: Context | None = None) -> Tensor:
        x = evidence.x.squeeze(1)
        if context is None or not self.context_width:
            return self.log_density(natural, x)
        of_rows = self.regress(natural, context)
        return self._log_density({name: value.unsqueeze(0) for name, value in of_rows.items()}, x)

    def conditional(self, natural: Natural, column: int, evidence: Evidence, context: Context | None = None) -> Rows:
        return Rows(self, natural if context is None or not self.context_width else self.regress(natural, context))

    def draw(
        self,
        natural: Natural,
        leaf: Tensor,
        wanted: Tensor,
        evidence: Evidence,
        context: Context | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        x, rows = evidence.x.clone(), wanted[:, 0].nonzero().squeeze(1)
        if len(rows):
            given = None if context is None else context[rows]
            draws = sample_rows(self.conditional(natural, 0, evidence[rows], given), len(rows), generator)
            x[rows, 0] = draws.gather(1, leaf[rows, None]).squeeze(1)
        return x

    def expectation(self, natural: Natural, evidence: Evidence, context: Context | None = None) -> list[Tensor]:
        x, rows = evidence.x.squeeze(1), self.conditional(natural, 0, evidence, context)
        missing = torch.isnan(x)
        told = self._told(x.masked_fill(missing, 0.0))
        expected = self._where(missing, rows, self._expected).to(next(iter(natural.values())).dtype)
        return [torch.where(missing[:, None, None], expected, told.to(expected.dtype)[:, None, :])]

    def _where(self, missing: Tensor, rows: Rows, ask: Callable[[Natural], Tensor]) -> Tensor:
        """[n or 1, …] what rows without a value say; those with one, where every row has its own, say 0.

        Sums over counts, row by row, are worth doing only where they are needed.
        """
        if rows.shared or self.attribute.kind != "count":
            return ask(rows.natural)
        wanted = missing.nonzero().squeeze(1)
        found = ask(rows[wanted].natural)
        return found.new_zeros(len(missing), *found.shape[1:]).index_copy(0, wanted, found)

    def _told(self, x: Tensor) -> Tensor:
        """[n, width] what a known value is told as."""
        if isinstance(self.attribute, Categorical):
            return one_hot(x.long(), len(self.attribute.categories)).double()
        kind = self.attribute.kind
        return (self.standardised(x) if kind == "continuous" else torch.log1p(x) if kind == "count" else x)[:, None]

    def _expected(self, natural: Natural) -> Tensor:
        """[n or 1, leaves, width] the expectation of what would be told."""
        if isinstance(self.attribute, Categorical):
            device = next(iter(natural.values())).device
            codes = torch.arange(len(self.attribute.categories), dtype=torch.float64, device=device)
            return torch.stack([self.log_density_of(natural, code[None, None]).exp() for code in codes], dim=-1)
        if self.attribute.kind == "count":
            return self._expected_log(natural)[..., None]
        return self.standardised(self.mean(natural))[..., None]

    def uncertainty(self, natural: Natural, weights: Tensor, evidence: Evidence, context: Context | None) -> Tensor:
        rows, known = self.conditional(natural, 0, evidence, context), evidence.known[:, 0]
        if isinstance(self.attribute, Categorical):
            # Σ w (diag p − p pᵀ), without a matrix for every leaf.
            probs = self._expected(rows.natural).double().expand(len(weights), -1, -1)
            mixed = torch.einsum("nl,nla->na", weights.double(), probs)
            found = torch.diag_embed(mixed) - torch.einsum("nl,nla,nlb->nab", weights.double(), probs, probs)
        else:
            variance = self._where(~known, rows, self._variance_told)
            found = (weights.double() * variance).sum(1)[:, None, None]
        dtype = next(iter(natural.values())).dtype
        return torch.where(known[:, None, None], 0.0, found).to(dtype)

    def _variance_told(self, natural: Natural) -> Tensor:
        """[n or 1, leaves] the variance of what would be told, where that is a number."""
        if self.attribute.kind == "count":
            return self._log_moments(natural)[1]
        units = self.units().get(self.attribute.name)
        return self.variance(natural) / (1.0 if units is None else units[1].item() ** 2)

    def _expected_log(self, natural: Natural) -> Tensor:
        """[n or 1, leaves] E[log(1 + X)] of counts."""
        return self._log_moments(natural)[0]

    def _log_moments(self, natural: Natural) -> tuple[Tensor, Tensor]:
        """[n or 1, leaves] mean and variance of log(1 + X) of counts."""
        mean, variance = self.mean(natural), self.variance(natural)
        if not mean.numel():
            return mean, variance
        narrow = (variance < _NARROW * mean.square()) & (mean > _COUNTS_SUMMED)
        expanded = torch.log1p(mean) - variance / (2 * (1 + mean).square())
        fixed = {name: value.detach().cpu() for name, value in natural.items()}
        last = float(self.quantile(fixed, 1 - 1e-12).max())
        ends = torch.arange(min(last, _COUNTS_SUMMED) + 2, dtype=torch.float64)
        if last > _COUNTS_SUMMED:
            further = torch.logspace(math.log10(_COUNTS_SUMMED + 1), math.log10(last + 2), _STEPS, dtype=torch.float64)
            ends = torch.cat([ends, further.round()]).unique()
        # A step stands for all counts from its beginning to the next one's; the first ones have a single count each.
        width = ends.diff().to(mean.device)
        counts = ends[:-1].to(mean.device) + (width - 1) / 2
        probs = self.log_density_of(beside_rows(natural), counts[:, None]).double().exp()
        logs = torch.log1p(counts)[:, None]
        summed = (probs * (width[:, None] * logs)).sum(1)
        squared = (probs * (width[:, None] * (logs - summed.unsqueeze(1)).square())).sum(1)
        return torch.where(narrow, expanded, summed), torch.where(narrow, variance / (1 + mean).square(), squared)

    # Mixtures of leaves: weights [n, leaves] over leaves that all rows share. What has no formula is searched and
    # integrated for any leaves (`circuits.components`); a family may know a quicker way.

    def mixture_mode(self, natural: Natural, weights: Tensor) -> Tensor | None:
        """[n] a most likely value of each mixture, where the family finds it faster than a search; else None."""
        return None

    def mixture_entropy(self, natural: Natural, weights: Tensor) -> Tensor | None:
        """[n] entropy of each mixture in nats, where the family finds it faster than by quadrature; else None."""
        return None

    def elsewhere(self, natural: Natural) -> tuple[Rows, Tensor]:
        """The distributions beside the atoms, and the log-probabilities [n or 1, leaves] of not being at one."""
        return Rows(self, natural), torch.zeros_like(self.mode(natural))

    def breakpoints(self, natural: Natural) -> Tensor:
        """[n or 1, leaves, B] places between which every leaf's density is smooth; almost nothing lies outside."""
        levels = (*_QUANTILES, 0.5, *(1 - q for q in reversed(_QUANTILES)))
        return torch.stack([self.quantile(natural, q) for q in levels], dim=-1)

    # Learning.

    def start(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        values = [group[:, 0] for group in groups]
        self.initialise([value[~torch.isnan(value)] for value in values], generator)

    def estimate(
        self,
        evidence: Evidence,
        weights: Tensor,
        *,
        level: int = 0,
        context: Context | None = None,
        prior: float = 0.0,
    ) -> None:
        if self.context_width:
            raise NotImplementedError(f"{type(self).__name__} have a context: their estimate is their own")
        self.estimate_without_context(evidence, weights, level, prior)

    def estimate_without_context(self, evidence: Evidence, weights: Tensor, level: int, prior: float) -> None:
        """Set a level to its `weighted_estimate`."""
        x, weights = self.seen(evidence, weights, prior)
        mass = weights.sum(0)
        before = learned(self)
        exported = {key: value.clone() for key, value in self.export(self.natural()).items()}
        for key, value in self.weighted_estimate(x, weights).items():
            own = (mass > 0).view(-1, *[1] * (value.ndim - 1))
            exported[key][level] = torch.where(own, value, exported[key][level])
        self.assign(exported)
        keep_others(self, before, level, mass > 0)

    def seen(self, evidence: Evidence, weights: Tensor, prior: float) -> tuple[Tensor, Tensor]:
        """Known values [n] and their weights [n, leaves] in double precision, followed by what the prior has seen."""
        x = evidence.x[:, 0]
        known = ~torch.isnan(x)
        x, weights = x[known].double(), weights[known].double()
        if prior > 0:
            rows, shares = self.pseudo_observations()
            x = torch.cat([x, rows[:, 0].to(x)])
            weights = torch.cat([weights, prior * shares[:, None].expand(-1, self.num_leaves).to(weights)])
        return x, weights


def learned(family: Leaves) -> list[Tensor]:
    """Copies of the learned parameters."""
    return [parameter.detach().clone() for parameter in family.parameters()]


def keep_others(family: Leaves, before: Sequence[Tensor], level: int, estimated: Tensor) -> None:
    """Put back to its last digit what has not been estimated: other levels, and leaves [leaves] without any weight.

    What all leaves share has been estimated if any of them has.
    """
    changed = torch.zeros(family.num_levels, family.num_leaves, dtype=torch.bool)
    changed[level] = estimated.cpu()
    with torch.no_grad():
        for parameter, old in zip(family.parameters(), before, strict=True):
            own = changed if old.shape[1] == family.num_leaves else changed.any(1, keepdim=True)
            own = own.to(old.device).view(*own.shape, *[1] * (old.ndim - 2))
            parameter.copy_(torch.where(own, parameter, old))


def beside_rows(natural: Natural) -> Natural:
    """[levels, 1, leaves, …]: a place for values after the levels, or after the rows where every row has its own."""
    return {name: value.unsqueeze(1) for name, value in natural.items()}


def sample_rows(rows: Rows, n: int, generator: torch.Generator | None = None) -> Tensor:
    """[n, leaves] a draw of every leaf for each of n rows."""
    if rows.shared:
        return rows.family.sample(rows.natural, n, generator)[:, 0]
    return rows.family.sample(rows.natural, 1, generator)[0]
