"""Trees that a regression of the label's leaf looks through: grown elsewhere, kept here as tensors of any length.

What they say of a target are logarithms of probabilities of its classes, up to a constant. The leaves take them as they
are, or more or less sure. Only targets with classes have trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from gspn.attributes import Attribute, Binary, Categorical, Schema
from gspn.rows.trees import Trees

_NEVER = -12.0
"""Log-probability, relative to the others, of a class that no label has."""
_NAMES = tuple(field.name for field in fields(Trees))
_NOTHING = {
    "roots": torch.zeros(0, dtype=torch.long),
    "children": torch.zeros(0, 2, dtype=torch.long),
    "columns": torch.zeros(0, dtype=torch.long),
    "thresholds": torch.zeros(0),
    "values": torch.zeros(0, 1),
    "probabilities": torch.zeros(1, dtype=torch.long),
}
"""What is stored of trees that have not been grown"""


def can_be_grown(targets: Schema) -> bool:
    return all(isinstance(one, Categorical | Binary) for one in targets)


class LabelTrees(nn.Module):
    """One forest per target, or none yet: then nothing is said."""

    def __init__(self, targets: Schema, num_columns: int) -> None:
        super().__init__()
        self.num_columns = num_columns
        self.each = nn.ModuleList(TargetTrees(one, num_columns) for one in targets)
        self.width = sum(one.width for one in self)

    def __iter__(self) -> Iterator[TargetTrees]:
        return iter(cast(list[TargetTrees], list(self.each)))

    def forget(self) -> None:
        for one in self:
            one.keep(None, np.arange(one.classes))

    def forward(self, seen: Tensor) -> Tensor:
        """[n, width] from the columns [n, W] that trees were grown on."""
        return torch.cat([one(seen) for one in self], dim=1)


class TargetTrees(nn.Module):
    """The trees of one target, and which of its classes they know."""

    def __init__(self, target: Attribute, num_columns: int) -> None:
        super().__init__()
        self.is_binary = isinstance(target, Binary)
        self.classes = len(target.categories) if isinstance(target, Categorical) else 2
        self.width = 1 if self.is_binary else self.classes
        self.num_columns = num_columns
        self.keep(None, np.arange(self.classes))

    def keep(self, trees: Trees | None, present: Sequence[int] | np.ndarray[Any, Any]) -> None:
        """Trees that tell the classes `present` apart."""
        arrays = _NOTHING if trees is None else _tensors(trees)
        for name, value in (arrays | {"present": torch.as_tensor(np.asarray(present), dtype=torch.long)}).items():
            self.register_buffer(_stored(name), value.clone())

    def trees(self) -> Trees | None:
        """None where none have been grown."""
        arrays = {name: self.get_buffer(_stored(name)).cpu() for name in _NAMES}
        if not arrays["roots"].numel():
            return None
        return Trees(**{name: (a.double() if a.is_floating_point() else a).numpy() for name, a in arrays.items()})

    def is_sound(self) -> bool:
        """Whether nothing is read that is not there."""
        trees, present = self.trees(), self.get_buffer(_stored("present"))
        ordered = present.ndim == 1 and len(present) > 0 and bool((present.diff() > 0).all())
        if not ordered or int(present[0]) < 0 or int(present[-1]) >= self.classes:
            return False
        outputs = len(present) if len(present) > 2 else 1
        return trees is None or trees.is_sound(self.num_columns, outputs)

    def forward(self, seen: Tensor) -> Tensor:
        """[n, width]"""
        trees = self.trees()
        if trees is None:
            return seen.new_zeros(len(seen), self.width)
        outputs = torch.from_numpy(trees.outputs(seen.detach().cpu().numpy())).to(seen)
        logits = torch.cat([torch.zeros_like(outputs), outputs], dim=1) if outputs.shape[1] == 1 else outputs
        logs = torch.log_softmax(logits, dim=1)
        found = logs.new_full((len(logs), self.classes), _NEVER)
        found[:, self.get_buffer(_stored("present"))] = logs
        return found[:, 1:] - found[:, :1] if self.is_binary else found

    def make_room(self, tensors: Mapping[str, Any], prefix: str) -> None:
        """For tensors by name that will be put here: trees have the length that they have."""
        for name in (*_NAMES, "present"):
            given, own = tensors.get(prefix + _stored(name)), self.get_buffer(_stored(name))
            if isinstance(given, Tensor) and given.shape != own.shape:
                self.register_buffer(_stored(name), own.new_zeros(given.shape))

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *others: Any) -> None:
        self.make_room(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *others)


def _stored(name: str) -> str:
    """The name of a buffer; modules have children of their own."""
    return f"tree_{name}"


def _tensors(trees: Trees) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.ascontiguousarray(getattr(trees, name))) for name in _NAMES}
