"""From what people type to graphs: files of molecules, tables, saved PyG data, names of datasets.

Which columns mean what is a `Reading`. It is kept beside a saved model, so that other graphs are read as those were
that the model learned from. How a format is read belongs to `gspn.convert` and `gspn.datasets`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gspn.errors import InputError

if TYPE_CHECKING:
    from gspn.attributes import Attribute, Schema
    from gspn.convert.files import Table
    from gspn.graphs import GraphDataset
    from gspn.models.gspn import GSPN
    from gspn.models.stack import Stack

MOLECULES, SD_FILES = (".smi", ".smiles", ".txt"), (".sdf", ".sd", ".mol")
TABLES = (".csv", ".tsv", ".parquet", ".pq")
SAVED = (".pt", ".pth")
LITERAL = "smiles:"
_KINDS = ("categorical", "continuous", "binary", "count")


@dataclass(frozen=True)
class Reading:
    """Which columns mean what, and which features atoms have."""

    id: str = "id"
    graph: str | None = None
    ends: tuple[str, ...] = ("source", "target")
    edge_type: str | None = None
    directed: bool = False
    parallel: bool = False
    ignore: tuple[str, ...] = ()
    smiles: str = "smiles"
    features: str | tuple[str, ...] = "default"
    options: tuple[str, ...] = ()
    """of a named dataset, as NAME=VALUE"""
    edge_types: tuple[Any, ...] | None = None
    """what the edge types are called, by code; found by reading"""
    whole_numbers: tuple[str, ...] = ()
    """the continuous attributes of a table that are filled with whole numbers; found by reading"""

    @classmethod
    def of(cls, base: Reading | None = None, **said: Any) -> Reading:
        """What was said on the command line, and for all else what `base` or the defaults say."""
        given = {name: value for name, value in said.items() if value is not None}
        for name in ("ends", "ignore"):
            if name in given:
                given[name] = _listed(given[name])
        if len(given.get("ends", "ab")) != 2:
            raise InputError("--ends takes two columns: --ends source,target")
        if given.get("features", "default") not in ("default", "ogb"):
            given["features"] = _listed(given["features"])
        if "options" in given:
            given["options"] = tuple(given["options"])
        return replace(base or cls(), **given)

    @classmethod
    def beside(cls, model: Path) -> Reading:
        """How the graphs of a saved model were read; the defaults if nobody wrote it down."""
        from gspn.cli.outputs import READING

        path = model / READING
        if not path.exists():
            return cls()
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            known = {field.name for field in fields(cls)}
            return cls(**{name: _tuples(value) for name, value in kept.items() if name in known})
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is damaged: {error}") from error

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Graphs:
    """What was read, and how."""

    dataset: GraphDataset
    reading: Reading
    molecules: bool = False
    """whether they can be drawn as molecules"""


def read_graphs(
    source: str,
    edges: Path | None,
    reading: Reading,
    *,
    model: GSPN | Stack | None = None,
    types: Mapping[str, str] | None = None,
    labels: Sequence[str] = (),
    labels_file: Path | None = None,
    progress: bool = True,
) -> Graphs:
    """Graphs from a file, two files, a dataset's name or `smiles:…`; with a model, as that one needs them.

    `labels` names the targets to read; without a model they must be there, with one they may be.
    """
    asked = _Asked(reading, model, types or {}, tuple(labels), labels_file, progress)
    if source.startswith(LITERAL):
        _refuse_edges(edges, "a molecule")
        return asked.molecules([source.removeprefix(LITERAL)])
    path = Path(source)
    suffix = _suffix(path)
    if not path.exists():
        if suffix in (*MOLECULES, *SD_FILES, *TABLES, *SAVED) or len(path.parts) > 1:
            raise InputError(f"{source}: there is no such file")
        _refuse_edges(edges, f"the dataset {source}")
        return asked.named(source)
    if path.is_dir():
        raise InputError(f"{source} is a folder; graphs are read from files or by a dataset's name")
    if edges is not None:
        return asked.tables(path, edges)
    if suffix in MOLECULES:
        return asked.molecules(path)
    if suffix in SD_FILES:
        return asked.sd_file(path)
    if suffix in SAVED:
        return asked.saved(path)
    if suffix in TABLES:
        return asked.molecules(path) if reading.smiles in columns_of(path) else asked.tables(path, None)
    known = ", ".join((*MOLECULES, *SD_FILES, *TABLES, *SAVED))
    raise InputError(f"{source}: files of graphs end in {known} (text also in .gz)")


def read_tables(nodes: Path, edges: Path | None, reading: Reading, *, types: Mapping[str, str] | None = None) -> Graphs:
    """The graphs of a table of vertices, and one of edges if there are any."""
    return _Asked(reading, None, types or {}, (), None, False).tables(nodes, edges)


def columns_of(path: Path) -> list[str]:
    """The names of a table's columns."""
    from gspn.convert.files import read_table

    return [str(name) for name in read_table(path, "nodes", ()).frame.columns]


def parse_types(text: str | None) -> dict[str, str]:
    """`team=categorical,age=count` by name."""
    found = {}
    for part in _listed(text or ""):
        name, equals, kind = part.rpartition("=")
        if not equals or not name or kind not in _KINDS:
            raise InputError(f"--types: {part!r} is not NAME=KIND, with a kind of {', '.join(_KINDS)}")
        found[name] = kind
    return found


@dataclass(frozen=True)
class _Asked:
    """One question for graphs, whatever the form in which they come."""

    reading: Reading
    model: GSPN | Stack | None
    types: Mapping[str, str]
    labels: tuple[str, ...]
    labels_file: Path | None
    progress: bool

    def tables(self, nodes: Path, edges: Path | None) -> Graphs:
        from gspn.convert.tables import from_tables
        from gspn.imputation import whole_numbers

        if edges is not None and not edges.exists():
            raise InputError(f"{edges}: there is no such file")
        read = self.reading
        table = read_nodes(nodes, read, self.schema)
        present = {str(name) for name in table.frame.columns}
        wanted = [name for name in self.labels if self.labels_file is None and (self.model is None or name in present)]
        ignored = [name for name in read.ignore if self.model is None or name in present]
        if self.schema is not None:  # what the model knows nothing of
            roles = {*self.schema.names, read.id, read.graph, *wanted}
            ignored += sorted(present - roles - {*ignored})
        targets, target = self._graph_labels()
        dataset = from_tables(
            table,
            edges,
            self.schema,
            id=read.id,
            graph=read.graph,
            source=read.ends[0],
            target=read.ends[1],
            edge_type=read.edge_type if edges is not None else None,
            edge_types=read.edge_types if edges is not None and read.edge_type is not None else None,
            directed=read.directed,
            parallel=read.parallel,
            y=None if not wanted else wanted[0] if len(wanted) == 1 else wanted,
            targets=targets,
            target_attribute=target if wanted or targets is not None else None,
            ignore=ignored,
            overrides=self.types or None,
        )
        whole = read.whole_numbers if self.model is not None else whole_numbers(dataset)
        return Graphs(dataset, replace(read, edge_types=dataset.edge_types or read.edge_types, whole_numbers=whole))

    def _graph_labels(self) -> tuple[Any, Attribute | Schema | None]:
        """The table of graphs' labels, cut to the columns that are asked for, and what they mean if a model knows."""
        target = getattr(self.model, "target", None)
        if self.labels_file is None:
            return None, target
        if self.reading.graph is None:
            raise InputError(
                "--targets gives labels of graphs, so --graph must name the column that tells graphs apart"
            )
        from gspn.convert.files import read_table

        frame = read_table(self.labels_file, "targets", [self.reading.graph]).frame
        for name in (self.reading.graph, *self.labels):
            if name not in frame.columns:
                raise InputError(f"{self.labels_file} has no column {name!r}; there are {', '.join(frame.columns)}")
        return frame[[self.reading.graph, *self.labels]], target

    def molecules(self, source: Path | list[str]) -> Graphs:
        from gspn.convert.molecule_files import read_smiles_source
        from gspn.convert.molecules import from_smiles

        read = self.reading
        columns = columns_of(source) if isinstance(source, Path) and _suffix(source) in TABLES else None
        y = self._label_columns(columns or (), str(source))
        given: Any = source
        if isinstance(source, Path) and _suffix(source) in (".parquet", ".pq"):
            from gspn.convert.files import read_table

            given = read_table(source, "molecules", ()).frame
        records = read_smiles_source(given, read.smiles, [read.id] if columns and read.id in columns else [])
        names = records.columns.get(read.id, records.names) if columns else records.names
        dataset = from_smiles(
            given,
            features=self._features(),
            smiles=read.smiles,
            y=y,
            target=getattr(self.model, "target", None) if y is not None else None,
            # What the file calls them, or the SMILES themselves: numbers would be off wherever one is left out.
            names=[name or str(text) for name, text in zip(names or repeat(""), records.texts, strict=False)],
            progress=self.progress,
        )
        return self._atoms(dataset)

    def sd_file(self, path: Path) -> Graphs:
        from gspn.convert.molecules import from_sdf

        y: Any = None if not self.labels or self.model is not None else list(self.labels)
        y = y[0] if y is not None and len(y) == 1 else y
        return self._atoms(from_sdf(path, features=self._features(), y=y, progress=self.progress))

    def saved(self, path: Path) -> Graphs:
        from gspn.attributes import Schema
        from gspn.cli.saved_graphs import read_saved
        from gspn.graphs import pack

        graphs = read_saved(path)
        schema = self.schema or Schema.infer(graphs, overrides=dict(self.types) or None)
        dataset = pack(graphs, schema)
        return Graphs(self._with_labels(dataset, str(path)), self.reading)

    def named(self, name: str) -> Graphs:
        from gspn.datasets import load, names
        from gspn.datasets.registry import BUILTIN

        options = dataset_options(self.reading.options)
        if name == BUILTIN:
            features = self._features()
            options |= {"features": features if isinstance(features, str) else list(features)}
            # All of them would take some seconds, for nothing; without labels any will do.
            options.setdefault("target", self.labels[0] if len(self.labels) == 1 else list(self.labels) or "rings")
        try:
            dataset = load(name, progress=self.progress, **options)
        except InputError as error:
            if name in names():
                raise
            raise InputError(
                f"{error}. There is no file of that name either; a molecule is given as {LITERAL}CCO"
            ) from error
        if self.types:
            raise InputError(f"--types is for tables and saved PyG data; the attributes of {name} have their kinds")
        if self.model is not None and dataset.schema != self.model.schema:
            raise InputError(
                f"{name} has the attributes {', '.join(dataset.schema.names)}, the model was trained on "
                f"{', '.join(self.model.schema.names)} (or on other values of them)"
            )
        from gspn.convert.atoms import BOND_TYPES

        graphs = self._atoms(dataset) if dataset.edge_types == BOND_TYPES else Graphs(dataset, self.reading)
        return replace(graphs, dataset=self._with_labels(dataset, name))

    @property
    def schema(self) -> Schema | None:
        return None if self.model is None else self.model.schema

    def _features(self) -> Any:
        """Which features atoms get: those of the model, where there is one."""
        if self.schema is None:
            return self.reading.features if isinstance(self.reading.features, str) else list(self.reading.features)
        from gspn.convert.atoms import FEATURES, OGB_SCHEMA

        unknown = [name for name in self.schema.names if name not in FEATURES]
        if self.schema != OGB_SCHEMA and unknown:
            raise InputError(f"the model is none of molecules: atoms have no feature {unknown[0]!r}")
        return "ogb" if self.schema == OGB_SCHEMA else list(self.schema.names)

    def _atoms(self, dataset: GraphDataset) -> Graphs:
        if self.types:
            raise InputError("--types is for tables and saved PyG data; the features of atoms have their kinds")
        return Graphs(dataset, replace(self.reading, edge_types=dataset.edge_types), molecules=True)

    def _label_columns(self, columns: Sequence[str], source: str) -> str | list[str] | None:
        """The columns with labels; a model can do without."""
        if not self.labels or (self.model is not None and not set(self.labels) <= set(columns)):
            return None
        for name in self.labels:
            if name not in columns:
                raise InputError(f"{source} has no column {name!r} to learn; there are {', '.join(columns) or 'none'}")
        return self.labels[0] if len(self.labels) == 1 else list(self.labels)

    def _with_labels(self, dataset: GraphDataset, source: str) -> GraphDataset:
        """The dataset with just the asked targets among those that it carries."""
        if not self.labels or (dataset.y is None and self.model is not None):
            return replace(dataset, y=None, target_level=None, target=None)
        if dataset.y is None:
            raise InputError(f"{source} carries no labels, so there is no {self.labels[0]!r} to learn")
        from gspn.attributes import Schema
        from gspn.targets import target_schema

        known = dataset.target or _infer_target(dataset.y)
        names = target_schema(known).names
        for name in self.labels:
            if name not in names:
                raise InputError(f"{source} has no target {name!r}; there are {', '.join(names)}")
        if not isinstance(known, Schema):
            return replace(dataset, target=known)
        y = dataset.y[:, [names.index(name) for name in self.labels]]
        if len(self.labels) == 1:
            return replace(dataset, y=y[:, 0], target=known[self.labels[0]])
        return replace(dataset, y=y, target=Schema(known[name] for name in self.labels))


def read_nodes(path: Path, reading: Reading, schema: Schema | None) -> Table:
    """The table of vertices."""
    from gspn.convert.files import read_table

    kinds = None if schema is None else {attribute.name: attribute for attribute in schema}
    return read_table(path, "nodes", [reading.id, reading.graph], kinds)


def _infer_target(y: Any) -> Attribute | Schema:
    from dataclasses import replace as renamed

    from gspn.attributes import Schema

    table = y if y.ndim > 1 else y[:, None]
    found = Schema.infer(table.float() if not table.is_floating_point() else table)
    names = ["y"] if table.shape[1] == 1 else [f"y{i}" for i in range(table.shape[1])]
    attributes = [renamed(attribute, name=name) for attribute, name in zip(found, names, strict=True)]
    return attributes[0] if y.ndim == 1 else Schema(attributes)


def dataset_options(said: Sequence[str]) -> dict[str, Any]:
    """`limit=500` and the like by name."""
    return dict(_option(text) for text in said)


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"--option: {text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _refuse_edges(edges: Path | None, what: str) -> None:
    if edges is not None:
        raise InputError(f"{what} brings its own edges; a table of edges ({edges}) belongs to one of vertices")


def _suffix(path: Path) -> str:
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
