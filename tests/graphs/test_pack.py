"""GraphDataset: what goes in comes out, however it is stored, chosen and batched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import EVERY_KIND, draw_graphs
from torch_geometric.data import Batch as PyGBatch
from torch_geometric.data import Data

import gspn
from gspn import Continuous, GraphDataset, Schema
from gspn.errors import InputError
from gspn.graphs import Batch, is_single_graph, pack

TARGETS = ("none", "graph", "several", "vertex", "vertex, several")


def with_targets(graphs: list[Data], kind: str, seed: int = 0) -> list[Data]:
    rng = np.random.default_rng(seed)
    for data in graphs:
        shape = {"graph": (1,), "several": (1, 3), "vertex": (data.num_nodes,), "vertex, several": (data.num_nodes, 2)}
        if kind != "none":
            data.y = torch.from_numpy(rng.normal(size=shape[kind]))
    return graphs


def draw(count: int = 5, targets: str = "graph", seed: int = 0) -> list[Data]:
    """Graphs of different sizes with edge types; the third has no vertices, the fourth no edges."""
    graphs = draw_graphs(count, seed, sizes=(2, 6), edge_types=2)
    graphs[2] = Data(
        x=torch.empty(0, 5).double(),
        edge_index=torch.empty(2, 0, dtype=torch.long),
        edge_type=torch.empty(0, dtype=torch.long),
    )
    graphs[3].edge_index, graphs[3].edge_type = graphs[3].edge_index[:, :0], graphs[3].edge_type[:0]
    return with_targets(graphs, targets, seed)


def assert_same(one: Data, other: Data) -> None:
    assert set(one.keys()) == set(other.keys())
    for name in one.keys():  # noqa: SIM118 (a Data is no mapping)
        torch.testing.assert_close(one[name], other[name], rtol=0, atol=0, equal_nan=True)


def assert_same_graphs(ours: Any, theirs: list[Data]) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert_same(one, other)


# ---- In and out


@pytest.mark.parametrize("targets", TARGETS)
def test_round_trip(targets: str) -> None:
    graphs = draw(targets=targets)
    dataset = pack(graphs, EVERY_KIND)
    assert len(dataset) == 5
    assert_same_graphs(dataset, graphs)
    assert dataset.schema is EVERY_KIND
    assert dataset.target_level == {"none": None, "graph": "graph", "several": "graph"}.get(targets, "vertex")
    assert_same_graphs(pack(list(dataset), EVERY_KIND), graphs)


def test_packing_copies() -> None:
    data = draw()[0]
    dataset = pack(data, EVERY_KIND)
    before = data.clone()
    data.x.fill_(0)
    data.edge_index.fill_(0)
    assert_same(dataset[0], before)


def test_a_dataset_is_packed_already() -> None:
    dataset = pack(draw(), EVERY_KIND)
    assert pack(dataset, EVERY_KIND) is dataset
    assert pack(dataset, Schema(list(EVERY_KIND))) is dataset
    with pytest.raises(gspn.GSPNError, match="schema differs"):
        pack(dataset, Schema([Continuous("mass")]))
    with pytest.raises(gspn.GSPNError, match=r"schema must be a gspn\.Schema, got list"):
        pack(draw(), list(EVERY_KIND))  # type: ignore[arg-type]


def test_what_is_one_graph() -> None:
    graphs = draw()
    assert is_single_graph(graphs[0])
    assert not is_single_graph(graphs)
    assert not is_single_graph(PyGBatch.from_data_list(graphs))
    assert not is_single_graph(pack(graphs[0], EVERY_KIND))
    assert len(pack(graphs[0], EVERY_KIND)) == 1
    assert_same_graphs(pack(PyGBatch.from_data_list(graphs), EVERY_KIND), graphs)
    assert_same_graphs(pack((data for data in graphs), EVERY_KIND), graphs)


def test_a_target_without_a_dimension_is_one_of_the_graph() -> None:
    graphs = draw_graphs(2, seed=1)
    for g, data in enumerate(graphs):
        data.y = torch.tensor(g)
    dataset = pack(graphs, EVERY_KIND)
    assert dataset.target_level == "graph"
    assert [data.y.tolist() for data in dataset] == [[0], [1]]


def test_edge_types_where_a_graph_has_no_edges_to_type() -> None:
    graphs = draw()
    del graphs[3].edge_type
    dataset = pack(graphs, EVERY_KIND)
    assert dataset[3].edge_type.tolist() == []
    assert dataset[4].edge_type.tolist() == graphs[4].edge_type.tolist()


# ---- Choosing


INDICES: list[Any] = [
    slice(None),
    slice(1, 4),
    slice(None, None, 2),
    slice(-2, None),
    slice(0, 0),
    slice(None, None, -1),
    [3],
    [4, 0, 0, -1],
    [],
    (1, 2),
    range(1, 4),
    np.array([2, 4]),
    torch.tensor([4, 3, 2]),
    torch.tensor([], dtype=torch.long),
    torch.tensor([1, 0], dtype=torch.int32),
    [True, False, False, True, True],
    np.array([True, False, True, False, False]),
    torch.tensor([False, False, True, True, False]),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_choosing_graphs_gives_a_dataset(index: Any) -> None:
    graphs = draw()
    dataset = pack(graphs, EVERY_KIND)
    if isinstance(index, slice):
        expected = graphs[index]
    else:
        listed = list(index.tolist() if hasattr(index, "tolist") else index)
        if listed and isinstance(listed[0], bool):
            listed = [i for i, chosen in enumerate(listed) if chosen]
        expected = [graphs[i] for i in listed]
    chosen = dataset[index]
    assert isinstance(chosen, GraphDataset)
    assert_same_graphs(chosen, expected)
    assert len(chosen) == len(expected)
    # A view: nothing is copied, and the original is as it was.
    assert chosen.x.data_ptr() == dataset.x.data_ptr()
    assert_same_graphs(dataset, graphs)


@pytest.mark.parametrize("index", [0, 4, -1, -5, np.int64(3), np.int32(1), torch.tensor(2), torch.tensor(-2)], ids=repr)
def test_choosing_one_graph_gives_it(index: Any) -> None:
    graphs = draw()
    chosen = pack(graphs, EVERY_KIND)[index]
    assert isinstance(chosen, Data)
    assert_same(chosen, graphs[int(index)])


@pytest.mark.parametrize("index", [5, -6, [0, 5], [-6], torch.tensor([7]), np.int64(5)], ids=repr)
def test_graphs_that_do_not_exist(index: Any) -> None:
    with pytest.raises(IndexError):
        pack(draw(), EVERY_KIND)[index]


@pytest.mark.parametrize("index", [2.7, 2.0, np.float64(1), torch.tensor(1.5), [0.5], "a"], ids=repr)
def test_what_is_no_number_of_a_graph(index: Any) -> None:
    with pytest.raises((IndexError, TypeError)):
        pack(draw(), EVERY_KIND)[index]


def test_views_of_views() -> None:
    graphs = draw_graphs(8, seed=2)
    view = pack(graphs, EVERY_KIND)[2:][[5, 0, 3]][1:]
    assert_same_graphs(view, [graphs[2], graphs[5]])
    assert_same(view[-1], graphs[5])


def test_sizes_and_repr() -> None:
    graphs = draw()
    dataset = pack(graphs, EVERY_KIND)
    view = dataset[[4, 2, 0]]
    assert view.num_vertices_per_graph().tolist() == [graphs[g].num_nodes for g in (4, 2, 0)]
    assert view.num_edges_per_graph().tolist() == [graphs[g].num_edges for g in (4, 2, 0)]
    torch.testing.assert_close(
        view.entries(), torch.cat([graphs[g].x for g in (4, 2, 0)]), rtol=0, atol=0, equal_nan=True
    )
    vertices, edges = (sum(getattr(graphs[g], name) for g in (4, 2, 0)) for name in ("num_nodes", "num_edges"))
    for part in ("3 graphs", f"{vertices} vertices", f"{edges} edges", "charge, element, aromatic, hydrogens, degree"):
        assert part in repr(view)
    large = pack([Data(x=torch.zeros(1, 1))] * 1500, Schema([Continuous("mass")]))
    assert "1,500 graphs, 1,500 vertices, 0 edges" in repr(large)


# ---- Batches


def assert_equals_pyg(batch: Batch, graphs: list[Data]) -> None:
    theirs = PyGBatch.from_data_list(graphs)
    torch.testing.assert_close(batch.x, theirs.x.double(), rtol=0, atol=0, equal_nan=True)
    order = torch.argsort(theirs.edge_index[1], stable=True)  # ours are sorted by receiver, else as they were given
    assert torch.equal(torch.stack([batch.source, batch.target]).long(), theirs.edge_index[:, order])
    assert torch.equal(batch.vertex_ptr, theirs.ptr)
    assert batch.edge_type is not None
    assert torch.equal(batch.edge_type, theirs.edge_type[order])
    assert (batch.y is None) == ("y" not in theirs)
    if batch.y is not None:
        assert torch.equal(batch.y, theirs.y)
    degree = torch.bincount(theirs.edge_index[1], minlength=theirs.num_nodes)
    assert torch.equal(batch.in_degree, degree)
    assert torch.equal(batch.row_ptr, torch.cat([torch.zeros(1, dtype=torch.long), degree.cumsum(0)]))
    assert batch.max_in_degree == int(degree.max())
    assert (batch.num_vertices, batch.num_edges, batch.num_graphs) == (theirs.num_nodes, theirs.num_edges, len(graphs))
    assert batch.hidden is None


@pytest.mark.parametrize("targets", TARGETS)
def test_batches_equal_those_of_pyg(targets: str) -> None:
    graphs = draw(targets=targets)
    dataset = pack(graphs, EVERY_KIND)
    for chosen in ([0, 1, 2, 3, 4], [4, 2, 0], [1], [3, 3, 1]):
        batch = dataset.batch(torch.tensor(chosen))
        assert_equals_pyg(batch, [graphs[g] for g in chosen])
        assert batch.graph_ids.tolist() == chosen
    # In a view, graphs are numbered within the view.
    batch = dataset[[3, 0, 4]].batch(torch.tensor([2, 1]))
    assert_equals_pyg(batch, [graphs[4], graphs[0]])
    assert batch.graph_ids.tolist() == [2, 1]


def test_vertices_are_named_by_graph_and_number() -> None:
    graphs = draw()
    graph, vertex = pack(graphs, EVERY_KIND).batch(torch.tensor([4, 2, 1])).vertex_keys()
    expected = [(g, v) for g in (4, 2, 1) for v in range(graphs[g].num_nodes)]
    assert list(zip(graph.tolist(), vertex.tolist(), strict=True)) == expected


def test_hiding_turns_evidence_into_gaps() -> None:
    batch = pack(draw(), EVERY_KIND).batch(torch.arange(5))
    hidden = torch.rand(batch.x.shape, generator=torch.Generator().manual_seed(3)) < 0.5
    hiding = batch.hiding(hidden)
    assert torch.equal(torch.isnan(hiding.visible), hidden | torch.isnan(batch.x))
    assert torch.equal(hiding.observed, ~torch.isnan(batch.x))
    kept = ~torch.isnan(hiding.visible)
    assert torch.equal(hiding.visible[kept], batch.x[kept])
    assert batch.visible is batch.x


@settings(max_examples=30)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 8)), min_size=1, max_size=12),
    max_size=st.integers(1, 30),
)
def test_chunks_hold_all_graphs_in_order_and_no_more_than_asked(sizes: list[tuple[int, int]], max_size: int) -> None:
    schema = Schema([Continuous("mass")])
    graphs = [
        Data(x=torch.full((n, 1), float(g)), edge_index=torch.zeros(2, e if n else 0, dtype=torch.long))
        for g, (n, e) in enumerate(sizes)
    ]
    total = [n + (e if n else 0) for n, e in sizes]
    chunks = list(pack(graphs, schema).chunks(max_size))
    assert torch.cat([chunk.graph_ids for chunk in chunks]).tolist() == list(range(len(graphs)))
    for chunk in chunks:
        assert (
            sum(total[g] for g in chunk.graph_ids.tolist()) <= max_size
            or sum(total[g] > 0 for g in chunk.graph_ids.tolist()) == 1
        )
    assert torch.cat([chunk.x for chunk in chunks]).tolist() == torch.cat([data.x for data in graphs]).tolist()


# ---- The fingerprint


def test_the_digest_knows_the_graphs_and_not_their_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = draw_graphs(6, seed=4, edge_types=2)
    with_targets(graphs, "several")
    dataset = pack(graphs, EVERY_KIND)
    digest = dataset.digest()
    assert pack([data.clone() for data in graphs], EVERY_KIND).digest() == digest
    assert pack(PyGBatch.from_data_list(graphs), EVERY_KIND).digest() == digest
    assert dataset[list(range(6))].digest() == digest
    # Stored in another order, and chosen back; stored among others.
    order = [5, 2, 0, 1, 4, 3]
    stored = pack([graphs[g] for g in order], EVERY_KIND)
    assert stored.digest() != digest
    assert stored[[order.index(g) for g in range(6)]].digest() == digest
    others = with_targets(draw_graphs(2, seed=5, edge_types=2), "several")
    assert pack(others + graphs, EVERY_KIND)[2:].digest() == digest
    assert dataset[[4, 1]].digest() == pack([graphs[4], graphs[1]], EVERY_KIND).digest()
    # Read in small pieces.
    original = GraphDataset.chunks
    monkeypatch.setattr(GraphDataset, "chunks", lambda self, max_size: original(self, 1))
    assert dataset.digest() == digest


def changes() -> dict[str, Any]:
    def set_entry(data: Data, row: int, column: int, value: float) -> None:
        data.x[row, column] = value

    def reverse(data: Data) -> None:
        data.edge_index[:, 0] = data.edge_index[:, 0].flip(0)

    def drop_edge(data: Data) -> None:
        data.edge_index, data.edge_type = data.edge_index[:, 1:], data.edge_type[1:]

    def add_vertex(data: Data) -> None:
        data.x = torch.cat([data.x, torch.full((1, 5), torch.nan).double()])

    def change_type(data: Data) -> None:
        data.edge_type[0] = 1 - data.edge_type[0]

    def change_target(data: Data) -> None:
        data.y[0, 1] += 1e-12

    return {
        "a last digit": lambda data: set_entry(data, 1, 0, float(np.nextafter(float(data.x[1, 0]), 9.0))),
        "a gap": lambda data: set_entry(data, 1, 1, float("nan")),
        "a direction": reverse,
        "an edge less": drop_edge,
        "a vertex without values": add_vertex,
        "an edge type": change_type,
        "a target": change_target,
    }


@pytest.mark.parametrize("what", changes())
@pytest.mark.parametrize("g", [0, 3])
def test_the_digest_notices(g: int, what: str) -> None:
    graphs = with_targets(draw_graphs(4, seed=6, missing=0.0, edge_types=2), "several")
    before = pack(graphs, EVERY_KIND).digest()
    changes()[what](graphs[g])
    assert pack(graphs, EVERY_KIND).digest() != before


X, Y = torch.zeros(4, 1), torch.tensor([3.0, 4.0, 5.0, 6.0])
ALIKE: dict[str, list[list[Data]]] = {
    "where one graph ends and the next begins": [
        [Data(x=x) for x in X.split(sizes)] for sizes in ([2, 2], [1, 3], [4], [4, 0], [0, 4])
    ],
    "who receives": [
        [Data(x=X, edge_index=torch.tensor([source, target]))]
        for source, target in (([0, 1], [1, 1]), ([0, 1], [1, 2]), ([0, 1], [2, 2]), ([1, 0], [1, 1]))
    ],
    "what a target belongs to": [[Data(x=X, y=y)] for y in (Y[None], Y, Y[:, None], None)],
}


@pytest.mark.parametrize("what", ALIKE)
def test_the_digest_notices_what_equal_numbers_mean(what: str) -> None:
    digests = {pack(graphs, Schema([Continuous("mass")])).digest() for graphs in ALIKE[what]}
    assert len(digests) == len(ALIKE[what])


def test_the_digest_does_not_depend_on_the_dtype_of_equal_numbers() -> None:
    graphs = draw_graphs(2, seed=7)
    for data in graphs:
        data.x = data.x.float().double()
    single = [Data(x=data.x.float(), edge_index=data.edge_index.int()) for data in graphs]
    assert pack(single, EVERY_KIND).digest() == pack(graphs, EVERY_KIND).digest()


def test_a_graph_taken_out_is_a_copy() -> None:
    graphs = draw_graphs(3, seed=0)
    dataset = pack(graphs, EVERY_KIND)
    before = dataset.digest()
    taken = dataset[1]
    taken.x.fill_(0.0)
    assert dataset.digest() == before


def test_what_is_not_used_is_said(caplog: pytest.LogCaptureFixture) -> None:
    (graph,) = draw_graphs(1, seed=0)
    pack([graph], EVERY_KIND)
    assert not caplog.records
    graph.edge_attr, graph.pos = torch.zeros(graph.num_edges, 3), torch.zeros(graph.num_nodes, 3)
    pack([graph], EVERY_KIND)
    assert "not used, and not kept: edge_attr, pos" in caplog.text


def test_infinite_targets_are_refused() -> None:
    graphs = draw_graphs(2, seed=0)
    graphs[0].y, graphs[1].y = torch.tensor([1.0]), torch.tensor([float("inf")])
    with pytest.raises(InputError, match="graph 1: y is infinite"):
        pack(graphs, EVERY_KIND)
