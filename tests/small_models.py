"""Small models with random parameters, for tests that ask rather than train."""

from __future__ import annotations

from typing import Any

import torch
from small_graphs import EVERY_KIND
from torch import Tensor

from gspn import GSPN, Schema
from gspn.circuits import Leaf, Product, Sum, Unit, random_circuit
from gspn.graphs.batch import Batch

TEMPLATES = ("naive Bayes", "hand-made", "random")


def small_model(**settings: Any) -> GSPN:
    return GSPN(EVERY_KIND, **{"num_layers": 2, "num_states": 2, "epochs": 1} | settings)


def hand_made(schema: Schema, num_states: int) -> Unit:
    """A circuit with inner sums, one of them shared, for two attributes or more."""
    first, *rest = schema.names

    def mixture() -> Unit:
        parts = [[Leaf(name) for name in rest] for _ in range(num_states)]
        return Sum(*(part[0] if len(part) == 1 else Product(*part) for part in parts))

    shared = mixture()
    return Sum(*(Product(Leaf(first), shared if k < 2 else mixture()) for k in range(num_states)))


def template(name: str, schema: Schema, num_states: int, seed: int = 0) -> Unit | None:
    if name == "naive Bayes":
        return None
    if name == "hand-made":
        return hand_made(schema, num_states)
    return random_circuit(schema, num_states, depth=2, repetitions=2, seed=seed)


def random_model(schema: Schema, seed: int = 0, *, spread: float = 3.0, **arguments: Any) -> GSPN:
    """A model in float64 that counts as fitted: raw parameters from the normal distribution, units 2.5 ± `spread`."""
    model = GSPN(schema, **{"num_layers": 3, "num_states": 3} | arguments).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    parameters = model.get_parameters()
    parameters["units"] = {name: torch.tensor([2.5, spread]) for name in parameters["units"]}
    return model.set_parameters(parameters)


def values_and_gradients(model: GSPN, batch: Batch) -> list[Tensor]:
    """Log-likelihoods, and the gradients of a loss that depends on posteriors too."""
    evaluation = model(batch)
    loss = evaluation.log_likelihood.sum() + evaluation.posteriors[..., 0].square().sum()
    return [evaluation.log_likelihood.detach(), *torch.autograd.grad(loss, list(model.parameters()))]
