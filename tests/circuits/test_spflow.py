"""An outside package, spflow, computes the same likelihoods of the same circuits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from small_circuits import CIRCUITS, compiled, draw
from spflow.meta.data.scope import Scope
from spflow.modules.leaves.bernoulli import Bernoulli as SpflowBernoulli
from spflow.modules.leaves.categorical import Categorical as SpflowCategorical
from spflow.modules.leaves.negative_binomial import NegativeBinomial as SpflowNegativeBinomial
from spflow.modules.leaves.normal import Normal as SpflowNormal
from spflow.modules.leaves.poisson import Poisson as SpflowPoisson
from spflow.modules.module import Module as SpflowModule
from spflow.modules.products.product import Product as SpflowProduct
from spflow.modules.sums.sum import Sum as SpflowSum
from torch import Tensor

from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
from gspn.circuits import Leaf, Sum, Unit
from gspn.circuits.evidence import Evidence
from gspn.circuits.leaves import GaussianLeaves, Leaves, leaves_for
from gspn.circuits.templates import Template

BY_SPFLOW = ("inner sums", "product of sums", "sum over sums and a leaf", "the same child twice", "random")


def families_for(template: Template, schema: Schema) -> list[Leaves]:
    """Families with random parameters in one level, in units that are not 1."""
    families = [
        leaves_for(attribute, 1, count).double() for attribute, count in zip(schema, template.leaf_counts, strict=True)
    ]
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for family in families:
            if isinstance(family, GaussianLeaves):
                family.center, family.spread = 2.5, 3.0
            for parameter in family.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return families


def spflow_leaf(family: Leaves, column: int, leaf: int) -> SpflowModule:
    # One feature, one channel, one repetition; a categorical's probabilities come behind.
    exported = {
        key: value.detach()[0, leaf].reshape(1, 1, 1, *value.shape[2:])
        for key, value in family.export(family.natural()).items()
    }
    (attribute,), scope = family.scope, Scope([column])
    if isinstance(attribute, Continuous):
        return SpflowNormal(scope, loc=exported["mean"], scale=exported["std"])
    if isinstance(attribute, Categorical):
        return SpflowCategorical(scope, probs=exported["probs"])
    if isinstance(attribute, Binary):
        return SpflowBernoulli(scope, probs=exported["probs"])
    if attribute.distribution == "poisson":
        return SpflowPoisson(scope, rate=exported["rate"])
    odds = exported["dispersion"] * exported["mean"]
    return SpflowNegativeBinomial(scope, total_count=1 / exported["dispersion"], probs=odds / (1 + odds))


def spflow_circuit(root: Unit, schema: Schema, families: list[Leaves], prior: Tensor) -> SpflowModule:
    """The same circuit, unit by unit and sharing what is shared."""
    made: dict[int, SpflowModule] = {}
    counts = dict.fromkeys(schema.names, 0)
    sums = iter(prior)

    def convert(unit: Unit) -> SpflowModule:
        if id(unit) in made:
            return made[id(unit)]
        if isinstance(unit, Leaf):
            column = schema.index(unit.attributes[0])
            made[id(unit)] = spflow_leaf(families[column], column, counts[unit.attributes[0]])
            counts[unit.attributes[0]] += 1
        elif isinstance(unit, Sum):
            weights = next(sums)  # before the children: sums are numbered as they are written
            made[id(unit)] = SpflowSum([convert(child) for child in unit.children], weights=weights)
        else:
            made[id(unit)] = SpflowProduct([convert(child) for child in unit.children])
        return made[id(unit)]

    return convert(root)


def draw_rows(schema: Schema, rows: int, missing: float) -> Tensor:
    rng = np.random.default_rng(3)
    columns: list[Any] = []
    for attribute in schema:
        if isinstance(attribute, Continuous):
            columns.append(rng.normal(3, 4, rows))
        elif isinstance(attribute, Count):
            columns.append(rng.poisson(3, rows))
        else:
            columns.append(
                rng.integers(len(attribute.categories) if isinstance(attribute, Categorical) else 2, size=rows)
            )
    x = np.stack(columns, axis=1).astype(np.float64)
    x[rng.random(x.shape) < missing] = np.nan
    return torch.from_numpy(x)


@pytest.mark.parametrize("name", BY_SPFLOW)
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_log_likelihoods_are_spflows(name: str, missing: float) -> None:
    schema = CIRCUITS[name][0]
    template = compiled(name)
    assert template.num_sum_units > 1
    families = families_for(template, schema)
    _, log_prior = draw(template, 1)
    x = draw_rows(schema, 50, missing)
    assert bool(torch.isnan(x).any()) == (missing > 0)
    with torch.no_grad():
        columns = [Evidence(x).columns([column]) for column in range(len(families))]
        log_densities = [f.log_prob(f.natural(), column)[0] for f, column in zip(families, columns, strict=True)]
        ours = template.log_value(template.join(log_densities), log_prior.expand(50, -1, -1))
        theirs = spflow_circuit(template.structure, schema, families, log_prior[0].exp()).log_likelihood(x)
    assert theirs.dtype == torch.float64
    assert theirs.shape == (50, 1, 1, 1)
    assert -math.inf < ours.min() < ours.max()
    torch.testing.assert_close(ours, theirs.flatten(), rtol=1e-9, atol=1e-9)
