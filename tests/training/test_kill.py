"""A run that is killed again and again, and started again each time, ends like one that was never killed.

The runs are processes of their own and die by SIGKILL: some from outside, after a random number of epochs and then a
random delay; some at the moments that matter most, which they reach by themselves. They are forked from a server that
has imported everything and done nothing yet, for that is most of the time of a new process.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from training import run_fit

import gspn
from gspn.files import PARTIAL

RANDOM = "some random moment"

KILLS: dict[str, list[tuple[str, int]]] = {
    "masked": [
        ("evaluation", 4),  # inside the first epoch, which has 5 batches
        (RANDOM, 0),
        ("checkpoint half written", 3),
        (RANDOM, 0),
        ("checkpoint not yet in place", 4),
        ("leave-one-out NLL", 1),  # all epochs done, the result not yet kept
    ],
    "pseudo": [
        ("initialisation", 2),  # n_init = 2: the second starting point
        ("checkpoint not yet in place", 1),  # the very first one
        (RANDOM, 0),
        ("checkpoint half written", 3),
        (RANDOM, 0),
    ],
}


Start = Callable[..., BaseProcess]


@pytest.fixture(scope="module")
def start() -> Start:
    """Begins a run; the server is started by the first one and finds modules where this process does."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([run_fit.__name__])
    paths = [Path(gspn.__file__).parents[1], Path(__file__).parents[1]]

    def begun(*arguments: Any) -> BaseProcess:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
            process = server.Process(target=run_fit.main, args=arguments)
            process.start()
        return process

    return begun


def epochs_kept(folder: Path) -> int:
    checkpoint = folder / "checkpoint.safetensors"
    if not checkpoint.exists():
        return 0
    with safe_open(checkpoint, framework="numpy") as file:
        epoch: int = json.loads(file.metadata()["note"])["progress"]["epoch"]
    return epoch


def run_and_kill(
    start: Start, objective: str, folder: Path, moment: str, number: int, rng: np.random.Generator
) -> None:
    """Start a run and see it die: at a moment of its own, or from outside at a random one."""
    process = start(objective, "never" if moment == RANDOM else moment, number, folder)
    if moment == RANDOM:
        wanted = epochs_kept(folder) + int(rng.integers(1, 5))
        while epochs_kept(folder) < wanted and process.is_alive():
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.1))  # an epoch takes about 0.04 s
        process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL, f"{moment} was never reached"


def run_to_the_end(start: Start, objective: str, *folders: Path) -> None:
    process = start(objective, "never", 0, *folders)
    process.join()
    assert process.exitcode == 0


def result(folder: Path) -> dict[str, Any]:
    """Everything that a run leaves behind, except how long it took."""
    description = json.loads((folder / "model" / "model.json").read_text())
    history = [{k: v for k, v in record.items() if k != "seconds"} for record in description["history"]]
    return {
        "weights": (folder / "model" / "model.safetensors").read_bytes(),
        "history": history,
        "results": description["results"],
    }


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.parametrize("objective", KILLS)
def test_killed_run_ends_like_one_never_killed(objective: str, start: Start, tmp_path: Path) -> None:
    killed, never_killed = tmp_path / "killed", tmp_path / "never killed"
    rng = np.random.default_rng(1)
    kept: list[int] = []
    for moment, number in KILLS[objective]:
        run_and_kill(start, objective, killed, moment, number, rng)
        kept.append(epochs_kept(killed))
        assert not (killed / "model").exists()
        if moment == "checkpoint half written":
            partial = max(killed.glob(PARTIAL), key=lambda path: path.stat().st_mtime_ns)
            assert partial.stat().st_size < (killed / "checkpoint.safetensors").stat().st_size
    assert kept[0] == 0, "the first kill comes before the first epoch ends"
    assert kept == sorted(kept)
    assert len(set(kept)) >= 4, f"most kills come after new epochs, {kept}"
    run_to_the_end(start, objective, killed, never_killed)
    expected, found = result(never_killed), result(killed)
    assert kept[-1] <= len(expected["history"])
    assert found["history"] == expected["history"]
    assert found["results"] == expected["results"]
    assert found["weights"] == expected["weights"]
    if objective == "masked":
        validation = [record["validation"] for record in expected["history"]]
        assert len(validation) == int(np.argmin(validation)) + 13 < 200, (
            "stopped early, the best weights are not the last"
        )
        assert np.isfinite(expected["results"]["leave_one_out_nll"])
        assert kept[-1] == len(validation)
