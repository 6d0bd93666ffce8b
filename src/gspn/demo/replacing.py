"""Part three: what becomes more and less likely in a molecule whose chlorine is replaced by oxygen."""

from __future__ import annotations

from dataclasses import dataclass

from torch_geometric.data import Data

from gspn.attributes import Categorical
from gspn.errors import GSPNError
from gspn.graphs import GraphDataset
from gspn.graphs.edits import edit
from gspn.models.stack import Stack
from gspn.queries.what_if import WhatIf

OLD, NEW = "Cl", "O"
ATOMS = range(8, 17)
"""Sizes that are easy to look at."""
FOLLOWS = ("hybridisation", "hydrogens", "partial_charge")
"""Attributes of the replaced atom that nobody knows after the change: they are marginalised."""


@dataclass(frozen=True, eq=False)
class Replacing:
    """One molecule before and after, and the change of every atom."""

    smiles: str
    vertex: int
    before: Data
    after: Data
    answer: WhatIf


def replace_atom(model: Stack, test: GraphDataset) -> Replacing:
    """Replace the only chlorine of a test molecule; every atom is judged given all others.

    Of all such molecules the one is shown whose other atoms change most: in the others there is little to see.
    """
    assert test.graph_names is not None
    names = test.graph_names[test.positions.numpy()]
    found = [
        _replaced(model, test[number], str(name)) for number, name in enumerate(names) if _fits(test, number, name)
    ]
    if not found:
        raise GSPNError("there is no molecule with one chlorine among the test molecules")
    return max(found, key=_change_elsewhere)


def _fits(test: GraphDataset, number: int, name: str) -> bool:
    return name.count(OLD) == 1 and int(test.num_vertices_per_graph()[number]) in ATOMS


def _change_elsewhere(found: Replacing) -> float:
    change = found.answer.change.abs()
    return float(change.sum() - change[found.vertex])


def _replaced(model: Stack, graph: Data, smiles: str) -> Replacing:
    graph = Data(x=graph.x, edge_index=graph.edge_index, edge_type=graph.edge_type)
    elements = model.schema["element"]
    assert isinstance(elements, Categorical)
    vertex = elements.decode(graph.x[:, model.schema.index("element")]).index(OLD)
    changes = {vertex: {"element": NEW, **dict.fromkeys(FOLLOWS)}}
    # What follows at the atom is unknown, and at the others stays: the same question about atoms of any kind.
    answer = model.what_if(graph, changes, leave_one_out=True, derived=False)
    after = edit(graph, model.schema, changes, num_edge_types=model.num_edge_types).graph
    return Replacing(smiles, vertex, graph, after, answer)
