"""Training by commands: the yardstick beside the loss on held-out entries, and runs that go on."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from small_commands import Run, draw_people, parsed
from torch_geometric.data import Data

import gspn
from gspn import Binary, Schema, pack, policy
from gspn.cli.console import Console
from gspn.cli.training import loss_of_columns, show_training


def test_the_yardstick_is_what_columns_say_by_themselves() -> None:
    """A fair coin costs log 2; a copy of it in the next column is free to those who look at rows."""
    coins = torch.rand(400, 1, generator=torch.Generator().manual_seed(0)).round()
    schema = Schema([Binary("a"), Binary("b")])
    dataset = pack([Data(x=coins.repeat(1, 2), edge_index=torch.empty(2, 0, dtype=torch.long))], schema)
    alone = loss_of_columns(policy.HeldOutEntries(dataset, seed=1), seed=1)
    assert alone == pytest.approx(math.log(2), abs=0.02)  # the coins are fair to a twentieth
    model = policy.fit(policy.model_for(dataset, num_states=2, seed=1), dataset, progress=False)
    # Where both entries of a row are held out nobody knows; that is one row in ten of those.
    assert min(epoch["validation"] for epoch in model.history_) < alone / 2


@pytest.mark.parametrize(("of_columns", "warned"), [(None, False), (0.6, False), (0.5, True), (0.4, True)])
def test_a_model_that_is_no_better_is_warned_about(
    of_columns: float | None, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    model = SimpleNamespace(history_=[{"train": 1.0, "validation": 0.5}], num_layers=2, num_states=4)
    show_training(Console(), model, 1.0, of_columns)
    said = capsys.readouterr().err
    assert ("warning: held-out entries are filled no better" in said) == warned
    assert ("with independent columns" in said) == (of_columns is not None)


def test_a_kept_run_holds_out_entries_too_and_goes_on(run: Run, tmp_path: Path) -> None:
    draw_people(80)[0].to_csv(tmp_path / "nodes.csv", index=False)
    fit = ("fit", tmp_path / "nodes.csv", "--layers", "2", "--states", "3", "--json")
    short, kept = parsed(run(*fit, "--epochs", "12", "-o", tmp_path / "a")), tmp_path / "run.safetensors"
    assert all("validation" in epoch for epoch in short["history"])
    once = parsed(run(*fit, "--epochs", "12", "-o", tmp_path / "b", "--checkpoint", kept))
    again = parsed(run(*fit, "--epochs", "12", "-o", tmp_path / "c", "--checkpoint", kept))
    assert again["history"] == once["history"], "a finished run is read from its checkpoint"
    tensors = {(tmp_path / name / "model.safetensors").read_bytes() for name in "abc"}
    assert len(tensors) == 1


def test_gaps_may_be_evidence(run: Run, tmp_path: Path) -> None:
    """Held-out entries are no gaps: what is learned of these is what the table has."""
    people = draw_people(80)[0]
    people.to_csv(tmp_path / "nodes.csv", index=False)
    fit = ("fit", tmp_path / "nodes.csv", "--layers", "1", "--states", "2", "--epochs", "40", "-o", tmp_path / "model")
    run(*fit, "--gaps", "informative", "--quiet")
    model = gspn.load(tmp_path / "model", gspn.GSPN)
    assert model.gaps == "informative"
    prior = model.get_parameters()["prior"][0]
    for name, leaf in model.get_parameters()["leaves"].items():
        share = float(people[name].isna().mean())
        assert float(prior @ leaf["gaps"][0]) == pytest.approx(share, abs=0.06), name
    assert "gaps must be" in run(*fit, "--gaps", "odd", "--force", code=2).stderr
