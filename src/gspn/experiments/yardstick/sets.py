"""The real sets on which imputation is measured: at most 2,000 rows each, typed columns, with or without edges.

The list was written down before anything was fitted. A set is for choosing (defaults, sizes, switches may be decided by
looking at it) or final (looked at once, at the end). Files come from the folder that GSPN_DATA_ROOT
names, or lie inside installed packages, which are not imported: their readers would bring more than the files need.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import model_validator
from sklearn import datasets as bundled
from sklearn.neighbors import NearestNeighbors

from gspn import datasets
from gspn.attributes import Attribute, Binary, Categorical, Continuous, Count, Schema
from gspn.errors import InputError, MissingExtraError
from gspn.experiments.sources import Source
from gspn.graphs import GraphDataset
from gspn.graphs.pack import packed, pointer
from gspn.random_streams import keyed_generator

MOST_ROWS = 2_000
_NEIGHBOURS = 5
_FEW = 8
"""Numbers with at most so many different values are categories."""
_COMMONEST_WORDS = 50
_PART = 21
"""Names the stream of random numbers that chooses a part of a larger set."""

Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class RealSet:
    """How a set is made, of which kind it is, which of its columns are never hidden, and whether it is a final one."""

    kind: str
    make: Callable[[], GraphDataset]
    visible: tuple[str, ...] = ()
    final: bool = False


class YardstickSource(Source):
    """A set of this list as a column of an experiment."""

    @model_validator(mode="after")
    def _check_set(self) -> Self:
        if self.name not in SETS:
            raise InputError(f"there is no set {self.name!r}; there are {', '.join(SETS)}")
        if self.model_fields_set > {"name"}:
            raise InputError(f"the set {self.name!r} has no options: what it consists of is fixed")
        return self

    def load(self) -> GraphDataset:
        return load(self.name)

    def digest(self) -> str:
        dataset = self.load()
        meaning = f"{dataset.digest()} {dataset.schema!r} {SETS[self.name].visible}"
        return hashlib.blake2b(meaning.encode(), digest_size=16).hexdigest()


@lru_cache(maxsize=2)
def load(name: str) -> GraphDataset:
    """A set by name; constant columns are left out, since nothing can be missing of them."""
    return _without_constants(SETS[name].make())


def _table(name: str) -> Columns:
    root = os.environ.get("GSPN_DATA_ROOT")
    path = Path(root or "") / "tables" / f"{name}.csv"
    if root is None or not path.is_file():
        raise InputError(f"there is no {path.name} in the folder tables of GSPN_DATA_ROOT")
    return _read_csv(path)


def _citations(name: str) -> GraphDataset:
    """The commonest words and the class of papers: a connected part, in the order of a breadth-first walk."""
    root = os.environ.get("GSPN_DATA_ROOT")
    path = Path(root or "") / "citations" / f"{name}.npz"
    if root is None or not path.is_file():
        raise InputError(f"there is no {path.name} in the folder citations of GSPN_DATA_ROOT")
    with np.load(path) as stored:
        words, ptr, edges, label = (stored[key] for key in ("words", "word_ptr", "edges", "label"))
    counts = np.bincount(words, minlength=int(words.max()) + 1)
    commonest = np.sort(np.argsort(-counts, kind="stable")[:_COMMONEST_WORDS])
    has = np.zeros((len(label), len(counts)), dtype=bool)
    has[np.repeat(np.arange(len(label)), np.diff(ptr)), words] = True
    kept = _walk(len(label), edges)[:MOST_ROWS]
    columns: dict[str, Sequence[Any]] = {f"word {word}": has[kept, word].astype(float) for word in commonest}
    attributes: list[Attribute] = [Binary(name) for name in columns]
    attributes.append(Categorical("class", [f"class {code}" for code in range(int(label.max()) + 1)]))
    codes = label[kept].astype(float)
    x = np.column_stack([*columns.values(), np.where(codes < 0, np.nan, codes)])
    place = np.full(len(label), -1)
    place[kept] = np.arange(len(kept))
    within = place[edges][:, (place[edges] >= 0).all(0)]
    return _one_graph(Schema(attributes), x, within)


def _walk(vertices: int, edges: NDArray[Any]) -> NDArray[np.int64]:
    """The vertices of the largest connected part, breadth first from the one with most neighbours."""
    order = np.argsort(edges[0], kind="stable")
    ptr = np.concatenate([[0], np.cumsum(np.bincount(edges[0], minlength=vertices))])
    target = edges[1][order]
    found = [int(np.argmax(np.diff(ptr)))]
    seen = {found[0]}
    for vertex in found:  # it grows while it is read
        for other in target[ptr[vertex] : ptr[vertex + 1]].tolist():
            if other not in seen:
                seen.add(other)
                found.append(other)
    return np.array(found)


def _graphs(name: str, **options: Any) -> GraphDataset:
    """Whole graphs, evenly spread over the dataset, as many as have at most `MOST_ROWS` vertices together."""
    dataset = datasets.load(name, progress=False, **options)
    mean = float(dataset.num_vertices_per_graph().double().mean())
    number = min(len(dataset), int(MOST_ROWS / mean * 1.1))
    chosen = torch.linspace(0, len(dataset) - 1, number).round().long()
    order = chosen[torch.randperm(number, generator=keyed_generator(0, _PART))]
    within = dataset[order].num_vertices_per_graph().cumsum(0) <= MOST_ROWS
    kept = dataset[order[within]]
    # Stored anew: the rest of the dataset is not part of the set, nor of its digest.
    return _stored(kept, torch.arange(len(kept.schema)))


def _stored(dataset: GraphDataset, columns: torch.Tensor) -> GraphDataset:
    """The same graphs with these columns alone, categories that do not occur left out, and no targets."""
    batch = dataset.batch(torch.arange(len(dataset)))
    x, attributes = dataset.entries()[:, columns].double().clone(), []
    for place, column in enumerate(columns.tolist()):
        attribute = dataset.schema[column]
        if isinstance(attribute, Categorical):
            known = ~x[:, place].isnan()
            codes = x[known, place].unique()
            attribute = Categorical(attribute.name, [attribute.categories[int(code)] for code in codes])
            x[known, place] = torch.searchsorted(codes, x[known, place]).double()
        attributes.append(attribute)
    first = torch.cat([torch.zeros(1, dtype=torch.long), dataset.num_vertices_per_graph().cumsum(0)])
    edge_ptr = torch.cat([torch.zeros(1, dtype=torch.long), dataset.num_edges_per_graph().cumsum(0)])
    graph = torch.repeat_interleave(torch.arange(len(dataset)), edge_ptr.diff())
    edges = torch.stack([batch.source.long(), batch.target.long()]) - first[graph]
    edge_type = None if dataset.edge_type is None else batch.edge_type
    types = None if edge_type is None else dataset.edge_types
    return packed(Schema(attributes), x, edges, first, edge_ptr, edge_type=edge_type, edge_types=types)


def _without_constants(dataset: GraphDataset) -> GraphDataset:
    x = dataset.entries()
    varies = torch.tensor([len(column[~column.isnan()].unique()) > 1 for column in x.unbind(1)])
    return dataset if varies.all() else _stored(dataset, varies.nonzero().squeeze(1))


def _bundled(name: str) -> GraphDataset:
    """A set that scikit-learn brings along; classes are a categorical column, a numeric target is one more number."""
    found = getattr(bundled, f"load_{name}")(**({"scaled": False} if name == "diabetes" else {}))
    columns: dict[str, Sequence[Any]] = dict(zip(map(str, found.feature_names), found.data.T, strict=True))
    names = getattr(found, "target_names", None)
    return _typed({**columns, "target": found.target if names is None else [str(names[code]) for code in found.target]})


def _digits() -> GraphDataset:
    """Images of digits, pooled to 4 × 4 fields, and the digit."""
    found = bundled.load_digits()
    fields = found.images.reshape(-1, 4, 2, 4, 2).mean((2, 4)).reshape(-1, 16)
    columns: dict[str, Sequence[Any]] = {f"field {number}": values for number, values in enumerate(fields.T)}
    return _typed({**columns, "digit": [str(digit) for digit in found.target]})


def _inside(package: str, *path: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingExtraError(f"{package} is not installed; pip install 'gspn[yardstick]' brings it")
    return Path(spec.origin).parent.joinpath(*path)


def _spatial(
    folder: str,
    table: str,
    names: Sequence[str],
    weights: str | None = None,
    key: str = "",
    counts: Sequence[str] = (),
) -> GraphDataset:
    """An example of libpysal: places with their own neighbours, or (no weights) with the nearest by coordinates.

    `key` is the column that the weights call places by.
    """
    path = _inside("libpysal", "examples", folder, table)
    columns = _read_csv(path) if path.suffix == ".csv" else _read_dbf(path)
    if weights is None:
        return _typed({name: columns[name] for name in names}, near=("X", "Y"))
    place = {str(int(value)): row for row, value in enumerate(columns[key])}
    lines = [line.split() for line in path.with_name(weights).read_text().splitlines()[1:] if line.strip()]
    pairs = [
        (place[other], place[one]) for (one, _), others in zip(lines[::2], lines[1::2], strict=True) for other in others
    ]
    return _typed({name: columns[name] for name in names}, edges=np.array(pairs).T, counts=counts)


def _cars() -> GraphDataset:
    """Cars of the seventies; those without a measured consumption or power are left out."""
    rows = json.loads(_inside("vega_datasets", "_data", "cars.json").read_text(encoding="utf-8"))
    names = [name for name in rows[0] if name not in ("Name", "Year")]
    kept = [row for row in rows if all(row[name] is not None for name in names)]
    columns: dict[str, Sequence[Any]] = {name: [row[name] for row in kept] for name in names}
    return _typed({**columns, "Year": [float(row["Year"][:4]) for row in kept]})


def _in_time(file: str, time: str) -> GraphDataset:
    """Rows in the order of time, each joined with the one before and the one after."""
    columns = dict(_read_csv(_inside("vega_datasets", "_data", file)))
    steps = np.arange(len(columns.pop(time)) - 1)
    there = np.stack([steps, steps + 1])
    return _typed(columns, edges=np.concatenate([there, there[::-1]], axis=1))


def _typed(
    columns: Columns, *, near: Sequence[str] = (), edges: NDArray[Any] | None = None, counts: Sequence[str] = ()
) -> GraphDataset:
    """One graph: text and few different numbers are categories, two values binary, the rest continuous.

    With `near` every row receives from its nearest neighbours by these columns.
    """
    attributes: list[Attribute] = []
    encoded = []
    for name, values in columns.items():
        distinct = sorted(set(values))
        attribute: Attribute
        if name in counts:
            attribute = Count(name)
        elif len(distinct) == 2:
            attribute, values = Binary(name), [float(value == distinct[1]) for value in values]
        elif isinstance(distinct[0], str) or len(distinct) <= _FEW:
            attribute = Categorical(name, distinct)
        else:
            attribute = Continuous(name)
        attributes.append(attribute)
        encoded.append(attribute.encode(list(values)))
    x = np.column_stack(encoded)
    if near:
        own = np.column_stack([np.asarray(columns[name], dtype=float) for name in near])
        own = (own - own.mean(0)) / np.where(own.std(0) > 0, own.std(0), 1.0)
        found = NearestNeighbors(n_neighbors=_NEIGHBOURS).fit(own).kneighbors(return_distance=False)
        edges = np.stack([found.ravel(), np.repeat(np.arange(len(x)), _NEIGHBOURS)])
    return _one_graph(Schema(attributes), x, np.zeros((2, 0), dtype=np.int64) if edges is None else edges)


def _one_graph(schema: Schema, x: NDArray[np.float64], edges: NDArray[Any]) -> GraphDataset:
    if len(x) > MOST_ROWS:
        raise InputError(f"a set has at most {MOST_ROWS} rows, this one {len(x)}")
    edge_index = np.ascontiguousarray(edges, dtype=np.int64)
    return packed(schema, x, edge_index, pointer([len(x)]), pointer([edges.shape[1]]))


def _read_csv(path: Path) -> Columns:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: _numbers([row[name] for row in rows]) for name in rows[0]}


def _read_dbf(path: Path) -> Columns:
    """The fields of a dBASE file: a header, 32 bytes for each field, then records of fixed width."""
    content = path.read_bytes()
    number, header, width = struct.unpack("<IHH", content[4:12])
    fields = [content[start : start + 32] for start in range(32, header - 1, 32) if content[start] != 13]
    ends = np.cumsum([1, *(field[16] for field in fields)])
    columns = {}
    for field, start, end in zip(fields, ends, ends[1:], strict=False):
        cells = [content[header + row * width + start : header + row * width + end] for row in range(number)]
        columns[field[:11].split(b"\0")[0].decode()] = _numbers([cell.decode("latin-1").strip() for cell in cells])
    return columns


def _numbers(cells: list[str]) -> Sequence[Any]:
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        return cells


_CONCRETE = ("cement", "slag", "ash", "water")
_WINE = ("fixed_acidity", "volatile_acidity", "citric_acid", "sugar")
_BALTIMORE = (
    *("PRICE", "NROOM", "DWELL", "NBATH", "PATIO", "FIREPL", "AC", "BMENT", "NSTOR", "GAR", "AGE", "CITCOU"),
    *("LOTSZ", "SQFT", "X", "Y"),
)
_ST_LOUIS = (
    *("HR7984", "HR8488", "HR8893", "HC7984", "HC8488", "HC8893", "PO7984", "PO8893"),
    *("PE77", "PE82", "PE87", "RDAC80", "RDAC85", "RDAC90"),
)
_CAROLINA = ("AREA", "BIR74", "SID74", "NWBIR74", "BIR79", "SID79", "NWBIR79", "NWR74", "NWR79")
_GEORGIA = ("TotPop90", "PctRural", "PctBach", "PctEld", "PctFB", "PctPov", "PctBlack", "X", "Y")


def _baltimore() -> GraphDataset:
    return _spatial("baltim", "baltim.dbf", _BALTIMORE, "baltim_q.gal", "STATION")


def _st_louis() -> GraphDataset:
    return _spatial("stl", "stl_hom.dbf", _ST_LOUIS, "stl.gal", "POLY_ID_OG", ("HC7984", "HC8488", "HC8893"))


def _carolina() -> GraphDataset:
    return _spatial("sids2", "sids2.dbf", _CAROLINA, "sids2.gal", "FIPSNO", ("SID74", "SID79"))


SETS: Mapping[str, RealSet] = {
    "concrete": RealSet("table", lambda: _typed(_table("concrete"))),
    "energy": RealSet("table", lambda: _typed(_table("energy"))),
    "cars": RealSet("table", _cars),
    "concrete-near": RealSet("table, near", lambda: _typed(_table("concrete"), near=_CONCRETE), _CONCRETE),
    "cora": RealSet("citations", lambda: _citations("cora")),
    "ethanol": RealSet("frames", lambda: _graphs("ethanol", attributes="both")),
    "molecules": RealSet("atoms", lambda: _graphs("molecules")),
    "iris": RealSet("bundled", lambda: _bundled("iris")),
    "breast-cancer": RealSet("bundled", lambda: _bundled("breast_cancer")),
    "baltimore": RealSet("places", _baltimore, ("X", "Y")),
    "st-louis": RealSet("places", _st_louis),
    "employment": RealSet("times", lambda: _in_time("us-employment.csv", "month")),
    "wine-quality": RealSet("table", lambda: _typed(_table("wine")), final=True),
    "yacht": RealSet("table", lambda: _typed(_table("yacht")), final=True),
    "wine-quality-near": RealSet("table, near", lambda: _typed(_table("wine"), near=_WINE), _WINE, final=True),
    "citeseer": RealSet("citations", lambda: _citations("citeseer"), final=True),
    "uracil": RealSet("frames", lambda: _graphs("uracil", attributes="both"), final=True),
    "ESOL": RealSet("atoms", lambda: _graphs("ESOL", features="default"), final=True),
    "wine-cultivars": RealSet("bundled", lambda: _bundled("wine"), final=True),
    "diabetes": RealSet("bundled", lambda: _bundled("diabetes"), final=True),
    "digits": RealSet("bundled", _digits, final=True),
    "carolina": RealSet("places", _carolina, final=True),
    "georgia": RealSet("places", lambda: _spatial("georgia", "GData_utm.csv", _GEORGIA), ("X", "Y"), final=True),
    "weather": RealSet("times", lambda: _in_time("seattle-weather.csv", "date"), final=True),
}
"""All sets by name, those for choosing first; every kind is in both parts.

Tables and bundled sets have no edges; in "table, near" rows receive from their nearest neighbours by columns that are
never hidden; places and times have neighbours of their own."""
