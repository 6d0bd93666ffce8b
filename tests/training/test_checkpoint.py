"""Checkpoints: a run that stops and goes on is the run that never stopped; another run's file is refused.

What happens to processes that are killed is tested in `test_kill`.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from comparison import losses, same
from interruptions import Trap
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from small_graphs import EVERY_KIND, draw_graphs
from torch import Tensor

from gspn import GSPN, Continuous, Schema, load, pack
from gspn.errors import CheckpointError, GSPNError
from gspn.hierarchy import Hierarchy
from gspn.models import fitting as model_module
from gspn.training.checkpoint import Checkpoint, seal

GRAPHS = draw_graphs(12, seed=0)
HELD_OUT = draw_graphs(6, seed=1)


def make(**arguments: Any) -> GSPN:
    return GSPN(EVERY_KIND, **{"num_layers": 2, "num_states": 3, "epochs": 3, "batch_size": 5, "seed": 1} | arguments)


def note_of(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        note: dict[str, Any] = json.loads(file.metadata()["note"])
    return note


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
@pytest.mark.parametrize("kind", ["folder", "pipe", "endless"])
def test_what_is_no_plain_file_is_refused(kind: str, tmp_path: Path) -> None:
    """Reading a pipe would wait for ever, a link to a device would fill the memory."""
    path = tmp_path / "run.safetensors"
    match kind:
        case "folder":
            (path / "checkpoint.safetensors").mkdir(parents=True)
        case "pipe":
            os.mkfifo(path)
        case "endless":
            path.symlink_to("/dev/zero")
    with pytest.raises(CheckpointError, match=r"\.safetensors"):
        make().fit(GRAPHS, checkpoint=path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a finished run; tests that change it take a copy."""
    path = tmp_path_factory.mktemp("run") / "run.safetensors"
    make().fit(GRAPHS, validation=HELD_OUT, checkpoint=path)
    return path


@pytest.fixture
def checkpoint(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(finished, tmp_path / "run.safetensors"))


# Going on.


@pytest.mark.parametrize("validation", [None, HELD_OUT], ids=["last weights", "best weights"])
@pytest.mark.parametrize("objective", ["pseudo", "masked", "leave_one_out"])
def test_more_epochs_go_on_and_end_like_one_long_run(objective: str, validation: Any, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"objective": objective, "lr": 0.05, "n_init": 2}
    path = tmp_path / "run.safetensors"
    for epochs in (0, 1, 4, 6):  # each from the checkpoint of the one before, by a new model
        stepwise = make(epochs=epochs, **arguments).fit(GRAPHS, validation=validation, checkpoint=path)
        at_once = make(epochs=epochs, **arguments).fit(GRAPHS, validation=validation)
        assert same(stepwise, at_once)
        assert losses(stepwise) == losses(at_once)
        assert len(stepwise.history_) == epochs
        assert stepwise.leave_one_out_nll_ == at_once.leave_one_out_nll_
        assert (stepwise.leave_one_out_nll_ is None) == (validation is None)


def test_more_epochs_go_on_from_the_last_weights_not_from_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = [3.0, 4.0, 5.0, 2.0]
    path = tmp_path / "run.safetensors"
    remaining = iter(scripted)
    monkeypatch.setattr(model_module, "mean_loss", lambda *_: next(remaining))
    first = make(epochs=3).fit(GRAPHS, validation=HELD_OUT, checkpoint=path)
    longer = make(epochs=4).fit(GRAPHS, validation=HELD_OUT, checkpoint=path)
    monkeypatch.undo()
    assert same(first, make(epochs=1).fit(GRAPHS))
    assert same(longer, make(epochs=4).fit(GRAPHS))


def test_epochs_already_done_are_not_done_again(checkpoint: Path) -> None:
    kept = note_of(checkpoint)["progress"]["history"]
    longer = make().fit(GRAPHS, validation=HELD_OUT, checkpoint=checkpoint, epochs=5)
    assert longer.history_[:3] == kept, "seconds included"
    assert len(longer.history_) == 5


@pytest.mark.parametrize("epochs", [3, 2])
def test_finished_run_returns_at_once(epochs: int, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when fewer epochs are asked for than are there."""
    expected = make().fit(GRAPHS, validation=HELD_OUT)
    before = checkpoint.read_bytes()

    def computed(*_: Any) -> None:
        raise AssertionError("something was computed")

    monkeypatch.setattr(Hierarchy, "forward", computed)
    model = make().fit(GRAPHS, validation=HELD_OUT, checkpoint=checkpoint, epochs=epochs)
    assert same(model, expected)
    assert model.history_ == note_of(checkpoint)["progress"]["history"]
    assert model.leave_one_out_nll_ == expected.leave_one_out_nll_
    assert checkpoint.read_bytes() == before


def test_run_that_stopped_early_stays_stopped(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    arguments: dict[str, Any] = {"objective": "masked", "lr": 0.05, "patience": 3}
    first = make(epochs=60, **arguments).fit(GRAPHS, validation=HELD_OUT, checkpoint=path)
    assert len(first.history_) < 60
    longer = make(epochs=100, **arguments).fit(GRAPHS, validation=HELD_OUT, checkpoint=path)
    assert longer.history_ == first.history_
    assert same(longer, first)


def test_no_starting_point_is_drawn_where_there_is_a_checkpoint(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = make(epochs=4).fit(GRAPHS, validation=HELD_OUT)
    monkeypatch.delattr(Hierarchy, "initialise")
    assert same(make(epochs=4).fit(GRAPHS, validation=HELD_OUT, checkpoint=checkpoint), expected)


def test_goes_on_although_the_present_weights_are_others(checkpoint: Path) -> None:
    """What counts is the checkpoint, not what the model happened to hold before."""
    model = make().fit(HELD_OUT, epochs=1)
    model.fit(GRAPHS, validation=HELD_OUT, checkpoint=checkpoint, epochs=4)
    assert same(model, make(epochs=4).fit(GRAPHS, validation=HELD_OUT))


def test_same_content_in_other_form_is_the_same_run(checkpoint: Path) -> None:
    """A list, a tuple and a part of a packed dataset."""
    model = make(epochs=4).fit(
        pack(GRAPHS + HELD_OUT, EVERY_KIND)[:12], validation=tuple(HELD_OUT), checkpoint=str(checkpoint)
    )
    assert same(model, make(epochs=4).fit(GRAPHS, validation=HELD_OUT))


def test_warm_start_goes_on_too(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    start = make().fit(GRAPHS)
    start.save(tmp_path / "start")
    load(tmp_path / "start", GSPN).fit(HELD_OUT, warm_start=True, checkpoint=path, epochs=2)
    continued = load(tmp_path / "start", GSPN).fit(HELD_OUT, warm_start=True, checkpoint=path, epochs=4)
    assert same(continued, start.fit(HELD_OUT, warm_start=True, epochs=4))
    with pytest.raises(CheckpointError, match=r"belongs to another run .*starting weights: "):
        continued.fit(HELD_OUT, warm_start=True, checkpoint=path, epochs=4)
    with pytest.raises(CheckpointError, match=r"belongs to another run .*starting weights: "):
        make().fit(HELD_OUT, checkpoint=path, epochs=4)


def test_checkpoint_may_be_a_folder_or_in_a_new_one(tmp_path: Path) -> None:
    make(epochs=1).fit(GRAPHS, checkpoint=tmp_path)
    assert note_of(tmp_path / "checkpoint.safetensors")["progress"]["epoch"] == 1
    make(epochs=1).fit(GRAPHS, checkpoint=tmp_path / "new" / "folder" / "run")
    assert note_of(tmp_path / "new" / "folder" / "run")["progress"]["epoch"] == 1


def test_nothing_but_the_checkpoint_is_left_behind(tmp_path: Path) -> None:
    make(epochs=2).fit(GRAPHS, checkpoint=tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


# Another run's checkpoint.


def fit_with(checkpoint: Path, **changes: Any) -> None:
    graphs, validation = changes.pop("graphs", GRAPHS), changes.pop("validation", HELD_OUT)
    model = make(**changes.pop("structure", {}))
    if changes.pop("double", False):
        model = model.double()
    model.fit(graphs, validation=validation, checkpoint=checkpoint, **changes)


def changed(graphs: list[Any]) -> list[Any]:
    """The same graphs, except for one entry of one vertex."""
    changed_graph = graphs[3].clone()
    changed_graph.x[0, 0] = 0.125
    return [*graphs[:3], changed_graph, *graphs[4:]]


def rewired(graphs: list[Any]) -> list[Any]:
    changed_graph = graphs[3].clone()
    changed_graph.edge_index[0, 0] = (changed_graph.edge_index[0, 0] + 1) % 4
    return [*graphs[:3], changed_graph, *graphs[4:]]


OTHER_RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "other data": ({"graphs": changed(GRAPHS)}, "training data: '.* there, '.* here"),
    "other edges": ({"graphs": rewired(GRAPHS)}, "training data: "),
    "other order of graphs": ({"graphs": GRAPHS[::-1]}, "training data: "),
    "fewer graphs": ({"graphs": GRAPHS[:-1]}, "training data: "),
    "other validation": ({"validation": changed(HELD_OUT)}, "validation data: '.* there, '.* here"),
    "no validation": ({"validation": None}, "validation data: '.* there, None here"),
    "other lr": ({"lr": 0.25}, r"\(lr: 0.1 there, 0.25 here\)"),
    "other batch size": ({"batch_size": 6}, r"\(batch_size: 5 there, 6 here\)"),
    "other objective": ({"objective": "masked"}, r"\(objective: 'pseudo' there, 'masked' here\)"),
    "other seed": ({"seed": 2}, r"\(seed: 1 there, 2 here\)"),
    "other clip": ({"clip": 3.0}, r"\(clip: None there, 3.0 here\)"),
    "other weight decay": ({"weight_decay": 0.5}, r"\(weight_decay: 0.0 there, 0.5 here\)"),
    "other patience": ({"patience": 7}, r"\(patience: 50 there, 7 here\)"),
    "other number of starting points": ({"n_init": 2}, r"\(n_init: 1 there, 2 here\)"),
    "other dtype": ({"double": True}, r"\(dtype: 'torch.float32' there, 'torch.float64' here\)"),
    "other levels": ({"structure": {"num_layers": 3}}, r"\(num_layers: 2 there, 3 here\)"),
    "other states": ({"structure": {"num_states": 4}}, r"\(num_states: 3 there, 4 here\)"),
    "other shortcut": ({"structure": {"shortcut": "mean"}}, r"\(shortcut: None there, 'mean' here\)"),
    "two things": ({"lr": 0.25, "seed": 2}, r"\(lr: 0.1 there, 0.25 here; seed: 1 there, 2 here\)"),
}


@pytest.mark.parametrize("what", OTHER_RUNS)
def test_checkpoint_of_another_run_is_refused(what: str, checkpoint: Path) -> None:
    changes, named = OTHER_RUNS[what]
    before = checkpoint.read_bytes()
    with pytest.raises(CheckpointError, match=rf"run\.safetensors belongs to another run .*{named}.* start afresh"):
        fit_with(checkpoint, **changes)
    assert checkpoint.read_bytes() == before


def test_other_schema_is_another_run(checkpoint: Path) -> None:
    schema = Schema([Continuous("charge", floor=1e-2), *list(EVERY_KIND)[1:]])
    with pytest.raises(CheckpointError, match=r"belongs to another run \(schema: "):
        GSPN(schema, num_layers=2, num_states=3, epochs=3, batch_size=5, seed=1).fit(
            GRAPHS, validation=HELD_OUT, checkpoint=checkpoint
        )


# Files that are no checkpoints, or no longer.


def rewrite(path: Path, change: Callable[[dict[str, Tensor], dict[str, Any]], Any]) -> None:
    """Change tensors and note of a checkpoint, and write it as a valid safetensors file."""
    tensors, note = load_file(path), note_of(path)
    change(tensors, note)
    note["digest"] = seal(tensors, note)
    save_file(tensors, path, metadata={"note": json.dumps(note)})


def test_foreign_files_are_refused_and_not_executed(checkpoint: Path, tmp_path: Path) -> None:
    trap = tmp_path / "executed"
    for content in (b"epoch,loss\n0,1.5\n", pickle.dumps(Trap(trap)), bytes(1000)):
        checkpoint.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"run\.safetensors is not readable as safetensors"):
            fit_with(checkpoint)
    torch.save({"epoch": 3}, checkpoint)
    with pytest.raises(CheckpointError, match=r"run\.safetensors is not readable as safetensors"):
        fit_with(checkpoint)
    assert not trap.exists()
    pickle.loads(pickle.dumps(Trap(trap)))
    assert trap.exists(), "the trap would have worked"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "is not a checkpoint of this library"),
        ({"note": "{}"}, "is not a checkpoint of this library"),
        ({"note": "[1, 2]"}, "is not a checkpoint of this library"),
        ({"note": '{"format": 2, "identity": {}, "progress": {}, "more": 1}'}, "is not a checkpoint of this library"),
        ({"note": "{"}, "is not valid JSON"),
    ],
)
def test_foreign_safetensors_are_refused(metadata: Any, message: str, checkpoint: Path) -> None:
    save_file({"weight": torch.ones(3)}, checkpoint, metadata=metadata)
    with pytest.raises(CheckpointError, match=rf"run\.safetensors {message}|the note in .*run\.safetensors {message}"):
        fit_with(checkpoint)


def test_flipped_bits_anywhere_are_noticed(checkpoint: Path) -> None:
    """A disk's error in the middle of a tensor, or in a loss of the note, leaves a readable file; training must not go
    on from it, nor end early without a word."""
    content, identity = checkpoint.read_bytes(), note_of(checkpoint)["identity"]
    length = int.from_bytes(content[:8], "little")
    for place in [*range(8, 8 + length, 97), *range(8 + length, len(content), 331)]:
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        checkpoint.write_bytes(flipped)
        with pytest.raises(CheckpointError, match=r"run\.safetensors"):
            Checkpoint(checkpoint, identity).read()


CHANGES: dict[str, Callable[[dict[str, Tensor], dict[str, Any]], Any]] = {
    "no weight": lambda tensors, note: tensors.pop("module/raw_prior"),
    "no best weight": lambda tensors, note: tensors.pop("best/raw_prior"),
    "no moment": lambda tensors, note: tensors.pop("optimizer/0/exp_avg"),
    "one more tensor": lambda tensors, note: tensors.update({"more/weights": torch.ones(2)}),
    "another shape": lambda tensors, note: tensors.update({"module/raw_prior": torch.ones(7)}),
    "no history": lambda tensors, note: note["progress"].pop("history"),
    "more progress": lambda tensors, note: note["progress"].update(more=1),
    "epoch as text": lambda tensors, note: note["progress"].update(epoch="two"),
    "identity as number": lambda tensors, note: note.update(identity=3),
    "format 1, this version reads 2": lambda tensors, note: note.update(format=1),
    "a record without loss": lambda tensors, note: note["progress"]["history"][1].pop("validation"),
    "a loss as text": lambda tensors, note: note["progress"]["history"][1].update(train="low"),
    "a number as record": lambda tensors, note: note["progress"]["history"].__setitem__(1, 3),
    "epochs in another order": lambda tensors, note: note["progress"]["history"].reverse(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_incomplete_checkpoint_is_refused(what: str, checkpoint: Path) -> None:
    rewrite(checkpoint, CHANGES[what])
    with pytest.raises(CheckpointError, match=rf"run\.safetensors.*{what if 'format' in what else ''}"):
        fit_with(checkpoint, epochs=4)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999, None])
def test_a_damaged_file_is_refused(share: float | None, checkpoint: Path) -> None:
    """Cut off, or with a disk's error in the middle of a tensor, which leaves a readable file."""
    content = checkpoint.read_bytes()
    flipped = content[:-100] + bytes([content[-100] ^ 0x40]) + content[-99:]
    checkpoint.write_bytes(flipped if share is None else content[: int(share * len(content))])
    with pytest.raises(
        CheckpointError, match=r"run\.safetensors " + ("" if share is None else "is not readable as safetensors")
    ):
        fit_with(checkpoint)


def test_checkpoint_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises((OSError, GSPNError), match="file"):
        make(epochs=1).fit(GRAPHS, checkpoint=tmp_path / "file" / "run")
