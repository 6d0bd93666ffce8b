"""`gspn predict`: predictions of a model with a target for graphs or vertices, and how certain they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gspn.cli import options

_LEVEL = 0.9


@options.bundled
def predict(
    source: options.Source,
    edges: options.Edges = None,
    model: options.Model = Path("model"),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Table with all rows: .csv, .tsv, .parquet or .json.")
    ] = None,
    targets: Annotated[
        Path | None, typer.Option(help="Table with the true targets of graphs, to be compared.", show_default=False)
    ] = None,
    *,
    forms: options.Forms,
    force: options.Force = False,
    printing: options.Printing,
) -> None:
    """Predict with a model that was fitted with --target; next to the truth, where the source has it.

    Categories come with their probabilities, numbers with standard deviation and 90 % interval.

    Example: gspn predict new.smi -m logp-model -o predicted.csv
    """
    console = printing.console()
    from gspn.cli.inputs import model_and_graphs
    from gspn.cli.outputs import check_file, records, write_table
    from gspn.errors import InputError

    check_file(output, force)
    fitted, graphs = model_and_graphs(
        model, source, edges, forms, labels_file=targets, predicts=True, progress=console.progress
    )
    if not hasattr(fitted, "predictive"):
        raise InputError(f"{model} was trained without a target; gspn fit --target makes a model that predicts")
    predictor: Any = fitted
    table = _predictions(predictor, graphs.dataset)
    score = None if graphs.dataset.y is None else predictor.score(graphs.dataset)
    if output is not None:
        write_table(table, output)
    console.table(records(table), hint="" if output else "-o FILE writes all")
    judged = "" if score is None else f", {_score_name(fitted)} {score:.4f}"
    console.say(f"{len(table):,} predictions{judged}{f': {output}' if output else ''}")
    console.result(
        {"rows": len(table), "score": score, "score_name": _score_name(fitted), "output": output and str(output)}
        | ({} if output else {"table": records(table)})
    )


def _score_name(model: Any) -> str:
    from gspn.attributes import Binary, Categorical, Schema

    if isinstance(model.target, Schema):
        return "mean score"
    return "accuracy" if isinstance(model.target, Binary | Categorical) else "R²"


def _predictions(model: Any, dataset: Any) -> Any:
    """One row per graph or vertex: for each target the prediction, and probabilities or spread and interval."""
    from gspn.attributes import Schema
    from gspn.convert.frames import graph_table, vertex_table

    answers = model.predictive(dataset)
    by_name = answers if isinstance(model.target, Schema) else {model.target.name: answers}
    found: dict[str, Any] = {}
    for name, answer in by_name.items():
        found |= _columns(name, answer if isinstance(answer, list) else [answer])
    of_vertices = model.target_level == "vertex"
    table = (vertex_table if of_vertices else graph_table)(dataset, found)
    if of_vertices and dataset.y is not None:
        from gspn.convert.frames import to_tables

        nodes, _ = to_tables(dataset, directed=True)
        place = 2
        for name in by_name:
            table.insert(place, name, nodes[name].to_numpy())
            place += 1
    return table


def _columns(name: str, answers: list[Any]) -> dict[str, Any]:
    """The columns of one target, from one batch of distributions or one per graph."""
    import torch

    from gspn.circuits.distributions import CategoricalDistribution

    if isinstance(answers[0], CategoricalDistribution):
        codes = torch.cat([answer.mode for answer in answers]).double()
        probs = torch.cat([answer.probs for answer in answers])
        values = answers[0].attribute.decode(codes)
        found: dict[str, Any] = {f"{name}_predicted": values, f"{name}_probability": probs.max(1).values}
        return found | {f"{name}_p_{value}": probs[:, i] for i, value in enumerate(answers[0].categories)}
    low, high = torch.cat([answer.interval(_LEVEL) for answer in answers]).T
    return {
        f"{name}_predicted": torch.cat([answer.mean for answer in answers]),
        f"{name}_sd": torch.cat([answer.variance for answer in answers]).sqrt(),
        f"{name}_low": low,
        f"{name}_high": high,
    }
