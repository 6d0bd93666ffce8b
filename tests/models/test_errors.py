"""Every error says what is wrong, where and what to do, and is a `gspn.GSPNError`; nothing is lost by it.

The messages are checked for the place (graph, vertex or edge, attribute) and the value, not for their exact words.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from small_graphs import EVERY_KIND, draw_graphs, spoil
from small_models import small_model
from torch_geometric.data import Batch as PyGBatch
from torch_geometric.data import Data, HeteroData

import gspn
from gspn import GSPN, Continuous, Schema

CHARGE, ELEMENT, AROMATIC, HYDROGENS = range(4)


def replaced(data: Data, **fields: Any) -> Data:
    other = data.clone()
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def every_entrance(model: GSPN) -> list[Callable[[Any], Any]]:
    """Everything that takes graphs; a bad one must be refused by each."""
    return [
        lambda graphs: gspn.pack(graphs, EVERY_KIND),
        model.collate,
        model.log_likelihood,
        lambda graphs: model.log_likelihood(graphs, leave_one_out=True),
        model.posteriors,
        model.embed,
        model.transform,
        lambda graphs: copy.deepcopy(model).fit(graphs, progress=False),
        lambda graphs: copy.deepcopy(model).fit(draw_graphs(3, seed=1), validation=graphs, progress=False),
    ]


def assert_refused(model: GSPN, graphs: Any, message: str) -> None:
    for enter in every_entrance(model):
        with pytest.raises(gspn.GSPNError, match=message):
            enter(graphs)


# ---- Values


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        (ELEMENT, 3.0, r"'element': code 3 is none of the 3 categories C, N, O"),
        (ELEMENT, -1.0, r"'element': code -1 is none of the 3 categories"),
        (ELEMENT, 0.5, r"'element': code 0\.5 is none of the 3 categories"),
        (CHARGE, math.inf, r"'charge': the value is infinite"),
        (CHARGE, -math.inf, r"'charge': the value is infinite"),
        (ELEMENT, math.inf, r"'element': the value is infinite"),
        (AROMATIC, 2.0, r"'aromatic': 2 is neither 0 nor 1"),
        (HYDROGENS, -1.0, r"'hydrogens': -1 is negative"),
        (HYDROGENS, 1.5, r"'hydrogens': 1\.5 is not a whole number"),
        (HYDROGENS, math.inf, r"'hydrogens': the value is infinite"),
    ],
)
def test_values_that_mean_nothing(fitted: GSPN, graphs: list[Data], column: int, value: float, reason: str) -> None:
    assert_refused(fitted, spoil(graphs, 2, 3, column, value), rf"graph 2, vertex 3, attribute {reason}")


def test_the_first_bad_entry_of_a_single_graph_is_named(fitted: GSPN, graphs: list[Data]) -> None:
    spoiled = spoil(graphs, 1, 2, ELEMENT, 9.0)[1]
    spoiled.x[3, AROMATIC] = 7.0
    with pytest.raises(gspn.GSPNError, match=r"graph 0, vertex 2, attribute 'element': code 9 "):
        fitted.log_likelihood(spoiled)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_value_beyond_a_million_deviations_is_named(fitted: GSPN, graphs: list[Data], sign: int) -> None:
    center, spread = fitted.get_parameters()["units"]["charge"].tolist()
    far = spoil(graphs, 3, 1, CHARGE, center + sign * 1.01e6 * spread)
    for ask in (fitted.collate, fitted.log_likelihood, fitted.posteriors, fitted.embed):
        with pytest.raises(
            gspn.GSPNError, match=r"graph 3, vertex 1, attribute 'charge': -?\S+ is more than 1e\+06 dev"
        ):
            ask(far)


def test_a_value_just_within_a_million_deviations_has_a_finite_probability(fitted: GSPN, graphs: list[Data]) -> None:
    center, spread = fitted.get_parameters()["units"]["charge"].tolist()
    near = spoil(graphs, 3, 1, CHARGE, center + 0.99e6 * spread)[3]
    for leave_one_out in (False, True):
        assert torch.isfinite(fitted.log_likelihood(near, leave_one_out=leave_one_out)).all()
    posteriors = fitted.posteriors(near)
    assert torch.isfinite(posteriors).all()
    torch.testing.assert_close(posteriors.sum(-1), torch.ones(posteriors.shape[:-1]))


@pytest.mark.parametrize("column", range(len(EVERY_KIND)))
def test_an_attribute_without_any_value_cannot_be_learned(own: GSPN, graphs: list[Data], column: int) -> None:
    blind = [data.clone() for data in graphs]
    for data in blind:
        data.x[:, column] = math.nan
    with pytest.raises(gspn.GSPNError, match=rf"attribute '{EVERY_KIND.names[column]}' is missing at every vertex"):
        own.fit(blind, progress=False)
    # There is nothing wrong with asking.
    assert all(torch.isfinite(result).all() for result in own.log_likelihood(blind))


def test_an_attribute_missing_in_the_whole_validation_set_is_no_error(own: GSPN, graphs: list[Data]) -> None:
    blind = [data.clone() for data in graphs]
    for data in blind:
        data.x[:, CHARGE] = math.nan
    own.fit(graphs, validation=blind, progress=False)
    assert math.isfinite(own.history_[-1]["validation"])


# ---- The form of a graph


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"x": None}, r"graph 1 has no tensor `x`"),
        ({"x": [[0.0] * 5]}, r"graph 1 has no tensor `x`"),
        ({"x": torch.zeros(5)}, r"graph 1: x has shape \(5,\).* 5 columns \(charge, element"),
        ({"x": torch.zeros(5, 4)}, r"graph 1: x has shape \(5, 4\).* 5 columns \(charge, element"),
        ({"x": torch.zeros(5, 6)}, r"graph 1: x has shape \(5, 6\).* 5 columns"),
        ({"x": torch.zeros(1, 5, 5)}, r"graph 1: x has shape \(1, 5, 5\)"),
        ({"x": torch.zeros(5, 5, dtype=torch.complex64)}, r"graph 1: x has dtype torch\.complex64"),
        ({"edge_index": torch.zeros(2, 3)}, r"graph 1: edge_index must hold integers, got torch\.float32"),
        ({"edge_index": torch.zeros(2, 3, dtype=torch.bool)}, r"graph 1: edge_index must hold integers"),
        ({"edge_index": torch.zeros(3, 2, dtype=torch.long)}, r"graph 1: edge_index .*\[2, E\].*\(3, 2\)"),
        ({"edge_index": torch.zeros(4, dtype=torch.long)}, r"graph 1: edge_index must have shape \[2, E\]"),
        ({"edge_index": [[0], [1]]}, r"graph 1: edge_index must have shape \[2, E\], got list"),
        ({"edge_index": torch.tensor([[0, 1], [1, 4]])}, r"graph 1, edge 1: edge index \(1, 4\).* 4 vertices"),
        ({"edge_index": torch.tensor([[0, 9], [1, 0]])}, r"graph 1, edge 1: edge index \(9, 0\) is out of range"),
        ({"edge_index": torch.tensor([[-1], [1]])}, r"graph 1, edge 0: edge index \(-1, 1\) is out of range"),
        ({"edge_index": torch.tensor([[1], [-1]])}, r"graph 1, edge 0: edge index \(1, -1\) is out of range"),
    ],
)
def test_malformed_graphs(fitted: GSPN, fields: dict[str, Any], message: str) -> None:
    good = draw_graphs(3, seed=2, sizes=(4, 4))
    assert_refused(fitted, [good[0], replaced(good[1], **fields), good[2]], message)


def test_an_edge_that_would_be_right_in_another_graph(fitted: GSPN) -> None:
    """Indices are checked against the edge's own graph, not against the whole batch."""
    small, large = draw_graphs(1, seed=3, sizes=(4, 4))[0], draw_graphs(1, seed=3, sizes=(9, 9))[0]
    wrong = replaced(small, edge_index=torch.tensor([[0, 1, 2], [1, 2, 4]]))
    assert_refused(fitted, [large, large, wrong, large], r"graph 2, edge 2: edge index \(2, 4\).* 4 vertices")


@pytest.mark.parametrize(
    ("edge_type", "message"),
    [
        (None, r"graph 1 has no edge_type, but other graphs do"),
        (torch.zeros(2, dtype=torch.long), r"graph 1: edge_type must have shape \[3\], got \(2,\)"),
        (torch.zeros(3, 1, dtype=torch.long), r"graph 1: edge_type must have shape \[3\], got \(3, 1\)"),
        (torch.zeros(3), r"graph 1: edge_type must hold integers, got torch\.float32"),
        (torch.tensor([0, 1, -1]), r"graph 1, edge 2: edge type -1 is negative"),
        (torch.tensor([0, 2, 1]), r"graph 1, edge 1: edge type 2 is out of range.*num_edge_types=2"),
        ([0, 1, 0], r"graph 1: edge_type must have shape \[3\], got list"),
    ],
)
def test_edge_types(edge_type: Any, message: str) -> None:
    model = small_model(num_edge_types=2)
    good = draw_graphs(2, seed=4, sizes=(4, 4), edge_types=2)
    bad = replaced(good[1], edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), edge_type=edge_type)
    for enter in (model.collate, lambda graphs: model.fit(graphs, progress=False)):
        with pytest.raises(gspn.GSPNError, match=message):
            enter([good[0], bad])
        with pytest.raises(gspn.GSPNError, match="graph 0 has no edge_type, but the model tells 2 edge types apart"):
            enter(draw_graphs(3, seed=4))


def test_edge_types_in_a_view_are_named_by_their_place_in_the_view() -> None:
    graphs = draw_graphs(3, seed=4, edge_types=2)
    graphs[2].edge_type[1] = 5
    dataset = gspn.pack(graphs, EVERY_KIND)
    with pytest.raises(gspn.GSPNError, match=r"graph 0, edge 1: edge type 5 is out of range"):
        small_model(num_edge_types=2).collate(dataset[[2, 0]])
    small_model(num_edge_types=2).collate(dataset[[0, 1]])


@pytest.mark.parametrize(
    ("ys", "message"),
    [
        ([torch.zeros(3), torch.zeros(4), torch.zeros(4)], "y must have one row per .*graph 0 has 3"),
        ([torch.zeros(4), torch.zeros(4), torch.zeros(1)], r"graph 2 has 1 row"),
        ([torch.zeros(1), torch.zeros(1), torch.zeros(2)], r"graph 2 has 2 row"),
        ([torch.zeros(1, 2), torch.zeros(1, 2), torch.zeros(1, 3)], r"different numbers of targets"),
        ([torch.zeros(1), None, torch.zeros(1)], r"graph 1: y must be a tensor"),
        ([torch.zeros(1), torch.zeros(1), 1.0], r"graph 2: y must be a tensor"),
    ],
)
def test_targets(ys: list[Any], message: str) -> None:
    good = draw_graphs(3, seed=5, sizes=(4, 4))
    with pytest.raises(gspn.GSPNError, match=message):
        small_model().collate([replaced(data, y=y) for data, y in zip(good, ys, strict=True)])


# ---- What is no graph at all

NOTHING: list[Any] = [[], (), iter([])]
GRAPH, HETERO = draw_graphs(1, seed=0)[0], HeteroData(atom={"x": torch.zeros(3, 5)})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        *((nothing, "list of graphs is empty") for nothing in NOTHING),
        (gspn.pack(GRAPH, EVERY_KIND)[:0], "empty"),
        (gspn.pack(Data(x=torch.zeros(3, 1)), Schema([Continuous("mass")])), r"schema differs(.|\n)*mass(.|\n)*charge"),
        (HETERO, r"heterogeneous.*to_homogeneous"),
        ([GRAPH, HETERO], r"graph 1 is heterogeneous.*to_homogeneous"),
        (PyGBatch.from_data_list([HETERO, HETERO]), r"heterogeneous.*to_homogeneous"),
        ([GRAPH, torch.zeros(3, 5)], "graph 1 must be a torch_geometric Data, got Tensor"),
        ([GRAPH, GRAPH, "C"], "graph 2 must be a torch_geometric Data, got str"),
        ("graphs.pt", r"must be a Data, a sequence of Data or a GraphDataset, got str"),
        (None, r"must be a Data, a sequence of Data or a GraphDataset, got NoneType"),
        (7, r"must be a Data.* got int"),
        (torch.zeros(3, 5), r"must be a Data.* got Tensor"),
        ({"x": torch.zeros(3, 5)}, r"must be a Data.* got dict"),
        ([None], r"graph 0 must be a torch_geometric Data, got NoneType"),
        (np.zeros((2, 5)), r"graph 0 must be a torch_geometric Data, got ndarray"),
    ],
)
def test_what_is_no_graph(fitted: GSPN, given: Any, message: str) -> None:
    entrances = every_entrance(fitted)
    for enter in entrances if given is not None else entrances[:-1]:  # None as a validation set means none
        with pytest.raises(gspn.GSPNError, match=message):
            enter(given)


# ---- Questions


def test_every_question_to_an_unfitted_model(graphs: list[Data]) -> None:
    model = small_model()
    questions: list[Callable[[Any], Any]] = [
        model.log_likelihood,
        lambda asked: model.log_likelihood(asked, leave_one_out=True),
        lambda asked: model.log_likelihood(asked, vertices=[0]),
        model.posteriors,
        model.embed,
        model.transform,
        lambda asked: model.fit(asked, warm_start=True, progress=False),
    ]
    for ask in questions:
        with pytest.raises(gspn.GSPNError, match=r"GSPN is not fitted yet; call fit, load or set_parameters"):
            ask(graphs[0])
    # The differentiable way needs no training.
    assert torch.isfinite(model(model.collate(graphs)).log_likelihood).all()


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize(
    ("vertices", "message"),
    [
        ([0, 4], r"vertex 4 does not exist: the graph has 4 vertices"),
        ([-1], r"vertex -1 does not exist: the graph has 4 vertices"),
        (torch.tensor([2, 17]), r"vertex 17 does not exist"),
        ([0.0, 1.0], r"vertices must be integers, got torch\.float32"),
        (torch.tensor([0.5]), r"vertices must be integers"),
        ([True, False, True, True], r"vertices must be integers, got torch\.bool"),
        (["a"], r"vertices must be integers"),
        ([None], r"vertices must be integers"),
        ("3", r"vertices must be integers"),
    ],
)
def test_vertices_that_do_not_exist(fitted: GSPN, leave_one_out: bool, vertices: Any, message: str) -> None:
    data = draw_graphs(1, seed=6, sizes=(4, 4))[0]
    with pytest.raises(gspn.GSPNError, match=message):
        fitted.log_likelihood(data, leave_one_out=leave_one_out, vertices=vertices)


@pytest.mark.parametrize("wrap", [list, lambda graphs: gspn.pack(graphs, EVERY_KIND), PyGBatch.from_data_list, iter])
def test_vertices_of_a_sequence_of_graphs(fitted: GSPN, graphs: list[Data], wrap: Callable[[list[Data]], Any]) -> None:
    with pytest.raises(gspn.GSPNError, match=r"vertices can be chosen in one graph only"):
        fitted.log_likelihood(wrap(graphs), vertices=[0])
