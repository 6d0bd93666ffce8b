"""Suites of tests for parts that others bring: leaves, aggregations, templates, kernels, embedders; and the oracle.

A suite is a class: subclass it in a test module under a name that begins with Test, say what it is to be tried on, and
pytest runs its checks; `failures` runs them without pytest. The proof is not circular: an extension brings densities of
its own, and the oracle knows nothing of the library.
"""

from gspn.testing import oracle
from gspn.testing.aggregations import AggregationCase, AggregationSuite
from gspn.testing.embedders import EmbedderSuite
from gspn.testing.kernels import KernelSuite
from gspn.testing.leaves import LeafCase, LeafSuite
from gspn.testing.running import Suite, failures
from gspn.testing.templates import TemplateCase, TemplateSuite
from gspn.testing.translation import oracle_circuit, oracle_graph, oracle_model

__all__ = [
    "AggregationCase",
    "AggregationSuite",
    "EmbedderSuite",
    "KernelSuite",
    "LeafCase",
    "LeafSuite",
    "Suite",
    "TemplateCase",
    "TemplateSuite",
    "failures",
    "oracle",
    "oracle_circuit",
    "oracle_graph",
    "oracle_model",
]
