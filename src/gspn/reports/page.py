"""A report as one HTML page that needs nothing else: no script, no other file. Looks are in `templates`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from markupsafe import Markup

from gspn import __version__
from gspn.attributes import Binary, Categorical, Schema
from gspn.graphs import GraphDataset
from gspn.pages import render
from gspn.plots.themes import CSS
from gspn.policy import Selection
from gspn.policy.telling import in_words, judged, why
from gspn.reports.checking import FEW, OURS, Check
from gspn.reports.figures import MOST, pictures
from gspn.reports.surroundings import Surroundings
from gspn.reports.targets import HeldOut, TargetScores

_TEMPLATES = Path(__file__).parent / "templates"
_SHOWN = 8
"""Candidates that are listed at once; the others unfold."""

_MOST_CLASSES = 12
"""Of a table of confusions."""
_NAMED = 6
"""Columns that a sentence names."""


@dataclass(frozen=True, eq=False)
class PageParts:
    """What a report is made of; parts that are None are left out."""

    title: str
    dataset: GraphDataset
    surroundings: Surroundings
    check: Check | None = None
    why_unchecked: str = ""
    """Why there is no check"""
    selection: Selection | None = None
    model: str = ""
    """Of the model, where nothing was chosen"""
    targets: HeldOut | None = None
    tried: Sequence[Mapping[str, Any]] = ()
    """Heads that were tried, the best first: target, head, settings, loss and score"""
    command: str = ""
    seconds: float = math.nan


def write_page(parts: PageParts) -> str:
    """The whole page as text."""
    entries = parts.dataset.entries()
    missing = entries.isnan().sum(0).tolist()
    return render(
        _TEMPLATES / "report.html.j2",
        css=Markup(CSS + (_TEMPLATES / "report.css").read_text(encoding="utf-8")),
        parts=parts,
        attributes=_described(parts.dataset.schema, missing, len(entries)),
        gaps=sum(missing),
        known=entries.numel() - sum(missing),
        check=parts.check,
        verdict=None if parts.check is None else verdict(parts.check),
        certainty=None if parts.check is None else honesty(parts.check),
        ours=OURS,
        few=FEW,
        most=MOST,
        around=parts.surroundings,
        degrees=_degrees(parts.surroundings),
        chosen=None if parts.selection is None else _chosen(parts.selection),
        pictures=pictures(parts.check, parts.surroundings, parts.targets),
        confusions=[] if parts.targets is None else [confusion(one) for one in parts.targets.targets],
        write=write_number,
        percent=percent,
        score=write_score,
        version=__version__,
        today=date.today().isoformat(),
    )


def verdict(check: Check) -> str:
    """Who fills best, in a sentence or two; whoever it is."""
    own, total = check.wins(OURS), len(check.columns)
    clear = sum(column.clear for column in own)
    others = [column for column in check.columns if column.best != OURS]
    how_many = "no column" if not own else f"all {total} columns" if not others else f"{len(own)} of {total} columns"
    surely = "" if not own or clear == len(own) else f" ({clear or 'none'} by more than chance)"
    first = f"gspn fills {how_many} best{surely}"
    told = [f"{column.name} ({column.best}{'' if column.clear else ', within chance'})" for column in others]
    second = f"; others are ahead in {_listed(told)}" if told else ""
    overall = check.overall()
    leader = min(overall, key=lambda name: overall[name] if not math.isnan(overall[name]) else math.inf)
    if math.isnan(overall[leader]):
        return f"{first}{second}."
    share = f"{percent(overall[leader])} of the error of column means"
    ours = "" if leader == OURS else f"; gspn at {percent(overall[OURS])}"
    return f"{first}{second}. Over all columns {leader} errs least, at {share}{ours}."


def honesty(check: Check) -> str:
    """Whether its certainty can be trusted."""
    off = check.dishonest()
    inside = sum(column.covered * column.hidden for column in check.columns) / check.entries
    first = f"Of all hidden values {percent(inside)} were in the intervals and sets that promise 90\u00a0%"
    if not off:
        return f"{first}; no column is off by more than chance."
    told = [f"{column.name} ({percent(column.covered)})" for column in off]
    return f"{first}; off by more than chance: {_listed(told)}."


def _described(schema: Schema, missing: Sequence[int], rows: int) -> list[Mapping[str, Any]]:
    return [
        {"name": one.name, "kind": one.kind, "missing": count, "share": count / max(rows, 1)}
        for one, count in zip(schema, missing, strict=True)
    ]


def _degrees(around: Surroundings) -> str:
    if not len(around.degrees):
        return ""
    ordered = sorted(around.degrees.tolist())
    middle = ordered[len(ordered) // 2]
    return f"from {ordered[0]:,} to {ordered[-1]:,}, half of them at most {middle:,}"


def _chosen(selection: Selection) -> Mapping[str, Any]:
    """What was tried, the best first, and what the edges were worth."""
    best = judged(selection) or [one for one in selection.tried if one.weight > 0]
    alone = [one.loss for one in best if one.candidate.edges == "no edges"]
    joined = [one.loss for one in best if one.candidate.edges != "no edges"]
    rows = [(in_words(one.candidate), one.loss, one.weight) for one in best]
    first = [row for place, row in enumerate(rows) if place < _SHOWN or row[2] > 0]
    gain = min(alone) - min(joined) if alone and joined and selection.held_out else math.nan
    return {
        "why": why(selection),
        "rows": first,
        "rest": [row for row in rows if row not in first],
        "failed": sum(one.error is not None for one in selection.tried),
        "gain": None if math.isnan(gain) else gain,
        "held_out": selection.held_out,
    }


def _listed(told: Sequence[str]) -> str:
    more = len(told) - _NAMED
    return ", ".join(told[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def confusion(one: TargetScores) -> Mapping[str, Any] | None:
    """How often each class was called what; None for numbers, and where there are too many classes to read."""
    own, attribute = one.answers, one.attribute
    if not isinstance(attribute, Categorical | Binary):
        return None
    values = attribute.categories if isinstance(attribute, Categorical) else (False, True)
    codes = sorted({*own.truth.long().tolist(), *own.best.long().tolist()})
    if len(codes) > _MOST_CLASSES:
        return None
    rows = []
    for code in codes:
        called = own.best[own.truth == code].long()
        counts = [int((called == other).sum()) for other in codes]
        rows.append((str(values[code]), [(count, count / max(len(called), 1)) for count in counts]))
    return {"names": [str(values[code]) for code in codes], "rows": rows}


def write_number(value: float) -> str:
    """Three digits that mean something."""
    if math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    if -12 < digits < 5:
        return f"{round(value, digits):,.{max(digits, 0)}f}"
    return f"{value:.2e}"


def write_score(value: float) -> str:
    """Three places behind the point, as scores are read; of what is far from 1, three digits."""
    return f"{value:.3f}" if abs(value) < 10 else write_number(value)


def percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.0%}".replace("%", "\u00a0%")
