"""From packed graphs to what PyG's layers take, and the training of any network on it by the one fit loop.

What a network consists of stands in a file of its own, but for the pieces that several are made of; what its outputs
mean, in the estimator that trains it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch_geometric.nn import BatchNorm, global_add_pool, global_max_pool, global_mean_pool

from gspn.arguments import check_choice, check_integer, check_real
from gspn.baselines.features import Features
from gspn.graphs import Batch, GraphDataset
from gspn.graphs.masks import FIXED
from gspn.hierarchy.objectives import Objective
from gspn.random_streams import keyed_generator
from gspn.training import Checkpoint, Progress, Settings, Validate, exhaust, join_processes, train_by_epochs

_WEIGHTS, _NOISE = 11, 12
"""Name the streams of random numbers of starting weights, and of dropout, negative samples and permutations."""

_POOLINGS = {"sum": global_add_pool, "mean": global_mean_pool, "max": global_max_pool}


@dataclass(frozen=True, eq=False)
class Inputs:
    """Several graphs side by side, as PyG's layers take them."""

    x: Tensor
    """[N, columns] vertex features"""
    edges: Tensor
    """[2, E] sending and receiving vertex"""
    graph: Tensor
    """[N] the graph of every vertex, ascending"""
    num_graphs: int
    edge_type: Tensor | None
    """[E]"""

    @property
    def sizes(self) -> Tensor:
        """[G] number of vertices."""
        return torch.bincount(self.graph, minlength=self.num_graphs)


@dataclass(frozen=True, eq=False)
class Shape:
    """What a network must know of the training graphs before it can be built."""

    columns: int
    """Columns of the vertex features."""
    outputs: int
    sizes: Tensor
    """[G] number of vertices of the training graphs"""


class Module(nn.Module):
    """A network from `Inputs` to outputs [G, O]."""

    penalty: Tensor | float = 0.0
    """What the last forward pass adds to the mean loss."""


class Network(Protocol):
    """The settings of a network: plain, comparable data; `build` makes the network that they describe."""

    @property
    def num_edge_types(self) -> int:
        """Edge types told apart; 1 treats all edges alike."""

    def build(self, shape: Shape) -> Any: ...


def inputs_of(batch: Batch, features: Features) -> Inputs:
    graph = torch.repeat_interleave(torch.arange(batch.num_graphs), batch.vertex_ptr.diff())
    edges = torch.stack([batch.source.long(), batch.target.long()])
    return Inputs(features(batch.x), edges, graph, batch.num_graphs, batch.edge_type)


@contextmanager
def drawing(*keys: int) -> Iterator[None]:
    """torch's own random numbers, fixed by the keys inside and undisturbed outside."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(keyed_generator(*keys).initial_seed())
        yield


def build(network: Network, shape: Shape, seed: int) -> Any:
    with drawing(seed, _WEIGHTS):
        return network.build(shape)


def objective_of(module: nn.Module, loss: Callable[[Batch], tuple[Tensor, int]], seed: int) -> Objective:
    """A loss (its sum and number of terms) as the fit loop takes it.

    Dropout and the like are drawn from the seed, the epoch and the batch alone, and are still where nothing is learned.
    """

    def objective(batch: Batch, epoch: int) -> Iterator[tuple[Tensor, int]]:
        module.train(epoch != FIXED)
        with drawing(seed, _NOISE, epoch, int(batch.graph_ids[0])):
            part, terms = loss(batch)
        if terms:
            yield part, terms

    return objective


def fit_network(
    module: nn.Module,
    objective: Objective,
    training: GraphDataset,
    validate: Validate | None,
    arguments: Mapping[str, Any],
    identity: Mapping[str, Any],
    checkpoint: str | Path | None,
    progress: bool,
) -> list[dict[str, Any]]:
    """Train by the constructor's arguments; gives the history. `identity` makes a checkpoint that of this very run."""
    done = Progress()
    settings = Settings(**{name: arguments[name] for name in Settings.__dataclass_fields__ if name in arguments})
    kept = None
    if checkpoint is not None:
        own = {name: value for name, value in asdict(settings).items() if name != "epochs"}
        kept = Checkpoint.at(checkpoint, own | dict(identity) | {"training data": training.digest()})
    try:
        exhaust(
            train_by_epochs(
                module,
                objective,
                training,
                validate,
                settings,
                join_processes(),
                done,
                checkpoint=kept,
                show_progress=progress,
            )
        )
    finally:
        module.eval()
    return done.history


def check_fitting(arguments: Mapping[str, Any]) -> None:
    """The arguments that all trained networks share."""
    check_integer("epochs", arguments["epochs"], 0)
    check_integer("batch_size", arguments["batch_size"], 1)
    check_real("lr", arguments["lr"], 0.0, math.inf, low_open=True)
    check_real("weight_decay", arguments["weight_decay"], 0.0, math.inf)
    check_integer("patience", arguments["patience"], 1)
    check_integer("seed", arguments["seed"], 0, 2**63 - 1)
    for name in ("clip", "halve_every"):
        if arguments.get(name) is not None:
            check_real(name, arguments[name], 0.0, math.inf, low_open=True)
    if "monitor" in arguments:
        check_choice("monitor", arguments["monitor"], ("loss", "score"))


def perceptron(columns: int, width: int) -> nn.Sequential:
    """Two layers, each with batch normalisation and ReLU."""
    return nn.Sequential(
        nn.Linear(columns, width), normalised(width), nn.ReLU(), nn.Linear(width, width), normalised(width), nn.ReLU()
    )


def normalised(width: int) -> nn.Module:
    """Batch normalisation; a batch of a single vertex is taken as it is."""
    norm: nn.Module = BatchNorm(width, allow_single_element=True)
    return norm


def pool(rows: Tensor, inputs: Inputs, how: str) -> Tensor:
    """[G, width] from one row per vertex; 0 for a graph without vertices."""
    pooled: Tensor = _POOLINGS[how](rows, inputs.graph, inputs.num_graphs)
    return pooled
