"""The compiled mixture agrees with plain torch, in values and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gspn import Binary, Categorical, Schema
from gspn.circuits.evidence import Evidence
from gspn.circuits.leaves import leaves_for
from gspn.circuits.templates import NaiveBayes, inputs_of
from gspn.kernels.compiled.distinct import distinct_inputs
from gspn.kernels.compiled.mixture import log_mixture

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def assert_close(found: Tensor, wanted: Tensor) -> None:
    assert found.shape == wanted.shape
    if wanted.numel():
        assert (found - wanted).abs().max() <= TOLERANCE[wanted.dtype] * wanted.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("rows", "states", "densities"), [(32, 128, 3), (1, 1, 1), (0, 5, 3), (50, 13, None), (300, 7, 20)]
)
def test_agrees_with_plain_torch(dtype: torch.dtype, rows: int, states: int, densities: int | None) -> None:
    torch.manual_seed(0)
    log_prior = torch.log_softmax(3 * torch.randn(rows, states, dtype=dtype), dim=-1).requires_grad_()
    # Columns one after another, as a transposed table has them.
    log_density = (5 * torch.randn(states, densities or rows, dtype=dtype)).T.requires_grad_()
    y = torch.randn(rows, 2, dtype=torch.float64)
    y[1::5], y[::3, 0] = torch.nan, torch.nan
    evidence = None if densities is None else torch.randint(densities, (rows,), dtype=torch.int32)
    of_rows = log_density if evidence is None else log_density[evidence.long()]
    wanted = torch.logsumexp(log_prior + of_rows, dim=-1).masked_fill(torch.isnan(y).all(1), 0.0)
    found = log_mixture(log_prior, log_density, evidence, y)
    assert_close(found, wanted)
    assert bool((found[torch.isnan(y).all(1)] == 0).all())
    given = torch.randn(rows, dtype=dtype)
    for ours, plain in zip(
        torch.autograd.grad(found, (log_prior, log_density), given),
        torch.autograd.grad(wanted, (log_prior, log_density), given),
        strict=True,
    ):
        assert_close(ours, plain)


def test_nothing_is_lost_far_from_zero() -> None:
    log_prior = torch.log_softmax(torch.tensor([[0.0, 100.0, -100.0]]), dim=-1)
    log_density = torch.tensor([[-1e4, -2e4, -1e4]])
    wanted = torch.logsumexp((log_prior + log_density).double(), dim=-1).float()
    assert torch.equal(log_mixture(log_prior, log_density, None, torch.zeros(1, 1, dtype=torch.float64)), wanted)


@pytest.mark.parametrize("attribute", [Categorical("a", [0, 1, 2]), Binary("a"), Categorical("a", list(range(500)))])
def test_rows_of_a_table_stand_for_distinct_evidence(attribute: Categorical | Binary) -> None:
    torch.manual_seed(0)
    values = len(attribute.categories) if isinstance(attribute, Categorical) else 2
    x = torch.randint(values, (200, 1)).double()
    x[::7] = torch.nan
    template, family = NaiveBayes(Schema([attribute]), 4), leaves_for(attribute, 3, 4)
    naturals = [family.natural()]
    inputs, number = distinct_inputs(template, [family], naturals, Evidence(x))
    at_rows = inputs if number is None else inputs[:, number.long()]
    assert torch.equal(at_rows, inputs_of(template, [family], naturals, Evidence(x)))
    assert number is None or inputs.shape[1] <= len(x) // 2
