"""The rules that conftest.py sets: where the data is, and that a run under CI cannot skip it."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SKIPPING = """
    import pytest

    @pytest.mark.data
    def test_fixture(data_root):
        assert data_root.is_dir()

    @pytest.mark.data
    @pytest.mark.skip(reason="by mark")
    def test_mark():
        assert False

    @pytest.mark.data
    def test_call():
        pytest.skip("by call")

    @pytest.mark.data
    @pytest.mark.xfail(reason="known", strict=True)
    def test_known_failure():
        assert False

    def test_other():
        pytest.skip("needs no data")
"""


@pytest.fixture
def outcomes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with this project's conftest.py and tests that skip for every reason; no data is at hand."""
    monkeypatch.delenv("GSPN_DATA_ROOT", raising=False)
    pytester.makeini("[pytest]\nmarkers = data")
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(SKIPPING)
    return pytester


@pytest.mark.parametrize("ci", ["", "false"])
def test_without_ci_data_tests_skip(outcomes: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str) -> None:
    monkeypatch.setenv("CI", ci)
    result = outcomes.runpytest_inprocess("-rs", "-p", "no:cov")
    result.assert_outcomes(skipped=4, xfailed=1)
    result.stdout.fnmatch_lines(["SKIPPED*set GSPN_DATA_ROOT*"])


def test_in_ci_a_skipped_data_test_fails(outcomes: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    result = outcomes.runpytest_inprocess("-p", "no:cov")
    outcome = result.parseoutcomes()
    assert outcome.pop("failed", 0) + outcome.pop("errors", 0) == 3, "by fixture, by mark, by call"
    assert outcome == {"skipped": 1, "xfailed": 1}
    result.stdout.fnmatch_lines(["*must not be skipped where CI=true*by call*"])


def test_a_wrong_data_root_is_no_reason_to_skip(outcomes: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "")
    monkeypatch.setenv("GSPN_DATA_ROOT", "nowhere")
    result = outcomes.runpytest_inprocess("-p", "no:cov", "-k", "test_fixture")
    result.assert_outcomes(errors=1, deselected=4)
    result.stdout.fnmatch_lines(["*GSPN_DATA_ROOT=nowhere is no folder*"])


@pytest.mark.data
@pytest.mark.parametrize("folder", ["tu", "splits", "md17", "molecules"])
def test_data_root_has_the_known_layout(data_root: Path, folder: str) -> None:
    assert any((data_root / folder).iterdir())
