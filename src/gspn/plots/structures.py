"""Molecules as chemists draw them, by RDKit: carbons are corners. Drawings with values at atoms are in `molecules`."""

from __future__ import annotations

import re
from typing import Any

from gspn.convert.atoms import import_rdkit
from gspn.plots.colours import INK, PALETTE, QUIET

_OF_ELEMENTS = {7: PALETTE[0], 8: PALETTE[1], 9: PALETTE[2], 17: PALETTE[2], 35: PALETTE[4], 53: PALETTE[3]}
_OF_ELEMENTS |= {15: PALETTE[3], 16: PALETTE[4]}
"""Of heteroatoms by atomic number; everything else has the colour of ink."""


def draw_structure(molecule: Any, numbers: bool = False, width: int = 260, height: int = 190) -> str:
    """A molecule of RDKit, or a SMILES, as SVG text without a ground; with `numbers` of its atoms from 0 on."""
    Chem = import_rdkit()
    from rdkit.Chem.Draw import rdMolDraw2D

    drawn = Chem.MolFromSmiles(molecule) if isinstance(molecule, str) else Chem.Mol(molecule)
    canvas = rdMolDraw2D.MolDraw2DSVG(width, height)
    options = canvas.drawOptions()
    options.clearBackground = False
    options.addAtomIndices = numbers
    options.bondLineWidth = 1.6
    options.padding = 0.06
    options.fixedBondLength = 28.0
    options.updateAtomPalette(
        {-1: _channels(INK), 1: _channels(INK), 6: _channels(INK)}
        | {element: _channels(one) for element, one in _OF_ELEMENTS.items()}
    )
    options.annotationFontScale = 0.6
    rdMolDraw2D.PrepareAndDrawMolecule(canvas, drawn)
    canvas.FinishDrawing()
    text = canvas.GetDrawingText()
    text = re.sub(r"#[0-9A-F]{6}", lambda found: found[0].lower(), text[text.index("<svg") :])
    text = text.replace("#000000", QUIET)  # of the numbers, which have no option for their colour
    # Attributes cannot hold variables of CSS, styles can.
    return re.sub(r"(fill|stroke)='(#[0-9a-f]{6})'", r"style='\1:\2'", text)


def _channels(colour: str) -> tuple[float, float, float]:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red / 255, green / 255, blue / 255
