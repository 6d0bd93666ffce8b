"""What one request, and all of them together, may ask of the page's server. Data alone; the work is checked elsewhere.

The defaults suit one person at one machine: everything that is allowed is answered within seconds.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of the what-if page; whatever is beyond one of them is refused with a message that names it."""

    body_bytes: int = 100_000
    """Size of a question: a molecule and its edits"""
    upload_bytes: int = 4_000_000
    """Size of an upload: both tables together"""
    smiles_characters: int = 2_000
    atoms: int = 500
    """Atoms of a molecule, hydrogens that are written as atoms included"""
    edited_atoms: int = 100
    """Atoms of a molecule whose edits are listed: some 600, all of which are predicted"""
    vertices: int = 1_000
    """Vertices of an upload, all graphs together"""
    edges: int = 10_000
    """Edges of an upload, each direction counted"""
    columns: int = 30
    """Attributes of an upload"""
    categories: int = 200
    """Values of one attribute of an upload, where it is categorical"""
    text_characters: int = 300
    """Length of an attribute's name, and of a category, of an upload"""
    edits: int = 200
    """Edits of one question"""
    uploads: int = 8
    """Uploads that are kept; the oldest one makes room"""
    molecules: int = 64
    """Molecules that are kept ready"""
    requests_per_second: float = 50.0
    """Over a few seconds; static files do not count"""
    waiting: int = 16
    """Questions that may wait for their turn: one is answered at a time"""
    seconds: float = 10.0
    """Time for one question, waiting included"""
    fit_seconds: float = 60.0
    """Time for fitting a model to an upload; what it has learned by then is used"""
