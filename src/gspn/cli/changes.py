"""Changes as people type them: `4:element=O`, `3:charge=unknown`, `1-2:double`.

A vertex is called by its id or, where it has none, by its number. That a change is possible is checked by
`gspn.graphs.edits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gspn.errors import InputError

if TYPE_CHECKING:
    from gspn.cli.inputs import Graphs

UNKNOWN = "unknown"
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class Changes:
    """What is to change, as `what_if` takes it."""

    entries: dict[int, dict[str, Any]]
    added: list[tuple[int, ...]]
    removed: list[tuple[int, ...]]


def choose_graph(graphs: Graphs, which: str | None) -> Graphs:
    """The one graph that is meant."""
    dataset = graphs.dataset
    if which is None:
        if len(dataset) != 1:
            raise InputError(f"there are {len(dataset):,} graphs; --which says which one is meant, by name or number")
        return graphs
    names = [] if dataset.graph_names is None else [str(dataset.graph_names[i]) for i in dataset.positions.tolist()]
    if which in names:
        number = names.index(which)
    elif which.isdigit() and int(which) < len(dataset):
        number = int(which)
    else:
        raise InputError(f"--which: there is no graph {which!r}; numbers go from 0 to {len(dataset) - 1}")
    rows = None if graphs.rows is None else graphs.rows.iloc[[number]]
    return replace(graphs, dataset=dataset[[number]], rows=rows)


def vertex_names(graphs: Graphs) -> list[str]:
    """What the vertices of the only graph are called."""
    dataset = graphs.dataset
    if dataset.vertex_names is None:
        return [str(v) for v in range(len(dataset[0].x))]
    return [str(name) for name in dataset.vertex_names[dataset.vertex_rows().numpy()]]


def read_changes(graphs: Graphs, sets: Sequence[str], added: Sequence[str], removed: Sequence[str]) -> Changes:
    """All changes of the only graph."""
    number = {name: v for v, name in enumerate(vertex_names(graphs))}
    entries: dict[int, dict[str, Any]] = {}
    for text in sets:
        vertex, attribute, value = _entry(graphs, number, text)
        entries.setdefault(vertex, {})[attribute] = value
    return Changes(
        entries,
        [_edge(graphs, number, text, "--add-edge") for text in added],
        [_edge(graphs, number, text, "--remove-edge") for text in removed],
    )


def _entry(graphs: Graphs, number: dict[str, int], text: str) -> tuple[int, str, Any]:
    vertex, colon, rest = text.partition(":")
    attribute, equals, value = rest.partition("=")
    if not colon or not equals:
        raise InputError(f"--set: {text!r} is not VERTEX:ATTRIBUTE=VALUE, such as 4:element=O")
    if vertex not in number:
        raise InputError(f"--set {text}: there is no vertex {vertex!r}; there are {_known(number)}")
    return number[vertex], attribute, _value(graphs.dataset.schema[attribute], value, text)


def _value(attribute: Any, text: str, where: str) -> Any:
    if text == UNKNOWN and text not in map(str, getattr(attribute, "categories", ())):
        return None
    if attribute.kind == "categorical":
        for category in attribute.categories:
            if str(category) == text:
                return category
        return text  # no category, which the library says better
    if attribute.kind == "binary" and text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"--set {where}: {attribute.name!r} is {attribute.kind}, and {text!r} is no value of it"
        ) from None


def _edge(graphs: Graphs, number: dict[str, int], text: str, option: str) -> tuple[int, ...]:
    ends, colon, kind = text.partition(":")
    for cut in (place for place, letter in enumerate(ends) if letter == "-"):  # ids may have dashes of their own
        if ends[:cut] in number and ends[cut + 1 :] in number:
            pair = number[ends[:cut]], number[ends[cut + 1 :]]
            return (*pair, _edge_type(graphs, kind, f"{option} {text}")) if colon else pair
    raise InputError(f"{option}: {text!r} is not VERTEX-VERTEX with two of {_known(number)}")


def _edge_type(graphs: Graphs, kind: str, where: str) -> int:
    names = [str(name) for name in graphs.reading.edge_types or graphs.dataset.edge_types or ()]
    if kind in names:
        return names.index(kind)
    if kind.isdigit():
        return int(kind)
    raise InputError(f"{where}: there is no edge type {kind!r}; known: {', '.join(names) or 'numbers from 0 on'}")


def _known(number: dict[str, int]) -> str:
    from gspn.columns import enumerate_briefly

    return enumerate_briefly(number)
