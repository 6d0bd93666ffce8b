"""The extension's leaves through the suite, with densities from scipy."""

from __future__ import annotations

import gspn_extension  # noqa: F401
from literal import bivariate, regression, student_t

from gspn import Continuous
from gspn.testing import LeafCase, LeafSuite


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
