"""The contract of a kernel: the loop over all levels of a naive Bayes hierarchy, from densities to posteriors.

There are two kernels behind it, a plain one (`reference`) and a compiled one (`fast`); they agree in values and
gradients. Templates other than naive Bayes are computed by `levels.climb`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from gspn.graphs.batch import Batch


@dataclass(frozen=True, eq=False)
class Levels:
    """What the loop over levels gives, for K rows, L levels and C states. A row is a vertex, or several alike."""

    posteriors: Tensor
    """[K, L, 1, C]"""
    root_prior: Tensor
    """[K, 1, C]"""
    log_value: Tensor
    """[K] log Σ_i prior_i · density_i at the root"""
    row_of: Tensor | None = None
    """[N] row of each vertex; None: one row a vertex, in order"""
    graph_sums: Tensor | None = None
    """[G, L, 1, C] posteriors summed over each graph's vertices, where a kernel has them for nothing."""

    def at_vertices(self, of_rows: Tensor) -> Tensor:
        """What is known of every row, for every vertex."""
        return of_rows if self.row_of is None else of_rows.index_select(0, self.row_of)


class Kernel(Protocol):
    """A kernel: any function like this. Differentiable in all floating-point arguments."""

    def __call__(
        self, log_density: Tensor, evidence: Tensor | None, prior: Tensor, transitions: Tensor, batch: Batch
    ) -> Levels:
        """Climb from level 0 to the root.

        `log_density` [L, U, C] is log p(x | state) of every distinct row of evidence, and `evidence` [N] tells which
        row each vertex has; None: one row a vertex, in order. `prior` [1, C] and `transitions` [L-1, T, 1, C, C] are
        probabilities.
        """
