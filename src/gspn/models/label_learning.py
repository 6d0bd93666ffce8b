"""How the label's leaf is learned: every regression at several strengths, evaluated on held-out labels, and weighted.

Training hides labels: of the copies of the training vertices that regressions learn from, half hide a tenth of the
labels and half a random share; a vertex never receives its own label in any case. Evaluation has the density of labels
of the prediction: on validation graphs with the labels that they carry, otherwise on labels that are held out in turn,
beside all others; in graphs whose vertices are all labelled nothing is left to predict, so held-out graphs there have
no labels at all. One of the regressions is the frequencies alone, so the mixture can be no worse on the held-out
labels. Which regressions there are is the readout's business.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor

from gspn.attributes import Categorical
from gspn.circuits.mixing_weights import weights_maximising
from gspn.graphs import Batch, GraphDataset
from gspn.hierarchy.label_context import Paths, attributes_told
from gspn.hierarchy.label_readout import KINDS, Kind, LabelNetwork, LabelReadout, LabelRegression
from gspn.models.label_growing import RegressionData
from gspn.models.label_regression import fit
from gspn.random_streams import keyed_uniform

_log = logging.getLogger(__name__)

STRENGTHS, OF_UNITS, GENTLER = (0.3, 1.0, 3.0, 10.0, 30.0), (1.0, 3.0), (0.03, 0.1)
"""What contexts are multiplied by: tried first, for hidden units, and where all are no better than frequencies."""
OF_LARGE, _LARGE = (1.0, 3.0, 10.0), 3_000_000
"""Of contexts with more numbers than so many, which take their time."""
OF_TREES = (0.4, 0.6, 0.8, 1.0, 1.3, 1.7)
"""How sure of themselves trees may be."""

_HIDDEN_SHARES = (0.1, 0.25, 0.1, 0.75)
"""Of the labels that are hidden in each copy of the training vertices."""
_COPIES_TO = 3_000_000
"""Numbers of a copy up to which there are four; of larger ones there are two."""
_JUDGES, _FINALISTS = 400, 7
"""Held-out labels that are to judge at least, if there are so many, and how many regressions all of them judge."""
_LEAST_OF_UNITS, _LEAST_OF_TREES = 30, 120
"""Labelled vertices from which on hidden units and trees are tried."""
_MOST_OF_UNITS, _MOST_OF_TREES = 4_000_000, 400
"""Numbers of a context up to which units are tried, and columns up to which trees are."""
_WIDE, _MOST_OF_WIDE = 3_000, 12_000_000
"""Columns from which on so many numbers are too many for a regression: narrower ones of the same data have to do."""
_PULL, _LEAST_WEIGHT = 0.3, 0.02
_CHANCE = 2.0
"""Nats, all held-out labels together, that the best of so many regressions gains were there nothing to know."""
_COMPLETE = 0.95
"""Share of labelled vertices from which on a graph counts as labelled."""
_MOST_LEARNED = 20_000
"""Labelled vertices that regressions learn from; with more of them, slopes hardly change."""
_HIDE, _FOLDS, _SAMPLE = -11, -12, -13
"""Names of streams of random numbers."""


@dataclass(frozen=True, eq=False)
class LabelledBatch:
    """Graphs as one batch, with what their vertices tell of attributes, true labels and those that are evidence."""

    batch: Batch
    attributes: Tensor
    truth: Tensor
    """[N, T]"""
    known: Tensor
    """[N, T]"""

    @cached_property
    def paths(self) -> Paths:
        return Paths(self.batch)

    @property
    def rows(self) -> Tensor:
        """Vertices with a label."""
        return (~self.truth.isnan()).any(1).nonzero().squeeze(1)


@dataclass(frozen=True, eq=False)
class Exam:
    """Held-out vertices, their contexts with the labels that are evidence and with none, and what is learned from."""

    learned: Tensor
    """Vertices of the training graphs"""
    known: Tensor
    """[N, T] labels of the training graphs that may be evidence there"""
    truth: Tensor
    """[n, T]"""
    told: tuple[Tensor, Tensor]
    """z [n, W + 1] with no labels, and with those that there are"""


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


def read(network: LabelNetwork, dataset: GraphDataset) -> LabelledBatch:
    """Of a dataset whose y has the true labels [N, T] followed by those that are evidence [N, T]."""
    batch = dataset.batch(torch.arange(len(dataset)))
    assert batch.y is not None
    truth, known = batch.y.double().chunk(2, dim=1)
    with torch.no_grad():
        return LabelledBatch(batch, attributes_told(network.hierarchy, batch).cpu(), truth, known)


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
        exams = list(_exams(network, own, rows, validation, seed))
        weights = _class_weights(readout, own.truth, class_weight)
        strengths: Sequence[float] = STRENGTHS
        outcome = LabelFit()
        scores = _judged(readout, own, exams, strengths, seed, weights, outcome)
        chosen = _weigh(readout, scores, outcome)
        if exams and not outcome.better:
            strengths = GENTLER
            scores |= _judged(readout, own, exams, strengths, seed + 1, weights, outcome)
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
        if exams:
            _doubt(readout, chosen, outcome)
        copies = _copies(readout, own, rows, own.truth, seed)
        for name, kind in KINDS.items():
            part = _of(readout, name)
            if name in chosen:
                fit(part, kind, _rows_of(name, copies, weights), chosen[name], seed)
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


def _exams(
    network: LabelNetwork, own: LabelledBatch, rows: Tensor, validation: GraphDataset | None, seed: int
) -> Iterator[Exam]:
    """What judges: the validation graphs, or labels held out in turn; nothing where there are too few labels."""
    context, judges = network.readout.context, 0
    if validation is not None:
        other = read(network, validation)
        asked = other.rows
        nothing = torch.full_like(other.known, torch.nan)
        told = tuple(
            context.standardised(other.attributes, context.labels_told(other.batch, known, other.paths))[asked]
            for known in (nothing, other.known)
        )
        yield Exam(rows, own.truth, other.truth[asked], cast(tuple[Tensor, Tensor], told))
        judges = len(asked)
    whole = _are_complete(own)
    fold, number = _folds(own, rows, whole, seed, judges)
    for f in range(number):
        held, kept = rows[fold == f], rows[fold != f]
        if not len(held) or not len(kept) or bool(own.truth[kept].isnan().all(0).any()):
            continue
        known = own.truth.clone()
        known[held] = torch.nan
        nothing = torch.full_like(known, torch.nan)
        told = tuple(
            context.standardised(own.attributes, context.labels_told(own.batch, one, own.paths))[held]
            for one in (nothing, nothing if whole else known)
        )
        yield Exam(kept, known, own.truth[held], cast(tuple[Tensor, Tensor], told))


def _are_complete(own: LabelledBatch) -> bool:
    """Whether (nearly) all vertices of the graphs are labelled: then what is predicted are others, without labels."""
    return len(own.rows) >= _COMPLETE * max(own.batch.num_vertices, 1)


def _folds(own: LabelledBatch, rows: Tensor, whole: bool, seed: int, judges: int) -> tuple[Tensor, int]:
    """[rows] the part in which each labelled vertex judges, of which the first `number` are used.

    Whole graphs together where these are predicted; in order of the labels, so that every part has all of them.
    """
    parts = 5
    number = min(parts, max(0, -(-(_JUDGES - judges) * parts // max(len(rows), 1))))
    graph, vertex = (key[rows] for key in own.batch.vertex_keys())
    drawn = keyed_uniform(seed, _FOLDS, graph, torch.zeros_like(vertex) if whole else vertex)
    if whole and own.batch.num_graphs >= parts:
        order = torch.unique(drawn, return_inverse=True)[1]
        return order % parts, number
    first = own.truth[rows, 0].nan_to_num(torch.inf)
    drawn = keyed_uniform(seed, _FOLDS, graph, vertex)
    order = torch.from_numpy(np.lexsort((drawn.numpy(), first.numpy())))
    fold = torch.empty_like(order)
    fold[order] = torch.arange(len(order)) % parts
    return fold, number


@dataclass(frozen=True, eq=False)
class _Copies:
    """Rows to learn from: once with no labels, once for each share of labels that is hidden."""

    without: tuple[Tensor, Tensor]
    """z and y"""
    with_labels: tuple[Tensor, Tensor]
    copies: int


def _copies(readout: LabelReadout, own: LabelledBatch, rows: Tensor, known: Tensor, seed: int) -> _Copies:
    """Of the training vertices `rows`, where labels [N, T] may be evidence."""
    context, batch = readout.context, own.batch
    graph, vertex = batch.vertex_keys()
    shares = _HIDDEN_SHARES if len(rows) * context.width < _COPIES_TO else _HIDDEN_SHARES[:2]
    found = []
    for number, share in enumerate(shares):
        hidden = keyed_uniform(seed, _HIDE, number, graph, vertex) < share
        seen = known.masked_fill(hidden[:, None], torch.nan)
        found.append(context.standardised(own.attributes, context.labels_told(batch, seen, own.paths))[rows])
    nothing = context.labels_told(batch, torch.full_like(known, torch.nan), own.paths)
    y = own.truth[rows]
    return _Copies(
        (context.standardised(own.attributes, nothing)[rows], y),
        (torch.cat(found), y.repeat(len(shares), 1)),
        len(shares),
    )


def _rows_of(name: str, copies: _Copies, weights: Tensor | None) -> RegressionData:
    """What a regression learns from."""
    (z, y), number = (copies.with_labels, copies.copies) if KINDS[name].labels else (copies.without, 1)
    own = torch.full((len(y),), 1 / number, dtype=torch.float64)
    if weights is not None:
        known = ~y[:, 0].isnan()
        own[known] = own[known] * weights[y[known, 0].long()]
    return RegressionData(z, y, own, number)


def _can_be_tried(kind: Kind, part: LabelRegression, rows: RegressionData) -> bool:
    columns, vertices = len(part.columns), len(rows.z) // rows.copies
    if kind.trees:
        return part.trees is not None and vertices >= _LEAST_OF_TREES and columns <= _MOST_OF_TREES
    if kind.through == "units":
        return part.hidden is not None and vertices >= _LEAST_OF_UNITS and len(rows.z) * columns <= _MOST_OF_UNITS
    return columns <= _WIDE or len(rows.z) * columns <= _MOST_OF_WIDE


def _strengths(kind: Kind, numbers: int, strengths: Sequence[float]) -> Sequence[float]:
    if not kind.blocks:
        return strengths[:1]
    if kind.trees:
        return OF_TREES
    if strengths is not STRENGTHS:
        return strengths
    return OF_UNITS if kind.through == "units" else OF_LARGE if numbers > _LARGE else strengths


def _judged(
    readout: LabelReadout,
    own: LabelledBatch,
    exams: Sequence[Exam],
    strengths: Sequence[float],
    seed: int,
    weights: Tensor | None,
    outcome: LabelFit,
) -> dict[tuple[str, float], Tensor]:
    """By regression and strength, log P [n, 2] of what judges: with no labels, and with those that there are."""
    scores: dict[tuple[str, float], list[Tensor]] = {}
    tried: dict[str, Sequence[float]] = {}
    for exam in exams:
        copies = _copies(readout, own, exam.learned, exam.known, seed)
        for name in KINDS if exam is exams[0] else _finalists(scores):
            part, kind = _of(readout, name), KINDS[name]
            rows = _rows_of(name, copies, weights)
            if not _can_be_tried(kind, part, rows):
                continue
            if kind.labels and not bool((exam.told[1][:, -1] > 0).any()):
                continue  # no held-out vertex has a known label within reach
            if name not in tried:
                tried[name] = _strengths(kind, len(rows.z) * len(part.columns), strengths)
            losses: list[float] = []
            for strength in tried[name]:
                fit(part, kind, rows, strength, seed, goes_on=bool(losses))
                with torch.no_grad():
                    found = torch.stack([part.log_prob(z, exam.truth).double() for z in exam.told], dim=1)
                scores.setdefault((name, strength), []).append(found)
                losses.append(-float(found[torch.arange(len(found)), (exam.told[1][:, -1] > 0).long()].mean()))
                if losses[-1] > min(losses):
                    break  # weaker ridges only make it worse from here
            if exam is exams[0]:  # others try what was near the best
                best = losses.index(min(losses))
                tried[name] = tried[name][max(best - 1, 0) : best + 2]
    whole = {key: torch.cat(found) for key, found in scores.items() if len(found) == len(exams)}
    outcome.informed = torch.cat([exam.told[1][:, -1] > 0 for exam in exams]) if exams else outcome.informed
    for key, found in whole.items():
        outcome.losses[key] = -float(torch.where(outcome.informed, found[:, 1], found[:, 0]).mean())
    return whole


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
