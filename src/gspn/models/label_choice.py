"""How much each regression of the label's leaf counts: strengths and weights, by log-probabilities of held-out labels.

One of the regressions is the frequencies alone, and what has been chosen from so many is better by chance on the labels
that it was chosen by. So its gain on frequencies is measured on labels that had no part in the choice: a fifth of the
held-out ones after the other, with strengths and weights from the others. What is gained by no more than chance is
mixed with frequencies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gspn.circuits.mixing_weights import weights_maximising
from gspn.hierarchy.label_readout import KINDS
from gspn.random_streams import keyed_uniform

Scores = Mapping[tuple[str, float], Tensor]
"""By regression and strength, log P [n, 2] of held-out labels: with no labels known, and with those that are"""

_PULL, _LEAST_WEIGHT = 0.3, 0.02
_CHANCE, _ERRORS, _MOST_DOUBT = 1.0, 1.5, 0.85
"""Nats, all held-out labels together, and standard errors that may be gained though there is nothing to know; and how
much frequencies weigh at most, since a few labels cannot show either that there is nothing."""
_UNSEEN = 3.0
"""Labels that are taken to be beyond all that has been learned, beside the held-out ones."""
_PARTS = 5
_USUAL = {"smooth": 0.3, "frequencies": 1.0}
"""With which strengths, where there are too few labels to judge by."""
_PART = -17
"""Names a stream of random numbers."""


@dataclass(eq=False)
class LabelFit:
    """How the label's leaf was learned: nats per label by regression and strength, and those of the mixture."""

    strengths: dict[str, float]
    """Of the regressions with any weight"""
    weights: Tensor
    """[2, M] where no labels are known, and where some are"""
    losses: dict[tuple[str, float], float] = field(default_factory=dict)
    loss: float = math.nan
    """Of the mixture, on labels that had no part in choosing it"""
    of_frequencies: float = math.nan
    error: float = math.nan
    """Standard error of the difference of these two"""
    informed: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    """Which of the held-out vertices have a known label within reach"""

    @property
    def better(self) -> bool:
        return self.doubt < 0.5

    @property
    def doubt(self) -> float:
        """The probability that there is nothing to know but frequencies, from how much held-out labels gain."""
        gain = (self.of_frequencies - self.loss - _ERRORS * self.error) * len(self.informed) - _CHANCE
        return 1.0 / (1.0 + math.exp(min(gain, 500.0)))


def weighed(scores: Scores, informed: Tensor, seed: int) -> LabelFit:
    """Choose a strength for every regression, and the weights."""
    if not scores:
        return LabelFit(dict(_USUAL), _row(dict.fromkeys(_USUAL, 1 / len(_USUAL))).expand(2, -1).clone())
    everyone = torch.ones_like(informed)
    strengths, weights = _chosen(scores, informed, everyone)
    part = (keyed_uniform(seed, _PART, torch.arange(len(informed))) * _PARTS).long()
    apart = torch.empty(len(informed), dtype=torch.float64)
    for number in range(_PARTS):
        judges = part == number
        others = everyone if bool(judges.all()) else ~judges
        apart[judges] = _log_prob(scores, informed, *_chosen(scores, informed, others))[judges]
    losses = {key: -float(_at(found, informed).mean()) for key, found in scores.items()}
    usual = _at(scores["frequencies", strengths["frequencies"]], informed)
    error = float((apart - usual).std(correction=0)) / max(len(apart), 1) ** 0.5
    found = LabelFit(strengths, weights, losses, -float(apart.mean()), -float(usual.mean()), error, informed)
    return _doubted(found)


def _chosen(scores: Scores, informed: Tensor, rows: Tensor) -> tuple[dict[str, float], Tensor]:
    """Strengths of all regressions, and weights [2, M], that are best for the held-out labels `rows` [n]."""
    least: dict[str, tuple[float, float]] = {}
    for (name, strength), found in scores.items():
        loss = -float(_at(found, informed)[rows].mean())
        least[name] = min(least.get(name, (math.inf, strength)), (loss, strength))
    strengths = {name: strength for name, (_, strength) in least.items()}
    weights = torch.zeros(2, len(KINDS), dtype=torch.float64)
    for mode, asked in enumerate((rows, rows & informed)):
        if bool(asked.any()):
            table = torch.stack([scores[key][asked, mode] for key in strengths.items()], dim=1)
            weights[mode] = _row(dict(zip(strengths, _mixture(table).tolist(), strict=True)))
        else:
            weights[mode] = weights[0]
    return strengths, weights


def _log_prob(scores: Scores, informed: Tensor, strengths: dict[str, float], weights: Tensor) -> Tensor:
    """[n] of the mixture."""
    places = [list(KINDS).index(name) for name in strengths]
    table = torch.stack([_at(scores[key], informed) for key in strengths.items()], dim=1)
    return torch.logsumexp(table + weights[informed.long()][:, places].log(), dim=1)


def _doubted(found: LabelFit) -> LabelFit:
    """Weigh frequencies by the probability that there is nothing else to know; keep what has any weight."""
    doubt = min(found.doubt, _MOST_DOUBT)
    doubt = 1.0 - (1.0 - doubt) * len(found.informed) / (len(found.informed) + _UNSEEN)
    found.weights.mul_(1 - doubt)
    found.weights[:, list(KINDS).index("frequencies")] += doubt
    for m, name in enumerate(KINDS):
        if not bool((found.weights[:, m] > 0).any()):
            found.strengths.pop(name, None)
    return found


def _at(found: Tensor, informed: Tensor) -> Tensor:
    """[n] of [n, 2], with the labels that are known."""
    return found[torch.arange(len(found)), informed.long()]


def _row(weights: Mapping[str, float]) -> Tensor:
    """[M]"""
    return torch.tensor([weights.get(name, 0.0) for name in KINDS], dtype=torch.float64)


def _mixture(scores: Tensor) -> Tensor:
    """[M] weights of the columns of scores [n, M]; what would have hardly any has none."""
    kept = torch.arange(scores.shape[1])
    while True:
        own = weights_maximising(scores[:, kept], _PULL)
        enough = own >= _LEAST_WEIGHT
        if bool(enough.all()):
            return torch.zeros(scores.shape[1], dtype=torch.float64).index_copy(0, kept, own)
        kept = kept[enough]
