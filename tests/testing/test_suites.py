"""The other suites on the library's own parts: the mean, both templates, both kernels, models and baselines."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gspn import GSPN, Binary, Continuous, Schema
from gspn.baselines import CGMM
from gspn.circuits import Leaf, Product, Sum, random_circuit
from gspn.circuits.templates import CompiledCircuit, NaiveBayes
from gspn.testing import (
    AggregationCase,
    AggregationSuite,
    EmbedderSuite,
    KernelSuite,
    TemplateCase,
    TemplateSuite,
    oracle,
)

SCHEMA = Schema([Continuous("a"), Continuous("b"), Binary("c")])


def mean(level: int, messages: list[oracle.Message], theta: oracle.Array, start: oracle.Array) -> oracle.Array:
    """The paper's, written once more."""
    if not messages:
        return start
    total = np.zeros_like(start)
    for message in messages:
        for j in range(len(start)):
            total[j] += theta[message.edge_type, j].T @ message.posterior[j]
    return np.asarray(total / len(messages), dtype=np.float64)


class TestMean(AggregationSuite):
    case = AggregationCase("mean", lambda module: mean)


class TestNaiveBayes(TemplateSuite):
    case = TemplateCase(SCHEMA, lambda schema: NaiveBayes(schema, 3))


class TestNaiveBayesTogether(TemplateSuite):
    case = TemplateCase(SCHEMA, lambda schema: NaiveBayes(schema, 2, [("a", "b")]))


class TestRandomCircuit(TemplateSuite):
    case = TemplateCase(SCHEMA, lambda schema: CompiledCircuit(random_circuit(schema, 2, 2, 2, seed=1), schema))


class TestScopesThatOverlap(TemplateSuite):
    """An attribute by itself in one branch and together with another elsewhere."""

    case = TemplateCase(
        SCHEMA,
        lambda schema: CompiledCircuit(
            Sum(
                Product(Leaf("b", "a"), Sum(Leaf("c"), Leaf("c"))),
                Product(Leaf("a"), Sum(Product(Leaf("b"), Leaf("c")), Product(Leaf("b"), Leaf("c")))),
            ),
            schema,
        ),
    )


class TestFast(KernelSuite):
    kernel = "fast"
    refuses = frozenset({"another circuit"})


class TestReference(KernelSuite):
    kernel = "reference"


class TestModel(EmbedderSuite):
    make = staticmethod(lambda schema, seed: GSPN(schema, 2, 3, epochs=2, seed=seed))


class TestBaseline(EmbedderSuite):
    make = staticmethod(lambda schema, seed: CGMM(schema, num_layers=2, num_states=3, seed=seed))


def test_suites_name_what_they_do_not_have() -> None:
    with pytest.raises(TypeError, match="KernelSuite has no attribute 'kernal'"):
        KernelSuite.on(kernal="fast")
    assert torch.is_grad_enabled()
