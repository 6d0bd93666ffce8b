"""What `from_tables` refuses, with the table, row and value in the message."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_tables import EDGES, NODES, ONE, TWO, edges

from gspn.attributes import Binary, Continuous
from gspn.convert.frames import from_tables
from gspn.errors import InputError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nodes": {"id": [1]}}, r"nodes must be a pandas DataFrame or the path of a file, got {'id': \[1\]}"),
        ({"edges": 7}, "edges must be a DataFrame, a path, .*, got 7"),
        ({"nodes": NODES.iloc[:0]}, "nodes has no rows, so there is no graph"),
        (
            {"nodes": NODES.rename(columns={"id": "name"}), "edges": edges(("x", "y"))},
            "nodes has no column 'id'; there are name, a; pass id= with the right name, or id=None to take",
        ),
        ({"graph": "g"}, "nodes has no column 'g'; there are id, a; pass graph= with the right name$"),
        ({"source": "from"}, "edges has no column 'from'; there are source, target; pass source= with the right name$"),
        ({"target": "to", "ignore": ["target"]}, "edges has no column 'to'; there are source, target; pass target="),
        ({"edge_type": "kind"}, "edges has no column 'kind'; there are source, target; pass edge_type="),
        ({"directed": "kind"}, "edges has no column 'kind'; there are source, target; pass directed="),
        ({"y": "label"}, "nodes has no column 'label'; there are id, a; pass y="),
        ({"ignore": ["b"]}, "ignore names 'b', but there is no such column; known: "),
        ({"id": "a", "graph": "a"}, "column 'a' cannot be id and graph at once"),
        ({"source": "s", "target": "s"}, "column 's' cannot be source and target at once"),
        ({"nodes": pd.DataFrame([["p", 1, 2]], columns=["id", "a", "a"])}, "column 'a' occurs twice"),
        ({"nodes": NODES.assign(id=["p", None, "r", "s"])}, r"nodes, row 1: the id \(column 'id'\) is missing"),
        (
            {"nodes": NODES.set_index(pd.Index(["p", "q", None, "s"])), "id": None, "ignore": "id"},
            r"nodes, row 2: the id \(index\) is missing",
        ),
        ({"nodes": NODES.assign(id=["p", "q", "p", "q"])}, "nodes, row 2: the id 'p' occurs already in row 0"),
        ({"nodes": NODES.assign(id=[1, 2, 2.0, "2"])}, "nodes, row 2: the id 2.0 occurs already in row 1"),
        ({"nodes": NODES.assign(id=["p", ["q"], "r", "s"])}, r"nodes, row 1: \['q'\] cannot be an id"),
        ({"nodes": TWO.assign(id=["p", "q", "r", "r"]), "graph": "g"}, "row 3: the id 'r' of graph 'two' .*row 2"),
        ({"nodes": TWO.assign(g=[1, None, 2, 2]), "graph": "g"}, r"nodes, row 1: the graph \(column 'g'\) is missing"),
        ({"nodes": NODES.assign(a=["x", 1, 2, 3])}, "nodes, row 0, attribute 'a': 'x' is not a number"),
        ({"nodes": NODES.assign(a=[1, 2, np.inf, 3])}, "nodes, row 2, attribute 'a': the value is infinite"),
        ({"nodes": NODES.assign(b=1)}, r"column 'b' is not in the schema \(a\); pass ignore=\['b'\]"),
        ({"nodes": NODES.drop(columns="a")}, "nodes: no column 'a', which the schema asks for; there are $"),
        ({"nodes": NODES[["id"]], "schema": None}, "nodes: the source has no attributes, .*schema"),
        ({"nodes": NODES.assign(b=None), "schema": None, "keep": "b"}, "nodes: attribute 'b': every value is missing"),
        ({"nodes": NODES.assign(b=[1, [2], 3, 4]), "schema": None}, r"nodes, row 1, attribute 'b': \[2\]"),
        ({"schema": "a"}, "schema must be a gspn.Schema, got str"),
        ({"overrides": {"a": "count"}}, "overrides change an inferred schema, but a schema is given"),
        ({"schema": None, "overrides": {"b": "count"}}, "nodes: override 'b' names no attribute"),
        ({"edges": edges(("p", "q"), ("p", "z"))}, "edges, row 1: target 'z' is no id of nodes$"),
        ({"edges": edges(("z", "q"), ("p", "q"))}, "edges, row 0: source 'z' is no id of nodes$"),
        ({"edges": edges(("p", "q"), (["p"], "q"))}, r"edges, row 1: source \['p'\] is no id of nodes$"),
        ({"nodes": NODES.assign(id=[1, 2, 3, 4]), "edges": edges(("1", "2"))}, "row 0: source '1' .*type int, not str"),
        ({"edges": edges(("p", "q"), (None, "q"))}, r"edges, row 1: the source \(column 'source'\) is missing"),
        ({"edges": edges(("p", "q"), ("p", np.nan))}, r"edges, row 1: the target \(column 'target'\) is missing"),
        ({"edges": EDGES.assign(weight=1)}, "edges: column 'weight' has no use"),
        (
            {"edges": edges(("p", "q"), ("r", "s"), ("q", "p"), ("p", "q"))},
            "edges, row 2 repeats the edge 'p'–'q' of row 0; pass parallel=True to keep both$",
        ),
        ({"edges": edges(("p", "q"), ("p", "q"))}, "row 1 .*'p'–'q' of row 0; pass parallel=True"),
        ({"edges": edges(("p", "q"), ("q", "p"), ("p", "q")), "directed": True}, "row 2 .*'p'→'q' of row 0"),
        ({"edges": edges(("p", "q"), ("q", "p"), d=[False, True]), "directed": "d"}, "row 1 .*'p'–'q' of row 0"),
        ({"edges": edges(("p", "p"), ("p", "p"))}, "row 1 .*'p'–'p' of row 0; pass parallel=True"),
        ({"directed": None}, "directed must be True, False or the name of a column, got None"),
        ({"edges": EDGES.assign(d=[True, None]), "directed": "d"}, r"row 1: the direction \(column 'd'\) is missing"),
        ({"edges": EDGES.assign(d=[True, "yes"]), "directed": "d"}, "row 1, attribute 'd': 'yes'"),
        ({"edges": EDGES.assign(k=["x", None]), "edge_type": "k"}, r"row 1: the edge type \(column 'k'\) is missing"),
        (
            {"edges": EDGES.assign(k=["x", "y"]), "edge_type": "k", "edge_types": ["x"]},
            "edges, row 1, attribute 'k': 'y' is none of the categories x",
        ),
        ({"edge_types": ["x"]}, "edge_types is given, but no column: pass edge_type with its name"),
        ({"y": "a", "targets": pd.Series([1])}, "y names vertex targets and targets gives graph targets"),
        ({"targets": pd.Series([1])}, "targets has one row per graph, so graph must name the column"),
        ({"target_attribute": Binary("t")}, "target_attribute is given, but there are no targets: pass y or targets"),
        (
            {"nodes": NODES.assign(t=[0, 1, 2, 1]), "y": "t", "target_attribute": Binary("t")},
            r"nodes, row 2, attribute 't': 2 is neither True nor False \(1 nor 0\)",
        ),
        ({"nodes": NODES.assign(t=None), "y": "t"}, "targets of nodes: attribute 't': every value is missing"),
        (
            {"nodes": NODES.assign(t=1, u=2), "y": ["t", "u"], "target_attribute": Binary("t")},
            r"targets of nodes: there are 2 targets \(t, u\), so a schema with an attribute for each is needed",
        ),
    ],
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_tables(**{"nodes": NODES, "edges": EDGES, "schema": ONE, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edges": edges(("p", "r"))}, "edges, row 0: .*'p' of graph 'one' and 'r' of graph 'two'"),
        ({"edges": edges(("p", "q"), g=["three"])}, "edges, row 0: graph 'three' has no vertex in nodes$"),
        ({"edges": edges(("p", "q"), g=[None])}, r"edges, row 0: the graph \(column 'g'\) is missing"),
        (
            {"edges": edges(("p", "q"), g=["two"])},
            "edges, row 0: source 'p' is no vertex of graph 'two', but one of graph 'one'",
        ),
        (
            {"nodes": TWO.assign(id=["p", "q", "p", "s"]), "edges": edges(("s", "s"), ("q", "p"))},
            r"edges, row 1: target 'p' is a vertex of graph 'one' \(row 0 of nodes\) and of graph 'two' \(row 2\)",
        ),
        ({"targets": pd.Series([1], index=["three"])}, "targets, row 0: graph 'three' has no vertex in nodes$"),
        (
            {"nodes": TWO.assign(g=[1, 1, 2, 2]), "targets": pd.Series([1], index=["1"])},
            r"targets, row 0: graph '1' has no vertex in nodes \(there is 1, of type int, not str\)",
        ),
        ({"targets": pd.Series([1, 2], index=["one", "one"])}, "targets, row 1: graph 'one' .*row 0"),
        ({"targets": pd.Series([1, 2], index=["one", None])}, r"targets, row 1: the graph \(column 'g'\) is missing"),
        ({"targets": pd.DataFrame({"g": ["one"]})}, "targets has no column besides 'g', so there are no targets in it"),
        ({"targets": pd.DataFrame({"h": ["one"]})}, "targets has no column 'g'; there are h; pass graph="),
        ({"targets": [1, 2]}, r"targets must be a pandas DataFrame or the path of a file, got \[1, 2\]"),
        (
            {"targets": pd.Series(["x"], index=["one"]), "target_attribute": Continuous("t")},
            "targets, row 0, attribute 't': 'x' is not a number",
        ),
    ],
)
def test_refusals_of_several_graphs(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_tables(**{"nodes": TWO, "edges": None, "schema": ONE, "graph": "g", **arguments})
