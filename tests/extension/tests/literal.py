"""The extension's parts written out for one leaf and one vertex, in scipy and numpy: what they must agree with.

Nothing of the extension is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.stats

from gspn.testing import oracle


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


def weigh(messages: list[oracle.Message]) -> list[float]:
    weights = [message.sender_out_degree**-0.5 for message in messages]
    return [weight / sum(weights) for weight in weights]


def by_degree(module: Any) -> oracle.Mix:
    """The aggregation for one vertex, in numpy."""
    pull = float(np.log1p(np.exp(module.raw_pull.item())))

    def mix(level: int, messages: list[oracle.Message], theta: oracle.Array, start: oracle.Array) -> oracle.Array:
        if not messages:
            return start
        said = np.zeros_like(start)
        for message, weight in zip(messages, weigh(messages), strict=True):
            kind = message.edge_type if len(theta) > 1 else 0
            for j in range(len(start)):
                said[j] += weight * theta[kind, j].T @ message.posterior[j]
        n = messages[0].receiver_in_degree
        return np.asarray((n * said + pull * start) / (n + pull), dtype=np.float64)

    return mix
