"""`gspn score`: how likely vertices, entries and graphs are, and how unusual beside the training data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gspn.cli import options
from gspn.cli.console import MOST_ROWS


@options.bundled
def score(
    source: options.Source,
    edges: options.Edges = None,
    model: options.Model = Path("model"),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Table with all rows: .csv, .tsv, .parquet or .json.")
    ] = None,
    level: Annotated[str, typer.Option(help="One row per vertex, or one per graph.")] = "vertex",
    entries: Annotated[bool, typer.Option("--entries", help="Also the score of every entry of a vertex.")] = False,
    pseudo: Annotated[
        bool,
        typer.Option("--pseudo", help="The paper's pseudo-likelihood, in which a vertex sees its own value."),
    ] = False,
    *,
    forms: options.Forms,
    force: options.Force = False,
    printing: options.Printing,
) -> None:
    """Score vertices or graphs: log-likelihood given all other vertices, the same per observed entry, and the rank.

    The rank is the share of the training data that is more usual: 1 is stranger than all of it. The most unusual are
    printed first; a file keeps the order of the input.

    Example: gspn score nodes.csv edges.csv -m model --entries -o scores.csv
    """
    console = printing.console()
    from gspn.arguments import check_choice
    from gspn.cli.inputs import model_and_graphs
    from gspn.cli.outputs import check_file, records, write_table
    from gspn.errors import InputError

    check_choice("--level", level, ("vertex", "graph"))
    if entries and level == "graph":
        raise InputError("--entries are those of vertices; leave out --level graph")
    check_file(output, force)
    fitted, graphs = model_and_graphs(model, source, edges, forms, progress=console.progress)
    table = _scores(fitted, graphs.dataset, level, entries, not pseudo)
    if "rank" not in table.columns:
        console.note("there are no ranks: the model kept no scores of its training data")
    if output is not None:
        write_table(table, output)
    console.table(_most_unusual(table, fitted.schema.names if entries else ()), title="the most unusual first")
    mean = table["score"].mean()
    console.say(f"{len(table):,} rows, {mean:.4f} nats per entry on average{f': {output}' if output else ''}")
    console.result(
        {"rows": len(table), "level": level, "mean_score": mean, "output": output and str(output)}
        | ({} if output else {"table": records(table)})
    )


def _most_unusual(table: Any, attributes: Sequence[str]) -> list[dict[str, Any]]:
    """The rows with the lowest scores; of the entries, the strangest."""
    from gspn.cli.outputs import records

    rows = records(table.sort_values("score", kind="stable").head(MOST_ROWS))
    for row in rows if attributes else ():
        scores = {name: row.pop(f"{name}_score") for name in attributes}
        known = {name: value for name, value in scores.items() if value is not None}
        strangest = min(known, key=lambda name: known[name], default=None)
        row["strangest"] = "" if strangest is None else f"{strangest} ({known[strangest]:.2f})"
    return rows


def _scores(model: Any, dataset: Any, level: str, entries: bool, leave_one_out: bool) -> Any:
    from dataclasses import replace

    import torch

    from gspn.convert.frames import graph_table, vertex_table

    likelihoods = model.log_likelihood(dataset, leave_one_out=leave_one_out)
    ranked = leave_one_out and getattr(model, "training_scores_", None)
    if level == "graph":
        found = {
            "log_likelihood": torch.stack([each.sum() for each in likelihoods]),
            "score": model.score_graphs(dataset, leave_one_out=leave_one_out),
        }
        found |= {"rank": model.unusualness_of_graphs(dataset)} if ranked else {}
        return graph_table(replace(dataset, y=None, target_level=None), found)
    found = {
        "log_likelihood": torch.cat(likelihoods),
        "score": torch.cat(model.score_vertices(dataset, leave_one_out=leave_one_out)),
    }
    found |= {"rank": torch.cat(model.unusualness_of_vertices(dataset))} if ranked else {}
    if entries:
        each = torch.cat(model.score_entries(dataset))
        found |= {f"{name}_score": each[:, column] for column, name in enumerate(dataset.schema.names)}
    return vertex_table(dataset, found)
