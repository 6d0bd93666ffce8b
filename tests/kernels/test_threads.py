"""Threads of compiled code: every task once, in forked children and without OpenMP too."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np
import pytest
import torch
from small_graphs import EVERY_KIND, draw_graphs
from small_models import random_model, values_and_gradients

from gspn import GSPN
from gspn.compiling import compiled
from gspn.graphs.batch import Batch
from gspn.kernels.compiled import threads
from gspn.kernels.compiled.threads import Team, parts, side_by_side, team


@compiled
def _note(number: int, at_hand: Team, counts: Any, scale: float) -> None:
    counts[number] += scale * at_hand.threads


@compiled
def _count(at_hand: Team, tasks: int, counts: Any) -> None:
    side_by_side(_note, at_hand.start, tasks, (at_hand, counts, 0.5))


@pytest.mark.parametrize("tasks", [0, 1, 2, 3, 17])
@pytest.mark.parametrize("start", [True, False])
def test_every_task_once(tasks: int, start: bool) -> None:
    counts = np.zeros(20)
    _count(Team(team().start if start else 0, 4, 1), tasks, counts)
    assert counts.tolist() == [2.0] * tasks + [0.0] * (20 - tasks)


@compiled
def _fail_at(number: int, counts: Any, failing: int) -> None:
    if number == failing:
        raise ValueError("this task fails")
    counts[number] += 1


@compiled
def _failing(start: int, tasks: int, counts: Any, failing: int) -> None:
    side_by_side(_fail_at, start, tasks, (counts, failing))


@pytest.mark.parametrize("start", [True, False])
def test_a_failure_in_a_thread_is_an_error_after_all_others_are_done(start: bool) -> None:
    """Otherwise numbers that were never computed would look like results."""
    counts = np.zeros(5)
    with pytest.raises(MemoryError, match="failed in a thread"):
        _failing(team().start if start else 0, 5, counts, 3)
    assert counts.tolist() == [1, 1, 1, 0, 1]


def test_as_many_threads_as_the_work_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    at_hand = team()
    assert at_hand.threads == (3 if at_hand.start else 1)
    assert [parts(Team(1, 3, 100), amount) for amount in (0, 99, 100, 250, 10**9)] == [1, 1, 1, 2, 3]


def case() -> tuple[GSPN, Batch]:
    model = random_model(EVERY_KIND, num_layers=4, num_states=5)
    return model, model.collate(draw_graphs(40, seed=1, sizes=(5, 20)))


def test_without_openmp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 10)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    model, batch = case()
    expected = values_and_gradients(model, batch)
    monkeypatch.setattr(threads, "_start", 0)
    assert team() == Team(0, 1, 10)
    for ours, theirs in zip(values_and_gradients(model, batch), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_in_a_forked_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child has none of its parent's threads: it must not wait for them."""
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 10)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    model, batch = case()
    expected = values_and_gradients(model, batch)
    child = os.fork()
    if child == 0:
        close = [
            torch.allclose(a, b, rtol=1e-10) for a, b in zip(values_and_gradients(model, batch), expected, strict=True)
        ]
        os._exit(0 if all(close) else 1)
    end = time.monotonic() + 120
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child waits for threads that it does not have")
        time.sleep(0.05)
