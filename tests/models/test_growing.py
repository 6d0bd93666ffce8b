"""Models that grow from a mixture: they know what it knows, and take no more epochs than others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from comparison import same
from small_graphs import EVERY_KIND as SCHEMA
from small_graphs import draw_graphs

from gspn import GSPN, pack
from gspn.models.growing import fit_grown, grow


def test_a_grown_model_has_the_leaves_of_the_mixture_and_knows_nothing_of_edges() -> None:
    graphs = pack(draw_graphs(6, seed=1), SCHEMA)
    mixture = GSPN(SCHEMA, num_layers=1, num_states=4, epochs=5).double().fit(graphs, progress=False)
    model = GSPN(SCHEMA, num_layers=3, num_states=4, num_edge_types=2, seed=3)
    assert grow(model, mixture) is model
    known, found = mixture.get_parameters(), model.get_parameters()
    for name, leaf in found["leaves"].items():
        for key, value in leaf.items():
            torch.testing.assert_close(value, known["leaves"][name][key].expand_as(value), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found["prior"], known["prior"], rtol=1e-5, atol=1e-7)
    rows = found["transitions"]
    assert rows.shape == (2, 2, 1, 4, 4)
    torch.testing.assert_close(rows.sum(-1), torch.ones_like(rows.sum(-1)), rtol=1e-5, atol=0)
    assert rows.std(-2).min() > 0, "states that all lead to the same prior would stay alike"


def masked(**settings: Any) -> GSPN:
    usual = {"num_layers": 2, "num_states": 2, "objective": "masked", "epochs": 4, "seed": 2}
    return GSPN(SCHEMA, **{**usual, **settings})


@pytest.mark.parametrize("shortcut", [None, "mean", "learned"])
def test_half_of_the_epochs_are_the_mixtures(shortcut: str | None, tmp_path: Path) -> None:
    graphs = pack(draw_graphs(6, seed=1), SCHEMA)
    settings: dict[str, Any] = {"num_layers": 3, "epochs": 5, "shortcut": shortcut}
    model = fit_grown(masked(**settings), graphs, checkpoint=tmp_path / "run.safetensors", progress=False)
    assert len(model.history_) == 3
    assert (model.num_layers, model.objective, model.shortcut) == (3, "masked", shortcut)
    again = fit_grown(masked(**settings), graphs, checkpoint=tmp_path / "run.safetensors", progress=False)
    assert same(model, again), "a finished run is read from its checkpoints"


def test_what_a_model_knew_before_does_not_matter() -> None:
    graphs = pack(draw_graphs(6, seed=1), SCHEMA)
    fresh = fit_grown(masked(), graphs, progress=False)
    used = masked().fit(draw_graphs(3, seed=5), progress=False)
    assert same(fresh, fit_grown(used, graphs, progress=False))


def test_a_model_keeps_its_precision_and_a_folder_holds_both_checkpoints(tmp_path: Path) -> None:
    graphs = pack(draw_graphs(6, seed=1), SCHEMA)
    model = masked().double()
    fit_grown(model, graphs, checkpoint=tmp_path, progress=False)
    assert model.hierarchy.raw_prior.dtype == torch.float64
    assert sorted(file.name for file in tmp_path.iterdir()) == ["checkpoint.safetensors", "mixture.safetensors"]
