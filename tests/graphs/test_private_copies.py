"""Private copies: as few as keep a root out of its own tree, and the same answers whatever the budget."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import EVERY_KIND, draw_graph, draw_graphs
from small_models import random_model
from torch import Tensor
from torch_geometric.data import Data

from gspn.graphs import Batch, pack
from gspn.graphs.private_copies import with_private_copies
from gspn.hierarchy.roots import leave_one_out

PLENTY = 10**6


def batch_of(n: int, edges: list[tuple[int, int]]) -> Batch:
    x = torch.zeros(n, len(EVERY_KIND))
    x[:, 0] = torch.arange(n)  # so that copies can be recognised
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return pack(Data(x=x, edge_index=index), EVERY_KIND).batch(torch.arange(1))


def both_ways(edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return edges + [(v, u) for u, v in edges]


def everything(batch: Batch, roots: Tensor) -> Tensor:
    return torch.ones(len(roots), batch.x.shape[1], dtype=torch.bool)


def pieces_of(
    batch: Batch, levels: int, roots: list[int] | None = None, budget: int = PLENTY
) -> list[tuple[Batch, Tensor]]:
    asked = torch.arange(batch.num_vertices) if roots is None else torch.tensor(roots, dtype=torch.long)
    return list(with_private_copies(batch, asked, everything(batch, asked), levels - 1, budget))


def copies_of(batch: Batch, root: int, levels: int) -> list[int]:
    """The vertices that are copied for one root: after the shared ones, which are all that the root can hear."""
    ((extended, position),) = pieces_of(batch, levels, [root])
    shared = len(within_reach(batch, root, levels - 1))
    copies: list[int] = extended.x[shared:, 0].long().tolist()
    assert int(extended.x[position, 0]) == root
    assert extended.hidden is not None
    assert extended.hidden.nonzero()[:, 0].unique().tolist() == position.tolist()
    return copies


def within_reach(batch: Batch, root: int, steps: int) -> dict[int, int]:
    """Distance to the root of all vertices that reach it in so many steps, by search."""
    distance = {root: 0}
    edges = list(zip(batch.source.tolist(), batch.target.tolist(), strict=True))
    for step in range(1, steps + 1):
        for u, v in edges:
            if distance.get(v) == step - 1:
                distance.setdefault(u, step)
    return distance


# ---- Only what is needed


@pytest.mark.parametrize("levels", [1, 2, 3, 5, 8])
def test_a_tree_of_one_way_edges_needs_one_copy_a_root(levels: int) -> None:
    batch = batch_of(7, [(6, 4), (5, 4), (4, 2), (3, 2), (2, 0), (1, 0)])
    for root in range(7):
        assert copies_of(batch, root, levels) == [root]


@pytest.mark.parametrize("levels", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_a_one_way_ring_is_copied_once_the_tree_is_high_enough(size: int, levels: int) -> None:
    """Around a ring of four it takes four steps, which a tree of five levels has."""
    batch = batch_of(size, [(v, (v + 1) % size) for v in range(size)])
    assert copies_of(batch, 1, levels) == ([1] if levels <= size else list(range(size)))


def test_copies_in_a_two_way_path() -> None:
    """There and back takes 2d steps: vertices up to (L - 1) / 2 away are copied."""
    batch = batch_of(9, both_ways([(v, v + 1) for v in range(8)]))
    for levels, radius in ((1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (7, 3)):
        assert copies_of(batch, 4, levels) == list(range(4 - radius, 4 + radius + 1))


def test_a_triangle_with_a_tail() -> None:
    batch = batch_of(5, both_ways([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]))
    assert copies_of(batch, 0, 2) == [0]
    assert copies_of(batch, 0, 3) == [0, 1, 2]
    assert copies_of(batch, 0, 5) == [0, 1, 2, 3]  # 3 is two steps away
    assert copies_of(batch, 4, 3) == [3, 4]


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_a_self_loop_needs_no_copy_of_others(levels: int) -> None:
    batch = batch_of(3, [(0, 0), (0, 1), (1, 2)])
    for root in range(3):
        assert copies_of(batch, root, levels) == [root]
    ((extended, position),) = pieces_of(batch, levels, [0])
    # The copy hears itself, not the original, which still knows the hidden entries.
    (incoming,) = (extended.source[extended.target == position]).tolist()
    assert incoming == int(position)


def test_other_components_are_left_out() -> None:
    batch = batch_of(6, both_ways([(0, 1), (1, 2), (3, 4), (4, 5)]))
    ((extended, _),) = pieces_of(batch, 4, [0])
    assert set(extended.x[:, 0].long().tolist()) == {0, 1, 2}
    ((extended, _),) = pieces_of(batch, 4, [0, 5])
    assert set(extended.x[:, 0].long().tolist()) == set(range(6))


def test_one_level_hears_nobody() -> None:
    batch = batch_of(3, both_ways([(0, 1), (1, 2), (2, 0)]))
    ((extended, position),) = pieces_of(batch, 1, [2, 0])
    assert extended.num_vertices == 4
    assert extended.x[position, 0].tolist() == [2, 0]


def test_copies_count_in_degrees_as_the_originals_do() -> None:
    """A copy whose level matters hears as many as the original, or its mean would be another."""
    batch = batch_of(4, [*both_ways([(0, 1), (1, 2), (2, 0), (2, 3)]), (0, 1), (1, 1)])
    levels = 4
    for root in range(4):
        ((extended, _),) = pieces_of(batch, levels, [root])
        for v in range(extended.num_vertices):
            original = int(extended.x[v, 0])
            if within_reach(batch, root, levels)[original] < levels - 1:
                assert extended.in_degree[v] == batch.in_degree[original]
        assert extended.max_in_degree == int(extended.in_degree.max())


def test_shared_vertices_never_listen_to_copies() -> None:
    batch = batch_of(5, both_ways([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]))
    ((extended, position),) = pieces_of(batch, 5)
    shared = 5
    assert extended.num_vertices > shared + 5
    assert (extended.source[extended.target < shared] < shared).all()
    assert extended.hidden is not None
    assert extended.hidden.any(1).nonzero().squeeze(1).tolist() == sorted(position.tolist())


# ---- The same answers


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(1, 9), levels=st.integers(1, 5), budget=st.sampled_from([1, 2, 5, 20])
)
def test_results_do_not_depend_on_the_budget(seed: int, n: int, levels: int, budget: int) -> None:
    model = random_model(EVERY_KIND, seed, num_layers=levels, num_states=2)
    data = draw_graph(np.random.default_rng(seed), n, missing=0.2)
    keep = torch.rand(data.num_edges, generator=torch.Generator().manual_seed(seed)) < 0.7  # some one-way, too
    batch = model.collate(Data(x=data.x, edge_index=data.edge_index[:, keep]))
    roots = torch.arange(n).flip(0)
    with torch.no_grad():
        whole = list(leave_one_out(model.hierarchy, batch, roots, budget=PLENTY))
        parts = list(leave_one_out(model.hierarchy, batch, roots, budget=budget))
        assert len(whole) == 1
        torch.testing.assert_close(torch.cat(parts), whole[0], rtol=1e-12, atol=1e-12)
        # One pass for each root, with its entries hidden everywhere: the definition.
        for answer, root in zip(whole[0], roots.tolist(), strict=True):
            hidden = torch.zeros(batch.x.shape, dtype=torch.bool)
            hidden[root] = True
            expected = model(batch.hiding(hidden)).log_hidden[root]
            torch.testing.assert_close(answer, expected, rtol=1e-11, atol=1e-11)


def test_roots_may_repeat_and_hide_different_entries() -> None:
    model = random_model(EVERY_KIND, 1, num_layers=4)
    batch = model.collate(draw_graphs(1, seed=1, sizes=(6, 6), missing=0.0)[0])
    roots = torch.tensor([3, 0, 3, 3])
    hidden = torch.rand(4, 5, generator=torch.Generator().manual_seed(2)) < 0.5
    hidden[2] = False
    with torch.no_grad():
        (answers,) = leave_one_out(model.hierarchy, batch, roots, hidden)
        for answer, root, entries in zip(answers, roots.tolist(), hidden, strict=True):
            everywhere = torch.zeros(batch.x.shape, dtype=torch.bool)
            everywhere[root] = entries
            expected = model(batch.hiding(everywhere)).log_hidden[root]
            torch.testing.assert_close(answer, expected, rtol=1e-11, atol=1e-11)
    assert answers[2] == 0
    assert answers[0] != answers[3]


def test_edge_types_follow_the_copies() -> None:
    model = random_model(EVERY_KIND, 3, num_layers=4, num_edge_types=3)
    batch = model.collate(draw_graphs(3, seed=3, missing=0.1, edge_types=3))
    with torch.no_grad():
        answers = torch.cat(list(leave_one_out(model.hierarchy, batch, torch.arange(batch.num_vertices), budget=7)))
        for root in range(batch.num_vertices):
            hidden = torch.zeros(batch.x.shape, dtype=torch.bool)
            hidden[root] = True
            expected = model(batch.hiding(hidden)).log_hidden[root]
            torch.testing.assert_close(answers[root], expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("budget", [1, PLENTY])
def test_no_roots_give_no_pieces(budget: int) -> None:
    for batch in (batch_of(3, both_ways([(0, 1)])), batch_of(0, [])):
        assert pieces_of(batch, 3, [], budget) == []


def test_pieces_follow_the_order_of_the_roots_and_keep_to_the_budget() -> None:
    batch = batch_of(40, both_ways([(v, (v + 1) % 40) for v in range(40)]))
    roots = [*range(20, 40), *range(20)]
    pieces = pieces_of(batch, 5, roots, budget=30)
    assert len(pieces) > 2
    answered = [int(extended.x[p, 0]) for extended, position in pieces for p in position]
    assert answered == roots
    for extended, position in pieces:
        shared = int(position.min()) - 2  # a root's own copy stands third among its five
        assert extended.num_vertices - shared <= 2 * 30 or len(position) == 1


@pytest.mark.parametrize(("levels", "edges"), [(1, True), (2, True), (5, False)])
def test_the_budget_also_holds_where_roots_need_only_their_own_copy(levels: int, edges: bool) -> None:
    batch = batch_of(40, both_ways([(v, (v + 1) % 40) for v in range(40)]) if edges else [])
    pieces = pieces_of(batch, levels, budget=10)
    assert len(pieces) >= 4
    assert [int(extended.x[p, 0]) for extended, position in pieces for p in position] == list(range(40))


def test_a_hub_is_answered_alone() -> None:
    """More copies than the budget for a single root: it is answered all the same."""
    batch = batch_of(200, both_ways([(0, v) for v in range(1, 200)]))
    pieces = pieces_of(batch, 5, [0, 1, 2], budget=10)
    assert [len(position) for _, position in pieces] == [1, 1, 1]
    assert pieces[0][0].num_vertices == 400


def graphs_where_nothing_can_echo() -> list[Callable[[], Data]]:
    return [
        lambda: Data(x=draw_graphs(1, seed=4)[0].x),
        lambda: Data(x=draw_graphs(1, seed=4)[0].x[:3], edge_index=torch.tensor([[0, 1, 0], [1, 2, 2]])),
    ]


@pytest.mark.parametrize("make", graphs_where_nothing_can_echo())
def test_without_echoes_leaving_out_changes_nothing(make: Callable[[], Data]) -> None:
    model = random_model(EVERY_KIND, 4, num_layers=4)
    data = make()
    torch.testing.assert_close(
        model.log_likelihood(data, leave_one_out=True), model.log_likelihood(data), rtol=1e-12, atol=1e-12
    )


def test_a_dense_graph_is_searched_to_the_end() -> None:
    """More edges than a search with a budget would look at: every vertex is on a closed walk of two steps."""
    n = 60
    batch = batch_of(n, [(u, v) for u in range(n) for v in range(n) if u != v])
    ((extended, _),) = pieces_of(batch, 3, [7])
    assert extended.num_vertices == 2 * n
    assert sum(len(position) for _, position in pieces_of(batch, 3, budget=100)) == n
