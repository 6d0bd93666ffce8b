"""What the page looks at: a graph with a model that can be asked about it, drawn at fixed places.

Here belong the two ways in, molecules and uploaded tables, and their limits. What the model says is in `answers`.
"""

from __future__ import annotations

import contextlib
import csv
import io
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data

from gspn.attributes import Categorical, Schema
from gspn.columns import shorten
from gspn.convert import valences
from gspn.convert.atoms import BOND_TYPES, FEATURES, OGB_SCHEMA, import_rdkit
from gspn.convert.frames import from_tables
from gspn.convert.molecules import from_smiles
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset
from gspn.models.gspn import GSPN
from gspn.models.stack import Stack
from gspn.queries.scoring import is_cheap
from gspn.web.columns import TableColumns
from gspn.web.layout import spread
from gspn.web.limits import Limits


@dataclass(frozen=True, eq=False)
class Subject:
    """A graph, the model to ask, and how it is drawn."""

    model: GSPN | Stack
    graph: Data
    names: tuple[str, ...]
    """What the vertices are called"""
    places: NDArray[np.float64]
    """[N, 2], one unit about the length of an edge, y upwards"""
    edge_types: tuple[str, ...]
    """Names of the codes; empty where edges have no types"""
    molecule: Any = None
    """RDKit's, where the graph is one"""


def features_of(schema: Schema) -> str | tuple[str, ...] | None:
    """The atom features that give a schema, as `from_smiles` takes them; None if molecules have no such attributes."""
    if schema == OGB_SCHEMA:
        return "ogb"
    known = [FEATURES[name].attribute for name in schema.names if name in FEATURES]
    return schema.names if known == list(schema) else None


def knows_molecules(model: GSPN | Stack) -> bool:
    return features_of(model.schema) is not None and model.num_edge_types in (1, len(BOND_TYPES))


def members(model: GSPN | Stack) -> tuple[GSPN, ...]:
    """The models of a stack, or the one model."""
    own: Any = model
    found: tuple[GSPN, ...] = getattr(own, "models", (own,))
    return found


def from_text(model: GSPN | Stack, smiles: str, limits: Limits) -> Subject:
    """A molecule."""
    if not knows_molecules(model):
        raise InputError("this model does not know molecules: its attributes are not those of atoms; upload tables")
    _refuse("SMILES characters", len(smiles), limits.smiles_characters)
    if not smiles.strip():
        raise InputError("there is no SMILES")
    features = features_of(model.schema)
    assert features is not None
    # RDKit reads ASCII; other characters look alike and would only make its messages unreadable.
    if not smiles.isascii() or not smiles.isprintable():
        raise InputError("a SMILES is written in plain letters, digits and signs; this text has other characters")
    try:
        graph = from_smiles([smiles], features=features, on_error="raise", processes=1, progress=False)[0]
    except InputError as error:
        reason = str(error).partition(f"{shorten(smiles)}: ")[2] or str(error)
        raise InputError(f"this SMILES cannot be read: {reason}") from None
    _refuse("atoms", len(graph.x), limits.atoms)
    molecule = valences.read_molecule(smiles)
    symbols = [atom.GetSymbol() for atom in molecule.GetAtoms()]
    # Numbered from 0, as RDKit, the commands and `what_if` do.
    names = tuple(f"{symbol}{number}" for number, symbol in enumerate(symbols))
    return Subject(model, graph, names, _depict(molecule), BOND_TYPES, molecule)


def _depict(molecule: Any) -> NDArray[np.float64]:
    import_rdkit()
    from rdkit.Chem import rdDepictor

    rdDepictor.Compute2DCoords(molecule, canonOrient=True)
    places: NDArray[np.float64] = np.array(molecule.GetConformer().GetPositions()[:, :2])
    places -= places.mean(axis=0)
    return places / 1.5  # RDKit draws bonds of 1.5


@dataclass(frozen=True, eq=False)
class Upload:
    """Graphs of uploaded tables."""

    dataset: GraphDataset
    names: tuple[str, ...]
    """What the graphs are called"""
    edge_types: tuple[str, ...]
    can_leave_out: bool
    """Whether leaving out every vertex is cheap, for the model whose schema fits"""

    def subject(self, model: GSPN | Stack, number: int) -> Subject:
        if number >= len(self.dataset):
            raise InputError(f"graph {number} does not exist: the upload has {len(self.dataset)} graphs")
        one = self.dataset[[number]]
        graph = one[0]
        assert one.vertex_names is not None
        ids = [str(name)[:60] for name in one.vertex_names[one.vertex_rows()]]
        return Subject(model, graph, tuple(ids), spread(len(graph.x), graph.edge_index.numpy()), self.edge_types)


def read_tables(
    nodes: bytes, edges: bytes | None, model: GSPN | Stack | None, limits: Limits, columns: TableColumns
) -> tuple[Upload, bool]:
    """Uploaded CSV tables as graphs, and whether the model's schema fits them (else they have one of their own)."""
    with tempfile.TemporaryDirectory(prefix="gspn-web-") as folder:
        tables: list[Path | None] = [None, None]
        for number, (name, content) in enumerate((("nodes", nodes), ("edges", edges))):
            if content is not None:
                tables[number] = Path(folder, f"{name}.csv")
                Path(folder, f"{name}.csv").write_bytes(content)
        try:
            return _read_files(nodes, edges, tables, model, limits, columns)
        except InputError as error:
            raise InputError(str(error).replace(f"{folder}/", "").replace(folder, "")) from None


def _read_files(
    nodes: bytes,
    edges: bytes | None,
    tables: Sequence[Path | None],
    model: GSPN | Stack | None,
    limits: Limits,
    columns: TableColumns,
) -> tuple[Upload, bool]:
    for name, content, most in (("nodes", nodes, limits.vertices), ("edges", edges or b"", limits.edges)):
        _refuse(f"rows of {name}", content.count(b"\n"), most + 2)  # before anything is parsed
    header, edge_header = (_header(content) for content in (nodes, edges or b""))
    if columns.id is not None and columns.id not in header:
        raise InputError(f"nodes.csv needs a column called {columns.id}; its header is {', '.join(header)[:200]!r}")
    lacking = [name for name in (columns.source, columns.target) if edges is not None and name not in edge_header]
    if lacking:
        raise InputError(
            f"edges.csv needs a column called {lacking[0]}; its header is {', '.join(edge_header)[:200]!r}"
        )
    _refuse("columns", max(len(header), len(edge_header)), limits.columns + 2)
    used = (columns.source, columns.target, columns.edge_type, columns.graph)
    options: dict[str, Any] = {
        "id": columns.id,
        "source": columns.source,
        "target": columns.target,
        "graph": columns.graph if columns.graph in header else None,
        "edge_type": columns.edge_type if columns.edge_type in edge_header else None,
        "ignore": [name for name in edge_header if name not in used and name not in header],
    }
    dataset, fits = _read_by(model, tables, options, header)
    _refuse("vertices", len(dataset.entries()), limits.vertices)
    _refuse("edges", int(dataset.num_edges_per_graph().sum()), limits.edges)
    for attribute in dataset.schema:
        values = attribute.categories if isinstance(attribute, Categorical) else ()
        _refuse(f"values of {attribute.name[:100]!r}", len(values), limits.categories)
        longest = max(len(str(text)) for text in (attribute.name, *values))
        _refuse(f"characters in {attribute.name[:100]!r}", longest, limits.text_characters)
    names = dataset.graph_names
    called = [str(name)[:60] for name in names] if names is not None else ["graph"] * len(dataset)
    types = tuple(str(one)[:60] for one in dataset.edge_types or ())
    cheap = True
    if model is not None and fits:
        cheap = is_cheap(dataset, model.answering.longest_closed_walk, limits.vertices, seed=0)
    return Upload(dataset, tuple(called), types, cheap), fits


def _read_by(
    model: GSPN | Stack | None, tables: Sequence[Path | None], options: dict[str, Any], header: Sequence[str]
) -> tuple[GraphDataset, bool]:
    """By the model's schema if that fits the tables, or else by one of their own."""
    nodes, edges = tables
    if model is not None:
        with contextlib.suppress(InputError):
            known = (*model.schema.names, options["id"], options["graph"])
            # What the model knows nothing of; a table with other columns alone has none of the model's, and is refused.
            more = [name for name in header if name not in known] if {*model.schema.names} <= {*header} else []
            own = {**options, "ignore": [*options["ignore"], *more]}
            dataset = from_tables(nodes, edges, model.schema, **own)
            for one in members(model):
                one.collate(dataset)  # complains of edge types and of values beyond all measure
            return dataset, True
    return from_tables(nodes, edges, **options), False


def _header(content: bytes) -> list[str]:
    try:
        first = content[:20_000].decode("utf-8-sig", errors="strict" if len(content) <= 20_000 else "ignore")
    except UnicodeDecodeError:
        raise InputError("tables must be CSV files in UTF-8") from None
    if "\0" in first:
        raise InputError("tables must be CSV files; this is something else")
    return [name.strip() for name in next(csv.reader(io.StringIO(first)), [])]


def _refuse(what: str, found: int, most: int) -> None:
    if found > most:
        raise InputError(f"too many {what}: {found:,}, and at most {most:,} are taken")
