"""A training step, and a forward pass, on real batches of 32 graphs: GSPN against PyG's GIN of equal size.

Both have as many levels and sum pooling, both train with the same Adam. The floor is what no implementation of the
step can avoid that computes every vertex: to touch inputs, posteriors and their gradients once each, to multiply by the
transitions, to take exponentials of the densities of distinct evidence; each at the rate at which torch does such work
in this very run. (Ours computes vertices with equal trees once, so it may come near, or below.)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GIN, global_add_pool

from gspn import Categorical, SupervisedGSPN, datasets
from gspn.benchmarks.measure import medians
from gspn.errors import InputError
from gspn.graphs import Batch, GraphDataset
from gspn.kernels.compiled.distinct import distinct_rows

NAMES = ("NCI1", "REDDIT-BINARY", "REDDIT-MULTI-5K", "COLLAB")
THREADS = 2
BATCH = 32
BATCHES = 8
REPETITIONS = 40


@dataclass(frozen=True)
class ModelSizes:
    """Of our model. GIN has a layer a level and as many parameters."""

    num_layers: int = 10
    num_states: int = 20
    num_graph_states: int = 128


USUAL = ModelSizes()


def run() -> list[dict[str, Any]]:
    """One row per dataset: milliseconds of both, their ratios, the floor and the step's distance from it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        measured = rates()
        return [compare(name, datasets.load(name), measured) for name in NAMES]
    finally:
        torch.set_num_threads(threads)


class OurModel(nn.Module):
    def __init__(self, dataset: GraphDataset, target: Categorical, sizes: ModelSizes) -> None:
        super().__init__()
        self.model = SupervisedGSPN(dataset.schema, target, **asdict(sizes))
        self.model.fit(dataset[:: max(1, len(dataset) // 200)], epochs=0, progress=False)

    def forward(self, batch: Batch) -> Tensor:
        log_prob: Tensor = self.model.network(batch).log_prob
        return -log_prob.mean()


class TheirModel(nn.Module):
    def __init__(self, inputs: int, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.gin = GIN(inputs, width, layers, norm="batch_norm", jk="cat")
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor, edge_index: Tensor, graph: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.head(global_add_pool(self.gin(x, edge_index), graph, len(y))), y)


def compare(name: str, dataset: GraphDataset, rates: dict[str, float], sizes: ModelSizes = USUAL) -> dict[str, Any]:
    """The row of one dataset, with the floor at these rates."""
    torch.manual_seed(0)
    if len(dataset.schema) != 1 or not isinstance(dataset.target, Categorical):
        raise InputError(f"{name}: steps are compared on graphs with one attribute and with classes")
    (attribute,) = dataset.schema
    target, classes = dataset.target, len(dataset.target.categories)
    generator = torch.Generator().manual_seed(0)
    draws = [torch.randperm(len(dataset), generator=generator)[:BATCH] for _ in range(BATCHES)]
    batches = [dataset.batch(draw) for draw in draws]
    categories = len(attribute.categories) if isinstance(attribute, Categorical) else 0
    ours = OurModel(dataset, target, sizes)
    theirs = gin_of_equal_size(size(ours), max(categories, 1), sizes.num_layers, classes)
    # What each takes as input is ready beforehand; only computing is timed.
    our_inputs = [(batch,) for batch in batches]
    their_inputs = [_for_pyg(batch, categories) for batch in batches]
    found = medians(
        {
            "our step": _step(ours, our_inputs),
            "their step": _step(theirs, their_inputs),
            "our forward": _forward(ours, our_inputs),
            "their forward": _forward(theirs, their_inputs),
        },
        REPETITIONS,
        warm_up=BATCHES,
    )
    amounts = [_least(batch, sizes) for batch in batches]
    least = {what: sum(amount[what] for amount in amounts) / len(amounts) for what in rates}
    floor = sum(least[what] / rates[what] for what in rates)
    return {
        "dataset": name,
        "GSPN step ms": 1e3 * found["our step"],
        "GIN step ms": 1e3 * found["their step"],
        "step ratio": found["our step"] / found["their step"],
        "GSPN forward ms": 1e3 * found["our forward"],
        "GIN forward ms": 1e3 * found["their forward"],
        "forward ratio": found["our forward"] / found["their forward"],
        "least MB": least["bytes"] / 1e6,
        "transition MFLOP": least["flops"] / 1e6,
        "exponentials": least["exponentials"],
        "floor ms": 1e3 * floor,
        "times the floor": found["our step"] / floor,
        "GSPN parameters": size(ours),
        "GIN parameters": size(theirs),
        "threads": torch.get_num_threads(),
    }


def _step(model: nn.Module, inputs: list[Any]) -> Callable[[], object]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    turns = cycle(inputs)

    def step() -> None:
        optimizer.zero_grad()
        model(*next(turns)).backward()
        optimizer.step()

    return step


def _forward(model: nn.Module, inputs: list[Any]) -> Callable[[], object]:
    """In training mode, with everything recorded that a backward pass would need."""
    turns = cycle(inputs)
    return lambda: model(*next(turns))


def size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def gin_of_equal_size(wanted: int, inputs: int, layers: int, classes: int) -> TheirModel:
    def made(width: int) -> TheirModel:
        return TheirModel(inputs, width, layers, classes)

    above = 2 + bisect_left(range(2, 1024), wanted, key=lambda width: size(made(width)))
    best = min((made(above - 1), made(above)), key=lambda model: abs(size(model) - wanted))
    if abs(size(best) - wanted) > 0.05 * wanted:
        raise InputError(f"no GIN with {layers} layers has {wanted:,} parameters within 5 %")
    return best


def _targets(batch: Batch) -> Tensor:
    if batch.y is None:
        raise ValueError("the graphs have no targets")
    return batch.y.flatten().long()


def _for_pyg(batch: Batch, categories: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features, edges, graph numbers and targets: one-hot labels, or the degree as it is."""
    x = F.one_hot(batch.x[:, 0].long(), categories).float() if categories else batch.x.float()
    graph = torch.repeat_interleave(torch.arange(batch.num_graphs), batch.vertex_ptr.diff())
    return x, torch.stack([batch.source, batch.target]).long(), graph, _targets(batch)


def rates() -> dict[str, float]:
    """Bytes, floating-point operations and exponentials a second, in float32."""
    many, square = torch.rand(8_000_000), torch.rand(768, 768)
    into, product = torch.empty_like(many), torch.empty_like(square)
    found = medians(
        {
            "bytes": lambda: into.copy_(many),
            "flops": lambda: torch.mm(square, square, out=product),
            "exponentials": lambda: torch.exp(many[:1_000_000], out=into[:1_000_000]),
        },
        20,
    )
    amounts = {"bytes": 2 * 4 * len(many), "flops": 2 * len(square) ** 3, "exponentials": 1_000_000}
    return {name: amounts[name] / found[name] for name in amounts}


def _least(batch: Batch, sizes: ModelSizes) -> dict[str, float]:
    """What the step on a batch takes at least; the names are those of `rates`."""
    levels, states = sizes.num_layers, sizes.num_states
    entries = batch.num_vertices * levels * states
    inputs = sum(value.numel() * value.element_size() for value in (batch.x, batch.source, batch.row_ptr))
    # Forward, gradient of the inputs, gradient of the transitions: one multiplication and one addition each.
    flops = 3 * 2 * batch.num_vertices * (levels - 1) * states**2
    exponentials = len(distinct_rows(batch.visible)[0]) * levels * states
    return {"bytes": inputs + 2 * 4 * entries, "flops": flops, "exponentials": exponentials}
