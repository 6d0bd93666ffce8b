"""The contract of a kernel: the loop over all levels, from evidence to posteriors.

A kernel is given a `Climb`, which holds everything that the loop needs, and gives `Levels`. The reference supports
every climb; others say what they do not support, and agree with it in values and gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from torch import Tensor

from gspn.circuits.evidence import Context, Evidence
from gspn.circuits.leaves import Leaves, Natural
from gspn.circuits.templates import Template
from gspn.graphs.batch import Batch

LONG_SUM = 1024
"""In-degree beyond which float32 sums of posteriors would lose digits: a sum of a million terms of 0.05 stalls."""


@dataclass(frozen=True, eq=False)
class Received:
    """What the vertices make of the messages that reach them."""

    prior: Tensor
    """[N, S, C] mixing weights, which sum to 1 over the states"""
    context: Context | None = None
    """Aggregated expectations, where they were sent"""
    log_prior: Tensor | None = None
    """[N, S, C] the logarithm of the prior, where an aggregation has it to more digits"""


class Expectations(NamedTuple):
    """Expectations of vertices' own entries, which they send."""

    mean: Tensor
    """[N, D]"""
    covariance: Tensor | None = None
    """[N, D, D] how uncertain it is, where that matters"""


Aggregate: TypeAlias = Callable[[int, Tensor | None, Expectations | None], Received]
"""(level, posteriors [N, S, C] and what is told, or None, of the level below) → what the vertices receive.

At level 0, below which nothing is: the prior of level 0.
"""


class Climb(NamedTuple):
    """A way from level 0 to the root: a hierarchy's parameters, on a batch, given evidence."""

    template: Template
    families: Sequence[Leaves]
    naturals: Sequence[Natural]
    """Of every scope, all L levels"""
    evidence: Evidence
    """[N, d]"""
    prior: Tensor
    """[S, C] of level 0 and of vertices without incoming edges"""
    transitions: Tensor
    """[L-1, T, S, C, C] row-stochastic maps"""
    batch: Batch
    aggregation: str
    """The name of what aggregates messages"""
    aggregate: Aggregate
    alone: Tensor | None = None
    """[N] True where level 0 answers for a vertex, which receives nothing; None: nowhere"""
    uncertain: bool = False
    """Whether it matters how uncertain the context is"""

    @property
    def num_levels(self) -> int:
        return len(self.transitions) + 1

    @property
    def has_context(self) -> bool:
        # A list: this is asked in every pass, and a generator takes thrice as long.
        return sum([family.context_width for family in self.families]) > 0


@dataclass(frozen=True, eq=False)
class Levels:
    """What the loop over levels gives, for K rows, L levels, S sum units and C states.

    A row is a vertex, or several alike.
    """

    posteriors: Tensor
    """[K, L, S, C]"""
    root_prior: Tensor
    """[K, S, C]"""
    log_value: Tensor
    """[K] log-probability of the evidence at the root"""
    row_of: Tensor | None = None
    """[N] row of each vertex; None: one row per vertex, in order"""
    graph_sums: Tensor | None = None
    """[G, L, S, C] posteriors summed over each graph's vertices, where a kernel has them for nothing."""
    root_log_prior: Tensor | None = None
    """[K, S, C] where a kernel has it to more digits than the logarithm of `root_prior`"""
    root_context: Context | None = None
    """What the roots have received, where leaves depend on it"""

    def at_vertices(self, of_rows: Tensor) -> Tensor:
        """What is known of every row, for every vertex."""
        return of_rows if self.row_of is None else of_rows.index_select(0, self.row_of)


@dataclass(frozen=True)
class Kernel:
    """A loop over levels under a name."""

    name: str
    climb: Callable[[Climb], Levels]
    """Differentiable in the natural parameters, the prior and the transitions."""
    obstacle: Callable[[Climb], str | None]
    """Why it cannot do a climb, as the end of a sentence that begins with "the kernel"; None if it can."""
