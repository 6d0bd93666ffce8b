"""Compiled loops of the wide network: what would take torch several passes over memory takes one here.

They know arrays, not heads or targets; products of matrices stay with torch. All work in the arrays' own precision.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.compiling import compiled

Integers = NDArray[np.int64]
Floats = NDArray[Any]


@compiled
def gather_graphs(chosen: Integers, ptr: Integers, rows: Floats, own_ptr: Integers, own_rows: Floats) -> None:
    """Copy the chosen graphs' rows one below the other, and fill their pointer [len(chosen) + 1]."""
    own_ptr[0] = 0
    for i in range(len(chosen)):
        start, end = ptr[chosen[i]], ptr[chosen[i] + 1]
        own_ptr[i + 1] = own_ptr[i] + end - start
        old, new = rows[start:end].ravel(), own_rows[own_ptr[i] : own_ptr[i + 1]].ravel()
        for k in range(len(old)):
            new[k] = old[k]


@compiled
def rectify_and_pool(z: Floats, bias: Floats, ptr: Integers, mean: NDArray[np.bool_], pooled: Floats) -> None:
    """pooled[g] = the sum over the graph's vertices of max(z + bias, 0), or their mean in the columns of `mean`.

    A graph without vertices pools to 0.
    """
    zero = z.dtype.type(0)
    for g in range(len(pooled)):
        total = pooled[g]
        total[:] = zero
        for v in range(ptr[g], ptr[g + 1]):
            row = z[v]
            for k in range(len(total)):
                value = row[k] + bias[k]
                # Asked this way round, NaN stays NaN instead of becoming 0.
                total[k] += zero if value <= zero else value
        share = z.dtype.type(1.0 / max(ptr[g + 1] - ptr[g], 1))
        for k in range(len(total)):
            if mean[k]:
                total[k] *= share


@compiled
def unpool(
    z: Floats, bias: Floats, ptr: Integers, mean: NDArray[np.bool_], pooled: Floats, bias_gradient: Floats
) -> None:
    """The way back of `rectify_and_pool`: z becomes its gradient, from the gradient of `pooled`, which is used up."""
    zero = z.dtype.type(0)
    bias_gradient[:] = zero
    for g in range(len(pooled)):
        own = pooled[g]
        share = z.dtype.type(1.0 / max(ptr[g + 1] - ptr[g], 1))
        for k in range(len(own)):
            if mean[k]:
                own[k] *= share
        for v in range(ptr[g], ptr[g + 1]):
            row = z[v]
            for k in range(len(own)):
                gradient = own[k] if row[k] + bias[k] > zero else zero
                row[k] = gradient
                bias_gradient[k] += gradient


@compiled
def adam(
    weights: Floats,
    gradients: Floats,
    first: Floats,
    second: Floats,
    ends: Integers,
    lr: NDArray[np.float64],
    weight_decay: NDArray[np.float64],
    step: int,
) -> None:
    """One step of Adam, as torch.optim.Adam does it, on tensors [heads, …] that lie one behind the other.

    `ends` says where each tensor ends; `lr` and `weight_decay` are the heads' own.
    """
    kind = weights.dtype.type
    keep_first, keep_second, epsilon = kind(0.9), kind(0.999), kind(1e-8)
    add_first, add_second = kind(1 - 0.9), kind(1 - 0.999)
    root = kind(1 / math.sqrt(1 - 0.999**step))
    start = 0
    for end in ends:
        size = (end - start) // len(lr)
        for head in range(len(lr)):
            rate, decay = kind(lr[head] / (1 - 0.9**step)), kind(weight_decay[head])
            # Slices first, plain loops over them after: only so the compiler uses vector instructions.
            here = slice(start + head * size, start + (head + 1) * size)
            w, g, m, v = weights[here], gradients[here], first[here], second[here]
            for k in range(size):
                gradient = g[k] + decay * w[k]
                m[k] = keep_first * m[k] + add_first * gradient
                v[k] = keep_second * v[k] + add_second * gradient * gradient
                # numpy's division: Python's would look for a zero each time, which no vector instruction can.
                w[k] -= np.divide(rate * m[k], np.sqrt(v[k]) * root + epsilon)
        start = end
