"""The posterior of one row, prior times density, normalised, and its reverse: parts of the compiled loops over levels.

Posteriors are products of prior and density, not exponentials of sums: densities are known beforehand, relative to the
largest among the states, one exponential for each distinct row of evidence. Where the sum of products comes near the
smallest numbers there are, the same is computed in log space, so nothing is lost to underflow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gspn.compiling import compiled
from gspn.kernels.compiled.rows import part
from gspn.kernels.compiled.simd import WIDTH, fill, load, store, total


@part
def posterior(priors, at, states, wide, log_density, density, peak, evidence, h, out):  # type: ignore[no-untyped-def]
    """h[out : out + wide] from the prior at `at` and the evidence of that number.

    Gives the sum of products before they are normalised, relative to the largest density; where that underflows, its
    (negative) logarithm.
    """
    tiny = np.finfo(h.dtype).tiny
    more, sum_of_lanes = fill(h, tiny), fill(h, 0)
    for b in range(0, wide, WIDTH):
        product = (load(priors, at + b) + more) * load(density, evidence * wide + b)
        store(h, out + b, product)
        sum_of_lanes = sum_of_lanes + product
    whole = total(sum_of_lanes)
    if whole < tiny**0.5:
        return _in_log_space(priors, at, states, log_density, evidence, peak, h, out)
    # Divided, not multiplied by the inverse: a state that is certain has posterior 1 exactly, and the gradient of a
    # certain posterior is 0, not rounding.
    divisor = fill(h, whole)
    for b in range(0, wide, WIDTH):
        store(h, out + b, load(h, out + b) / divisor)
    return whole


@part
def to_prior(  # type: ignore[no-untyped-def]
    inflow, posteriors, at, states, wide, of_weights, log_density, density, peak, evidence, weight, of_log_density
):
    """The reverse: the gradient of a posterior, inflow[at : at + wide], becomes that of its prior.

    Gradients of the log-densities are added to those of the evidence's number. `of_weights` is added to the gradient of
    every log-weight, in proportion to the posterior; `weight` is what `posterior` gave.
    """
    # Deviations from the mean under the posterior. The mean is taken off twice: where one state is almost certain the
    # first difference is mostly rounding, the mean of the differences shows how much.
    _subtract(inflow, at, wide, _weighted_sum(inflow, posteriors, at, wide))
    _subtract(inflow, at, wide, _weighted_sum(inflow, posteriors, at, wide) - of_weights)
    for b in range(0, wide, WIDTH):
        place, more = evidence * wide + b, load(posteriors, at + b) * load(inflow, at + b)
        store(of_log_density, place, load(of_log_density, place) + more)
    # That of the log-weights divided by the prior, which leaves density over weight.
    if weight > 0:
        factor = fill(inflow, 1 / weight)
        for b in range(0, wide, WIDTH):
            store(inflow, at + b, load(inflow, at + b) * load(density, evidence * wide + b) * factor)
    else:
        for k in range(states):
            inflow[at + k] *= math.exp(log_density[evidence * states + k] - peak[evidence] - weight)
        for k in range(states, wide):
            inflow[at + k] = 0


@part
def _weighted_sum(values, weights, at, wide):  # type: ignore[no-untyped-def]
    """Σ values · weights over the row that begins at `at`."""
    products = fill(values, 0)
    for b in range(0, wide, WIDTH):
        products = products + load(values, at + b) * load(weights, at + b)
    return total(products)


@part
def _subtract(values, at, wide, by):  # type: ignore[no-untyped-def]
    amount = fill(values, by)
    for b in range(0, wide, WIDTH):
        store(values, at + b, load(values, at + b) - amount)


@part
def log_of(weight):  # type: ignore[no-untyped-def]
    """The logarithm of what `posterior` gives."""
    return math.log(weight) if weight > 0 else weight


@compiled
def _in_log_space(
    prior: Any, at: int, states: int, log_density: Any, evidence: int, peak: Any, h: Any, out: int
) -> float:
    tiny, log_weight = np.finfo(prior.dtype).tiny, np.empty(states)
    most, summed = -np.inf, 0.0
    for k in range(states):
        relative = log_density[evidence * states + k] - peak[evidence]
        log_weight[k] = math.log(prior[at + k] + tiny) + relative
        most = max(most, log_weight[k])
    for k in range(states):
        summed += math.exp(log_weight[k] - most)
    for k in range(states):
        h[out + k] = math.exp(log_weight[k] - most) / summed
    return most + math.log(summed)
