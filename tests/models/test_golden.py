"""Models, heads and runs that earlier versions wrote must load for ever and say the same.

The files under `tests/golden` are never rewritten; a new format adds a folder and keeps the old ones. The names of the
tensors in them are part of the format. The expected numbers were computed in float32, so 1e-4 allows for another order
of summation but for nothing else; those after further epochs of training get 1e-3.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_distributions import as_table
from torch_geometric.data import Data

import gspn
from gspn.errors import CheckpointError
from gspn.training.checkpoint import FORMAT

GOLDEN = Path(__file__).parents[1] / "golden"
MODELS = ("format-1", "supervised-circuit", "supervised-linear", "circuit-shortcut", "gaps")


def golden_graph() -> Data:
    nan = float("nan")
    x = torch.tensor([[0.0, 1.5, 1.0, 3.0, 7.0], [2.0, nan, 0.0, 0.0, nan], [1.0, -2.0, nan, 12.0, 40.0], [nan] * 5])
    edges = torch.tensor([[0, 1, 1, 2, 2, 0, 3], [1, 0, 2, 1, 0, 2, 3]])
    return Data(x=x, edge_index=edges, edge_type=torch.tensor([0, 0, 1, 1, 0, 1, 0]))


def expected(folder: str) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads((GOLDEN / folder / "expected.json").read_text())
    return answers


def agree(found: Any, wanted: Any, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(
        torch.as_tensor(found).double(), torch.tensor(wanted).double(), rtol=tolerance, atol=tolerance
    )


def test_every_golden_folder_is_tested() -> None:
    assert {folder.name for folder in GOLDEN.iterdir()} == {*MODELS, "deep-sets", "checkpoint"}


@pytest.mark.parametrize("folder", MODELS)
def test_models_load_and_say_the_same(folder: str) -> None:
    model, answers, graph = gspn.load(GOLDEN / folder, gspn.GSPN), expected(folder), golden_graph()
    agree(model.log_likelihood(graph), answers["log_likelihood"])
    agree(model.log_likelihood(graph, leave_one_out=True), answers["leave_one_out"])
    agree(model.posteriors(graph).sum(0), answers["posteriors"])
    assert model.history_ == answers["history"]


@pytest.mark.parametrize("folder", MODELS)
def test_names_of_tensors_are_a_format(folder: str, tmp_path: Path) -> None:
    gspn.load(GOLDEN / folder).save(tmp_path)
    kept, written = (load_file(place / "model.safetensors") for place in (GOLDEN / folder, tmp_path))
    assert set(kept) == set(written)
    assert all(torch.equal(kept[name], written[name]) for name in kept)


@pytest.mark.parametrize("head", ["circuit", "linear"])
def test_supervised_models_predict_the_same(head: str) -> None:
    model, answers, graph = gspn.load(GOLDEN / f"supervised-{head}"), expected(f"supervised-{head}"), golden_graph()
    assert isinstance(model, gspn.SupervisedGSPN)
    agree(model.predict_proba([graph]), answers["predict_proba"])
    graph.y = torch.tensor([2.0])
    agree(model.log_prob([graph]), answers["log_prob"])


def test_a_general_circuit_answers_the_same() -> None:
    model = gspn.load(GOLDEN / "circuit-shortcut", gspn.GSPN)
    answers, graph = expected("circuit-shortcut"), golden_graph()
    agree(as_table(model.conditional(graph, "element")).probs, answers["element"])
    agree(model.conditional(graph, "charge").mean, answers["charge"])
    agree(model.impute(graph).x, answers["imputed"])
    agree(model.get_parameters()["shortcut"], answers["shortcut"])


def test_gaps_are_evidence_as_ever() -> None:
    model, answers = gspn.load(GOLDEN / "gaps", gspn.GSPN), expected("gaps")
    agree(model.impute(golden_graph()).x, answers["imputed"])
    leaves = model.get_parameters()["leaves"]
    assert set(leaves) == set(answers["gaps"])
    for name, gaps in answers["gaps"].items():
        agree(leaves[name]["gaps"], gaps)


def test_a_head_predicts_the_same() -> None:
    head, answers = gspn.DeepSets.load(GOLDEN / "deep-sets"), expected("deep-sets")
    asked = [torch.linspace(0, 1, 12).reshape(2, 6), torch.linspace(-1, 1, 18).reshape(3, 6)]
    agree(head.predict_proba(asked), answers["predict_proba"])
    assert head.predict(asked).tolist() == answers["predict"]


def kept_run(epochs: int) -> tuple[gspn.GSPN, list[Data]]:
    """The model and the graphs of the run that was stopped after three epochs."""
    schema = gspn.load(GOLDEN / "circuit-shortcut").schema
    model = gspn.GSPN(
        schema,
        num_layers=2,
        num_states=3,
        num_edge_types=2,
        objective="masked",
        epochs=epochs,
        batch_size=4,
        lr=0.05,
        seed=2,
    )
    graphs = []
    for one in json.loads((GOLDEN / "checkpoint" / "graphs.json").read_text()):
        rows = [[math.nan if value is None else value for value in row] for row in one["x"]]
        edges, types = torch.tensor(one["edge_index"]), torch.tensor(one["edge_type"])
        graphs.append(Data(x=torch.tensor(rows, dtype=torch.float64), edge_index=edges, edge_type=types))
    return model, graphs


def test_a_run_goes_on_from_its_checkpoint_or_is_refused_by_its_version(tmp_path: Path) -> None:
    path = Path(shutil.copy(GOLDEN / "checkpoint" / "run.safetensors", tmp_path / "run.safetensors"))
    (model, graphs), answers = kept_run(6), expected("checkpoint")
    if FORMAT != 1:  # refused for what it is, not for something that does not fit
        with pytest.raises(CheckpointError, match="format"):
            model.fit(graphs, checkpoint=path, progress=False)
        return
    model.fit(graphs, checkpoint=path, progress=False)
    assert len(model.history_) == 6
    agree([epoch["train"] for epoch in model.history_], answers["train"], 1e-3)
    agree(model.log_likelihood(golden_graph()), answers["log_likelihood"], 1e-3)
