"""What models refuse before any work: arguments that make no model, graphs that do not fit it.

Messages name the argument, or the graph, vertex or edge. What labels must be is in `labels`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from gspn.arguments import check_choice, check_integer, check_real
from gspn.attributes import Binary, Categorical, Schema
from gspn.circuits.leaves import Leaves, gaps
from gspn.circuits.leaves.covariances import STRUCTURES
from gspn.circuits.leaves.registry import check_family, correlated_scopes, family_name, needs_context
from gspn.circuits.structure import Leaf, Unit, check_circuit, walk
from gspn.columns import is_number
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.pack import name_vertex
from gspn.graphs.stored import StoredGraph
from gspn.hierarchy import Hierarchy
from gspn.hierarchy.aggregation import aggregation_named
from gspn.hierarchy.contexts import CONTEXTS
from gspn.hierarchy.objectives import OBJECTIVES
from gspn.hierarchy.ranges import check_supported
from gspn.hierarchy.readout import POOLINGS
from gspn.targets import target_schema

TRAINING = (
    "objective",
    "mask_rate",
    "epochs",
    "batch_size",
    "lr",
    "weight_decay",
    "clip",
    "patience",
    "n_init",
    "seed",
    "prior",
    "start",
    "halve_every",
)
"""Arguments that shape the training and not the model."""


STARTS = ("clusters", "em")

MAX_DEVIATIONS = 1e6
"""How far a continuous value may lie from its column's mean, in deviations: beyond, densities would overflow."""


def check_model(given: Mapping[str, Any]) -> None:
    """All arguments of `GSPN`, by name."""
    schema, num_layers, template = given["schema"], given["num_layers"], given["template"]
    _check_structure(schema, num_layers, given["num_states"], template, given["shortcut"], given["num_edge_types"])
    covariance, context = given["covariance"], given["context"]
    _check_context(num_layers, covariance, context, given["context_variance"], given["slopes"], given["guard"])
    _check_seams(schema, template, given["aggregation"], given["leaves"], covariance, context)
    chosen_atoms(schema, given["atoms"])
    check_choice("gaps", given["gaps"], gaps.KINDS)
    check_training(given)


def check_supervised(given: Mapping[str, Any]) -> None:
    """The arguments that `SupervisedGSPN` has beside those of `GSPN`, by name."""
    target, level, head = given["target"], given["target_level"], given["head"]
    _check_readout(target, given["num_graph_states"], given["pooling"], level, head)
    _check_labels(given)
    check_supervised_training(given)


def _check_structure(
    schema: Any, num_layers: Any, num_states: Any, template: Any, shortcut: Any, num_edge_types: Any
) -> None:
    if not isinstance(schema, Schema):
        raise InputError(f"schema must be a gspn.Schema, got {type(schema).__name__}")
    check_integer("num_layers", num_layers, 1)
    check_integer("num_states", num_states, 1)
    check_integer("num_edge_types", num_edge_types, 1)
    check_choice("shortcut", shortcut, (None, "mean", "learned"))
    if shortcut is not None and num_layers == 1:
        raise InputError("shortcut needs at least two levels: with num_layers=1 the root has no level below it")
    if template is not None:
        if not isinstance(template, Unit):
            raise InputError(f"template must be None or a circuit from gspn.circuits, got {type(template).__name__}")
        check_circuit(template, schema, num_states)


def _check_context(
    num_layers: int, covariance: Any, context: Any, context_variance: Any, slopes: Any, guard: Any
) -> None:
    check_choice("covariance", covariance, tuple(STRUCTURES))
    check_choice("context", context, CONTEXTS)
    check_choice("slopes", slopes, ("tied", "free"))
    check_real("context_variance", context_variance, 0.0, 1.0)
    check_real("guard", guard, 0.0, 0.5)
    if context is not None and num_layers == 1:
        raise InputError(f"context='{context}' needs at least two levels: with num_layers=1 nothing is received")


def _check_seams(
    schema: Schema, template: Unit | None, aggregation: Any, leaves: Any, covariance: Any, context: Any
) -> None:
    """The parts of a model that go by name: its aggregation and its leaf families."""
    if not isinstance(aggregation, str):
        raise InputError(f"aggregation must be a name, got {aggregation!r}")
    aggregation_named(aggregation)
    chosen = chosen_leaves(schema, leaves)
    for names, family in chosen.items():
        check_family(family, [schema[schema.index(name)] for name in names])
    together = [name for names in chosen if len(names) > 1 for name in names]
    if template is None:
        twice = sorted({name for name in together if together.count(name) > 1 or (name,) in chosen})
        if twice:
            raise InputError(f"leaves: '{twice[0]}' has leaves with others and cannot have another family by itself")
        return
    scopes = {tuple(sorted(unit.attributes, key=schema.index)) for unit in walk(template) if isinstance(unit, Leaf)}
    for names in chosen:
        if names not in scopes:
            listed = ", ".join(map(repr, names))
            raise InputError(f"leaves: the template has no Leaf({listed}) that could have the family '{chosen[names]}'")
    chosen = correlated_scopes(schema, template, chosen, covariance, context)
    for names in sorted(scopes):
        family_name([schema[schema.index(name)] for name in names], chosen)


def chosen_leaves(schema: Schema, leaves: Any) -> dict[tuple[str, ...], str]:
    """The argument `leaves` with every key a tuple of names in the schema's order."""
    if leaves is None:
        return {}
    if not isinstance(leaves, Mapping):
        raise InputError(f"leaves must map attributes to names of leaf families, got {type(leaves).__name__}")
    chosen: dict[tuple[str, ...], str] = {}
    for key, family in leaves.items():
        names = (key,) if isinstance(key, str) else key
        if not isinstance(names, tuple) or not names or not isinstance(family, str):
            raise InputError(f"leaves must map attributes (or tuples of them) to names, got {key!r}: {family!r}")
        ordered = tuple(sorted(names, key=schema.index))
        if len(set(ordered)) < len(ordered) or ordered in chosen:
            raise InputError(f"leaves: {key!r} names an attribute twice")
        chosen[ordered] = family
    return chosen


def chosen_atoms(schema: Schema, atoms: Any) -> dict[str, tuple[float, ...]]:
    """The argument `atoms` in the schema's order, values ascending; attributes without any are left out."""
    if atoms is None:
        return {}
    if not isinstance(atoms, Mapping):
        raise InputError(f"atoms must map attributes to values, got {type(atoms).__name__}")
    for name in atoms:
        if schema[schema.index(name)].kind != "continuous":
            raise InputError(
                f"atoms: '{name}' is {schema[schema.index(name)].kind}; only continuous attributes have any"
            )
    found = {name: _atoms_of(name, atoms[name]) for name in schema.names if name in atoms}
    return {name: values for name, values in found.items() if values}


def _atoms_of(name: str, values: Any) -> tuple[float, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"atoms of '{name}' must be a list of numbers, got {values!r}")
    given = list(values)
    for value in given:
        if not is_number(value) or not math.isfinite(value):
            raise InputError(f"atoms of '{name}' must be finite numbers, got {value!r}")
    found = sorted({float(value) for value in given})
    if len(found) < len(given):
        raise InputError(f"atoms of '{name}' name a value twice: {given}")
    return tuple(found)


def check_training(settings: Mapping[str, Any]) -> None:
    check_choice("objective", settings["objective"], OBJECTIVES)
    check_real("mask_rate", settings["mask_rate"], 0.0, 1.0, low_open=True)
    check_integer("epochs", settings["epochs"], 0)
    check_integer("batch_size", settings["batch_size"], 1)
    check_real("lr", settings["lr"], 0.0, math.inf, low_open=True)
    check_real("weight_decay", settings["weight_decay"], 0.0, math.inf)
    if settings["clip"] is not None:
        check_real("clip", settings["clip"], 0.0, math.inf, low_open=True)
    check_integer("patience", settings["patience"], 1)
    check_integer("n_init", settings["n_init"], 1)
    check_real("prior", settings["prior"], 0.0, math.inf)
    check_choice("start", settings["start"], STARTS)
    if settings["halve_every"] is not None:
        check_real("halve_every", settings["halve_every"], 0.0, math.inf, low_open=True)
    check_integer("seed", settings["seed"], 0, 2**63 - 1)


def check_supervised_training(settings: Mapping[str, Any]) -> None:
    check_real("likelihood_weight", settings["likelihood_weight"], 0.0, math.inf)
    check_choice("monitor", settings["monitor"], ("loss", "score"))
    check_integer("pretraining", settings["pretraining"], 0)


def _check_readout(target: Any, num_graph_states: Any, pooling: Any, target_level: Any, head: Any) -> None:
    targets = target_schema(target)
    check_integer("num_graph_states", num_graph_states, 1)
    check_choice("pooling", pooling, POOLINGS)
    check_choice("target_level", target_level, ("graph", "vertex"))
    check_choice("head", head, ("circuit", "linear"))
    for attribute in targets:
        if head == "circuit" and needs_context(attribute.distribution):
            raise InputError(
                f"target '{attribute.name}': leaves '{attribute.distribution}' depend on a context, which targets lack"
            )
    if head == "linear":
        for attribute in targets:
            if not isinstance(attribute, Binary | Categorical):
                raise InputError(
                    f"head='linear' gives logits, for categorical and binary targets; target '{attribute.name}' is "
                    f"{attribute.kind}: use head='circuit'"
                )


_OF_TARGETS: Mapping[str, Any] = {"num_graph_states": 32, "pooling": "sum", "head": "circuit"}
"""Arguments of models whose labels are targets alone, and what they are where nobody says."""


def role_of_labels(given: Mapping[str, Any]) -> str:
    """What labels are to a model with these arguments: whoever sets those of "targets" alone means "targets"."""
    if given["labels"] is not None:
        return str(given["labels"])
    asked = given["target_level"] != "vertex" or any(given[name] != usual for name, usual in _OF_TARGETS.items())
    return "targets" if asked else "evidence"


def _check_labels(given: Mapping[str, Any]) -> None:
    labels, class_weight = given["labels"], given["class_weight"]
    check_choice("labels", labels, (None, "targets", "evidence"))
    check_integer("hidden", given["hidden"], 0)
    check_choice("class_weight", class_weight, (None, "balanced"))
    if role_of_labels(given) == "targets":
        if class_weight is not None:
            raise InputError("class_weight is for labels='evidence'")
        return
    if given["target_level"] != "vertex":
        raise InputError("labels='evidence' is for targets of vertices: target_level='vertex'")
    for name, usual in _OF_TARGETS.items():
        if given[name] != usual:
            raise InputError(
                f"{name}={given[name]!r} is for labels='targets': labels that are evidence are predicted by "
                "regressions of their own"
            )
    targets = target_schema(given["target"])
    if class_weight is not None and (len(targets) > 1 or not isinstance(targets[0], Binary | Categorical)):
        raise InputError("class_weight is for a single categorical or binary target")


def check_edge_types(dataset: GraphDataset, num_edge_types: int) -> None:
    """A model that tells edge types apart needs types, all of them below `num_edge_types`."""
    if num_edge_types == 1:
        return
    edges = dataset.num_edges_per_graph()
    if dataset.edge_type is None:
        if edges.any():
            graph = int(edges.nonzero()[0])
            raise InputError(f"graph {graph} has no edge_type, but the model tells {num_edge_types} edge types apart")
        return
    if len(dataset.edge_type) == 0 or int(dataset.edge_type.max()) < num_edge_types:
        return
    for graph, data in enumerate(dataset):
        beyond = (data.edge_type >= num_edge_types).nonzero()
        if len(beyond):
            edge = int(beyond[0])
            raise InputError(
                f"graph {graph}, edge {edge}: edge type {int(data.edge_type[edge])} is out of range, "
                f"the model has num_edge_types={num_edge_types}"
            )


def check_magnitudes(hierarchy: Hierarchy, dataset: GraphDataset) -> None:
    """Continuous values must lie within `MAX_DEVIATIONS` of the training data's mean."""
    entries = dataset.entries()

    def place(row: int) -> str:
        sizes = dataset.num_vertices_per_graph()
        return f"{name_vertex(row, torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]))}, "

    check_entries(hierarchy, entries, place)


def check_entries(hierarchy: Hierarchy, x: Tensor, place: Callable[[int], str]) -> None:
    """The same for rows x [n, d]; `place` begins the message with where a row stands."""
    for family, scope in zip(hierarchy.families, hierarchy.template.scopes, strict=True):
        check_values(family, x[:, list(scope)], lambda row, name: f"{place(row)}attribute '{name}'")


def check_values(family: Leaves, x: Tensor, place: Callable[[int, str], str], of: str = "data") -> None:
    """Values x [n, attributes] of a family; `place` begins the message with where a row's attribute stands."""
    distance = family.deviations(x)
    if distance is None or not bool((far := distance > MAX_DEVIATIONS).any()):
        return
    row, column = far.nonzero()[0].tolist()
    name = family.scope[column].name
    center, spread = family.units()[name].tolist()
    raise InputError(
        f"{place(row, name)}: {x[row, column].item():g} is more than {MAX_DEVIATIONS:g} deviations ({spread:g}) from "
        f"the mean of the training {of} ({center:g})"
    )


def check_stored(hierarchy: Hierarchy, graph: StoredGraph) -> None:
    """Do schema and edge types of a stored graph fit, and does the model; values are looked at while they are read."""
    check_supported(hierarchy)
    if graph.schema != hierarchy.schema:
        raise InputError(
            f"the graph's schema differs from the model's:\n{graph.schema}\nthe model's:\n{hierarchy.schema}"
        )
    number = hierarchy.num_edge_types
    if number == 1:
        return
    if graph.edge_type is None and graph.num_edges:
        raise InputError(f"the graph has no edge_type, but the model tells {number} edge types apart")
    largest, edge = graph.largest_type
    if largest >= number:
        raise InputError(f"edge {edge}: edge type {largest} is out of range, the model has num_edge_types={number}")
