"""Checkpoints: everything a run needs to go on as if it had never stopped, in one atomically replaced file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gspn.errors import CheckpointError
from gspn.training.files import read_tensors, replace_file, tensor_bytes

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """Where a run is kept, and what makes it that run: its configuration and data by name."""

    path: Path
    identity: Mapping[str, Any]

    @classmethod
    def at(cls, where: str | Path, identity: Mapping[str, Any]) -> Checkpoint:
        path = Path(where)
        if path.is_dir():
            path = path / "checkpoint.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        return cls(path, identity)

    def save(
        self, module: nn.Module, optimizer: torch.optim.Optimizer, best: Mapping[str, Tensor], progress: dict[str, Any]
    ) -> None:
        tensors = {f"module/{name}": value for name, value in module.state_dict().items()}
        tensors |= {f"best/{name}": value for name, value in best.items()}
        for number, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{number}/{name}": value for name, value in state.items()}
        note = {"format": FORMAT, "identity": dict(self.identity), "progress": progress}
        replace_file(self.path, tensor_bytes(tensors, note))

    def load(
        self, module: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Put the kept state back; gives the best weights and the progress, or None where nothing is kept yet."""
        if not self.path.exists():
            return None
        tensors, note = read_tensors(self.path)
        self._check(note)
        parts: dict[str, dict[str, Tensor]] = {"module": {}, "best": {}, "optimizer": {}}
        for name, value in tensors.items():
            part, _, rest = name.partition("/")
            parts[part][rest] = value
        module.load_state_dict(parts["module"])
        states: dict[int, dict[str, Tensor]] = {}
        for name, value in parts["optimizer"].items():
            number, _, key = name.partition("/")
            states.setdefault(int(number), {})[key] = value
        optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
        progress: dict[str, Any] = note["progress"]
        return parts["best"], progress

    def _check(self, note: Any) -> None:
        if not isinstance(note, dict) or set(note) != {"format", "identity", "progress"}:
            raise CheckpointError(f"{self.path} is not a checkpoint of this library")
        if note["format"] != FORMAT:
            raise CheckpointError(f"{self.path} has checkpoint format {note['format']}, this version reads {FORMAT}")
        mine, theirs = dict(self.identity), note["identity"]
        different = [name for name in sorted(set(mine) | set(theirs)) if mine.get(name) != theirs.get(name)]
        if different:
            what = "; ".join(
                f"{name}: {_brief(theirs.get(name))} there, {_brief(mine.get(name))} here" for name in different
            )
            raise CheckpointError(
                f"{self.path} belongs to another run ({what}); delete it or name another file to start afresh"
            )


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
