"""What is maximised: three objectives of vertices, and that of targets, as sums of losses with their number of terms.

An objective takes a hierarchy, a batch and the epoch (which fixes what is hidden) and yields parts, each a sum of
losses and the number of its terms. Sums, not means: a loss is a mean over all terms of a step, however they are spread
over parts and processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from gspn.circuits.templates import gaps_are_evidence
from gspn.graphs.batch import Batch
from gspn.graphs.masks import choose_vertices, hide_entries, hide_labels
from gspn.hierarchy.hierarchy import Hierarchy
from gspn.hierarchy.label_readout import LabelNetwork
from gspn.hierarchy.readout import SupervisedHierarchy, labels_of
from gspn.hierarchy.roots import leave_one_out

OBJECTIVES = ("pseudo", "masked", "leave_one_out")


class Objective(Protocol):
    def __call__(self, batch: Batch, epoch: int) -> Iterator[tuple[Tensor, int]]:
        """Parts of the loss on a batch: (sum of losses, number of terms)."""


def objective_for(hierarchy: Hierarchy, name: str, mask_rate: float, seed: int) -> Objective:
    """The objective of the given name; `mask_rate` is the share of vertices that are predicted in a step."""
    if name == "pseudo":
        return lambda batch, epoch: _pseudo(hierarchy, batch)
    gaps = gaps_are_evidence(hierarchy.families)
    if name == "masked":
        return lambda batch, epoch: _masked(hierarchy, batch, hide_entries(batch, mask_rate, seed, epoch, gaps=gaps))

    def chosen(batch: Batch, epoch: int) -> Tensor:
        return choose_vertices(batch, mask_rate, seed, epoch, gaps=gaps)

    return lambda batch, epoch: _leave_one_out(hierarchy, batch, chosen(batch, epoch))


def with_prior(
    objective: Objective, hierarchy: Hierarchy, strength: float, count_terms: Callable[[], int]
) -> Objective:
    """The objective with the log-density of all leaves' parameters, as a share of all terms of a dataset.

    `strength` is the number of pseudo-observations that every leaf has seen. Terms are counted only where it matters.
    """
    families = [family for family in hierarchy.families if strength or family.penalised]
    if not families:
        return objective
    terms = count_terms()

    def penalised(batch: Batch, epoch: int) -> Iterator[tuple[Tensor, int]]:
        count = 0
        for part, own in objective(batch, epoch):
            yield part, own
            count += own
        if count:
            log_priors = [family.log_prior(family.natural(), strength).sum() for family in families]
            yield -torch.stack(log_priors).sum() * (count / max(terms, 1)), 0

    return penalised


def supervised_objective(
    network: SupervisedHierarchy, vertices: str, mask_rate: float, seed: int, likelihood_weight: float
) -> Objective:
    """−log P(targets | graph) plus `likelihood_weight` times the vertices' objective of the given name (their sum).

    One term a graph (or vertex) with a label, and any graph where the vertices count as well. Without either there is
    nothing to learn from a batch.
    """
    of_vertices = objective_for(network.hierarchy, vertices, mask_rate, seed)

    def objective(batch: Batch, epoch: int) -> Iterator[tuple[Tensor, int]]:
        penalty = network.readout.penalty()
        if penalty is not None:
            yield penalty * int((~torch.isnan(labels_of(batch)).all(1)).sum()), 0
        yield from without_prior(batch, epoch)

    def without_prior(batch: Batch, epoch: int) -> Iterator[tuple[Tensor, int]]:
        labelled = int((~torch.isnan(labels_of(batch)).all(1)).sum())
        if likelihood_weight == 0:
            if labelled:
                yield -network(batch).log_prob.sum(), labelled
            return
        evaluation = network(batch)
        loss = -evaluation.log_prob.sum()
        if vertices == "pseudo":
            # The same pass has it already.
            loss = loss - likelihood_weight * evaluation.log_likelihood.sum()
        yield loss, len(evaluation.log_prob)
        if vertices != "pseudo":
            for part, _ in of_vertices(batch, epoch):
                yield likelihood_weight * part, 0

    return objective


def evidence_objective(
    network: LabelNetwork, vertices: str, mask_rate: float, seed: int, likelihood_weight: float
) -> Objective:
    """−log P(hidden labels | attributes, visible labels) plus `likelihood_weight` times the vertices' objective.

    Half of the steps hide a tenth of the labels, the others a uniformly drawn share; one term a vertex that was chosen.
    The batch carries the true labels, followed by those that are evidence for whoever asks, which are not read here.
    """
    of_vertices = objective_for(network.hierarchy, vertices, mask_rate, seed)

    def objective(batch: Batch, epoch: int) -> Iterator[tuple[Tensor, int]]:
        truth = labels_of(batch).chunk(2, dim=1)[0]
        hidden = hide_labels(batch, seed, epoch)
        asked = (hidden & ~truth.isnan().all(1)).nonzero().squeeze(1)
        if len(asked):
            visible = replace(batch, y=truth.masked_fill(hidden[:, None], torch.nan))
            log_prob = network.readout.log_prob(network.told(visible)[asked], truth[asked])
            yield -log_prob.sum(), len(asked)
        if likelihood_weight > 0:
            for part, count in of_vertices(batch, epoch):
                yield likelihood_weight * part, 0 if len(asked) else count

    return objective


def _pseudo(hierarchy: Hierarchy, batch: Batch) -> Iterator[tuple[Tensor, int]]:
    """−Σ_v log P(x_v | tree below v): one term a vertex."""
    if batch.num_vertices:
        yield -hierarchy(batch).log_likelihood.sum(), batch.num_vertices


def _masked(hierarchy: Hierarchy, batch: Batch, hidden: Tensor) -> Iterator[tuple[Tensor, int]]:
    """−Σ_v log P(hidden entries of v | everything visible): one term a hidden entry."""
    targets = int(hidden.sum())
    if targets:
        yield -hierarchy(batch.hiding(hidden)).log_hidden.sum(), targets


def _leave_one_out(hierarchy: Hierarchy, batch: Batch, chosen: Tensor) -> Iterator[tuple[Tensor, int]]:
    """−Σ_v log P(x_v | all other vertices) over the chosen roots: one term a root."""
    roots = chosen.nonzero().squeeze(1)
    for log_prob in leave_one_out(hierarchy, batch, roots):
        yield -log_prob.sum(), len(log_prob)
