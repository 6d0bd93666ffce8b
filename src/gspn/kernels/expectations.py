"""What vertices tell their receivers of their own entries: expectations, and how uncertain these are.

Continuous entries in units of the data, categories as probabilities, counts as log(1 + x). Known entries are told as
they are, others as the leaves expect them given what is known of the vertex. What becomes of it is the aggregation's
business.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gspn.circuits.evidence import Context
from gspn.circuits.leaves import Natural
from gspn.circuits.templates import NaiveBayes
from gspn.kernels.contract import Climb, Expectations


def expected_entries(
    climb: Climb, naturals: Sequence[Natural], leaf_log_weights: Sequence[Tensor], context: Context | None
) -> Expectations:
    """What every vertex tells, attribute after attribute: the mean over all leaves that the attribute may have.

    Its covariance, where it matters, has the covariances within leaves and those between them. A circuit's leaves of
    different scopes have no state in common: what is told of different attributes counts as uncorrelated there.
    """
    means: dict[int, Tensor] = {}
    of_leaves: list[tuple[tuple[int, ...], Tensor, list[Tensor]]] = []
    for family, natural, scope, log_weights in zip(
        climb.families, naturals, climb.template.scopes, leaf_log_weights, strict=True
    ):
        weights, found = log_weights.exp(), family.expectation(natural, climb.evidence.columns(scope), context)
        of_leaves.append((scope, weights, found))
        for column, by_leaf in zip(scope, found, strict=True):
            own = (weights.unsqueeze(-1) * by_leaf).sum(1)
            means[column] = means[column] + own if column in means else own
    mean = torch.cat([means[column] for column in sorted(means)], dim=1)
    if not climb.uncertain:
        return Expectations(mean)
    places = _places(means)
    covariance = mean.new_zeros(*mean.shape, mean.shape[1])
    for family, natural, (scope, weights, _) in zip(climb.families, naturals, of_leaves, strict=True):
        own = torch.cat([places[column] for column in scope])
        within = family.uncertainty(natural, weights, climb.evidence.columns(scope), context).to(mean.dtype)
        rows = torch.arange(len(mean), device=mean.device)[:, None, None]
        covariance = covariance.index_put((rows, own[:, None], own), within, accumulate=True)
    covariance = covariance + _between(climb, of_leaves, mean, means, places)
    if not isinstance(climb.template, NaiveBayes):
        whose = torch.cat([torch.full_like(places[column], column) for column in sorted(places)])
        covariance = covariance * (whose[:, None] == whose).to(covariance)
    return Expectations(mean, covariance)


def _places(means: dict[int, Tensor]) -> dict[int, Tensor]:
    """The columns of what is told that tell of each attribute."""
    places, start = {}, 0
    for column in sorted(means):
        width = means[column].shape[1]
        places[column] = torch.arange(start, start + width)
        start += width
    return places


def _between(
    climb: Climb,
    of_leaves: list[tuple[tuple[int, ...], Tensor, list[Tensor]]],
    mean: Tensor,
    means: dict[int, Tensor],
    places: dict[int, Tensor],
) -> Tensor:
    """[N, D, D] how far the leaves' expectations are apart."""
    if isinstance(climb.template, NaiveBayes):
        # All leaves of a state go together.
        columns = {c: by_leaf for scope, _, found in of_leaves for c, by_leaf in zip(scope, found, strict=True)}
        weights = of_leaves[0][1]
        apart = torch.cat([columns[column].expand(len(mean), -1, -1) for column in sorted(columns)], dim=2)
        apart = apart - mean[:, None]
        return torch.einsum("nka,nkb->nab", weights.unsqueeze(-1) * apart, apart)
    rows, total = torch.arange(len(mean), device=mean.device)[:, None, None], torch.zeros_like(mean)
    total = torch.diag_embed(total)
    for scope, weights, found in of_leaves:
        for column, by_leaf in zip(scope, found, strict=True):
            apart, place = by_leaf - means[column][:, None], places[column]
            own = torch.einsum("nka,nkb->nab", weights.unsqueeze(-1) * apart, apart)
            total = total.index_put((rows, place[:, None], place), own, accumulate=True)
    return total
