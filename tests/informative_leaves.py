"""Leaves for which a gap is evidence: every state has its own probability that an entry is missing.

Known to the tests alone; they tell hidden from missing where the library's own families need not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import scipy.stats
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from gspn.circuits import Context, Evidence
from gspn.circuits.leaves import BernoulliLeaves, GaussianLeaves, Natural


class InformativeGaussianLeaves(GaussianLeaves):
    """`natural` has the log-odds of a gap beside mean and scale."""

    exported = ("mean", "std", "gap")
    gaps = "informative"

    def __init__(self, attribute: Any, num_levels: int, num_leaves: int) -> None:
        super().__init__(attribute, num_levels, num_leaves)
        self.raw_gap = nn.Parameter(torch.zeros(num_levels, num_leaves))

    def natural(self) -> Natural:
        return {**super().natural(), "gap": self.raw_gap}

    def combine(self, natural: Natural, weights: Tensor) -> Natural:
        raise self.refuse("gap", "of one level")

    def log_prob(self, natural: Natural, evidence: Evidence, context: Context | None = None) -> Tensor:
        odds = natural["gap"].unsqueeze(1)
        missing, hidden = evidence.missing[None], evidence.hidden[None]
        of_code = torch.where(missing, logsigmoid(odds), torch.where(hidden, 0.0, logsigmoid(-odds)))
        return super().log_prob(natural, evidence, context) + of_code

    def initialise(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        super().initialise(groups, generator)
        with torch.no_grad():
            self.raw_gap.fill_(-2.0)

    def estimate(
        self,
        evidence: Evidence,
        weights: Tensor,
        *,
        level: int = 0,
        context: Context | None = None,
        prior: float = 0.0,
    ) -> None:
        raise NotImplementedError

    def export(self, natural: Natural) -> Natural:
        return {**super().export(natural), "gap": torch.sigmoid(natural["gap"].double())}

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        super().assign(exported)
        with torch.no_grad():
            self.raw_gap.copy_(torch.logit(exported["gap"]))


class InformativeBernoulliLeaves(BernoulliLeaves):
    """A gap has a probability of one in ten in the first state and of nine in ten in the others."""

    gaps = "informative"

    def _gap(self) -> Tensor:
        """[1, 1, leaves]"""
        return torch.tensor([0.1] + [0.9] * (self.num_leaves - 1), dtype=torch.float64)[None, None]

    def log_prob(self, natural: Natural, evidence: Evidence, context: Context | None = None) -> Tensor:
        missing, hidden, gap = evidence.missing[None], evidence.hidden[None], self._gap()
        of_code = torch.where(missing, gap.log(), torch.where(hidden, 0.0, torch.log1p(-gap)))
        return super().log_prob(natural, evidence, context) + of_code

    def table(self, natural: Natural) -> Tensor:
        gap = self._gap()
        codes = torch.cat([torch.log1p(-gap), torch.log1p(-gap), gap.log()], dim=1)
        table = super().table(natural)
        assert table is not None
        return table + codes


def density(leaf: Mapping[str, Any], values: Sequence[float | None], codes: Sequence[str], context: Any) -> float:
    """The same for one leaf, by scipy."""
    (value,), (code,) = values, codes
    of_value = 0.0 if value is None else float(scipy.stats.norm.logpdf(value, leaf["mean"], leaf["std"]))
    of_code = {"observed": math.log1p(-leaf["gap"]), "missing": math.log(leaf["gap"]), "hidden": 0.0}[code]
    return of_value + of_code
