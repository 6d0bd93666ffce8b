"""Trees among the regressions of a label: deaf to the own label, saved, checked, and of use where nothing is linear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from forged import without_seal
from numpy.typing import NDArray
from torch_geometric.data import Data

import gspn
from gspn import Binary, Categorical, Continuous, Schema, SupervisedGSPN
from gspn.errors import CheckpointError, InputError
from gspn.files import read_tensors
from gspn.hierarchy.label_readout import KINDS, LabelReadout
from gspn.models import label_growing
from gspn.models.label_choice import LabelFit

SCHEMA = Schema([Continuous("u"), Continuous("w")])
TARGETS = Schema([Categorical("kind", ["a", "b", "c"]), Binary("warm")])


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_growing, "_FOREST", 10)
    monkeypatch.setattr(label_growing, "_BOOSTED", 5)
    monkeypatch.setattr(label_growing, "_FEWEST", 5)


def chequered(seed: int = 0, n: int = 90) -> tuple[Data, NDArray[np.float64]]:
    """Labels that follow from attributes as no line does; a graph with cycles, loops and parallel edges."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 2))
    y = np.stack([1.0 * (x[:, 0] * x[:, 1] > 0) + (x[:, 0] > 0.7), x[:, 0] > 0], axis=1)
    ends = rng.integers(n, size=(2, 2 * n))
    ends = np.concatenate([ends, ends[:, :20], np.tile(np.arange(5), (2, 1)), ends[::-1, :n]], axis=1)
    return Data(x=torch.from_numpy(x), edge_index=torch.from_numpy(ends)), y


def with_labels(graph: Data, y: NDArray[np.float64]) -> Data:
    found = graph.clone()
    found.y = torch.from_numpy(y)
    return found


def readout_of(model: SupervisedGSPN) -> LabelReadout:
    assert isinstance(model.readout, LabelReadout)
    return model.readout


@pytest.fixture
def grown() -> tuple[SupervisedGSPN, Data, NDArray[np.float64]]:
    """A model that uses nothing but its trees, whatever they are good for."""
    graph, y = chequered()
    known = np.where(np.random.default_rng(1).random(y.shape) < 0.8, y, np.nan)
    model = SupervisedGSPN(SCHEMA, TARGETS, num_layers=1, num_states=2, target_level="vertex", hidden=0)
    trees = torch.tensor([float(kind.trees) for kind in KINDS.values()])
    chosen = {name: 1.0 for name, kind in KINDS.items() if kind.trees}
    fit = LabelFit(chosen, (trees / trees.sum()).expand(2, -1))
    patch = pytest.MonkeyPatch()
    patch.setattr("gspn.models.label_learning.exams", lambda *arguments: iter(()))
    patch.setattr("gspn.models.label_learning.weighed", lambda *arguments: fit)
    try:
        model.fit(with_labels(graph, known), progress=False)
    finally:
        patch.undo()
    return model, graph, known


Grown = tuple[SupervisedGSPN, Data, NDArray[np.float64]]


def test_the_own_label_changes_nothing_bit_for_bit(grown: Grown) -> None:
    model, graph, known = grown
    before = model.predictive(with_labels(graph, known))
    reached = 0
    for v in range(0, 90, 6):
        for other in ((known[v, 0] + 1) % 3, np.nan):
            changed = known.copy()
            changed[v, 0] = other
            changed[v, 1] = np.nan
            after = model.predictive(with_labels(graph, changed))
            for name in TARGETS.names:
                own, theirs = before[name].probs, after[name].probs  # type: ignore[index, union-attr]
                assert torch.equal(own[v], theirs[v])
                reached += int((own != theirs).sum())
    assert reached > 0


def test_saved_models_have_their_trees(grown: Grown, tmp_path: Path) -> None:
    model, graph, known = grown
    model.save(tmp_path)
    again: Any = gspn.load(tmp_path, SupervisedGSPN)
    asked = with_labels(graph, known)
    np.testing.assert_array_equal(model.predict(asked), again.predict(asked))
    again.save(tmp_path / "again")
    assert (tmp_path / "model.safetensors").read_bytes() == (tmp_path / "again" / "model.safetensors").read_bytes()
    fresh = SupervisedGSPN(**model.arguments())
    fresh.set_parameters(model.get_parameters())
    assert torch.equal(readout_of(fresh).log_prob(*asked_of(fresh)), readout_of(model).log_prob(*asked_of(fresh)))


def asked_of(model: SupervisedGSPN) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(20, readout_of(model).context.width + 1, generator=generator)
    z[:, -1] = 1.0
    return z, torch.ones(20, 2)


@pytest.mark.parametrize("fault", ["children", "columns", "roots", "present"])
def test_damaged_trees_are_refused(grown: Grown, fault: str, tmp_path: Path) -> None:
    """Walks must end, and nothing be read that is not there."""
    import hashlib
    import json

    from gspn.files import tensor_bytes

    model, _, _ = grown
    parameters = model.get_parameters()
    name = next(name for name in parameters["readout"] if name.endswith(f"each.0.tree_{fault}"))
    parameters["readout"][name] = parameters["readout"][name] + (0 if fault == "children" else 1000)
    if fault == "children":
        parameters["readout"][name][0] = 0
    with pytest.raises(InputError, match="trees of the readout"):
        model.set_parameters(parameters)
    model.save(tmp_path)
    tensors, _ = read_tensors(tmp_path / "model.safetensors")
    damaged: dict[str, Any] = {key: value.clone() for key, value in tensors.items()}
    own = damaged[f"readout.{name}"]
    damaged[f"readout.{name}"] = parameters["readout"][name].to(own.dtype)
    content = tensor_bytes(damaged)
    (tmp_path / "model.safetensors").write_bytes(content)
    description = without_seal(tmp_path / "model.json")
    description["tensors"] = hashlib.sha256(content).hexdigest()
    (tmp_path / "model.json").write_text(json.dumps(description))
    with pytest.raises(CheckpointError, match="trees that do not fit"):
        gspn.load(tmp_path)


def test_what_is_not_linear_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_growing, "_FOREST", 40)
    monkeypatch.setattr(label_growing, "_BOOSTED", 30)
    monkeypatch.setattr("gspn.models.label_exams._JUDGES", 120)
    graph, y = chequered(2, 300)
    known = np.where(np.random.default_rng(3).random(300) < 0.7, y[:, 0], np.nan)
    model = SupervisedGSPN(SCHEMA, TARGETS[0], num_layers=1, num_states=2, target_level="vertex", hidden=0)
    model.fit(with_labels(graph, known), progress=False)
    weights = dict(zip(KINDS, readout_of(model).weights.amax(0).tolist(), strict=True))
    assert sum(weights[name] for name, kind in KINDS.items() if kind.trees) > 0.5
    unknown = np.isnan(known)
    predicted = model.predict(with_labels(graph, known))
    assert np.mean((predicted == np.array(["a", "b", "c"])[y[:, 0].astype(int)])[unknown]) > 0.7


def test_numbers_have_no_trees() -> None:
    model = SupervisedGSPN(SCHEMA, Continuous("size"), num_layers=1, num_states=2, target_level="vertex")
    assert all(one.trees is None for one in readout_of(model))
