"""The root of every vertex's tree with what is asked for kept out of the evidence: conditionals of any entries."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gspn.circuits.distributions import Distribution
from gspn.circuits.given import Given, Joint
from gspn.circuits.leaves.contract import at_level
from gspn.graphs.batch import Batch
from gspn.graphs.echoes import echo_free
from gspn.hierarchy.hierarchy import Hierarchy
from gspn.hierarchy.objectives import COPIES_AT_ONCE

_FEW = 0.1
"""Share of the vertices below which only the parts of the graph that they hear are evaluated."""


@torch.no_grad()
def conditional(hierarchy: Hierarchy, batch: Batch, vertices: Tensor, names: Sequence[str]) -> Joint:
    """P(named attributes of v | v's other observed entries, all other vertices) for each of the vertices."""
    columns = [hierarchy.schema.index(name) for name in names]
    hidden = torch.zeros(len(vertices), batch.x.shape[1], dtype=torch.bool)
    hidden[:, columns] = True
    return Joint(roots(hierarchy, batch, vertices, hidden), names)


@torch.no_grad()
def conditional_of_one(hierarchy: Hierarchy, batch: Batch, vertices: Tensor, names: Sequence[str]) -> Distribution:
    """The same for a single attribute, as a univariate distribution."""
    distribution = conditional(hierarchy, batch, vertices, names).marginal(names[0])
    assert not isinstance(distribution, Joint)  # one name, one distribution
    return distribution


@torch.no_grad()
def roots(hierarchy: Hierarchy, batch: Batch, vertices: Tensor, hidden: Tensor) -> Given:
    """The root templates of the vertices, `hidden` [len(vertices), d] entries marginalised there and in their trees.

    Each vertex's entries are hidden in its own tree only. Where they are missing anyway, one pass over the graph as it
    is answers for all vertices; the others get private copies.
    """
    naturals = [at_level(natural, -1) for natural in hierarchy.naturals()]
    x = batch.x[vertices].masked_fill(hidden, torch.nan)
    log_prior = _log_priors(hierarchy, batch, vertices, hidden)
    return Given.of(hierarchy.template, hierarchy.families, naturals, log_prior, x)


def _log_priors(hierarchy: Hierarchy, batch: Batch, vertices: Tensor, hidden: Tensor) -> Tensor:
    """[len(vertices), S, C]"""
    found = torch.empty(len(vertices), *hierarchy.raw_prior.shape, dtype=torch.float64)
    private = (hidden & batch.observed[vertices]).any(1) & (hierarchy.num_layers > 1)
    if int((~private).sum()) < _FEW * batch.num_vertices:
        private = torch.ones_like(private)
    if not private.all():
        found[~private] = hierarchy(batch).root_log_prior.double().cpu()[vertices[~private]]
    rows, start = private.nonzero().squeeze(1), 0
    for extended, position in echo_free(batch, vertices[rows], hidden[rows], hierarchy.num_layers, COPIES_AT_ONCE):
        log_prior = hierarchy(extended).root_log_prior.double().cpu()
        found[rows[start : start + len(position)]] = log_prior[position]
        start += len(position)
    return found
