"""Random numbers by key: uniform, independent of each other, and the same for ever.

The keys are fixed, so a statistical test here passes always or never; its bounds only say what would be suspicious.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from gspn.random_streams import keyed_generator, keyed_uniform

MANY = torch.arange(100_000)
SUSPICIOUS = 1e-3
"""Of some thirty p-values the least is below this with a probability of 3 %."""

STREAMS: dict[str, Tensor] = {
    "seeds": keyed_uniform(MANY, 3, 5, 7, 0),
    "epochs": keyed_uniform(1, MANY, 5, 7, 0),
    "graphs": keyed_uniform(1, 3, MANY, 7, 0),
    "vertices": keyed_uniform(1, 3, 5, MANY, 0),
    "purposes": keyed_uniform(1, 3, 5, 7, MANY),
    "negative": keyed_uniform(1, -MANY - 1, 5, 7, 0),
    "steps of 1024": keyed_uniform(1, 3, MANY * 1024, 7, 0),
    "steps of 2⁴⁰": keyed_uniform(1, 3, MANY * 2**40, 7, 0),
    "one key": keyed_uniform(MANY),
    "next vertex": keyed_uniform(1, 3, 5, MANY + 1, 0),
    "next graph": keyed_uniform(1, 3, 6, MANY, 0),
    "next epoch": keyed_uniform(1, 4, 5, MANY, 0),
    "fixed masks": keyed_uniform(1, -1, 5, MANY, 0),
    "next seed": keyed_uniform(2, 3, 5, MANY, 0),
    "next purpose": keyed_uniform(1, 3, 5, MANY, 1),
    "no purpose": keyed_uniform(1, 3, 5, MANY),
    "exchanged": keyed_uniform(1, 3, MANY, 5, 0),
}


@pytest.mark.parametrize("name", STREAMS)
def test_uniform(name: str) -> None:
    stream = STREAMS[name]
    assert stream.dtype == torch.float64
    assert 0 <= stream.min() < stream.max() < 1
    assert stats.kstest(stream.numpy(), "uniform").pvalue > SUSPICIOUS
    assert len(stream.unique()) == len(stream), "two of 1e5 in 2⁵³ agree with a probability of 1e-6"
    # The last of its 53 bits, too.
    low_bits = torch.bincount((stream * 2.0**53).long() % 256, minlength=256)
    assert stats.chisquare(low_bits.numpy()).pvalue > SUSPICIOUS


def test_streams_of_different_keys_are_uncorrelated() -> None:
    """A correlation of independent streams has the deviation 1/√n; of 136 pairs one beyond 4.5 is a 1e-3 event."""
    correlations = np.corrcoef(torch.stack(list(STREAMS.values())).numpy())
    apart = correlations[np.triu_indices(len(STREAMS), k=1)]
    assert len(apart) == 136
    assert np.abs(apart).max() < 4.5 / math.sqrt(len(MANY))


@pytest.mark.parametrize("lag", [1, 2, 16, 1024])
def test_neighbours_in_a_stream_are_uncorrelated(lag: int) -> None:
    for stream in STREAMS.values():
        assert abs(np.corrcoef(stream[lag:].numpy(), stream[:-lag].numpy())[0, 1]) < 4.5 / math.sqrt(len(MANY))


def test_pairs_fill_the_square() -> None:
    """Independence is more than no correlation: the pairs of two streams fall into 20 × 20 cells evenly."""
    for first, second in [("vertices", "next vertex"), ("vertices", "next purpose"), ("next epoch", "fixed masks")]:
        cells = (STREAMS[first] * 20).long() * 20 + (STREAMS[second] * 20).long()
        assert stats.chisquare(torch.bincount(cells, minlength=400).numpy()).pvalue > SUSPICIOUS


def test_order_and_number_of_keys_matter() -> None:
    keys = [(), (0,), (1,), (2,), (-1,), (0, 0), (0, 1), (1, 0), (1, 2), (2, 1), (0, 0, 0), (0, 0, 1), (1, 0, 0)]
    numbers = [keyed_uniform(*key, 9).item() for key in keys]
    assert len(set(numbers)) == len(numbers)


def test_numbers_do_not_depend_on_what_is_drawn_together() -> None:
    graph, vertex = torch.arange(50), torch.arange(20)
    table = keyed_uniform(1, 2, graph[:, None], vertex, 3)
    assert table.shape == (50, 20)
    assert torch.equal(torch.stack([keyed_uniform(1, 2, g, vertex, 3) for g in graph[:, None]]), table)
    assert torch.equal(keyed_uniform(1, 2, graph.flip(0)[:, None], vertex, 3), table.flip(0))
    assert torch.equal(keyed_uniform(1, 2, graph.repeat_interleave(20), vertex.repeat(50), 3), table.flatten())
    assert keyed_uniform(1, 2, 31, 17, 3).item() == table[31, 17].item()
    assert torch.equal(keyed_uniform(1, 2, graph[:, None].int(), vertex.short(), 3), table)
    assert keyed_uniform(1, graph[:0]).shape == (0,)


def test_drawing_uses_up_nobody_elses_numbers() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    keyed_uniform(1, MANY[:10])
    keyed_generator(1, 2)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ((0,), 0.6320670179441698),
        ((1,), 0.4842743125404624),
        ((-1,), 0.8790661274361856),
        ((0, 0), 0.6471887939874116),
        ((0, 0, 0), 0.05067577572310655),
        ((42, 3, 7, 1), 0.7304627228980356),
        ((0, -1, 5, 2, 3), 0.4046375120531418),
        ((2**62, -(2**63)), 0.7222012682407176),
    ],
)
def test_golden_numbers(keys: tuple[int, ...], expected: float) -> None:
    """Masks, samples and starting points are made of these: if one changes, so does every result ever obtained."""
    assert keyed_uniform(*keys).item() == expected
    assert keyed_uniform(*(torch.tensor([key]) for key in keys)).item() == expected


@pytest.mark.parametrize(
    ("keys", "seed"), [((0,), 5829358422880135), ((0, 0), 456446809326587), ((7, 3), 2103561601622707)]
)
def test_golden_generators(keys: tuple[int, ...], seed: int) -> None:
    generator = keyed_generator(*keys)
    assert generator.initial_seed() == seed
    again = torch.randperm(100, generator=keyed_generator(*keys))
    assert torch.equal(torch.randperm(100, generator=generator), again)


def test_generators_of_different_keys_differ() -> None:
    keys = [(0,), (1,), (0, 0), (0, 1), (1, 0), (0, -1)]
    orders = {tuple(torch.randperm(100, generator=keyed_generator(*key)).tolist()) for key in keys}
    assert len(orders) == len(keys)
