"""Which kernel is used where, and that the fast one works wherever Python code may run."""

from __future__ import annotations

import logging
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from small_graphs import EVERY_KIND, draw_graphs
from small_models import hand_made, random_model, values_and_gradients
from torch import Tensor

from gspn import GSPN
from gspn.circuits import Evidence
from gspn.errors import InputError
from gspn.graphs.batch import Batch
from gspn.kernels.compiled.distinct import distinct_rows
from gspn.kernels.registry import kernel_for


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GSPN_KERNEL", raising=False)


def kernel_used(model: GSPN, batch: Batch) -> str:
    hierarchy = model.hierarchy
    climb = hierarchy.climb(Evidence(batch.visible), batch, hierarchy.prior(), hierarchy.transitions())
    return kernel_for(climb).name


def test_the_fast_kernel_is_the_default_on_the_cpu() -> None:
    model = random_model(EVERY_KIND)
    assert kernel_used(model, model.collate(draw_graphs(2, seed=0))) == "fast"


def test_chosen_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(EVERY_KIND)
    monkeypatch.setenv("GSPN_KERNEL", "reference")
    assert kernel_used(model, model.collate(draw_graphs(2, seed=0))) == "reference"


def test_other_circuits_take_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(EVERY_KIND, template=hand_made(EVERY_KIND, 3))
    batch = model.collate(draw_graphs(2, seed=0))
    assert kernel_used(model, batch) == "reference"
    monkeypatch.setenv("GSPN_KERNEL", "fast")
    with pytest.raises(InputError, match="GSPN_KERNEL=fast: the fast kernel computes naive Bayes templates"):
        model(batch)


def test_an_unknown_kernel_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(EVERY_KIND)
    batch = model.collate(draw_graphs(2, seed=0))
    monkeypatch.setenv("GSPN_KERNEL", "quick")
    with pytest.raises(InputError, match="GSPN_KERNEL must be one of fast, reference, or unset; it is 'quick'"):
        model(batch)


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (torch.zeros(2, device="meta"), "works on the CPU, not on the device 'meta'"),
        (torch.zeros(2, dtype=torch.bfloat16), "computes in float32 or float64, not in torch.bfloat16"),
        (torch.zeros(2).as_subclass(type("Other", (Tensor,), {})), "needs plain tensors, not a Other"),
    ],
)
def test_where_the_fast_kernel_cannot_work(tensor: Tensor, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(EVERY_KIND)
    batch, hierarchy = model.collate(draw_graphs(2, seed=0)), model.hierarchy
    climb = hierarchy.climb(Evidence(batch.visible), batch, tensor, hierarchy.transitions())
    assert kernel_for(climb).name == "reference"
    monkeypatch.setenv("GSPN_KERNEL", "fast")
    with pytest.raises(InputError, match=f"GSPN_KERNEL=fast: the fast kernel {reason}"):
        kernel_for(climb)


def test_transformations_of_torch_take_the_reference() -> None:
    """torch.func, derivatives in forward mode and tracing: same values, no error, and fast by name is refused."""
    model = random_model(EVERY_KIND).double()
    batch = model.collate(draw_graphs(2, seed=0))
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss(given: dict[str, Tensor]) -> Tensor:
        total: Tensor = torch.func.functional_call(model, given, (batch,)).log_likelihood.sum()
        return total

    model(batch).log_likelihood.sum().backward()
    gradients = torch.func.grad(loss)(parameters)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-9, atol=1e-9)
    tangents = {name: torch.ones_like(value) for name, value in parameters.items()}
    slope = torch.func.jvp(loss, (parameters,), (tangents,))[1]
    torch.testing.assert_close(slope, sum(value.sum() for value in gradients.values()), rtol=1e-9, atol=1e-9)


def test_fast_by_name_is_refused_under_transformations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSPN_KERNEL", "fast")

    model = random_model(EVERY_KIND)
    batch, hierarchy = model.collate(draw_graphs(2, seed=0)), model.hierarchy

    def ask(prior: Tensor) -> Tensor:
        kernel_for(hierarchy.climb(Evidence(batch.visible), batch, prior, hierarchy.transitions()))
        return prior.sum()

    with pytest.raises(InputError, match=r"the fast kernel cannot be transformed by torch\.func"):
        torch.func.grad(ask)(hierarchy.prior().detach())


def large_case() -> tuple[GSPN, Batch]:
    model = random_model(EVERY_KIND, num_layers=6, num_states=10).float()
    return model, model.collate(draw_graphs(150, seed=1, sizes=(10, 40)))


def run_in_child(connection: multiprocessing.connection.Connection) -> None:
    # Two threads for the kernel only: torch's own would wait for each other on a busy machine.
    torch.get_num_threads = lambda: 2
    connection.send([value.numpy() for value in values_and_gradients(*large_case())])


def test_in_a_spawned_process() -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=run_in_child, args=(there,))
    child.start()
    assert here.poll(300)
    found = here.recv()
    child.join(60)
    assert child.exitcode == 0
    for ours, theirs in zip(values_and_gradients(*large_case()), found, strict=True):
        torch.testing.assert_close(ours, torch.from_numpy(theirs), rtol=1e-4, atol=1e-4)


def test_from_several_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    model, batch = large_case()
    expected = values_and_gradients(model, batch)
    results: dict[int, list[Tensor]] = {}

    def work(number: int) -> None:
        for _ in range(5):
            results[number] = values_and_gradients(model, batch)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    for found in results.values():
        assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("usable", [True, False])
def test_compiled_where_nothing_is_kept_yet(usable: bool, tmp_path: Path) -> None:
    """The first call says what it does; a folder that takes no files is no error."""
    folder = tmp_path / "cache"
    if not usable:
        folder.write_text("a file where the folder should be")
    script = (
        "import logging, torch; logging.basicConfig(level=logging.INFO)\n"
        "from torch_geometric.data import Data; import gspn\n"
        "model = gspn.GSPN(gspn.Schema([gspn.Binary('a')]), num_layers=2, num_states=2)\n"
        "batch = model.collate([Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))])\n"
        "model(batch).log_likelihood.sum().backward()\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if usable:
        assert "compiling the loop up the levels" in done.stderr


def test_nothing_is_said_once_it_is_compiled(caplog: pytest.LogCaptureFixture) -> None:
    values_and_gradients(*large_case())
    with caplog.at_level(logging.INFO):
        values_and_gradients(*large_case())
    assert "compiling" not in caplog.text


def test_distinct_rows() -> None:
    x = torch.tensor([[1.0, 2.0], [torch.nan, 2.0], [1.0, 2.0], [2.0, 1.0], [torch.nan, 2.0]] * 20, dtype=torch.float64)
    rows, number = distinct_rows(x)
    assert number is not None
    assert torch.equal(rows.nan_to_num(-1), x[[0, 1, 3]].nan_to_num(-1))
    assert torch.equal(rows[number.long()].nan_to_num(-1), x.nan_to_num(-1))


@pytest.mark.parametrize("size", [0, 1, 3, 1000])
def test_rows_that_differ_are_left_alone(size: int) -> None:
    x = torch.arange(size, dtype=torch.float64)[:, None]
    rows, number = distinct_rows(x)
    if number is not None:
        assert size == 0
    assert torch.equal(rows, x)
