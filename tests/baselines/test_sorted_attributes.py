"""Sorted attributes: neither the order of atoms nor a rotation matters, and what they cannot compare is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gspn import Categorical, Continuous, GSPNError, Schema
from gspn.baselines import SortedAttributes
from gspn.convert.positions import sorted_distances

SCHEMA = Schema([Categorical("element", ["C", "H"]), Continuous("distance_1"), Continuous("distance_2")])
ENERGY = Continuous("energy")
NOTHING = torch.zeros(2, 0, dtype=torch.long)
CODES = torch.tensor([0.0, 1.0, 1.0, 0.0])


def frames(number: int, seed: int) -> tuple[list[Data], np.ndarray]:
    """Four atoms that move, and the sum of their distances as an energy."""
    positions = np.random.default_rng(seed).standard_normal((number, 4, 3))
    near = sorted_distances(positions, 2)
    rows = [torch.cat([CODES[:, None], torch.from_numpy(own)], dim=1) for own in near]
    return [Data(x=x, edge_index=NOTHING) for x in rows], near.sum((1, 2))


def test_distances_do_not_change_when_all_is_turned() -> None:
    rng = np.random.default_rng(0)
    positions = rng.standard_normal((5, 6, 3))
    turn, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    found = sorted_distances(positions)
    assert found.shape == (5, 6, 5)
    assert (np.diff(found, axis=-1) >= 0).all()
    np.testing.assert_allclose(sorted_distances(positions @ turn + 7.0), found, atol=1e-12)
    np.testing.assert_allclose(sorted_distances(positions, 2), found[..., :2])
    own = np.sort(np.linalg.norm(positions[0, 1:] - positions[0, 0], axis=1))
    np.testing.assert_allclose(found[0, 0], own)
    with pytest.raises(GSPNError, match="positions"):
        sorted_distances([[np.nan, 0.0]])


def test_energies_are_learned_whatever_the_order_of_atoms() -> None:
    (graphs, energies), (others, truth) = frames(80, 0), frames(40, 1)
    model = SortedAttributes(SCHEMA, ENERGY).fit(graphs, energies, progress=False)
    predicted = model.predict(others)
    assert np.abs(predicted - truth).mean() < 0.3 * np.abs(truth - truth.mean()).mean()
    shuffled = [Data(x=graph.x[[2, 3, 1, 0]], edge_index=NOTHING) for graph in others]
    np.testing.assert_allclose(model.predict(shuffled), predicted, rtol=1e-9)


def test_other_compositions_and_gaps_are_refused() -> None:
    graphs, energies = frames(20, 0)
    model = SortedAttributes(SCHEMA, ENERGY).fit(graphs, energies, progress=False)
    other, gap = graphs[0].x.clone(), graphs[0].x.clone()
    other[0, 0], gap[0, 1] = 1.0, torch.nan
    for x, said in ((other, "each category"), (gap, "gaps"), (graphs[0].x[:3], "same vertices")):
        with pytest.raises(GSPNError, match=said):
            model.predict([Data(x=x, edge_index=NOTHING)])
    with pytest.raises(GSPNError, match="one categorical"):
        SortedAttributes(Schema([Continuous("a")]), ENERGY).fit([Data(x=gap[:, 1:2], edge_index=NOTHING)], [1.0])
