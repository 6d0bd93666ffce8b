"""`--report` of `gspn impute` and `gspn fit`: where the page goes, and what is said of it; `gspn.reports` makes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gspn.cli.console import Console
    from gspn.graphs import GraphDataset
    from gspn.models.gspn import GSPN
    from gspn.models.stack import Stack
    from gspn.policy import Selection
    from gspn.reports.targets import HeldOut

PAGES = (".html",)
_SHOWN = 8
_OPTION, _DEFAULT = "--report", "report.html"


@dataclass(frozen=True)
class Trained:
    """A model that fills gaps, and where it comes from."""

    model: GSPN | Stack | None
    selection: Selection | None = None
    told: dict[str, Any] | None = None
    """Of the selection, for machines"""
    learned_here: bool = False
    """Whether it was trained just now, and can be once more"""


def with_page(arguments: Sequence[str]) -> list[str]:
    """The arguments with a file behind `--report` where none is said: what follows is one only if it ends in .html."""
    found = []
    for place, argument in enumerate(arguments):
        found.append(argument)
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        if argument == _OPTION and not following.lower().endswith(PAGES):
            found.append(_DEFAULT)
    return found


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
        dataset, held_out, title=f"How well gspn predicts {', '.join(_target_names(model))} of {name}",
        model=f"{words} of {inner.num_layers} levels and {inner.num_states} states.", tried=tried,
        command=f"gspn fit {name} --target {' --target '.join(_target_names(model))} --seed {seed} --report",
        seed=seed,
    )  # fmt: skip
    made.save(path)
    console.note(f"report: {path}")
    return {"report": str(path), "verdict": made.verdict}


def _target_names(model: Any) -> list[str]:
    from gspn.targets import target_schema

    return list(target_schema(model.target).names)


def report_gaps(
    console: Console,
    dataset: GraphDataset,
    trained: Trained,
    path: Path,
    name: str,
    command: str,
    effort: Any,
    seed: int,
) -> dict[str, Any]:
    """Write the page on how gaps are filled, and say who fills best; what machines are told."""
    from gspn.reports.making import choosing_again, make_report, relearning

    assert trained.model is not None
    learn = None
    if trained.selection is not None:
        learn = choosing_again(effort, seed, console.progress)
        console.note(
            f"report: values are hidden, and everything is chosen and learned again without them, which took "
            f"{trained.told['seconds']:.0f} s" if trained.told else "report"
        )  # fmt: skip
    elif trained.learned_here:
        learn = relearning(trained.model, console.progress)
        console.note("report: values are hidden, and the model learns again without them")
    made = make_report(
        dataset, trained.model, learn, selection=trained.selection, title=f"How well gspn fills {name}",
        command=command, seed=seed, progress=console.progress,
    )  # fmt: skip
    made.save(path)
    console.note(made.verdict)
    console.note(f"report: {path}")
    return {"report": str(path), "verdict": made.verdict, "check": made.numbers}
