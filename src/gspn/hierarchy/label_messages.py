"""Two layers of learned messages, of attributes and of others' labels, that a regression of the label's leaf may see.

With x what a vertex tells of its attributes, y its label if it is known, n incoming edges from others and weights
ω_uv = ((1 + n_u)(1 + n_v))^-½, ω_v = 1 / (1 + n_v), all sums without edges from a vertex to itself:

    r_v  = c + ω_v A'x_v + Σ_{u→v} ω_uv (A x_u + B y_u)
    s_uv = c + ω_u (A'x_u + B'y_u) + Σ_{w→u} ω_wu A x_w + Σ_{w→u, w≠v} ω_wu B y_w
    told = ω_v max(r_v, 0), beside or plus Σ_{u→v} ω_uv max(s_uv, 0)

So a vertex never hears its own label: what u sends to v is made for v. A convolution has A' = A and B' = B and adds its
two parts up, which without labels is a graph convolution of two layers. How they are learned is the models' business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from gspn.graphs.batch import Batch
from gspn.hierarchy.contexts import sums_without_receiver
from gspn.hierarchy.label_context import LabelContext, Paths
from gspn.kernels.contract import LONG_SUM


@dataclass(frozen=True, eq=False)
class MessageInputs:
    """What messages are made from: attributes, edges with their weights, and sums of known labels."""

    columns: Tensor
    """[N, W'] of the W numbers that a vertex tells of itself"""
    shown: Tensor
    """[W'] which these are; the others are 0 everywhere"""
    source: Tensor
    """[E]"""
    target: Tensor
    """[E]"""
    weight: Tensor
    """[E] ω_uv, 0 from a vertex to itself"""
    own_weight: Tensor
    """[N] ω_v"""
    labels: Tensor
    """[N, D + T] known labels, and which there are"""
    near: Tensor
    """[N, D + T] Σ ω_uv y_u"""
    others: Tensor
    """[E, D + T] for every edge u → v, Σ over w ≠ v of ω_wu y_w"""

    @classmethod
    def of(cls, context: LabelContext, attributes: Tensor, batch: Batch, blocks: tuple[str, ...]) -> MessageInputs:
        """Of a batch with what its vertices tell of attributes [N, ·], in some blocks; no label is known."""
        source, target = batch.source.long(), batch.target.long()
        identity = torch.arange(len(attributes), device=source.device)
        if batch.identity is not None:
            identity = batch.identity.long()
        foreign = (identity[source] != identity[target]).to(attributes)
        degree = 1.0 + attributes.new_zeros(len(attributes)).index_add(0, target, foreign)
        weight = foreign * (degree[source] * degree[target]).rsqrt()
        shown = told_columns(context, blocks)
        columns = torch.cat([context.told(name, attributes) for name in blocks], dim=1)[:, shown]
        nothing = attributes.new_zeros(len(attributes), context.usual.shape[0] + len(context.targets))
        others = attributes.new_zeros(len(source), nothing.shape[1])
        return cls(columns, shown, source, target, weight, 1 / degree, nothing, nothing, others)

    def knowing(self, known: Tensor, context: LabelContext, batch: Batch, paths: Paths) -> MessageInputs:
        """The same with known labels [N, T], NaN elsewhere."""
        own, present = context.relative(known)
        labels = torch.cat([own, present[:, context.first_columns]], dim=1).to(self.columns)
        carried = self.weight[:, None] * labels[self.source]
        if batch.max_in_degree > LONG_SUM:
            carried = carried.double()
        others = torch.zeros_like(carried)
        if paths.two_steps is not None:
            others[paths.two_steps.edge] = sums_without_receiver(carried, paths.two_steps)
        near = carried.new_zeros(labels.shape).index_add(0, self.target, carried)
        return replace(self, labels=labels, near=near.to(labels), others=others.to(labels))

    def to(self, dtype: torch.dtype) -> MessageInputs:
        parts = {name: one.to(dtype) for name, one in vars(self).items() if one.is_floating_point()}
        return replace(self, **parts)


def told_columns(context: LabelContext, blocks: tuple[str, ...]) -> Tensor:
    """Which of the numbers that a vertex tells of itself are not 0 everywhere: all, but gaps where there are none."""
    return (context.scale[context.columns(*blocks)] > 0).nonzero().squeeze(1)


class LabelMessages(nn.Module):
    """The learned part: c, A, A', B, B'."""

    def __init__(
        self, context: LabelContext, blocks: tuple[str, ...], units: int, *, convolves: bool, labels: bool
    ) -> None:
        """`blocks` of the context are what a vertex tells of its attributes."""
        super().__init__()
        self.blocks = blocks
        told, of_labels = len(context.columns(*blocks)), context.usual.shape[0] + len(context.targets)
        self.convolves = convolves
        self.width = units if convolves else 2 * units
        self.near = nn.Linear(told, units)
        self.own = None if convolves else nn.Linear(told, units, bias=False)
        self.near_labels = nn.Linear(of_labels, units, bias=False) if labels else None
        self.own_labels = nn.Linear(of_labels, units, bias=False) if labels and not convolves else None

    def forward(self, seen: MessageInputs, drop: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """[N, width]; `drop` is what happens to attributes and units while it is learned."""
        drop = nn.Identity() if drop is None else drop
        x = drop(seen.columns)
        sent = nn.functional.linear(x, self.near.weight[:, seen.shown])
        own = sent if self.own is None else nn.functional.linear(x, self.own.weight[:, seen.shown])
        weight, own_weight = seen.weight[:, None], seen.own_weight[:, None]
        base = self.near.bias + own_weight * own
        base = base + torch.zeros_like(base).index_add(0, seen.target, weight * sent[seen.source])
        root, heard = base, base[seen.source]
        if self.near_labels is not None:
            own_labels = self.near_labels if self.own_labels is None else self.own_labels
            root = root + self.near_labels(seen.near)
            heard = heard + (own_weight * own_labels(seen.labels))[seen.source] + self.near_labels(seen.others)
        root, heard = drop(torch.relu(root)), drop(torch.relu(heard))
        kept, received = own_weight * root, torch.zeros_like(root).index_add(0, seen.target, weight * heard)
        return kept + received if self.convolves else torch.cat([kept, received], dim=1)
