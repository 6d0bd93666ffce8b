"""Reader of the Open Graph Benchmark's molecules in their raw layout: gzipped CSV files in a zip archive or a folder.

`raw/` has the graphs one after another (edge, node-feat, num-node-list, num-edge-list, edge-feat, graph-label),
`split/scaffold/` the published fold, `mapping/mol.csv.gz` names of targets and molecules. The files have every bond
once, here it is two edges, one after the other; the edge type is the bond's type, the first edge feature. An empty
label is a missing one. The nine atom features have the schema of `from_smiles(features="ogb")`.

If there is just a CSV file of SMILES under this name, the graphs are made from it (by `molecules`), without a fold.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gspn.attributes import Categorical
from gspn.convert.atoms import BOND_TYPES, OGB_SCHEMA
from gspn.datasets import molecules
from gspn.datasets.archives import Files
from gspn.datasets.family import Family, Found, RawSource, Sources, Target, check_limit
from gspn.datasets.raw_files import RawFile
from gspn.datasets.text_tables import Integers, integer_blocks, read_floats, read_integers
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.pack import packed, pointer
from gspn.graphs.splits import Fold

logger = logging.getLogger(__name__)

SITE = "https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download"
FILES = {"ogbg-molhiv": "hiv.zip", "ogbg-molpcba": "pcba.zip"}

_RAW = ("edge", "node-feat", "num-node-list", "num-edge-list", "edge-feat", "graph-label")
_SPLITS = tuple(f"split/scaffold/{part}.csv.gz" for part in ("train", "valid", "test"))
_MAPPING = "mapping/mol.csv.gz"
_MEMBERS = (*(f"raw/{part}.csv.gz" for part in _RAW), *_SPLITS, _MAPPING)

_CODES = np.array([len(a.categories) if isinstance(a, Categorical) else 2 for a in OGB_SCHEMA])


def _options(*, limit: int | None = None) -> dict[str, Any]:
    """limit: the first molecules only, without fold."""
    return {"limit": check_limit(limit)}


def _sources(name: str) -> Sources:
    alternatives = (
        RawFile(f"ogb/{name}"),
        RawFile(f"ogb/{name}.zip", f"{SITE}/{FILES[name]}"),
        RawFile(f"molecules/{name}.csv.gz"),
    )
    return {"graphs": RawSource(alternatives, members=_MEMBERS)}


def _read(name: str, found: Found, options: dict[str, Any], progress: bool) -> GraphDataset:
    path = found["graphs"]
    assert path is not None
    if path.name.endswith(".csv.gz"):
        logger.warning("%s is made from the SMILES in %s, without the published fold", name, path)
        return molecules.read_table(path, molecules.MoleculeTable(), limit=options["limit"], progress=progress)
    with Files(path) as files:
        return _OGBReader(files).read(options["limit"])


FAMILY = Family(version=1, options=_options, sources=_sources, read=_read)


class _OGBReader:
    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self, limit: int | None) -> GraphDataset:
        num_atoms, num_bonds = self._sizes("num-node-list", 1), self._sizes("num-edge-list", 0)
        if len(num_atoms) != len(num_bonds):
            where = self._where("num-edge-list")
            raise InputError(f"{where} has {len(num_bonds):,} lines, but num-node-list has {len(num_atoms):,}")
        total = len(num_atoms)
        whole = limit is None or limit >= total
        num_atoms, num_bonds = num_atoms[:limit], num_bonds[:limit]
        tasks, names = self._mapping(total)
        target = self._target(total, len(num_atoms), tasks)
        return packed(
            OGB_SCHEMA,
            self._atoms(int(num_atoms.sum()), whole),
            self._bonds(num_atoms, num_bonds, whole),
            pointer(num_atoms),
            pointer(2 * num_bonds),
            edge_type=self._bond_types(int(num_bonds.sum()), whole),
            edge_types=BOND_TYPES,
            y=target.values,
            target=target.kind,
            target_level="graph",
            splits=self._folds(total) if whole else (),
            graph_names=None if names is None else names[:limit],
        )

    def _where(self, part: str) -> str:
        return self._files.describe(f"raw/{part}.csv.gz")

    def _sizes(self, part: str, least: int) -> Integers:
        with self._files.open(f"raw/{part}.csv.gz") as stream:
            sizes = read_integers(stream, self._where(part), columns=1)[:, 0]
        if not len(sizes):
            raise InputError(f"{self._where(part)} is empty")
        if sizes.min() < least:
            line = int((sizes < least).argmax()) + 1
            raise InputError(f"{self._where(part)}, line {line}: expected at least {least}, found {sizes[line - 1]}")
        return sizes

    def _rows(
        self, part: str, rows: int, whole: bool, columns: int | None, most: NDArray[Any], dtype: Any
    ) -> NDArray[Any]:
        """The first rows [rows, len(most)] of a table of numbers from 0 on, each below the `most` of its column.

        If they are the `whole` table, further ones are an error.
        """
        where = self._where(part)
        filled = np.empty((rows, len(most)), dtype=dtype)
        size = 0
        with self._files.open(f"raw/{part}.csv.gz") as stream:
            for line, block in integer_blocks(stream, where, columns=columns):
                block = block[: None if whole else rows - size, : len(most)]
                wrong = (block < 0) | (block >= most)
                if wrong.any():
                    at, column = np.argwhere(wrong)[0]
                    wanted = f"column {column + 1} must be from 0 to {most[column] - 1}"
                    raise InputError(f"{where}, line {line + at}: {wanted}, found {block[at, column]}")
                filled[size : size + len(block)] = block[: max(rows - size, 0)]
                size += len(block)
                if size >= rows and not whole:
                    break
        if size != rows:
            raise InputError(f"{where} has {size:,} lines, but the lists of sizes ask for {rows:,}")
        return filled

    def _atoms(self, rows: int, whole: bool) -> NDArray[np.float32]:
        return self._rows("node-feat", rows, whole, len(_CODES), _CODES, np.float32)

    def _bond_types(self, rows: int, whole: bool) -> NDArray[np.int8]:
        types = self._rows("edge-feat", rows, whole, None, np.array([len(BOND_TYPES)]), np.int8)
        return np.repeat(types[:, 0], 2)

    def _bonds(self, num_atoms: Integers, num_bonds: Integers, whole: bool) -> NDArray[np.int32]:
        """[2, 2 * bonds] atoms numbered inside their molecule."""
        most = np.full(2, num_atoms.max())
        bonds = self._rows("edge", int(num_bonds.sum()), whole, 2, most, np.int32)
        outside = (bonds >= np.repeat(num_atoms, num_bonds)[:, None]).any(1)
        if outside.any():
            line = int(outside.argmax())
            graph = int(np.searchsorted(pointer(num_bonds), line, side="right")) - 1
            raise InputError(
                f"{self._where('edge')}, line {line + 1}: bond ({bonds[line, 0]}, {bonds[line, 1]}) is of molecule "
                f"{graph}, which has {num_atoms[graph]} atoms"
            )
        both = np.stack([bonds, bonds[:, ::-1]], axis=1).reshape(-1, 2)
        return np.ascontiguousarray(both.T)

    def _target(self, total: int, rows: int, tasks: list[str]) -> Target:
        where = self._where("graph-label")
        with self._files.open("raw/graph-label.csv.gz") as stream:
            labels = read_floats(stream, where, empty=True)
        if len(labels) != total:
            raise InputError(f"{where} has {len(labels):,} lines, but num-node-list has {total:,}")
        wrong = ~(np.isnan(labels) | (labels == 0) | (labels == 1))
        if wrong.any():
            line, column = np.argwhere(wrong)[0]
            raise InputError(f"{where}, line {line + 1}: expected 0, 1 or nothing, found {labels[line, column]:g}")
        count = labels.shape[1]
        names = tasks if len(tasks) == count else [f"task_{i}" for i in range(count)]
        return molecules.binary_target(names, labels[:rows])

    def _mapping(self, total: int) -> tuple[list[str], NDArray[Any] | None]:
        """Names of the targets and of the molecules, where the mapping has them."""
        if self._files.find(_MAPPING) is None:
            return [], None
        where = self._files.describe(_MAPPING)
        with self._files.open(_MAPPING) as stream:
            header, rows, _ = molecules.read_csv(stream, where)
        if len(rows) != total:
            raise InputError(f"{where} has {len(rows):,} lines after its header, but num-node-list has {total:,}")
        return [name for name in header if name not in molecules.NO_TARGETS], molecules.name_column(header, rows)

    def _folds(self, total: int) -> tuple[Fold, ...]:
        present = [member for member in _SPLITS if self._files.find(member) is not None]
        if not present:
            return ()
        parts = []
        for member in _SPLITS:
            with self._files.open(member) as stream:
                part = read_integers(stream, self._files.describe(member), columns=1)[:, 0]
            if len(part) and (part.min() < 0 or part.max() >= total):
                line = int(((part < 0) | (part >= total)).argmax())
                where = self._files.describe(member)
                raise InputError(
                    f"{where}, line {line + 1}: there is no molecule {part[line]}, they are 0 to {total - 1}"
                )
            parts.append(part)
        if len(np.unique(np.concatenate(parts))) < sum(map(len, parts)):
            raise InputError(f"{self._files.path}: some molecule occurs twice in split/scaffold")
        return (Fold(*map(torch.from_numpy, parts)),)
