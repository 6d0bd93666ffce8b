"""Small charts show what they are given, and follow the page's colours."""

from __future__ import annotations

import re

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from gspn.errors import InputError
from gspn.plots import small
from gspn.plots.colours import IN_THE_DARK, INK, PALETTE, PAPER, QUIET, contrast
from gspn.plots.files import svg_text
from gspn.plots.themes import CSS, themed, variable


def test_every_method_has_a_mark_in_every_row() -> None:
    figure = small.errors_beside(["age", "pay"], {"gspn": [0.5, 0.9], "mean": [1.0, np.nan]})
    (axes,) = figure.axes
    marks = {line.get_label(): np.asarray(line.get_xdata()) for line in axes.lines if line.get_marker() != "None"}
    assert marks["gspn"].tolist() == [0.5, 0.9]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["age", "pay"]
    with pytest.raises(InputError, match="for 2 names"):
        small.errors_beside(["age", "pay"], {"gspn": [0.5]})
    with pytest.raises(InputError, match="no errors"):
        small.errors_beside([], {})


def test_shares_of_the_right_stand_over_their_probabilities() -> None:
    """Bins of an eighth; those with fewer than five answers say nothing."""
    promised = [0.95] * 20 + [0.55] * 10 + [0.3] * 2
    right = [1.0] * 19 + [0.0] + [1.0, 0.0] * 5 + [1.0] * 2
    (axes,) = small.reliability(promised, right).axes
    line = axes.lines[-1]
    assert np.asarray(line.get_xdata()).tolist() == pytest.approx([0.55, 0.95])
    assert np.asarray(line.get_ydata()).tolist() == pytest.approx([0.5, 0.95])


def test_what_is_outside_its_interval_is_orange() -> None:
    (axes,) = small.against_truth([1.0, 2.0, 9.0], [1.1, 2.1, 3.0], [0, 1, 2], [2, 3, 4], "age").axes
    marks = {
        line.get_color(): np.asarray(line.get_xdata()).size for line in axes.lines if line.get_marker() in ("o", "D")
    }
    assert marks == {PALETTE[0]: 2, PALETTE[1]: 1}


def test_all_numbers_are_counted() -> None:
    for numbers in ([1, 1, 2, 7], np.arange(1_000)):
        (axes,) = small.histogram(numbers).axes
        assert sum(bar.get_height() for bar in axes.patches if isinstance(bar, Rectangle)) == len(numbers)
        assert len(axes.patches) <= 26
    with pytest.raises(InputError, match="empty"):
        small.histogram([])


def test_no_colour_is_left_that_does_not_follow_the_page() -> None:
    figure = small.promises([0.5, 0.9], {"age": [0.4, 0.9], "pay": [0.6, 0.8]}, 50)
    text = themed(svg_text(figure))
    bare = re.sub(r"var\(--plot-[a-z0-9-]+, #[0-9a-f]{6}\)", "", text)
    assert not re.search(r"(fill|stroke): #", bare)
    assert set(re.findall(r"var\((--plot-[a-z0-9-]+)", text)) <= set(re.findall(r"--plot-[a-z0-9-]+", CSS))
    assert variable(INK) == "var(--plot-ink)"


def test_what_is_dark_can_be_read() -> None:
    paper = IN_THE_DARK[PAPER]
    assert contrast(IN_THE_DARK[INK], paper) > 12
    assert contrast(IN_THE_DARK[QUIET], paper) > 4.5
    assert all(contrast(IN_THE_DARK[colour], paper) > 4.5 for colour in PALETTE)  # names of curves are written in them
