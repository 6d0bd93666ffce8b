"""The suite of leaves on atoms beside Gaussians, alone and together, of every covariance and with a context."""

from __future__ import annotations

import pytest
from atom_cases import CASES

from gspn.testing import LeafSuite


@pytest.mark.parametrize("check", LeafSuite.checks())
@pytest.mark.parametrize("name", CASES)
def test_with_atoms(name: str, check: str) -> None:
    LeafSuite.on(case=CASES[name])().run(check)
