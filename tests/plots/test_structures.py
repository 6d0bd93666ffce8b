"""Structures are drawn in the library's colours, and layers lie where their atoms are."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from gspn.plots.colours import IN_THE_DARK, INK, PALETTE
from gspn.plots.structures import draw_structure, layer_of
from gspn.plots.themes import themed

Chem = pytest.importorskip("rdkit.Chem")


def test_all_colours_follow_a_page() -> None:
    text = draw_structure("Clc1ccc(CNC(C)=O)cc1", numbers=True)
    colours = set(re.findall(r"#[0-9a-f]{6}", text, re.IGNORECASE))
    assert {INK, *PALETTE[:3]} <= colours <= set(IN_THE_DARK)
    assert not re.search(r"(?<!, )#[0-9a-f]{6}", themed(text))
    ET.fromstring(text)


def test_a_layer_lies_where_the_atoms_are() -> None:
    """Bonds of ethane begin and end at its atoms, upside down, as pages count downwards."""
    for places in (np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[2.0, -1.0], [2.0, 0.0]])):
        root = ET.fromstring(layer_of(Chem.MolFromSmiles("CC"), places, 56.0))
        *shift, scale = (float(value) for value in re.findall(r"-?[\d.]+", root.attrib["transform"]))
        (bond,) = (one for one in root if "bond" in one.attrib.get("class", ""))
        ends = np.array(re.findall(r"-?[\d.]+", bond.attrib["d"]), dtype=float).reshape(-1, 2) * scale + shift
        expected = 56.0 * places * [1, -1]
        assert ends[np.lexsort(ends.T)] == pytest.approx(expected[np.lexsort(expected.T)], abs=0.2)


def test_what_cannot_be_is_drawn_too() -> None:
    molecule = Chem.RWMol(Chem.MolFromSmiles("CC(C)(C)C"))
    molecule.GetAtomWithIdx(1).SetAtomicNum(9)
    molecule.GetAtomWithIdx(0).SetAtomicNum(0)
    text = layer_of(molecule, np.arange(10.0).reshape(5, 2), 56.0)
    assert "style=" not in text
    ET.fromstring(text)
