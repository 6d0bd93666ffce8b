"""Compiled loops, as all rooms have them: how they are compiled, what they can work on, and that they are honest.

Compiled functions are differentiable once: who asks for more gets an error that names the way out, never a number.
torch's own `once_differentiable` is not enough. Its error stands beside the way from a gradient to the parameters, not
on it, so `torch.autograd.grad` passes it by and gives second derivatives that lack the compiled part.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numba
import torch
from torch import Tensor
from torch.autograd import forward_ad

from gspn.errors import GSPNError

VARIABLE = "GSPN_KERNEL"
"""The environment variable that asks for a kernel by name."""

REFERENCE = "reference"
"""The name that asks for plain torch everywhere."""

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile with Numba, keeping the machine code on disk where there is a place for it."""
    options: dict[str, Any] = {"nogil": True, "boundscheck": False}
    try:
        found = numba.njit(cache=True, **options)(function)
        # Numba looks at the file that a function stands in, not at those of the functions that it calls.
        kept = found._cache._cache_file
        kept._source_stamp = (*kept._source_stamp, kernels_digest())
        return found  # type: ignore[no-any-return]
    except RuntimeError as error:  # no folder that could hold the cache
        logging.getLogger(__name__).info("%s is compiled anew in every process: %s", function.__name__, error)
        return numba.njit(**options)(function)  # type: ignore[no-any-return]


@cache
def kernels_digest() -> str:
    """Of the sources that compiled functions import from each other: machine code of other ones is not used."""
    files = sorted((Path(__file__).parent / "kernels").rglob("*.py"))
    return hashlib.blake2b(b"\0".join(file.read_bytes() for file in files), digest_size=16).hexdigest()


def is_traced() -> bool:
    return torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None


def prefers_plain_torch(*tensors: Tensor) -> bool:
    """Whether plain torch is to compute with these: it is asked for, torch traces, or compiled code cannot."""
    asked = os.environ.get(VARIABLE, "") == REFERENCE
    return asked or is_traced() or any(obstacle(tensor) is not None for tensor in tensors)


def obstacle(tensor: Tensor) -> str | None:
    """Why compiled code cannot work on a tensor; None if it can."""
    if not tensor.is_cpu:
        return f"works on the CPU, not on the device '{tensor.device}'"
    if tensor.dtype not in (torch.float32, torch.float64) and tensor.is_floating_point():
        return f"computes in float32 or float64, not in {tensor.dtype}"
    if type(tensor) not in (Tensor, torch.nn.Parameter):
        return f"needs plain tensors, not a {type(tensor).__name__}"
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return "cannot be transformed by torch.func"
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None:
        return "knows no derivatives in forward mode"
    return None


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
            f"the fast kernel is differentiable once; set {VARIABLE}={REFERENCE} before the model is evaluated to "
            "differentiate twice"
        )
