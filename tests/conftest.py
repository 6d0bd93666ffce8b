"""What every test may use: the folder of real data, reproducible property tests, the number of threads, registries of
its own, a browser (`browser.py`).

There is no global seed: a test that draws passes its seed itself.
"""

from __future__ import annotations

import builtins
import logging
import os
from collections.abc import Generator
from pathlib import Path

import pytest
import torch
from browser import browser, page
from hypothesis import settings

__all__ = ["browser", "page"]  # fixtures

collect_ignore = ["extension"]  # a distribution of its own, with its own tests: see testing/test_extension.py

# "ci" draws the same examples every time and is the default; to look for new failures:
# pytest --hypothesis-profile=explore
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=1000)
settings.load_profile("ci")

# Torch reads the variable only once, when it starts its threads; a plugin may have started them already.
if threads := os.environ.get("OMP_NUM_THREADS"):
    torch.set_num_threads(int(threads.split(",")[0]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Commands set how messages are shown for the rest of the process, and Ray replaces `print`: both are put back."""
    loggers, shown = [logging.getLogger(name) for name in ("gspn", "gspn.kernels")], builtins.print
    before = [(list(logger.handlers), logger.level) for logger in loggers]
    try:
        return (yield)
    finally:
        for logger, (handlers, level) in zip(loggers, before, strict=True):
            logger.handlers[:] = handlers
            logger.setLevel(level)
        builtins.print = shown


@pytest.fixture
def own_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that a test registers are known to that test alone."""
    from gspn import attributes
    from gspn.circuits.leaves import registry as leaves
    from gspn.hierarchy import aggregation as aggregations
    from gspn.kernels import registry as kernels

    distributions = {kind: list(names) for kind, names in attributes.DISTRIBUTIONS.items()}
    for module in (attributes, leaves):
        monkeypatch.setattr(module, "DISTRIBUTIONS", distributions)
    monkeypatch.setattr(leaves, "_FAMILIES", dict(leaves._FAMILIES))
    monkeypatch.setattr(aggregations, "_AGGREGATIONS", dict(aggregations._AGGREGATIONS))
    monkeypatch.setattr(kernels, "_KERNELS", dict(kernels._KERNELS))


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data sets; a test that uses it is marked `data`."""
    if named := os.environ.get("GSPN_DATA_ROOT"):
        folder = Path(named)
        if not folder.is_dir():
            pytest.fail(f"GSPN_DATA_ROOT={named} is no folder")
        return folder
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not beside.is_dir():
        pytest.skip("no data: set GSPN_DATA_ROOT to the folder that holds the data sets")
    return beside


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where CI=true, a test on real data that is skipped has failed: there the data must be at hand."""
    report = yield
    expected_to_fail = hasattr(report, "wasxfail")  # pytest calls that skipped, too
    in_ci = os.environ.get("CI", "").lower() == "true"
    if in_ci and report.skipped and not expected_to_fail and item.get_closest_marker("data"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"a test marked `data` must not be skipped where CI=true. {reason}"
    return report
