"""The extension's aggregation and kernel through their suites."""

from __future__ import annotations

import gspn_extension
import torch
from literal import by_degree, weigh

from gspn.testing import AggregationCase, AggregationSuite, KernelSuite


class TestByDegree(AggregationSuite):
    case = AggregationCase("by_degree", by_degree, lambda module: weigh)


class TestLoops(KernelSuite):
    kernel = "loops"
    in_degree = 60
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
