"""Saved stacks: the same answers, also in another process; crashes lose nothing; what is damaged is noticed."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from comparison import same
from forged import without_seal
from interruptions import save_until
from small_graphs import EVERY_KIND, draw_graph, draw_graphs
from small_models import hand_made, random_model

import gspn
from gspn import GSPN, Binary, Continuous, Schema, Stack, SupervisedGSPN
from gspn.errors import CheckpointError, InputError, NotFittedError

WEIGHTS = [0.1, 0.2, 0.7]
GRAPH = draw_graph(np.random.default_rng(0), 6, missing=0.3)


def stacked(seed: int = 0) -> Stack:
    """Of different kinds, dtypes and shapes."""
    supervised = SupervisedGSPN(EVERY_KIND, Binary("y"), num_layers=2, num_states=2, epochs=1, seed=seed)
    supervised.fit(draw_graphs(4, seed=0), [True, False] * 2, progress=False)
    return Stack(
        [
            random_model(EVERY_KIND, seed, guard=0.01),
            supervised,
            random_model(EVERY_KIND, seed + 1, num_layers=2, template=hand_made(EVERY_KIND, 3)),
        ],
        WEIGHTS,
    )


STACK = stacked()


def equal(one: object, other: Stack) -> bool:
    if not isinstance(one, Stack) or one.weights != other.weights or len(one.models) != len(other.models):
        return False
    return all(type(a) is type(b) and same(a, b) for a, b in zip(one.models, other.models, strict=True))


def test_a_stack_comes_back(tmp_path: Path) -> None:
    stack = Stack(STACK.models, WEIGHTS).keep_scores(draw_graphs(5, seed=1))
    stack.save(tmp_path / "new" / "folder")
    loaded = gspn.load(str(tmp_path / "new" / "folder"))
    assert isinstance(loaded, Stack)
    assert equal(loaded, stack)
    assert loaded.training_scores_ == stack.training_scores_
    assert torch.equal(loaded.log_likelihood(GRAPH), stack.log_likelihood(GRAPH))
    assert torch.equal(
        loaded.unusualness_of_vertices(GRAPH).nan_to_num(7), stack.unusualness_of_vertices(GRAPH).nan_to_num(7)
    )
    assert gspn.load(tmp_path / "new" / "folder", Stack).weights == stack.weights
    unranked = Stack(STACK.models)
    unranked.save(tmp_path / "other")
    again = gspn.load(tmp_path / "other", Stack)
    assert again.training_scores_ is None
    assert again.weights == (1 / 3, 1 / 3, 1 / 3)


def test_a_stack_comes_back_in_a_new_process(tmp_path: Path) -> None:
    STACK.save(tmp_path / "stack")
    torch.save((GRAPH.x, GRAPH.edge_index), tmp_path / "graph.pt")
    code = (
        "import sys, torch, gspn\n"
        "from torch_geometric.data import Data\n"
        "x, edge_index = torch.load(sys.argv[1] + '/graph.pt')\n"
        "graph = Data(x=x, edge_index=edge_index)\n"
        "stack = gspn.load(sys.argv[1] + '/stack')\n"
        "found = stack.log_likelihood(graph), stack.impute(graph).x, stack.conditional(graph, 'charge').interval(0.9)\n"
        "torch.save(found, sys.argv[1] + '/found.pt')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    likelihood, filled, interval = torch.load(tmp_path / "found.pt")
    torch.testing.assert_close(likelihood, STACK.log_likelihood(GRAPH), rtol=1e-9, atol=0)
    torch.testing.assert_close(filled, STACK.impute(GRAPH).x, rtol=1e-5, atol=0)
    charge: Any = STACK.conditional(GRAPH, "charge")
    torch.testing.assert_close(interval, charge.interval(0.9), rtol=1e-5, atol=1e-6)


def test_files_are_one_folder_and_nothing_else(tmp_path: Path) -> None:
    for seed in (0, 5, 5):
        stack = stacked(seed)
        stack.save(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {"model.json", "members"}
        members = list((tmp_path / "members").iterdir())
        assert len(members) == 3
        for member in members:
            assert {path.name for path in member.iterdir()} == {"model.json", "model.safetensors"}
            assert isinstance(gspn.load(member), GSPN), "a member is a model of its own"
        assert equal(gspn.load(tmp_path), stack)
    assert json.loads((tmp_path / "model.json").read_text())["format"] == 1


def test_the_same_model_twice_is_kept_once(tmp_path: Path) -> None:
    stack = Stack([STACK.models[0], STACK.models[0]], [0.25, 0.75])
    stack.save(tmp_path)
    assert len(list((tmp_path / "members").iterdir())) == 1
    assert equal(gspn.load(tmp_path), stack)


def test_a_folder_may_hold_a_model_and_then_a_stack_and_the_other_way_round(tmp_path: Path) -> None:
    model = random_model(EVERY_KIND, 9)
    for _ in range(2):
        model.save(tmp_path)
        assert same(gspn.load(tmp_path, GSPN), model)
        STACK.save(tmp_path)
        assert equal(gspn.load(tmp_path), STACK)
        assert not (tmp_path / "model.safetensors").exists()


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    (tmp_path / "members" / ("0" * 16)).mkdir(parents=True)
    for path in ("reading.json", "members/notes", f"members/{'0' * 16}/mine"):
        (tmp_path / path).write_text("kept")
    STACK.save(tmp_path)
    for path in ("reading.json", "members/notes", f"members/{'0' * 16}/mine"):
        assert (tmp_path / path).read_text() == "kept"


# ---- Crashes


@pytest.mark.parametrize("before", ["stack", "model"])
def test_a_crash_while_saving_leaves_the_old_or_the_new(before: str, tmp_path: Path) -> None:
    old: Stack | GSPN = STACK if before == "stack" else random_model(EVERY_KIND, 3)
    # One member is in both stacks.
    new, outcomes = Stack([STACK.models[0], random_model(EVERY_KIND, 8)]), []
    for moment in range(60):
        folder = tmp_path / str(moment)
        old.save(folder)
        if not save_until(new, folder, moment):
            break
        found = gspn.load(folder)
        is_old = equal(found, old) if isinstance(old, Stack) else isinstance(found, GSPN) and same(found, old)
        assert is_old or equal(found, new)
        outcomes.append(is_old)
        new.save(folder)
        assert equal(gspn.load(folder), new)
        assert len(list((folder / "members").iterdir())) == 2
    assert outcomes == sorted(outcomes, reverse=True), "first the old one, from some moment on the new one"
    assert set(outcomes) == {True, False}


def test_a_crash_while_a_model_takes_a_stacks_place(tmp_path: Path) -> None:
    model, outcomes = random_model(EVERY_KIND, 3), []
    for moment in range(20):
        folder = tmp_path / str(moment)
        STACK.save(folder)
        if not save_until(model, folder, moment):
            break
        found = gspn.load(folder)
        assert equal(found, STACK) if isinstance(found, Stack) else same(found, model)
        outcomes.append(isinstance(found, Stack))
    assert set(outcomes) == {True, False}


# ---- What is damaged, exchanged or not understood


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    STACK.save(tmp_path / "stack")
    return tmp_path / "stack"


def members_of(folder: Path) -> list[Path]:
    """In the order of the stack."""
    named = json.loads((folder / "model.json").read_text())["members"]
    return [folder / "members" / digest[:16] for digest in named]


@pytest.mark.parametrize("file", ["model.json", "model.safetensors"])
@pytest.mark.parametrize("number", range(3))
def test_a_damaged_member_is_noticed(number: int, file: str, folder: Path) -> None:
    path = members_of(folder)[number] / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"{path.parent.name}.*damaged or exchanged"):
        gspn.load(folder)


def test_exchanged_members_are_noticed(folder: Path, tmp_path: Path) -> None:
    """Of this stack, in the wrong place; and of another, although it would fit."""
    first, _, third = members_of(folder)
    first.rename(tmp_path / "first")
    shutil.copytree(third, first)
    with pytest.raises(CheckpointError, match="damaged or exchanged"):
        gspn.load(folder)
    shutil.rmtree(first)
    random_model(EVERY_KIND, 17, guard=0.01).save(first)
    with pytest.raises(CheckpointError, match="damaged or exchanged"):
        gspn.load(folder)


@pytest.mark.parametrize("file", ["model.json", "model.safetensors", ""])
def test_a_missing_file_is_named(file: str, folder: Path) -> None:
    member = members_of(folder)[1]
    shutil.rmtree(member) if not file else (member / file).unlink()
    with pytest.raises(CheckpointError, match=rf"{member.name}.*{file or 'model.json'}"):
        gspn.load(folder)


DESCRIPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "later format": ({"format": 2}, "format 2, this version reads format 1"),
    "unknown key": ({"pickle": "x"}, "unknown or missing keys: .*pickle"),
    "unknown model": ({"model": "Pile"}, "unknown or missing keys"),
    "members as text": ({"members": "abc"}, "members must be a list"),
    "no members": ({"members": [], "weights": []}, "at least one model"),
    "a member elsewhere": ({"members": ["../../elsewhere"], "weights": [1.0]}, "must be named by digests"),
    "a number as member": ({"members": [3], "weights": [1.0]}, "must be named by digests, got 3"),
    "too few weights": ({"weights": [0.5, 0.5]}, "3 models, but 2 weights"),
    "wrong weights": ({"weights": [0.5, 0.5, 0.5]}, "must sum to 1"),
    "weights as text": ({"weights": ["0.1", "0.2", "0.7"]}, "must be a number"),
    "scores of another type": ({"results": {"training_scores": 3}}, "training_scores must hold numbers"),
}


@pytest.mark.parametrize("what", DESCRIPTIONS)
def test_a_description_that_is_not_understood_is_refused(what: str, folder: Path) -> None:
    change, message = DESCRIPTIONS[what]
    path = folder / "model.json"
    path.write_text(json.dumps(without_seal(path) | change))
    with pytest.raises(CheckpointError, match=rf"model\.json.*{message}"):
        gspn.load(folder)


def vouch_for(folder: Path, number: int, content: bytes) -> None:
    """Put a description in a member's place and make the stack's name it."""
    path, digest = folder / "model.json", hashlib.sha256(content).hexdigest()
    description = without_seal(path)
    members_of(folder)[number].rename(folder / "members" / digest[:16])
    (folder / "members" / digest[:16] / "model.json").write_bytes(content)
    description["members"][number] = digest
    path.write_text(json.dumps(description))


def test_members_that_make_no_stack_are_refused(folder: Path, tmp_path: Path) -> None:
    member = members_of(folder)[0]
    description = without_seal(member / "model.json")
    vouch_for(folder, 0, json.dumps(description | {"fitted": False}).encode())
    with pytest.raises(
        CheckpointError, match=r"model\.json describes a stack that cannot be built: model 0 .* not fitted"
    ):
        gspn.load(folder)
    other = tmp_path / "other"
    random_model(Schema([Continuous("x")])).save(other)
    content = (other / "model.json").read_bytes()
    shutil.copy(other / "model.safetensors", members_of(folder)[0] / "model.safetensors")
    vouch_for(folder, 0, content)
    with pytest.raises(CheckpointError, match="cannot be built: the schema of model 1 is not that of model 0"):
        gspn.load(folder)
    STACK.save(tmp_path / "inner")
    vouch_for(folder, 0, (tmp_path / "inner" / "model.json").read_bytes())
    with pytest.raises(CheckpointError, match="describes a 'Stack', which is not known here"):
        gspn.load(folder)


def test_the_kind_that_is_needed_can_be_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"stack holds a Stack, but a GSPN is needed"):
        gspn.load(folder, GSPN)
    random_model(EVERY_KIND).save(tmp_path / "model")
    with pytest.raises(InputError, match="model holds a GSPN, but a SupervisedGSPN is needed"):
        gspn.load(tmp_path / "model", SupervisedGSPN)
    assert isinstance(gspn.load(members_of(folder)[1], SupervisedGSPN), SupervisedGSPN)


def test_only_what_is_fitted_is_saved(tmp_path: Path) -> None:
    stack = Stack([random_model(EVERY_KIND)])
    stack.models[0].set_params(num_states=2)
    with pytest.raises(NotFittedError, match="model 0 of the stack"):
        stack.save(tmp_path / "stack")
    assert not (tmp_path / "stack").exists()
