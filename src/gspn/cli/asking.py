"""What the commands that ask a saved model have in common: the model, and graphs read as that one needs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gspn.cli.inputs import Graphs
    from gspn.models.gspn import GSPN
    from gspn.models.stack import Stack


def model_and_graphs(
    model: Path,
    source: str,
    edges: Path | None,
    *,
    labels_file: Path | None = None,
    predicts: bool = False,
    progress: bool,
    **said: Any,
) -> tuple[GSPN | Stack, Graphs]:
    """A saved model and the graphs to ask it about; `said` is what the command line says of columns.

    Who `predicts` graphs by a head on their features knows nothing else.
    """
    from gspn.cli.inputs import Reading, read_graphs
    from gspn.errors import InputError
    from gspn.graph_level.loading import load
    from gspn.graph_level.predicting import GraphPredictor
    from gspn.targets import target_schema

    fitted = load(model)
    if isinstance(fitted, GraphPredictor) and not predicts:
        raise InputError(f"{model} predicts whole graphs and answers nothing else; gspn fit without --target does")
    target = getattr(fitted, "target", None)
    labels = () if target is None else target_schema(target).names
    reading = Reading.of(Reading.beside(model), **said)
    graphs = read_graphs(
        source, edges, reading, model=fitted, labels=labels, labels_file=labels_file, progress=progress
    )
    return fitted, graphs
