"""Rivals by gradient descent: PyG's convolutions on mean-filled attributes with gap indicators, perhaps on labels too.

Two layers, dropout, weight decay, Adam; the epoch with the least loss on the validation labels is kept.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.transforms import FeaturePropagation

from gspn.experiments.vertices.methods import Probabilities, VertexTask

_EPOCHS, _PATIENCE, _HIDDEN = 200, 50, 64
_DROPOUT, _RATE, _DECAY = 0.5, 0.01, 5e-4

_LAYERS: Mapping[str, Callable[[int, int], nn.Module]] = {
    "GCN": GCNConv,
    "GraphSAGE": SAGEConv,
    "GAT": lambda inputs, outputs: GATConv(inputs, outputs, heads=4, concat=False),
}


def network(
    task: VertexTask, seed: int, *, layer: str, labels: bool = False, propagated: bool = False
) -> Probabilities:
    """With `labels`, half of the training labels are inputs in every step and the others are predicted; in the end all.

    With `propagated`, gaps are filled by feature propagation instead of by means.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _trained(task, layer, labels and not task.new_graphs, propagated)


def _trained(task: VertexTask, layer: str, labels: bool, propagated: bool) -> Probabilities:
    inputs = _inputs(task, propagated)
    y, shown = task.labels.nan_to_num(0.0).long(), torch.zeros(len(task.labels), task.classes)
    first = _LAYERS[layer](inputs.shape[1] + (task.classes if labels else 0), _HIDDEN)
    second = _LAYERS[layer](_HIDDEN, task.classes)
    module = nn.ModuleList([first, second])
    optimizer = torch.optim.Adam(module.parameters(), lr=_RATE, weight_decay=_DECAY)

    def outputs(visible: Tensor) -> Tensor:
        x = inputs
        if labels:
            seen = shown.clone()
            seen[visible, y[visible]] = 1.0
            x = torch.cat([x, seen], dim=1)
        x = nn.functional.dropout(x, _DROPOUT, module.training)
        x = nn.functional.dropout(torch.relu(first(x, task.edges)), _DROPOUT, module.training)
        found: Tensor = second(x, task.edges)
        return found

    best, least, since = copy.deepcopy(module.state_dict()), float("inf"), 0
    for _ in range(_EPOCHS):
        module.train()
        visible = task.train & (torch.rand(len(y)) < 0.5) if labels else task.train
        asked = task.train & ~visible if labels else task.train
        optimizer.zero_grad()
        if asked.any():
            nn.functional.cross_entropy(outputs(visible)[asked], y[asked]).backward()
            optimizer.step()
        module.eval()
        with torch.no_grad():
            judged = nn.functional.cross_entropy(outputs(task.train)[task.validation], y[task.validation])
        since += 1
        if float(judged) < least:
            best, least, since = copy.deepcopy(module.state_dict()), float(judged), 0
        if since > _PATIENCE:
            break
    module.load_state_dict(best)
    module.eval()
    with torch.no_grad():
        return np.asarray(torch.softmax(outputs(task.train), dim=1).double().numpy())


def _inputs(task: VertexTask, propagated: bool) -> Tensor:
    filled, gaps = task.columns
    if not propagated:
        return torch.cat([filled, gaps], dim=1)
    widths = torch.tensor([len(getattr(one, "categories", ())) or 1 for one in task.dataset.schema])
    missing = task.dataset.entries().isnan().repeat_interleave(widths, dim=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse", UserWarning)
        found: Tensor = FeaturePropagation(missing)(Data(x=filled, edge_index=task.edges)).x
    return found


NETWORKS: Mapping[str, Callable[..., Probabilities]] = {
    "GCN": partial(network, layer="GCN"),
    "GraphSAGE": partial(network, layer="GraphSAGE"),
    "GAT": partial(network, layer="GAT"),
    "GCN with labels": partial(network, layer="GCN", labels=True),
    "GCN after propagation": partial(network, layer="GCN", propagated=True),
}
