"""Where molecules stand: lists, tables, and files of SMILES or of mol blocks, with the place of each for messages.

Here belongs the way from a source to texts, names and columns of cells. That a text is a molecule is found out by
`gspn.convert.atoms`, what a cell means as a target by `gspn.convert.molecules`.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from gspn.columns import enumerate_briefly, shorten
from gspn.errors import DAMAGE, InputError

_SMILES_SUFFIXES = (".smi", ".smiles", ".txt")
_TABLE_SUFFIXES = {".csv": ",", ".tsv": "\t"}
_SDF_SUFFIXES = (".sdf", ".sd", ".mol")

# SMILES, an extension between bars that belongs to it, and a name.
_SMILES_LINE = re.compile(r"(?P<smiles>\S+(?:\s+\|[^|]*\|)?)\s*(?P<name>.*)")


@dataclass(frozen=True)
class MoleculeRecords:
    """What a source says of its molecules, one entry per molecule; nothing is checked or left out yet."""

    texts: Sequence[object]
    place: Callable[[int], str]
    """from a row to words: "drugs.csv, line 7" """
    names: list[str] | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    """those that were asked for"""
    raw: bool = False
    """whether the columns hold text as it stands in a file"""
    has_columns: bool = False

    def show(self, row: int) -> str:
        """Place and text of a molecule; of a mol block its first line, which is its title."""
        text = self.texts[row]
        return f"{self.place(row)}: {shorten(text.partition(chr(10))[0] if isinstance(text, str) else text)}"


def read_smiles_source(source: Any, smiles: str, wanted: Sequence[str]) -> MoleculeRecords:
    """SMILES from a list, a Series, a DataFrame or a file; `wanted` are the other columns to keep."""
    if isinstance(source, (str, Path)):
        path = Path(source)
        if isinstance(source, str) and not _looks_like_file(path):
            raise InputError(f"{shorten(source)} is no file; a single SMILES is given in a list: from_smiles([...])")
        suffix = _suffix(path)
        if suffix in _TABLE_SUFFIXES:
            return _read_table(path, _TABLE_SUFFIXES[suffix], smiles, wanted)
        if suffix in _SMILES_SUFFIXES:
            return _read_lines(path)
        known = enumerate_briefly([*_SMILES_SUFFIXES, *_TABLE_SUFFIXES])
        raise InputError(
            f"{path}: the suffix {suffix!r} is not known as a file of SMILES; known: {known}, also with .gz"
        )
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):
        _refuse_unknown("the table", list(source.columns), [smiles, *wanted])
        columns = {name: source[name] for name in wanted}
        return MoleculeRecords(source[smiles].tolist(), "row {}".format, columns=columns, has_columns=True)
    if isinstance(source, (bytes, Mapping, Set)) or not isinstance(source, Iterable):
        raise InputError(
            f"SMILES are given as a list, a Series, a DataFrame or the path of a file, got {type(source).__name__}"
        )
    return MoleculeRecords(source.tolist() if hasattr(source, "tolist") else list(source), "row {}".format)


def read_sdf(path: str | Path, wanted: Sequence[str]) -> MoleculeRecords:
    """Mol blocks of an SD file, their titles as names, and the wanted SD properties; one that is absent is ""."""
    if not isinstance(path, (str, Path)):
        raise InputError(f"an SD file is given by its path, got {type(path).__name__}")
    path = Path(path)
    if _suffix(path) not in _SDF_SUFFIXES:
        raise InputError(f"{path}: an SD file ends in {enumerate_briefly(_SDF_SUFFIXES)}, also with .gz")
    blocks: list[str] = []
    first_lines: list[int] = []
    columns: dict[str, list[str]] = {name: [] for name in wanted}
    seen: dict[str, None] = {}
    with _opened(path) as handle:
        for line, record in _split_records(handle):
            end = next((i + 1 for i, text in enumerate(record) if text.startswith("M  END")), len(record))
            properties = _read_properties(record[end:])
            seen |= dict.fromkeys(properties)
            blocks.append("\n".join(record[:end]) + "\n")
            first_lines.append(line)
            for name, cells in columns.items():
                cells.append(properties.get(name, ""))
    if blocks:
        _refuse_unknown(f"{path.name} (SD properties)", list(seen), wanted)
    titles = [block.partition("\n")[0].strip() for block in blocks]

    def place(row: int) -> str:
        return f"{path.name}, record {row + 1} (line {first_lines[row]})"

    names = titles if any(titles) else None
    return MoleculeRecords(blocks, place, names, columns, raw=True, has_columns=True)


def _read_lines(path: Path) -> MoleculeRecords:
    texts: list[str] = []
    names: list[str] = []
    numbers: list[int] = []
    with _opened(path) as handle:
        for number, line in enumerate(handle, start=1):
            found = _SMILES_LINE.match(line.strip())
            if found is None or (not texts and found["smiles"].lower() == "smiles"):
                continue  # a blank line or a heading
            texts.append(found["smiles"])
            names.append(found["name"])
            numbers.append(number)
    return MoleculeRecords(texts, _line_of(path, numbers), names if any(names) else None)


def _read_table(path: Path, delimiter: str, smiles: str, wanted: Sequence[str]) -> MoleculeRecords:
    with _opened(path) as handle:
        reader = csv.reader(handle, delimiter=delimiter)
        heading = next(reader, [])
        _refuse_unknown(path.name, heading, [smiles, *wanted])
        cells: dict[str, list[str]] = {name: [] for name in (smiles, *wanted)}
        kept = [(cells[name], heading.index(name)) for name in cells]
        numbers = []
        for row in reader:
            if not row:
                continue
            if len(row) != len(heading):
                raise InputError(
                    f"{path.name}, line {reader.line_num}: {len(row)} cells, but the heading has {len(heading)}"
                )
            for column, place in kept:
                column.append(row[place])
            numbers.append(reader.line_num)
    texts = [text.strip() for text in cells[smiles]]
    return MoleculeRecords(texts, _line_of(path, numbers), columns=cells, raw=True, has_columns=True)


def _split_records(handle: TextIO) -> Iterator[tuple[int, list[str]]]:
    """The first line's number and the lines of each record of an SD file."""
    first = 1
    record: list[str] = []
    for number, line in enumerate(handle, start=1):
        if line.startswith("$$$$"):
            yield first, record
            first, record = number + 1, []
        else:
            record.append(line.rstrip("\r\n"))
    if any(map(str.strip, record)):
        yield first, record


def _read_properties(lines: Sequence[str]) -> dict[str, str]:
    """SD properties by name: a line `> … <name>`, the value's lines, a blank line."""
    found: dict[str, list[str]] = {}
    value: list[str] | None = None
    for line in lines:
        if value is None:
            name = re.match(r">[^<]*<(.*)>", line)
            value = None if name is None else found.setdefault(name[1], [])
        elif line.strip():
            value.append(line)
        else:
            value = None
    return {name: "\n".join(value) for name, value in found.items()}


def _refuse_unknown(where: str, known: Sequence[object], wanted: Iterable[str]) -> None:
    for name in wanted:
        if known.count(name) != 1:
            fault = "no column" if name not in known else "more than one column"
            raise InputError(f"{where}: {fault} {name!r}; there are {enumerate_briefly(known)}")


def _line_of(path: Path, numbers: Sequence[int]) -> Callable[[int], str]:
    return lambda row: f"{path.name}, line {numbers[row]}"


def _suffix(path: Path) -> str:
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def _looks_like_file(path: Path) -> bool:
    known = (*_SMILES_SUFFIXES, *_TABLE_SUFFIXES)
    try:
        return _suffix(path) in known or path.exists()
    except (OSError, ValueError):  # a long SMILES is no possible name of a file
        return False


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """The file as text, unpacked if it is gzipped; whatever is wrong with it is an InputError."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        opened = gzip.open if packed else open
        with opened(path, "rt", encoding="utf-8-sig", newline="") as handle:
            yield handle
    except (*DAMAGE, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
