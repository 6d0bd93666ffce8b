"""`gspn what-if`: change a graph and see what becomes more and less likely.

Changes are typed as `4:element=O`, `3:charge=unknown`, `1-2:double`. A vertex is called by its id or, where it has
none, by its number. That a change is possible is checked by `gspn.graphs.edits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gspn.cli import options
from gspn.cli.console import Console
from gspn.errors import InputError

if TYPE_CHECKING:
    from gspn.cli.inputs import Graphs

_MOST_LISTED = 8
"""Derived entries that a line names."""

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


_FILES = (".svg", ".html", ".csv", ".tsv", ".parquet", ".json")


@options.bundled
def what_if(
    source: options.Source,
    edges: options.Edges = None,
    model: options.Model = Path("model"),
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="VERTEX:ATTRIBUTE=VALUE, or =unknown: 4:element=O (may be given several times).",
            show_default=False,
        ),
    ] = None,
    add_edge: Annotated[
        list[str] | None,
        typer.Option(help="VERTEX-VERTEX, or VERTEX-VERTEX:TYPE: 1-2:double.", show_default=False),
    ] = None,
    remove_edge: Annotated[
        list[str] | None, typer.Option(help="VERTEX-VERTEX, or VERTEX-VERTEX:TYPE.", show_default=False)
    ] = None,
    all_: Annotated[
        str | None,
        typer.Option("--all", help="Every replacement of this attribute at every vertex, ranked.", show_default=False),
    ] = None,
    impossible: Annotated[
        bool, typer.Option("--impossible", help="With --all: also show molecules that valences forbid.")
    ] = False,
    edits: Annotated[
        bool,
        typer.Option(
            "--edits", help="With a model with a target: all molecules one edit away, by what it changes of the target."
        ),
    ] = False,
    which: Annotated[
        str | None,
        typer.Option(help="Which graph, by name or number, if there are several.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Picture of the change (.svg), page of --edits (.html), or table (.csv, .tsv, .parquet, .json).",
        ),
    ] = None,
    pseudo: Annotated[
        bool, typer.Option("--pseudo", help="Judge by the paper's pseudo-likelihood, not given all other vertices.")
    ] = False,
    *,
    forms: options.Forms,
    force: options.Force = False,
    printing: options.Printing,
) -> None:
    """Compare a graph before and after changes, vertex by vertex, in nats; a vertex is its id or its number from 0 on.

    With --edits and a model that was fitted with --target: what every single edit of a molecule (an element replaced,
    an atom added or removed, a bond made single or double) changes of the predicted target, with 90 % intervals.

    Examples: gspn what-if smiles:CCCl -m drugs-model --set 2:element=O -o change.svg; gspn what-if smiles:CCCl -m
    logp-model --edits -o edits.html
    """
    console = printing.console()
    from gspn.cli.inputs import model_and_graphs
    from gspn.cli.outputs import check_file
    from gspn.errors import InputError

    check_file(output, force, _FILES)
    suffix = "" if output is None else output.suffix.lower()
    if sum((all_ is not None, bool(set_ or add_edge or remove_edge), edits)) != 1:
        raise InputError(
            "say what to change with --set, --add-edge, --remove-edge, or --all ATTRIBUTE for every value, or --edits"
        )
    if (suffix == ".html" and not edits) or (suffix == ".svg" and edits):
        raise InputError(f"{output}: pages (.html) are of --edits, pictures (.svg) of single changes")
    if all_ is not None and output is not None and output.suffix.lower() == ".svg":
        raise InputError("--all gives a table, not a picture; write it as .csv")
    fitted, graphs = model_and_graphs(model, source, edges, forms, predicts=edits, progress=console.progress)
    chosen = choose_graph(graphs, which)
    if edits:
        _edit_list(console, fitted, chosen, output)
        return
    if all_ is not None:
        _every_replacement(console, fitted, chosen, all_, not pseudo, impossible, output)
        return
    changes = read_changes(chosen, set_ or (), add_edge or (), remove_edge or ())
    found = fitted.what_if(
        chosen.dataset[0], changes.entries, changes.added, changes.removed, leave_one_out=not pseudo,
        directed=True if chosen.reading.directed else None,
    )  # fmt: skip
    _show_change(console, fitted, chosen, changes, found, output)


def _show_change(
    console: Console, model: Any, chosen: Graphs, changes: Changes, found: Any, output: Path | None
) -> None:
    from gspn.cli.outputs import write_file

    names = vertex_names(chosen)
    rows = [
        {
            "vertex": name,
            "what": _words(model.schema, chosen.dataset[0].x[v]),
            "before": found.before[v].item(),
            "after": found.after[v].item(),
            "change": found.change[v].item(),
            "relative": found.relative[v].item(),
        }
        for v, name in enumerate(names)
    ]
    total = found.total.item()
    if output is not None and output.suffix.lower() == ".svg":
        write_file(output, _drawn(model, chosen, changes, found).encode())
    elif output is not None:
        _write(rows, output)
    strongest = sorted(rows, key=lambda row: -abs(row["change"]))
    console.table(strongest, title="log-likelihood of vertices in nats, the largest changes first")
    console.say(f"change of the whole graph: {total:+.4f} nats{f'; written to {output}' if output else ''}")
    whole = found.whole.item()
    if found.told is not None and bool((found.told != 0).any()):
        console.say(f"with the entries that only one side knows: {whole:+.4f} nats; these changes add up, step by step")
    follows = [
        {"vertex": names[v], "attribute": name, "value": value}
        for v, values in sorted(found.derived.items())
        for name, value in values.items()
    ]
    listed = ", ".join(f"{one['vertex']}:{one['attribute']}={_said(one['value'])}" for one in follows[:_MOST_LISTED])
    listed += f" and {len(follows) - _MOST_LISTED} more" if len(follows) > _MOST_LISTED else ""
    if follows and found.problem is None:
        console.say(f"{len(follows)} entries that follow from the changes were derived anew: {listed}")
    elif follows:
        console.say(f"{len(follows)} entries that follow from the changes are left out ({found.problem}): {listed}")
    derived = {"derived": follows, "problem": found.problem}
    console.result({"total": total, "whole": whole, "vertices": rows, **derived, "output": output and str(output)})


def _drawn(model: Any, chosen: Graphs, changes: Changes, found: Any) -> str:
    """Before without colours, after with the change of every vertex."""
    from gspn.graphs.edits import edit

    before = chosen.dataset[0]
    after = edit(
        before, model.schema, changes.entries, changes.added, changes.removed, num_edge_types=model.num_edge_types,
        directed=True if chosen.reading.directed else None,
    ).graph  # fmt: skip
    change = found.change.double().numpy()
    titles = ["before", f"after: {found.total.item():+.2f} nats"]
    label = "change of the log-likelihood (nats)"
    if chosen.molecules:
        from gspn.plots.molecules import draw_molecules

        return draw_molecules([before, after], [0 * change, change], label=label, titles=titles, schema=model.schema)
    from gspn.plots.graphs import draw_graphs

    return draw_graphs([before, after], [0 * change, change], label=label, titles=titles, labels=vertex_names(chosen))


def _edit_list(console: Console, model: Any, chosen: Graphs, output: Path | None) -> None:
    """What single edits do to the target of a model."""
    from gspn.cli.outputs import records, write_file, write_table
    from gspn.errors import InputError
    from gspn.graph_level.edit_list import LEVEL, edit_list

    column = "smiles" if chosen.rows is None or chosen.reading.smiles not in chosen.rows else chosen.reading.smiles
    if chosen.rows is None:
        raise InputError("--edits is about a molecule that is given as SMILES")
    smiles = str(chosen.rows[column].iloc[0]).split()[0]
    table = edit_list(model, smiles)
    if output is not None and output.suffix.lower() == ".html":
        from gspn.reports.edit_page import write_edit_page

        write_file(output, write_edit_page(table, smiles, model.target, LEVEL).encode())
    elif output is not None:
        write_table(table, output)
    name = model.target.name
    console.table(records(table), title=f"edits of {smiles} by what they change of {name}", hint="-o FILE writes all")
    console.say(f"{len(table)} molecules that can be{f'; written to {output}' if output else ''}")
    console.result({"smiles": smiles, "target": name, "edits": records(table), "output": output and str(output)})


def _every_replacement(
    console: Console,
    model: Any,
    chosen: Graphs,
    attribute: str,
    leave_one_out: bool,
    impossible: bool,
    output: Path | None,
) -> None:
    from gspn.attributes import Binary, Categorical
    from gspn.errors import InputError

    kind = model.schema[attribute]
    if not isinstance(kind, Categorical | Binary):
        raise InputError(f"--all is for categories and binary attributes; {attribute!r} is {kind.kind}")
    graph, names = chosen.dataset[0], vertex_names(chosen)
    present = kind.decode(graph.x[:, model.schema.index(kind.name)])
    found = model.replacements(graph, attribute, leave_one_out=leave_one_out, progress=console.progress)
    forbidden = sum(one.forbidden for one in found)
    rows = [_row(names, present, one) for one in found if impossible or not one.forbidden]
    if output is not None:
        _write(rows, output)
    rows.sort(key=_rank)
    console.table(
        rows, title=f"other values of {attribute}, by the change of the whole graph in nats",
        hint="" if output else "-o FILE writes all",
    )  # fmt: skip
    if forbidden and not impossible:
        console.say(f"{forbidden} replacements that valences forbid are left out; --impossible shows them")
    if output is not None:
        console.say(f"written to {output}")
    console.result({"attribute": attribute, "replacements": rows, "output": output and str(output)})


def _rank(row: dict[str, Any]) -> tuple[bool, float]:
    """Entries that are known by what replacing them changes; then those that are not, by how probable a value is."""
    probability = row.get("probability")
    return (False, -row["change"]) if probability is None else (True, -probability)


def _row(names: Sequence[str], present: Sequence[Any], one: Any) -> dict[str, Any]:
    """A replacement for the table: how probable it is only where nothing was known, and why what follows is not."""
    row = {"vertex": names[one.vertex], "now": present[one.vertex], "then": one.value, "change": one.change}
    further = {"probability": one.probability, "problem": one.problem}
    return row | {name: value for name, value in further.items() if value is not None}


def _write(rows: list[dict[str, Any]], output: Path) -> None:
    from gspn.cli.outputs import write_table
    from gspn.convert.files import import_pandas

    write_table(import_pandas().DataFrame(rows), output)


def _said(value: Any) -> str:
    """A derived value in few letters."""
    return "unknown" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def _words(schema: Any, x: Any) -> str:
    """What a vertex is: its first attribute's value."""
    value = schema[0].decode(x[:1].double())[0]
    return "?" if value is None else str(value)
