"""From what people type to graphs: a table or two, molecules, the name of a dataset. Every input is read once.

One function reads each kind of input; how a format is read belongs to `gspn.convert` and `gspn.datasets`, and which
columns mean what stands in `options`. A `Reading` is kept beside a saved model, so that other graphs are read as those
were that the model learned from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gspn.cli.options import Reading, dataset_options
from gspn.errors import InputError

if TYPE_CHECKING:
    from gspn.attributes import Attribute, Schema
    from gspn.convert.files import Table
    from gspn.convert.tables import GraphTables
    from gspn.graphs import GraphDataset
    from gspn.models.gspn import GSPN
    from gspn.models.stack import Stack

MOLECULES, SD_FILES = (".smi", ".smiles", ".txt"), (".sdf", ".sd", ".mol")
TABLES = (".csv", ".tsv", ".parquet", ".pq", ".xlsx", ".geojson", ".gpkg", ".shp")
LITERAL = "smiles:"


@dataclass(frozen=True, eq=False)
class Graphs:
    """What was read, and how."""

    dataset: GraphDataset
    reading: Reading
    molecules: bool = False
    """whether they can be drawn as molecules"""
    nodes: Table | None = None
    """the table of vertices, where there is one"""
    rows: Any = None
    """a DataFrame with one row for each molecule that was read, as the source has it"""
    notes: tuple[str, ...] = ()
    """what was found out about its columns, and how to say otherwise"""


@dataclass(frozen=True)
class Wanted:
    """How graphs are to be read, whatever their form."""

    reading: Reading
    model: GSPN | Stack | None = None
    """that they are for; without one a schema is found"""
    types: Mapping[str, str] | None = None
    labels: Sequence[str] = ()
    """the targets; without a model they must be there, with one they may be"""
    labels_file: Path | None = None
    progress: bool = False

    @property
    def schema(self) -> Schema | None:
        return None if self.model is None else self.model.schema

    @property
    def target(self) -> Any:
        return getattr(self.model, "target", None)


def model_and_graphs(
    model: Path,
    source: str,
    edges: Path | None,
    said: Any,
    *,
    labels_file: Path | None = None,
    predicts: bool = False,
    progress: bool,
) -> tuple[GSPN | Stack, Graphs]:
    """A saved model and the graphs to ask it about; `said` is what the command line says of columns.

    Who `predicts` graphs by a head on their features knows nothing else.
    """
    from gspn.graph_level.loading import load
    from gspn.graph_level.predicting import GraphPredictor
    from gspn.targets import target_schema

    fitted: Any = load(model)
    if isinstance(fitted, GraphPredictor) and not predicts:
        raise InputError(f"{model} predicts whole graphs and answers nothing else; gspn fit without --target does")
    target = getattr(fitted, "target", None)
    labels = () if target is None else target_schema(target).names
    reading = Reading.of(Reading.beside(model), **vars(said))
    wanted = Wanted(reading, fitted, labels=labels, labels_file=labels_file, progress=progress)
    return fitted, read_graphs(source, edges, wanted)


def read_graphs(source: str, edges: Path | None, wanted: Wanted) -> Graphs:
    """Graphs from a file, two files, a dataset's name or `smiles:…`."""
    if source.startswith(LITERAL):
        _refuse_edges(edges, "a molecule")
        return read_smiles([source.removeprefix(LITERAL)], wanted)
    path = Path(source)
    suffix = Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()
    if not path.exists():
        if suffix in (*MOLECULES, *SD_FILES, *TABLES) or len(path.parts) > 1:
            raise InputError(f"{source}: there is no such file")
        _refuse_edges(edges, f"the dataset {source}")
        return read_named(source, wanted)
    if path.is_dir():
        raise InputError(f"{source} is a folder; graphs are read from files or by a dataset's name")
    if edges is not None or suffix in TABLES:
        return read_tables(path, edges, wanted)
    if suffix in MOLECULES:
        return read_smiles(path, wanted)
    if suffix in SD_FILES:
        return read_sd_file(path, wanted)
    raise InputError(
        f"{source}: files of graphs end in {', '.join((*MOLECULES, *SD_FILES, *TABLES))} (text also in .gz)"
    )


def read_tables(path: Path, edges: Path | None, wanted: Wanted) -> Graphs:
    """The graphs of a table of vertices, and one of edges if there are any; or the molecules of a table of these."""
    from gspn.convert.edge_tables import Layout
    from gspn.convert.files import read_table
    from gspn.convert.finding import find_smiles
    from gspn.convert.tables import read_graph_tables
    from gspn.errors import Problems

    read, schema, problems = wanted.reading, wanted.schema, Problems()
    written: dict[str, Any] = {"delimiter": read.delimiter, "encoding": read.encoding}
    kinds = None if schema is None else {attribute.name: attribute for attribute in schema}
    nodes: Table | None = None
    with problems.noted():
        nodes = read_table(path, "nodes", [read.id, read.graph], kinds, **written)
    present = set[str]() if nodes is None else {str(name) for name in nodes.frame.columns}
    if nodes is not None and edges is None and not (schema is not None and present.issuperset(schema.names)):
        smiles = find_smiles(nodes.frame, read.smiles, read.ignore)
        if smiles is not None:
            return read_smiles(nodes, replace(wanted, reading=replace(read, smiles=smiles)))
    labels = [name for name in wanted.labels if wanted.labels_file is None and (schema is None or name in present)]
    ignored = [name for name in read.ignore if schema is None or name in present]
    if schema is not None:  # what the model knows nothing of
        ignored += sorted(present - {*schema.names, read.id, read.graph, *labels, *ignored})
    targets = _graph_labels(wanted)
    has_types = edges is not None and read.edge_type is not None
    found = read_graph_tables(
        nodes,
        edges,
        schema,
        layout=Layout(
            read.ends[0],
            read.ends[1],
            read.graph,
            read.edge_type if has_types else None,
            read.edge_types if has_types else None,
            read.directed,
            read.parallel,
        ),
        id=read.id,
        y=None if not labels else labels[0] if len(labels) == 1 else labels,
        targets=targets,
        target_attribute=wanted.target if labels or targets is not None else None,
        ignore=ignored,
        keep=read.keep if schema is None else (),
        overrides=wanted.types or None,
        problems=problems,
        **written,
    )
    dataset = found.dataset()
    from gspn.completing import whole_numbers  # imports torch, as the line before does: no problem waits for it

    whole = whole_numbers(dataset) if schema is None else read.whole_numbers
    reading = replace(
        read,
        id=read.id if found.id is None else found.id,
        ends=found.layout.ends,
        edge_types=dataset.edge_types or read.edge_types,
        whole_numbers=whole,
    )
    return Graphs(dataset, reading, nodes=found.nodes, notes=tuple(_notes(found, read, edges)))


def _notes(found: GraphTables, read: Reading, edges: Path | None) -> Iterator[str]:
    """What was found out about columns, in words."""
    if found.id != read.id:
        ids = "rows are called by their numbers" if found.id is None else f"{found.id!r} holds what {edges} names"
        yield f"no column is called {read.id!r}: {ids}; --id says otherwise"
    if edges is not None and found.layout.ends != read.ends:
        yield f"edges lead from {' to '.join(map(repr, found.layout.ends))}; --ends FROM,TO says otherwise"
    if found.left_out:
        told = ", ".join(f"{name!r} ({reason})" for name, reason in found.left_out.items())
        yield f"left out, with the gaps in them: {told}; to keep one: --keep {next(iter(found.left_out))!r}"


def _graph_labels(wanted: Wanted) -> Any:
    """The table of graphs' labels, cut to the columns that are asked for."""
    if wanted.labels_file is None:
        return None
    graph = wanted.reading.graph
    if graph is None:
        raise InputError("--targets gives labels of graphs, so --graph must name the column that tells graphs apart")
    from gspn.convert.files import read_table

    read = wanted.reading
    frame = read_table(wanted.labels_file, "targets", [graph], delimiter=read.delimiter, encoding=read.encoding).frame
    for name in (graph, *wanted.labels):
        if name not in frame.columns:
            raise InputError(f"{wanted.labels_file} has no column {name!r}; there are {', '.join(frame.columns)}")
    return frame[[graph, *wanted.labels]]


def read_smiles(source: Path | Table | list[str], wanted: Wanted) -> Graphs:
    """Molecules from a file of SMILES, a table with a column of them, or a list."""
    import numpy as np

    from gspn.columns import is_missing
    from gspn.convert.files import Table, import_pandas
    from gspn.convert.molecule_files import read_smiles_source
    from gspn.convert.molecules import from_smiles

    read = wanted.reading
    given: Any = source.frame if isinstance(source, Table) else source
    columns = [str(name) for name in given.columns] if isinstance(source, Table) else []
    y: Any = None
    if wanted.labels and (wanted.model is None or set(wanted.labels) <= set(columns)):
        for name in wanted.labels:
            if name not in columns:
                where = source.name if isinstance(source, Table) else source
                known = ", ".join(columns) or "none"
                raise InputError(f"{where} has no column {name!r} to learn; there are {known}")
        y = wanted.labels[0] if len(wanted.labels) == 1 else list(wanted.labels)
    called = read.id if read.id in columns else None
    records = read_smiles_source(given, read.smiles, [] if called is None else [called])
    found = records.names if called is None else records.columns[called]
    # What the file calls them, or the SMILES themselves: numbers would be off wherever one is left out.
    names = [
        str(text) if is_missing(name) or name == "" else name
        for name, text in zip(repeat("") if found is None else found, records.texts, strict=False)
    ]
    dataset = from_smiles(
        given,
        features=_features(wanted),
        smiles=read.smiles,
        y=y,
        target=wanted.target if y is not None else None,
        names=range(len(names)),
        progress=wanted.progress,
    )
    assert dataset.graph_names is not None
    kept = [int(number) for number in dataset.graph_names]
    called_so = np.empty(len(kept), dtype=object)
    called_so[:] = [names[number] for number in kept]
    rows = given if isinstance(source, Table) else import_pandas().DataFrame({"smiles": list(records.texts)})
    return replace(_atoms(replace(dataset, graph_names=called_so), wanted), rows=rows.iloc[kept])


def read_sd_file(path: Path, wanted: Wanted) -> Graphs:
    """The molecules of an SD file."""
    from gspn.convert.molecules import from_sdf

    y: Any = None if not wanted.labels or wanted.model is not None else list(wanted.labels)
    y = y[0] if y is not None and len(y) == 1 else y
    return _atoms(from_sdf(path, features=_features(wanted), y=y, progress=wanted.progress), wanted)


def read_named(name: str, wanted: Wanted) -> Graphs:
    """A dataset by its name."""
    from gspn.convert.atoms import BOND_TYPES
    from gspn.datasets import load, names
    from gspn.datasets.registry import BUILTIN

    options = dataset_options(wanted.reading.options)
    if name == BUILTIN:
        features = _features(wanted)
        options |= {"features": features if isinstance(features, str) else list(features)}
        # All of them would take some seconds, for nothing; without labels any will do.
        options.setdefault("target", wanted.labels[0] if len(wanted.labels) == 1 else list(wanted.labels) or "rings")
    try:
        dataset = load(name, progress=wanted.progress, **options)
    except InputError as error:
        if name in names():
            raise
        raise InputError(
            f"{error}. There is no file of that name either; a molecule is given as {LITERAL}CCO"
        ) from error
    if wanted.types:
        raise InputError(f"--types is for tables; the attributes of {name} have their kinds")
    if wanted.schema is not None and dataset.schema != wanted.schema:
        raise InputError(
            f"{name} has the attributes {', '.join(dataset.schema.names)}, the model was trained on "
            f"{', '.join(wanted.schema.names)} (or on other values of them)"
        )
    graphs = _atoms(dataset, wanted) if dataset.edge_types == BOND_TYPES else Graphs(dataset, wanted.reading)
    return replace(graphs, dataset=_with_labels(dataset, name, wanted))


def _features(wanted: Wanted) -> Any:
    """Which features atoms get: those of the model, where there is one."""
    if wanted.schema is None:
        features = wanted.reading.features
        return features if isinstance(features, str) else list(features)
    from gspn.convert.atoms import FEATURES, OGB_SCHEMA

    unknown = [name for name in wanted.schema.names if name not in FEATURES]
    if wanted.schema != OGB_SCHEMA and unknown:
        raise InputError(f"this model was not trained on molecules: atoms have no feature {unknown[0]!r}")
    return "ogb" if wanted.schema == OGB_SCHEMA else list(wanted.schema.names)


def _atoms(dataset: GraphDataset, wanted: Wanted) -> Graphs:
    if wanted.types:
        raise InputError("--types is for tables; the features of atoms have their kinds")
    return Graphs(dataset, replace(wanted.reading, edge_types=dataset.edge_types), molecules=True)


def _with_labels(dataset: GraphDataset, source: str, wanted: Wanted) -> GraphDataset:
    """The dataset with just the asked targets among those that it carries."""
    if not wanted.labels or (dataset.y is None and wanted.model is not None):
        return replace(dataset, y=None, target_level=None, target=None)
    if dataset.y is None or dataset.target is None:
        raise InputError(f"{source} carries no labels, so there is no {wanted.labels[0]!r} to learn")
    from gspn.attributes import Schema
    from gspn.targets import target_schema

    known: Attribute | Schema = dataset.target
    names = target_schema(known).names
    for name in wanted.labels:
        if name not in names:
            raise InputError(f"{source} has no target {name!r}; there are {', '.join(names)}")
    if not isinstance(known, Schema):
        return dataset
    y = dataset.y[:, [names.index(name) for name in wanted.labels]]
    if len(wanted.labels) == 1:
        return replace(dataset, y=y[:, 0], target=known[wanted.labels[0]])
    return replace(dataset, y=y, target=Schema(known[name] for name in wanted.labels))


def _refuse_edges(edges: Path | None, what: str) -> None:
    if edges is not None:
        raise InputError(f"{what} brings its own edges; a table of edges ({edges}) belongs to one of vertices")
