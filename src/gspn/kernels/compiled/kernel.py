"""The fast kernel: what it supports, and how evidence reaches the compiled loops."""

from __future__ import annotations

from gspn.circuits.templates import NaiveBayes
from gspn.compiling import obstacle
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


FAST = Kernel("fast", climb_fast, obstacle_to)
