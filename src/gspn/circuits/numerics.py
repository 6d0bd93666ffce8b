"""Logarithms and inverses that stay finite, and keep finite gradients, at the edge of their domains."""

from __future__ import annotations

import torch
from torch import Tensor


def log_positive(value: Tensor) -> Tensor:
    """log of a number ≥ 0 that is to be stored, with 0 taken as the smallest normal number."""
    return torch.log(value.clamp_min(torch.finfo(value.dtype).tiny))


def log_weight(probability: Tensor) -> Tensor:
    """log of a mixing weight that may have underflowed to 0.

    There the gradient of a plain logarithm is infinite, and times the weight's own gradient of 0 it is NaN. The
    smallest normal number is far below the rounding of any weight that is not 0.
    """
    return torch.log(probability + torch.finfo(probability.dtype).tiny)


def inverse_softplus(value: Tensor) -> Tensor:
    """x with softplus(x) = value, for value ≥ 0 (0 is taken as the smallest normal number)."""
    value = value.clamp_min(torch.finfo(value.dtype).tiny)
    # log(exp(value) - 1) = value + log(1 - exp(-value)), which overflows nowhere.
    return value + torch.log(-torch.expm1(-value))
