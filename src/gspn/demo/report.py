"""What stays of the story: pictures, the numbers as JSON, and a page that needs nothing else."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gspn import __version__
from gspn.demo.filling import CHARGE, LEVEL
from gspn.demo.replacing import FOLLOWS, NEW, OLD
from gspn.demo.rows import rows_of
from gspn.demo.story import HIDDEN, Story, in_one_thread
from gspn.files import replace_file
from gspn.pages import inline_svg, render
from gspn.plots.calibration import calibration
from gspn.plots.charts import bars
from gspn.plots.files import save_figure, svg_text
from gspn.plots.imputed import observed_against_imputed
from gspn.plots.molecules import draw_molecules
from gspn.policy import Tried
from gspn.policy.telling import in_words, judged, why

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE, NUMBERS = "report.html", "numbers.json"


def write_report(story: Story, folder: Path) -> list[Path]:
    """Write everything into a folder and say which files these are, the page first."""
    folder.mkdir(parents=True, exist_ok=True)
    with in_one_thread():
        charts, change = draw_charts(story), draw_change(story)
    written = [save_figure(figure, folder / f"{name}.png") for name, figure in charts.items()]
    written.append(save_figure(change, folder / "change.svg"))
    svgs = {name: svg_text(figure) for name, figure in charts.items()} | {"change": change}
    replace_file(folder / NUMBERS, (json.dumps(numbers_of(story), indent=1) + "\n").encode())
    replace_file(folder / PAGE, write_page(story, svgs).encode())
    return [folder / PAGE, *written, folder / NUMBERS]


def numbers_of(story: Story) -> dict[str, Any]:
    """All numbers for machines."""
    change = story.replacing.answer.change.double()
    return {
        "gspn": __version__,
        "seed": story.seed,
        "molecules": len(story.molecules.complete),
        "hidden_share": HIDDEN,
        "hidden_test_entries": story.filling.entries,
        "filling": {name: asdict(answer) for name, answer in story.filling.answers.items()},
        "few_labels": {
            "labelled": story.few_labels.labelled,
            "tested": story.few_labels.tested,
            "mean_absolute_error": story.few_labels.errors,
        },
        "what_if": {
            "smiles": story.replacing.smiles,
            "atom": story.replacing.vertex,
            "from": OLD,
            "to": NEW,
            "change": change.tolist(),
            "total": float(change.sum()),
        },
        "selection": {
            "effort": story.effort,
            "held_out": story.selection.held_out,
            "loss": story.selection.loss,
            "tried": [
                {"candidate": str(one.candidate), "loss": one.loss, "weight": one.weight} for one in _tried(story)
            ],
        },
        "seconds": {"choosing": story.choosing_seconds, "all": story.seconds},
    }


def _tried(story: Story) -> list[Tried]:
    """What was tried, the best first."""
    return judged(story.selection)


def draw_charts(story: Story) -> dict[str, Figure]:
    """The charts by the names of their files."""
    errors = {name: [float(np.mean(each))] for name, each in story.few_labels.errors.items()}
    spread = {name: [float(np.std(each))] for name, each in story.few_labels.errors.items()}
    return {
        "charges": observed_against_imputed(*story.filling.charges, level=LEVEL, unit="e"),
        "elements": observed_against_imputed(*story.filling.elements),
        "calibration": calibration({f"GSPN, {CHARGE}": story.filling.charges}),
        "labels": bars(
            [f"log P from {story.few_labels.labelled} labelled molecules"], errors, spread=spread,
            y_label="mean absolute error",
        ),
    }  # fmt: skip


def draw_change(story: Story) -> str:
    """The molecule before and after, with the change of every atom."""
    found = story.replacing
    change = found.answer.change.double().numpy()
    return draw_molecules(
        [found.before, found.after],
        [np.zeros(len(change)), change],
        label="change of an atom's log-likelihood (nats)",
        titles=["before", f"after: {change.sum():+.2f} nats"],
        schema=story.selection.stack.schema,
    )


def write_page(story: Story, svgs: dict[str, str]) -> str:
    """The page, with its pictures inside."""
    train, test = (len(story.molecules.part(name)[0]) for name in ("train", "test"))
    change = story.replacing.answer.change.double()
    return render(
        Path(__file__).parent / "templates" / "report.html.j2",
        version=__version__,
        seed=story.seed,
        rows=rows_of(story),
        molecules=len(story.molecules.complete),
        atoms=len(story.molecules.complete.x),
        attributes=", ".join(name.replace("_", " ") for name in story.selection.stack.schema.names),
        sizes=(train, test),
        effort=story.effort,
        why=why(story.selection),
        tried=[(in_words(one.candidate), one.loss, one.weight) for one in _tried(story)],
        embedder=story.embedder,
        filling=story.filling,
        labels=story.few_labels,
        smiles=story.replacing.smiles,
        unknown=", ".join(name.replace("_", " ") for name in FOLLOWS),
        own=float(change[story.replacing.vertex]),
        total=float(change.sum()),
        seconds=story.seconds,
        pictures={name: inline_svg(svg, f"{name}-", name) for name, svg in svgs.items()},
    )
