"""Every replacement of an entry, each with what follows from it and what it changes of the whole graph.

The list that the command and the page show. What one change does is the business of `changes`; the table of all
replacements taken literally is `what_if_all`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch_geometric.data import Data
from tqdm import tqdm

from gspn.attributes import Binary, Categorical, Schema
from gspn.errors import InputError
from gspn.queries.what_if import Alternative

if TYPE_CHECKING:
    from gspn.convert.derived import Derived, Entries
    from gspn.models.changes import WhatIfQuestions

_SMALLEST = 1e-300
"""Of probabilities, whose logarithm is taken."""


def replacements(
    model: WhatIfQuestions,
    graph: Data,
    attribute: str,
    vertices: Sequence[int],
    values: Sequence[Any],
    after: Mapping[str, Any],
    leave_one_out: bool,
    progress: bool,
) -> list[Alternative]:
    """Vertex by vertex, in the order of the values, without those that are there already.

    after: arguments of `changed`, for changes that come first. What follows is derived from all changes together, so
        that an entry which one of them sets, or makes unknown, is treated as if all were made at once.
    """
    from gspn.convert.derived import changed  # models load nothing of reading before they need it

    schema, column = model.schema, model.schema.index(attribute)
    start = changed(graph, schema, **after)[0].graph
    # Where nothing follows, one pass answers for all.
    literal = model.what_if_all(start, attribute, vertices, leave_one_out, values)
    present = schema[column].decode(start.x[:, column])
    chances = _chances(model, start, attribute, [v for v in vertices if present[v] is None])
    found = []
    places = [(row, v, k) for row, v in enumerate(vertices) for k in range(len(values)) if values[k] != present[v]]
    for row, v, k in tqdm(places, "replace", leave=False, disable=not progress):
        value = values[k]
        follows, derived = _following(graph, schema, start, v, attribute, value, after)
        probability = chances.get(v, {}).get(value)
        if follows:
            every = {**follows, v: {**follows.get(v, {}), attribute: value}}
            answer = model.what_if(start, every, leave_one_out=leave_one_out, derived=False)
            change = (answer.total if probability is None else answer.whole).item()
        else:
            change = literal[row, k].item() + math.log(max(1.0 if probability is None else probability, _SMALLEST))
        found.append(Alternative(v, value, change, probability, follows, derived.problem, derived.forbidden))
    return found


def _following(
    graph: Data, schema: Schema, start: Data, vertex: int, attribute: str, value: Any, after: Mapping[str, Any]
) -> tuple[Entries, Derived]:
    """What is different besides the entry itself, compared with the graph before its replacement."""
    from gspn.convert.derived import Derived, changed, decides_others

    if not decides_others(schema, attribute):
        return {}, Derived()
    own = {**after["changes"].get(vertex, {}), attribute: value}
    edited, derived = changed(graph, schema, **{**after, "changes": {**after["changes"], vertex: own}})
    old, new = start.x, edited.graph.x
    found: Entries = {}
    for v, column in ((old != new) & ~(old.isnan() & new.isnan())).nonzero().tolist():
        if (v, schema[column].name) != (vertex, attribute):
            found.setdefault(v, {})[schema[column].name] = schema[column].decode(new[v : v + 1, column])[0]
    return found, derived


def values_of(schema: Schema, attribute: str) -> list[Any]:
    """All that an attribute can be."""
    kind = schema[attribute]
    if isinstance(kind, Categorical):
        return list(kind.categories)
    if isinstance(kind, Binary):
        return [False, True]
    raise InputError(f"attribute {attribute!r} is {kind.kind}: pass values= with those that are to be tried")


def _chances(
    model: WhatIfQuestions, graph: Data, attribute: str, unknown: Sequence[int]
) -> dict[int, dict[Any, float]]:
    """The probability of every value where none is known."""
    if not unknown or not isinstance(model.schema[attribute], Categorical | Binary):
        return {}
    given: Any = model.conditional(graph, attribute, unknown)
    rows = [dict(zip(given.categories, row, strict=True)) for row in given.probs.tolist()]
    return dict(zip(unknown, rows, strict=True))
