"""The colours keep what their module promises: readable, neutral in the middle, lighter and darker in order."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gspn.errors import InputError
from gspn.plots.canvas import spread_out
from gspn.plots.colours import (
    BLANK,
    DIVERGING,
    INK,
    PALETTE,
    PAPER,
    QUIET,
    SEQUENTIAL,
    blend,
    contrast,
    ink_on,
    tell_apart,
)
from gspn.plots.scales import Scale, scale_for, write_number

places = st.floats(0, 1)


def channels(colour: str) -> list[int]:
    return list(bytes.fromhex(colour[1:]))


def test_text_can_be_read() -> None:
    assert contrast(INK, PAPER) > 12
    assert contrast(QUIET, PAPER) > 4.5
    assert all(contrast(colour, PAPER) > 2.9 for colour in PALETTE)  # lines and marks, WCAG 1.4.11


@given(places, st.sampled_from([DIVERGING, SEQUENTIAL]))
def test_symbols_can_be_read_on_every_colour(place: float, stops: tuple[str, ...]) -> None:
    colour = blend(stops, place)
    assert contrast(ink_on(colour), colour) > 4.0


def test_scales_grow_darker_away_from_the_neutral_end() -> None:
    steps = np.linspace(0, 1, 41)
    falling = [contrast(blend(SEQUENTIAL, place), PAPER) for place in steps]
    assert all(a < b for a, b in pairwise(falling))
    left = [contrast(blend(DIVERGING, place), PAPER) for place in steps]
    assert all(a > b for a, b in pairwise(left[:21]))
    assert all(a < b for a, b in pairwise(left[20:]))


def test_both_arms_are_equally_strong() -> None:
    for distance in (0.125, 0.25, 0.375, 0.5):
        low, high = (contrast(blend(DIVERGING, 0.5 + sign * distance), PAPER) for sign in (-1, 1))
        assert 0.6 < low / high < 1.7


def test_blue_and_orange_are_told_apart_without_red_and_green() -> None:
    """What people who do not tell red from green still see: more blue than yellow, or less."""
    for distance in (0.2, 0.35, 0.5):
        low, high = (channels(blend(DIVERGING, 0.5 + sign * distance)) for sign in (-1, 1))
        assert low[2] > max(low[:2])
        assert high[2] < min(high[:2])


def test_many_things_look_different() -> None:
    assert len({tell_apart(number) for number in range(2 * len(PALETTE))}) == 2 * len(PALETTE)


def test_a_colour_must_be_one() -> None:
    with pytest.raises(InputError, match="#rrggbb"):
        blend(("red", "#ffffff"), 0.5)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_the_centre_is_neutral_and_all_values_lie_on_the_scale(values: list[float]) -> None:
    scale = scale_for([np.array(values)])
    red, green, blue = channels(scale.colour(0.0))
    assert max(red, green, blue) - min(red, green, blue) <= 4
    assert scale.low == -scale.high
    assert scale.low <= min(values)
    assert max(values) <= scale.high * (1 + 1e-9)
    assert scale.beyond == (False, False)
    assert [written for _, written in scale.ticks()][2] == "0"


def test_missing_values_have_no_colour_of_the_scale() -> None:
    scale = Scale(-1, 1)
    assert scale.colour(math.nan) == BLANK
    assert all(scale.colour(value) != BLANK for value in np.linspace(-1, 1, 33))


def test_a_limit_is_kept_and_what_lies_beyond_is_said() -> None:
    scale = scale_for([np.array([-5.0, 1.0])], limit=2.0)
    assert (scale.low, scale.high, scale.beyond) == (-2, 2, (True, False))
    assert scale.colour(-5) == scale.colour(-2)
    assert [written for _, written in scale.ticks()] == ["≤ −2", "−1", "0", "+1", "+2"]


def test_without_a_centre_the_scale_goes_from_least_to_greatest() -> None:
    scale = scale_for([np.array([3.0, np.nan]), np.array([7.0])], centre=None)
    assert (scale.low, scale.high) == (3, 7)
    assert scale_for([np.array([2.0])], centre=None).high > 2
    with pytest.raises(InputError, match="centre is None"):
        scale_for([np.array([2.0])], centre=None, limit=1)


@pytest.mark.parametrize("limit", [0, -1, math.inf, math.nan, "1"])
def test_a_limit_must_be_positive(limit: float) -> None:
    with pytest.raises(InputError, match="limit must be a positive number"):
        scale_for([np.array([1.0])], limit=limit)


def test_numbers_are_written_briefly() -> None:
    assert [write_number(value) for value in (0.0, -0.0, -1.23456, 1e-7)] == ["0", "0", "−1.23", "1e−07"]
    assert write_number(0.5, signed=True) == "+0.5"


@given(st.lists(st.floats(0, 1), max_size=12))
def test_labels_are_moved_apart_in_their_order(heights: list[float]) -> None:
    placed = spread_out(heights, 0.05)
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    assert all(placed[b] - placed[a] >= 0.05 - 1e-9 for a, b in pairwise(order))
    if all(heights[b] - heights[a] >= 0.05 for a, b in pairwise(order)):
        assert placed == pytest.approx(heights)
