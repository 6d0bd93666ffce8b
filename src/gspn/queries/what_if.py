"""What changes if …: likelihoods before and after changes of a graph, and after every single replacement of an entry.

Two sides are compared over the entries that are observed on both: a density of more entries is a different quantity.
What an entry that is known on one side only does to the other vertices still counts; at its own vertex it is not
scored. How a graph is changed is the business of `graphs.edits` and `graphs.replacements`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gspn import sketches
from gspn.attributes import Binary, Categorical, Schema
from gspn.circuits.evidence import Evidence
from gspn.circuits.given import Roots
from gspn.errors import InputError
from gspn.graphs.batch import Batch
from gspn.graphs.replacements import replaced
from gspn.hierarchy.roots import COPIES_AT_ONCE
from gspn.queries.contract import Answering

_MOST_ROWS = 10
"""Vertices that a printed answer shows."""


@dataclass(frozen=True, eq=False, repr=False)
class WhatIf:
    """Log-likelihoods of the vertices before and after a change, over entries observed on both sides."""

    before: Tensor
    """[N]"""
    after: Tensor
    """[N]; exactly `before` at vertices that do not depend on the change"""
    derived: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Values that follow from what was changed, by vertex and attribute; None for what became unknown"""
    problem: str | None = None
    """Why values became unknown instead of being derived"""
    forbidden: bool = False
    """Whether that is because valences forbid the changed molecule"""
    told: Tensor | None = None
    """[N] log-probability of entries that became known, given all else after the change, minus that of entries that
    became unknown, given all else before"""

    @property
    def change(self) -> Tensor:
        """[N] after − before, in nats."""
        return self.after - self.before

    @property
    def relative(self) -> Tensor:
        """[N] change / |before|; 0 where nothing changes."""
        change = self.change
        return torch.where(change == 0, change, change / self.before.abs())

    @property
    def total(self) -> Tensor:
        """[] the change of the graph's total, in nats."""
        return self.change.double().sum().to(self.before.dtype)

    @property
    def whole(self) -> Tensor:
        """[] the change of all observed entries together, those included that one side alone knows.

        Steps add up: that of two changes one after the other is the sum of theirs.
        """
        told = 0.0 if self.told is None else self.told.double().sum()
        return (self.change.double().sum() + told).to(self.before.dtype)

    def _repr_html_(self) -> str:
        shown = min(int((self.change != 0).sum()), _MOST_ROWS)
        most = self.change.abs().argsort(descending=True, stable=True)[:shown].tolist()
        title = "change of each, in nats" if shown else "no vertex changes"
        bars = sketches.changes([f"vertex {v}" for v in most], self.change[most].tolist(), title)
        first, *_, last = str(self).splitlines()
        return sketches.shown(first, bars, note=last if self.derived else "")

    def __repr__(self) -> str:
        change, relative = self.change, self.relative
        before, after = (side.double().sum().item() for side in (self.before, self.after))
        lines = [f"log-likelihood {before:.4f} → {after:.4f}, change {self.total.item():+.4f} nats"]
        if self.told is not None and bool((self.told != 0).any()):
            lines[0] += f" ({self.whole.item():+.4f} with entries that one side alone knows)"
        changed = int((change != 0).sum())
        shown = change.abs().argsort(descending=True, stable=True)[: min(changed, _MOST_ROWS)].tolist()
        if shown:
            lines.append(f"{'vertex':>8}{'before':>12}{'after':>12}{'change':>12}{'relative':>12}")
        for v in shown:
            sides = f"{self.before[v].item():12.4f}{self.after[v].item():12.4f}"
            lines.append(f"{v:8}{sides}{change[v].item():+12.4f}{relative[v].item():+12.1%}")
        others = [(changed - len(shown), "more change, by less"), (len(change) - changed, "do not change")]
        lines += [f"{number:8} {what}" for number, what in others if number]
        if self.derived:
            count = sum(map(len, self.derived.values()))
            why = "follow from the changes" if self.problem is None else f"became unknown: {self.problem}"
            lines.append(f"{count:8} entries at {len(self.derived)} vertices {why}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Alternative:
    """One entry with another value."""

    vertex: int
    value: Any
    """None for unknown"""
    change: float
    """`WhatIf.total`, in nats; of an entry that was not known `WhatIf.whole`, with the value's own probability"""
    probability: float | None
    """Of the value given all else, where the entry was not known and its attribute has a list of values"""
    derived: Mapping[int, Mapping[str, Any]]
    """Further entries that become different, by vertex and attribute; None for what becomes unknown"""
    problem: str | None
    """Why entries become unknown instead of being derived"""
    forbidden: bool
    """Whether that is because valences forbid the molecule"""


@torch.no_grad()
def what_if(
    model: Answering, before: Batch, after: Batch, revalued: Tensor, rewired: Tensor, leave_one_out: bool
) -> WhatIf:
    """Compare two versions of a graph over the same vertices.

    `revalued` are the vertices whose entries differ, `rewired` those whose incoming edges do.
    """
    unknown = after.x.isnan() & ~before.x.isnan()
    if unknown.any():  # hypothetically: that is no gap in the data, which might be evidence
        after = after.hiding(unknown)
    sides = (before.x, after.x), (after.x, before.x)
    scored = [_shown(side.masked_fill(other.isnan(), torch.nan)) for side, other in sides]
    everywhere = torch.arange(before.num_vertices)
    roots = _roots(model, before, everywhere, leave_one_out)
    old = roots.having(scored[0]).log_value()
    told = -(roots.having(_shown(before.x)).log_value() - old)
    # The reach of a change is the same in both versions: a path that ends in common edges starts at a rewired vertex.
    if model.reads_out_degree:
        changed = before.out_degree != after.out_degree
        receivers = [side.target.long()[changed[side.source.long()]] for side in (before, after)]
        rewired = torch.cat([rewired, *receivers])
    affected = _affected(after, revalued, rewired, model.reach)
    new = old.clone()
    roots = _roots(model, after, affected, leave_one_out)
    new[affected] = roots.having(scored[1][affected]).log_value()
    # Elsewhere both sides are the same, and know the same.
    own = torch.zeros_like(told)
    own[affected] = told[affected] + roots.having(_shown(after.x[affected])).log_value() - new[affected]
    own[~(before.x.isnan() != after.x.isnan()).any(1)] = 0.0
    return WhatIf(old.to(model.dtype), new.to(model.dtype), told=own.to(model.dtype))


def _affected(batch: Batch, revalued: Tensor, rewired: Tensor, reach: int) -> Tensor:
    """Vertices whose tree has another value in it or another edge, in ascending order.

    A vertex's value counts from level 0 on and has an effect up to `reach` steps away. Its incoming edges count from
    level 1 on, where its own receivers see them as well if leaves see two hops: in both cases one step less than a
    value.
    """
    source, target = batch.source.long(), batch.target.long()
    reached = torch.zeros(batch.num_vertices, dtype=torch.bool)
    reached[revalued] = True
    for step in range(reach):
        reached[target[reached[source]]] = True
        if step == 0:
            reached[rewired] = True
    return reached.nonzero().squeeze(1)


@torch.no_grad()
def what_if_all(
    model: Answering,
    batch: Batch,
    column: int,
    values: Tensor,
    vertices: Tensor,
    leave_one_out: bool,
    budget: int = COPIES_AT_ONCE,
) -> Tensor:
    """[len(vertices), K] change of the total if the entry of one vertex were values[k], all else being as it is.

    `budget` bounds the number of vertices that are copied at once; the results do not depend on it.
    """
    current, reach = batch.x[vertices, column], model.reach
    same = (current[:, None] == values) | (current.isnan()[:, None] & values.isnan())
    row, value = (~same).nonzero().unbind(1)
    centre, value = vertices[row], values[value]
    # What a root hides when it is left out, it hides on closed walks through it; these have to be inside its world.
    copied = reach + (max(reach - 1, 0) if leave_one_out else 0)
    totals = torch.zeros(len(row), dtype=torch.float64)
    for worlds in replaced(batch, centre, column, value, reach, copied, budget):
        number = worlds.first + worlds.replacement
        sides = torch.stack([batch.x[worlds.vertex]] * 2)
        at_centre = (worlds.vertex == centre[number]).nonzero().squeeze(1)
        now, then = sides[0, at_centre, column], value[number[at_centre]]
        sides[:, at_centre, column] = torch.stack([now, then]).masked_fill(now.isnan() | then.isnan(), torch.nan)
        old, inverse = torch.unique(worlds.before, return_inverse=True)
        found = _roots(model, worlds.batch, torch.cat([old, worlds.after]), leave_one_out)
        before, after = found[inverse].having(_shown(sides[0])), found[len(old) :].having(_shown(sides[1]))
        totals.index_add_(0, number, after.log_value() - before.log_value())
    changes = torch.zeros(same.shape, dtype=torch.float64)
    changes[~same] = totals
    return changes.to(model.dtype)


def replacements_of(schema: Schema, attribute: str, values: Sequence[Any] | Tensor | None) -> tuple[int, Tensor]:
    """Column and encoded values by which its entries are replaced: all of a discrete attribute, else those given."""
    column = schema.index(attribute)
    kind = schema[column]
    if values is not None:
        return column, torch.from_numpy(kind.encode(values))
    if isinstance(kind, Categorical):
        return column, torch.arange(len(kind.categories), dtype=torch.float64)
    if isinstance(kind, Binary):
        return column, torch.arange(2, dtype=torch.float64)
    raise InputError(f"attribute {attribute!r} is {kind.kind}: pass values= with those that are to be tried")


def _shown(x: Tensor) -> Evidence:
    """Entries x [N, d] that are scored; what is not known says nothing, not even that it is missing."""
    return Evidence(x, x.isnan())


def _roots(model: Answering, batch: Batch, vertices: Tensor, leave_one_out: bool) -> Roots:
    """The vertices' roots, with the vertex itself left out of its own tree or not."""
    return model.roots(batch, vertices, torch.full((len(vertices), batch.x.shape[1]), leave_one_out))
