"""The roots of vertices' trees with entries hidden: in the vertex's own tree alone, by private copies, or everywhere.

Shared by the objective "leave_one_out", which needs gradients, and by the questions, which need distributions. How a
vertex is kept out of its own tree at little cost is the business of `graphs.private_copies`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gspn.circuits.evidence import Context, Evidence
from gspn.circuits.given import Given, Roots
from gspn.circuits.guard import guarded
from gspn.circuits.leaves import at_level
from gspn.circuits.mixed import Assorted
from gspn.circuits.templates import gaps_are_evidence
from gspn.graphs.batch import Batch
from gspn.graphs.private_copies import with_private_copies
from gspn.hierarchy.parameters import atoms_of, export_units

if TYPE_CHECKING:
    from gspn.hierarchy.hierarchy import Evaluation, Hierarchy

COPIES_AT_ONCE = 200_000
"""Private copies evaluated in one go: bounds memory; the results do not depend on it."""

_FEW = 0.1
"""Share of the vertices below which only the parts of the graph within their reach are evaluated."""


def leave_one_out(
    hierarchy: Hierarchy, batch: Batch, roots: Tensor, hidden: Tensor | None = None, budget: int = COPIES_AT_ONCE
) -> Iterator[Tensor]:
    """log P(hidden entries of each root | everything else), each root's entries hidden in its own tree only.

    `hidden` [R, d] says which entries of each root are asked for; by default all. Roots are answered in order, in
    pieces.
    """
    if hidden is None:
        hidden = torch.ones(len(roots), batch.x.shape[1], dtype=torch.bool)
    for extended, position in with_private_copies(
        batch, roots, hidden, hierarchy.reach, budget, hierarchy.longest_closed_walk
    ):
        log_hidden: Tensor = hierarchy(extended).log_hidden
        yield log_hidden[position.to(log_hidden.device)]


def roots_of(hierarchy: Hierarchy, batch: Batch, vertices: Tensor, hidden: Tensor) -> Roots:
    """The root templates of the vertices, `hidden` [len(vertices), d] entries marginalised there and in their trees.

    Each vertex's entries are hidden in its own tree only. Where they are missing anyway, and gaps are ignorable, one
    pass over the graph as it is answers for all vertices; the others get private copies.
    """
    # Entries that are asked for leave the evidence, gaps included: otherwise they would be exposed inside the tree.
    exposed = hidden if gaps_are_evidence(hierarchy.families) else hidden & batch.observed[vertices]
    private = exposed.any(1) & (hierarchy.reach > 0)
    if int((~private).sum()) < _FEW * batch.num_vertices:
        private = torch.ones_like(private)
    pieces = []
    if not private.all():
        pieces.append(((~private).nonzero().squeeze(1), hierarchy(batch), vertices[~private]))
    rows, start = private.nonzero().squeeze(1), 0
    limits = hierarchy.reach, COPIES_AT_ONCE, hierarchy.longest_closed_walk
    for extended, position in with_private_copies(batch, vertices[rows], hidden[rows], *limits):
        pieces.append((rows[start : start + len(position)], hierarchy(extended), position))
        start += len(position)
    known = _evidence_at(batch, vertices)
    evidence = Evidence(known.x.masked_fill(hidden, torch.nan), known.hidden | hidden, known.missing_mask)
    return _given(hierarchy, pieces, evidence)


def roots_after(hierarchy: Hierarchy, batch: Batch, vertices: Tensor) -> Roots:
    """The root templates of the vertices after one pass over the batch as it is."""
    everything = [(torch.arange(len(vertices)), hierarchy(batch), vertices)]
    return _given(hierarchy, everything, _evidence_at(batch, vertices))


def _evidence_at(batch: Batch, vertices: Tensor) -> Evidence:
    return Evidence(batch.visible, batch.hidden, batch.missing)[vertices]


def _given(hierarchy: Hierarchy, pieces: list[tuple[Tensor, Evaluation, Tensor]], evidence: Evidence) -> Roots:
    """Rows of the answer, the pass that answers them, and their vertices in it, piece by piece, put together."""
    log_prior = torch.empty(len(evidence), *hierarchy.raw_prior.shape, dtype=torch.float64)
    contexts: list[Context] = []
    alone = torch.zeros(len(evidence), dtype=torch.bool)
    for rows, evaluation, position in pieces:
        log_prior[rows] = evaluation.root_log_prior.double().cpu()[position]
        if evaluation.root_context is not None:
            contexts.append(evaluation.root_context.to(dtype=torch.float64)[position])
        if evaluation.alone is not None:
            alone[rows] = evaluation.alone.cpu()[position]
    naturals = hierarchy.naturals()
    root, lowest = ([at_level(natural, level) for natural in naturals] for level in (-1, 0))
    order = torch.cat([rows for rows, _, _ in pieces]).argsort() if pieces else None
    context = None if order is None or not contexts else _together(contexts)[order]
    given: Roots = Given.of(hierarchy.template, hierarchy.families, root, log_prior, evidence, context)
    if alone.any():
        # Level 0 answers for vertices that receive nothing, where there is a context.
        by_lowest = Given.of(hierarchy.template, hierarchy.families, lowest, log_prior[alone], evidence[alone])
        rows, others = alone.nonzero().squeeze(1), (~alone).nonzero().squeeze(1)
        given = Assorted(((others, given[others]), (rows, by_lowest)))
    if not hierarchy.guard:
        return given
    return guarded(given, hierarchy.guard, export_units(hierarchy.families), atoms_of(hierarchy.families))


def _together(contexts: list[Context]) -> Context:
    """The rows of several contexts, one after the other."""
    covariances = [context.covariance for context in contexts if context.covariance is not None]
    return Context(
        torch.cat([context.mean for context in contexts]),
        torch.cat([context.present for context in contexts]),
        torch.cat(covariances) if covariances else None,
    )


def log_prob_missing(hierarchy: Hierarchy, batch: Batch, truth: Tensor) -> Tensor:
    """[N] joint log-density of each vertex's own missing entries at `truth` [N, d]; 0 where none is missing.

    Only missing entries are read from `truth`; what is missing there as well is summed out. That an entry is missing
    stays in the evidence.
    """
    device = hierarchy.raw_prior.device
    batch, truth = replace(batch, hidden=None).hiding_withheld().to(device), truth.to(device)
    missing = ~batch.observed
    asked = (missing & ~torch.isnan(truth)).any(1)
    if hierarchy.guard:
        roots = roots_after(hierarchy, batch, torch.arange(batch.num_vertices))
        filled = roots.evidence.having(torch.where(missing, truth, batch.x).cpu().double())
        return roots.log_prob(filled).to(hierarchy.raw_prior).masked_fill(~asked, 0.0)
    evaluation: Evaluation = hierarchy(batch)
    codes = Evidence(batch.x, batch.hidden, batch.missing)
    evidence = codes.having(torch.where(missing, truth, batch.x))
    log_hidden = hierarchy.root_log_value(evaluation, hierarchy.naturals(), evidence) - evaluation.log_visible
    return log_hidden.masked_fill(~asked, 0.0)
