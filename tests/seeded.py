"""Random numbers of a test's own: there is no global seed."""

from __future__ import annotations

import torch


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
