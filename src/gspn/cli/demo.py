"""`gspn demo`: the demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gspn.cli import options


@options.bundled
def show_demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pictures and the report.")] = Path(
        "gspn-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Fixes everything random.")] = 0,
    effort: Annotated[str, typer.Option(help="How much is tried: quick, normal or thorough.")] = "quick",
    force: options.Force = False,
    *,
    printing: options.Printing,
) -> None:
    """Show in a minute or two what the library does, on molecules that it brings along.

    Chooses models without labels, fills hidden attributes, learns a property from 1 % of the labels, replaces an atom;
    prints one table and writes pictures and a page. A folder of an earlier demonstration is renewed.
    """
    console = printing.console()
    _check_folder(output, force)
    _check_extras()
    from gspn.demo.report import numbers_of, write_report
    from gspn.demo.rows import rows_of
    from gspn.demo.story import tell

    story = tell(seed, effort, say=console.note, progress=console.progress)
    files = write_report(story, output)
    console.note("")
    console.table(_without_repeats([row._asdict() for row in rows_of(story)]))
    found = story.replacing
    total = float(found.answer.change.double().sum())
    console.say(f"Cl replaced by O in {found.smiles}: {total:+.2f} nats in all, by atom in {output / 'change.svg'}")
    console.say(
        f"The report is {files[0]}; beside it {', '.join(path.name for path in files[1:])}. {story.seconds:.0f} s."
    )
    console.result(numbers_of(story) | {"files": [str(path) for path in files]})


def _without_repeats(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with what stands above already left out of the first column."""
    above = [None, *(row["question"] for row in rows[:-1])]
    shown = [row | {"question": ""} if row["question"] == last else row for row, last in zip(rows, above, strict=True)]
    return [{{"gspn": "GSPN", "better": "better is"}.get(name, name): row[name] for name in row} for row in shown]


def _check_folder(folder: Path, force: bool) -> None:
    """Renew an earlier demonstration, but put nothing among other people's files unasked."""
    from gspn.errors import InputError

    if folder.is_file():
        raise InputError(f"{folder} is a file; --output names a folder")
    ours = (folder / "numbers.json").exists() and (folder / "report.html").exists()
    if folder.is_dir() and any(folder.iterdir()) and not ours and not force:
        raise InputError(f"{folder} holds other files; choose another --output, or --force to write among them")


def _check_extras() -> None:
    """Before any work: the molecules need one extra, the pictures another."""
    from importlib.util import find_spec

    from gspn.errors import MissingExtraError

    absent = [name for name in ("rdkit", "matplotlib", "networkx") if find_spec(name) is None]
    if absent:
        raise MissingExtraError(f"the demonstration needs {', '.join(absent)}: pip install 'gspn[chem,plots]'")
