"""Reader of the TU collection's format: `NAME_A.txt`, `_graph_indicator`, `_graph_labels` and their relatives in a zip.

An edge line "u, v" is an edge from u to v exactly as it stands, self-loops and repetitions included; vertices and edges
keep the order of the files within their graph.

- vertex attributes: `_node_labels` gives a categorical "label" (or label_0, label_1, …) whose categories are the
  distinct numbers in the file in order, `_node_attributes` continuous columns "attribute" (or attribute_0, …). Where
  there is neither, the only attribute is the "degree": incoming edges as in the file, a self-loop once.
- edge types: the distinct `_edge_labels` (rows of them, if there are several columns) in order are types 0, 1, ….
- target "y": the distinct `_graph_labels` in order are its categories; without that file, `_graph_attributes` are
  continuous (several columns: y_0, y_1, …).
- folds: the published ones of the "fair comparison" study if their file is found or can be had; else none are drawn.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gspn.arguments import check_choice
from gspn.attributes import Attribute, Categorical, Continuous, Count, Schema
from gspn.datasets.archives import Files
from gspn.datasets.family import Family, Found, RawSource, Sources, Target
from gspn.datasets.raw_files import RawFile
from gspn.datasets.text_tables import Integers, integer_blocks, read_floats, read_integers
from gspn.datasets.tu_names import PUBLISHED_FOLDS
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.degrees import with_degree
from gspn.graphs.pack import packed, pointer
from gspn.graphs.splits import read_folds

logger = logging.getLogger(__name__)

COLLECTION = "https://www.chrsmrrs.com/graphkerneldatasets"
# One commit of the study's repository, so that the folds can never change.
FOLDS = (
    "https://raw.githubusercontent.com/diningphil/gnn-comparison/097d0a2c172149075e40ece474c30c222526dbcb/data_splits"
)


def _options(*, degree: str | None = None) -> dict[str, Any]:
    """degree: None for a continuous one where there is no other attribute; "continuous" or "count" (negative binomial)
    adds one in any case, "category" one as `gspn.graphs.degrees` has it, to what there is without."""
    check_choice("degree", degree, (None, "continuous", "count", "category"))
    return {"degree": degree}


def _sources(name: str) -> Sources:
    group = PUBLISHED_FOLDS.get(name)
    folds = RawFile(f"splits/{name}.json", None if group is None else f"{FOLDS}/{group}/{name}_splits.json")
    return {
        "graphs": RawSource((RawFile(f"tu/{name}.zip", f"{COLLECTION}/{name}.zip"),)),
        "folds": RawSource((RawFile(f"splits/{name}.json.gz"), folds), required=False),
    }


def _read(name: str, found: Found, options: dict[str, Any], progress: bool) -> GraphDataset:
    path = found["graphs"]
    assert path is not None
    with Files(path) as files:
        category = options["degree"] == "category"
        dataset = _TUReader(files, name, path).read(None if category else options["degree"], found["folds"])
    return with_degree(dataset) if category else dataset


FAMILY = Family(version=1, options=_options, sources=_sources, read=_read)


@dataclass(frozen=True)
class _TUEdges:
    index: NDArray[np.int32]
    """[2, E] numbered inside each graph, grouped by graph"""
    per_graph: Integers
    order: Integers | None
    """which line of the file each edge is from; None if it is the file's own order"""
    degree: Integers
    """[N] edges that end at each vertex, in the file's order of vertices"""


@dataclass(frozen=True)
class _TUReader:
    files: Files
    name: str
    path: Path

    def read(self, degree: str | None, folds: Path | None) -> GraphDataset:
        graph_of = self._graph_indicator()
        sizes = np.bincount(graph_of)
        target = self._target(len(sizes))
        by_graph = _grouping(graph_of)
        edges = self._edges(graph_of, _numbers_inside(graph_of, sizes, by_graph))
        schema, x = self._attributes(len(graph_of), edges.degree, degree)
        return packed(
            schema,
            x if by_graph is None else x[by_graph],
            edges.index,
            pointer(sizes),
            pointer(edges.per_graph),
            edge_type=self._edge_types(edges),
            y=target.values,
            target=target.kind,
            target_level="graph",
            splits=() if folds is None else read_folds(folds, len(sizes)),
        )

    def _member(self, part: str) -> str:
        return f"{self.name}_{part}.txt"

    def _where(self, part: str) -> str:
        return self.files.describe(self._member(part))

    def _has(self, part: str) -> bool:
        return self.files.find(self._member(part)) is not None

    def _integers(self, part: str, columns: int | None = None) -> Integers:
        with self.files.open(self._member(part)) as stream:
            return read_integers(stream, self._where(part), columns=columns)

    def _floats(self, part: str) -> NDArray[np.float64]:
        with self.files.open(self._member(part)) as stream:
            values = read_floats(stream, self._where(part))
        if len(infinite := np.flatnonzero(np.isinf(values).any(1))):
            raise InputError(f"{self._where(part)}, line {infinite[0] + 1}: the line holds an infinite number")
        return values

    def _check_rows(self, part: str, rows: int, wanted: int, of: str) -> None:
        if rows != wanted:
            raise InputError(f"{self._where(part)} has {rows:,} lines, but there are {wanted:,} {of}")

    def _graph_indicator(self) -> Integers:
        """[N] the graph of every vertex, from 0 on."""
        graph_of = self._integers("graph_indicator", 1)[:, 0] - 1
        where = self._where("graph_indicator")
        if not len(graph_of):
            raise InputError(f"{where} is empty")
        if graph_of.min() < 0:
            line = int(graph_of.argmin()) + 1
            raise InputError(f"{where}, line {line}: graphs are numbered from 1 on, found {graph_of.min() + 1}")
        # An absurd number in one line must not allocate as many counters.
        present = np.unique(graph_of)
        if len(present) <= graph_of.max():
            absent = int(np.flatnonzero(present != np.arange(len(present)))[0])
            raise InputError(f"{where}: graph {absent + 1} has no vertex, although there is a graph {present[-1] + 1}")
        return graph_of

    def _edges(self, graph_of: Integers, inside: Integers) -> _TUEdges:
        size = len(graph_of)
        where = self._where("A")
        blocks, owners, degree = [], [], np.zeros(size, dtype=np.int64)
        with self.files.open(self._member("A")) as stream:
            for line, numbers in integer_blocks(stream, where, columns=2):
                ends = numbers.T - 1
                low, high = int(ends.min()), int(ends.max())
                if low < 0 or high >= size:
                    at = int(((ends < 0) | (ends >= size)).any(0).argmax())
                    found = f"({numbers[at, 0]}, {numbers[at, 1]})"
                    raise InputError(f"{where}, line {line + at}: edge {found}, but vertices are numbered 1 to {size}")
                owner, other = graph_of[ends]
                if (owner != other).any():
                    at = int((owner != other).argmax())
                    graphs = f"graph {owner[at] + 1} with graph {other[at] + 1}"
                    raise InputError(
                        f"{where}, line {line + at}: edge ({numbers[at, 0]}, {numbers[at, 1]}) joins {graphs}"
                    )
                degree[low : high + 1] += np.bincount(ends[1] - low, minlength=high - low + 1)
                blocks.append(inside[ends].astype(np.int32))
                owners.append(owner.astype(np.int32))
        owner = np.concatenate(owners) if owners else np.empty(0, dtype=np.int32)
        index = np.concatenate(blocks, axis=1) if blocks else np.empty((2, 0), dtype=np.int32)
        order = _grouping(owner)
        per_graph = np.bincount(owner, minlength=int(graph_of.max()) + 1)
        return _TUEdges(index if order is None else index[:, order], per_graph, order, degree)

    def _edge_types(self, edges: _TUEdges) -> NDArray[np.int32] | None:
        if not self._has("edge_labels"):
            return None
        labels = self._integers("edge_labels")
        self._check_rows("edge_labels", len(labels), edges.index.shape[1], f"edges in {self._member('A')}")
        types = np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)
        return types if edges.order is None else types[edges.order]

    def _attributes(self, size: int, degrees: Integers, degree: str | None) -> tuple[Schema, NDArray[Any]]:
        attributes: list[Attribute] = []
        columns: list[NDArray[Any]] = []
        vertices = f"vertices in {self._member('graph_indicator')}"
        if self._has("node_labels"):
            labels = self._integers("node_labels")
            self._check_rows("node_labels", len(labels), size, vertices)
            for name, column in zip(_numbered("label", labels.shape[1]), labels.T, strict=True):
                categories, codes = np.unique(column, return_inverse=True)
                attributes.append(Categorical(name, categories.tolist()))
                columns.append(codes.astype(np.float32))
        if self._has("node_attributes"):
            values = self._floats("node_attributes")
            self._check_rows("node_attributes", len(values), size, vertices)
            attributes += [Continuous(name) for name in _numbered("attribute", values.shape[1])]
            columns += list(values.T)
        if degree is not None or not attributes:
            count = degree == "count"
            attributes.append(Count("degree", distribution="negative_binomial") if count else Continuous("degree"))
            columns.append(degrees.astype(np.float32 if degrees.max() < 2**24 else np.float64))
        return Schema(attributes), np.stack(columns, axis=1)

    def _target(self, num_graphs: int) -> Target:
        graphs = f"graphs in {self._member('graph_indicator')}"
        if self._has("graph_labels") or not self._has("graph_attributes"):
            labels = self._integers("graph_labels", 1)[:, 0]
            self._check_rows("graph_labels", len(labels), num_graphs, graphs)
            classes, codes = np.unique(labels, return_inverse=True)
            return Target(Categorical("y", classes.tolist()), codes)
        values = self._floats("graph_attributes")
        self._check_rows("graph_attributes", len(values), num_graphs, graphs)
        if values.shape[1] == 1:
            return Target(Continuous("y"), values[:, 0])
        return Target(Schema(Continuous(name) for name in _numbered("y", values.shape[1])), values)


def _grouping(owner: NDArray[Any]) -> Integers | None:
    """The order that puts what belongs to one graph together, keeping its own order; None if it stands so already."""
    return None if (np.diff(owner) >= 0).all() else np.argsort(owner, kind="stable")


def _numbers_inside(graph_of: Integers, sizes: Integers, by_graph: Integers | None) -> Integers:
    """[N] the number of every vertex inside its graph."""
    if by_graph is None:
        return np.arange(len(graph_of)) - pointer(sizes)[graph_of]
    inside = np.empty(len(graph_of), dtype=np.int64)
    inside[by_graph] = np.arange(len(graph_of)) - pointer(sizes)[graph_of[by_graph]]
    return inside


def _numbered(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
