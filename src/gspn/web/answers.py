"""What the model says about a graph and its edits, as plain JSON values: the numbers are those of the public methods.

Nothing is computed here that `what_if`, `replacements` and `conditional` do not give, besides which edits can be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from gspn.attributes import Attribute, Binary, Categorical, Count
from gspn.convert import valences
from gspn.convert.derived import changed
from gspn.errors import InputError
from gspn.graphs import pack
from gspn.plots.structures import layer_of
from gspn.queries.scoring import is_cheap
from gspn.queries.what_if import Alternative
from gspn.web.inputs import AddEdge, Edit, RemoveEdge, SetEntry
from gspn.web.subjects import Subject

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_MOST_COUNTS = 20
UNIT = 56.0
"""Pixels of a bond in the page's drawings (`drawing.js`)."""


@dataclass
class Edits:
    """What edits come to: the last value of an entry holds, and an edge that comes and goes is none."""

    changes: dict[int, dict[str, Any]] = field(default_factory=dict)
    added: list[tuple[int, int, int]] = field(default_factory=list)
    removed: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, listed: Sequence[Edit], subject: Subject) -> Edits:
        edits = cls()
        for one in listed:
            if isinstance(one, SetEntry):
                edits.changes.setdefault(one.vertex, {})[one.attribute] = one.value
            elif isinstance(one, RemoveEdge):
                edits._remove(*one.ends)
            elif isinstance(one, AddEdge):
                edits.added.append((one.ends[0], one.ends[1], one.type))
        return edits

    def _remove(self, u: int, v: int) -> None:
        lately = [edge for edge in self.added if edge[:2] in ((u, v), (v, u))]
        if lately:
            self.added.remove(lately[-1])
        else:
            self.removed.append((u, v))

    def arguments(self, subject: Subject) -> dict[str, Any]:
        """As `what_if` takes them: types of edges only where there are any."""
        typed = "edge_type" in subject.graph or subject.model.num_edge_types > 1
        return {
            "changes": self.changes,
            "add_edges": self.added if typed else [edge[:2] for edge in self.added],
            "remove_edges": self.removed,
        }

    def applied(self, subject: Subject) -> Data:
        """The graph after the edits, and with what follows from them."""
        model = subject.model
        arguments = {**self.arguments(subject), "num_edge_types": model.num_edge_types}
        return changed(subject.graph, model.schema, **arguments)[0].graph

    def molecule(self, subject: Subject) -> Any:
        """RDKit's molecule after the edits."""
        return valences.edited(subject.molecule, self.changes, self.added, self.removed)


def compare(subject: Subject, listed: Sequence[Edit], leave_one_out: bool) -> dict[str, Any]:
    """Both versions of the graph, drawn, with the log-likelihoods of all vertices before and after."""
    model, schema, edits = subject.model, subject.model.schema, Edits.of(listed, subject)
    edited = edits.applied(subject)
    if leave_one_out:
        _refuse_long(subject, edited, len(edited.x))
    found = model.what_if(subject.graph, **edits.arguments(subject), leave_one_out=leave_one_out)
    molecules = None if subject.molecule is None else (subject.molecule, edits.molecule(subject))
    wrong = {} if molecules is None else valences.problems(molecules[1])
    return {
        "names": list(subject.names),
        "places": [[round(float(one), 4) for one in place] for place in subject.places],
        "is_molecule": subject.molecule is not None,
        "structures": [] if molecules is None else [_structure(one, subject.places) for one in molecules],
        "attributes": [describe(attribute) for attribute in schema],
        "edge_types": list(subject.edge_types) if "edge_type" in subject.graph else [],
        "edges": _edges(subject.graph),
        "edges_after": _edges(edited),
        "entries": schema.decode(subject.graph.x),
        "entries_after": schema.decode(edited.x),
        "before": _plain(found.before),
        "after": _plain(found.after),
        "change": _plain(found.change),
        "relative": _plain(found.relative),
        "total_before": _finite(found.before.double().sum().item()),
        "total_after": _finite(found.after.double().sum().item()),
        "total": _finite(found.total.item()),
        "problems": [{"vertex": vertex, "reason": reason} for vertex, reason in sorted(wrong.items())],
        "derived": _entries(found.derived),
        "left_out": found.problem,
    }


def _entries(derived: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What follows from a change, in the order of the vertices; null for what is left out."""
    return [
        {"vertex": vertex, "attribute": name, "value": value}
        for vertex, values in sorted(derived.items())
        for name, value in values.items()
    ]


def _structure(molecule: Any, places: NDArray[np.float64]) -> str | None:
    """A molecule as chemists draw it, to lie over the page's discs; None where RDKit cannot."""
    try:
        return layer_of(molecule, places, UNIT)
    except (ValueError, RuntimeError):
        return None


def replacements(
    subject: Subject,
    listed: Sequence[Edit],
    vertex: int,
    attribute: str,
    leave_one_out: bool,
    further: Sequence[float] = (),
) -> dict[str, Any]:
    """Every other value of one entry of the edited graph, best first, and what the model expects there."""
    model, edits = subject.model, Edits.of(listed, subject)
    edited, kind = edits.applied(subject), model.schema[attribute]
    _check_vertex(vertex, len(edited.x))
    given = model.conditional(edited, attribute, vertices=[vertex])
    column = model.schema.index(attribute)
    current = kind.decode(edited.x[[vertex], column])[0]
    values = _values(kind, current, given, further)
    if leave_one_out:
        _refuse_long(subject, edited, len(edited.x) * (len(values) + 1))
    others = model.replacements(
        subject.graph, attribute, vertices=[vertex], values=[*values, None], leave_one_out=leave_one_out,
        **edits.arguments(subject),
    )  # fmt: skip
    found = {one.value: one for one in others}
    rows = [
        {"value": value, "current": value == current, "reason": reason, **_told(found.get(value))}
        for value, reason in zip(values, _impossible(subject, edits, vertex, attribute, values), strict=True)
    ]
    # Not known, no value replaces another: what is asked is how probable each is here.
    by = "probability" if rows[0].get("probability") is not None else "change"
    rows.sort(key=lambda row: -math.inf if row[by] is None else row[by], reverse=True)
    return {
        "vertex": vertex,
        "attribute": attribute,
        "current": current,
        "original": kind.decode(subject.graph.x[[vertex], column])[0],
        "replacements": rows,
        "unknown": {"current": current is None, **_told(found.get(None))},
        "conditional": _distribution(kind, given),
    }


def _told(one: Alternative | None) -> dict[str, Any]:
    """A replacement in numbers; None stands for what is there already."""
    if one is None:
        return {"change": 0.0, "derived": []}
    told = {"change": _finite(one.change), "derived": _entries(one.derived)}
    return told if one.probability is None else {**told, "probability": one.probability}


def conditional(subject: Subject, listed: Sequence[Edit], vertex: int, attribute: str) -> dict[str, Any]:
    """The distribution of one entry of the edited graph given all others."""
    edited, kind = Edits.of(listed, subject).applied(subject), subject.model.schema[attribute]
    _check_vertex(vertex, len(edited.x))
    given = subject.model.conditional(edited, attribute, vertices=[vertex])
    return {"vertex": vertex, "attribute": attribute, "conditional": _distribution(kind, given)}


def describe(attribute: Attribute) -> dict[str, Any]:
    """An attribute as the page needs to know it."""
    values = list(attribute.categories) if isinstance(attribute, Categorical) else None
    return {"name": attribute.name, "kind": attribute.kind, "values": values}


def _values(kind: Attribute, current: Any, given: Any, further: Sequence[float]) -> list[Any]:
    """What an entry may be replaced by: all values of a discrete attribute, else some that the model expects."""
    if isinstance(kind, Categorical):
        return list(kind.categories)
    if isinstance(kind, Binary):
        return [False, True]
    if isinstance(kind, Count):
        likely = range(min(max(6, (current or 0) + 3), _MOST_COUNTS))
        return sorted({*likely, *further, *([] if current is None else [current])})
    expected = [float(f"{given.quantile(q).item():.3g}") for q in _QUANTILES]
    return sorted({*expected, *further, *([] if current is None else [current])})


def _impossible(subject: Subject, edits: Edits, vertex: int, attribute: str, values: Sequence[Any]) -> list[str | None]:
    """For each value why a molecule cannot have it; None where it can, or where there are no valences to look at."""
    if subject.molecule is None or attribute not in (*valences.ELEMENT, valences.CHARGE):
        return [None] * len(values)
    base = edits.molecule(subject)
    present = edits.changes.get(vertex, {})
    return [
        valences.problems(valences.edited(base, {vertex: {**present, attribute: value}})).get(vertex)
        for value in values
    ]


def _distribution(kind: Attribute, given: Any) -> dict[str, Any]:
    if isinstance(kind, Categorical | Binary):
        return {"values": list(given.categories), "probs": _plain(given.probs[0])}
    low, high = given.interval(0.9)[0].tolist()
    return {
        "mean": _finite(given.mean.item()),
        "deviation": _finite(given.variance.sqrt().item()),
        "interval": [_finite(low), _finite(high)],
    }


def _edges(graph: Data) -> list[list[int | bool]]:
    """[u, v, type, whether it goes one way only], every pair of opposite edges once."""
    types = graph.get("edge_type")
    codes = [0] * graph.edge_index.shape[1] if types is None else types.tolist()
    listed = list(zip(*graph.edge_index.tolist(), codes, strict=True))
    there = set(listed)
    return [[u, v, t, (v, u, t) not in there] for u, v, t in listed if u <= v or (v, u, t) not in there]


def _refuse_long(subject: Subject, graph: Data, roots: int) -> None:
    if not is_cheap(pack([graph], subject.model.schema), subject.model.answering.longest_closed_walk, roots, seed=0):
        raise InputError("leaving out every vertex would take too long on this graph; take the pseudo-likelihood")


def _check_vertex(vertex: int, num_vertices: int) -> None:
    if vertex >= num_vertices:
        raise InputError(f"vertex {vertex} does not exist: the graph has {num_vertices} vertices")


def _plain(values: Tensor) -> list[float | None]:
    return [_finite(value) for value in torch.as_tensor(values).double().tolist()]


def _finite(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None
