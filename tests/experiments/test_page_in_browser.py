"""The report in a real browser: nothing is fetched, nothing complains, everything fits and can be read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from small_findings import HOSTILE, findings

from gspn.experiments.report import write_report
from gspn.plots.colours import contrast

if TYPE_CHECKING:
    from playwright.sync_api import Page

# The text colour of each of these, and the first background below it that is not transparent.
COLOURS = """
selector => [...document.querySelectorAll(selector)].map(element => {
    let below = element;
    while (below && getComputedStyle(below).backgroundColor === 'rgba(0, 0, 0, 0)') below = below.parentElement;
    return [getComputedStyle(element).color, getComputedStyle(below || document.body).backgroundColor];
})
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    report: Path = write_report(findings(), tmp_path_factory.mktemp("report"))
    return report.as_uri()


def test_nothing_is_fetched_and_hostile_text_does_nothing(page: Page, address: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    page.goto(address)
    assert [url for url in asked if not url.startswith("data:")] == [address]
    assert page.title() == "Classification"
    assert HOSTILE in page.locator("tbody").inner_text()
    assert page.locator("script").count() == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_overflows_and_figures_are_visible(page: Page, address: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(address)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    figures = page.locator("figure > svg")
    assert figures.count() == 2
    for figure in figures.all():
        box = figure.bounding_box()
        assert box is not None
        assert box["width"] > 300
        assert box["height"] > 40
    outer, inner = page.locator(".table").first, page.locator("table").first
    boxes = outer.bounding_box(), inner.bounding_box()
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["x"] + boxes[0]["width"] <= width
    if width < 600:  # the table scrolls in its box, and what a row is about stays in sight
        assert boxes[1]["width"] > boxes[0]["width"]
        outer.evaluate("box => box.scrollLeft = 10000")
        label = page.locator("tbody th").first.bounding_box()
        assert label is not None
        assert label["x"] >= boxes[0]["x"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_can_be_read(page: Page, address: str, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(address)
    for selector in ("h1", "p", "a", "th", ".ours", ".deviation", ".published", ".status", ".notes li", "dt", "code"):
        pairs = page.evaluate(COLOURS, selector)
        assert pairs, selector
        for ink, paper in pairs:
            assert contrast(hexadecimal(ink), hexadecimal(paper)) > 4.5, (selector, ink, paper)
    background = hexadecimal(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (contrast(background, "#000000") > 10) == (scheme == "light")


def test_the_contents_lead_to_the_parts(page: Page, address: str) -> None:
    page.goto(address)
    links = page.locator("nav a")
    assert links.count() == 5
    for link in links.all():
        assert page.locator(link.get_attribute("href") or "none").count() == 1


def test_numbers_stand_under_each_other(page: Page, address: str) -> None:
    page.goto(address)
    cell = page.locator("tbody td").first
    assert cell.evaluate("e => getComputedStyle(e).textAlign") == "right"
    assert "tabular-nums" in cell.evaluate("e => getComputedStyle(e).fontVariantNumeric")


def hexadecimal(colour: str) -> str:
    red, green, blue = (int(number) for number in re.findall(r"\d+", colour)[:3])
    return f"#{red:02x}{green:02x}{blue:02x}"
