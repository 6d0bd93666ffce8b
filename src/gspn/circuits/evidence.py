"""What leaves are given: the entries of n rows with the reason why one is absent, and the context of each row.

An entry has a code: observed, missing (a gap in the data) or hidden (asked for, or masked in training). A hidden entry
says nothing, not even that it is a gap. Codes and values are two things: a value may be put in for a hidden or a
missing entry, to ask how likely it is; the code stays what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Evidence:
    """Entries x [n, d] in users' units, NaN where no value is known, with their codes."""

    x: Tensor
    hidden_mask: Tensor | None = None
    """[n, d] True where an entry is hidden; None: nowhere"""
    missing_mask: Tensor | None = None
    """[n, d] True where an entry is missing in the data; None: wherever no value is known and nothing hidden"""

    def __len__(self) -> int:
        return len(self.x)

    @property
    def known(self) -> Tensor:
        """[n, d] True where there is a value."""
        return ~torch.isnan(self.x)

    @property
    def hidden(self) -> Tensor:
        """[n, d] True where an entry is asked for or masked: it says nothing."""
        return torch.zeros_like(self.x, dtype=torch.bool) if self.hidden_mask is None else self.hidden_mask

    @property
    def missing(self) -> Tensor:
        """[n, d] True where an entry is a gap in the data; never where it is hidden."""
        unknown = torch.isnan(self.x) if self.missing_mask is None else self.missing_mask
        return unknown if self.hidden_mask is None else unknown & ~self.hidden_mask

    def columns(self, scope: Sequence[int]) -> Evidence:
        """The same rows, these columns alone."""
        # One column, the usual case, is a view.
        chosen = slice(scope[0], scope[0] + 1) if len(scope) == 1 else list(scope)
        return self._taken((slice(None), chosen))

    def __getitem__(self, rows: slice | Tensor) -> Evidence:
        return self._taken(rows)

    def _taken(self, where: slice | Tensor | tuple[slice, slice | list[int]]) -> Evidence:
        masks = (None if mask is None else mask[where] for mask in (self.hidden_mask, self.missing_mask))
        return Evidence(self.x[where], *masks)

    def having(self, x: Tensor) -> Evidence:
        """The same codes with other values: what becomes known at a gap or a hidden entry does not change its code."""
        return Evidence(x, self.hidden_mask, self.missing)

    def to(self, *, dtype: torch.dtype) -> Evidence:
        """A copy without gradients, on the CPU."""
        masks = (None if mask is None else mask.detach().cpu() for mask in (self.hidden_mask, self.missing_mask))
        return Evidence(self.x.detach().cpu().to(dtype), *masks)


@dataclass(frozen=True, eq=False)
class Context:
    """What rows have received from the level below, for leaves that depend on it."""

    mean: Tensor
    """[n, D] aggregated expectations of the neighbours' entries, relative to what is usual; 0 where not `present`"""
    present: Tensor
    """[n] False where nothing was received: the row has no incoming edge"""
    covariance: Tensor | None = None
    """[n, D, D] how uncertain these expectations are, as far as it is to be taken into account; None: not at all"""

    def __getitem__(self, rows: slice | Tensor) -> Context:
        own = None if self.covariance is None else self.covariance[rows]
        return Context(self.mean[rows], self.present[rows], own)

    def to(self, *, dtype: torch.dtype) -> Context:
        """A copy without gradients, on the CPU."""
        own = None if self.covariance is None else self.covariance.detach().cpu().to(dtype)
        return Context(self.mean.detach().cpu().to(dtype), self.present.detach().cpu(), own)
