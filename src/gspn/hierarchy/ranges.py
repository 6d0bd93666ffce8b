"""A hierarchy's levels over ranges of vertices of a stored graph: what a level computes and how much memory it takes.

Which ranges, in which order, and where the rows are kept is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.circuits.leaves.contract import Natural, at_level
from gspn.circuits.numerics import log_weight
from gspn.circuits.structure import Leaf, walk
from gspn.circuits.templates import NaiveBayes
from gspn.graphs.stored import StoredGraph
from gspn.hierarchy.hierarchy import Hierarchy, where_any
from gspn.kernels import layout
from gspn.kernels.choose import use_fast
from gspn.kernels.distinct import distinct_rows
from gspn.kernels.lanes import WIDTH
from gspn.kernels.ranges import means_of_range, posteriors_of_range
from gspn.kernels.threads import team

Array: TypeAlias = NDArray[Any]

Climb: TypeAlias = Callable[[int, int, Tensor], tuple[Array, Tensor | None]]
"""(first vertex, last vertex + 1, entries [n, d]) → posteriors [n, wide], and at the root log-likelihoods [n]."""


def row_width(hierarchy: Hierarchy) -> int:
    """Places of a vertex's row: the S·C posteriors of a level, filled up to a whole number of lanes."""
    states = hierarchy.template.num_sum_units * hierarchy.num_states
    return -(-states // WIDTH) * WIDTH


def bytes_per_vertex(hierarchy: Hierarchy) -> int:
    """Bytes that computing a level takes at most for each vertex of a range.

    Entries: their rows in double precision, once more while distinct ones are looked for, and the hash table.
    Densities: of all attributes until they are joined, and up to six intermediate results of one, which may be in
    double precision. Rows: densities relative to the largest, posteriors, means over neighbours for each edge type.
    A circuit's units exist upward and downward, in two copies while they grow, and so do the children that are gathered
    for them.
    """
    template, size = hierarchy.template, hierarchy.raw_prior.element_size()
    leaves, attributes = template.leaf_counts, len(hierarchy.schema)
    entries = 24 * attributes + 64
    densities = size * (2 * sum(leaves) + 2 * max(leaves)) + 6 * 8 * max(leaves)
    rows = size * row_width(hierarchy) * (2 + hierarchy.num_edge_types)
    inner = 0
    if not _is_compiled(hierarchy):
        units = list(walk(template.structure))
        children = sum(len(unit.children) for unit in units if not isinstance(unit, Leaf))
        inner = size * (6 * len(units) + 8 * children + 8 * template.num_sum_units * hierarchy.num_states)
    return entries + densities + rows + inner


def level_over_ranges(hierarchy: Hierarchy, level: int, graph: StoredGraph, below: Array) -> Climb:
    """What computes a level for any range, `below` [N, wide] being the rows of the level below (none for level 0)."""
    natural = [at_level(natural, level) for natural in hierarchy.naturals()]
    is_root = level == hierarchy.num_layers - 1
    compute = _compiled_level if _is_compiled(hierarchy) else _plain_level
    return partial(compute, hierarchy, level, natural, is_root, graph, below.reshape(-1))


def _is_compiled(hierarchy: Hierarchy) -> bool:
    return isinstance(hierarchy.template, NaiveBayes) and use_fast(hierarchy.raw_prior)


def _compiled_level(
    hierarchy: Hierarchy,
    level: int,
    natural: list[Natural],
    is_root: bool,
    graph: StoredGraph,
    below: Array,
    first: int,
    last: int,
    x: Tensor,
) -> tuple[Array, Tensor | None]:
    states, wide, kinds = hierarchy.num_states, row_width(hierarchy), hierarchy.num_edge_types
    distinct, evidence = distinct_rows(x)
    number = np.arange(last - first, dtype=np.int32) if evidence is None else evidence.numpy()
    log_density = hierarchy._inputs(natural, distinct)[0].contiguous()
    new = log_density.new_empty
    rows, log_value = new((last - first, wide)), new(last - first if is_root else 0)
    logs = log_density.view(-1).numpy()
    density, peak = layout.tabulate(team(), states, wide, logs)
    row_ptr, edges = _edges(hierarchy, graph, first, last)
    known = logs, density, peak
    learned = _padded(hierarchy.prior(), wide), _padded(hierarchy.transitions()[max(0, level - 1) : level], wide)
    results = rows.view(-1).numpy(), log_value.numpy()
    sizes = states, wide, kinds
    _share(last - first, row_ptr, posteriors_of_range, *sizes, *edges, below, number, *known, *learned, *results)
    return rows.numpy(), where_any(log_value, x) if is_root else None


def _plain_level(
    hierarchy: Hierarchy,
    level: int,
    natural: list[Natural],
    is_root: bool,
    graph: StoredGraph,
    below: Array,
    first: int,
    last: int,
    x: Tensor,
) -> tuple[Array, Tensor | None]:
    """For any template, in plain torch but for the means over neighbours, which would need a row for every edge."""
    template, vertices, wide = hierarchy.template, last - first, row_width(hierarchy)
    start = hierarchy.prior()
    sums, states = start.shape
    prior = start.expand(vertices, sums, states)
    if level:
        kinds = hierarchy.num_edge_types
        means = start.new_empty(vertices * kinds * wide)
        row_ptr, edges = _edges(hierarchy, graph, first, last)
        _share(vertices, row_ptr, means_of_range, wide, kinds, *edges, below, means.numpy())
        means = means.view(vertices, kinds, wide)[..., : sums * states].unflatten(-1, (sums, states))
        from_neighbours = torch.einsum("ntsk,tski->nsi", means, hierarchy.transitions()[level - 1])
        alone = torch.from_numpy(np.diff(row_ptr) == 0)[:, None, None]
        prior = torch.where(alone, prior, from_neighbours)
    inputs = hierarchy._inputs(natural, x)[0]
    peak = inputs.new_zeros(vertices, 1)
    if isinstance(template, NaiveBayes):  # see `kernels/reference`
        peak = inputs.amax(-1, keepdim=True)
    inputs, log_prior = inputs - peak, log_weight(prior)
    rows = start.new_zeros(vertices, wide)
    rows[:, : sums * states] = template.posterior(inputs, log_prior).flatten(1)
    if not is_root:
        return rows.numpy(), None
    return rows.numpy(), where_any(template.log_value(inputs, log_prior) + peak.squeeze(1), x)


def _edges(hierarchy: Hierarchy, graph: StoredGraph, first: int, last: int) -> tuple[Array, tuple[Array, Array, Array]]:
    """The range's row pointer, and pointer, senders and kinds as the loops want them."""
    row_ptr = graph.row_ptr[first : last + 1]
    told_apart = hierarchy.num_edge_types > 1 and graph.edge_type is not None
    kind = graph.edge_type if told_apart and graph.edge_type is not None else np.empty(0, np.int32)
    return row_ptr, (row_ptr, graph.source, kind)


def _share(size: int, row_ptr: Array, task: Callable[..., Any], *arguments: Any) -> None:
    """Run task(first, last, …) over 0 … size - 1 in as many threads as torch has; a vertex counts as four edges."""
    parts = max(1, min(torch.get_num_threads(), size // 2_000))
    work = 4 * np.arange(size + 1) + (row_ptr - row_ptr[0])
    cuts = np.searchsorted(work, work[-1] * np.arange(parts + 1) / parts).tolist()
    with ThreadPoolExecutor(parts) as pool:
        list(pool.map(lambda i: task(cuts[i], cuts[i + 1], *arguments), range(parts)))


def _padded(value: Tensor, wide: int) -> Array:
    """Rows of states as one flat array, each filled up with zeros."""
    padded: Array = layout.pad(value.detach().contiguous().view(-1).numpy(), value.shape[-1], wide, False)
    return padded
