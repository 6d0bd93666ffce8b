"""What these tests register is known to them alone: every test has registries of its own."""

from __future__ import annotations

import pytest

from gspn.attributes import DISTRIBUTIONS
from gspn.circuits.leaves import registry as leaves
from gspn.hierarchy import aggregation as aggregations
from gspn.kernels import registry as kernels


@pytest.fixture(autouse=True)
def own_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaves, "_FAMILIES", dict(leaves._FAMILIES))
    monkeypatch.setattr(leaves, "DISTRIBUTIONS", {kind: list(names) for kind, names in DISTRIBUTIONS.items()})
    monkeypatch.setattr(aggregations, "_AGGREGATIONS", dict(aggregations._AGGREGATIONS))
    monkeypatch.setattr(kernels, "_KERNELS", dict(kernels._KERNELS))
