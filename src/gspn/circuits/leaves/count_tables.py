"""Tables of counts: every small count has a probability of its own, larger ones share a tail that halves at each step.

For counts that take few values, such as bonds of an atom or rooms of a flat: no Poisson or negative binomial is as sure
of a value as these are, since their variance is at least the mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from gspn.attributes import Attribute
from gspn.circuits.evidence import Context
from gspn.circuits.leaves.contract import Natural
from gspn.circuits.leaves.poisson import CountLeaves
from gspn.circuits.leaves.regression import Terms
from gspn.circuits.numerics import log_positive, log_weight

TABULATED = 12
"""Counts below this have probabilities of their own."""

_TAIL_SUMMED = 60
"""Counts of the tail in a moment: what is left out has a share of 2⁻⁶⁰."""

_NOISE = 1.0
"""Deviation of the noise on initial logits: states that start alike would stay alike."""


class CountTableLeaves(CountLeaves):
    """`natural` holds log_probs [levels, leaves, TABULATED + 1]; the last is that of the tail."""

    exported: tuple[str, ...] = ("probs",)

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
        self.raw_probs = nn.Parameter(torch.randn(num_levels, num_leaves, TABULATED + 1))
        self.add_slopes(TABULATED + 1)
        self.register_buffer("usual", torch.full((TABULATED + 1,), 1 / (TABULATED + 1), dtype=torch.float64))

    usual: Tensor
    """Shares of all rows: what a prior has seen"""

    def natural(self) -> Natural:
        return self.with_slope({"log_probs": torch.log_softmax(self.raw_probs, dim=-1)})

    def regress(self, natural: Natural, context: Context) -> Natural:
        return {"log_probs": torch.log_softmax(natural["log_probs"] + self.shift(natural, context), dim=-1)}

    def predictors(self, natural: Natural) -> Tensor:
        return natural["log_probs"][0]

    def terms(self, natural: Natural, predictors: Tensor, x: Tensor) -> Terms:
        log_probs, probs = torch.log_softmax(predictors, dim=-1), torch.softmax(predictors, dim=-1)
        seen = _seen(x).to(probs)[:, None, :]
        return Terms((seen * log_probs).sum(-1), seen - probs, probs, probs)

    def assign_predictors(self, level: int, predictors: Tensor) -> None:
        with torch.no_grad():
            self.raw_probs[level] = torch.log_softmax(predictors, dim=-1)

    def combine(self, natural: Natural, weights: Tensor) -> Natural:
        self.refuse_shortcut()
        # Σ w p in log space.
        log_weights = log_weight(weights)[:, None, None]
        return {"log_probs": torch.logsumexp(log_weights + natural["log_probs"], dim=0, keepdim=True)}

    # What one distribution is.

    def log_density_of(self, natural: Natural, x: Tensor) -> Tensor:
        log_probs = natural["log_probs"]
        shape = torch.broadcast_shapes(log_probs.shape[:-1], x.shape)
        place = x.clamp_max(TABULATED).long().expand(shape).unsqueeze(-1)
        found = log_probs.expand(*shape, log_probs.shape[-1]).gather(-1, place).squeeze(-1)
        steps = (x - (TABULATED - 1)).clamp_min(0.0).to(found.dtype)
        return found - math.log(2) * steps

    def cumulative_of(self, natural: Natural, x: Tensor) -> Tensor:
        probs, x = _probabilities(natural), x.double()
        ends = torch.cat([torch.zeros_like(probs[..., :1]), probs[..., :-1].cumsum(-1)], dim=-1)
        shape = torch.broadcast_shapes(probs.shape[:-1], x.shape)
        place = (x.nan_to_num(0.0).floor() + 1).clamp(0, TABULATED).long().expand(shape).unsqueeze(-1)
        of_tail = 1 - 0.5 ** (x.floor() - (TABULATED - 1)).clamp_min(0.0)
        return ends.expand(*shape, TABULATED + 1).gather(-1, place).squeeze(-1) + probs[..., -1] * of_tail

    def mean(self, natural: Natural) -> Tensor:
        return _expected(natural, lambda x: x)

    def variance(self, natural: Natural) -> Tensor:
        return _expected(natural, lambda x: x.square()) - self.mean(natural).square()

    def _log_moments(self, natural: Natural) -> tuple[Tensor, Tensor]:
        mean = _expected(natural, torch.log1p)
        return mean, (_expected(natural, lambda x: torch.log1p(x).square()) - mean.square()).clamp_min(0.0)

    def mode(self, natural: Natural) -> Tensor:
        log_probs = natural["log_probs"].double().clone()
        log_probs[..., -1] -= math.log(2)
        return log_probs.argmax(-1).double()

    def quantile(self, natural: Natural, q: float) -> Tensor:
        probs = _probabilities(natural)
        ends = probs[..., :-1].cumsum(-1)
        in_table = (ends < q).sum(-1).double()
        left = (1 - (q - ends[..., -1]) / probs[..., -1]).clamp(0.5**_TAIL_SUMMED, 1.0)
        in_tail = TABULATED + (torch.ceil(-torch.log2(left)) - 1).clamp_min(0.0)
        # The logarithm may be a rounding off: `cumulative_of` decides.
        before = in_tail - 1
        in_tail = torch.where((before >= TABULATED) & (self.cumulative_of(natural, before) >= q), before, in_tail)
        return torch.where(in_table < TABULATED, in_table, in_tail)

    def sample(self, natural: Natural, n: int, generator: torch.Generator | None = None) -> Tensor:
        probs = _probabilities(natural)
        flat = probs.reshape(-1, probs.shape[-1])
        place = torch.multinomial(flat, n, replacement=True, generator=generator).T.reshape(n, *probs.shape[:2])
        level = torch.rand(place.shape, generator=generator, dtype=torch.float64)
        steps = torch.floor(-torch.log2(level.clamp_min(0.5**_TAIL_SUMMED)))
        return torch.where(place == TABULATED, TABULATED + steps, place.double())

    # Learning.

    def set_units(self, x: Tensor) -> None:
        """What is usual: as if one more row were anywhere, so that nothing is impossible."""
        counts = _seen(x[~x.isnan()]).sum(0).double() + 1 / (TABULATED + 1)
        self.usual.copy_(counts / counts.sum())

    def pseudo_observations(self) -> tuple[Tensor, Tensor]:
        """As all rows are."""
        return torch.arange(TABULATED + 1, dtype=torch.float64)[:, None], self.usual

    def initialise(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        # Each group's frequencies, drawn towards the usual ones by one pseudo-observation for each place.
        counts = torch.stack([_seen(group).sum(0).double() for group in groups])
        log_probs = torch.log(counts + (TABULATED + 1) * self.usual)
        noise = _NOISE * torch.randn(self.num_levels, *log_probs.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            self.raw_probs.copy_(torch.log_softmax(log_probs + noise, dim=-1))
        self.forget_slopes()

    def weighted_estimate(self, x: Tensor, weights: Tensor) -> Natural:
        sums = weights.T @ _seen(x).to(weights.dtype)
        return {"probs": sums / sums.sum(1, keepdim=True).clamp_min(torch.finfo(sums.dtype).tiny)}

    def export(self, natural: Natural) -> Natural:
        return {"probs": _probabilities(natural)} | self.export_slope(natural)

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        probs = exported["probs"]
        if bool((probs < 0).any()) or not torch.allclose(probs.sum(-1), torch.ones((), dtype=probs.dtype), atol=1e-6):
            raise self.refuse("probs", f"non-negative and sum to 1 over the counts below {TABULATED} and the tail")
        self.check_slope(exported)
        self.assign_slope(exported)
        with torch.no_grad():
            self.raw_probs.copy_(log_positive(probs.to(self.raw_probs.dtype)))


def _probabilities(natural: Natural) -> Tensor:
    """In double precision they sum to 1."""
    return torch.softmax(natural["log_probs"].double(), dim=-1)


def _seen(x: Tensor) -> Tensor:
    """[n, TABULATED + 1] where counts [n] are."""
    return one_hot(x.clamp_max(TABULATED).long(), TABULATED + 1)


def _expected(natural: Natural, function: Callable[[Tensor], Tensor]) -> Tensor:
    """The expectation of a function of the count."""
    probs = _probabilities(natural)
    counts = torch.arange(TABULATED + _TAIL_SUMMED, dtype=torch.float64, device=probs.device)
    values = function(counts)
    halves = 0.5 ** torch.arange(1, _TAIL_SUMMED + 1, dtype=torch.float64, device=probs.device)
    return probs @ torch.cat([values[:TABULATED], (halves * values[TABULATED:]).sum()[None]])
