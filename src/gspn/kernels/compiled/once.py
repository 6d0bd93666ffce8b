"""Compiled functions are differentiable once: who asks for more gets an error that names the way out, never a number.

torch's own `once_differentiable` is not enough. Its error stands beside the way from a gradient to the parameters, not
on it, so `torch.autograd.grad` passes it by and gives second derivatives that lack the compiled part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

import torch
from torch import Tensor

from gspn.errors import GSPNError
from gspn.kernels.contract import VARIABLE

Backward: TypeAlias = Callable[..., tuple[Tensor | None, ...]]


def once_differentiable(backward: Backward) -> Backward:
    """The backward pass of a function that has saved all tensors it depends on (`ctx.save_for_backward`)."""

    @wraps(backward)
    def wrapper(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        with torch.no_grad():
            found = backward(ctx, *gradients)
        if not torch.is_grad_enabled():
            return found
        guard: Any = _Guard.apply
        guarded: tuple[Tensor | None, ...] = guard(len(found), *found, *ctx.saved_tensors, *gradients)
        return guarded

    return wrapper


class _Guard(torch.autograd.Function):
    """The first `count` tensors as they are, depending on all: whoever differentiates them meets the error."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        return tensors[:count]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, ...]:
        raise GSPNError(
            f"the fast kernel is differentiable once; set {VARIABLE}=reference before the model is evaluated to "
            "differentiate twice"
        )
