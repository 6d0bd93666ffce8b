"""`gspn predict`: predictions of a model with a target for graphs or vertices, and how certain they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gspn.cli import options

if TYPE_CHECKING:
    from gspn.cli.inputs import Graphs
    from gspn.graphs import GraphDataset

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

    Categories come with their probabilities, numbers with standard deviation and 90 % interval. The input's columns
    stay. The column learned_from says of which rows the model has seen the label: these never count in the score.

    Example: gspn predict new.smi -m logp-model -o predicted.csv
    """
    console = printing.console()
    from gspn.cli.inputs import model_and_graphs
    from gspn.cli.learned_from import known_rows
    from gspn.cli.outputs import check_file, records, write_table
    from gspn.errors import InputError

    check_file(output, force)
    fitted, graphs = model_and_graphs(
        model, source, edges, forms, labels_file=targets, predicts=True, progress=console.progress
    )
    if not hasattr(fitted, "predictive"):
        raise InputError(f"{model} was trained without a target; gspn fit --target makes a model that predicts")
    predictor: Any = fitted
    known = known_rows(model, graphs.dataset, predictor.target_level)
    table = _predictions(predictor, graphs, known)
    score, counted = _score(predictor, graphs.dataset, known)
    if output is not None:
        write_table(table, output)
    console.table(records(table), hint="" if output else "-o FILE writes all")
    seen = 0 if known is None else sum(known)
    judged = "" if score is None else f", {_score_name(fitted)} {score:.4f} on {counted:,} rows with a label"
    console.say(f"{len(table):,} predictions{judged}{f': {output}' if output else ''}")
    if seen:
        console.note(f"the model has learned from the labels of {seen:,} of these rows: they do not count in any score")
    elif known is None and score is not None:
        console.note("it was not written down which rows this model has learned from: the score may count them")
    console.result(
        {
            "rows": len(table),
            "score": score,
            "score_name": _score_name(fitted),
            "scored": counted,
            "learned_from": None if known is None else seen,
            "output": output and str(output),
        }
        | ({} if output else {"table": records(table)})
    )


def _score(model: Any, dataset: GraphDataset, known: list[bool] | None) -> tuple[float | None, int]:
    """On the rows with labels that the model has not seen, if there are any, and how many these are."""
    if dataset.y is None:
        return None, 0
    import torch

    from gspn.reports.targets import labels_of

    labels = torch.from_numpy(labels_of(dataset)).clone()
    if known is not None:
        labels[torch.tensor(known, dtype=torch.bool)] = torch.nan
    counted = int((~labels.isnan()).any(1).sum())
    numbers = not hasattr(model.target, "categories") and getattr(model.target, "kind", "") in ("continuous", "count")
    if counted < 1 + numbers:
        return None, counted
    return model.score(dataset, labels[:, 0] if labels.shape[1] == 1 else labels), counted


def _score_name(model: Any) -> str:
    from gspn.attributes import Binary, Categorical, Schema

    if isinstance(model.target, Schema):
        return "mean score"
    return "accuracy" if isinstance(model.target, Binary | Categorical) else "R²"


def _predictions(model: Any, graphs: Graphs, known: list[bool] | None) -> Any:
    """One row per graph or vertex: what the input says of it, and for each target the prediction with its spread."""
    from gspn.attributes import Schema
    from gspn.cli.learned_from import COLUMN

    dataset = graphs.dataset
    answers = model.predictive(dataset)
    by_name = answers if isinstance(model.target, Schema) else {model.target.name: answers}
    found: dict[str, Any] = {}
    for name, answer in by_name.items():
        found |= _columns(name, answer if isinstance(answer, list) else [answer])
    if known is not None:
        found[COLUMN] = known
    return _beside_the_input(graphs, found, model.target_level == "vertex", list(by_name))


def _beside_the_input(graphs: Graphs, found: dict[str, Any], of_vertices: bool, targets: list[str]) -> Any:
    """The input's own rows with columns of predictions, in the input's order."""
    from gspn.convert.files import import_pandas
    from gspn.convert.frames import graph_table, vertex_table
    from gspn.errors import InputError

    pandas = import_pandas()
    if of_vertices and graphs.nodes is not None:
        rows = graphs.nodes.frame.reset_index(drop=True)
        # The dataset has them graph by graph.
        order = rows.index
        if graphs.reading.graph is not None:
            codes = pandas.factorize(graphs.nodes.column(graphs.reading.graph, "graph"))[0]
            order = codes.argsort(kind="stable")
        new = pandas.DataFrame(_plain(found), index=order).sort_index()
    elif not of_vertices and graphs.rows is not None:
        rows = graphs.rows.reset_index(drop=True)
        called = graph_table(graphs.dataset, y=None)["graph"]
        if "graph" not in rows:
            rows = pandas.concat([called.rename("graph"), rows], axis=1)
        new = pandas.DataFrame(_plain(found))
    else:
        table = (vertex_table if of_vertices else graph_table)(graphs.dataset, found)
        return _with_truth(table, graphs.dataset, targets) if of_vertices else table
    for name in new.columns:
        if name in rows.columns:
            raise InputError(f"there is a column {name!r} already; rename it, as predictions are called so")
    return pandas.concat([rows, new], axis=1)


def _plain(found: dict[str, Any]) -> dict[str, Any]:
    return {name: values.numpy() if hasattr(values, "numpy") else values for name, values in found.items()}


def _with_truth(table: Any, dataset: GraphDataset, targets: list[str]) -> Any:
    """Vertices that do not come from a table, with their labels."""
    if dataset.y is not None:
        from gspn.convert.frames import to_tables

        nodes, _ = to_tables(dataset, directed=True)
        for place, name in enumerate(targets, 2):
            table.insert(place, name, nodes[name].to_numpy())
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
