"""Kernels by name, and which one computes: the fast one where it can, the reference elsewhere, or what is asked for.

The environment variable GSPN_KERNEL asks for a kernel by its name.
"""

from __future__ import annotations

import os

from torch import Tensor

from gspn.circuits.templates import NaiveBayes, Template
from gspn.compiling import VARIABLE, is_traced, obstacle
from gspn.errors import InputError
from gspn.kernels.compiled.fast import FAST, NAIVE_BAYES_ONLY
from gspn.kernels.contract import Climb, Kernel
from gspn.kernels.reference import REFERENCE

_KERNELS = {kernel.name: kernel for kernel in (FAST, REFERENCE)}


def register_kernel(kernel: Kernel) -> None:
    """Make a kernel known, so that GSPN_KERNEL can ask for it; it is never chosen by itself."""
    if not isinstance(kernel, Kernel):
        raise InputError(f"register_kernel takes a gspn.kernels.Kernel, got {type(kernel).__name__}")
    if _KERNELS.get(kernel.name, kernel) != kernel:
        raise InputError(f"there is a kernel '{kernel.name}' already; choose another name")
    _KERNELS[kernel.name] = kernel


def find_kernel(name: str) -> Kernel:
    if name not in _KERNELS:
        raise InputError(f"{VARIABLE} must be one of {', '.join(_KERNELS)}, or unset; it is '{name}'")
    return _KERNELS[name]


def kernel_for(climb: Climb) -> Kernel:
    """The kernel that is to do a climb.

    Where one cannot work and is asked for by name, that is an error: measured times must mean what they say. While
    torch traces or compiles, the reference is used whatever is asked for; there is nothing else to trace.
    """
    if is_traced():
        return REFERENCE
    asked = os.environ.get(VARIABLE, "")
    if not asked:
        return REFERENCE if FAST.obstacle(climb) else FAST
    kernel = find_kernel(asked)
    reason = kernel.obstacle(climb)
    if reason:
        raise refusal(kernel, reason)
    return kernel


def compiles(template: Template, *tensors: Tensor) -> bool:
    """Whether compiled code is to compute levels over ranges of a stored graph, or plain torch; no kernel else can."""
    asked = os.environ.get(VARIABLE, "")
    if asked and find_kernel(asked) not in (FAST, REFERENCE):
        raise InputError(f"{VARIABLE}={asked}: stored graphs are computed by {FAST.name} or {REFERENCE.name} alone")
    reasons = [obstacle(tensor) for tensor in tensors]
    reason = next(filter(None, reasons), None) if isinstance(template, NaiveBayes) else NAIVE_BAYES_ONLY
    if reason and asked == FAST.name:
        raise refusal(FAST, reason)
    return reason is None and asked != REFERENCE.name and not is_traced()


def refusal(kernel: Kernel, reason: str) -> InputError:
    return InputError(
        f"{VARIABLE}={kernel.name}: the {kernel.name} kernel {reason}; unset the variable to use another where it "
        "cannot work"
    )
