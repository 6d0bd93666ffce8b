"""The extension's leaves through the suite, with densities from scipy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gspn_extension  # noqa: F401
import numpy as np
import scipy.stats

from gspn import Continuous
from gspn.testing import LeafCase, LeafSuite


def student_t(leaf: Mapping[str, Any], values: Sequence[float | None], codes: Sequence[str], context: Any) -> float:
    (value,) = values
    return (
        0.0 if value is None else float(scipy.stats.t.logpdf(value, leaf["freedom"], leaf["location"], leaf["scale"]))
    )


def bivariate(leaf: Mapping[str, Any], values: Sequence[float | None], codes: Sequence[str], context: Any) -> float:
    known = [i for i, value in enumerate(values) if value is not None]
    if not known:
        return 0.0
    s, t = leaf["std"]
    covariance = np.array([[s * s, leaf["correlation"] * s * t], [leaf["correlation"] * s * t, t * t]])
    normal = scipy.stats.multivariate_normal(leaf["mean"][known], covariance[np.ix_(known, known)])
    return float(normal.logpdf([values[i] for i in known]))


def regression(
    leaf: Mapping[str, Any], values: Sequence[float | None], codes: Sequence[str], context: Sequence[float] | None
) -> float:
    (value,) = values
    shift = 0.0 if context is None else sum(b * m for b, m in zip(leaf["slope"], context, strict=True))
    return 0.0 if value is None else float(scipy.stats.norm.logpdf(value, leaf["mean"] + shift, leaf["std"]))


class TestStudentT(LeafSuite):
    case = LeafCase(
        "student_t",
        [Continuous("x")],
        {
            "location": [[0, 3], [-1, 2]],
            "scale": [[1, 0.5], [2, 0.7]],
            "freedom": [[3, 10], [4.5, 30]],
        },
        student_t,
        around={"x": (1.0, 0.5)},
    )


class TestStudentTInOtherUnits(LeafSuite):
    case = LeafCase(
        "student_t",
        [Continuous("x")],
        {"location": [[-40, -37], [-41, -45]], "scale": [[2.5, 0.5], [1, 8]], "freedom": [[5, 3], [8, 4]]},
        student_t,
        units={"x": (-40.0, 2.5)},
        around={"x": (-40.0, 0.5)},
    )


class TestBivariateGaussian(LeafSuite):
    case = LeafCase(
        "bivariate_gaussian",
        [Continuous("x"), Continuous("y")],
        {
            "mean": [[[0, 10], [2, 12]], [[-1, 11], [1, 10.5]]],
            "std": [[[1, 2], [0.5, 1]], [[2, 0.5], [1, 3]]],
            "correlation": [[0.9, -0.5], [0.0, 0.3]],
        },
        bivariate,
        units={"x": (0.5, 2.0), "y": (10.0, 1.5)},
        around={"x": (0.5, 0.5), "y": (11.0, 0.5)},
    )


class TestNeighbourRegression(LeafSuite):
    case = LeafCase(
        "neighbour_regression",
        [Continuous("x")],
        {
            "mean": [[0, 1], [-2, 0.5]],
            "std": [[1, 0.5], [2, 1]],
            "slope": [[[1, 0, 2], [0.5, 0.5, 1]], [[-1, 0.3, 2], [0.7, 0, -0.5]]],
        },
        regression,
        contexts=[[0.5, -1.0, 0.2], None, [-2.0, 0.0, 1.0]],
        units={"x": (1.0, 2.0)},
        around={"x": (0.5, 0.5)},
    )
