"""`gspn embed`: vertices or graphs as vectors, for other programs to learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gspn.cli import options

_FILES = (".csv", ".tsv", ".parquet", ".json", ".npy")


@options.bundled
def embed(
    source: options.Source,
    edges: options.Edges = None,
    model: options.Model = Path("model"),
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to: .csv, .tsv, .parquet, .json, or .npy (the numbers alone)."),
    ] = None,
    level: Annotated[str, typer.Option(help="One vector per vertex, or one per graph.")] = "vertex",
    pooling: Annotated[str, typer.Option(help="How a graph's vertices are put together: mean or sum.")] = "mean",
    *,
    forms: options.Forms,
    force: options.Force = False,
    printing: options.Printing,
) -> None:
    """Write the embeddings of vertices, or pooled ones of graphs: the posteriors of all levels, one row each.

    Example: gspn embed drugs.smi -m drugs-model --level graph -o drugs.parquet
    """
    console = printing.console()
    from gspn.arguments import check_choice
    from gspn.cli.inputs import model_and_graphs
    from gspn.cli.outputs import check_file, records, write_table
    from gspn.errors import InputError
    from gspn.models.gspn import GSPN

    check_choice("--level", level, ("vertex", "graph"))
    check_choice("--pooling", pooling, ("mean", "sum"))
    check_file(output, force, _FILES)
    fitted, graphs = model_and_graphs(model, source, edges, forms, progress=console.progress)
    if not isinstance(fitted, GSPN):
        raise InputError(f"{model} is a stack of models, which has no embeddings; embed with one of its models")
    vectors = _vectors(fitted, graphs.dataset, level, pooling)
    rows, width = vectors.shape
    if output is not None and output.suffix.lower() == ".npy":
        _write_array(vectors, output)
    elif output is not None:
        write_table(_table(graphs.dataset, vectors, level), output)
    of = "vertices" if level == "vertex" else "graphs"
    console.say(f"{rows:,} {of}, {width} numbers each{f': {output}' if output else '; -o FILE writes them'}")
    console.result(
        {"rows": rows, "width": width, "level": level, "output": output and str(output)}
        | ({} if output else {"table": records(_table(graphs.dataset, vectors, level))})
    )


def _vectors(model: Any, dataset: Any, level: str, pooling: str) -> Any:
    import torch

    found = model.embed(dataset)
    if level == "graph":
        found = [(each.mean(0) if pooling == "mean" else each.sum(0))[None] for each in found]
    return torch.cat(found).numpy()


def _table(dataset: Any, vectors: Any, level: str) -> Any:
    from dataclasses import replace

    from gspn.convert.frames import graph_table, vertex_table

    if level == "vertex":
        return vertex_table(dataset, {"e": vectors})
    return graph_table(replace(dataset, y=None, target_level=None), {"e": vectors})


def _write_array(vectors: Any, path: Path) -> None:
    from io import BytesIO

    import numpy as np

    from gspn.cli.outputs import write_file

    buffer = BytesIO()
    np.save(buffer, vectors, allow_pickle=False)
    write_file(path, buffer.getvalue())
