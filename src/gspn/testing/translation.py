"""Models and graphs of the library in the oracle's form: the same parameters, circuits and edges, as plain numbers.

Nothing is computed here. What the oracle does not know (densities, expectations, aggregations) comes from the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch_geometric.data import Data

from gspn.attributes import Attribute, Schema
from gspn.circuits.structure import Leaf, Sum, Unit
from gspn.circuits.templates import NaiveBayes
from gspn.models.checks import chosen_atoms
from gspn.models.gspn import GSPN
from gspn.testing import oracle


def oracle_model(
    model: GSPN,
    *,
    densities: Mapping[oracle.Scope, oracle.Density] | None = None,
    expectations: Mapping[oracle.Scope, oracle.Expectation] | None = None,
    mix: oracle.Mix | None = None,
    weigh: oracle.Weigh | None = None,
) -> oracle.Model:
    """A model as the oracle knows it, with what it does not know by itself."""
    hierarchy, parameters = model.hierarchy, model.get_parameters()
    own = model.num_layers if model.shortcut is None else model.num_layers - 1
    units = {name: (float(pair[0]), float(pair[1])) for name, pair in parameters["units"].items()}
    return oracle.Model(
        circuit=oracle_circuit(hierarchy.template.structure, model.schema),
        kinds={attribute.name: _kind(attribute) for attribute in model.schema},
        prior=parameters["prior"].numpy(),
        transitions=parameters["transitions"].numpy(),
        leaves={scope: _leaf(by, own) for scope, by in parameters["leaves"].items()},
        shortcut=parameters["shortcut"].numpy() if "shortcut" in parameters else None,
        densities=dict(densities or {}),
        expectations=dict(expectations or {}),
        contextual=any(family.context_width for family in hierarchy.families),
        units=units,
        mix=mix,
        weigh=weigh,
        regression=_regression(model, parameters),
        atoms=chosen_atoms(model.schema, model.atoms),
    )


def oracle_graph(data: Data) -> oracle.Graph:
    """A graph as the oracle knows it; edges without types have type 0."""
    types = data.edge_type.tolist() if "edge_type" in data else [0] * data.edge_index.shape[1]
    edges = [(int(u), int(v), int(t)) for (u, v), t in zip(data.edge_index.T.tolist(), types, strict=True)]
    return oracle.Graph(data.x.double().numpy().astype(np.float64), edges)


def oracle_circuit(root: Unit, schema: Schema) -> oracle.Unit:
    """Sums and leaves numbered in the order in which the circuit is written, leaves within their scope."""
    sums: dict[int, int] = {}
    leaves: dict[Any, dict[int, int]] = {}

    def convert(unit: Unit) -> oracle.Unit:
        if isinstance(unit, Leaf):
            names = tuple(sorted(unit.attributes, key=schema.index))
            scope = names[0] if len(names) == 1 else names
            own = leaves.setdefault(scope, {})
            return ("leaf", scope, own.setdefault(id(unit), len(own)))
        if isinstance(unit, Sum):
            number = sums.setdefault(id(unit), len(sums))
            return ("sum", number, [convert(child) for child in unit.children])
        return ("product", [convert(child) for child in unit.children])

    return convert(root)


def _regression(model: GSPN, parameters: Mapping[str, Any]) -> oracle.Regression | None:
    """What a model with a context has beside its leaves."""
    hierarchy = model.hierarchy
    context = getattr(hierarchy, "context", None)
    if context is None:
        return None
    stored = parameters["context"]
    return oracle.Regression(
        mean=stored["mean"].double().numpy(),
        covariance=stored["covariance"].double().numpy(),
        edge_shares=stored["edge_shares"].double().numpy(),
        hops={"neighbours": 1, "two_hops": 2}[context],
        variance=float(getattr(hierarchy, "context_variance", 0.0)),
        across=isinstance(hierarchy.template, NaiveBayes),
    )


def _leaf(parameters: Mapping[str, Any], num_levels: int) -> dict[str, Any]:
    """The parameters of the levels that have their own; common factors and noise are a covariance like any other."""
    found = {key: value[:num_levels].numpy() for key, value in parameters.items()}
    if "loadings" in found:
        loadings, noise = found.pop("loadings"), found.pop("noise")
        found["covariance"] = loadings @ np.swapaxes(loadings, -1, -2) + noise[..., None] * np.eye(noise.shape[-1])
    return found


def _kind(attribute: Attribute) -> str:
    return attribute.distribution if attribute.distribution in ("negative_binomial", "count_table") else attribute.kind
