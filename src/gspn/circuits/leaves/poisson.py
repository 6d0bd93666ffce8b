"""Poisson leaves for counts.

Log-densities are computed in float64 whatever the model's dtype: for a count of 10⁵ the terms x·log λ and log x! are
of size 10⁶ and cancel almost completely, which float32 cannot follow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import scipy.stats
import torch
from torch import Tensor, nn

from gspn.attributes import Attribute, Count
from gspn.circuits.evidence import Context
from gspn.circuits.leaves.contract import Natural
from gspn.circuits.leaves.regression import RegressingLeaves, Terms
from gspn.circuits.numerics import log_positive, log_weight

LEAST_INITIAL_MEAN = 0.05
"""A group of zeros still starts with a rate from which learning can depart."""

_NOISE = 0.1


class CountLeaves(RegressingLeaves):
    """Shared by the families of counts."""

    attribute: Count

    def features(self, x: Tensor) -> Tensor | None:
        """On a log scale."""
        log_count = torch.log1p(x)
        known = log_count[~torch.isnan(log_count)]
        spread = known.std(correction=0) if len(known) else torch.tensor(0.0)
        return log_count / torch.where(spread > 0, spread, 1.0)

    def pseudo_observations(self) -> tuple[Tensor, Tensor]:
        """A single event."""
        return torch.ones(1, 1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)


class PoissonLeaves(CountLeaves):
    """Poisson distributions; `natural` holds log_rate."""

    exported: tuple[str, ...] = ("rate",)

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
        self.raw_rate = nn.Parameter(torch.randn(num_levels, num_leaves))
        self.add_slopes()

    def natural(self) -> Natural:
        return self.with_slope({"log_rate": self.raw_rate})

    def regress(self, natural: Natural, context: Context) -> Natural:
        return {"log_rate": natural["log_rate"] + self.shift(natural, context).squeeze(-1)}

    def predictors(self, natural: Natural) -> Tensor:
        return natural["log_rate"][0, :, None]

    def terms(self, natural: Natural, predictors: Tensor, x: Tensor) -> Terms:
        seen, rate = x[:, None, None], predictors.exp()
        return Terms((seen * predictors - rate).squeeze(-1), seen - rate, rate)

    def assign_predictors(self, level: int, predictors: Tensor) -> None:
        with torch.no_grad():
            self.raw_rate[level] = predictors.squeeze(-1)

    def combine(self, natural: Natural, weights: Tensor) -> Natural:
        self.refuse_shortcut()
        # Σ w λ in log space.
        log_weights = log_weight(weights)[:, None]
        return {"log_rate": torch.logsumexp(log_weights + natural["log_rate"], dim=0, keepdim=True)}

    def log_density_of(self, natural: Natural, x: Tensor) -> Tensor:
        log_rate, x = natural["log_rate"].double(), x.double()
        return (x * log_rate - log_rate.exp() - torch.lgamma(x + 1)).to(natural["log_rate"].dtype)

    def mean(self, natural: Natural) -> Tensor:
        return natural["log_rate"].double().exp()

    def variance(self, natural: Natural) -> Tensor:
        return self.mean(natural)

    def mode(self, natural: Natural) -> Tensor:
        return self.mean(natural).floor()

    def quantile(self, natural: Natural, q: float) -> Tensor:
        return torch.as_tensor(scipy.stats.poisson.ppf(q, self.mean(natural).detach().numpy())).clamp_min(0)

    def cumulative_of(self, natural: Natural, x: Tensor) -> Tensor:
        return torch.as_tensor(scipy.stats.poisson.cdf(x.double().numpy(), self.mean(natural).detach().numpy()))

    def sample(self, natural: Natural, n: int, generator: torch.Generator | None = None) -> Tensor:
        rate = self.mean(natural).detach()
        return torch.poisson(rate.expand(n, *rate.shape), generator=generator)

    def initialise(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        means = initial_means(groups, generator)
        noise = _NOISE * torch.randn(self.num_levels, self.num_leaves, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            self.raw_rate.copy_(means.log() + noise)
        self.forget_slopes()

    def weighted_estimate(self, x: Tensor, weights: Tensor) -> Natural:
        return {"rate": weights.T @ x / weights.sum(0).clamp_min(torch.finfo(weights.dtype).tiny)}

    def export(self, natural: Natural) -> Natural:
        return {"rate": self.mean(natural)} | self.export_slope(natural)

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        if bool((exported["rate"] < 0).any()):
            raise self.refuse("rate", "non-negative")
        self.check_slope(exported)
        self.assign_slope(exported)
        with torch.no_grad():
            self.raw_rate.copy_(log_positive(exported["rate"].to(self.raw_rate.dtype)))


def initial_means(groups: Sequence[Tensor], generator: torch.Generator) -> Tensor:
    """[leaves] mean count of every group; an empty group starts near the mean of all."""
    overall = torch.cat(list(groups)).mean().item() if any(len(group) for group in groups) else 1.0
    noise = torch.exp(torch.randn(len(groups), generator=generator, dtype=torch.float64))
    means = [group.mean().item() if len(group) else overall * noise[m].item() for m, group in enumerate(groups)]
    return torch.tensor(means, dtype=torch.float64).clamp_min(LEAST_INITIAL_MEAN).clamp_max(math.exp(80))
