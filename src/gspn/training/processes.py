"""Several processes on one training run, as started by `torchrun`: who am I, and sums over all."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Processes:
    """The processes of a run; one of one when not started by `torchrun`."""

    rank: int = 0
    number: int = 1

    def share(self, graph_ids: Tensor) -> Tensor:
        """The part of a batch that this process computes."""
        return graph_ids if self.number == 1 else graph_ids[self.rank :: self.number]

    def sum(self, *values: float) -> list[float]:
        """Sums over all processes, the same bits on each."""
        if self.number == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        result: list[float] = total.tolist()
        return result

    def any(self, said: bool) -> bool:
        """Whether any process says so, the same answer on each."""
        return self.sum(float(said))[0] > 0

    def wait(self) -> None:
        """Until all processes have come here."""
        if self.number > 1:
            dist.barrier()

    def sum_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Replace every gradient by its sum over all processes, in one exchange."""
        if self.number == 1:
            return
        flat = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        dist.all_reduce(flat)
        start = 0
        for p in parameters:
            if p.grad is not None:
                p.grad.copy_(flat[start : start + p.numel()].view_as(p))
                start += p.numel()


def join_processes() -> Processes:
    """The processes that `torchrun` started together with this one (or that the caller has already joined)."""
    if not dist.is_available():
        return Processes()
    if not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return Processes()
        dist.init_process_group("gloo")
        atexit.register(_leave)
    return Processes(dist.get_rank(), dist.get_world_size())


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
