"""Two versions side by side: the interval's arithmetic, a run on small data, and what is refused. No times."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from small_experiments import write_toy

from gspn.benchmarks import versions
from gspn.benchmarks.__main__ import main
from gspn.benchmarks.measure import paired_ratio
from gspn.benchmarks.step import ModelSizes
from gspn.errors import GSPNError, InputError

HERE = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("level", [0.95, 0.5])
def test_the_interval_is_that_of_a_paired_t_test(level: float) -> None:
    rng = np.random.default_rng(0)
    old, new = np.exp(rng.normal(size=(2, 20)))
    logs = np.log(new) - np.log(old)
    expected = stats.ttest_rel(np.log(new), np.log(old)).confidence_interval(level)
    found = paired_ratio(old.tolist(), new.tolist(), level)
    np.testing.assert_allclose(found, np.exp([logs.mean(), expected.low, expected.high]), rtol=1e-12)
    assert paired_ratio([1.0, 2.0, 5.0], [2.0, 4.0, 10.0]) == pytest.approx((2, 2, 2))


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short measures on TOY; the reference kernel has nothing to compile."""
    monkeypatch.setenv("GSPN_DATA_ROOT", str(write_toy(tmp_path / "data")))
    monkeypatch.setenv("GSPN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GSPN_KERNEL", "reference")
    monkeypatch.setattr(versions, "SECONDS", 0.01)
    monkeypatch.setattr(versions, "THREADS", 1)
    monkeypatch.setattr(versions, "NAMES", ("TOY", "nowhere"))
    monkeypatch.setattr(versions, "USUAL", ModelSizes(num_layers=2, num_states=3, num_graph_states=4))


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_this_version_beside_itself(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["versions", "--old", str(HERE), "--rounds", "3", "--json"]) == 0
    printed, said = capfd.readouterr()
    rows = json.loads(printed)
    assert [(row["dataset"], row["measure"]) for row in rows] == [("TOY", what) for what in versions.MEASURES]
    for row in rows:
        assert 0 < row["95 % from"] <= row["new / old"] <= row["95 % to"]
        assert row["old ms"] > 0
        assert (row["rounds"], row["threads"]) == (3, 1)
    assert "nowhere is left out: there is no dataset 'nowhere'" in said


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_a_version_that_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    package = tmp_path / "broken" / "src" / "gspn"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('this version is broken')")
    with pytest.raises(GSPNError, match=r"the version in .*broken/src has ended; above it says why"):
        versions.run(tmp_path / "broken", rounds=2)
    assert "this version is broken" in capfd.readouterr().err


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"no checkout of this library: there is no src/gspn in it"):
        versions.run(tmp_path, data=["TOY"])
    with pytest.raises(InputError, match="at least 2 rounds, got 1"):
        versions.run(HERE, rounds=1)
    monkeypatch.setenv("GSPN_CACHE", str(tmp_path))
    monkeypatch.setattr(versions, "NAMES", ("nowhere",))
    with pytest.raises(InputError, match="none of the datasets is here"):
        versions.run(HERE)
    for arguments, words in (
        (["versions"], "versions needs --old CHECKOUT"),
        (["step", "--old", ".", "--rounds", "3"], "step takes no --old and no --rounds"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        assert words in capsys.readouterr().err
