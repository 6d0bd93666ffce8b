"""How the label's leaf is learned: every regression at several strengths, evaluated on held-out labels, and weighted.

What they learn from is in `label_lessons`, what judges them in `label_exams`, and how much each counts in
`label_choice`. Which regressions there are is the readout's business.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor

from gspn.attributes import Categorical
from gspn.graphs import GraphDataset
from gspn.hierarchy.label_messages import MessageInputs
from gspn.hierarchy.label_readout import KINDS, LabelNetwork, LabelReadout, LabelRegression, log_prob_of
from gspn.models.label_choice import LabelFit, weighed
from gspn.models.label_exams import Exam, LabelledBatch, exams, read
from gspn.models.label_lessons import GENTLER, STRENGTHS, Lessons
from gspn.models.label_messages import context_of
from gspn.random_streams import keyed_uniform

_log = logging.getLogger(__name__)

_FINALISTS = 7
"""How many regressions all held-out labels judge."""
_MOST_LEARNED = 20_000
"""Labelled vertices that regressions learn from; with more of them, slopes hardly change."""
_SAMPLE = -13
"""Names a stream of random numbers."""


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
        judges = list(exams(network, own, rows, validation, seed))
        scores = _judged(readout, own, judges, STRENGTHS, seed, weights)
        outcome = weighed(scores, _informed(judges), seed)
        if judges and not outcome.better:
            scores |= _judged(readout, own, judges, GENTLER, seed + 1, weights)
            outcome = weighed(scores, _informed(judges), seed)
            if not outcome.better:
                names = ", ".join(f"'{name}'" for name in readout.target.names)
                _log.warning(
                    "the prediction of %s is no better on held-out labels than how often each value occurs (%.4f nats "
                    "per label), or not by more than chance, so it stays near that: attributes and neighbours seem not "
                    "to be informative, or there are too few labels",
                    names,
                    outcome.of_frequencies,
                )
        readout.weights.copy_(outcome.weights)
        lessons = Lessons(readout, own, rows, own.truth, seed, weights)
        for name, kind in KINDS.items():
            part = _of(readout, name)
            if name in outcome.strengths:
                lessons.learning(kind, part)(outcome.strengths[name])
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
    own: LabelledBatch,
    judges: Sequence[Exam],
    usual: Sequence[float],
    seed: int,
    class_weights: Tensor | None,
) -> dict[tuple[str, float], Tensor]:
    """By regression and strength, log P [n, 2] of what judges: with no labels, and with those that there are."""
    scores: dict[tuple[str, float], list[Tensor]] = {}
    tried: dict[str, Sequence[float]] = {}
    for number, exam in enumerate(judges):
        lessons = Lessons(readout, own, exam.learned, exam.known, seed, class_weights)
        for name in _finalists(scores) if number else KINDS:
            part, kind = _of(readout, name), KINDS[name]
            if kind.labels and not bool(exam.informed.any()):
                continue  # no held-out vertex has a known label within reach
            strengths = lessons.strengths(kind, part, usual)
            if not strengths:
                continue
            strengths = tried.setdefault(name, strengths)
            step, losses = lessons.learning(kind, part), list[float]()
            inputs = exam.inputs(kind.attributes) if kind.messages else ()
            for strength in strengths:
                step(strength)
                found = _scored(part, exam, inputs)
                scores.setdefault((name, strength), []).append(found)
                losses.append(-float(found[torch.arange(len(found)), exam.informed.long()].mean()))
                if losses[-1] > min(losses):
                    break  # weaker ridges only make it worse from here
            if not number:  # others try what was near the best
                best = losses.index(min(losses))
                tried[name] = strengths[max(best - 1, 0) : best + 2]
    return {key: torch.cat(found) for key, found in scores.items() if len(found) == len(judges)}


def _informed(judges: Sequence[Exam]) -> Tensor:
    """[n] which of all held-out vertices have a known label within reach."""
    return torch.cat([exam.informed for exam in judges]) if judges else torch.zeros(0, dtype=torch.bool)


@torch.no_grad()
def _scored(part: LabelRegression, exam: Exam, inputs: Sequence[MessageInputs]) -> Tensor:
    """[n, 2] log P of the held-out labels, with no labels known and with those that are."""
    if part.messages is None:
        return torch.stack([part.log_prob(z, exam.truth).double() for z in exam.told], dim=1)
    part.messages.float()
    seen = [part.messages(one)[exam.asked].double() for one in inputs]
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
