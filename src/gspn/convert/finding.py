"""What columns are for, where nobody has said it: told by what they hold.

Ids are known by the edges that name them, ends of edges by the ids, molecules by being SMILES, and columns that say
nothing by their values. The kind of an attribute is guessed in `gspn.infer`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from gspn.columns import shorten
from gspn.convert.files import Table, import_pandas
from gspn.infer import reads_as_number

FEW_ROWS = 10
"""Up to here one cannot tell whether a column says anything: only empty ones do not."""
_MOST_NAMES = 20
_ENDS = (("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v"), ("start", "end"))

_ATOM = r"(?:Cl|Br|[BCNOPSFIbcnops*]|\[[^\[\]\s]+\])"
_SMILES = re.compile(rf"{_ATOM}(?:{_ATOM}|[=#$:/\\.\-~()]|\d|%\d\d)*")


def find_id(nodes: Table, edges: Table | None, ends: tuple[str, str]) -> str | None:
    """The column that holds what edges name, each once; None if there is none, or nothing is named.

    Most of it is enough: that some edges name what is not there is told of these.
    """
    columns = None if edges is None else find_ends(edges, None, ends)
    if edges is None or columns is None:
        return None
    named = {_plain(cell) for name in columns for cell in edges.frame[name].dropna().tolist()}
    best, share = None, 0.5
    for name in nodes.frame.columns:
        cells = nodes.frame[name]
        if cells.isna().any() or import_pandas().api.types.is_bool_dtype(cells):
            continue
        held = {_plain(cell) for cell in cells.tolist()}
        found = len(named & held) / max(len(named), 1)
        if len(held) == len(cells) and found > share:
            best, share = str(name), found
    return best


def find_ends(edges: Table, ids: Collection[Any] | None, ends: tuple[str, str]) -> tuple[str, str] | None:
    """The two columns of ends: of these names, else of usual ones, else the only two, else those that hold ids."""
    names = [str(name) for name in edges.frame.columns]
    if set(ends) <= set(names):
        return ends
    if ends != _ENDS[0]:
        return None
    lower = {name.lower().strip(): name for name in names}
    for first, second in _ENDS:
        if first in lower and second in lower:
            return lower[first], lower[second]
    if len(names) == 2:
        return names[0], names[1]
    known = {_plain(id) for id in ids or ()}
    holding = [name for name in names if _share(edges.frame[name], known) > 0.5]
    return (holding[0], holding[1]) if len(holding) == 2 else None


def find_smiles(frame: Any, named: str, ignored: Collection[str] = ()) -> str | None:
    """The column of molecules: that of this name, in any case, else one that holds SMILES."""
    names = [str(name) for name in frame.columns if name not in ignored]
    for wanted in (named.lower(), "smiles"):
        for name in (named, *names):
            if name in names and name.lower().strip() == wanted:
                return name
    return next((name for name in names if _holds_smiles(frame[name])), None)


def says_nothing(column: Any) -> str | None:
    """Why a column says nothing about the others; None if it may."""
    present, count = column.dropna(), len(column)
    if not len(present):
        return "empty"
    if count <= FEW_ROWS:
        return None
    try:
        different = present.nunique()
    except TypeError:  # what has no hash is refused later on
        return None
    if different == 1:
        only = shorten(present.tolist()[0])
        return f"always {only}" if len(present) == count else f"{only} wherever it is known"
    if isinstance(column.dtype, import_pandas().CategoricalDtype):
        return None  # somebody has said what its categories are
    types = import_pandas().api.types
    if types.is_bool_dtype(present.infer_objects()):
        return None
    if types.is_numeric_dtype(present.infer_objects()):
        rows = present.to_numpy(dtype=float)
        first = rows[0]
        counts_rows = first in (0, 1) and len(present) == count > _MOST_NAMES and bool((np.diff(rows) == 1).all())
        return "the number of the row" if counts_rows else None
    numbers = sum(map(reads_as_number, present.tolist()))
    if 2 * numbers >= len(present) > numbers or not all(isinstance(cell, str) for cell in present.tolist()):
        return None  # a typo among numbers is refused later on
    if different > max(_MOST_NAMES, len(present) // 2) or different == len(present) > FEW_ROWS:
        return f"{different:,} different values in {len(present):,} rows"
    return None


def leave_out(columns: Mapping[str, Any], kept: Collection[str]) -> dict[str, str]:
    """The columns that say nothing, each with the reason, except those that are kept."""
    reasons = {name: says_nothing(column) for name, column in columns.items() if name not in kept}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _plain(cell: Any) -> str:
    """What two tables have in common, where one has read 7, the other "7" and a third 7.0."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)


def holds(labels: Any, cells: Any) -> bool:
    """Whether all cells are among the labels of rows."""
    return _share(cells, {_plain(label) for label in labels.tolist()}) == 1


def _share(cells: Any, known: Collection[str]) -> float:
    present = [_plain(cell) for cell in cells.dropna().tolist()]
    return sum(cell in known for cell in present) / max(len(present), 1)


def _holds_smiles(column: Any) -> bool:
    """Whether nearly all cells are written like SMILES, most of them long enough to be nothing else."""
    if import_pandas().api.types.infer_dtype(column, skipna=True) != "string":
        return False
    cells = [cell.strip() for cell in column.dropna().tolist()]
    different = set(cells)
    if not cells or 2 * len(different) < len(cells):
        return False
    like = [cell for cell in different if _is_like_smiles(cell)]
    telling = [cell for cell in like if len(cell) > 4 and re.search(r"[a-z()=#\[\]]", cell)]
    return len(like) >= 0.9 * len(different) and 2 * len(telling) >= len(different)


def _is_like_smiles(cell: str) -> bool:
    bare = re.sub(r"\[[^\]]*\]", "*", cell)
    rings = re.findall(r"%\d\d|\d", bare)
    depth = 0
    for character in bare:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return bool(_SMILES.fullmatch(cell)) and depth == 0 and all(rings.count(ring) % 2 == 0 for ring in rings)
