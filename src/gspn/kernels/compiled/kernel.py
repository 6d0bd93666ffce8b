"""The fast kernel: what it supports, and how evidence reaches the compiled loops."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gspn.circuits.templates import NaiveBayes
from gspn.kernels.compiled.distinct import distinct_inputs
from gspn.kernels.compiled.fast import fast
from gspn.kernels.contract import Climb, Kernel, Levels

NAIVE_BAYES_ONLY = "computes naive Bayes templates, not other circuits"


def climb_fast(climb: Climb) -> Levels:
    assert isinstance(climb.template, NaiveBayes)
    log_density, number = distinct_inputs(climb.template, climb.families, climb.naturals, climb.evidence)
    return fast(log_density, number, climb.prior, climb.transitions, climb.batch)


def obstacle_to(climb: Climb) -> str | None:
    """It needs naive Bayes, the mean and no context, and plain tensors on the CPU that nobody traces."""
    if not isinstance(climb.template, NaiveBayes):
        return NAIVE_BAYES_ONLY
    if climb.aggregation != "mean":
        return f"knows the aggregation 'mean', not '{climb.aggregation}'"
    if climb.has_context:
        return "knows no leaves that depend on a context"
    for tensor in (climb.prior, climb.transitions, climb.evidence.x):
        reason = obstacle(tensor)
        if reason:
            return reason
    return None


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


FAST = Kernel("fast", climb_fast, obstacle_to)
