"""Masks: which entries are hidden depends on seed, epoch, graph and vertex alone, and is distributed as promised.

Seeds are fixed, so a statistical test here passes always or never; its bounds only say what would be suspicious.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from small_graphs import EVERY_KIND, draw_graphs
from torch import Tensor
from torch_geometric.data import Data

from gspn import Continuous, GraphDataset, Schema, pack
from gspn.graphs import Batch
from gspn.graphs.masks import FIXED, choose_vertices, hide_entries

SUSPICIOUS = 1e-3
RATE = 0.3

GRAPHS = draw_graphs(20, seed=0, missing=0.3)
DATASET = pack(GRAPHS, EVERY_KIND)

Draw = Callable[[Batch, float, int, int], Tensor]
BOTH: tuple[Draw, Draw] = (choose_vertices, hide_entries)


def by_graph(
    draw: Draw, dataset: GraphDataset, batches: list[list[int]], epoch: int = 2, seed: int = 1
) -> list[Tensor]:
    """Masks drawn batch by batch, as one tensor a graph, in the order of the graphs."""
    masks: dict[int, Tensor] = {}
    for graph_ids in batches:
        batch = dataset.batch(torch.tensor(graph_ids))
        parts = draw(batch, RATE, seed, epoch).split(batch.vertex_ptr.diff().tolist())
        masks |= dict(zip(graph_ids, parts, strict=True))
    return [masks[i] for i in sorted(masks)]


def table(rows: int, columns: int, missing: float = 0.0, seed: int = 0) -> Batch:
    """A batch of graphs with ten vertices each, and as many attributes as asked for."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    x[rng.random(x.shape) < missing] = np.nan
    graphs = [Data(x=torch.from_numpy(x[i : i + 10])) for i in range(0, rows, 10)]
    dataset = pack(graphs, Schema([Continuous(f"x{i}") for i in range(columns)]))
    return dataset.batch(torch.arange(len(dataset)))


# What masks depend on.


@pytest.mark.parametrize("draw", BOTH)
def test_batching_changes_nothing(draw: Draw) -> None:
    everything = list(range(20))
    expected = by_graph(draw, DATASET, [everything])
    rng = np.random.default_rng(0)
    for _ in range(5):
        order = rng.permutation(20).tolist()
        cuts = sorted(rng.integers(1, 19, size=3).tolist())
        batches = [part for part in np.split(np.array(order), cuts) if len(part)]
        for found, wanted in zip(by_graph(draw, DATASET, [b.tolist() for b in batches]), expected, strict=True):
            assert torch.equal(found, wanted)
    for found, wanted in zip(by_graph(draw, DATASET, [[i] for i in everything]), expected, strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("draw", BOTH)
def test_a_graph_is_known_by_its_number_in_the_dataset(draw: Draw) -> None:
    """A part of a dataset numbers its graphs anew, however they are stored."""
    part = DATASET[[7, 3, 11]]
    packed_anew = pack([GRAPHS[7], GRAPHS[3], GRAPHS[11]], EVERY_KIND)
    masks = by_graph(draw, part, [[2, 0], [1]])
    for found, wanted in zip(masks, by_graph(draw, packed_anew, [[0, 1, 2]]), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("draw", BOTH)
def test_the_other_vertices_of_a_graph_change_nothing(draw: Draw) -> None:
    grown = Data(x=torch.cat([GRAPHS[0].x, GRAPHS[1].x]), edge_index=GRAPHS[0].edge_index)
    first, longer = (by_graph(draw, pack([g], EVERY_KIND), [[0]])[0] for g in (GRAPHS[0], grown))
    assert torch.equal(longer[: len(first)], first)


@pytest.mark.parametrize("draw", BOTH)
@pytest.mark.parametrize("change", [{"epoch": 3}, {"epoch": FIXED}, {"seed": 2}], ids=str)
def test_seed_and_epoch_change_masks(draw: Draw, change: dict[str, int]) -> None:
    """And nothing else does: the same again gives the same."""
    everything = [list(range(20))]
    one, other = (torch.cat(by_graph(draw, DATASET, everything, **changes)) for changes in ({}, change))
    assert torch.equal(torch.cat(by_graph(draw, DATASET, everything)), one)
    assert not torch.equal(one, other)
    chosen, chosen_otherwise = ((mask if mask.dim() == 1 else mask.any(1)) for mask in (one, other))
    both, either = (chosen & chosen_otherwise).sum(), (chosen | chosen_otherwise).sum()
    assert both < 0.5 * either, "vertices are chosen anew, not only their entries"


@pytest.mark.parametrize("draw", BOTH)
def test_equal_graphs_get_different_masks(draw: Draw) -> None:
    twins = pack([GRAPHS[0]] * 8, EVERY_KIND)
    masks = {tuple(mask.flatten().tolist()) for mask in by_graph(draw, twins, [list(range(8))])}
    assert len(masks) == 8


def test_validation_masks_never_change() -> None:
    """Validation uses the same masks in every epoch, and none of the epochs uses them in training."""
    assert FIXED < 0
    batch = table(2000, 3)
    fixed = hide_entries(batch, RATE, 1, FIXED)
    assert torch.equal(hide_entries(batch, RATE, 1, FIXED), fixed)
    for epoch in range(20):
        assert not torch.equal(hide_entries(batch, RATE, 1, epoch), fixed)


# What is hidden.


@pytest.mark.parametrize("rate", [0.02, 0.15, 0.5, 0.9])
def test_share_of_chosen_vertices(rate: float) -> None:
    batch = table(50_000, 3)
    for number in (int(choose_vertices(batch, rate, 1, 0).sum()), int(hide_entries(batch, rate, 1, 0).any(1).sum())):
        assert stats.binomtest(number, 50_000, rate).pvalue > SUSPICIOUS


def test_every_vertex_is_chosen_at_a_rate_of_one() -> None:
    batch = table(1000, 3)
    assert choose_vertices(batch, 1.0, 1, 0).all()
    assert hide_entries(batch, 1.0, 1, 0).any(1).all()


def test_entries_are_hidden_of_the_chosen_vertices() -> None:
    """The vertices that "leave_one_out" predicts are those of which "masked" hides something."""
    batch = DATASET.batch(torch.arange(20))
    assert torch.equal(hide_entries(batch, RATE, 1, 2).any(1), choose_vertices(batch, RATE, 1, 2))


@pytest.mark.parametrize("columns", [2, 5])
def test_half_hide_all_and_the_others_a_uniform_number(columns: int) -> None:
    """All d of d hidden: 1/2 + 1/(2d) of the chosen. Any other number: 1/(2d)."""
    hidden = hide_entries(table(50_000, columns), 0.5, 3, 0).sum(1)
    counts = torch.bincount(hidden[hidden > 0], minlength=columns + 1)[1:].numpy()
    shares = np.full(columns, 1 / (2 * columns))
    shares[-1] += 0.5
    assert stats.chisquare(counts, shares * counts.sum()).pvalue > SUSPICIOUS


def test_numbers_are_relative_to_what_is_observed() -> None:
    """A vertex with k of 6 entries observed hides all k with probability 1/2 + 1/(2k)."""
    batch = table(100_000, 6, missing=0.5)
    hidden = hide_entries(batch, 0.8, 5, 1).sum(1)
    observed = batch.observed.sum(1)
    for k in range(1, 7):
        counts = torch.bincount(hidden[(observed == k) & (hidden > 0)], minlength=k + 1)[1:].numpy()
        assert counts.sum() > 500
        shares = np.full(k, 1 / (2 * k))
        shares[-1] += 0.5
        assert len(counts) == k
        if k == 1:
            continue
        assert stats.chisquare(counts, shares * counts.sum()).pvalue > SUSPICIOUS


def test_every_set_of_entries_of_one_size_is_as_likely() -> None:
    hidden = hide_entries(table(100_000, 4), 0.8, 7, 0)
    pairs = hidden[hidden.sum(1) == 2].long() @ torch.tensor([8, 4, 2, 1])
    values, counts = pairs.unique(return_counts=True)
    assert values.tolist() == [3, 5, 6, 9, 10, 12]
    assert stats.chisquare(counts.numpy()).pvalue > SUSPICIOUS


def test_missing_entries_are_never_hidden() -> None:
    batch = table(20_000, 4, missing=0.6)
    for epoch in (FIXED, 0, 1):
        hidden = hide_entries(batch, 0.9, 1, epoch)
        assert hidden.any()
        assert not (hidden & ~batch.observed).any()
        chosen = choose_vertices(batch, 0.9, 1, epoch)
        assert not chosen[~batch.observed.any(1)].any()
    nothing = table(100, 3, missing=1.0)
    assert not hide_entries(nothing, 1.0, 1, 0).any()
    assert not choose_vertices(nothing, 1.0, 1, 0).any()


def test_missing_entries_do_not_move_the_choice_of_vertices() -> None:
    """Whether a vertex is chosen does not depend on how much of it is known, as long as something is."""
    full, sparse = table(20_000, 4), table(20_000, 4, missing=0.5)
    known = sparse.observed.any(1)
    assert torch.equal(choose_vertices(sparse, RATE, 1, 0)[known], choose_vertices(full, RATE, 1, 0)[known])


def test_choices_in_successive_epochs_are_independent() -> None:
    """Over two epochs, rate² of the vertices are chosen twice."""
    batch = table(50_000, 2)
    first, second = (choose_vertices(batch, RATE, 1, epoch) for epoch in (0, 1))
    assert stats.binomtest(int((first & second).sum()), 50_000, RATE**2).pvalue > SUSPICIOUS


def test_hiding_all_is_independent_of_being_chosen() -> None:
    """A vertex chosen at a small rate hides all as often as one chosen at a large rate."""
    batch = table(50_000, 5)
    for rate in (0.05, 0.9):
        hidden = hide_entries(batch, rate, 1, 0)
        number, of = int(hidden.all(1).sum()), int(hidden.any(1).sum())
        assert stats.binomtest(number, of, 0.6).pvalue > SUSPICIOUS


GOLDEN = {
    (1, 0): {8: [0, 1, 2], 12: [0, 1, 2], 16: [1, 2]},
    (1, FIXED): {8: [0, 1, 2], 9: [1], 13: [0, 1, 2], 15: [0, 1, 2]},
    (0, 7): {3: [0, 1, 2], 6: [0, 1], 7: [1, 2], 9: [1, 2], 13: [0, 1, 2]},
}
"""For some (seed, epoch) the hidden columns of two graphs of ten vertices each."""


@pytest.mark.parametrize(("seed", "epoch"), GOLDEN)
def test_golden_masks(seed: int, epoch: int) -> None:
    """If these change, so does every result ever obtained with the masked objective."""
    hidden = hide_entries(table(20, 3), RATE, seed, epoch)
    rows = hidden.any(1).nonzero().flatten().tolist()
    assert {row: hidden[row].nonzero().flatten().tolist() for row in rows} == GOLDEN[seed, epoch]
