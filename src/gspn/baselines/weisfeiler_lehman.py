"""The control that sees neighbourhoods exactly: Weisfeiler-Lehman subtrees, then a linear or kernel machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gspn.arguments import check_integer
from gspn.attributes import Schema
from gspn.baselines.on_rows import OnRows
from gspn.baselines.subtrees import Counts, Subtrees
from gspn.graphs import GraphDataset
from gspn.targets import Target

_LENGTH = 10.0
"""Of every row, so that the machines' usual penalties fit: similarities of graphs are cosines times its square."""


@dataclass(eq=False, repr=False)
class WeisfeilerLehman(OnRows):
    """Exact counts of all subtrees up to some height, rows of equal length; the similarity of two graphs is a cosine.

    Parameters
    ----------
    rounds:
        Height of the subtrees; 0 counts vertices alone.
    heads:
        "linear support vectors" (the machine on the subtree kernel), or "linear" (logistic or ridge regression).
    monitor, refit, judged_by:
        As for `PooledAttributes`.
    """

    schema: Schema
    target: Target
    rounds: int = 4
    heads: str = "linear support vectors"
    monitor: str = "loss"
    refit: bool = False
    judged_by: str = "validation"
    seed: int = 0

    def _learn_rows(self, dataset: GraphDataset) -> Any:
        check_integer("rounds", self.rounds, 0)
        self.subtrees_ = Subtrees.of(self.schema, dataset.entries(), self.rounds)
        counts = self.subtrees_.count(dataset)
        self.vocabulary_ = counts.vocabulary()
        return self._scaled(counts)

    def _rows(self, dataset: GraphDataset) -> Any:
        return self._scaled(self.subtrees_.count(dataset))

    def _scaled(self, counts: Counts) -> Any:
        """Sparse [G, V]; what the training graphs do not have counts for the length alone."""
        from scipy.sparse import diags_array

        factors = _LENGTH / np.maximum(counts.lengths(), 1.0)
        return (diags_array(factors) @ counts.matrix(self.vocabulary_)).tocsr()
