"""Columns that follow from others: single precision bears them, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gspn import GSPN, Continuous, Schema

NAMES = "abcdef"


def copies_of_a_column(exact: bool) -> Data:
    """The same number six times, up to a thousandth where it is not exact, and some gaps."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(80, 1)), len(NAMES), axis=1)
    x = x + (0.0 if exact else 1e-3) * rng.normal(size=x.shape)
    x[rng.random(x.shape) < 0.1] = np.nan
    ends = rng.integers(80, size=(2, 160))
    return Data(x=torch.from_numpy(x), edge_index=torch.from_numpy(ends[:, ends[0] != ends[1]]))


def model(covariance: str, **settings: Any) -> GSPN:
    usual: dict[str, Any] = {"num_layers": 2, "num_states": 2, "context": "neighbours", "start": "em", "epochs": 0}
    return GSPN(Schema([Continuous(name) for name in NAMES]), covariance=covariance, **{**usual, **settings})


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("covariance", ["full", "shrunk", "tied", "low_rank"])
def test_single_precision_bears_them(covariance: str, exact: bool) -> None:
    """Training goes on from what EM has found, and what it leaves behind is taken back: covariances have a factor."""
    data = copies_of_a_column(exact)
    fitted = model(covariance, epochs=3, lr=0.01).fit(data, progress=False)
    assert torch.isfinite(fitted.log_likelihood(data)).all()
    again = model(covariance).set_parameters(fitted.get_parameters())
    assert torch.isfinite(again.log_likelihood(data)).all()


@pytest.mark.parametrize("covariance", ["full", "tied", "low_rank"])
def test_single_and_double_precision_agree(covariance: str) -> None:
    """With the same parameters, rounded to single precision: a covariance is their product in double."""
    data = copies_of_a_column(exact=False)
    fitted = model(covariance).fit(data, progress=False)
    found = fitted.log_likelihood(data)
    torch.testing.assert_close(found.double(), fitted.double().log_likelihood(data), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("covariance", ["full", "shrunk", "tied", "low_rank"])
def test_no_eigenvalue_falls_below_the_floor(covariance: str) -> None:
    """Nor by gradient descent on fewer rows than columns, where every direction but a few could narrow for ever."""
    schema = Schema([Continuous(name) for name in "abcdefghijkl"])
    rows = torch.randn(6, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    data = Data(x=rows, edge_index=torch.zeros(2, 0, dtype=torch.long))
    fitted = GSPN(schema, num_layers=1, num_states=2, covariance=covariance, start="em", epochs=20, lr=0.1)
    fitted.fit(data, progress=False)
    units = torch.stack([fitted.get_parameters()["units"][name][1] for name in schema.names])
    leaves = fitted.get_parameters()["leaves"][tuple(schema.names)]
    if covariance == "low_rank":
        found = leaves["loadings"] @ leaves["loadings"].mT + torch.diag_embed(leaves["noise"])
    else:
        found = leaves["covariance"]
    assert float(torch.linalg.eigvalsh(found / (units[:, None] * units)).min()) > 0.99e-6
