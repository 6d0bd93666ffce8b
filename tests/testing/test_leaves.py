"""The suite of leaves on the library's own families, and on one for which gaps are evidence."""

from __future__ import annotations

import pytest
from leaf_cases import CASES, INFORMATIVE

from gspn.testing import LeafSuite


@pytest.mark.parametrize("check", LeafSuite.checks())
@pytest.mark.parametrize("name", CASES)
def test_built_in(name: str, check: str) -> None:
    LeafSuite.on(case=CASES[name])().run(check)


class TestInformativeGaussian(LeafSuite):
    case = INFORMATIVE
