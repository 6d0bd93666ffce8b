"""The page needs nothing else, says what the numbers say, and can be read on a phone and in the dark."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from small_reports import people, small_report

import gspn
from gspn.errors import InputError, NotFittedError
from gspn.reports.page import percent, write_number

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


class Links(HTMLParser):
    """Everything that would be fetched, and everything that would run."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        outside = [value for name, value in attrs if name in ("src", "href", "xlink:href") and value]
        self.fetched += [value for value in outside if not value.startswith(("#", "data:"))]
        if tag in ("script", "iframe", "object"):
            self.fetched.append(tag)


def test_it_needs_no_other_file() -> None:
    links = Links()
    links.feed(small_report().html)
    assert links.fetched == []
    assert "http" not in small_report().html.replace("http://www.w3.org/", "").replace("http-equiv", "")


def test_it_says_what_the_numbers_say() -> None:
    made = small_report()
    dataset, _ = people()
    assert [row["column"] for row in made.numbers] == list(dataset.schema.names)
    for row in made.numbers:
        assert f">{row['column']}</th>" in made.html
    assert made.verdict.partition(".")[0] in made.html
    assert "neighbours are" in made.html


def test_names_are_text_and_not_html() -> None:
    table = pd.DataFrame({"<b>a</b>": [float(n % 5) + 0.5 for n in range(200)]})
    dataset = gspn.from_tables(table, id=None)
    model = gspn.GSPN(dataset.schema, num_layers=1, num_states=2, epochs=1, objective="masked")
    model.fit(dataset, progress=False)
    made = gspn.report(model, dataset, progress=False)
    assert "<b>a</b>" not in made.html
    assert "&lt;b&gt;a&lt;/b&gt;" in made.html
    assert "There are no edges" in made.html


def test_too_few_entries_are_said(tmp_path: Path) -> None:
    dataset = gspn.from_arrays([[1.0], [2.0], [4.0]], schema=gspn.Schema([gspn.attributes.Continuous("a")]))
    model = gspn.GSPN(dataset.schema, num_layers=1, num_states=1, epochs=1, objective="masked")
    made = gspn.report(model.fit(dataset, progress=False), dataset, progress=False)
    assert made.verdict.startswith("not checked")
    assert "Not checked" in made.html
    with pytest.raises(InputError, match=r"saved as \.html"):
        made.save(tmp_path / "report.pdf")
    assert made.save(tmp_path / "report.html").read_text() == made.html


def test_models_that_it_is_not_about_are_refused() -> None:
    dataset, model = people()
    with pytest.raises(InputError, match="needs the graphs"):
        gspn.report(model)
    with pytest.raises(InputError, match="TableImputer, a GSPN or a Stack"):
        gspn.report("model", dataset)  # type: ignore[arg-type]
    with pytest.raises(NotFittedError):
        gspn.report(gspn.TableImputer())


def test_an_imputer_reports_on_its_own_tables() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=90).round(2), "b": rng.choice(["x", "y"], 90)})
    table.loc[:9, "b"] = None
    imputer = gspn.TableImputer(num_layers=1, num_states=2, epochs=2).fit(table, progress=False)
    made = gspn.report(imputer, progress=False)
    assert "Everything was learned again" in made.html
    assert [row["column"] for row in made.numbers] == ["a", "b"]
    asked = gspn.report(imputer, table, progress=False)
    assert "its numbers\nhere are too good" in asked.html


def test_numbers_have_three_digits_that_mean_something() -> None:
    assert [write_number(value) for value in (0.0, 1234567.0, 12.345, 0.012345, -3.14159, float("nan"))] == [
        "0",
        "1,230,000",
        "12.3",
        "0.0123",
        "-3.14",
        "–",
    ]
    assert percent(0.876) == "88\u00a0%"


@pytest.fixture
def file(tmp_path: Path) -> str:
    return small_report().save(tmp_path / "report.html").as_uri()


def test_a_phone_needs_no_scrolling_to_the_side(page: Page, file: str) -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    page.goto(file)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    sizes = page.eval_on_selector_all(
        "figure svg text", "all => all.map(one => one.getBoundingClientRect().height).filter(size => size > 0)"
    )
    assert min(sizes) > 6  # pixels of CSS, of the smallest ticks


def test_it_is_dark_in_the_dark(browser: Browser, file: str) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        shown = context.new_page()
        shown.goto(file)
        style = "getComputedStyle({}).{}"
        seen[scheme] = (
            shown.evaluate(style.format("document.body", "backgroundColor")),
            shown.evaluate(style.format("document.querySelector('figure svg text')", "fill")),
            shown.evaluate(style.format("document.querySelector('#patch_1 path, [id$=patch_1] path')", "fill")),
        )
        context.close()
    brightness = {
        scheme: [sum(map(int, colour[4:-1].split(","))) for colour in colours] for scheme, colours in seen.items()
    }
    assert brightness["light"][0] > 700 > 100 > brightness["dark"][0]
    assert brightness["light"][1] < 150 < 600 < brightness["dark"][1]
    assert brightness["light"][2] > 700 > 150 > brightness["dark"][2]
