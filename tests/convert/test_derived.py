"""What follows from a change of a molecule is what RDKit says of the changed molecule itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import gspn
from gspn.attributes import Continuous, Schema
from gspn.convert.derived import decides_others, derive

SMILES = ["Clc1ccc(CNC(C)=O)cc1", "CCO", "c1cc[nH]c1", "C[N+](C)(C)CC(=O)[O-]", "C#N", "OC(=O)c1ccccn1", "CS(=O)(=O)N"]

NUMBERS = {"C": 6, "N": 7, "O": 8, "Cl": 17}


def read(smiles: str, features: str = "default") -> gspn.GraphDataset:
    return gspn.from_smiles([smiles], features=features, processes=1, progress=False)


def changed(graph: Data, schema: Schema, *entries: dict[int, dict[str, Any]]) -> torch.Tensor:
    x: torch.Tensor = graph.x.double().clone()
    for given in entries:
        for vertex, values in given.items():
            for name, value in values.items():
                x[vertex, schema.index(name)] = float(schema[name].encode([value])[0])
    return x


@pytest.mark.parametrize("features", ["default", "ogb"])
@pytest.mark.parametrize(
    ("before", "after", "atom", "element"),
    [
        ("Clc1ccc(CNC(C)=O)cc1", "Oc1ccc(CNC(C)=O)cc1", 0, "O"),
        ("Clc1ccc(CNC(C)=O)cc1", "Clc1ccc(COC(C)=O)cc1", 6, "O"),
        ("c1cc[nH]c1", "c1ccoc1", 3, "O"),
        ("c1ccccc1", "c1ccncc1", 3, "N"),
        ("CCO", "CCCl", 2, "Cl"),
        ("C#N", "C#C", 1, "C"),
    ],
)
def test_entries_are_those_of_the_real_molecule(
    before: str, after: str, atom: int, element: str, features: str
) -> None:
    old, new = read(before, features), read(after, features)
    name, value = ("element", element) if features == "default" else ("atomic_number", NUMBERS[element])
    change = {atom: {name: value}}
    found = derive(old[0], old.schema, change)
    assert found.problem is None
    wanted = new[0].x
    torch.testing.assert_close(changed(old[0], old.schema, change, found.entries), wanted.double(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("smiles", SMILES)
def test_nothing_follows_from_what_is_there_already(smiles: str) -> None:
    dataset = read(smiles)
    graph, schema = dataset[0], dataset.schema
    for vertex, element in enumerate(schema["element"].decode(graph.x[:, schema.index("element")])):
        found = derive(graph, schema, {vertex: {"element": element}})
        assert (found.entries, found.problem) == ({}, None)


def test_bonds_decide_too() -> None:
    dataset = read("CCO")
    found = derive(dataset[0], dataset.schema, {}, added=[(1, 2, 1)], removed=[(1, 2), (2, 1)])
    assert found.problem is None
    real = read("CC=O")
    torch.testing.assert_close(
        changed(dataset[0], dataset.schema, found.entries), real[0].x.double(), atol=1e-5, rtol=0
    )


def test_an_impossible_molecule_makes_the_dependents_unknown() -> None:
    dataset = read("CC(=O)O")
    found = derive(dataset[0], dataset.schema, {2: {"element": "F"}})
    assert found.problem == "atom 2: F cannot have valence 2"
    assert found.entries == {
        2: dict.fromkeys(["hybridisation", "aromatic", "hydrogens", "partial_charge", "chirality"])
    }, "degree and rings follow from the bonds, which are the same"


def test_what_was_said_stands_and_what_is_unknown_stays_unknown() -> None:
    dataset = read("CCO")
    graph = dataset[0]
    graph.x[1, dataset.schema.index("partial_charge")] = torch.nan
    found = derive(graph, dataset.schema, {2: {"element": "Cl", "hydrogens": 1}})
    assert "hydrogens" not in found.entries[2]
    assert 1 not in found.entries
    assert derive(graph, dataset.schema, {2: {"element": None, "hydrogens": 3}}).entries == {}


def test_graphs_that_are_no_molecules_have_nothing_that_follows() -> None:
    schema = Schema([Continuous("element")])
    graph = Data(x=torch.zeros(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))
    assert derive(graph, schema, {0: {"element": 1.0}}).entries == {}
    assert not decides_others(schema, "element")


def test_unknown_elements_elsewhere_are_said() -> None:
    dataset = read("CCO")
    graph = dataset[0]
    graph.x[0, dataset.schema.index("element")] = torch.nan
    found = derive(graph, dataset.schema, {2: {"element": "N"}})
    assert found.problem == "atom 0: its element is not known"
    assert found.entries[2]["hydrogens"] is None


FEW = ["element", "formal_charge", "aromatic", "degree"]


def read_few(smiles: str) -> gspn.GraphDataset:
    """As the page's own model sees it: without hydrogens."""
    return gspn.from_smiles([smiles], features=FEW, processes=1, progress=False)


@pytest.mark.parametrize(
    ("before", "after", "atom", "element"),
    [
        ("Cc1cc[nH]c1", "Oc1cc[nH]c1", 0, "O"),
        ("c1cc[nH]c1", "c1ccoc1", 3, "O"),
        ("c1cn[nH]c1", "c1conc1", 2, "O"),  # with the hydrogen at the other nitrogen, which the graph does not tell
        ("Clc1cc2cc[nH]c2c(-c2ccn[nH]2)c1", "Oc1cc2cc[nH]c2c(-c2ccn[nH]2)c1", 0, "O"),
    ],
)
def test_hydrogens_of_aromatic_nitrogens_are_put_where_they_fit(
    before: str, after: str, atom: int, element: str
) -> None:
    old, new = read_few(before), read_few(after)
    change = {atom: {"element": element}}
    found = derive(old[0], old.schema, change)
    assert (found.problem, found.forbidden) == (None, False)
    wanted = sorted(new[0].x.tolist())
    assert sorted(changed(old[0], old.schema, change, found.entries).tolist()) == wanted


def test_only_valences_forbid() -> None:
    dataset = read_few("c1cc[nH]c1")
    assert derive(dataset[0], dataset.schema, {0: {"element": "F"}}).forbidden
    graph = dataset[0]
    graph.x[1, 0] = torch.nan
    unknown = derive(graph, dataset.schema, {0: {"element": "N"}})
    assert unknown.problem == "atom 1: its element is not known"
    assert not unknown.forbidden
