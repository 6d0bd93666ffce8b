"""The extension's aggregation and kernel through their suites."""

from __future__ import annotations

from typing import Any

import gspn_extension
import numpy as np
import torch

from gspn.testing import AggregationCase, AggregationSuite, KernelSuite, oracle


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


class TestByDegree(AggregationSuite):
    case = AggregationCase("by_degree", by_degree, lambda module: weigh)


class TestLoops(KernelSuite):
    kernel = "loops"
    refuses = frozenset({"another circuit"})


def test_parameters_of_the_aggregation_are_learned() -> None:
    model = TestByDegree.case.model()
    batch = model.collate(TestByDegree()._graphs(0))
    model(batch).log_likelihood.sum().backward()
    module = model.hierarchy.aggregation
    assert isinstance(module, gspn_extension.ByDegree)
    assert module.raw_pull.grad is not None
    assert torch.isfinite(module.raw_pull.grad)
    assert list(model.get_parameters()["aggregation"]) == ["raw_pull"]
