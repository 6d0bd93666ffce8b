"""The library against the oracle where gaps are evidence: all covariances and contexts, atoms, other aggregations.

Naive Bayes and circuits without contexts, shortcuts and edge types are among the cases of `test_against_oracle`. The
tolerance is that of `test_context_against_oracle`, which has the same models with ignorable gaps.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from context_cases import CONTEXTS, COVARIANCES, Case, assert_close, assert_likelihoods_agree, make_case, set_at_random
from oracle_cases import draw_values
from regressing_models import line
from torch_geometric.data import Data

from gspn import GSPN, Categorical, Continuous
from gspn.hierarchy.roots import leave_one_out
from gspn.testing import oracle, oracle_model
from gspn.testing.oracle_aggregations import product, symmetric, symmetric_weights

SEEDS = [seed for seed in range(20) if seed not in (5, 13)]  # whose trees take the oracle long


def case_of(seed: int) -> Case:
    """Atoms in one of three."""
    return make_case(seed, atoms=seed % 3 == 1, gaps="informative")


@pytest.mark.parametrize("seed", SEEDS)
def test_agrees(seed: int) -> None:
    """Likelihoods with and without the vertex in its own tree, posteriors, masked entries, missing ones among them."""
    assert_likelihoods_agree(case_of(seed), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_agree(seed: int) -> None:
    """Conditionals hide value and gap; what is filled in keeps the gap as evidence."""
    case = case_of(seed)
    x, names = case.graph.x, list(case.model.schema.names)
    values = draw_values(np.random.default_rng(seed), case.model.schema, len(x), 0.0)
    column = seed % len(names)
    found = case.model.conditional(case.data, names[column]).log_prob(torch.from_numpy(values[:, column]))
    expected = [
        oracle.answer(case.theirs, case.graph, v, {column: values[v, column]}, {(v, column)}) for v in range(len(x))
    ]
    assert_close(case, found, expected)
    missing = [{c: values[v, c] for c in range(len(names)) if math.isnan(x[v, c])} for v in range(len(x))]
    expected = [oracle.answer(case.theirs, case.graph, v, missing[v]) for v in range(len(x))]
    assert_close(case, case.model.log_prob_missing(case.data, torch.from_numpy(values)), expected)


@pytest.mark.parametrize("seed", [1, 4])
@pytest.mark.parametrize("aggregation", ["symmetric", "product"])
def test_agrees_with_other_aggregations(aggregation: str, seed: int) -> None:
    case = make_case(seed)
    model = GSPN(**case.model.arguments() | {"aggregation": aggregation, "gaps": "informative"}).double()
    set_at_random(model, np.random.default_rng(seed))
    if aggregation == "symmetric":
        theirs = oracle_model(model, mix=symmetric, weigh=symmetric_weights)
    else:
        parameters = model.get_parameters()
        own = parameters["aggregation"]
        theirs = oracle_model(
            model, mix=product(own["prior"].numpy(), own["beta"].numpy(), parameters["prior"].numpy())
        )
    assert_likelihoods_agree(Case(case.axes, model, case.data, theirs, case.graph), seed)


@pytest.mark.parametrize("seed", [0, 1, 3, 6])
def test_values_and_gap_of_an_entry_sum_to_1(seed: int) -> None:
    """Whatever else is known of the vertex and of others: by enumeration, or an integral, of its values."""
    case = make_case(seed, gaps="informative")
    for column, attribute in enumerate(case.model.schema):
        if isinstance(attribute, Continuous):
            values, weights = line(2.5, 3.0, 1_201, 12.0)
        else:
            size = len(attribute.categories) if isinstance(attribute, Categorical) else 2
            size = 400 if attribute.kind == "count" else size
            values, weights = np.arange(size, dtype=np.float64), np.ones(size)
        values, weights = np.append(values, np.nan), np.append(weights, 1.0)
        v = seed % len(case.graph.x)
        x = case.data.x.repeat(len(values), 1, 1)
        x[:, v, column] = torch.from_numpy(values)
        graphs = [Data(x=one, edge_index=case.data.edge_index, edge_type=case.data.edge_type) for one in x]
        roots = torch.arange(len(values)) * len(case.graph.x) + v
        hidden = torch.zeros(len(values), len(case.model.schema), dtype=torch.bool)
        hidden[:, column] = True
        found = torch.cat(list(leave_one_out(case.model.hierarchy, case.model.collate(graphs), roots, hidden)))
        total = found.detach().exp() @ torch.from_numpy(weights)
        assert float(total) == pytest.approx(1.0, abs=1e-7), attribute


def test_cases_cover_every_axis() -> None:
    axes = [case_of(seed).axes for seed in SEEDS]
    assert {a["covariance"] for a in axes} == set(COVARIANCES)
    assert {a["context"] for a in axes} == set(CONTEXTS)
    assert {a["template"] for a in axes} >= {"naive Bayes", "together"}
    assert len({a["levels"] for a in axes}) > 1
