"""The pictures of a report, as SVG that follows the page's colours. What is drawn, and how it looks, is in `plots`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from markupsafe import Markup

from gspn.errors import MissingExtraError
from gspn.pages import inline_svg
from gspn.plots import small
from gspn.plots.calibration import LEVELS
from gspn.plots.files import svg_text
from gspn.plots.themes import themed
from gspn.reports.certainty import Answers
from gspn.reports.checking import OURS, Check
from gspn.reports.surroundings import Surroundings
from gspn.reports.targets import HeldOut

MOST = 30
"""Columns in one picture of errors: those after them have their rows in the table."""
_MOST_LINES, _MOST_SCATTERED = 5, 4


def pictures(
    check: Check | None, surroundings: Surroundings | None, targets: HeldOut | None = None
) -> dict[str, Markup]:
    """By name; without matplotlib none, as a report can be read without them."""
    try:
        return dict(_drawn(check, surroundings) + of_targets(targets))
    except MissingExtraError:
        return {}


def _drawn(check: Check | None, surroundings: Surroundings | None) -> list[tuple[str, Markup]]:
    found = []
    if check is not None:
        found += of_errors(check) + of_certainty([column.answers for column in check.columns])
        scattered = [column.answers for column in check.columns if column.answers.is_number][:_MOST_SCATTERED]
        found += [of_numbers(own, f"truth-{number}") for number, own in enumerate(scattered)]
    if surroundings is not None and surroundings.edges:
        title = "How many vertices have how many edges"
        figure = small.histogram(surroundings.degrees, "edges of a vertex", "vertices")
        found.append(("degrees", _inline(figure, "degrees", title)))
    return found


def of_targets(held_out: HeldOut | None) -> list[tuple[str, Markup]]:
    found = []
    for number, one in enumerate(() if held_out is None else held_out.targets[:_MOST_SCATTERED]):
        found += of_certainty([one.answers], f"target-{number}-")
        if one.answers.is_number:
            found.append(of_numbers(one.answers, f"target-{number}"))
    return found


def of_errors(check: Check) -> list[tuple[str, Markup]]:
    told = [column for column in check.columns if column.relative(OURS) == column.relative(OURS)][:MOST]
    if not told:
        return []
    figure = small.errors_beside(
        [column.name for column in told],
        {name: [column.relative(name) for column in told] for name in check.methods},
        "error, as a share of the mean's",
    )
    return [("errors", _inline(figure, "errors", "Errors of all methods, column by column"))]


def of_certainty(answers: Sequence[Answers], prefix: str = "") -> list[tuple[str, Markup]]:
    """Whether intervals of numbers, and probabilities of categories, are what they promise."""
    found = []
    numbers = [own for own in answers if own.is_number]
    if numbers:
        many = len(numbers) > _MOST_LINES
        pooled = torch.stack([torch.cat([own.inside(level) for own in numbers]).double().mean() for level in LEVELS])
        shares = {"all columns": pooled} if many else {own.attribute.name: own.shares_inside(LEVELS) for own in numbers}
        count = sum(len(own.truth) for own in numbers) if many else min(len(own.truth) for own in numbers)
        title = "Share of truths inside intervals, against what the intervals promise"
        name = f"{prefix}intervals"
        found.append((name, _inline(small.promises(LEVELS, shares, count), name, title)))
    categories = [own for own in answers if not own.is_number]
    if categories:
        right = torch.cat([(own.best == own.truth).double() for own in categories])
        figure = small.reliability(torch.cat([own.probability for own in categories]), right)
        title = "How often the most probable value is right, against its probability"
        found.append((f"{prefix}probabilities", _inline(figure, f"{prefix}probabilities", title)))
    return found


def of_numbers(own: Answers, name: str) -> tuple[str, Markup]:
    figure = small.against_truth(own.truth, own.best, own.low, own.high, own.attribute.name)
    return name, _inline(figure, name, f"{own.attribute.name}: predicted against true")


def _inline(figure: object, name: str, title: str) -> Markup:
    return inline_svg(themed(svg_text(figure)), f"{name}-", title)  # type: ignore[arg-type]
