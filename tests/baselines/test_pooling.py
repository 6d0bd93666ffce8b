"""What is said of graphs without a model, against sums and histograms made vertex by vertex."""

from __future__ import annotations

import numpy as np
import torch
from small_graphs import EVERY_KIND, draw_graphs
from torch_geometric.data import Data

from gspn import pack
from gspn.baselines.attribute_columns import AttributeColumns, pool
from gspn.baselines.on_rows import standardised


def test_statistics_by_graph() -> None:
    rows = torch.randn(9, 2, generator=torch.Generator().manual_seed(0))
    pooled = pool(rows, torch.tensor([4, 0, 5]))
    for graph, part in enumerate([rows[:4], rows[:0], rows[4:]]):
        total = part.double().sum(0)
        torch.testing.assert_close(pooled.log_sum[graph], total.sign() * total.abs().log1p())
        mean = part.double().mean(0) if len(part) else torch.zeros(2, dtype=torch.float64)
        torch.testing.assert_close(pooled.mean[graph], mean)
        spread = part.double().std(0, correction=0) if len(part) else torch.zeros(2, dtype=torch.float64)
        torch.testing.assert_close(pooled.deviation[graph], spread)


def test_columns_are_named_and_counted() -> None:
    graphs = draw_graphs(20, seed=0, edge_types=2, missing=0.0)
    dataset = pack(graphs, EVERY_KIND)
    columns = AttributeColumns.of(EVERY_KIND, dataset)
    rows, names = columns(dataset), columns.names
    assert rows.shape == (20, len(names))
    assert len(set(names)) == len(names)
    for row, graph in zip(rows, graphs, strict=True):
        named = dict(zip(names, row, strict=True))
        assert np.isclose(named["element=N_mean"], (graph.x[:, 1] == 1).double().mean())
        degree = torch.bincount(graph.edge_index[1], minlength=graph.num_nodes)
        assert np.isclose(named["degree_3_share"], (degree == 3).double().mean())
        assert np.isclose(named["edge_type_1_logsum"], np.log1p(int((graph.edge_type == 1).sum())))
        assert np.isclose(named["log_vertices"], np.log1p(graph.num_nodes))


def test_larger_degrees_and_unknown_edge_types_than_in_training() -> None:
    training = pack(draw_graphs(5, seed=0, edge_types=1), EVERY_KIND)
    columns = AttributeColumns.of(EVERY_KIND, training)
    hub = torch.stack([torch.arange(1, 200), torch.zeros(199, dtype=torch.long)])
    x = training.entries()[:1].expand(200, -1)
    star = Data(x=x, edge_index=hub, edge_type=torch.full((199,), 7))
    row = dict(zip(columns.names, columns(pack([star], EVERY_KIND))[0], strict=True))
    assert np.isclose(row[f"degree_{int(columns.degrees[-1])}_logsum"], np.log1p(1))
    assert row["edge_type_0_logsum"] == 0


def test_what_is_nearly_constant_in_training_leads_nobody_astray() -> None:
    """A column that moves by a thousandth in training is thousands of deviations away on a graph that has it whole."""
    training, other = np.zeros((100, 2)), np.array([[1.0, 0.5]])
    training[0, 0], training[:, 1] = 1e-3, np.linspace(-1, 1, 100)
    centre, scale = training.mean(0), training.std(0)
    assert (other - centre)[0, 0] / scale[0] > 5_000
    rows = standardised(other, centre, scale)
    assert rows[0, 0] == 10
    assert rows[0, 1] == (0.5 - centre[1]) / scale[1]
