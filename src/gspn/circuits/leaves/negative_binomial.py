"""Negative binomial leaves for heavy-tailed counts such as degrees: a Poisson whose rate itself varies.

Parametrised by mean and dispersion α: variance = mean + α·mean². Computed in float64, as the Poisson and for the same
reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import scipy.stats
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from gspn.attributes import Attribute
from gspn.circuits.evidence import Context
from gspn.circuits.leaves.contract import Natural
from gspn.circuits.leaves.poisson import CountLeaves, initial_means
from gspn.circuits.leaves.regression import Terms
from gspn.circuits.leaves.univariate import beside_rows
from gspn.circuits.numerics import inverse_softplus, log_positive, log_weight

LEAST_DISPERSION = 1e-6
"""A Poisson for all but huge counts, yet large enough for log Γ(x + 1/α) − log Γ(1/α) to keep its digits."""

MOST_DISPERSION = 1e4
"""A state whose counts spread further is not told from one with this."""

_POINTS, _ROUNDS = 33, 8
"""Points among which a dispersion is sought at once, and how often again between the neighbours of the best."""
_NEARBY, _FEWER_POINTS, _FEWER_ROUNDS = math.log(8.0), 9, 6
"""Where every row has a mean of its own: so near to what it was, to 1e-3 of its logarithm; EM comes back anyway."""


class NegativeBinomialLeaves(CountLeaves):
    """Negative binomial distributions; `natural` holds log_mean and dispersion."""

    exported: tuple[str, ...] = ("mean", "dispersion")

    def __init__(
        self,
        attribute: Attribute | Sequence[Attribute],
        num_levels: int,
        num_leaves: int,
        *,
        context_width: int = 0,
        tied_slopes: bool = True,
    ) -> None:
        super().__init__(attribute, num_levels, num_leaves, context_width=context_width, tied_slopes=tied_slopes)
        self.raw_mean = nn.Parameter(torch.randn(num_levels, num_leaves))
        self.raw_dispersion = nn.Parameter(torch.zeros(num_levels, num_leaves))
        self.add_slopes()

    def natural(self) -> Natural:
        dispersion = LEAST_DISPERSION + softplus(self.raw_dispersion)
        return self.with_slope({"log_mean": self.raw_mean, "dispersion": dispersion})

    def regress(self, natural: Natural, context: Context) -> Natural:
        log_mean = natural["log_mean"] + self.shift(natural, context).squeeze(-1)
        return {"log_mean": log_mean, "dispersion": natural["dispersion"]}

    def predictors(self, natural: Natural) -> Tensor:
        return natural["log_mean"][0, :, None]

    def terms(self, natural: Natural, predictors: Tensor, x: Tensor) -> Terms:
        seen, mean, alpha = x[:, None, None], predictors.exp(), natural["dispersion"][0, :, None].double()
        odds = predictors + alpha.log()
        value = -softplus(odds) / alpha - seen * softplus(-odds)
        gradient = (seen - mean) / (1 + alpha * mean)
        return Terms(value.squeeze(-1), gradient, (1 + alpha * seen) * mean / (1 + alpha * mean).square())

    def assign_predictors(self, level: int, predictors: Tensor) -> None:
        with torch.no_grad():
            self.raw_mean[level] = predictors.squeeze(-1)

    def estimate_shape(self, level: int, predictors: Tensor, x: Tensor, weights: Tensor) -> None:
        """The dispersion given every row's mean, kept where no better one is found."""

        def likelihood(log_dispersion: Tensor) -> Tensor:
            natural = {"log_mean": predictors.squeeze(-1), "dispersion": log_dispersion.exp().unsqueeze(-2)}
            return (weights * self.log_density_of(natural, x[:, None])).sum(-2)

        before = self.natural()["dispersion"][level].detach().double()
        middle = before.log().clamp(math.log(LEAST_DISPERSION) + _NEARBY, math.log(MOST_DISPERSION) - _NEARBY)
        found = _best_dispersion(likelihood, middle - _NEARBY, middle + _NEARBY, _FEWER_POINTS, _FEWER_ROUNDS)
        better = (likelihood(found.log()[None]) > likelihood(before.log()[None]))[0]
        with torch.no_grad():
            raw = inverse_softplus(found - LEAST_DISPERSION).to(self.raw_dispersion.dtype)
            self.raw_dispersion[level] = torch.where(better, raw, self.raw_dispersion[level])

    def combine(self, natural: Natural, weights: Tensor) -> Natural:
        self.refuse_shortcut()
        log_mean = torch.logsumexp(log_weight(weights)[:, None] + natural["log_mean"], dim=0, keepdim=True)
        # Σ w α, which becomes the Poisson's rule as all α vanish.
        return {"log_mean": log_mean, "dispersion": (weights[:, None] * natural["dispersion"]).sum(0, keepdim=True)}

    def log_density_of(self, natural: Natural, x: Tensor) -> Tensor:
        log_mean, alpha, x = natural["log_mean"].double(), natural["dispersion"].double(), x.double()
        size = 1 / alpha
        log_odds = log_mean + alpha.log()
        log_choose = torch.lgamma(x + size) - torch.lgamma(size) - torch.lgamma(x + 1)
        # log r/(r+m) = −softplus(log αm), log m/(r+m) = −softplus(−log αm)
        log_density = log_choose - size * softplus(log_odds) - x * softplus(-log_odds)
        return log_density.to(natural["log_mean"].dtype)

    def mean(self, natural: Natural) -> Tensor:
        return natural["log_mean"].double().exp()

    def variance(self, natural: Natural) -> Tensor:
        mean = self.mean(natural)
        return mean + natural["dispersion"].double() * mean.square()

    def mode(self, natural: Natural) -> Tensor:
        # ⌊m(r−1)/r⌋ = ⌊m(1−α)⌋, and 0 where α ≥ 1.
        return (self.mean(natural) * (1 - natural["dispersion"].double())).clamp_min(0).floor()

    def quantile(self, natural: Natural, q: float) -> Tensor:
        size, success = self._size_and_success(natural)
        return torch.as_tensor(scipy.stats.nbinom.ppf(q, size.numpy(), success.numpy())).clamp_min(0)

    def cumulative_of(self, natural: Natural, x: Tensor) -> Tensor:
        size, success = (parameter.numpy() for parameter in self._size_and_success(natural))
        return torch.as_tensor(scipy.stats.nbinom.cdf(x.double().numpy(), size, success))

    def sample(self, natural: Natural, n: int, generator: torch.Generator | None = None) -> Tensor:
        size, _ = self._size_and_success(natural)
        mean = self.mean(natural).detach()
        # A Gamma(size) variable without a global generator: torch's own primitive takes one.
        gamma = torch._standard_gamma(size.expand(n, *size.shape), generator=generator)
        return torch.poisson(gamma * mean / size, generator=generator)

    def _size_and_success(self, natural: Natural) -> tuple[Tensor, Tensor]:
        alpha, mean = natural["dispersion"].detach().double(), self.mean(natural).detach()
        return 1 / alpha, 1 / (1 + alpha * mean)

    def initialise(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        means = initial_means(groups, generator)
        variances = torch.stack(
            [group.var(correction=0) if len(group) > 1 else m for group, m in zip(groups, means, strict=True)]
        )
        # Method of moments, kept away from the Poisson limit, where the dispersion would hardly learn.
        dispersion = ((variances - means) / means.square()).clamp(0.05, 10.0)
        with torch.no_grad():
            self.raw_mean.copy_(means.log().expand_as(self.raw_mean))
            self.raw_dispersion.copy_(inverse_softplus(dispersion - LEAST_DISPERSION).expand_as(self.raw_dispersion))
        self.forget_slopes()

    def weighted_estimate(self, x: Tensor, weights: Tensor) -> Natural:
        """The mean is the likeliest whatever the dispersion; that has no formula and is sought."""
        counts, place = torch.unique(x, return_inverse=True)
        mass = torch.zeros(len(counts), weights.shape[1], dtype=weights.dtype).index_add(0, place, weights)
        mean = (mass.T @ counts / mass.sum(0).clamp_min(torch.finfo(mass.dtype).tiny)).clamp_min(1e-300)

        def likelihood(log_dispersion: Tensor) -> Tensor:
            natural = beside_rows({"log_mean": mean.log()[None], "dispersion": log_dispersion.exp()})
            return (mass * self.log_density_of(natural, counts[:, None])).sum(-2)

        low, high = (torch.full_like(mean, math.log(bound)) for bound in (LEAST_DISPERSION, MOST_DISPERSION))
        return {"mean": mean, "dispersion": _best_dispersion(likelihood, low, high, _POINTS, _ROUNDS)}

    def export(self, natural: Natural) -> Natural:
        found = {"mean": self.mean(natural), "dispersion": natural["dispersion"].double()}
        return found | self.export_slope(natural)

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        if bool((exported["mean"] < 0).any()):
            raise self.refuse("mean", "non-negative")
        if bool((exported["dispersion"] < LEAST_DISPERSION * (1 - 1e-6)).any()):
            raise self.refuse("dispersion", f"at least {LEAST_DISPERSION:g} (use the Poisson for none)")
        self.check_slope(exported)
        self.assign_slope(exported)
        with torch.no_grad():
            self.raw_mean.copy_(log_positive(exported["mean"].to(self.raw_mean.dtype)))
            self.raw_dispersion.copy_(inverse_softplus(exported["dispersion"] - LEAST_DISPERSION))


def _best_dispersion(
    likelihood: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, points: int, rounds: int
) -> Tensor:
    """[leaves] where the likelihood is highest, of logarithms between `low` and `high` [leaves].

    `likelihood` gives those of several logarithms [points, leaves] at once.
    """
    shares = torch.linspace(0, 1, points, dtype=low.dtype, device=low.device)[:, None]
    for _ in range(rounds):
        tried = low + shares * (high - low)
        best = tried.gather(0, likelihood(tried).argmax(0, keepdim=True)).squeeze(0)
        step = (high - low) / (points - 1)
        low, high = torch.maximum(best - step, low), torch.minimum(best + step, high)
    return ((low + high) / 2).exp().clamp_min(LEAST_DISPERSION)
