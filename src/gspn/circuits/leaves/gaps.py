"""Leaves for which a gap is evidence, around any other family: how likely an entry is missing depends on the state.

In state i an entry of attribute a is missing with probability ρ_ia, whatever its value and the other entries are. So an
observed entry has the factor 1 − ρ_ia beside its density, a missing one ρ_ia and a hidden one 1. What an entry is like
given the state, and what is told of it, is as the other family has it: gaps say something of the state alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from gspn.arguments import check_choice
from gspn.circuits.evidence import Context, Evidence
from gspn.circuits.leaves.around import AroundLeaves
from gspn.circuits.leaves.contract import Leaves, Natural

KINDS = ("ignorable", "informative")

GAP_ODDS = "gap_odds"
"""Natural parameter [levels, leaves, attributes]: the logarithm of ρ / (1 − ρ)."""

LEAST = 0.5
"""Missing entries, and observed ones, that every leaf has seen in any case: no entry is surely there, or missing."""


class GapLeaves(AroundLeaves):
    """The leaves of `rest` with the probabilities of gaps."""

    added = GAP_ODDS
    shown = "gaps"
    gaps = "informative"

    def __init__(self, rest: Leaves) -> None:
        super().__init__(rest)
        self.penalised = True
        self.raw_gaps = nn.Parameter(torch.zeros(rest.num_levels, rest.num_leaves, len(rest.scope)))
        self.register_buffer("usual", torch.full((len(rest.scope),), 0.5))

    usual: Tensor
    """[attributes] share of missing entries in all rows: what a prior has seen"""

    def natural(self) -> Natural:
        return {**self.rest.natural(), GAP_ODDS: self.raw_gaps}

    def log_prob(self, natural: Natural, evidence: Evidence, context: Context | None = None) -> Tensor:
        odds = natural[GAP_ODDS]
        missing, present = (code.to(odds.dtype) for code in _codes(evidence))
        of_codes = missing @ logsigmoid(odds).mT + present @ logsigmoid(-odds).mT
        return of_codes + self.rest.log_prob(self.of_rest(natural), evidence, context)

    # Learning.

    def start(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        self.rest.start(groups, generator)
        # Groups do not tell withheld entries from missing ones: as many are missing in each as usually are.
        unknown, usual = torch.cat(list(groups)).isnan().double().mean(0).clamp_min(1e-9), self.usual.double()
        share = (usual / unknown).nan_to_num(1.0).clamp_max(1.0)
        with torch.no_grad():
            for leaf, group in enumerate(groups):
                missing = share * torch.isnan(group).double().sum(0) + usual
                self.raw_gaps[:, leaf] = torch.logit(missing / (len(group) + 1)).to(self.raw_gaps)

    @torch.no_grad()
    def copy_from_below(self, level: int) -> None:
        self.rest.copy_from_below(level)
        self.raw_gaps[level] = self.raw_gaps[level - 1]

    @torch.no_grad()
    def estimate(
        self,
        evidence: Evidence,
        weights: Tensor,
        *,
        level: int = 0,
        context: Context | None = None,
        prior: float = 0.0,
    ) -> None:
        self.rest.estimate(evidence, weights, level=level, context=context, prior=prior)
        missing, present = (weights.double().mT @ code.double() for code in _codes(evidence))
        usual = self.usual.double()
        odds = (missing + LEAST + prior * usual).log() - (present + LEAST + prior * (1 - usual)).log()
        seen = (weights.sum(0) > 0) | (prior > 0)
        self.raw_gaps[level, seen] = odds.to(self.raw_gaps)[seen]

    def log_prior(self, natural: Natural, strength: float) -> Tensor:
        """That of the rest; of gaps, the least that all leaves have seen, and as many as there are in all rows."""
        odds, usual = natural[GAP_ODDS], self.usual.to(natural[GAP_ODDS])
        of_gaps = (LEAST + strength * usual) * logsigmoid(odds) + (LEAST + strength * (1 - usual)) * logsigmoid(-odds)
        return self.log_prior_of_rest(natural, strength) + of_gaps.sum((1, 2))

    def set_units(self, x: Tensor) -> None:
        super().set_units(x)
        self.set_gaps(torch.isnan(x))

    def set_gaps(self, missing: Tensor) -> None:
        # As if one more entry were as likely missing as not.
        self.usual.copy_((missing.double().sum(0) + 0.5) / (len(missing) + 1))

    # The shortcut.

    def combine(self, natural: Natural, weights: Tensor) -> Natural:
        log_weights = weights.log()[:, None, None]
        logs = (torch.logsumexp(log_weights + logsigmoid(sign * natural[GAP_ODDS]), dim=0) for sign in (1, -1))
        missing, present = logs
        return {**self.rest.combine(self.of_rest(natural), weights), GAP_ODDS: (missing - present)[None]}

    # Parameters as people read them.

    def export(self, natural: Natural) -> Natural:
        """The rest's, and as "gaps" [levels, leaves], or [levels, leaves, attributes] of several, the probabilities."""
        gaps = torch.sigmoid(natural[GAP_ODDS].double())
        return {**self.rest.export(self.of_rest(natural)), "gaps": gaps if len(self.scope) > 1 else gaps[..., 0]}

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        gaps = exported["gaps"].double().reshape(self.raw_gaps.shape)
        if bool(((gaps < 0) | (gaps > 1)).any()):
            raise self.refuse("gaps", "probabilities")
        self.rest.assign(self.of_rest(exported))
        tiny = torch.finfo(torch.float32).tiny
        with torch.no_grad():
            self.raw_gaps.copy_(gaps.clamp_min(tiny).log() - (1 - gaps).clamp_min(tiny).log())

    def bytes_per_vertex(self) -> int:
        # Beside the rest's: two codes for each entry, and what they say.
        return self.rest.bytes_per_vertex() + 8 * (2 * len(self.scope) + 2 * self.num_leaves)


def with_gaps(leaves: Leaves, gaps: str) -> Leaves:
    """The leaves as they are, or with gaps as evidence; leaves that take them for evidence by themselves stay."""
    check_choice("gaps", gaps, KINDS)
    return GapLeaves(leaves) if gaps == "informative" and leaves.gaps == "ignorable" else leaves


def _codes(evidence: Evidence) -> tuple[Tensor, Tensor]:
    """[n, attributes] where entries are missing, and where they are neither missing nor hidden."""
    missing = evidence.missing
    return missing, ~(missing | evidence.hidden)
