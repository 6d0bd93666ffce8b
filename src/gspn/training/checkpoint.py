"""Checkpoints: everything a run needs to go on as if it had never stopped, in one atomically replaced file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gspn.errors import CheckpointError
from gspn.files import digest, misfits, read_tensors, remove_leftovers, replace_file, tensor_bytes

FORMAT = 2


@dataclass(frozen=True)
class Checkpoint:
    """Where a run is kept, and what makes it that run: its configuration and data by name."""

    path: Path
    identity: Mapping[str, Any]
    seconds_between: float = 0.0
    """Of training, between two writings at least: epochs may take milliseconds. What was not written is done again."""

    @classmethod
    def at(cls, where: str | Path, identity: Mapping[str, Any], seconds_between: float = 0.0) -> Checkpoint:
        path = Path(where)
        if path.is_dir():
            path = path / "checkpoint.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        return cls(path, identity, seconds_between)

    def save(
        self, module: nn.Module, optimizer: torch.optim.Optimizer, best: Mapping[str, Tensor], progress: dict[str, Any]
    ) -> None:
        tensors = {f"module/{name}": value for name, value in module.state_dict().items()}
        tensors |= {f"best/{name}": value for name, value in best.items()}
        for number, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{number}/{name}": value for name, value in state.items()}
        self.write(tensors, progress)

    def write(self, tensors: Mapping[str, Tensor], progress: dict[str, Any]) -> None:
        """Keep these tensors and this progress, in place of what was kept before."""
        note = {"format": FORMAT, "identity": dict(self.identity), "progress": progress}
        replace_file(self.path, tensor_bytes(tensors, note | {"digest": seal(tensors, note)}))

    def load(
        self, module: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Put the kept state back; gives the best weights and the progress, or None where nothing is kept yet."""
        kept = self.read()
        if kept is None:
            return None
        tensors, progress = kept
        parts: dict[str, dict[str, Tensor]] = {"module": {}, "best": {}, "optimizer": {}}
        for name, value in tensors.items():
            part, _, rest = name.partition("/")
            parts.setdefault(part, {})[rest] = value
        self._check_parts(parts, module, optimizer, started=progress.get("epoch") != 0)
        module.load_state_dict(parts["module"])
        states: dict[int, dict[str, Tensor]] = {}
        for name, value in parts["optimizer"].items():
            number, _, key = name.partition("/")
            states.setdefault(int(number), {})[key] = value
        optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
        return parts["best"], progress

    def read(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The tensors and the progress of this very run, or None where nothing is kept yet."""
        remove_leftovers(self.path)
        if not self.path.exists():
            return None
        tensors, note = read_tensors(self.path)
        self._check_note(note)
        if note["digest"] != seal(tensors, note):
            raise CheckpointError(f"{self.path} is damaged: its content is not what was written")
        return tensors, note["progress"]

    def _check_note(self, note: Any) -> None:
        if not isinstance(note, dict) or "format" not in note:
            raise CheckpointError(f"{self.path} is not a checkpoint of this library")
        if note["format"] != FORMAT:
            raise CheckpointError(f"{self.path} has checkpoint format {note['format']}, this version reads {FORMAT}")
        if set(note) != {"format", "identity", "progress", "digest"}:
            raise CheckpointError(f"{self.path} is not a checkpoint of this library")
        mine, theirs = dict(self.identity), note["identity"]
        if not isinstance(theirs, dict) or not isinstance(note["progress"], dict):
            raise CheckpointError(f"{self.path} is damaged: its note is not understood")
        different = [name for name in sorted(set(mine) | set(theirs)) if mine.get(name) != theirs.get(name)]
        if different:
            what = "; ".join(f"{n}: {_brief(theirs.get(n))} there, {_brief(mine.get(n))} here" for n in different)
            raise CheckpointError(
                f"{self.path} belongs to another run ({what}); delete it or name another file to start afresh"
            )

    def _check_parts(
        self, parts: dict[str, dict[str, Tensor]], module: nn.Module, optimizer: torch.optim.Optimizer, started: bool
    ) -> None:
        """All of a run's tensors, and no others."""
        weights = module.state_dict()
        wrong = sorted(set(parts) - {"module", "best", "optimizer"})
        wrong += misfits(parts["module"], weights) + misfits(parts["best"], weights)
        if parts["optimizer"] or started:
            moments: dict[str, Tensor] = {}
            for number, p in enumerate(p for group in optimizer.param_groups for p in group["params"]):
                moments |= {f"{number}/exp_avg": p, f"{number}/exp_avg_sq": p, f"{number}/step": torch.tensor(0.0)}
            wrong += misfits(parts["optimizer"], moments)
        if wrong:
            raise CheckpointError(f"{self.path} is damaged: it lacks, or has too many of, {', '.join(wrong)}")


def seal(tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> str:
    """A fingerprint of the tensors and of all that the note says beside it: a changed history is damage, too."""
    said = json.dumps({name: value for name, value in note.items() if name != "digest"})
    return hashlib.sha256(digest(tensors).encode() + said.encode()).hexdigest()


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
