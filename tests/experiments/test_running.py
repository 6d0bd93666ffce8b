"""Running: everything is made once, whatever dies on the way, by whichever runner."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_experiments import FILL, Here

from gspn.errors import GSPNError, InputError
from gspn.experiments import circumstances, systems
from gspn.experiments.grids import parse_grid
from gspn.experiments.local import LocalRunner
from gspn.experiments.on_ray import RayRunner, largest_memory
from gspn.experiments.protocols import ModelSelection, contests
from gspn.experiments.records import Records
from gspn.experiments.running import Outcome, State, forget_failed, run
from gspn.experiments.runs import Piece
from gspn.experiments.systems import curve_of
from gspn.experiments.work import attempt, perform
from gspn.training import Checkpoint

TRAINED = ("scores", "curves")


def found(folder: Path) -> dict[str, Any]:
    """What was found, by key, without what varies between equal runs (times)."""
    return {record["key"]: {name: record[name] for name in TRAINED} for record in Records(folder).all()}


@pytest.fixture
def planned(toy: Path) -> list[ModelSelection]:
    return contests(parse_grid(FILL, "toy"))


def test_all_runs_are_made_once_and_then_never_again(planned: list[ModelSelection], tmp_path: Path) -> None:
    states: list[State] = []
    runner = Here(tmp_path)
    assert run(planned, Records(tmp_path), runner, states.append) == []
    assert sum(one.planned for one in planned) == len(found(tmp_path)) == 2 + 4 + 2
    assert len(runner.submitted) == 8
    assert (states[0].done, states[0].planned, states[-1].done) == (0, 8, 8)
    assert all(one.done <= other.done for one, other in itertools.pairwise(states))
    again = Here(tmp_path)
    assert run(planned, Records(tmp_path), again) == []
    assert again.submitted == []


def test_what_fails_does_not_stop_the_rest(planned: list[ModelSelection], tmp_path: Path) -> None:
    class Failing(Here):
        def outcome(self, piece: Piece) -> Outcome:
            if piece.runs[0].model == "GrownGSPN":
                return Outcome(piece, failure="no luck")
            return super().outcome(piece)

    failed = run(planned, Records(tmp_path), Failing(tmp_path))
    assert [outcome.failure for outcome in failed] == ["no luck"] * 2
    assert len(found(tmp_path)) == 6


def test_what_another_process_makes_is_waited_for(
    planned: list[ModelSelection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gspn.experiments.running._PAUSE", 0.01)

    class Busy(Here):
        refused = 0

        def outcome(self, piece: Piece) -> Outcome:
            if self.refused < 3:
                self.refused += 1
                return Outcome(piece)  # somebody else has it
            return super().outcome(piece)

    assert run(planned, Records(tmp_path), Busy(tmp_path)) == []
    assert len(found(tmp_path)) == 8


def test_a_piece_that_another_process_has_claimed_is_left_to_it(planned: list[ModelSelection], tmp_path: Path) -> None:
    piece = Piece(planned[0].finals(Records(tmp_path).get)[:1])
    with Records(tmp_path).claim(piece.key) as place:
        assert place is not None
        assert perform(piece, tmp_path) is None
    assert len(perform(piece, tmp_path) or ()) == 1


def test_records_come_home_from_machines_that_do_not_share_the_folder(
    planned: list[ModelSelection], tmp_path: Path
) -> None:
    assert run(planned, Records(tmp_path / "here"), Here(tmp_path / "there")) == []
    assert found(tmp_path / "here") == found(tmp_path / "there")


def test_training_that_fails_is_a_finding_until_it_is_to_be_tried_again(
    planned: list[ModelSelection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = systems.fit

    def diverging(name: str, model: Any, *rest: Any) -> Any:
        if model.num_states == 3:
            raise GSPNError("the loss became no number")
        return fit(name, model, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(systems, "fit", diverging)
        assert run(planned, Records(tmp_path), Here(tmp_path)) == []
    (mixture,) = [one for one in planned if one.row == "GMM"]
    winner = mixture.winner(Records(tmp_path).get)
    assert winner is not None
    assert winner.settings["num_states"] == 2
    records = Records(tmp_path)
    forget_failed(planned, records)
    again = Here(tmp_path)
    run(planned, records, again)
    assert [piece.runs[0].settings["num_states"] for piece in again.submitted][:1] == [3]


def test_failures_are_tried_again_on_machines_that_do_not_share_the_folder(
    planned: list[ModelSelection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"

    def diverging(*given: Any) -> Any:
        raise GSPNError("the loss became no number")

    with monkeypatch.context() as patch:
        patch.setattr(systems, "fit", diverging)
        run(planned, Records(here), Here(there))
    assert all("error" in record for record in Records(here).all())
    records = Records(here)
    forget_failed(planned, records)
    assert run(planned, records, Here(there)) == []
    assert len(found(here)) == 8
    assert not any("error" in record for record in Records(here).all())


def test_final_runs_that_failed_are_tried_again_too(planned: list[ModelSelection], tmp_path: Path) -> None:
    records = Records(tmp_path)
    run(planned, records, Here(tmp_path))
    final = planned[0].finals(records.get)[1]
    records.put({**(records.get(final.key) or {}), "error": "it diverged"})
    records = Records(tmp_path)
    forget_failed(planned, records)
    again = Here(tmp_path)
    run(planned, records, again)
    assert [piece.runs for piece in again.submitted] == [(final,)]


def test_a_checkpoint_that_does_not_fit_any_more_is_not_in_the_way(
    planned: list[ModelSelection], tmp_path: Path
) -> None:
    piece = Piece(planned[1].candidates[:1])
    with Records(tmp_path).claim(piece.key) as place:
        assert place is not None
        (place / "model.safetensors").write_bytes(b"of another time")
    assert len(perform(piece, tmp_path) or ()) == 1


@pytest.mark.parametrize("row", ["GMM", "GSPN_U"])
def test_training_goes_on_from_its_checkpoint(
    planned: list[ModelSelection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str
) -> None:
    """No epoch of before is trained again, whether the model is fitted once or grown from a mixture."""
    (one,) = [one for one in planned if one.row == row]
    piece = Piece(one.candidates[:1])
    (expected,) = perform(piece, tmp_path / "undisturbed") or [{}]
    write, written, stop = Checkpoint.write, list[tuple[str, int]](), True

    def noting(self: Checkpoint, tensors: Any, progress: dict[str, Any]) -> None:
        write(self, tensors, progress)
        written.append((self.path.name, progress["epoch"]))
        if stop and progress["epoch"] == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "write", noting)
    with pytest.raises(KeyboardInterrupt):
        perform(piece, tmp_path / "stopped")
    before, stop = list(written), False
    written.clear()
    (record,) = perform(piece, tmp_path / "stopped") or [{}]
    assert before[-1][1] == 1
    assert written
    assert not {epoch for epoch in written if epoch[1] > 0} & {*before}
    assert {name: record[name] for name in TRAINED} == {name: expected[name] for name in TRAINED}


def test_work_that_another_process_finished_meanwhile_is_no_failure(
    planned: list[ModelSelection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where files cannot be locked two may make the same: the first to finish clears the other's place away."""
    piece = Piece(planned[1].candidates[:1])
    made = perform(piece, tmp_path / "other")

    def overtaken(*given: Any) -> Any:
        for record in made or ():
            Records(tmp_path).put(record)
        Records(tmp_path).clear(piece.key)
        raise FileNotFoundError("the place of the checkpoint")

    monkeypatch.setattr(systems, "fit", overtaken)
    assert perform(piece, tmp_path) == made
    lonely = Piece(planned[1].candidates[1:2])
    with pytest.raises(FileNotFoundError):
        perform(lonely, tmp_path)


def test_failures_that_were_foreseen_are_said_in_a_line(
    planned: list[ModelSelection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece = Piece(planned[1].candidates[:1])
    for error, lines in ((InputError("num_states must be at least 1"), 1), (RuntimeError("no idea"), 3)):
        monkeypatch.setattr(systems, "fit", lambda *given, error=error: (_ for _ in ()).throw(error))
        found, failure = attempt(piece, tmp_path, None)
        assert found is None
        assert str(error) in (failure or "")
        assert len((failure or "").splitlines()) == 1 if lines == 1 else "Traceback" in (failure or "")


def test_the_commit_is_that_of_our_own_working_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed into an environment inside somebody's repository we are none of its files."""
    ours, theirs = tmp_path / "package" / "ours.py", tmp_path / "environment" / "theirs.py"
    for file in (ours, theirs):
        file.parent.mkdir()
        file.write_text("")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "package"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    monkeypatch.setattr(circumstances, "__file__", str(ours))
    assert (circumstances.commit() or "none").removesuffix("-dirty") == head[:12]
    monkeypatch.setattr(circumstances, "__file__", str(theirs))
    assert circumstances.commit() is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_a_failure_and_a_loss_that_is_none_a_gap(
    planned: list[ModelSelection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    piece = Piece(planned[1].candidates[:1])
    monkeypatch.setattr("gspn.experiments.filling.judge_missing", lambda *rest: {"nll per vertex": value})
    (record,) = perform(piece, tmp_path) or [{}]
    assert record["error"] == "a score is non-finite"
    assert record["scores"] == {}
    assert curve_of(SimpleNamespace(history_=[{"epoch": 0, "train": 1.5}, {"epoch": 1, "train": value}])) == {
        "epoch": [0.0, 1.0],
        "train": [1.5, None],
    }


# Processes.


@pytest.fixture
def undisturbed(planned: list[ModelSelection], tmp_path: Path) -> dict[str, Any]:
    assert run(planned, Records(tmp_path / "undisturbed"), Here(tmp_path / "undisturbed")) == []
    return found(tmp_path / "undisturbed")


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalRunner]:
    runner = LocalRunner(tmp_path / "local", workers=2)
    yield runner
    runner.close()


@pytest.mark.slow
def test_processes_find_the_same_and_one_that_dies_costs_its_own_piece(
    planned: list[ModelSelection], undisturbed: dict[str, Any], local: LocalRunner, tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill_one(state: State) -> None:
        if state.done >= 2 and not killed:
            for worker, _, _ in local._at_work.values():
                (number,) = worker._processes
                os.kill(number, signal.SIGKILL)
                killed.append(number)
                break

    assert run(planned, Records(tmp_path / "local"), local, kill_one) == []
    assert killed
    assert found(tmp_path / "local") == undisturbed


@pytest.mark.slow
def test_of_two_runs_on_one_folder_one_is_killed_and_nothing_is_made_twice_or_lost(
    toy: Path, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """The command itself, twice; the one that is killed takes its worker with it, the other one makes the rest."""
    grid, folder = tmp_path / "toy.toml", tmp_path / "results"
    grid.write_text(FILL)
    command = [sys.executable, "-m", "gspn.cli.main", "experiment", "run", "toy", "--grid", str(grid)]
    command += ["--results", str(folder), "--workers", "1", "--quiet"]
    versions: dict[str, set[int]] = {}

    def look() -> int:
        for path in folder.glob("records/*/*.json"):
            versions.setdefault(path.stem, set()).add(path.stat().st_mtime_ns)
        return len(versions)

    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as first,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as second,
    ):
        until = time.monotonic() + 300
        while look() < 2:
            assert first.poll() is None, first.stderr and first.stderr.read().decode()
            assert time.monotonic() < until
            time.sleep(0.01)
        first.kill()
        assert look() < 8
        while second.poll() is None:
            look()
            time.sleep(0.01)
        assert second.stdout is not None
        assert "8 of 8 training runs" in second.stdout.read()
    assert second.returncode == 0
    assert {key: len(times) for key, times in versions.items()} == dict.fromkeys(undisturbed, 1)
    Records(folder).compact()
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert "8 of 8 training runs" in done.stdout
    assert not list(folder.glob("records/*/*.json")), "nothing is made again"
    assert found(folder) == undisturbed
    assert (folder / "toy-toy" / "report.md").exists()


@pytest.mark.parametrize(("memory", "warned"), [(500, False), (2**50, True)])
def test_tasks_that_may_need_too_much_are_started_with_a_warning(
    planned: list[ModelSelection],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    memory: int,
    warned: bool,
) -> None:
    asked: list[int] = []

    def options(memory: int, name: str) -> Any:
        asked.append(memory)
        return SimpleNamespace(remote=lambda *task: "its reference")

    runner: Any = object.__new__(RayRunner)  # without a cluster
    runner._perform, runner._memory, runner._at_work = SimpleNamespace(options=options), 1000, {}
    runner._folder = runner._commit = runner._threads = None
    monkeypatch.setattr("gspn.experiments.on_ray.memory_of", lambda piece: memory)
    piece = Piece(planned[0].candidates)
    runner.submit(piece)
    assert asked == [min(memory, 1000)]
    assert runner._at_work == {"its reference": piece}
    assert ("which no node has" in caplog.text) == warned


def test_tasks_of_a_cluster_ask_for_no_more_than_a_node_has() -> None:
    def node(cpus: int, memory: float, alive: bool = True) -> dict[str, Any]:
        return {"Alive": alive, "Resources": {"CPU": float(cpus), "memory": memory}}

    nodes = [node(2, 8e9), node(4, 6e9), node(8, 64e9, alive=False), {"Alive": True, "Resources": {}}]
    assert [largest_memory(nodes, threads) for threads in (1, 2, 3)] == [8 * 10**9, 8 * 10**9, 6 * 10**9]
    with pytest.raises(GSPNError, match="no node of the Ray cluster has 5 processors, the largest has 4"):
        largest_memory(nodes, 5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_ray_finds_the_same_and_a_dead_worker_costs_its_own_task(
    planned: list[ModelSelection], undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    ray = pytest.importorskip("ray")
    runner = RayRunner(tmp_path / "ray", workers=2)
    killed: list[int] = []

    def kill_one(state: State) -> None:
        if state.done >= 2 and state.under_way and not killed:
            workers = _ray_workers(ray)
            if workers:
                os.kill(workers[0], signal.SIGKILL)
                killed.append(workers[0])

    try:
        assert run(planned, Records(tmp_path / "ray"), runner, kill_one) == []
    finally:
        runner.close()
    assert killed
    assert found(tmp_path / "ray") == undisturbed


def _ray_workers(ray: Any) -> list[int]:
    """Processes of this machine that work on our pieces for Ray."""
    pids = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and b"ray::TOY" in (folder / "cmdline").read_bytes():
                pids.append(int(folder.name))
        except OSError:
            continue
    return pids
