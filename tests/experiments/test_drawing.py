"""The question "draw": molecules are edited in the words of the model that answers, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import gspn
from gspn.errors import GSPNError
from gspn.experiments.drawing import edits
from gspn.experiments.grids import parse_grid
from gspn.experiments.protocols import contests
from gspn.experiments.records import Records
from gspn.experiments.runs import Piece
from gspn.experiments.work import perform

pytest.importorskip("rdkit")

GRID = """
title = "Heat maps"
question = "draw"
measure = "nll per entry"
[protocol]
division = "hold-out"
runs = 1
[asked]
molecules = [{ smiles = "CCCl", edited = "CCO" }]
[data]
molecules = { graphs = 40, options = { features = "default" } }
[models.GSPN_U]
system = "GSPN"
settings = { num_layers = 2, num_states = 2, epochs = 2 }
"""


def piece(text: str = GRID) -> Piece:
    (one,) = contests(parse_grid(text, "toy"))
    return Piece(one.finals(lambda key: None))


def test_atoms_change_as_what_if_says(tmp_path: Path) -> None:
    (record,) = perform(piece(), tmp_path) or [{}]
    (change,) = record["changes"]
    assert (change["smiles"], change["edited"]) == ("CCCl", "CCO")
    before, after, difference = (torch.tensor(change[name]) for name in ("before", "after", "change"))
    assert len(before) == 3
    torch.testing.assert_close(after - before, difference)
    torch.testing.assert_close(torch.tensor(change["relative"]), difference / before.abs())
    assert bool((difference != 0).any())
    assert Records(tmp_path).get(record["key"]) == record


def test_a_model_of_other_attributes_is_not_asked(tmp_path: Path) -> None:
    """The built-in molecules have other attributes than the OGB's, which are assumed where nothing is said."""
    with pytest.raises(GSPNError, match="read with the features 'ogb', the dataset has other attributes"):
        perform(piece(GRID.replace(', options = { features = "default" }', "")), tmp_path)


def test_edits_are_what_differs() -> None:
    schema = gspn.Schema([gspn.Categorical("element", ["C", "O"]), gspn.Continuous("charge")])
    edges = torch.tensor([[0, 1], [1, 0]])
    before = Data(x=torch.tensor([[0.0, torch.nan], [0.0, 0.5]]), edge_index=edges)
    after = Data(x=torch.tensor([[0.0, torch.nan], [1.0, 0.25]]), edge_index=edges)
    assert edits(before, after, schema) == {1: {"element": "O", "charge": 0.25}}
    with pytest.raises(GSPNError, match="the same atoms and bonds"):
        edits(before, Data(x=after.x, edge_index=edges.flip(0)), schema)
