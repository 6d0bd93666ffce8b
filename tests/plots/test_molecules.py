"""Molecules with values: symbols, places, one scale for all, hostile text and bad input."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from torch_geometric.data import Data

import gspn
from gspn.convert.atoms import OGB_SCHEMA
from gspn.errors import InputError, MissingExtraError
from gspn.plots.colours import BLANK
from gspn.plots.drawings import _LARGEST_DISC
from gspn.plots.molecules import atom_positions, draw_molecule, draw_molecules, read_molecule

CHLORIDE, PHENOL = "CC(=O)Nc1ccc(Cl)cc1", "CC(=O)Nc1ccc(O)cc1"
ATOMS = 11
HOSTILE = "</title><script>alert(1)</script>&\"' ]]> \x00 \ud800"


@given(st.lists(st.sampled_from([-2.0, -0.5, 0.0, 1.0, float("nan")]), min_size=ATOMS, max_size=ATOMS))
@settings(max_examples=25)
def test_equal_values_have_equal_colours_and_no_others(values: list[float]) -> None:
    if np.isnan(values).all():
        values[0] = 0.0
    (vertices,) = drawn.panels(draw_molecule(CHLORIDE, values))
    for a, one in zip(values, vertices, strict=True):
        assert one.dashed == bool(np.isnan(a))
        assert (one.colour == BLANK) == bool(np.isnan(a))
        for b, other in zip(values, vertices, strict=True):
            assert (one.colour == other.colour) == bool(a == b or (np.isnan(a) and np.isnan(b)))


def test_all_atoms_have_their_symbols_in_order() -> None:
    (vertices,) = drawn.panels(draw_molecule("O=[N+]([O-])c1ccccc1[Fe+2]", torch.zeros(10)))
    assert [v.text for v in vertices] == ["O", "N⁺", "O⁻", "C", "C", "C", "C", "C", "C", "Fe²⁺"]
    assert vertices[1].name == "atom 1 (N⁺): 0"


def test_two_molecules_share_places_and_scale() -> None:
    values = np.linspace(-1, 1, ATOMS)
    svg = draw_molecules([CHLORIDE, PHENOL], [values, 3 * values], titles=["before", "after"], label="nats")
    before, after = drawn.panels(svg)
    assert [v.place for v in before] == [v.place for v in after]
    assert [v.text for v in before if v.text not in "CON"] == ["Cl"]
    assert before[-1].colour != after[-1].colour
    assert after[-1].colour == drawn.panels(draw_molecule(PHENOL, 3 * values))[0][-1].colour
    assert drawn.legend(svg) == ["nats", "−3", "−1.5", "0", "+1.5", "+3"]


def test_unrelated_molecules_have_places_of_their_own() -> None:
    methane, benzene = drawn.panels(draw_molecules(["C", "c1ccccc1"], [[1.0], np.ones(6)], same_positions=False))
    assert methane[0].place == (180, 130)
    assert len({v.place for v in benzene}) == 6
    with pytest.raises(InputError, match="molecule 1 has 6 atoms and the first one 1"):
        draw_molecules(["C", "c1ccccc1"], [[1.0], np.ones(6)])


@pytest.mark.parametrize("smiles", ["C", "CC", "C#N", "[Na+].[Cl-]", "C1CC1", "CC(C)(C)C", CHLORIDE, "C" * 60])
def test_everything_is_inside_and_nothing_overlaps(smiles: str) -> None:
    count = read_molecule(smiles).GetNumAtoms()
    svg = draw_molecule(smiles, np.zeros(count), size=(360, 260))
    assert drawn.size(svg) == (360, 322)
    places = np.array([v.place for v in drawn.panels(svg)[0]])
    assert (places >= _LARGEST_DISC).all()
    assert (places <= np.array([360, 260]) - _LARGEST_DISC).all()
    apart = np.linalg.norm(places[:, None] - places, axis=-1) + 1e3 * np.eye(count)
    assert apart.min() > 5


def test_graphs_are_drawn_like_their_smiles() -> None:
    for features, schema in (("default", None), ("ogb", OGB_SCHEMA)):
        graph = gspn.from_smiles([CHLORIDE], features=features)[0]
        values = torch.linspace(-1, 1, ATOMS)
        (from_graph,) = drawn.panels(draw_molecule(graph, values, schema=schema))
        (from_text,) = drawn.panels(draw_molecule(CHLORIDE, values))
        assert [(v.text, v.colour) for v in from_graph] == [(v.text, v.colour) for v in from_text]


def test_an_unknown_element_is_a_question_mark_and_a_rare_one_a_star() -> None:
    graph = gspn.from_smiles(["CC[Xe]"], check_valence=False)[0]
    graph.x[0, 0] = torch.nan
    assert [v.text for v in drawn.panels(draw_molecule(graph, [0, 0, 0]))[0]] == ["?", "C", "*"]


def test_bonds_are_drawn_by_their_order() -> None:
    def lines(smiles: str, count: int) -> int:
        return len(drawn.edges(draw_molecule(smiles, np.zeros(count)))[0])

    assert [lines("CC", 2), lines("C=C", 2), lines("C#C", 2), lines("c1ccccc1", 6)] == [1, 2, 3, 12]


def test_text_from_outside_makes_no_elements() -> None:
    plain = draw_molecules(["CO"], [[1, 2]], titles=["x"], label="y")
    hostile = draw_molecules(["CO"], [[1, 2]], titles=[HOSTILE], label=HOSTILE)
    assert drawn.tags(hostile) == drawn.tags(plain)
    assert any("<script>alert(1)</script>" in text for text in drawn.texts(hostile))


def test_positions_do_not_depend_on_the_values_and_molecules_are_left_alone() -> None:
    from rdkit import Chem

    molecule = Chem.MolFromSmiles(CHLORIDE)
    draw_molecule(molecule, np.zeros(ATOMS))
    assert molecule.GetNumConformers() == 0
    assert np.array_equal(atom_positions(molecule), atom_positions(molecule))


@pytest.mark.parametrize(
    ("molecule", "values", "reason"),
    [
        ("CC", [1.0], r"values\[0\] has 1 numbers for 2 atoms"),
        ("CC", [np.nan, np.nan], r"values\[0\] has no number, only NaN"),
        ("CC", [1.0, np.inf], r"values\[0\] has an infinite value at 1"),
        ("CC", [], "is empty"),
        ("CC", [[1.0, 2.0]], r"must have 1 dimension, got the shape \(1, 2\)"),
        ("CC", ["a", "b"], "must be numbers"),
        ("C(", [1.0], r"'C\(' is no SMILES"),
        ("", [1.0], "a molecule of 0 atoms cannot be drawn"),
        ("C" * 501, np.zeros(501), "a molecule of 501 atoms"),
        (7, [1.0], "a molecule is SMILES, an RDKit molecule or a graph; got int"),
        (Data(x=torch.zeros(2, 3)), [1.0, 2.0], "the graph has 3 columns, but the schema 9"),
    ],
)
def test_bad_input_is_named(molecule: Any, values: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        draw_molecule(molecule, values)


NO_MOLECULE = Data(x=torch.zeros(1, 1), edge_index=torch.zeros(2, 0, dtype=torch.long))
OF_CHARGES = gspn.Schema([gspn.Continuous("charge")])


@pytest.mark.parametrize(
    ("call", "named"),
    [
        refused("there are no molecules", draw_molecules, [], []),
        refused("there are 2 molecules, but 1 values", draw_molecules, ["C", "C"], [[1]]),
        refused("size must be", draw_molecule, "C", [1], size=(10, 10)),
        refused("it describes no molecules", draw_molecule, NO_MOLECULE, [1.0], schema=OF_CHARGES),
    ],
)
def test_refusals(call: Callable[[], object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        call()


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from gspn.plots.charts import Curve, curves
    from gspn.plots.graphs import draw_graph

    for package in ("rdkit", "matplotlib", "networkx"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"gspn\[chem\]"):
        draw_molecule("C", [1.0])
    with pytest.raises(MissingExtraError, match=r"gspn\[plots\]"):
        curves([Curve("a", [1], [1])])
    with pytest.raises(MissingExtraError, match=r"gspn\[plots\]"):
        draw_graph(Data(num_nodes=1, edge_index=torch.zeros(2, 0, dtype=torch.long)), [1.0])
