"""The degree as an attribute: for models that average over neighbours and so cannot count them."""

from __future__ import annotations

from dataclasses import replace

import torch

from gspn.attributes import Categorical, Schema
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset

DEGREE = "incoming_edges"
"""What the attribute is called."""

_LEAST = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 17, 22, 30, 40, 55, 75, 100, 150, 250, 500, 1_000)

ATTRIBUTE = Categorical(DEGREE, [*map(str, _LEAST[:8]), *(f"{least} or more" for least in _LEAST[8:])])
"""The same for all data: small numbers as they are, large ones in ever wider ranges."""


def with_degree(dataset: GraphDataset) -> GraphDataset:
    """The same graphs, whose vertices have one more attribute: how many edges arrive."""
    places = torch.searchsorted(torch.tensor(_LEAST), dataset.row_ptr.diff(), right=True) - 1
    x = torch.cat([dataset.x, places.to(dataset.x.dtype)[:, None]], dim=1)
    return replace(dataset, x=x, schema=schema_with_degree(dataset.schema))


def schema_with_degree(schema: Schema) -> Schema:
    if DEGREE in schema.names:
        raise InputError(f"there is an attribute '{DEGREE}' already")
    return Schema([*schema, ATTRIBUTE])
