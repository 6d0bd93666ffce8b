"""A small fitted model and the graphs it was fitted to, for tests of what is refused."""

from __future__ import annotations

import copy

import pytest
from small_graphs import draw_graphs
from small_models import small_model
from torch_geometric.data import Data

from gspn import GSPN


@pytest.fixture(scope="module")
def graphs() -> list[Data]:
    return draw_graphs(6, seed=0, missing=0.1)


@pytest.fixture(scope="module")
def fitted(graphs: list[Data]) -> GSPN:
    """Shared by the tests that only ask; those that train take a copy."""
    return small_model().fit(graphs, progress=False)


@pytest.fixture
def own(fitted: GSPN) -> GSPN:
    return copy.deepcopy(fitted)
