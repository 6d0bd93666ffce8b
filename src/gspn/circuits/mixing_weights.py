"""Constant weights of a mixture whose components are given: those that make held-out observations most likely.

What the components are, and which observations are held out, is up to the caller.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gspn.columns import is_number, shorten
from gspn.errors import InputError

_MOST_STEPS = 200
_NEAR = 1e-20
"""Squared Newton decrement at which the maximum counts as found: half of it is what could still be gained."""
_SURE = 1e-8
"""The same, at which a whole step is right; what it gains is less than the objective's rounding."""


@torch.no_grad()
def weights_maximising(scores: Tensor, pull: float = 1.0) -> Tensor:
    """[M] weights w that maximise Σ_n log Σ_m w_m exp(scores[n, m]) + pull · Σ_m log w_m.

    `pull` is a number of pseudo-observations that each component alone explains: with few observations the weights
    stay near equal ones, and none becomes 0. However large the score of one observation, it counts as one.

    The objective is strictly concave, and damped Newton steps find its one maximum whatever the number of observations;
    EM, which climbs the same hill, hardly moves where components are nearly alike.
    """
    if not isinstance(scores, Tensor) or scores.dim() != 2 or not scores.shape[1]:
        found = list(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise InputError(f"scores must be a tensor [observations, components] of log-densities, got {found}")
    if not is_number(pull) or not 0 < pull < float("inf"):
        raise InputError(f"pull must be a number above 0, got {shorten(pull)}")
    scores = scores.detach().cpu().double()
    _check(scores)
    # In each row only ratios matter.
    likelihoods = (scores - scores.amax(1, keepdim=True)).exp()
    weights = torch.full((scores.shape[1],), 1 / scores.shape[1], dtype=torch.float64)
    for _ in range(_MOST_STEPS):
        shares = likelihoods / (likelihoods @ weights)[:, None]
        slope = shares.sum(0) + pull / weights
        curvature = shares.T @ shares + torch.diag(pull / weights.square())
        # The step along Σ w = 1 to the maximum of the quadratic approximation.
        free, along = torch.linalg.solve(curvature, torch.stack([slope, torch.ones_like(slope)], dim=1)).unbind(1)
        step = free - along * (free.sum() / along.sum())
        gain = float(step @ curvature @ step)
        if gain <= _NEAR:
            break
        weights = _moved(likelihoods, weights, step, gain, pull)
    return weights / weights.sum()


def _moved(likelihoods: Tensor, weights: Tensor, step: Tensor, gain: float, pull: float) -> Tensor:
    """The weights after as much of the step as raises the objective and leaves all weights above 0."""

    def objective(weights: Tensor) -> float:
        return float((likelihoods @ weights).log().sum() + pull * weights.log().sum())

    if gain <= _SURE * min(1.0, pull):
        return weights + step
    before = objective(weights)
    share = min(1.0, 0.99 / float((-step / weights).amax().clamp_min(1e-300)))
    for _ in range(60):
        moved = weights + share * step
        if objective(moved) >= before + 0.25 * share * gain:
            return moved
        share /= 2
    return weights


def _check(scores: Tensor) -> None:
    wrong = (scores.isnan() | (scores == torch.inf)).nonzero()
    if len(wrong):
        row, column = wrong[0].tolist()
        raise InputError(f"scores, row {row}, component {column}: {scores[row, column].item()} is no log-density")
    impossible = (scores == -torch.inf).all(1).nonzero()
    if len(impossible):
        raise InputError(f"scores, row {int(impossible[0])}: no component gives this observation any probability")
