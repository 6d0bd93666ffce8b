"""ReLU and sums over graphs in one pass do what torch does in several; batches stand in one place."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gspn.errors import GSPNError
from gspn.predictors.embeddings import PackedEmbeddings, Space
from gspn.predictors.heads import rectified_sums

PTR = torch.tensor([0, 3, 3, 4, 9])
"""The second graph has no vertices."""


def in_several_operations(z: Tensor) -> Tensor:
    graph = torch.repeat_interleave(PTR.diff())
    return z.new_zeros(4, z.shape[1]).index_add(0, graph, z.relu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients(dtype: torch.dtype) -> None:
    """To the bit: the same numbers are added in the same order. A value of 0 has no gradient, and NaN stays NaN."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(9, 5, generator=generator, dtype=dtype)
    z[0, 0], z[5, 2] = 0.0, torch.nan
    z.requires_grad_()
    found, wanted = rectified_sums(z, PTR), in_several_operations(z)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
    # A gradient that is a transposed view, as the next layer gives it.
    outer = torch.randn(5, 4, generator=generator, dtype=dtype).t()
    (one,), (other,) = (torch.autograd.grad(value, z, outer) for value in (found, wanted))
    torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def test_second_derivatives_are_refused() -> None:
    z = torch.randn(9, 5, generator=torch.Generator().manual_seed(1), requires_grad=True)
    (gradient,) = torch.autograd.grad(rectified_sums(z, PTR).square().sum(), z, create_graph=True)
    with pytest.raises(GSPNError):
        torch.autograd.grad(gradient.sum(), z)


def test_batches_stand_where_the_one_before_stood() -> None:
    rows, space = PackedEmbeddings(torch.arange(18.0).view(9, 2), PTR), Space()
    first = rows.batch(torch.tensor([3, 0]), space)
    place = first.values.data_ptr()
    second = rows.batch(torch.tensor([2, 1, 0]), space)
    assert second.values.data_ptr() == place
    assert torch.equal(second.values, rows.values[[3, 0, 1, 2]])
    assert second.ptr.tolist() == [0, 1, 1, 4]
    alone = rows.batch(torch.tensor([3]))
    assert alone.values.data_ptr() != place
    larger = rows.batch(torch.tensor([0, 3, 0, 3]), space)
    assert torch.equal(larger.values, rows.values[[0, 1, 2, 4, 5, 6, 7, 8, 0, 1, 2, 4, 5, 6, 7, 8]])
