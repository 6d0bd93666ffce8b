"""Several hierarchies over the same schema that answer as one: what is asked is put to each, and mixed.

With constant weights, whatever the evidence; how an answer behaves once it is given is the business of
`circuits.mixed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

import torch
from torch import Tensor

from gspn.attributes import Schema
from gspn.circuits.given import Roots
from gspn.circuits.mixed import mixed, mixed_log_prob
from gspn.graphs.batch import Batch
from gspn.hierarchy.hierarchy import Hierarchy


class Stacked:
    """An implementation of `queries.contract.Answering` by hierarchies and their weights."""

    def __init__(self, members: Sequence[Hierarchy], weights: Sequence[float]) -> None:
        """The weights need not sum to 1, as long as their ratios are meant."""
        self.members = tuple(members)
        shares = torch.tensor([float(weight) for weight in weights], dtype=torch.float64)
        self.log_weights = (shares / shares.sum()).log()

    @property
    def schema(self) -> Schema:
        return self.members[0].schema

    @property
    def reach(self) -> int:
        return max(member.reach for member in self.members)

    @property
    def longest_closed_walk(self) -> int:
        """As of a hierarchy: the longest among the members."""
        return max(member.longest_closed_walk for member in self.members)

    @property
    def dtype(self) -> torch.dtype:
        """The widest of the members'."""
        return reduce(torch.promote_types, [member.dtype for member in self.members])

    @property
    def reads_out_degree(self) -> bool:
        return any(member.reads_out_degree for member in self.members)

    @property
    def numbers_per_vertex(self) -> int:
        return sum(member.numbers_per_vertex for member in self.members)

    def roots(self, batch: Batch, vertices: Tensor, hidden: Tensor) -> Roots:
        return self._mixed(batch, lambda member, seen: member.roots(seen, vertices, hidden))

    def roots_after(self, batch: Batch, vertices: Tensor) -> Roots:
        return self._mixed(batch, lambda member, seen: member.roots_after(seen, vertices))

    def log_likelihood(self, batch: Batch, vertices: Tensor) -> Tensor:
        return self._log_prob(batch, lambda member, seen: member.log_likelihood(seen, vertices))

    def log_prob_hidden(self, batch: Batch, vertices: Tensor, hidden: Tensor | None = None) -> Tensor:
        return self._log_prob(batch, lambda member, seen: member.log_prob_hidden(seen, vertices, hidden))

    def log_prob_missing(self, batch: Batch, truth: Tensor) -> Tensor:
        return self._log_prob(batch, lambda member, seen: member.log_prob_missing(seen, truth))

    def _mixed(self, batch: Batch, ask: Callable[[Hierarchy, Batch], Roots]) -> Roots:
        return mixed([ask(member, _as_seen_by(member, batch)) for member in self.members], self.log_weights)

    def _log_prob(self, batch: Batch, ask: Callable[[Hierarchy, Batch], Tensor]) -> Tensor:
        found = [ask(member, _as_seen_by(member, batch)) for member in self.members]
        return mixed_log_prob(found, self.log_weights).to(device=found[0].device, dtype=self.dtype)


def _as_seen_by(member: Hierarchy, batch: Batch) -> Batch:
    """Without edge types where the member has no use for them: they may be types that it does not have."""
    return batch if tells_types_apart(member) else replace(batch, edge_type=None)


def tells_types_apart(member: Hierarchy) -> bool:
    """Whether the answers of a hierarchy depend on the types of edges."""
    return member.num_edge_types > 1 and member.num_layers > 1
