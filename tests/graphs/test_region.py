"""Regions of datasets: no larger than asked, with exactly the edges between what is kept."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from gspn import Continuous, Schema, pack
from gspn.errors import InputError
from gspn.graphs.region import sample_region

SCHEMA = Schema([Continuous("number")])


def graph(vertices: int, edges: int, seed: int, first: int = 0) -> Data:
    """The only attribute is the vertex's own number, so that a region tells which vertices it has."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.arange(first, first + vertices, dtype=torch.float64)[:, None]
    edge_index = torch.randint(vertices, (2, edges), generator=generator)
    return Data(x=x, edge_index=edge_index, edge_type=edge_index.sum(0) % 3)


@settings(max_examples=40, deadline=None)
@given(vertices=st.integers(2, 60), edges=st.integers(0, 150), most=st.integers(1, 60), seed=st.integers(0, 5))
def test_a_region_of_one_graph(vertices: int, edges: int, most: int, seed: int) -> None:
    data = graph(vertices, edges, seed)
    region = sample_region(pack(data, SCHEMA), most, seed)
    assert len(region) == 1
    found = region[0]
    kept = found.x[:, 0].long()
    assert len(kept) == min(most, vertices)
    assert len(kept.unique()) == len(kept)
    ours = torch.stack([*kept[found.edge_index], found.edge_type]).T
    inside = torch.isin(data.edge_index, kept).all(0)
    theirs = torch.stack([*data.edge_index[:, inside], data.edge_type[inside]]).T
    assert sorted(ours.tolist()) == sorted(theirs.tolist())


def test_whole_graphs_where_there_are_some() -> None:
    dataset = pack([graph(10, 20, seed, first=10 * seed) for seed in range(30)], SCHEMA)
    region = sample_region(dataset, 95)
    assert [len(one.x) for one in region] == [10] * 9
    assert [int(one.x[0, 0]) for one in region] == sorted(int(one.x[0, 0]) for one in region)
    assert sample_region(dataset, 300) is dataset
    another = [int(one.x[0, 0]) for one in sample_region(dataset, 95, seed=1)]
    assert another != [int(one.x[0, 0]) for one in region]


def test_regions_keep_most_edges() -> None:
    """Of a ring of 5,000 vertices 1,000 drawn one by one would keep about a twenty-fifth of the edges, not a fifth."""
    around = torch.arange(5000)
    ring = Data(x=around[:, None].double(), edge_index=torch.stack([around, (around + 1) % 5000]))
    region = sample_region(pack(ring, SCHEMA), 1000)[0]
    assert region.edge_index.shape[1] >= 990


def test_no_room() -> None:
    with pytest.raises(InputError, match="at least one vertex"):
        sample_region(pack(graph(3, 2, 0), SCHEMA), 0)
