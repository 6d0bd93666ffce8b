"""Reader of molecules as CSV files of SMILES with labels: MUV, Tox21 and ESOL, and OGB's where there is no more.

Atoms and bonds become graphs through `gspn.convert.molecules`, by default with the nine atom features of OGB; this
module knows the tables. An empty cell is a missing label. Valences that RDKit does not permit are permitted here, so
that no molecule of the published sets is lost; what cannot be read all the same is reported and left out.

The tables of MUV and Tox21 have some molecules (the same SMILES) several times, under different numbers and with labels
for different assays. By default such rows are one graph with all their labels, which gives the published 93,087 and
7,831 molecules and keeps a molecule from being in training and test at once; labels that contradict each other become
missing, and are counted in a warning. ESOL has one graph per row. There are no published folds, so none are given.
"""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gspn.arguments import check_choice
from gspn.attributes import Attribute, Binary, Continuous, Schema
from gspn.convert.atoms import choose_features
from gspn.convert.molecules import from_smiles
from gspn.datasets.archives import open_plain
from gspn.datasets.family import Family, Found, RawSource, Sources, Target, check_limit
from gspn.datasets.raw_files import RawFile
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset

logger = logging.getLogger(__name__)

SITE = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets"
SMILES, NUMBER = "smiles", "mol_id"
NO_TARGETS = (SMILES, NUMBER)


@dataclass(frozen=True)
class MoleculeTable:
    """A CSV file: where it is, and its targets by column; without any, all columns that are not known otherwise."""

    path: str = ""
    published: str = ""
    targets: dict[str, Attribute] = field(default_factory=dict)
    duplicates: str = "keep"
    """what gives the published number of molecules"""


TABLES = {
    "MUV": MoleculeTable("molecules/muv.csv.gz", "muv.csv.gz", duplicates="merge"),
    "Tox21": MoleculeTable("molecules/tox21.csv.gz", "tox21.csv.gz", duplicates="merge"),
    "ESOL": MoleculeTable(
        "molecules/esol.csv",
        "delaney-processed.csv",
        {"measured log solubility in mols per litre": Continuous("log_solubility")},
    ),
}


def _options(
    *, features: str | Sequence[str] = "ogb", duplicates: str | None = None, limit: int | None = None
) -> dict[str, Any]:
    """features: as in `from_smiles`; duplicates: "merge" rows of the same SMILES, or "keep" a graph a row (by default
    what gives the published number of molecules); limit: the first molecules only."""
    choose_features(features)
    check_choice("duplicates", duplicates, (None, "merge", "keep"))
    return {
        "features": features if isinstance(features, str) else list(features),
        "duplicates": duplicates,
        "limit": check_limit(limit),
    }


def _sources(name: str) -> Sources:
    table = TABLES[name]
    other = table.path.removesuffix(".gz") if table.path.endswith(".gz") else f"{table.path}.gz"
    return {"table": RawSource((RawFile(table.path, f"{SITE}/{table.published}"), RawFile(other)))}


def _read(name: str, found: Found, options: dict[str, Any], progress: bool) -> GraphDataset:
    path = found["table"]
    assert path is not None
    return read_table(path, TABLES[name], progress=progress, **options)


FAMILY = Family(version=1, options=_options, sources=_sources, read=_read)


def read_table(
    path: Path,
    table: MoleculeTable,
    *,
    features: str | Sequence[str] = "ogb",
    duplicates: str | None = None,
    limit: int | None = None,
    progress: bool = True,
) -> GraphDataset:
    """The molecules of a table as graphs."""
    with open_plain(path) as stream:
        header, rows, lines = read_csv(stream, str(path))
    if SMILES not in header:
        raise InputError(f"{path} has no column {SMILES!r}; its columns: {', '.join(header)}")
    columns = list(table.targets) or [column for column in header if column not in NO_TARGETS]
    absent = [column for column in columns if column not in header]
    if absent or not columns:
        raise InputError(f"{path} has no column {(absent or ['of labels'])[0]!r}; its columns: {', '.join(header)}")
    smiles = [row[header.index(SMILES)].strip() for row in rows]
    labels = read_labels(path, header, rows, lines, columns)
    names = name_column(header, rows)
    if (duplicates or table.duplicates) == "merge":
        smiles, labels, names = _merge(path, smiles, labels, names)
    kinds = [table.targets.get(column) or Binary(column) for column in columns]
    single = len(kinds) == 1
    return from_smiles(
        smiles[:limit],
        features=features,
        y=labels[:limit, 0] if single else labels[:limit],
        target=kinds[0] if single else Schema(kinds),
        names=None if names is None else names[:limit].tolist(),
        on_error="skip",
        check_valence=False,
        progress=progress,
    )


def read_csv(stream: IO[bytes], where: str) -> tuple[list[str], list[list[str]], list[int]]:
    """Header, rows of the same length, and their lines in the file; blank lines are passed over."""
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    reader = csv.reader(text, strict=True)
    try:
        header = next(reader, None)
        if header is None:
            raise InputError(f"{where} is empty")
        rows, lines = [], []
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise InputError(f"{where}, line {reader.line_num}: {len(row)} cells, but the header has {len(header)}")
            rows.append(row)
            lines.append(reader.line_num)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{where}, line {reader.line_num}: {error}") from error
    finally:
        text.detach()  # or it would close a stream that is not its own
    if not rows:
        raise InputError(f"{where} has no line after its header")
    return [name.strip() for name in header], rows, lines


def name_column(header: list[str], rows: list[list[str]]) -> NDArray[Any] | None:
    """What the molecules are called, if all of them are called something."""
    if NUMBER not in header:
        return None
    names = [row[header.index(NUMBER)].strip() for row in rows]
    return np.array(names) if all(names) else None


def binary_target(names: Sequence[str], labels: NDArray[Any]) -> Target:
    """Labels [n, T] (NaN = missing) as one yes-or-no target, or several."""
    values = labels.astype(np.float32)
    if len(names) == 1:
        return Target(Binary(names[0]), values[:, 0])
    return Target(Schema(Binary(name) for name in names), values)


def read_labels(
    path: Path, header: list[str], rows: list[list[str]], lines: list[int], columns: list[str]
) -> NDArray[np.float64]:
    """The cells of some columns as numbers [n, T], NaN where a cell is empty."""
    places = [header.index(column) for column in columns]
    labels = np.empty((len(rows), len(columns)))
    for number, row in enumerate(rows):
        try:
            labels[number] = [float(row[place]) if row[place] else np.nan for place in places]
        except ValueError as error:
            raise InputError(f"{path}, line {lines[number]}: {error}") from error
    return labels


def _merge(
    path: Path, smiles: list[str], labels: NDArray[np.float64], names: NDArray[Any] | None
) -> tuple[list[str], NDArray[np.float64], NDArray[Any] | None]:
    """One row a SMILES, in the order of their first rows and under their names, with the labels of all of them."""
    number: dict[str, int] = {}
    index = np.array([number.setdefault(text, len(number)) for text in smiles])
    if len(number) == len(smiles):
        return smiles, labels, names
    lowest = np.full((len(number), labels.shape[1]), np.nan)
    highest = lowest.copy()
    np.fmin.at(lowest, index, labels)
    np.fmax.at(highest, index, labels)
    contradicted = lowest < highest
    lowest[contradicted] = np.nan
    logger.log(
        logging.WARNING if contradicted.any() else logging.INFO,
        "%s: %d rows repeat a SMILES and are merged; %d labels that contradict each other are now missing",
        path,
        len(smiles) - len(number),
        contradicted.sum(),
    )
    first = np.unique(index, return_index=True)[1]
    return list(number), lowest, None if names is None else names[first]
