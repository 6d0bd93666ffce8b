"""A hierarchy's levels over ranges of vertices of a stored graph: what a level computes and how much memory it takes.

Which ranges, in which order, and where the rows are kept is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.circuits.evidence import Evidence
from gspn.circuits.leaves import Natural, at_level
from gspn.circuits.numerics import log_weight
from gspn.circuits.structure import Leaf, walk
from gspn.circuits.templates import inputs_of, silent
from gspn.errors import InputError
from gspn.graphs.stored import StoredGraph
from gspn.hierarchy.aggregation import mixed_prior
from gspn.hierarchy.hierarchy import Hierarchy
from gspn.kernels.compiled import layout
from gspn.kernels.compiled.distinct import distinct_rows
from gspn.kernels.compiled.ranges import Range, means_of_range, posteriors_of_range
from gspn.kernels.compiled.simd import WIDTH
from gspn.kernels.compiled.threads import team
from gspn.kernels.reference import relative
from gspn.kernels.registry import compiles

Array: TypeAlias = NDArray[Any]

Climb: TypeAlias = Callable[[int, int, Tensor], tuple[Array, Tensor | None]]
"""(first vertex, last vertex + 1, entries [n, d]) → posteriors [n, wide], and at the root log-likelihoods [n]."""


def check_supported(hierarchy: Hierarchy) -> None:
    """Raise unless levels over ranges compute what this hierarchy does."""
    if hierarchy.aggregation_name != "mean":
        raise InputError(
            f"stored graphs are computed with the aggregation 'mean'; this model has '{hierarchy.aggregation_name}'"
        )
    for family in hierarchy.families:
        if family.context_width:
            raise InputError(f"stored graphs support no leaves with a context; those of {family.named()} have one")


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
    densities = size * (2 * sum(leaves) + 2 * max(leaves))
    densities += max(family.bytes_per_vertex() for family in hierarchy.families)
    rows = size * row_width(hierarchy) * (2 + hierarchy.num_edge_types)
    inner = 0
    if not _is_compiled(hierarchy):
        units = list(walk(template.structure))
        children = sum(len(unit.children) for unit in units if not isinstance(unit, Leaf))
        inner = size * (6 * len(units) + 8 * children + 8 * template.num_sum_units * hierarchy.num_states)
    return entries + densities + rows + inner


@dataclass(frozen=True, eq=False)
class _Level:
    """A level of a hierarchy on a stored graph."""

    hierarchy: Hierarchy
    number: int
    natural: list[Natural]
    graph: StoredGraph
    below: Array
    """[N · wide] rows of the level below; empty for level 0"""

    @property
    def is_root(self) -> bool:
        return self.number == self.hierarchy.num_layers - 1

    def inputs(self, x: Tensor) -> Tensor:
        """[n, K] of the template, from entries x [n, d]."""
        return inputs_of(self.hierarchy.template, self.hierarchy.families, self.natural, Evidence(x))[0]

    def scored(self, log_value: Tensor, x: Tensor) -> Tensor:
        """Log-values, exactly 0 where entries x [n, d] are not informative."""
        return log_value.masked_fill(silent(self.hierarchy.families, Evidence(x)), 0.0)

    def vertices(self, first: int, last: int) -> Range:
        graph, kinds = self.graph, self.hierarchy.num_edge_types
        kind = graph.edge_type if kinds > 1 and graph.edge_type is not None else np.empty(0, np.int32)
        row_ptr = graph.row_ptr[first : last + 1]
        return Range(row_ptr, graph.source, kind, self.below, row_width(self.hierarchy), kinds)


def level_over_ranges(hierarchy: Hierarchy, level: int, graph: StoredGraph, below: Array) -> Climb:
    """What computes a level for any range, `below` [N, wide] being the rows of the level below (none for level 0)."""
    natural = [at_level(natural, level) for natural in hierarchy.naturals()]
    compute = _compiled if _is_compiled(hierarchy) else _plain
    return partial(compute, _Level(hierarchy, level, natural, graph, below.reshape(-1)))


def _is_compiled(hierarchy: Hierarchy) -> bool:
    return compiles(hierarchy.template, hierarchy.raw_prior)


def _compiled(level: _Level, first: int, last: int, x: Tensor) -> tuple[Array, Tensor | None]:
    hierarchy, number = level.hierarchy, level.number
    states, wide = hierarchy.num_states, row_width(hierarchy)
    distinct, evidence = distinct_rows(x)
    row_of = np.arange(last - first, dtype=np.int32) if evidence is None else evidence.numpy()
    log_density = level.inputs(distinct).contiguous()
    new = log_density.new_empty
    rows, log_value = new((last - first, wide)), new(last - first if level.is_root else 0)
    logs = log_density.view(-1).numpy()
    density, peak = layout.tabulate(team(), states, wide, logs)
    learned = _padded(hierarchy.prior(), wide), _padded(hierarchy.transitions()[max(0, number - 1) : number], wide)
    results = rows.view(-1).numpy(), log_value.numpy()
    posteriors_of_range(team(), level.vertices(first, last), row_of, logs, density, peak, *learned, *results)
    return rows.numpy(), level.scored(log_value, x) if level.is_root else None


def _plain(level: _Level, first: int, last: int, x: Tensor) -> tuple[Array, Tensor | None]:
    """For any template, in plain torch but for the means over neighbours, which would need a row for every edge."""
    hierarchy = level.hierarchy
    template, vertices, wide = hierarchy.template, last - first, row_width(hierarchy)
    start = hierarchy.prior()
    sums, states = start.shape
    prior = start.expand(vertices, sums, states)
    if level.number:
        kinds = hierarchy.num_edge_types
        means = start.new_empty(vertices * kinds * wide)
        neighbours = level.vertices(first, last)
        means_of_range(team(), neighbours, means.numpy())
        means = means.view(vertices, kinds, wide)[..., : sums * states].unflatten(-1, (sums, states))
        alone = torch.from_numpy(np.diff(neighbours.row_ptr) == 0)
        prior = mixed_prior(means, hierarchy.transitions()[level.number - 1], prior, alone)
    inputs, peak = relative(template, level.inputs(x))
    log_prior = log_weight(prior)
    rows = start.new_zeros(vertices, wide)
    rows[:, : sums * states] = template.posterior(inputs, log_prior).flatten(1)
    if not level.is_root:
        return rows.numpy(), None
    log_value = template.log_value(inputs, log_prior)
    return rows.numpy(), level.scored(log_value if peak is None else log_value + peak.squeeze(1), x)


def _padded(value: Tensor, wide: int) -> Array:
    """Rows of states as one flat array, each filled up with zeros."""
    padded: Array = layout.pad(value.detach().contiguous().view(-1).numpy(), value.shape[-1], wide, False)
    return padded
