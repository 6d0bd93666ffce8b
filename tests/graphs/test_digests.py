"""Digests know a graph again however it is numbered, and tell it from others."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import gspn
from gspn.attributes import Categorical, Continuous, Schema
from gspn.graphs import GraphDataset
from gspn.graphs.digests import graph_digests, vertex_digests

SCHEMA = Schema([Categorical("team", ("a", "b")), Continuous("size")])


def graph(order: list[int], size: float = 0.5, kind: int = 0) -> GraphDataset:
    """A path of four vertices with an edge type, in any order."""
    x = torch.tensor([[0, size], [1, -1.25], [0, math.nan], [1, 1e6]], dtype=torch.float64)
    pairs = torch.tensor([[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]])
    types = torch.tensor([kind, 1, 0, kind, 1, 0])
    place = torch.tensor(order)
    return gspn.from_arrays(x[place.argsort()], place[pairs], schema=SCHEMA, edge_type=types)


def test_the_order_of_vertices_makes_no_difference() -> None:
    known = graph_digests(graph([0, 1, 2, 3]))
    assert graph_digests(graph([2, 0, 3, 1])) == known
    assert graph_digests(graph([3, 2, 1, 0])) == known


def test_rounding_makes_no_difference_and_values_do() -> None:
    known = graph_digests(graph([0, 1, 2, 3]))
    assert graph_digests(graph([0, 1, 2, 3], size=0.5 + 1e-7)) == known
    assert graph_digests(graph([0, 1, 2, 3], size=0.51)) != known
    assert graph_digests(graph([0, 1, 2, 3], kind=1)) != known


def test_graphs_have_the_same_wherever_they_stand() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 6, size=30)
    x = torch.from_numpy(np.column_stack([rng.integers(2, size=sizes.sum()), rng.normal(size=sizes.sum())]))
    of = np.repeat(np.arange(30), sizes)
    dataset = gspn.from_arrays(x, schema=SCHEMA, graph=of)
    known = graph_digests(dataset)
    assert len(set(known)) == 30
    assert graph_digests(dataset[[7, 3]]) == [known[7], known[3]]
    labelled = dataset.with_targets(torch.arange(30.0), "graph")
    assert graph_digests(labelled) == known


def test_the_same_molecule_is_known_in_another_writing() -> None:
    pytest.importorskip("rdkit")
    same = ("Clc1ccc(CNC(C)=O)cc1", "CC(=O)NCc1ccc(Cl)cc1", "c1(Cl)ccc(cc1)CNC(=O)C")
    other = "CC(=O)NCc1ccc(O)cc1"
    one, two, three, four = graph_digests(gspn.from_smiles([*same, other], processes=1, progress=False))
    assert one == two == three != four


def test_vertices_are_known_by_their_names_and_attributes() -> None:
    x = torch.tensor([[0, 1.0], [1, 2.0], [0, 1.0]])
    bare = gspn.from_arrays(x, torch.tensor([[1], [0]]), schema=SCHEMA)
    named = replace(bare, vertex_names=np.array(["ann", "bob", "eve"], dtype=object))
    assert len(set(vertex_digests(named))) == 3
    assert vertex_digests(named[[0]]) == vertex_digests(named)
    # Without names the surroundings tell the first from the third.
    assert len(set(vertex_digests(bare))) == 3
    alone = gspn.from_arrays(x, schema=SCHEMA)
    assert vertex_digests(alone)[0] == vertex_digests(alone)[2]
