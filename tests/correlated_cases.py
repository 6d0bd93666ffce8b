"""Gaussians over several attributes as the suite of leaves takes them; scipy's multivariate normal is the proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal

import gspn
from gspn.circuits.leaves import CorrelatedGaussianLeaves
from gspn.testing import LeafCase

SIZE = 2
MEAN = [[[1.0, -2.0], [3.0, 0.5]], [[0.0, 0.0], [-1.0, 4.0]]]
FULL = [[[[1.0, 0.6], [0.6, 2.0]], [[0.5, -0.3], [-0.3, 1.5]]], [[[2.0, 0.9], [0.9, 1.0]], [[1.0, 0.0], [0.0, 3.0]]]]
LOADINGS = [[[[0.8], [0.5]], [[-0.4], [1.1]]], [[[1.0], [0.2]], [[0.3], [0.3]]]]
NOISE = [[[1.0, 0.5], [0.7, 2.0]], [[0.6, 1.4], [1.0, 1.0]]]
SLOPE = [[[[0.0] * 3] * SIZE] * 2, [[[0.5, -0.2, 0.1], [0.0, 1.0, -0.7]], [[-0.3, 0.4, 0.2], [0.6, 0.1, 0.0]]]]
CONTEXTS = [[0.3, -1.2, 0.8], None, [2.0, 0.0, -0.5]]


def density(
    leaf: Mapping[str, Any], values: Sequence[float | None], codes: Sequence[str], context: Sequence[float] | None
) -> float:
    known = [i for i, value in enumerate(values) if value is not None]
    if not known:
        return 0.0
    covariance = (
        leaf["covariance"] if "covariance" in leaf else leaf["loadings"] @ leaf["loadings"].T + np.diag(leaf["noise"])
    )
    mean = leaf["mean"] + (leaf["slope"] @ np.array(context) if "slope" in leaf and context is not None else 0.0)
    part = [values[i] for i in known]
    return float(multivariate_normal(mean[known], covariance[np.ix_(known, known)]).logpdf(part))


def parameters(covariance: str, slopes: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {"mean": MEAN}
    if covariance == "low_rank":
        found |= {"loadings": LOADINGS, "noise": NOISE}
    else:
        matrices = np.array(FULL)
        if covariance == "diagonal":
            matrices = matrices * np.eye(SIZE)
        if covariance == "tied":
            matrices = np.repeat(matrices[:, :1], 2, axis=1)
        found["covariance"] = matrices
    if slopes is not None:
        slope = np.array(SLOPE)
        found["slope"] = np.repeat(slope[:, :1], 2, axis=1) if slopes == "tied" else slope
    return found


def case(covariance: str, slopes: str | None = None) -> LeafCase:
    return LeafCase(
        family=f"{covariance}_gaussian",
        attributes=[gspn.Continuous("a"), gspn.Continuous("b")],
        exported=parameters(covariance, slopes),
        density=density,
        contexts=CONTEXTS if slopes else (),
        units={"a": (0.5, 1.5), "b": (0.0, 2.0)},
        around={"a": (0.5, 1.0), "b": (0.5, 1.0)},
        build=partial(CorrelatedGaussianLeaves, covariance=covariance, tied_slopes=slopes == "tied"),
    )


STRUCTURES = ("diagonal", "full", "shrunk", "tied", "low_rank")
CASES = {
    f"{name}, {slopes or 'no'} slopes": case(name, slopes) for name in STRUCTURES for slopes in (None, "tied", "free")
}
