"""Vertices with equal trees become one row: as few as there should be, and never different ones together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import random_model
from torch_geometric.data import Data

from gspn import Categorical, Schema
from gspn.graphs import pack
from gspn.graphs.batch import Batch
from gspn.kernels.compiled.equal_trees import ROUNDS, KernelRows, merge_equal_trees
from gspn.kernels.compiled.threads import Team, team

LABEL = Schema([Categorical("label", ["a", "b", "c"])])


def batch_of(*graphs: tuple[list[int], list[tuple[int, int]]], types: int = 1) -> Batch:
    datas = []
    for labels, edges in graphs:
        index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
        data = Data(x=torch.tensor(labels, dtype=torch.float64)[:, None], edge_index=index)
        if types > 1:
            data.edge_type = torch.arange(len(edges)) % types
        datas.append(data)
    dataset = pack(datas, LABEL)
    return dataset.batch(torch.arange(len(dataset)))


def rows_of(batch: Batch, at_hand: Team | None = None) -> KernelRows:
    kind = np.empty(0, np.int32) if batch.edge_type is None else batch.edge_type.int().numpy()
    edges = batch.row_ptr.numpy(), batch.source.int().numpy(), kind, batch.vertex_ptr.numpy()
    evidence = batch.x[:, 0].int().numpy()
    found: KernelRows = merge_equal_trees(at_hand or team(), *edges, evidence, np.empty(0))
    return found


def star(leaves: int) -> tuple[list[int], list[tuple[int, int]]]:
    outward = [(0, v) for v in range(1, leaves + 1)]
    return [0] * (leaves + 1), outward + [(v, u) for u, v in outward]


def unfolded(batch: Batch, rounds: int) -> list[Any]:
    """Each vertex's tree written out, by graph."""
    senders: list[list[tuple[int, int]]] = [[] for _ in range(batch.num_vertices)]
    types = batch.edge_type.tolist() if batch.edge_type is not None else [0] * batch.num_edges
    for u, v, kind in zip(batch.source.tolist(), batch.target.tolist(), types, strict=True):
        senders[v].append((u, kind))
    graph = torch.repeat_interleave(batch.vertex_ptr.diff()).tolist()
    names: dict[Any, int] = {}
    tree: list[Any] = [(g, x) for g, x in zip(graph, batch.x[:, 0].tolist(), strict=True)]
    for _ in range(rounds):
        deeper = [(tree[v], tuple(sorted((tree[u], kind) for u, kind in senders[v]))) for v in range(len(tree))]
        tree = [names.setdefault(one, len(names)) for one in deeper]
    return tree


def test_a_star_has_two_rows() -> None:
    rows = rows_of(batch_of(star(20), star(5)))
    assert rows.graph_ptr.tolist() == [0, 2, 4]
    assert rows.size.tolist() == [1, 20, 1, 5]
    assert rows.row_of.tolist() == [0] + [1] * 20 + [2] + [3] * 5
    assert rows.source.tolist() == [1, 0, 3, 2]
    assert rows.share.tolist() == [1.0, 1.0, 1.0, 1.0]


def test_what_is_heard_is_shared_out() -> None:
    labels, edges = star(9)
    labels[1:4] = [1, 1, 1]
    rows = rows_of(batch_of((labels, edges)))
    hub = slice(*rows.row_ptr[:2])
    assert dict(zip(rows.source[hub].tolist(), rows.share[hub].tolist(), strict=True)) == {1: 3 / 9, 2: 6 / 9}


def test_where_all_differ_every_vertex_has_a_row() -> None:
    path = list(range(40))
    rows = rows_of(batch_of(([0] * 40, [(v, v + 1) for v in path[:-1]])))
    assert len(rows.row_of) == 0
    assert len(rows.size) == 40
    assert np.add.reduceat(rows.share, rows.row_ptr[1:-1]).tolist() == [1.0] * 39


def test_a_graph_that_needs_too_many_rounds_is_left_alone() -> None:
    """A long path both ways: equal ends, but it takes half its length to tell."""
    n = 6 * ROUNDS
    line = [(v, v + 1) for v in range(n - 1)]
    alone = rows_of(batch_of(([0] * n, line + [(v, u) for u, v in line])))
    assert len(alone.size) == n


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda graphs: st.lists(
            st.tuples(
                st.lists(st.integers(0, 1), min_size=1, max_size=9),
                st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=16),
            ),
            min_size=graphs,
            max_size=graphs,
        )
    ),
    st.integers(1, 3),
    st.sampled_from([1, 2]),
)
def test_rows_are_classes_of_equal_trees(graphs: Any, threads: int, types: int) -> None:
    graphs = [(labels, [(u % len(labels), v % len(labels)) for u, v in edges]) for labels, edges in graphs]
    batch = batch_of(*graphs, types=types)
    rows = rows_of(batch, Team(team().start, threads, 1))
    tree = unfolded(batch, 10)
    if not len(rows.row_of):
        assert len(rows.size) == batch.num_vertices
        return
    for u in range(batch.num_vertices):
        for v in range(u):
            if rows.row_of[u] == rows.row_of[v]:
                assert tree[u] == tree[v]
    assert rows.size.tolist() == np.bincount(rows.row_of, minlength=len(rows.size)).tolist()
    # What a row hears is what any of its vertices hears.
    for v in range(batch.num_vertices):
        heard: dict[tuple[int, int], float] = {}
        begin, end = int(batch.row_ptr[v]), int(batch.row_ptr[v + 1])
        for e in range(begin, end):
            kind = 0 if batch.edge_type is None else int(batch.edge_type[e])
            key = int(rows.row_of[batch.source[e]]), kind
            heard[key] = heard.get(key, 0.0) + 1 / (end - begin)
        own = range(rows.row_ptr[rows.row_of[v]], rows.row_ptr[rows.row_of[v] + 1])
        of_row: dict[tuple[int, int], float] = {}
        for e in own:
            key = int(rows.source[e]), int(rows.kind[e]) if len(rows.kind) else 0
            of_row[key] = of_row.get(key, 0.0) + rows.share[e]
        assert heard == pytest.approx(of_row)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("types", [1, 2])
def test_values_and_gradients(types: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stars, a clique and a path: the fast kernel on classes against the reference on vertices."""
    clique = [(u, v) for u in range(12) for v in range(12) if u != v]
    graphs: Any = (star(30), ([v % 3 for v in range(12)], clique), star(3), ([0, 1, 2], [(0, 1), (1, 2)]), ([], []))
    batch = batch_of(*graphs, types=types)
    model = random_model(LABEL, num_layers=5, num_states=6, num_edge_types=types).double()
    monkeypatch.setattr("gspn.kernels.compiled.threads.WORTH_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    found: dict[str, list[torch.Tensor]] = {}
    for kernel in ("reference", "fast"):
        monkeypatch.setenv("GSPN_KERNEL", kernel)
        model.zero_grad()
        evaluation = model(batch)
        values = [evaluation.log_likelihood, evaluation.posteriors, evaluation.root_prior, evaluation.graph_sums]
        loss = sum((value.square() * torch.linspace(0.5, 2, value.numel()).view(value.shape)).sum() for value in values)
        assert isinstance(loss, torch.Tensor)
        loss.backward()
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        found[kernel] = [*(value.detach() for value in values), *gradients]
        if kernel == "fast":
            assert evaluation.levels.row_of is not None, "classes should have been found"
    for ours, theirs in zip(found["fast"], found["reference"], strict=True):
        assert (ours - theirs).abs().max() <= 1e-10 * theirs.abs().max()
