"""The suite of leaves on Gaussians over several attributes."""

from __future__ import annotations

import pytest
from correlated_cases import CASES

from gspn.testing import LeafSuite


@pytest.mark.parametrize("check", LeafSuite.checks())
@pytest.mark.parametrize("name", CASES)
def test_correlated(name: str, check: str) -> None:
    LeafSuite.on(case=CASES[name])().run(check)
