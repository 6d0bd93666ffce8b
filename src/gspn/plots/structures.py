"""Molecules as chemists draw them, by RDKit: carbons are corners. Drawings with values at atoms are in `molecules`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.convert.atoms import import_rdkit
from gspn.plots.colours import INK, PALETTE, QUIET

_OF_ELEMENTS = {7: PALETTE[0], 8: PALETTE[1], 9: PALETTE[2], 17: PALETTE[2], 35: PALETTE[4], 53: PALETTE[3]}
_OF_ELEMENTS |= {15: PALETTE[3], 16: PALETTE[4]}
"""Of heteroatoms by atomic number; everything else has the colour of ink."""

_BOND = 1.5
"""Of RDKit's own layout"""


def draw_structure(molecule: Any, numbers: bool = False, width: int = 260, height: int = 190) -> str:
    """A molecule of RDKit, or a SMILES, as SVG text without a ground; with `numbers` of its atoms from 0 on."""
    Chem = import_rdkit()
    from rdkit.Chem.Draw import rdMolDraw2D

    drawn = Chem.MolFromSmiles(molecule) if isinstance(molecule, str) else Chem.Mol(molecule)
    canvas = rdMolDraw2D.MolDraw2DSVG(width, height)
    options: Any = canvas.drawOptions()
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


def layer_of(molecule: Any, places: NDArray[np.float64], unit: float) -> str:
    """A molecule as a layer for a drawing of one's own: the inside of an SVG, black, atom v at unit · places[v], y up.

    All colours and widths are attributes, as pages may forbid styles. Atoms are numbered from 0; one without an element
    is "?". Valences need not make sense.
    """
    Chem = import_rdkit()
    from rdkit import rdBase
    from rdkit.Chem.Draw import rdMolDraw2D

    drawn = Chem.Mol(molecule)
    conformer = Chem.Conformer(drawn.GetNumAtoms())
    for v, (x, y) in enumerate(places.tolist()):
        conformer.SetAtomPosition(v, (_BOND * x, _BOND * y, 0.0))
    drawn.RemoveAllConformers()
    drawn.AddConformer(conformer)
    for atom in drawn.GetAtoms():
        if not atom.GetAtomicNum():
            atom.SetProp("_displayLabel", "?")
    with rdBase.BlockLogs():
        drawn.UpdatePropertyCache(strict=False)
        Chem.FastFindRings(drawn)
        drawn = rdMolDraw2D.PrepareMolForDrawing(drawn, kekulize=False, addChiralHs=False, wavyBonds=False)
        canvas = rdMolDraw2D.MolDraw2DSVG(-1, -1)  # as large as it comes out at this scale
        options: Any = canvas.drawOptions()
        options.useBWAtomPalette()
        options.scalingFactor = unit / _BOND
        options.clearBackground, options.addAtomIndices, options.bondLineWidth = False, True, 2.0
        options.annotationFontScale = 0.5
        canvas.DrawMolecule(drawn)
    drawn_at = np.array([[at.x, at.y] for at in map(canvas.GetDrawCoords, range(len(places)))])
    canvas.FinishDrawing()
    text = canvas.GetDrawingText()
    inside = re.sub(r"<\?xml.*?\?>|<!--.*?-->|</?svg[^>]*>", "", text, flags=re.DOTALL)
    inside = re.sub(r"style='([^']*)'", lambda found: _attributes(found[1]), inside)
    # RDKit's scale is only about what it was asked for.
    wanted = unit * places * [1.0, -1.0]
    (size, own), centres = (np.ptp(at, axis=0).max() for at in (wanted, drawn_at)), (wanted.mean(0), drawn_at.mean(0))
    scale = float(size / own) if own > 0 else 1.0
    right, down = centres[0] - scale * centres[1]
    return f"<g transform='translate({right:.2f} {down:.2f}) scale({scale:.4f})'>{inside.strip()}</g>"


def _attributes(style: str) -> str:
    """Declarations of a style as attributes, in SVG's own names."""
    parts = (part.partition(":") for part in style.split(";") if ":" in part)
    return " ".join(f"{name.strip()}='{value.strip()}'" for name, _, value in parts)


def _channels(colour: str) -> tuple[float, float, float]:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red / 255, green / 255, blue / 255
