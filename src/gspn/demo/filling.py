"""Part one: hidden entries filled by chosen models, by a mixture without edges, and by the commonest value or mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from gspn.attributes import Continuous, Schema
from gspn.baselines import Mixture
from gspn.graphs import GraphDataset
from gspn.models.gspn import GSPN
from gspn.models.stack import Stack
from gspn.plots.calibration import coverage

CHARGE, ELEMENT = "partial_charge", "element"
LEVEL = 0.9
_STATES, _STEPS_OF_EM = 20, 25
"""Of the mixture"""


@dataclass(frozen=True, eq=False)
class Answer:
    """What one model made of the hidden entries."""

    right: float
    """share of hidden categories and counts that were filled with the true value"""
    charge_error: float
    """mean absolute error of hidden partial charges, in elementary charges"""
    nats: float
    """mean −log-likelihood of a hidden entry given what is seen; lower is better"""
    covered: float
    """share of hidden partial charges inside their 90 % intervals"""


@dataclass(frozen=True, eq=False)
class Filling:
    """All answers, and the distributions behind the GSPN's for the pictures."""

    entries: int
    answers: dict[str, Answer]
    charges: tuple[Any, Tensor]
    """distributions of hidden partial charges, and the truths"""
    elements: tuple[Any, Tensor]


def fill(model: Stack, training: GraphDataset, complete: GraphDataset, seen: GraphDataset, seed: int) -> Filling:
    """Compare on molecules that no model was trained on; `seen` has gaps where `complete` has values."""
    schema = complete.schema
    truth = complete.entries()
    hidden = seen.entries().isnan() & ~truth.isnan()
    # One state makes all attributes independent: its modes and means are those of the columns. Mixtures learn in
    # float64; for questions float32 will do, and what the GSPN has compiled for itself need not be compiled again.
    commonest = Mixture(schema, num_states=1, seed=seed).fit(training).model_.float()
    mixture = Mixture(schema, num_states=_STATES, epochs=_STEPS_OF_EM, seed=seed).fit(training).model_.float()
    models: dict[str, GSPN | Stack] = {
        "commonest value, mean": commonest,
        "mixture without edges": mixture,
        "GSPN": model,
    }
    graph = as_one_graph(seen)
    return Filling(
        int(hidden.sum()),
        {name: _answer(each, schema, seen, complete, graph, hidden) for name, each in models.items()},
        _asked(model, graph, schema, CHARGE, truth, hidden),
        _asked(model, graph, schema, ELEMENT, truth, hidden),
    )


def as_one_graph(dataset: GraphDataset) -> Data:
    """All graphs as the parts of one, so that one question reaches them all."""
    joined = Batch.from_data_list(list(dataset))
    return Data(x=joined.x, edge_index=joined.edge_index, edge_type=joined.edge_type)


def _answer(
    model: GSPN | Stack, schema: Schema, seen: GraphDataset, complete: GraphDataset, graph: Data, hidden: Tensor
) -> Answer:
    truth = complete.entries()
    filled = torch.cat([one.x for one in model.impute(seen)]).double()
    discrete = torch.tensor([not isinstance(attribute, Continuous) for attribute in schema])
    asked = hidden & discrete
    charges, true_charges = _asked(model, graph, schema, CHARGE, truth, hidden)
    log_prob = torch.cat(model.log_prob_missing(seen, list(complete))).double()
    return Answer(
        right=float((filled == truth)[asked].double().mean()),
        charge_error=float((charges.mean - true_charges).abs().mean()),
        nats=-float(log_prob.sum()) / int(hidden.sum()),
        covered=float(coverage(charges, true_charges, [LEVEL])[0]),
    )


def _asked(
    model: GSPN | Stack, graph: Data, schema: Schema, name: str, truth: Tensor, hidden: Tensor
) -> tuple[Any, Tensor]:
    """Distributions of the hidden entries of an attribute, and what is true."""
    column = schema.index(name)
    vertices = hidden[:, column].nonzero().squeeze(1)
    return model.conditional(graph, name, vertices), truth[vertices, column]
