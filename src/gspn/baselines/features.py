"""Vertex attributes as feature vectors, for models that know no distributions.

Categorical and binary attributes become indicators, continuous ones and counts (on a log scale) are standardised with
the training data. A missing entry is filled with the training mean of each of its columns: these models cannot
marginalise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from gspn.attributes import Attribute, Binary, Categorical, Count, Schema
from gspn.errors import InputError


@dataclass(frozen=True, eq=False)
class Features:
    """How the entries of a schema become columns."""

    schema: Schema
    fill: Mapping[str, Tensor]
    """by attribute, the training mean of its columns before standardising"""
    spread: Mapping[str, float]
    """by continuous or count attribute, its training deviation (1 where it is constant)"""

    @classmethod
    def of(cls, schema: Schema, entries: Tensor) -> Features:
        """Learn means and deviations from training entries [n, d]; every attribute must be observed somewhere."""
        fill, spread = {}, {}
        for attribute, column in zip(schema, entries.unbind(1), strict=True):
            known = _columns(attribute, column[~torch.isnan(column)])
            if not len(known):
                raise InputError(
                    f"attribute '{attribute.name}' is missing at every vertex; nothing can be learned of it"
                )
            fill[attribute.name] = known.mean(0)
            deviation = known.std(correction=0).item()
            spread[attribute.name] = deviation if deviation > 0 and known.shape[1] == 1 else 1.0
        return cls(schema, fill, spread)

    @property
    def width(self) -> int:
        """Number of columns."""
        return sum(len(fill) for fill in self.fill.values())

    def __call__(self, entries: Tensor) -> Tensor:
        """[n, columns] float32 features of entries [n, d]."""
        parts = []
        for attribute, column in zip(self.schema, entries.unbind(1), strict=True):
            missing, fill = torch.isnan(column), self.fill[attribute.name]
            values = torch.where(missing[:, None], fill, _columns(attribute, column.masked_fill(missing, 0.0)))
            if not isinstance(attribute, Categorical | Binary):
                values = (values - fill) / self.spread[attribute.name]
            parts.append(values)
        return torch.cat(parts, dim=1).float()

    def gaps(self, entries: Tensor) -> Tensor:
        """[n, columns] True where a column belongs to a missing entry."""
        widths = torch.tensor([len(fill) for fill in self.fill.values()])
        return torch.isnan(entries).repeat_interleave(widths, dim=1)

    def entries(self, features: Tensor) -> Tensor:
        """[n, d] what features mean: the largest of a category's columns, numbers in their units, counts rounded."""
        columns, start = [], 0
        for attribute in self.schema:
            fill = self.fill[attribute.name]
            own, start = features[:, start : start + len(fill)].double(), start + len(fill)
            if isinstance(attribute, Categorical):
                columns.append(own.argmax(1).double())
            elif isinstance(attribute, Binary):
                columns.append((own[:, 0] > 0.5).double())
            else:
                value = own[:, 0] * self.spread[attribute.name] + fill
                columns.append(value.expm1().round().clamp(min=0) if isinstance(attribute, Count) else value)
        return torch.stack(columns, dim=1)


def _columns(attribute: Attribute, column: Tensor) -> Tensor:
    """[n, columns] of values without gaps."""
    if isinstance(attribute, Categorical):
        return one_hot(column.long(), len(attribute.categories)).double()
    return (torch.log1p(column) if isinstance(attribute, Count) else column)[:, None].double()
