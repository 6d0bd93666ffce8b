"""The one table: every question with what each model made of it. The terminal and the page show the same rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gspn.demo.story import Story


class ReportRow(NamedTuple):
    """One measure; of simple and rival models with their names."""

    question: str
    measure: str
    simple: str
    rival: str
    gspn: str
    better: str


def rows_of(story: Story) -> list[ReportRow]:
    """All measures, in the order of the story."""
    simple, rival, ours = story.filling.answers.values()
    hidden = f"fill {story.filling.entries:,} hidden entries"
    names = [f" ({name})" for name in ("commonest", "mixture")]

    def filled(measure: str, better: str, write: str, field: str) -> ReportRow:
        values = [write.format(getattr(answer, field)) for answer in (simple, rival, ours)]
        return ReportRow(hidden, measure, values[0] + names[0], values[1] + names[1], values[2], better)

    labels = story.few_labels
    errors = {name: f"{np.mean(each):.2f} ± {np.std(each):.2f}" for name, each in labels.errors.items()}
    learned, measure = f"octanol-water log P from {labels.labelled} labels (1 %)", "mean absolute error"
    return [
        filled("categories and counts right", "higher", "{:.1%}", "right"),
        filled("mean error of a partial charge", "lower", "{:.3f}", "charge_error"),
        filled("−log-likelihood, nats per entry", "lower", "{:.3f}", "nats"),
        filled("charges inside 90 % intervals", "90 %", "{:.1%}", "covered"),
        ReportRow(
            learned,
            measure,
            f"{errors['constant']} (constant)",
            f"{errors['GIN']} (GIN)",
            errors["ridge on GSPN"],
            "lower",
        ),
        ReportRow(learned, measure, "", f"{errors['ridge on attributes']} (ridge on attributes)", "", "lower"),
    ]
