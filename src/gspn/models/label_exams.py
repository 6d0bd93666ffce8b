"""What judges regressions of labels: labels that are held out, on the density of known labels that a prediction has.

On validation graphs with the labels that they carry, otherwise on labels that are held out in turn, beside all others;
in graphs whose vertices are all labelled nothing is left to predict, so held-out graphs there have no labels at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from gspn.graphs import Batch, GraphDataset
from gspn.hierarchy.label_context import LabelContext, Paths, attributes_told
from gspn.hierarchy.label_messages import MessageInputs
from gspn.hierarchy.label_readout import LabelNetwork
from gspn.random_streams import keyed_uniform

_JUDGES = 400
"""Held-out labels that are to judge at least, if there are so many."""
_FEW = 100
"""Labels up to which a tenth of them is held out at a time, otherwise a fifth: few must teach nearly as much as all."""
_COMPLETE = 0.95
"""Share of labelled vertices from which on a graph counts as labelled."""
_FOLDS = -12
"""Names a stream of random numbers."""

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class LabelledBatch:
    """Graphs as one batch, with what their vertices tell of attributes, true labels and those that are evidence."""

    batch: Batch
    attributes: Tensor
    truth: Tensor
    """[N, T]"""
    known: Tensor
    """[N, T]"""
    _silent: dict[tuple[str, ...], MessageInputs] = field(default_factory=dict)
    """By blocks, in single precision, without any label"""

    @cached_property
    def paths(self) -> Paths:
        return Paths(self.batch)

    @property
    def rows(self) -> Tensor:
        """Vertices with a label."""
        return (~self.truth.isnan()).any(1).nonzero().squeeze(1)

    @property
    def is_complete(self) -> bool:
        """Whether (nearly) all vertices are labelled: then what is predicted are others, without labels."""
        return len(self.rows) >= _COMPLETE * max(self.batch.num_vertices, 1)

    def told(self, context: LabelContext, known: Tensor, rows: Tensor) -> Tensor:
        """z [n, W + 1] of the vertices `rows`, where the labels `known` [N, T] are evidence."""
        return context.standardised(self.attributes[rows], context.labels_told(self.batch, known, self.paths)[rows])

    def inputs(self, context: LabelContext, known: Tensor, blocks: tuple[str, ...]) -> MessageInputs:
        """What messages are made from, where the labels `known` [N, T] are evidence; in single precision."""
        if blocks not in self._silent:
            silent = MessageInputs.of(context, self.attributes, self.batch, blocks)
            self._silent[blocks] = silent.to(torch.float32)
        return self._silent[blocks].knowing(known, context, self.batch, self.paths)


@dataclass(frozen=True, eq=False)
class Exam:
    """Held-out vertices with the labels that are evidence there, and what is learned from."""

    learned: Tensor
    """Vertices of the training graphs"""
    known: Tensor
    """[N, T] labels of the training graphs that may be evidence there"""
    where: LabelledBatch
    """The graphs of the held-out vertices"""
    asked: Tensor
    """[n] the held-out vertices"""
    shown: Tensor
    """[N, T] labels of these graphs that are evidence"""
    context: LabelContext

    @cached_property
    def truth(self) -> Tensor:
        """[n, T]"""
        return self.where.truth[self.asked]

    @cached_property
    def told(self) -> tuple[Tensor, Tensor]:
        """z [n, W + 1] with no labels, and with those that there are."""
        return self._each(lambda known: self.where.told(self.context, known, self.asked))

    def inputs(self, blocks: tuple[str, ...]) -> tuple[MessageInputs, MessageInputs]:
        """What messages are made from, with no labels, and with those that there are."""
        return self._each(lambda known: self.where.inputs(self.context, known, blocks))

    @cached_property
    def informed(self) -> Tensor:
        """[n] which held-out vertices have a known label within reach."""
        return self.told[1][:, -1] > 0

    def _each(self, made: Callable[[Tensor], Made]) -> tuple[Made, Made]:
        return made(torch.full_like(self.shown, torch.nan)), made(self.shown)


def read(network: LabelNetwork, dataset: GraphDataset) -> LabelledBatch:
    """Of a dataset whose y has the true labels [N, T] followed by those that are evidence [N, T]."""
    batch = dataset.batch(torch.arange(len(dataset)))
    assert batch.y is not None
    truth, known = batch.y.double().chunk(2, dim=1)
    with torch.no_grad():
        return LabelledBatch(batch, attributes_told(network.hierarchy, batch).cpu(), truth, known)


def exams(
    network: LabelNetwork, own: LabelledBatch, rows: Tensor, validation: GraphDataset | None, seed: int
) -> Iterator[Exam]:
    """The validation graphs, and training labels held out in turn; nothing where there are too few labels."""
    context, judges = network.readout.context, 0
    if validation is not None:
        other = read(network, validation)
        yield Exam(rows, own.truth, other, other.rows, other.known, context)
        judges = len(other.rows)
    whole = own.is_complete
    fold, number = _folds(own, rows, whole, seed, judges)
    for f in range(number):
        held, kept = rows[fold == f], rows[fold != f]
        if not len(held) or not len(kept) or bool(own.truth[kept].isnan().all(0).any()):
            continue
        known = own.truth.clone()
        known[held] = torch.nan
        yield Exam(kept, known, own, held, torch.full_like(known, torch.nan) if whole else known, context)


def _folds(own: LabelledBatch, rows: Tensor, whole: bool, seed: int, judges: int) -> tuple[Tensor, int]:
    """[rows] the part in which each labelled vertex judges, of which the first `number` are used.

    Whole graphs together where these are predicted; in order of the labels, so that every part has all of them.
    """
    parts = 5 if len(rows) > _FEW else 10
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
