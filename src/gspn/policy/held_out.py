"""What is held out of a dataset to judge models by: entries, for where there are no graphs to spare."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gspn.errors import InputError
from gspn.graphs import GraphDataset
from gspn.graphs.missing import withholding
from gspn.models.compatibility import MAX_DEVIATIONS
from gspn.random_streams import keyed_uniform

SHARE = 0.1
"""Of the graphs, or of the observed entries, that are held out to stop by."""

_HELD_OUT = -4
"""Names the stream of random numbers that chooses entries; masks of epochs have those from 0 on, and -1."""


class HeldOutEntries:
    """A judge by entries that training does not see, for where there are no graphs to spare, above all one graph.

    A share of the observed entries is withheld in `training`; the judge asks a model for them, and gives their loss in
    nats per entry. Without it a model of a small graph learns the graph by heart, and is far too sure of what it fills
    in.
    """

    def __init__(self, dataset: GraphDataset, seed: int, share: float = SHARE) -> None:
        mask = held_out_mask(dataset, seed, share)
        if not mask.any():
            raise InputError("no entry can be held out: there are too few, or their columns would be empty")
        self.training = withholding(dataset, mask)
        """The dataset without the held-out entries"""
        self.count = int(mask.sum())
        self._dataset, self._truth = dataset, list(dataset)

    def __call__(self, model: Any, /) -> dict[str, float]:
        log_probs = torch.cat(model.log_prob_missing(self.training, self._truth))
        return {"validation": -float(log_probs.double().sum()) / self.count}

    def digest(self) -> str:
        # What is learned from has a digest of its own; together they tell what is held out.
        return self._dataset.digest()


def held_out_mask(dataset: GraphDataset, seed: int, share: float, fold: int = 0) -> Tensor:
    """[N, d] True for a share of the observed entries, but for those that training could not do without.

    Different folds, of which there are at most 1 / share, have no entry in common.
    """
    entries, (graph, vertex) = dataset.entries(), dataset.vertex_keys()
    drawn = keyed_uniform(seed, _HELD_OUT, graph[:, None], vertex[:, None], torch.arange(entries.shape[1]))
    mask = (drawn >= fold * share) & (drawn < (fold + 1) * share) & ~entries.isnan()
    return mask & within_reach(entries.masked_fill(mask, torch.nan), entries)


def within_reach(training: Tensor, entries: Tensor) -> Tensor:
    """[N, d] whether a model of the training entries [M, d] can be asked for these: models refuse what is too far.

    False in columns of which nothing is left; such a column could not even be learned.
    """
    known = ~training.isnan()
    values, count = training.nan_to_num(0.0), known.sum(0).clamp_min(1)
    center = values.sum(0) / count
    spread = (((values - center) * known).square().sum(0) / count).sqrt()
    spread = torch.where(spread > 0, spread, 1.0)
    far = (entries.nan_to_num(0.0) - center).abs() > MAX_DEVIATIONS / 2 * spread
    return known.any(0) & ~(far & ~entries.isnan())
