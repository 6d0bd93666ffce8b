"""Conditionals of any entries given all else: what is asked for is kept out of the evidence, everywhere."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gspn.circuits.distributions import Distribution
from gspn.circuits.given import Joint, distribution
from gspn.graphs.batch import Batch
from gspn.queries.contract import Answering


def conditional(model: Answering, batch: Batch, vertices: Tensor, names: Sequence[str]) -> Joint:
    """P(named attributes of v | v's other observed entries, all other vertices) for each of the vertices."""
    columns = [model.schema.index(name) for name in names]
    hidden = torch.zeros(len(vertices), batch.x.shape[1], dtype=torch.bool)
    hidden[:, columns] = True
    return Joint(model.roots(batch, vertices, hidden), names)


def conditional_of_one(model: Answering, batch: Batch, vertices: Tensor, names: Sequence[str]) -> Distribution:
    """The same for a single attribute, as a univariate distribution."""
    column = model.schema.index(names[0])
    hidden = torch.zeros(len(vertices), batch.x.shape[1], dtype=torch.bool)
    hidden[:, column] = True
    return distribution(model.roots(batch, vertices, hidden), column)
