"""Public signatures say what they return, and say the truth.

Hints are read as anybody reads them, with `typing.get_type_hints`; `typed_calls.py` holds what mypy makes of calls, and
is run here.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typed_calls
from small_graphs import EVERY_KIND, draw_graphs
from torch_geometric.data import Batch, Data, InMemoryDataset

import gspn
from gspn import GSPN, Categorical, Continuous, DeepSets, GraphDataset, Schema, SupervisedGSPN, TableImputer, baselines
from gspn.circuits import distributions, given
from gspn.convert import foreign
from gspn.graphs import OneGraph
from gspn.queries import what_if

ANSWERS = (distributions.CategoricalDistribution, distributions.MixtureDistribution, given.Joint, what_if.WhatIf)
KIND = Categorical("class", ["A", "B"])
SPECIAL = ("__call__", "__contains__", "__getitem__", "__iter__", "__len__")


# ---- Hints


def public_objects() -> Iterator[tuple[str, Any]]:
    """What can be imported from the public packages, and what questions return."""
    for package in (gspn, gspn.circuits, gspn.datasets, baselines):
        for name in package.__all__:
            found = getattr(package, name)
            if not inspect.ismodule(found) and name != "__version__":
                yield f"{package.__name__}.{name}", found
    for answer in ANSWERS:
        yield answer.__qualname__, answer


def functions_of(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that are ours; those of torch, PyG and scikit-learn are not ours to type."""
    for base in kind.__mro__:
        if base.__module__.split(".")[0] != "gspn":
            continue
        for name, found in vars(base).items():
            if name.startswith("_") and name not in SPECIAL:
                continue
            if isinstance(found, classmethod | staticmethod):
                found = found.__func__
            elif isinstance(found, property):
                found = found.fget
            if inspect.isfunction(found):
                yield f"{base.__qualname__}.{name}", found


def public_functions() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, thing in public_objects():
        if inspect.isclass(thing):
            found.update(functions_of(thing))
        elif inspect.isroutine(thing):
            found[name] = thing
        else:
            raise AssertionError(f"{name} is neither a class nor a function: {thing!r}")
    return found


def test_every_public_function_says_what_it_returns() -> None:
    functions = public_functions()
    embedders = {"Representations.embed", "Layerwise.embed"}
    assert embedders | {"gspn.load", "gspn.datasets.load", "Joint.marginal"} <= set(functions)
    wrong = []
    for name, function in functions.items():
        for each in (function, *typing.get_overloads(inspect.unwrap(function))):
            hints = typing.get_type_hints(each)  # an error if a name cannot be resolved
            if hints.get("return", Any) is Any:
                wrong.append(f"{name}{inspect.signature(each)}")
    assert not wrong, "\n".join(wrong)


def test_one_graph_and_several_are_told_apart() -> None:
    """Whatever takes graphs and answers one by one has an overload for each."""
    counted = 0
    for name, function in public_functions().items():
        hints = typing.get_type_hints(function)
        if "graphs" not in hints or "list[" not in str(hints["return"]):
            continue
        counted += 1
        overloads = typing.get_overloads(inspect.unwrap(function))
        takes = [typing.get_type_hints(each)["graphs"] for each in overloads]
        assert takes.count(OneGraph) * 2 == len(takes) > 0, name
    assert counted >= 20


def test_hints_need_no_optional_package() -> None:
    code = (
        "import sys, typing\n"
        "sys.modules.update(dict.fromkeys(('pandas', 'networkx', 'rdkit')))\n"  # as if they were not installed
        "import gspn\n"
        "asked = [gspn.TableImputer.transform, gspn.to_tables, gspn.to_networkx, gspn.from_smiles, gspn.GSPN.embed]\n"
        "print(*(typing.get_type_hints(each)['return'] for each in asked), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "DataFrame" in done.stdout
    assert "MultiDiGraph" in done.stdout


def test_what_hints_call_a_table_is_one() -> None:
    import networkx
    import pandas

    # To a type checker these are the packages' own classes; here, what stands for them at run time is meant.
    table, undirected, directed = (vars(foreign)[name] for name in ("DataFrame", "MultiGraph", "MultiDiGraph"))
    assert isinstance(pandas.DataFrame(), table)
    assert not isinstance(pandas.Series([1]), table)
    found = [
        (isinstance(each(), undirected), isinstance(each(), directed))
        for each in (networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph)
    ]
    assert found == [(False, False), (False, False), (True, False), (True, True)]


def test_what_stands_for_one_graph_is_on_every_data() -> None:
    for name in ("x", "edge_index", "subgraph"):
        assert name in vars(OneGraph)
        assert hasattr(Data(), name)
        assert not hasattr(list, name)
    assert not hasattr(GraphDataset, "subgraph")


# ---- Calls


class Stored(InMemoryDataset):
    """A PyG dataset."""

    def __init__(self, graphs: list[Data]) -> None:
        super().__init__(None)
        self.data, self.slices = self.collate(graphs)


@pytest.fixture(scope="module")
def graphs() -> list[Data]:
    return draw_graphs(4, seed=0)


@pytest.fixture(scope="module")
def model(graphs: list[Data]) -> GSPN:
    return GSPN(EVERY_KIND, num_layers=2, num_states=2, objective="masked").fit(graphs, epochs=1, progress=False)


@pytest.fixture(scope="module")
def packed(graphs: list[Data]) -> GraphDataset:
    return gspn.pack(graphs, EVERY_KIND)


LABELS = ["A", "B", "A", "B"]


def test_questions(model: GSPN, graphs: list[Data], packed: GraphDataset) -> None:
    typed_calls.about_one_graph(model, graphs[0])
    typed_calls.about_a_list(model, graphs)
    typed_calls.about_other_sequences(model, packed, Batch.from_data_list(graphs), Stored(graphs))
    typed_calls.about_either(model, graphs[0])
    typed_calls.about_either(model, graphs)
    typed_calls.conditionals(model, graphs[0], graphs, packed)
    typed_calls.changes(model, graphs[0], graphs)
    typed_calls.answers(model, graphs[0])


def test_fitting_and_files(graphs: list[Data], tmp_path: Path) -> None:
    typed_calls.fitting_and_files(GSPN(EVERY_KIND, num_layers=2, num_states=2), graphs, tmp_path)


def test_predictions(graphs: list[Data]) -> None:
    model = SupervisedGSPN(EVERY_KIND, KIND, num_layers=2, num_states=2, epochs=1).fit(graphs, LABELS, progress=False)
    typed_calls.predictions(model, graphs[0], graphs)
    labelled = [graph.clone() for graph in graphs]
    for graph in labelled:
        graph.y = torch.zeros(graph.num_nodes, 2)
    targets = Schema([KIND, Continuous("energy")])
    of_vertices = SupervisedGSPN(
        EVERY_KIND, targets, num_layers=2, num_states=2, target_level="vertex", labels="targets", epochs=1
    )
    of_vertices.fit(labelled, progress=False)
    typed_calls.predictions_of_vertices(of_vertices, graphs[0], graphs)


def test_heads(model: GSPN, graphs: list[Data]) -> None:
    typed_calls.heads(DeepSets(KIND, hidden=2, epochs=1), model.embed(graphs), LABELS)


def test_baselines(graphs: list[Data]) -> None:
    embedder = baselines.GraphEmbedder(EVERY_KIND, epochs=1).fit(graphs, progress=False)
    mixture = baselines.Mixture(EVERY_KIND, num_states=2, epochs=1).fit(graphs)
    imputer = baselines.FeatureImputer(EVERY_KIND).fit(graphs)
    ancestor = baselines.CGMM(EVERY_KIND, num_layers=1, num_states=2).fit(graphs)
    typed_calls.baselines(embedder, ancestor, mixture, imputer, graphs)
    typed_calls.predicting_baselines(baselines.Constant(EVERY_KIND, KIND).fit(graphs, LABELS), graphs[0], graphs)


def test_graphs_tables_and_schemas(model: GSPN, graphs: list[Data], packed: GraphDataset) -> None:
    typed_calls.graphs_in_and_out(packed)
    typed_calls.filling(model, graphs[0], graphs, packed, Batch.from_data_list(graphs))
    typed_calls.schemas(EVERY_KIND, graphs[0])


@pytest.mark.parametrize("wanted", [False, True])
def test_filling_tables(packed: GraphDataset, wanted: bool) -> None:
    nodes, edges = gspn.to_tables(packed)
    imputer = TableImputer(EVERY_KIND, graph="graph", parallel=True, num_layers=2, num_states=2, epochs=1)
    typed_calls.filling_tables(imputer, nodes, edges, wanted)


def test_every_typed_call_is_run() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    for name, found in vars(typed_calls).items():
        if inspect.isfunction(found) and found.__module__ == typed_calls.__name__ and name not in ("is_a", "are"):
            assert f"typed_calls.{name}(" in source, name
