"""`from_tables`: graphs from tables of vertices, edges and targets. How they are read is in `graph_tables`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gspn.attributes import Attribute, Schema
from gspn.convert.edge_tables import Layout
from gspn.convert.graph_tables import read_graph_tables
from gspn.graphs.dataset import GraphDataset


def from_tables(
    nodes: Any,
    edges: Any = None,
    schema: Schema | None = None,
    *,
    id: str | None = "id",
    graph: str | None = None,
    source: str = "source",
    target: str = "target",
    edge_type: str | None = None,
    edge_types: Sequence[Any] | None = None,
    directed: bool | str = False,
    parallel: bool = False,
    y: str | Sequence[str] | None = None,
    targets: Any = None,
    target_attribute: Attribute | Schema | None = None,
    ignore: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    overrides: Mapping[str, Attribute | str] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> GraphDataset:
    """Graphs from a table of vertices and a table of edges: DataFrames, or paths of CSV, TSV, Parquet or Excel files.

    Vertices. `id` names the column of ids (or the index that is called so; None: whatever the index holds). Where no
    column is called "id", it is the one that holds what the edges name, else the index. Ids may be
    numbers, text or both, and differ within a graph. All columns without another role are attributes: of the given
    schema, which must name just these, or of an inferred one that `overrides` changes by name. A missing cell is a
    missing entry. Columns named in `ignore` are left out of every table, those of the schema excepted. Without a schema
    columns that say nothing are left out as well, with a warning: those that are empty, the same in every row, text
    that differs in nearly every one, the number of the row; `keep`, or a kind in `overrides`, keeps them.

    Cells. Dates, 87 %, 1,234.5 and 3,14 are numbers where all of a column is written so; dates are days since 1970.
    In files of text, `delimiter` and `encoding` are found where they are not given.

    Graphs. `graph` names the column with the graph of each vertex (None: all are one graph). Graphs come in the order
    of their first rows, vertices in the order of their rows. Where edges have that column too, ids are looked up within
    the graph; otherwise an id that an edge names must be unique over all graphs.

    Edges. Also a [2, E] array or tensor of row numbers, a list of pairs of ids, a sparse matrix whose rows receive from
    their columns (scikit-learn's nearest neighbours, AnnData's `obsp`), libpysal's weights, or a NetworkX graph whose
    vertices are called by their ids. `source` and `target` name the columns with the ids; where no columns are called
    so, they are those of usual names (from, to), the only two, or the two that hold ids. With `directed=False` a row
    is stored in both directions, a self-loop once; with `directed=True` it is one edge that sends source's message to
    target; a column of booleans, named by `directed`, tells row by row. Two undirected rows that name an edge from
    either end, as lists of nearest neighbours do, are one edge, and a warning says so. Other rows that repeat an edge
    (same ends, same type) are an error unless `parallel=True` says that duplicates are kept. The values of the column
    `edge_type` become codes in the order of `edge_types`, else of the column's categories, else sorted; the log shows
    the order.

    Targets. `y` names one or several columns of nodes as vertex targets. `targets` gives graph targets: a table with
    the column `graph` and one or several further columns, or a Series indexed by graph; a graph without a row has a
    missing target. `target_attribute` types them (a schema if there are several), otherwise the type is inferred.

    In a CSV file ids are text unless all ids of the vertices are whole numbers as a computer writes them. Rows in error
    messages are counted from 0, without the header. One error tells all that is wrong with the tables.
    """
    read = read_graph_tables(
        nodes,
        edges,
        schema,
        layout=Layout(source, target, graph, edge_type, edge_types, directed, parallel),
        id=id,
        y=y,
        targets=targets,
        target_attribute=target_attribute,
        ignore=ignore,
        keep=keep,
        overrides=overrides,
        delimiter=delimiter,
        encoding=encoding,
    )
    read.tell_what_is_left_out()
    return read.dataset()
