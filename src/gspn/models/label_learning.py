"""How the label's leaf is learned: every regression at several strengths, evaluated on held-out labels, and weighted.

What they learn from is in `label_lessons`, what judges them in `label_exams`. One of the regressions is the frequencies
alone, so the mixture can be no worse on the held-out labels. Which regressions there are is the readout's business.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor

from gspn.attributes import Categorical
from gspn.circuits.mixing_weights import weights_maximising
from gspn.graphs import GraphDataset
from gspn.hierarchy.label_readout import KINDS, LabelNetwork, LabelReadout, LabelRegression, log_prob_of
from gspn.models.label_exams import Exam, LabelledBatch, exams, read
from gspn.models.label_lessons import GENTLER, STRENGTHS, Lessons
from gspn.models.label_messages import context_of
from gspn.random_streams import keyed_uniform

_log = logging.getLogger(__name__)

_FINALISTS = 7
"""How many regressions all held-out labels judge."""
_PULL, _LEAST_WEIGHT = 0.3, 0.02
_CHANCE = 2.0
"""Nats, all held-out labels together, that the best of so many regressions gains were there nothing to know."""
_MOST_LEARNED = 20_000
"""Labelled vertices that regressions learn from; with more of them, slopes hardly change."""
_SAMPLE = -13
"""Names a stream of random numbers."""


@dataclass(eq=False)
class LabelFit:
    """How the label's leaf was learned: nats per label by regression and strength, and those of the mixture."""

    losses: dict[tuple[str, float], float] = field(default_factory=dict)
    loss: float = float("nan")
    of_frequencies: float = float("nan")
    informed: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    """Which of the held-out vertices have a known label within reach"""

    @property
    def better(self) -> bool:
        return self.doubt < 0.5

    @property
    def doubt(self) -> float:
        """The probability that there is nothing to know but frequencies, from how much held-out labels gain."""
        gain = (self.of_frequencies - self.loss) * len(self.informed) - _CHANCE
        return 1.0 / (1.0 + math.exp(min(gain, 500.0)))


def learn_labels(
    network: LabelNetwork,
    training: GraphDataset,
    validation: GraphDataset | None,
    seed: int,
    class_weight: str | None = None,
) -> LabelFit:
    """Set the label's leaf from the training labels; the hierarchy stays as it is."""
    readout = network.readout
    with _doubled(readout):
        own = read(network, training)
        readout.set_units(own.truth)
        readout.context.settle(own.attributes, readout.context.labels_told(own.batch, own.truth, own.paths))
        rows = _sample(own, seed)
        weights = _class_weights(readout, own.truth, class_weight)
        papers = [
            (exam, Lessons(readout, own, exam.learned, exam.known, seed, weights))
            for exam in exams(network, own, rows, validation, seed)
        ]
        outcome = LabelFit()
        scores = _judged(readout, papers, STRENGTHS, outcome)
        chosen = _weigh(readout, scores, outcome)
        if papers and not outcome.better:
            papers = [(exam, lessons.anew(seed + 1)) for exam, lessons in papers]
            scores |= _judged(readout, papers, GENTLER, outcome)
            chosen = _weigh(readout, scores, outcome)
            if not outcome.better:
                names = ", ".join(f"'{name}'" for name in readout.target.names)
                _log.warning(
                    "the prediction of %s is no better on held-out labels than how often each value occurs (%.4f nats "
                    "per label), or not by more than chance, so it stays near that: attributes and neighbours seem not "
                    "to be informative, or there are too few labels",
                    names,
                    outcome.of_frequencies,
                )
        if papers:
            _doubt(readout, chosen, outcome)
        lessons = Lessons(readout, own, rows, own.truth, seed, weights)
        for name, kind in KINDS.items():
            part = _of(readout, name)
            if name in chosen:
                lessons.learning(kind, part)(chosen[name])
            elif part.trees is not None:
                part.trees.forget()
    return outcome


def _sample(own: LabelledBatch, seed: int) -> Tensor:
    """The labelled vertices, or as many of them as there is time for; all labels are evidence in any case."""
    rows = own.rows
    if len(rows) <= _MOST_LEARNED:
        return rows
    graph, vertex = (key[rows] for key in own.batch.vertex_keys())
    drawn = keyed_uniform(seed, _SAMPLE, graph, vertex)
    return rows[drawn.argsort(stable=True)[:_MOST_LEARNED].sort().values]


def _judged(
    readout: LabelReadout,
    papers: Sequence[tuple[Exam, Lessons]],
    usual: Sequence[float],
    outcome: LabelFit,
) -> dict[tuple[str, float], Tensor]:
    """By regression and strength, log P [n, 2] of what judges: with no labels, and with those that there are."""
    scores: dict[tuple[str, float], list[Tensor]] = {}
    tried: dict[str, Sequence[float]] = {}
    for number, (exam, lessons) in enumerate(papers):
        for name in _finalists(scores) if number else KINDS:
            part, kind = _of(readout, name), KINDS[name]
            if kind.labels and not bool(exam.informed.any()):
                continue  # no held-out vertex has a known label within reach
            strengths = lessons.strengths(kind, part, usual)
            if not strengths:
                continue
            strengths = tried.setdefault(name, strengths)
            step, losses = lessons.learning(kind, part), list[float]()
            for strength in strengths:
                step(strength)
                found = _scored(part, exam)
                scores.setdefault((name, strength), []).append(found)
                losses.append(-float(found[torch.arange(len(found)), exam.informed.long()].mean()))
                if losses[-1] > min(losses):
                    break  # weaker ridges only make it worse from here
            if not number:  # others try what was near the best
                best = losses.index(min(losses))
                tried[name] = strengths[max(best - 1, 0) : best + 2]
    whole = {key: torch.cat(found) for key, found in scores.items() if len(found) == len(papers)}
    outcome.informed = torch.cat([exam.informed for exam, _ in papers]) if papers else outcome.informed
    for key, found in whole.items():
        outcome.losses[key] = -float(torch.where(outcome.informed, found[:, 1], found[:, 0]).mean())
    return whole


@torch.no_grad()
def _scored(part: LabelRegression, exam: Exam) -> Tensor:
    """[n, 2] log P of the held-out labels, with no labels known and with those that are."""
    if part.messages is None:
        return torch.stack([part.log_prob(z, exam.truth).double() for z in exam.told], dim=1)
    part.messages.float()
    seen = [part.messages(one)[exam.asked].double() for one in exam.surroundings]
    part.messages.double()
    return torch.stack([log_prob_of(part.families, context_of(one), exam.truth) for one in seen], dim=1)


def _finalists(scores: Mapping[tuple[str, float], Sequence[Tensor]]) -> list[str]:
    """Names of the best regressions by the first exam, with labels and without, and the frequencies."""
    found = {"frequencies"}
    for mode in (0, 1):
        least: dict[str, float] = {}
        for (name, _), own in scores.items():
            least[name] = min(least.get(name, math.inf), -float(own[0][:, mode].mean()))
        found |= set(sorted(least, key=lambda name: least[name])[:_FINALISTS])
    return [name for name in KINDS if name in found]


def _weigh(readout: LabelReadout, scores: dict[tuple[str, float], Tensor], outcome: LabelFit) -> dict[str, float]:
    """Choose a strength for every regression, and the weights; returns the strengths of those with any weight."""
    names = list(KINDS)
    readout.weights.zero_()
    if not scores:  # too few labels to judge by
        kept = {"smooth": STRENGTHS[0], "frequencies": 1.0}
        for name in kept:
            readout.weights[:, names.index(name)] = 1 / len(kept)
        return kept
    strength: dict[str, float] = {}
    for name, tried in scores:
        if name not in strength or outcome.losses[name, tried] < outcome.losses[name, strength[name]]:
            strength[name] = tried
    listed, mixed = list(strength), torch.empty(len(outcome.informed), dtype=torch.float64)
    for mode, asked in enumerate((torch.ones_like(outcome.informed), outcome.informed)):
        if not bool(asked.any()):
            readout.weights[1] = readout.weights[0]
            continue
        table = torch.stack([scores[name, strength[name]][asked, mode] for name in listed], dim=1)
        weights = _mixture(table)
        for name, weight in zip(listed, weights.tolist(), strict=True):
            readout.weights[mode, names.index(name)] = weight
        mixed[asked] = torch.logsumexp(table + weights.log(), dim=1)
    outcome.loss = -float(mixed.mean())
    outcome.of_frequencies = outcome.losses["frequencies", strength["frequencies"]]
    return {name: strength[name] for name in listed if bool((readout.weights[:, names.index(name)] > 0).any())}


def _doubt(readout: LabelReadout, chosen: dict[str, float], outcome: LabelFit) -> None:
    """Weigh frequencies by the probability that there is nothing else to know."""
    doubt = outcome.doubt if outcome.doubt < 1 - _LEAST_WEIGHT else 1.0
    readout.weights.mul_(1 - doubt)
    readout.weights[:, list(KINDS).index("frequencies")] += doubt
    chosen["frequencies"] = STRENGTHS[0]
    if doubt == 1:
        for name in [*chosen]:
            if name != "frequencies":
                del chosen[name]


def _mixture(scores: Tensor) -> Tensor:
    """[M] weights of the columns of scores [n, M]; what would have hardly any has none."""
    kept = torch.arange(scores.shape[1])
    while True:
        own = weights_maximising(scores[:, kept], _PULL)
        enough = own >= _LEAST_WEIGHT
        if bool(enough.all()):
            return torch.zeros(scores.shape[1], dtype=torch.float64).index_copy(0, kept, own)
        kept = kept[enough]


def _class_weights(readout: LabelReadout, truth: Tensor, class_weight: str | None) -> Tensor | None:
    """[K] for "balanced", as scikit-learn has it: n / (K · n_k)."""
    if class_weight is None:
        return None
    target = readout.target[0]
    size = len(target.categories) if isinstance(target, Categorical) else 2
    known = truth[~truth[:, 0].isnan(), 0].long()
    count = torch.bincount(known, minlength=size).double()
    return len(known) / ((count > 0).sum() * count.clamp_min(1.0))


def _of(readout: LabelReadout, name: str) -> LabelRegression:
    return cast(LabelRegression, readout.regressions[list(KINDS).index(name)])


@contextmanager
def _doubled(readout: LabelReadout) -> Iterator[None]:
    """In double precision for a while."""
    dtype = readout.weights.dtype
    readout.double()
    try:
        yield
    finally:
        readout.to(dtype)
