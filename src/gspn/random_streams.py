"""Random numbers that depend on what they are for and on nothing else.

A generator's numbers depend on how many were drawn before; masks must not, or batching, processes and resumption would
change them. Here a number is a hash of its key: (seed, epoch, graph, vertex, …).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: every input bit flips about half of the output bits."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = value ^ (value >> np.uint64(31))
    return mixed


def keyed_uniform(*keys: int | Tensor) -> Tensor:
    """Uniform float64 numbers in [0, 1), one for each combination of the (broadcast) integer keys."""
    shape = torch.broadcast_shapes(*(key.shape for key in keys if isinstance(key, Tensor)))
    state = np.full(shape, _GOLDEN, dtype=np.uint64)
    for key in keys:
        words = key.numpy().astype(np.int64) if isinstance(key, Tensor) else np.array([key], dtype=np.int64)
        # Adding the constant keeps a key of 0 from being absorbed; wrapping multiplication is intended.
        state = _mix(state ^ _mix(words.view(np.uint64) + _GOLDEN)) + _GOLDEN
    return torch.from_numpy((state >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def keyed_generator(*keys: int) -> torch.Generator:
    """A torch generator whose stream is fixed by the keys, for draws that have no natural name of their own."""
    seed = int(keyed_uniform(*keys, torch.tensor([0]))[0].item() * 2**53)
    return torch.Generator().manual_seed(seed)
