"""Supervised models with random parameters, for targets of every kind, and their readout as the oracle takes it."""

from __future__ import annotations

from typing import Any

import torch
from oracle_cases import kind_of

from gspn import Binary, Categorical, Continuous, Count, Schema, SupervisedGSPN
from gspn.attributes import Attribute
from gspn.testing import oracle

CONTINUOUS, CATEGORICAL, BINARY = Continuous("energy"), Categorical("class", ["a", "b", "c"]), Binary("toxic")
COUNT, OVERDISPERSED = Count("rings"), Count("hits", distribution="negative_binomial")
TARGETS: dict[str, Attribute | Schema] = {
    "continuous": CONTINUOUS,
    "categorical": CATEGORICAL,
    "binary": BINARY,
    "count": COUNT,
    "negative binomial": OVERDISPERSED,
    "several": Schema([BINARY, CONTINUOUS, CATEGORICAL, COUNT, OVERDISPERSED]),
}


def random_supervised(schema: Schema, target: Attribute | Schema, seed: int = 0, **arguments: Any) -> SupervisedGSPN:
    """A model in float64 that counts as fitted: raw parameters from the normal distribution, units 2.5 ± 3."""
    small: dict[str, Any] = {"num_layers": 3, "num_states": 3, "num_graph_states": 4, "labels": "targets"}
    model = SupervisedGSPN(schema, target, **small | arguments).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=p.dtype))
    parameters = model.get_parameters()
    for part in (parameters, parameters["readout"]):
        if "units" in part:
            part["units"] = {name: torch.tensor([2.5, 3.0]) for name in part["units"]}
    return model.set_parameters(parameters)


def targets_of(target: Attribute | Schema) -> Schema:
    return target if isinstance(target, Schema) else Schema([target])


def oracle_readout(model: SupervisedGSPN, parameters: dict[str, Any]) -> oracle.ReadoutParameters:
    return oracle.ReadoutParameters(
        kinds={t.name: kind_of(t) for t in targets_of(model.target)},
        transitions=parameters["transitions"].numpy(),
        leaves={t: {key: rows[0].numpy() for key, rows in by.items()} for t, by in parameters["leaves"].items()},
        pooling=model.pooling,
    )
