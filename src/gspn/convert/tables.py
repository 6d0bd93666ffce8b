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

    All columns of vertices without another role are attributes; a missing cell is a missing entry. Without a schema,
    columns that carry no information are left out with a warning: those that are empty, the same in every row, text
    that differs in nearly every row, row numbers. Dates, 87 %, 1,234.5 and 3,14 are numbers where all of a column is
    written so; dates are days since 1970.

    Ids may be numbers, text or both, and are unique within a graph. In a CSV file they are text unless all ids of the
    vertices are plain whole numbers. Where edges have the column `graph` too, ids are looked up within the graph;
    otherwise an id that an edge names must be unique over all graphs. Graphs come in the order of their first rows,
    vertices in the order of their rows.

    Two undirected rows that name an edge from either end, as lists of nearest neighbours do, are one edge, and a
    warning says so. Other rows that repeat an edge (same ends, same type) are an error unless `parallel=True`.

    Rows in error messages are counted from 0, without the header. One error lists everything that is wrong with the
    tables.

    nodes: the table of vertices.
    edges: the table of edges; or a [2, E] array or tensor of row numbers, a list of pairs of ids, a sparse matrix whose
        rows receive from their columns (scikit-learn's nearest neighbours), AnnData or one matrix of its `obsp`,
        libpysal's weights, or a NetworkX graph whose vertices are ids. Of places, which are the geometries of a
        GeoDataFrame or columns x and y, or lon and lat: "contiguity" joins those that touch, "nearest" each with its
        five nearest, "nearest:8" with eight. Weights are left out with a warning. Undirected edges are stored in one
        order, so that all forms of the same edges give the same model.
    schema: the attributes, exactly those of the table; None infers them.
    id: the column of ids, or the name of the index; None is the index. Where no column is called "id", it is the
        column that holds what the edges name, else the index.
    graph: the column with the graph of each vertex; None: all are one graph.
    source, target: the columns of edges with the ids. Where no columns are called so, they are those of usual names
        (from, to), the only two, or the two that hold ids.
    edge_type: the column of edges with their type.
    edge_types: its values in the order of codes; None takes the column's categories, or sorts; the log shows the order.
    directed: False stores a row in both directions, a self-loop once; True makes it one edge that sends source's
        message to target; the name of a column of booleans decides row by row.
    parallel: whether duplicate edges are kept.
    y: one or several columns of nodes that are vertex targets.
    targets: graph targets: a table with the column `graph` and further columns, or a Series indexed by graph; a graph
        without a row has a missing target.
    target_attribute: what the targets mean, an attribute or for several a schema; inferred if not given.
    ignore: columns to leave out of every table, those of the schema excepted.
    keep: columns to keep although they seem to carry no information; a kind in `overrides` keeps one, too.
    overrides: attributes or kinds by name, in an inferred schema.
    delimiter, encoding: of text files; detected if not given.
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
