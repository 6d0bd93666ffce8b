"""Sums over two hops and covariances of neighbours, against paths and edges listed one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from gspn import Continuous, Schema, pack
from gspn.graphs import Batch
from gspn.graphs.private_copies import with_private_copies
from gspn.graphs.replacements import replaced
from gspn.hierarchy.contexts import TwoSteps, neighbour_covariance, two_hops
from gspn.kernels.contract import LONG_SUM
from gspn.queries.pseudo_gibbs import side_by_side

SCHEMA = Schema([Continuous("a")])
PLENTY = 10**6


def batch_of(n: int, edges: list[tuple[int, int]]) -> Batch:
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return pack(Data(x=torch.arange(n).double()[:, None], edge_index=index), SCHEMA).batch(torch.arange(1))


def multigraph(seed: int) -> Batch:
    """Parallel edges, self-loops (also parallel ones), vertices that nobody speaks to, more or less dense."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    edges = rng.integers(n, size=(int(rng.integers(0, 4 * n)), 2))
    return batch_of(n, [(int(u), int(v)) for u, v in edges])


def told_by(batch: Batch, width: int = 3, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch.num_vertices, width, generator=generator, dtype=torch.float64)


def edges_of(batch: Batch) -> list[tuple[int, int]]:
    return list(zip(batch.source.tolist(), batch.target.tolist(), strict=True))


def listed(told: Tensor, batch: Batch, identity: list[int] | None = None) -> tuple[Tensor, Tensor]:
    """The definition, path by path."""
    edges, who = edges_of(batch), list(range(batch.num_vertices)) if identity is None else identity
    mean, number = torch.zeros_like(told), torch.zeros(batch.num_vertices, dtype=torch.long)
    for u, v in edges:
        senders = [w for w, middle in edges if middle == u and who[w] != who[v]]
        if senders:
            number[v] += 1
            mean[v] += torch.stack([told[w] for w in senders]).mean(0)
    return mean / number.clamp_min(1)[:, None], number > 0


# ---- Two hops


@pytest.mark.parametrize("seed", range(60))
def test_two_hops_are_means_over_listed_paths(seed: int) -> None:
    batch = multigraph(seed)
    told = told_by(batch)
    mean, present = two_hops(told, batch)
    expected, some = listed(told, batch)
    torch.testing.assert_close(mean, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(present, some)
    # What is the same for all levels may be handed in.
    again, _ = two_hops(told, batch, TwoSteps.of(batch))
    assert torch.equal(again, mean)


def test_small_cases_by_hand() -> None:
    told = torch.tensor([[1.0], [10.0], [100.0], [1000.0]], dtype=torch.float64)
    # A path 0 – 1 – 2 and an arrow 3 → 1: the ends hear each other and 3, the middle hears nobody over two hops.
    mean, present = two_hops(told, batch_of(4, [(0, 1), (1, 0), (1, 2), (2, 1), (3, 1)]))
    assert mean[:, 0].tolist() == [550.0, 0.0, 500.5, 0.0]
    assert present.tolist() == [True, False, True, False]
    # A self-loop at 1: 1 hears 0 through itself, and 0 hears 1 through 1, never itself.
    mean, present = two_hops(told, batch_of(4, [(1, 1), (0, 1), (1, 0)]))
    assert mean[:, 0].tolist() == [10.0, 1.0, 0.0, 0.0]
    assert present.tolist() == [True, True, False, False]
    # Parallel edges: 0 sends thrice to 1, and 1 twice to 2; 2 sends to 1, too.
    mean, _ = two_hops(told, batch_of(4, [(0, 1)] * 3 + [(3, 1), (1, 2), (1, 2), (2, 1)]))
    assert mean[:, 0].tolist() == [0.0, 0.0, (3 * 1 + 1000) / 4, 0.0]


@pytest.mark.parametrize("n", [0, 3])
def test_without_edges_nobody_hears_anything(n: int) -> None:
    batch = batch_of(n, [])
    mean, present = two_hops(told_by(batch), batch)
    assert mean.shape == (n, 3)
    assert not mean.any()
    assert not present.any()
    assert not neighbour_covariance(torch.ones(n, 2, 2), batch).any()


def test_two_hops_have_the_gradients_of_a_linear_map() -> None:
    for seed in (1, 2, 5, 8):
        batch = multigraph(seed)
        told = told_by(batch).requires_grad_()
        assert torch.autograd.gradcheck(lambda told, batch=batch: two_hops(told, batch)[0], told)
        assert torch.autograd.gradgradcheck(lambda told, batch=batch: two_hops(told, batch)[0].square(), told)


@pytest.mark.parametrize("size", [2e6, float("inf"), float("nan")])
def test_no_vertex_hears_itself_not_even_by_rounding(size: float) -> None:
    """In float32 with values of a million: a sum from which the own value is subtracted again would differ."""
    n = 40
    for seed in range(20):
        rng = np.random.default_rng(seed)
        edges = [(int(u), int(v)) for u, v in rng.integers(n, size=(6 * n, 2))]
        batch = batch_of(n, edges)
        told = 1e6 * told_by(batch, seed=seed).float()
        before, _ = two_hops(told, batch)
        reaches_by_two = {(w, v) for w, u in edges for middle, v in edges if middle == u}
        for v in range(n):
            changed = told.clone()
            changed[v] = size
            after, _ = two_hops(changed, batch)
            assert torch.equal(after[v], before[v])
            others = [t for t in range(n) if (v, t) not in reaches_by_two]
            assert torch.equal(after[others], before[others])


def test_a_hub() -> None:
    """10⁵ neighbours would be 10¹⁰ paths; sums that long are made in float64."""
    n = 100_000
    hub, leaves = torch.zeros(n, dtype=torch.long), torch.arange(1, n + 1)
    index = torch.stack([torch.cat([hub, leaves, leaves[:2]]), torch.cat([leaves, hub, leaves[1:3]])])
    batch = pack(Data(x=torch.zeros(n + 1, 1), edge_index=index), SCHEMA).batch(torch.arange(1))
    told = (1.0 + 0.1 * told_by(batch, 2)).float()
    exact = told.double()
    mean, present = two_hops(told, batch)
    assert mean.dtype == torch.float32
    whole = exact[1:].sum(0)
    for v in (5, 777, n):
        torch.testing.assert_close(mean[v].double(), (whole - exact[v]) / (n - 1), rtol=1e-7, atol=0)
    # Vertex 2 hears the other leaves through the hub, and the hub through vertex 1.
    torch.testing.assert_close(mean[2].double(), ((whole - exact[2]) / (n - 1) + exact[0]) / 2, rtol=1e-7, atol=0)
    # The hub hears through leaves 2 and 3 alone, which have a neighbour beside it.
    torch.testing.assert_close(mean[0].double(), (exact[1] + exact[2]) / 2, rtol=1e-7, atol=0)
    assert present.all()


def test_rounding_does_not_grow_with_the_degree() -> None:
    """Just below the length at which sums are made in float64, and just above."""
    for n in (LONG_SUM, LONG_SUM + 1):
        edges = [(0, v) for v in range(1, n + 1)] + [(v, 0) for v in range(1, n + 1)]
        batch = batch_of(n + 1, edges)
        told = 1e4 + told_by(batch, 1).float()
        expected, _ = two_hops(told.double(), batch)
        found, _ = two_hops(told, batch)
        torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=0)


# ---- Several rows that are the same vertex


@pytest.mark.parametrize("seed", range(20))
def test_a_vertex_in_several_rows_is_one(seed: int) -> None:
    batch = multigraph(seed)
    rng = np.random.default_rng(seed)
    # Numbers of vertices need not be smaller than the number of rows.
    identity = 10 * rng.integers(max(1, batch.num_vertices // 2), size=batch.num_vertices)
    told = told_by(batch)
    mean, present = two_hops(told, replace(batch, identity=torch.from_numpy(identity)))
    expected, some = listed(told, batch, identity.tolist())
    torch.testing.assert_close(mean, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(present, some)


def test_identities_go_with_a_batch() -> None:
    batch = replace(batch_of(3, [(0, 1), (1, 2)]), identity=torch.tensor([0, 1, 0]))
    there = batch.to("meta")
    assert there.identity is not None
    assert there.identity.device.type == "meta"
    told = told_by(batch)
    twice, _ = two_hops(told.repeat(2, 1), side_by_side(batch, 2))
    assert torch.equal(twice, two_hops(told, batch)[0].repeat(2, 1))


def told_of(extended: Batch, told: Tensor) -> Tensor:
    """What rows tell at level 0: what their vertices do, and a hidden one something else."""
    assert extended.hidden is not None
    return torch.where(extended.hidden, 7.5, told[extended.x[:, 0].long()])


def two_levels(told: Tensor, batch: Batch) -> Tensor:
    """A stand-in for a level: a vertex tells its own value together with what it has heard over one hop and two."""
    heard = torch.zeros_like(told).index_add(0, batch.target, told[batch.source.long()])
    heard = heard / batch.in_degree.clamp_min(1)[:, None]
    return torch.tanh(told + 0.7 * heard - 0.9 * two_hops(told, batch)[0])


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("seed", range(12))
def test_private_copies_hear_what_their_vertex_would_with_the_root_hidden(seed: int, levels: int) -> None:
    """Extended graphs, pruned to what roots hear, give the roots what one pass a root over the whole graph gives."""
    rng = np.random.default_rng(seed)
    n = 14
    ring = [(v, (v + 1) % n) for v in range(n)]
    more = [(int(u), int(v)) for u, v in rng.integers(n, size=(5, 2))]
    batch = batch_of(n, ring + [(v, u) for u, v in ring if u % 3] + more + more[:1])
    told, reach = told_by(batch, 1, seed), 2 * (levels - 1)
    longest = 1 if levels == 2 else reach
    roots = torch.from_numpy(rng.permutation(n))[: int(rng.integers(1, n))]
    pieces = list(with_private_copies(batch, roots, torch.ones(len(roots), 1).bool(), reach, PLENTY, longest))
    pieces += with_private_copies(batch, roots[:1], torch.ones(1, 1).bool(), reach, PLENTY)
    answered = 0
    for extended, position in pieces:
        assert extended.identity is not None
        assert torch.equal(extended.identity, extended.x[:, 0].long())
        now = told_of(extended, told)
        for _ in range(levels - 1):
            now = two_levels(now, extended)
        for place in position.tolist():
            root = int(extended.identity[place])
            alone = told.clone()
            alone[root] = 7.5
            for _ in range(levels - 1):
                alone = two_levels(alone, batch)
            torch.testing.assert_close(now[place], alone[root], rtol=1e-12, atol=1e-12)
            answered += 1
            # With this hierarchy's reach, degrees that count are those of the whole graph.
            senders = extended.source[extended.target == place].long()
            for row in [place, *senders.tolist()]:
                assert extended.in_degree[row] == batch.in_degree[extended.identity[row]]
    assert answered == len(roots) + 1


def test_two_levels_need_no_copies_of_neighbours() -> None:
    """Two hops leave out the vertex itself, so its neighbours are shared; a copy each would take O(degree²) edges."""
    n = 300
    batch = batch_of(n, [(0, v) for v in range(1, n)] + [(v, 0) for v in range(1, n)])
    roots = torch.arange(n)
    ((extended, _),) = with_private_copies(batch, roots, torch.ones(n, 1).bool(), 2, PLENTY, 1)
    assert extended.num_vertices == 2 * n
    assert extended.num_edges == 2 * batch.num_edges


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_worlds_of_replacements_hear_what_the_changed_graph_would(seed: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    n = 12
    ring = [(v, (v + 1) % n) for v in range(n)]
    more = [(int(u), int(v)) for u, v in rng.integers(n, size=(4, 2))]
    batch = batch_of(n, ring + [(v, u) for u, v in ring if u % 2] + more + more[:1])
    told, reach = told_by(batch, 1, seed), 2 * (levels - 1)
    centres = torch.from_numpy(rng.permutation(n))[:5]
    values = 100.0 + torch.arange(5).double()  # no vertex's number, so that rows with a replaced entry can be told
    seen = 0
    for worlds in replaced(batch, centres, 0, values, reach, reach, 60):
        x, identity = worlds.batch.x, worlds.batch.identity
        assert identity is not None
        now = torch.where(x >= 100.0, x, told[identity])
        for _ in range(levels - 1):
            now = two_levels(now, worlds.batch)
        before = told
        for _ in range(levels - 1):
            before = two_levels(before, batch)
        for number in worlds.replacement.unique().tolist():
            changed = told.clone()
            changed[centres[worlds.first + number]] = values[worlds.first + number]
            for _ in range(levels - 1):
                changed = two_levels(changed, batch)
            rows = worlds.replacement == number
            torch.testing.assert_close(now[worlds.after[rows]], changed[worlds.vertex[rows]], rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(now[worlds.before[rows]], before[worlds.vertex[rows]], rtol=1e-12, atol=1e-12)
            others = torch.ones(n, dtype=torch.bool)
            others[worlds.vertex[rows]] = False
            assert torch.equal(changed[others], before[others])  # nobody else hears it
            seen += 1
    assert seen == 5


# ---- How uncertain a mean is


def covariances(batch: Batch, width: int = 2) -> Tensor:
    root = told_by(batch, width * width).reshape(-1, width, width)
    return root @ root.mT


@pytest.mark.parametrize("seed", range(30))
def test_covariances_count_every_distinct_sender_once(seed: int) -> None:
    batch = multigraph(seed)
    given = covariances(batch)
    expected = torch.zeros_like(given)
    for v in range(batch.num_vertices):
        senders = Counter(u for u, target in edges_of(batch) if target == v)
        for u, times in senders.items():
            expected[v] += (times / senders.total()) ** 2 * given[u]
    found = neighbour_covariance(given, batch)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(neighbour_covariance(given.float(), batch).double(), expected, rtol=1e-5, atol=1e-5)


def test_covariances_are_those_of_independent_draws() -> None:
    """The mean of independent senders' values, drawn: 0 – 1 twice, 2 → 1 once."""
    batch = batch_of(3, [(0, 1), (0, 1), (2, 1)])
    given = covariances(batch)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(400_000, 3, 2, 1, generator=generator, dtype=torch.float64)
    draws = (torch.linalg.cholesky(given + 1e-12 * torch.eye(2)) @ noise).squeeze(-1)
    mean = draws[:, batch.source[batch.target == 1].long()].mean(1)
    torch.testing.assert_close(neighbour_covariance(given, batch)[1], mean.T.cov(), rtol=0.02, atol=0.02)


def test_covariances_have_the_gradients_of_a_linear_map() -> None:
    for seed in (1, 2, 5):
        batch = multigraph(seed)
        given = covariances(batch).requires_grad_()
        assert torch.autograd.gradcheck(lambda given, batch=batch: neighbour_covariance(given, batch), given)


def test_the_covariance_at_a_hub() -> None:
    n = 20_000
    index = torch.stack([torch.arange(1, n + 1), torch.zeros(n, dtype=torch.long)])
    batch = pack(Data(x=torch.zeros(n + 1, 1), edge_index=index), SCHEMA).batch(torch.arange(1))
    given = torch.eye(3).repeat(n + 1, 1, 1)
    found = neighbour_covariance(given, batch)
    torch.testing.assert_close(found[0], torch.eye(3) / n, rtol=1e-6, atol=0)
    assert not found[1:].any()
