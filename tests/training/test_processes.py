"""Several processes started by `torchrun` train like one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from comparison import OF_PROCESSES
from training.run_together import CASES, EPOCHS, EVALUATED_AT_ONCE, fit

import gspn
from gspn.training import loop

SCRIPT = Path(__file__).with_name("run_together.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def run_two_processes(folder: Path) -> tuple[int, str]:
    """The script under `torchrun` with two processes; gives the return code and what was printed."""
    paths = [Path(gspn.__file__).parents[1], Path(__file__).parents[1]]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    process = subprocess.Popen(
        [*launcher, "--master-addr", "127.0.0.1", "--master-port", str(free_port()), str(SCRIPT), str(folder)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=300)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return process.returncode, printed


def assert_same_run(found: gspn.GSPN, expected: gspn.GSPN, tolerance: float) -> None:
    """Equal loss curves, results and parameters."""
    names = [set(record) for record in found.history_]
    assert names == [{"epoch", "train", "validation", "seconds"}] * len(expected.history_)
    for name in ("epoch", "train", "validation"):
        curves = [torch.tensor([r[name] for r in m.history_], dtype=torch.float64) for m in (found, expected)]
        torch.testing.assert_close(*curves, rtol=0, atol=tolerance, msg=f"{name} differs")
    assert found.leave_one_out_nll_ == pytest.approx(expected.leave_one_out_nll_, rel=0, abs=tolerance)
    mine, theirs = found.state_dict(), expected.state_dict()
    assert set(mine) == set(theirs)
    for name, value in mine.items():
        torch.testing.assert_close(value, theirs[name], rtol=0, atol=tolerance)


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="this build of torch cannot join processes")
def test_two_processes_train_like_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_EVALUATED_AT_ONCE", EVALUATED_AT_ONCE)
    code, printed = run_two_processes(tmp_path)

    for name, arguments in CASES.items():
        assert (tmp_path / name / "0" / "model.json").exists(), f"{name} did not come to its end:\n{printed}"
        ranks = [gspn.load(tmp_path / name / rank, gspn.GSPN) for rank in ("0", "1")]
        alone = fit(arguments)
        assert len(alone.history_) == EPOCHS
        assert len({record["validation"] for record in alone.history_}) == EPOCHS, "nothing was learned"
        assert_same_run(ranks[0], alone, OF_PROCESSES)
        assert_same_run(ranks[1], ranks[0], 0.0)  # every process ends with the same bits

    # A checkpoint of two processes is continued by one.
    whole = fit(CASES["masked"])
    checkpoint = tmp_path / "two epochs.safetensors"
    assert len(gspn.load(tmp_path / "two epochs" / "0", gspn.GSPN).history_) == 2
    continued = fit(CASES["masked"], checkpoint=checkpoint)
    assert_same_run(continued, whole, OF_PROCESSES)
    seconds = [record["seconds"] for record in continued.history_[:2]]
    kept = [record["seconds"] for record in gspn.load(tmp_path / "two epochs" / "0", gspn.GSPN).history_]
    assert seconds == kept, "the first two epochs are those of the two processes"

    # All processes continue from the same epoch, also while one of them is still busy with writing it.
    assert code == 0, printed
    for rank in ("0", "1"):
        assert_same_run(gspn.load(tmp_path / "again" / rank, gspn.GSPN), whole, OF_PROCESSES)
