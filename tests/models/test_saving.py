"""Saved models: the same bits come back, a crash loses nothing, and what is not understood is refused, not executed."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from comparison import same
from forged import without_seal
from interruptions import Trap, save_until
from nested import drop, put
from safetensors.torch import load_file, save_file
from small_graphs import EVERY_KIND, draw_graphs
from torch import Tensor
from torch_geometric.data import Data

import gspn
from gspn import GSPN, Binary, Categorical, Schema
from gspn.circuits import Leaf, Product, Sum, Unit, random_circuit
from gspn.circuits.structure import circuit_to_json
from gspn.errors import CheckpointError, NotFittedError

GRAPHS = draw_graphs(6, seed=0, edge_types=3)
HELD_OUT = draw_graphs(3, seed=1, edge_types=3)


def shared_units() -> Unit:
    """A circuit in which one sum has two parents: sharing must survive."""
    charge, element, aromatic, hydrogens, degree = EVERY_KIND.names
    shared = Sum(Product(Leaf(element), Leaf(aromatic)), Product(Leaf(element), Leaf(aromatic)))
    rest = [Product(Leaf(hydrogens), Leaf(degree)) for _ in range(2)]
    return Sum(*(Product(Leaf(charge), shared, part) for part in rest))


VARIANTS: dict[str, dict[str, Any]] = {
    "every kind": {},
    "one level, one state": {"num_layers": 1, "num_states": 1},
    "shared units": {"template": shared_units()},
    "random circuit": {"template": random_circuit(EVERY_KIND, 2, depth=2, repetitions=2, seed=3)},
    "mean shortcut": {"num_layers": 3, "shortcut": "mean"},
    "learned shortcut": {"num_layers": 3, "shortcut": "learned"},
    "edge types": {"num_edge_types": 3, "objective": "masked", "mask_rate": 0.4},
    "numpy arguments": {"num_states": np.int64(3), "lr": np.float32(0.05), "clip": np.float64(1.0)},
}


def make(**arguments: Any) -> GSPN:
    return GSPN(EVERY_KIND, **{"num_layers": 2, "num_states": 2, "epochs": 2, "seed": 1} | arguments)


def settings(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = model.get_params(deep=False)
    found["template"] = None if found["template"] is None else circuit_to_json(found["template"])
    return found


# There and back.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_saved_model_comes_back(variant: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model = make(**VARIANTS[variant]).to(dtype).fit(GRAPHS, validation=HELD_OUT)
    model.save(tmp_path / "new" / "folder")
    before = torch.get_rng_state()
    loaded = gspn.load(str(tmp_path / "new" / "folder"), GSPN)
    assert torch.equal(torch.get_rng_state(), before)
    assert same(loaded, model)
    assert settings(loaded) == settings(model)
    assert loaded.history_ == model.history_
    assert loaded.leave_one_out_nll_ == model.leave_one_out_nll_
    for ours, theirs in zip(loaded.posteriors(GRAPHS), model.posteriors(GRAPHS), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(*(m.log_likelihood(GRAPHS[0], leave_one_out=True) for m in (loaded, model)))
    # It learns on like the original.
    assert same(*(m.fit(HELD_OUT, warm_start=True) for m in (loaded, model)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_unfitted_model_comes_back_unfitted(variant: str, tmp_path: Path) -> None:
    model = make(**VARIANTS[variant])
    model.save(tmp_path)
    loaded = gspn.load(tmp_path, GSPN)
    assert same(loaded, model)
    with pytest.raises(NotFittedError):
        loaded.embed(GRAPHS)
    assert same(loaded.fit(GRAPHS), model.fit(GRAPHS))


def test_categories_and_names_of_every_type_come_back(tmp_path: Path) -> None:
    schema = Schema([Categorical("Größe / size", ["klein", 'a "b"\\', "", 3, 2.5, False]), Binary("ja")])
    data = Data(x=torch.tensor([[0.0, 1.0], [5.0, 0.0], [torch.nan, 1.0]]), edge_index=torch.tensor([[0], [1]]))
    model = GSPN(schema, num_layers=2, num_states=2, epochs=1).fit(data)
    model.save(tmp_path)
    loaded = gspn.load(tmp_path, GSPN)
    assert loaded.schema == schema
    assert list(map(type, loaded.schema["Größe / size"].categories)) == [str, str, str, int, float, bool]  # type: ignore[union-attr]
    assert same(loaded, model)


def test_files_are_the_documented_two(tmp_path: Path) -> None:
    model = make().fit(GRAPHS)
    model.save(tmp_path)
    model.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "model.safetensors"]
    description = json.loads((tmp_path / "model.json").read_text())
    assert description["format"] == 1
    assert description["gspn"] == gspn.__version__
    assert set(load_file(tmp_path / "model.safetensors")) == set(model.hierarchy.state_dict())


# Crashes.


def which(folder: Path, models: dict[str, GSPN]) -> str:
    """The name of the model that the folder holds, complete."""
    loaded = gspn.load(folder, GSPN)
    found = [name for name, model in models.items() if same(loaded, model) and settings(loaded) == settings(model)]
    assert len(found) == 1, "a mixture"
    return found[0]


@pytest.fixture(scope="module")
def three() -> dict[str, GSPN]:
    """An old, a new and a newest model; the new one has the old one's structure, so that a mixture would load."""
    old, new, newest = make().fit(GRAPHS), make(seed=2).fit(GRAPHS), make(num_states=3).fit(GRAPHS)
    return {"old": old, "new": new, "newest": newest}


def test_crash_while_saving_leaves_the_old_or_the_new_model(three: dict[str, GSPN], tmp_path: Path) -> None:
    outcomes = []
    for moment in range(20):
        folder = tmp_path / str(moment)
        three["old"].save(folder)
        if not save_until(three["new"], folder, moment):
            break
        outcomes.append(which(folder, three))
    assert outcomes == sorted(outcomes, reverse=True), "first the old one, from some moment on the new one"
    assert {"old", "new"} == set(outcomes)
    assert len(outcomes) >= 4, "two files written and two put in place"
    assert which(folder, three) == "new"


def test_two_crashes_in_a_row_lose_nothing_either(three: dict[str, GSPN], tmp_path: Path) -> None:
    """What the first crash left must not be destroyed by the next attempt before there is something to replace it."""
    lost = []
    for first in range(20):
        for second in range(20):
            folder = tmp_path / f"{first}-{second}"
            three["old"].save(folder)
            crashed = save_until(three["new"], folder, first)
            between = which(folder, three)
            crashed_again = save_until(three["newest"], folder, second)
            try:
                assert which(folder, three) in ((between, "newest") if crashed_again else ("newest",))
            except CheckpointError:
                lost.append((first, second))
            three["old"].save(folder)
            assert which(folder, three) == "old"
            assert sorted(path.name for path in folder.iterdir()) == ["model.json", "model.safetensors"]
            if not crashed_again:
                break
        if not crashed:
            break
    assert not lost, f"after crashes at these two moments there is no model any more: {lost}"


def test_crash_of_the_very_first_save_is_no_model(three: dict[str, GSPN], tmp_path: Path) -> None:
    for moment in range(20):
        folder = tmp_path / str(moment)
        if not save_until(three["new"], folder, moment):
            break
        try:
            assert which(folder, three) == "new"
        except CheckpointError as error:
            assert str(folder) in str(error)  # noqa: PT017 (there may be a model already, or not yet)


# What is not understood.


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    make(template=shared_units()).fit(GRAPHS).save(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A saved model that the test may spoil."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


ATTRIBUTES = ("settings", "schema", "attributes")
TEMPLATE = ("settings", "template")

DESCRIPTIONS: dict[str, tuple[Callable[[Any], None], str]] = {
    "unknown key": (put("pickle", value="cos\nsystem\n"), "pickle"),
    "missing key": (drop("history"), "history"),
    "no format": (drop("format"), "does not describe a gspn model"),
    "later format": (put("format", value=2), "format 2, this version reads format 1"),
    "format as text": (put("format", value="1"), "format '1'"),
    "unknown model": (put("model", value="os.system"), "'os.system', which is not known"),
    "model of another type": (put("model", value=["GSPN"]), ""),
    "unknown dtype": (put("dtype", value="int8"), "'int8', which is not known"),
    "dtype of another type": (put("dtype", value=["float32"]), ""),
    "wrong dtype": (put("dtype", value="float64"), ""),
    "fitted as text": (put("fitted", value="false"), "fitted"),
    "history as number": (put("history", value=3), "history"),
    "no settings": (put("settings", value=None), ""),
    "settings as text": (put("settings", value="abc"), ""),
    "settings as list": (put("settings", value=[["schema", 1]]), ""),
    "unknown setting": (put("settings", "hooks", value=["os.system"]), "hooks"),
    "missing schema": (drop("settings", "schema"), "schema"),
    "schema as text": (put("settings", "schema", value="Schema([])"), "schema"),
    "no attributes": (put(*ATTRIBUTES, value=[]), "at least one attribute"),
    "unknown attribute kind": (put(*ATTRIBUTES, 0, "kind", value="angle"), "kind 'angle' is none of"),
    "attribute kind of another type": (put(*ATTRIBUTES, 0, "kind", value=["continuous"]), "kind"),
    "unknown key of an attribute": (put(*ATTRIBUTES, 0, "unit", value="e"), "unknown key 'unit'"),
    "attribute without name": (drop(*ATTRIBUTES, 0, "name"), "'name' is missing"),
    "categories as text": (put(*ATTRIBUTES, 1, "categories", value="CNO"), "categories"),
    "more categories than weights": (put(*ATTRIBUTES, 1, "categories", value=["C", "N", "O", "S"]), "raw_probs"),
    "other order of attributes": (lambda d: d["settings"]["schema"]["attributes"].reverse(), ""),
    "template as code": (put(*TEMPLATE, value="__import__('os').abort()"), ""),
    "empty template": (put(*TEMPLATE, value=[]), "empty"),
    "unknown unit": (put(*TEMPLATE, 0, "kind", value="eval"), "unit 0 .* not understood"),
    "unit of another type": (put(*TEMPLATE, 0, value=["leaf"]), ""),
    "unknown key of a unit": (put(*TEMPLATE, 0, "weights", value=[1]), "unit 0 .* not understood"),
    "unit below itself": (put(*TEMPLATE, -1, "children", value=[-1, 3]), "does not come before"),
    "children of another type": (put(*TEMPLATE, -1, "children", value=3), ""),
    "template without weights": (put(*TEMPLATE, value=None), ""),
    "more states than weights": (put("settings", "num_states", value=3), ""),
    "more levels than weights": (put("settings", "num_layers", value=3), "raw_"),
    "states as text": (put("settings", "num_states", value="2"), "num_states"),
    "negative seed": (put("settings", "seed", value=-1), "seed"),
    "endless seed": (put("settings", "seed", value=2**80), "seed"),
    "unknown objective": (put("settings", "objective", value="exec"), "objective"),
    "other tensors": (put("tensors", value="0" * 64), ""),
    "no tensors": (put("tensors", value=None), ""),
    "states beyond memory": (put("settings", "num_states", value=10**9), "raw_transitions: not"),
    "levels beyond memory": (put("settings", "num_layers", value=10**9), "raw_transitions: not"),
    "edge types beyond memory": (
        put("settings", "num_edge_types", value=10**9),
        "raw_transitions: not",
    ),
}


@pytest.mark.parametrize("what", DESCRIPTIONS)
def test_description_that_is_not_understood_is_refused(what: str, folder: Path) -> None:
    change, message = DESCRIPTIONS[what]
    path = folder / "model.json"
    description = without_seal(path)
    change(description)
    path.write_text(json.dumps(description))
    with pytest.raises(CheckpointError, match=rf"model\.json.*{message}"):
        gspn.load(folder)


def put_tensors(folder: Path, content: bytes) -> None:
    """Exchange the tensors and make the description vouch for them."""
    (folder / "model.safetensors").write_bytes(content)
    path = folder / "model.json"
    description = without_seal(path)
    description["tensors"] = hashlib.sha256(content).hexdigest()
    path.write_text(json.dumps(description))


def spoil(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def vouched(change: Callable[[bytes], bytes]) -> Callable[[Path], Any]:
    return lambda folder: put_tensors(folder, change((folder / "model.safetensors").read_bytes()))


def instead(content: bytes) -> Callable[[bytes], bytes]:
    return lambda _: content


def shorter(share: float) -> Callable[[bytes], bytes]:
    return lambda content: content[: int(share * len(content))]


def exchanged(folder: Path) -> None:
    """By those of another model, which would fit."""
    make(template=shared_units(), seed=5).fit(GRAPHS).save(folder / "other")
    shutil.copy(folder / "other" / "model.safetensors", folder / "model.safetensors")


NO_OBJECTS = [b"", b"{", b"[1, 2]", b"null", b'"GSPN"', b"\xff\xfe\x00", pickle.dumps({"format": 1}), b"[" * 100_000]
SHARES = (0.0, 0.3, 0.999)

DAMAGED: list[tuple[Callable[[Path], Any], str]] = [
    *((spoil("model.json", instead(content)), r"model\.json") for content in NO_OBJECTS),
    *((spoil("model.safetensors", shorter(share)), r"model\.safetensors") for share in SHARES),
    *((vouched(shorter(share)), r"model\.safetensors") for share in SHARES),
    (
        spoil("model.safetensors", lambda content: content[:-20] + bytes([content[-20] ^ 1]) + content[-19:]),
        r"model\.safetensors.*damaged or exchanged",
    ),
    (exchanged, r"model\.safetensors.*damaged or exchanged"),
    (lambda folder: (folder / "model.json").unlink(), r"model\.json"),
    (lambda folder: (folder / "model.safetensors").unlink(), r"model\.safetensors"),
    (
        lambda folder: folder.rename(folder.with_name("moved")),
        r"model\.json does not exist; gspn\.load takes the folder",
    ),
    (lambda folder: folder.rename(folder.with_name("a")) and folder.write_bytes(b""), r"model\.json does not exist"),
]


@pytest.mark.parametrize(("damage", "named"), DAMAGED, ids=[str(number) for number in range(len(DAMAGED))])
def test_damaged_files_are_refused(damage: Callable[[Path], Any], named: str, folder: Path) -> None:
    damage(folder)
    with pytest.raises(CheckpointError, match=named):
        gspn.load(folder)


TENSORS: dict[str, Callable[[Tensor, Tensor], dict[str, Tensor]]] = {
    "renamed": lambda prior, _: {"raw_posterior": prior},
    "lost": lambda *_: {},
    "one more": lambda prior, _: {"raw_prior": prior, "more": torch.zeros(1)},
    "another shape": lambda prior, _: {"raw_prior": prior.flatten()},
    "too wide": lambda prior, _: {"raw_prior": prior.double()},
    "rounded": lambda prior, _: {"raw_prior": prior.half()},
    "exchanged": lambda prior, transitions: {"raw_prior": transitions, "raw_transitions": prior},
    "three units": lambda prior, _: {"raw_prior": prior, "leaves.0._extra_state": torch.ones(3, dtype=torch.float64)},
}


@pytest.mark.parametrize("what", TENSORS)
def test_tensors_that_do_not_fit_are_refused(what: str, folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors |= TENSORS[what](tensors.pop("raw_prior"), tensors["raw_transitions"])
    save_file(tensors, folder / "changed")
    put_tensors(folder, (folder / "changed").read_bytes())
    with pytest.raises(CheckpointError, match=r"model\.safetensors does not fit .*model\.json.*(raw_|more|leaves\.0)"):
        gspn.load(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_weights_are_refused(value: float, folder: Path) -> None:
    """They would give answers that are NaN, without a word."""
    tensors = load_file(folder / "model.safetensors")
    tensors["raw_transitions"][0, 0, 0, 0, 0] = value
    save_file(tensors, folder / "changed")
    put_tensors(folder, (folder / "changed").read_bytes())
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged: raw_transitions has non-finite"):
        gspn.load(folder)


def test_flipped_bits_of_the_description_are_noticed(folder: Path) -> None:
    """A digit of the history, or of a setting that changes nothing but the numbers that are answered."""
    path = folder / "model.json"
    content = path.read_bytes()
    for place in range(0, len(content), 41):
        flipped = bytearray(content)
        flipped[place] ^= 1
        path.write_bytes(flipped)
        if json.loads(content) != _read_or_none(flipped):  # elsewhere than in the space between
            with pytest.raises(CheckpointError, match=r"model\.json"):
                gspn.load(folder)


def _read_or_none(content: bytes | bytearray) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "endless"])
def test_what_is_no_plain_file_is_refused(kind: str, name: str, folder: Path) -> None:
    (folder / name).unlink()
    match kind:
        case "folder":
            (folder / name).mkdir()
        case "pipe":
            os.mkfifo(folder / name)
        case "endless":
            (folder / name).symlink_to("/dev/zero")
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        gspn.load(folder)


def test_loading_executes_nothing(folder: Path, tmp_path: Path) -> None:
    trap = tmp_path / "executed"
    harmful = pickle.dumps(Trap(trap))
    put_tensors(folder, harmful)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is not readable as safetensors"):
        gspn.load(folder)
    torch.save(Trap(trap), tmp_path / "torch.pt")
    put_tensors(folder, (tmp_path / "torch.pt").read_bytes())
    with pytest.raises(CheckpointError, match=r"model\.safetensors is not readable as safetensors"):
        gspn.load(folder)
    assert not trap.exists()
    pickle.loads(harmful)
    assert trap.exists(), "the trap would have worked"
