"""Saved heads: what is loaded is what was saved, and other files are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_embeddings import COLUMNS, GRAPHS, OTHER_SIGNAL, OTHERS, SIGNAL, every_target, fitted, labels, make

from gspn.errors import CheckpointError, NotFittedError
from gspn.files import read_tensors, tensor_bytes
from gspn.predictors import DeepSets
from gspn.predictors.heads import INPUTS
from gspn.targets import Target


@every_target
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_saved_and_loaded(target: Target, dtype: torch.dtype, tmp_path: Path) -> None:
    graphs = [graph.to(dtype) for graph in GRAPHS]
    head = make(target, epochs=2, lr=np.float32(0.01), seed=np.int64(3))
    head.fit(graphs, labels(target, SIGNAL), validation=(OTHERS, labels(target, OTHER_SIGNAL)), progress=False)
    head.save(tmp_path / "new" / "folder")
    loaded = DeepSets.load(str(tmp_path / "new" / "folder"))
    assert loaded.get_params() == head.get_params()
    assert loaded.history_ == head.history_
    assert (loaded.predict(OTHERS) == head.predict(OTHERS)).all()
    assert loaded.score(OTHERS, labels(target, OTHER_SIGNAL)) == head.score(OTHERS, labels(target, OTHER_SIGNAL))
    assert all(torch.equal(value, head.weights_[name]) for name, value in loaded.weights_.items())
    assert hasattr(loaded, "classes_") == hasattr(head, "classes_")


def test_an_unfitted_head_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        make().save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_saving_replaces_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = fitted(epochs=1), fitted(epochs=2)
    first.save(tmp_path)

    def fail(*_: Any) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        with pytest.raises(OSError, match="no space left"):
            second.save(tmp_path)
    assert len(DeepSets.load(tmp_path).history_) == 1
    second.save(tmp_path)
    assert len(DeepSets.load(tmp_path).history_) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "has format 99, this version reads format 1"),
        ({"model": "Forest"}, "does not describe a DeepSets"),
        ({"more": 1}, r"unknown or missing keys: \['more'\]"),
        ({"units": "m"}, "units must be a list"),
        ({"units": [[0.0, 1.0], [0.0, 1.0]]}, "units of shape"),
        ({"units": [["a", "b"]]}, "cannot be built"),
        ({"settings": {}}, "cannot be built"),
        ({"settings": {"target": {"kind": "binary", "name": "b"}}}, "does not fit its own description: tensors"),
        ({"settings": {"target": {"kind": "binary", "name": "b"}, "hidden": 0}}, "cannot be built: hidden must be"),
    ],
)
def test_files_that_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    fitted(epochs=1).save(tmp_path)
    (file,) = tmp_path.iterdir()
    tensors, note = read_tensors(file)
    file.write_bytes(tensor_bytes(tensors, json.loads(json.dumps(note)) | change))
    with pytest.raises(CheckpointError, match=message):
        DeepSets.load(tmp_path)


def test_no_file_or_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"does not exist; DeepSets\.load takes the folder that save wrote"):
        DeepSets.load(tmp_path)
    fitted(epochs=1).save(tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(CheckpointError, match="is not readable as safetensors"):
        DeepSets.load(tmp_path)


def test_heads_of_before_inputs_were_standardised(tmp_path: Path) -> None:
    """Their files have no statistics of inputs, which are then taken as they are."""
    head = fitted(epochs=2)
    head.weights_ |= {"input.mean": torch.zeros(COLUMNS), "input.deviation": torch.ones(COLUMNS)}
    head.save(tmp_path)
    (file,) = tmp_path.iterdir()
    tensors, note = read_tensors(file)
    for name in INPUTS:
        del tensors[name]
    file.write_bytes(tensor_bytes(tensors, note))
    assert (DeepSets.load(tmp_path).predict_proba(OTHERS) == head.predict_proba(OTHERS)).all()
    fitted(epochs=1).save(tmp_path)
    tensors, note = read_tensors(file)
    del tensors["input.mean"]
    file.write_bytes(tensor_bytes(tensors, note))
    with pytest.raises(CheckpointError, match=r"does not fit its own description: tensors input\.mean"):
        DeepSets.load(tmp_path)
