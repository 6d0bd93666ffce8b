"""`--report` of `gspn impute` and `gspn fit`: where the page goes, and what is said of it; `gspn.reports` makes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gspn.cli.console import Console
    from gspn.graphs import GraphDataset
    from gspn.models.gspn import GSPN
    from gspn.models.stack import Stack
    from gspn.policy import Selection
    from gspn.reports.checking import Learn
    from gspn.reports.targets import HeldOut

PAGES = (".html",)
_SHOWN = 8


def report_targets(
    console: Console, dataset: GraphDataset, held_out: HeldOut, model: Any, path: Path, source: str, seed: int
) -> dict[str, Any]:
    """Write the page on how targets are predicted; what machines are told."""
    from gspn.reports.making import make_target_report

    of_graphs = hasattr(model, "features_")
    tried = sorted(model.tried_, key=lambda one: one["loss"])[:_SHOWN] if of_graphs else []
    inner = model.features_.learned_.models[0] if of_graphs else model
    words = f"{type(model).__name__} on a GSPN" if of_graphs else type(inner).__name__
    name = Path(source).name
    made = make_target_report(
        dataset,
        held_out,
        title=f"How well gspn predicts {', '.join(_target_names(model))} of {name}",
        model=f"{words} of {inner.num_layers} levels and {inner.num_states} states.",
        tried=tried,
        command=f"gspn fit {name} --target {' --target '.join(_target_names(model))} --seed {seed} --report",
        seed=seed,
    )
    made.save(path)
    console.note(f"report: {path}")
    return {"report": str(path), "verdict": made.verdict}


def _target_names(model: Any) -> list[str]:
    from gspn.targets import target_schema

    return list(target_schema(model.target).names)


def report_gaps(
    console: Console,
    dataset: GraphDataset,
    model: GSPN | Stack,
    path: Path,
    name: str,
    command: str,
    *,
    learn: Learn | None = None,
    selection: Selection | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Write the page on how gaps are filled, and say who fills best; what machines are told.

    `learn` trains the model once more; without it, it is asked as it is.
    """
    from gspn.reports.making import make_report

    if learn is not None:
        console.note(
            "report: values are hidden, and everything is learned again without them, which takes as long again"
        )
    made = make_report(
        dataset,
        model,
        learn,
        selection=selection,
        title=f"How well gspn fills {name}",
        command=command,
        seed=seed,
        progress=console.progress,
    )
    made.save(path)
    console.note(made.verdict)
    console.note(f"report: {path}")
    return {"report": str(path), "verdict": made.verdict, "check": made.numbers}
