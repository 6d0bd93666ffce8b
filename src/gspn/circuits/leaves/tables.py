"""Leaves over finitely many values: categorical and Bernoulli. Without a context, their densities are table look-ups.

On a context they regress by their logits, which are normalised again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, one_hot, softplus

from gspn.attributes import Attribute, Binary, Categorical
from gspn.circuits.evidence import Context
from gspn.circuits.leaves.contract import Natural
from gspn.circuits.leaves.regression import RegressingLeaves, Terms
from gspn.circuits.numerics import log_positive, log_weight
from gspn.errors import InputError

_NOISE = 1.0
"""Deviation of the noise on initial logits: states that start alike would stay alike."""


class TableLeaves(RegressingLeaves):
    """Shared by both: `natural` holds log_probs [levels, leaves, K]."""

    def combine(self, natural: Natural, weights: Tensor) -> Natural:
        self.refuse_shortcut()
        # Σ w p in log space.
        log_weights = log_weight(weights)[:, None, None]
        return {"log_probs": torch.logsumexp(log_weights + natural["log_probs"], dim=0, keepdim=True)}

    def table(self, natural: Natural) -> Tensor | None:
        """[levels, K + 1, leaves] log-probabilities of all values, and of a gap, which has 0 everywhere.

        None with a context, for then rows have probabilities of their own.
        """
        return None if self.context_width else _padded(natural)

    def log_density(self, natural: Natural, x: Tensor) -> Tensor:
        table = _padded(natural)
        return table.index_select(1, x.nan_to_num(nan=table.shape[1] - 1).long())

    def log_density_of(self, natural: Natural, x: Tensor) -> Tensor:
        log_probs = natural["log_probs"]
        shape = torch.broadcast_shapes(log_probs.shape[:-1], x.shape)
        codes = x.long().expand(shape).unsqueeze(-1)
        return log_probs.expand(*shape, log_probs.shape[-1]).gather(-1, codes).squeeze(-1)

    def mode(self, natural: Natural) -> Tensor:
        return natural["log_probs"].argmax(-1).double()

    def sample(self, natural: Natural, n: int, generator: torch.Generator | None = None) -> Tensor:
        probs = natural["log_probs"].double().exp()
        flat = probs.reshape(-1, probs.shape[-1])
        draws = torch.multinomial(flat, n, replacement=True, generator=generator)
        return draws.T.reshape(n, *probs.shape[:2]).double()

    def initialise(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        size = self.natural()["log_probs"].shape[-1]
        overall = _frequencies(torch.cat(list(groups)), size)
        # Each group's frequencies, drawn towards the overall ones by one pseudo-observation a value.
        counts = torch.stack([torch.bincount(group.long(), minlength=size).double() for group in groups])
        log_probs = torch.log(counts + size * overall)
        noise = _NOISE * torch.randn(self.num_levels, *log_probs.shape, generator=generator, dtype=torch.float64)
        self.set_log_probs(torch.log_softmax(log_probs + noise, dim=-1))
        self.forget_slopes()

    def weighted_estimate(self, x: Tensor, weights: Tensor) -> Natural:
        counts = one_hot(x.long(), self.natural()["log_probs"].shape[-1]).to(weights.dtype)
        sums = weights.T @ counts
        return self._exported(sums / sums.sum(1, keepdim=True).clamp_min(torch.finfo(sums.dtype).tiny))

    def pseudo_observations(self) -> tuple[Tensor, Tensor]:
        """All values alike."""
        size = self.natural()["log_probs"].shape[-1]
        return torch.arange(size, dtype=torch.float64)[:, None], torch.full((size,), 1 / size, dtype=torch.float64)

    @abstractmethod
    def _exported(self, probs: Tensor) -> Natural:
        """Probabilities [..., K] under the name and in the form that people read."""

    @abstractmethod
    def set_log_probs(self, log_probs: Tensor) -> None:
        """Set the learned parameters from [levels, leaves, K]."""


def _padded(natural: Natural) -> Tensor:
    return torch.constant_pad_nd(natural["log_probs"], (0, 1)).transpose(1, 2)


def _frequencies(values: Tensor, size: int) -> Tensor:
    counts = torch.bincount(values.long(), minlength=size).double() + 1
    return counts / counts.sum()


class CategoricalLeaves(TableLeaves):
    """Categorical distributions over the attribute's codes."""

    exported: tuple[str, ...] = ("probs",)
    attribute: Categorical

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
        self.raw_probs = nn.Parameter(torch.randn(num_levels, num_leaves, len(self.attribute.categories)))
        self.add_slopes(len(self.attribute.categories))

    def natural(self) -> Natural:
        return self.with_slope({"log_probs": torch.log_softmax(self.raw_probs, dim=-1)})

    def regress(self, natural: Natural, context: Context) -> Natural:
        return {"log_probs": torch.log_softmax(natural["log_probs"] + self.shift(natural, context), dim=-1)}

    def predictors(self, natural: Natural) -> Tensor:
        return natural["log_probs"][0]

    def terms(self, natural: Natural, predictors: Tensor, x: Tensor) -> Terms:
        log_probs, probs = torch.log_softmax(predictors, dim=-1), torch.softmax(predictors, dim=-1)
        seen = one_hot(x.long(), probs.shape[-1]).to(probs)[:, None, :]
        return Terms((seen * log_probs).sum(-1), seen - probs, probs, probs)

    def assign_predictors(self, level: int, predictors: Tensor) -> None:
        with torch.no_grad():
            self.raw_probs[level] = torch.log_softmax(predictors, dim=-1)

    def mean(self, natural: Natural) -> Tensor:
        raise self._unordered("mean")

    def variance(self, natural: Natural) -> Tensor:
        raise self._unordered("variance")

    def quantile(self, natural: Natural, q: float) -> Tensor:
        raise self._unordered("quantile")

    def cumulative_of(self, natural: Natural, x: Tensor) -> Tensor:
        raise self._unordered("cumulative probability")

    def _unordered(self, what: str) -> InputError:
        return InputError(f"attribute '{self.attribute.name}' is categorical: it has a mode but no {what}")

    def export(self, natural: Natural) -> Natural:
        return self._exported(natural["log_probs"].double().exp()) | self.export_slope(natural)

    def _exported(self, probs: Tensor) -> Natural:
        return {"probs": probs}

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        probs = exported["probs"]
        if bool((probs < 0).any()) or not torch.allclose(probs.sum(-1), torch.ones((), dtype=probs.dtype), atol=1e-6):
            raise self.refuse("probs", "non-negative and sum to 1 over the categories")
        self.check_slope(exported)
        self.assign_slope(exported)
        self.set_log_probs(log_positive(probs.to(self.raw_probs.dtype)))

    def set_log_probs(self, log_probs: Tensor) -> None:
        with torch.no_grad():
            self.raw_probs.copy_(log_probs)


class BernoulliLeaves(TableLeaves):
    """Bernoulli distributions, learned as one logit."""

    exported: tuple[str, ...] = ("probs",)
    attribute: Binary

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
        self.raw_logit = nn.Parameter(torch.randn(num_levels, num_leaves))
        self.add_slopes()

    def natural(self) -> Natural:
        return self.with_slope({"log_probs": _of_logit(self.raw_logit)})

    def regress(self, natural: Natural, context: Context) -> Natural:
        return {"log_probs": _of_logit((self.predictors(natural) + self.shift(natural, context)).squeeze(-1))}

    def predictors(self, natural: Natural) -> Tensor:
        return natural["log_probs"][0].diff(dim=-1)

    def terms(self, natural: Natural, predictors: Tensor, x: Tensor) -> Terms:
        seen, probs = x[:, None, None], torch.sigmoid(predictors)
        value = (seen * predictors - softplus(predictors)).squeeze(-1)
        return Terms(value, seen - probs, probs * torch.sigmoid(-predictors))

    def assign_predictors(self, level: int, predictors: Tensor) -> None:
        with torch.no_grad():
            self.raw_logit[level] = predictors.squeeze(-1)

    def mean(self, natural: Natural) -> Tensor:
        return natural["log_probs"].double().exp()[..., 1]

    def variance(self, natural: Natural) -> Tensor:
        return natural["log_probs"].double().exp().prod(-1)

    def quantile(self, natural: Natural, q: float) -> Tensor:
        return (natural["log_probs"].double().exp()[..., 0] < q).double()

    def cumulative_of(self, natural: Natural, x: Tensor) -> Tensor:
        of_zero, value = natural["log_probs"].double().exp()[..., 0], x.double()
        return torch.where(value < 0, 0.0, torch.where(value < 1, of_zero, 1.0))

    def export(self, natural: Natural) -> Natural:
        return {"probs": self.mean(natural)} | self.export_slope(natural)

    def _exported(self, probs: Tensor) -> Natural:
        return {"probs": probs[..., 1].clamp(0.0, 1.0)}

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        probs = exported["probs"]
        if bool(((probs < 0) | (probs > 1)).any()):
            raise self.refuse("probs", "between 0 and 1")
        self.check_slope(exported)
        self.assign_slope(exported)
        with torch.no_grad():
            self.raw_logit.copy_(log_positive(probs) - log_positive(1 - probs))

    def set_log_probs(self, log_probs: Tensor) -> None:
        with torch.no_grad():
            self.raw_logit.copy_(log_probs[..., 1] - log_probs[..., 0])


def _of_logit(logit: Tensor) -> Tensor:
    return torch.stack([logsigmoid(-logit), logsigmoid(logit)], dim=-1)
