"""How a regression of the label's leaf that looks through messages is learned: by Adam, epoch after epoch.

Every epoch takes one of several copies of the training graphs, which differ in which labels are hidden. The number of
epochs is the strength that held-out labels choose; what so many teach is the same, asked for at once or in parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from gspn.circuits.evidence import Context
from gspn.hierarchy.label_messages import MessageInputs
from gspn.hierarchy.label_readout import LabelRegression, log_prior_of_leaves, log_prob_of
from gspn.random_streams import keyed_uniform

_RATE, _DECAY = 0.01, 5e-4
_MESSAGES = 14
"""Names a stream of random numbers."""


class MessageLearning:
    """A regression on its way, learned from rows of several copies of the same graphs."""

    def __init__(
        self,
        part: LabelRegression,
        dropout: float,
        copies: Sequence[MessageInputs],
        rows: Tensor,
        y: Tensor,
        weights: Tensor,
        seed: int,
    ) -> None:
        """Begin: parameters at random. `y` [n, T] and `weights` [n] are those of the `rows` [n]; single precision."""
        assert part.messages is not None
        self.part, self.dropout, self.rows, self.y = part, dropout, rows, y
        self.copies = copies
        self.weights = (weights / weights.sum()).float()
        self.seed = int(keyed_uniform(seed, _MESSAGES, torch.zeros(1, dtype=torch.long))[0] * 2**31)
        self.epochs = 0
        part.float()
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(self.seed)
            for family, column in zip(part.families, y.split(1, dim=1), strict=True):
                family.start([column[~column[:, 0].isnan()]], torch.default_generator)
            for name, parameter in part.messages.named_parameters():
                nn.init.zeros_(parameter) if name.endswith("bias") else nn.init.xavier_uniform_(parameter)
            for leaves in part.families:
                for name, parameter in leaves.named_parameters():
                    if name.endswith("raw_slope"):
                        nn.init.xavier_uniform_(parameter.view(-1, parameter.shape[-1]))
        self.optimizer = torch.optim.Adam(part.messages.parameters(), lr=_RATE, weight_decay=_DECAY)
        self.optimizer.add_param_group({"params": list(part.leaves.parameters()), "weight_decay": 0.0})

    def until(self, epochs: float) -> None:
        """Learn on until so many epochs are done in all."""
        messages, part = self.part.messages, self.part.float()
        assert messages is not None
        with torch.enable_grad():
            for epoch in range(self.epochs, int(epochs)):
                drop = partial(dropped, self.dropout, np.random.Generator(np.random.SFC64([self.seed, epoch])))
                seen = messages(self.copies[epoch % len(self.copies)], drop)[self.rows]
                log_prob = log_prob_of(part.families, context_of(seen), self.y)
                prior = log_prior_of_leaves(part.families, 1.0)
                self.optimizer.zero_grad()
                (-(self.weights * log_prob).sum() - _DECAY * prior).backward()
                self.optimizer.step()
        self.epochs = max(self.epochs, int(epochs))
        part.double()
        part.strength.fill_(self.epochs)
        for parameter in part.parameters():
            parameter.grad = None


def dropped(share: float, rng: np.random.Generator, values: Tensor) -> Tensor:
    """Dropout of a share of the values, in 256 parts; torch's own takes half of the time where there are many."""
    parts = round(256 * share)
    kept = np.frombuffer(rng.bytes(values.numel()), dtype=np.uint8) >= parts
    return values * torch.from_numpy(kept).view(values.shape) * (256 / (256 - parts))


def context_of(seen: Tensor) -> Context:
    """What is made of messages [n, ·] as the context of leaves."""
    return Context(seen, torch.ones(len(seen), dtype=torch.bool, device=seen.device))
