"""Which kernel computes: the fast one where it can, the reference elsewhere, or what GSPN_KERNEL asks for."""

from __future__ import annotations

import os

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gspn.errors import InputError

VARIABLE = "GSPN_KERNEL"
NAMES = ("fast", "reference")


def use_fast(*tensors: Tensor) -> bool:
    """Whether the fast kernel is to be used on these tensors.

    It needs plain tensors in the memory of the CPU, float32 or float64, and nobody who traces what happens to them.
    Where it cannot work and is asked for by name, that is an error: measured times must mean what they say. While torch
    traces or compiles, the reference is used whatever is asked for; there is nothing else to trace.
    """
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return False
    asked = os.environ.get(VARIABLE, "")
    if asked not in ("", *NAMES):
        raise InputError(f"{VARIABLE} must be one of {', '.join(NAMES)}, or unset; it is '{asked}'")
    if asked == "reference":
        return False
    for tensor in tensors:
        reason = obstacle(tensor)
        if reason and asked == "fast":
            raise InputError(f"{VARIABLE}=fast: the fast kernel {reason}; unset the variable to use the reference here")
        if reason:
            return False
    return True


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
