"""What the label of a vertex may depend on: own attributes and gaps, those of neighbours, and the labels of others.

By construction of the sums, a vertex never receives its own label, at any depth: one hop leaves self-loops out, two
hops never return to where they started (`contexts.two_hops`), what walks reach leaves the vertex out (`reach`), and an
unknown label adds nothing to either. Of one and two hops that is what private copies with the own label hidden would
give, in one pass for all vertices. Nothing else here depends on labels: missing attributes have their expectations at
level 0, computed without labels.

How labels depend on these numbers is in `label_readout`; which of them are used, and how it is learned, in `models`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import torch
from torch import Tensor, nn

from gspn.attributes import Attribute, Binary, Categorical, Count, Schema
from gspn.circuits.evidence import Evidence
from gspn.circuits.leaves import at_level, message_width
from gspn.circuits.templates import inputs_of
from gspn.graphs.batch import Batch
from gspn.hierarchy.aggregation import mean_by_row
from gspn.hierarchy.contexts import TwoSteps, two_hops
from gspn.hierarchy.hierarchy import Hierarchy
from gspn.hierarchy.reach import Reach
from gspn.kernels.expectations import expected_entries
from gspn.kernels.reference import log_prior_of, relative

ATTRIBUTES = ("own", "gaps", "degree", "near", "far", "smooth", "symmetric", "filled", "diffused", "states")
LABELS = ("near labels", "far labels", "known", "sums", "reached")

_ONE_HOP, _TWO_HOPS = 1.0, 0.1
"""Pseudo-counts of average labels, for known labels and shares of them: few neighbours have little effect."""
_STOPPING, _REACHED = (0.1, 0.3), 0.02
"""Of walks to known labels, and what is added to the share of walks that end at one."""
_STEPS, _KEPT = 10, 0.15
"""Of diffusion, and how much of its own a vertex keeps in each."""


class Paths:
    """The ways of labels through a batch: what depends on its edges alone, made when it is first asked for."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    @cached_property
    def two_steps(self) -> TwoSteps | None:
        return TwoSteps.of(self._batch) if self._batch.num_edges else None

    @cached_property
    def through(self) -> Tensor:
        """[N] how many neighbours have other neighbours"""
        steps = self.two_steps
        return torch.zeros(self._batch.num_vertices).double() if steps is None else steps.number.double()

    @cached_property
    def reaches(self) -> list[Reach]:
        return [Reach.of(self._batch, stopping) for stopping in _STOPPING]

    @cached_property
    def root(self) -> Tensor:
        """[N] root of the number of incoming edges, at least 1"""
        return self._batch.in_degree.clamp_min(1).double().sqrt()


class LabelContext(nn.Module):
    """The numbers that labels regress on, block by block; each block has a mean square of 1 over the training vertices.

    - "own": the own entries, observed or expected, as they are sent to neighbours; "gaps": which of them are missing
      (for hidden ones: their training mean); "degree": the logarithm of 1 + the number of incoming edges.
    - "near", "far": means of "own" over neighbours, and over their other neighbours. "smooth": the mean of the three.
    - "symmetric": sums of "own" over the vertex and its neighbours, each divided by the roots of 1 + both degrees, and
      the same sums of these; beside them those of 1, as "own" is not centred.
    - "filled": "own", where the mean of the neighbours takes the place of what is not observed, ten times over.
      "diffused": this after ten steps, each the mean of a vertex and its neighbours and a return to its own a little.
    - "states": posteriors at level 0, and their means over neighbours and over theirs.
    - "near labels", "far labels": known labels of neighbours and of theirs, relative to the average; "known": how
      many of these are known. "sums": sums instead of means, as evidence of independent neighbours adds up.
    - "reached": the known labels where random walks stop that go far, or less far: their mean, their sum with every
      label divided by the root of its degree, and how many walks end at a known label.
    """

    center: Tensor
    """[W] training means, also in place of missing values"""
    scale: Tensor
    """[W]"""
    usual: Tensor
    """[D] mean of encoded labels"""
    spread: Tensor
    """[D] deviations of continuous labels and of logarithms of counts; 1 for others"""

    def __init__(self, schema: Schema, targets: Schema, num_states: int) -> None:
        """`num_states` counts the states of all sum units."""
        super().__init__()
        self.targets = targets
        told, labels = sum(map(message_width, schema)), sum(map(message_width, targets))
        widths = {
            "own": told,
            "gaps": len(schema),
            "degree": 1,
            "near": told,
            "far": told,
            "smooth": told,
            "symmetric": 2 * (told + 1),
            "filled": told,
            "diffused": told,
            "states": 3 * num_states,
            "near labels": labels,
            "far labels": labels,
            "known": 2 * len(targets),
            "sums": 2 * labels,
            "reached": len(_STOPPING) * (2 * labels + len(targets)),
        }
        self.blocks: Mapping[str, slice] = _places(widths)
        self.width = sum(widths.values())
        self.first_of_labels = self.blocks["near labels"].start
        ends = torch.arange(widths["reached"]).reshape(len(_STOPPING), -1)[:, 2 * labels :].flatten()
        self._of_known = [*self.columns("known"), *(self.blocks["reached"].start + ends).tolist()]
        for name, value in (("center", 0.0), ("scale", 1.0)):
            self.register_buffer(name, torch.full((self.width,), value))
        self.register_buffer("usual", torch.zeros(labels))
        self.register_buffer("spread", torch.ones(labels))

    def columns(self, *blocks: str) -> list[int]:
        """Which columns the blocks have."""
        return [column for name in blocks for column in range(self.width)[self.blocks[name]]]

    def standardised(self, attributes: Tensor, labels: Tensor) -> Tensor:
        """[n, W + 1] from the blocks of attributes and those of labels.

        The last column is 1 where any known label is within reach, and 0 elsewhere.
        """
        raw = torch.cat([attributes, labels.to(attributes)], dim=1)
        informed = raw[:, self._of_known].amax(1, keepdim=True) > 0
        z = torch.where(raw.isnan(), 0.0, (raw.nan_to_num(0.0) - self.center) * self.scale)
        return torch.cat([z, informed.to(z)], dim=1)

    def told(self, name: str, attributes: Tensor) -> Tensor:
        """[n, ·] one block of attributes, standardised, from all of them."""
        block = self.blocks[name]
        raw = (attributes[:, block] - self.center[block].to(attributes)) * self.scale[block].to(attributes)
        return raw.nan_to_num(0.0)

    def labels_told(self, batch: Batch, known: Tensor, paths: Paths | None = None) -> Tensor:
        """[N, ·] the blocks of labels before standardising; `paths` are those of the batch, for several calls."""
        paths = Paths(batch) if paths is None else paths
        own, present = self.relative(known)
        told, width = torch.cat([own, present], dim=1), own.shape[1]
        first = self.first_columns
        near = _sum_without_loops(told, batch)
        far, _ = two_hops(told, batch, paths.two_steps)
        count, share = near[:, width:], far[:, width:]
        found = [
            near[:, :width] / (count + _ONE_HOP),
            far[:, :width] / (share + _TWO_HOPS),
            torch.log1p(count[:, first]),
            share[:, first],
            near[:, :width],
            far[:, :width] * paths.through[:, None],
        ]
        for reach in paths.reaches if bool((told[:, width:] > 0).any()) else ():
            sums = reach.sums(torch.cat([told, own / paths.root[:, None]], dim=1))
            share = sums[:, width : 2 * width]
            found += [
                sums[:, :width] / (share + _REACHED),
                sums[:, 2 * width :] * paths.root[:, None],
                torch.log((share[:, first] + _REACHED) / _REACHED),
            ]
        told = torch.cat(found, dim=1)
        return nn.functional.pad(told, (0, self.width - self.first_of_labels - told.shape[1]))

    def relative(self, known: Tensor) -> tuple[Tensor, Tensor]:
        """[N, D] each: known labels [N, T] relative to what is usual, 0 where there is none, and which there are."""
        known = known.to(self.usual.device).double()
        rows, present, place = [], [], 0
        for attribute, column in zip(self.targets, known.unbind(1), strict=True):
            width, is_known = message_width(attribute), ~column.isnan()
            usual, spread = (one[place : place + width].double() for one in (self.usual, self.spread))
            told = (label_columns(attribute, column.nan_to_num(0.0)) - usual) / spread
            rows.append(told * is_known[:, None])
            present.append(is_known.double()[:, None].expand(-1, width))
            place += width
        return torch.cat(rows, dim=1), torch.cat(present, dim=1)

    @property
    def first_columns(self) -> list[int]:
        """Of every target, the first of its columns in `relative`"""
        widths = [message_width(target) for target in self.targets]
        return [sum(widths[:t]) for t in range(len(widths))]

    @torch.no_grad()
    def settle_labels(self, y: Tensor) -> None:
        """Take averages and deviations from labels [n, T]."""
        usual, spread = [], []
        for attribute, column in zip(self.targets, y.double().unbind(1), strict=True):
            told = label_columns(attribute, column[~column.isnan()])
            usual.append(told.mean(0))
            deviation = told.std(0, correction=0)
            measured = not isinstance(attribute, Categorical | Binary)
            spread.append(torch.where((deviation > 0) & measured, deviation, 1.0))
        self.usual.copy_(torch.cat(usual))
        self.spread.copy_(torch.cat(spread))

    @torch.no_grad()
    def settle(self, attributes: Tensor, labels: Tensor) -> None:
        """Take centres and scales of attributes from vertices [n, ·]; the centre of labels is no known label."""
        raw = torch.cat([attributes, labels.to(attributes)], dim=1).double()
        known = ~raw.isnan()
        center = raw.nan_to_num(0.0).sum(0) / known.sum(0).clamp_min(1)
        center[self.first_of_labels :] = 0.0
        away = torch.where(known, raw.nan_to_num(0.0) - center, 0.0).square()
        scale = torch.zeros_like(center)
        for block in self.blocks.values():
            size = float(away[:, block].sum(1).mean())
            scale[block] = size**-0.5 if size > 1e-12 else 0.0
        self.center.copy_(center)
        self.scale.copy_(scale)


def attributes_told(hierarchy: Hierarchy, batch: Batch) -> Tensor:
    """[N, ·] the blocks of attributes before standardising, NaN where there are no senders."""
    batch = batch.to(hierarchy.raw_prior.device)
    climb = hierarchy.climb(
        Evidence(batch.visible, batch.hidden, batch.missing), batch, hierarchy.prior(), hierarchy.transitions()
    )
    naturals = [at_level(natural, 0) for natural in climb.naturals]
    received = climb.aggregate(0, None, None)
    inputs, _ = relative(climb.template, inputs_of(climb.template, climb.families, naturals, climb.evidence)[0])
    log_prior = log_prior_of(received)
    own = expected_entries(
        climb._replace(uncertain=False), naturals, climb.template.leaf_log_weights(inputs, log_prior), None
    )
    states = climb.template.posterior(inputs, log_prior).flatten(1)
    told = torch.cat([own.mean, states.to(own.mean)], dim=1)
    width = own.mean.shape[1]

    lonely = batch.in_degree == 0
    near = mean_by_row(told, batch, batch.target, batch.in_degree)
    near = near.masked_fill(lonely[:, None], torch.nan)
    far, present = two_hops(told, batch, TwoSteps.of(batch) if batch.num_edges else None)
    far = far.masked_fill(~present[:, None], torch.nan)
    smooth = torch.stack([own.mean, near[:, :width], far[:, :width]]).nanmean(0)
    gaps = climb.evidence.missing.to(told).masked_fill(climb.evidence.hidden, torch.nan)
    degree = torch.log1p(batch.in_degree.to(told))[:, None]
    of_states = [states.to(told), near[:, width:], far[:, width:]]
    widths = torch.tensor([message_width(one) for one in hierarchy.schema], device=told.device)
    filled = _filled(own.mean, climb.evidence.known.repeat_interleave(widths, dim=1), batch)
    spread = [*_symmetric(own.mean, batch), filled, _diffused(filled, batch)]
    return torch.cat([own.mean, gaps, degree, near[:, :width], far[:, :width], smooth, *spread, *of_states], dim=1)


def _symmetric(own: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """[N, D + 1] each: sums over the vertex and its neighbours divided by roots of degrees, and sums of these."""
    root = (1.0 + batch.in_degree.to(own))[:, None] ** -0.5

    def step(told: Tensor) -> Tensor:
        scaled = told * root
        received = torch.zeros_like(told).index_add(0, batch.target.long(), scaled[batch.source.long()])
        return (scaled + received) * root

    once = step(torch.cat([own, torch.ones_like(own[:, :1])], dim=1))
    return once, step(once)


def _filled(own: Tensor, observed: Tensor, batch: Batch) -> Tensor:
    """[N, D] what is not observed, from the neighbours; without any, as it is expected."""
    kept = observed | (batch.in_degree == 0)[:, None]
    if bool(kept.all()):
        return own
    found = own
    for _ in range(_STEPS):
        found = torch.where(kept, own, mean_by_row(found, batch, batch.target, batch.in_degree))
    return found


def _diffused(own: Tensor, batch: Batch) -> Tensor:
    """[N, D]"""
    count = 1.0 + batch.in_degree.to(own)[:, None]
    found = own
    for _ in range(_STEPS):
        received = found.index_add(0, batch.target.long(), found[batch.source.long()])
        found = _KEPT * own + (1 - _KEPT) * received / count
    return found


def label_columns(attribute: Attribute, column: Tensor) -> Tensor:
    """[n, ·] known labels [n] as messages: indicators of categories, numbers, logarithms of counts."""
    if isinstance(attribute, Categorical):
        return nn.functional.one_hot(column.long(), len(attribute.categories)).double()
    return (torch.log1p(column) if isinstance(attribute, Count) else column)[:, None].double()


def _sum_without_loops(told: Tensor, batch: Batch) -> Tensor:
    """[N, D] Σ over incoming edges of the messages of vertices other than the vertex itself."""
    source, target = batch.source.long(), batch.target.long()
    identity = torch.arange(batch.num_vertices, device=source.device) if batch.identity is None else batch.identity
    others = (identity[source] != identity[target]).nonzero().squeeze(1)
    return torch.zeros_like(told).index_add(0, target[others], told[source[others]])


def _places(widths: Mapping[str, int]) -> dict[str, slice]:
    places, start = {}, 0
    for name, width in widths.items():
        places[name] = slice(start, start + width)
        start += width
    return places
