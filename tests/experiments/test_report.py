"""Reports: the marks are right, every number is there, and text from outside stays text."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_findings import HOSTILE, NAN, SQUARE, findings, table

from gspn.errors import InputError
from gspn.experiments.findings import Findings, Number, Picture, ResultTable, Row
from gspn.experiments.formatting import caption, counted_otherwise, marks, write
from gspn.experiments.report import figure_names, markdown, page, write_report
from gspn.pages import inline_svg

FOLDS = tuple(range(12))


def only(*parts: Any, **settings: Any) -> Findings:
    return Findings("t", "c", 1, 1, parts, **settings)


def column(*means: float, better: str | None = "higher") -> ResultTable:
    return table(*((f"m{i}", {"NCI1": Number(mean)}) for i, mean in enumerate(means)), better=better)


class Elements(HTMLParser):
    """Tags with their attributes, and the text of all table cells."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.text = ""
        self._in_cell = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag == "td":
            self._in_cell = True
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag != "td"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._in_cell:
            self.cells[-1] += data


@pytest.mark.parametrize(
    ("means", "better", "expected"),
    [
        ((1.0, 3.0, 2.0), "higher", [None, "best", "second"]),
        ((1.0, 3.0, 2.0), "lower", ["best", None, "second"]),
        ((3.0, 3.0, 2.0), "higher", ["best", "best", None]),  # two best ones: there is no second
        ((3.0, 2.0, 2.0, 1.0), "higher", ["best", "second", "second", None]),
        ((3.0, 2.0), None, [None, None]),
        ((3.0,), "higher", [None]),
        ((NAN, 2.0), "higher", [None, None]),
        ((NAN, 2.0, 1.0), "higher", [None, "best", "second"]),
        ((float("inf"), 2.0, 1.0), "lower", [None, "second", "best"]),
        ((1.001, 1.002, 0.5), "higher", ["best", "best", None]),  # they read alike
        ((-0.001, 0.001), "higher", ["best", "best"]),
    ],
)
def test_the_best_and_the_second_are_marked(means: Any, better: str | None, expected: list[str | None]) -> None:
    found = marks(column(*means, better=better))
    assert [found.get((row, "NCI1")) for row in range(len(means))] == expected


@pytest.mark.parametrize("other", [FOLDS[:3], FOLDS[1:11]], ids=["fewer", "others"])
def test_means_over_other_folds_are_not_compared(other: tuple[int, ...]) -> None:
    folds = (FOLDS[:10], other, FOLDS[:10], FOLDS[:10])
    numbers = [Number(mean, 1, folds=own) for mean, own in zip((79, 80, 78, 77), folds, strict=True)]
    shown = table(*((f"m{i}", {"NCI1": number}) for i, number in enumerate(numbers)))
    assert marks(shown) == {(0, "NCI1"): "best", (2, "NCI1"): "second"}
    for text in (markdown(only(shown)), page(only(shown))):
        assert text.count("means over other folds take no part") == text.count("other folds") == 1
    alike = table(*((f"m{i}", {"NCI1": number}) for i, number in enumerate(numbers) if i != 1))
    assert "other folds" not in markdown(only(alike))


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=8), st.sampled_from(["higher", "lower"]))
def test_marked_numbers_read_better_than_all_others(means: list[float], better: str) -> None:
    found = marks(column(*means, better=better))
    sign = 1 if better == "higher" else -1
    written = [sign * float(write(mean, 2).replace("−", "-")) for mean in means]
    best = [written[row] for (row, _), mark in found.items() if mark == "best"]
    second = [written[row] for (row, _), mark in found.items() if mark == "second"]
    rest = [value for row, value in enumerate(written) if (row, "NCI1") not in found]
    assert set(best) == {max(written)}
    assert len(set(second)) <= 1
    assert all(value < max(written) for value in second + rest)
    assert bool(second) == (len(best) == 1)
    assert all(value < min(second) for value in rest if second)


def test_numbers_are_written_with_their_digits() -> None:
    assert [write(value, 2) for value in (1.005, -0.001, -2.5, 1234.5)] == ["1.00", "0.00", "−2.50", "1234.50"]
    assert [write(value, 1) for value in (NAN, float("inf"), -float("inf"))] == ["NaN", "∞", "−∞"]
    assert write(7.6, 0) == "8"


def test_markdown_has_ours_beside_the_papers() -> None:
    ours = {"NCI1": Number(80.123, 1.456, folds=FOLDS[:10]), "COLLAB": Number(70.0, None, folds=FOLDS[:1])}
    shown = table(
        ("GSPN", ours),
        ("GIN", {"NCI1": Number(79, 2, folds=FOLDS[:10])}),
        published={"GIN": {"COLLAB": Number(75.6, 2.3, written=("75.6", "2.3"))}},
    )
    text = markdown(only(shown))
    assert "| GSPN | **80.12 ± 1.46** | 70.00 <sub>(1 fold)</sub> |" in text
    assert "| GIN | <u>79.00 ± 2.00</u> | –<br><sub>paper 75.6 ± 2.3</sub> |" in text
    assert "accuracy (%), higher is better, mean ± standard deviation over 10 folds." in text
    assert text.count("80.12") == text.count("75.6") == 1


@pytest.mark.parametrize(
    ("numbers", "said", "cells"),
    [
        ([Number(1, 2, 3), Number(2, 1, 3)], "mean ± standard deviation over 3 runs", ["", ""]),
        ([Number(1, 2, folds=FOLDS[:10]), Number(2, 1, folds=FOLDS[:3])], "over 10 folds", ["", "3 folds"]),
        ([Number(1, 2, folds=FOLDS[:10]), Number(2, 1, 10)], "over 10 folds", ["", "10 runs"]),
        ([Number(1), Number(2)], "single runs", ["", ""]),
        ([Number(1, None, folds=FOLDS[:1])], "a single fold", [""]),
        ([], "accuracy (%), higher is better", []),
    ],
)
def test_captions_say_what_the_numbers_are_means_over(numbers: list[Number], said: str, cells: list[str]) -> None:
    shown = table(*((f"m{i}", {"NCI1": number}) for i, number in enumerate(numbers)))
    assert caption(shown).endswith(said)
    assert [counted_otherwise(number, shown) for number in numbers] == cells


def test_markdown_keeps_text_as_text() -> None:
    text = markdown(findings())
    assert "<script>" not in text
    assert r"\*a\*" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {9}
    fenced = markdown(replace(findings(), command="echo ```\nnext"))
    assert "````sh\necho ```\nnext\n````" in fenced


@pytest.mark.parametrize("note", ["1. first", "- a dash", "+ more", "2) second", "a &copy; sign", "&lt;b&gt;"])
def test_markdown_takes_no_text_for_lists_or_entities(note: str) -> None:
    (line,) = [line for line in markdown(only(notes=(note,))).splitlines() if line.replace("\\", "") == note]
    assert re.match(r"(\d*[-+.)] )", line) is None
    assert re.search(r"(?<!\\)&", line) is None


def test_an_incomplete_run_says_so() -> None:
    for text in (markdown(findings(12, 20)), page(findings(12, 20))):
        assert "ncomplete: 12 of 20 runs" in text
    for text in (markdown(findings(20, 20)), page(findings(20, 20))):
        assert "omplete: 20 of 20 runs" in text
        assert "ncomplete:" not in text
    assert "0 of 0 runs" in markdown(findings(0, 0))


def test_what_leaves_parts_of_the_grid_out_is_not_complete() -> None:
    partial = replace(findings(20, 20), left_out=("COLLAB", "ECC"))
    for text in (markdown(partial), page(partial)):
        assert "20 of 20 planned runs; left out of this report: COLLAB, ECC" in text
        assert "omplete: 20" not in text
    assert 'class="status incomplete"' in page(partial)


def test_charts_that_show_nothing_and_lines_that_are_lost_are_named() -> None:
    for text in (markdown(findings()), page(findings())):
        assert "lost: no finite number to draw" in text
        assert text.count("No results yet.") == 1


def test_tables_without_rows_or_columns() -> None:
    empty = ResultTable("Empty", "x", "lower", (), ())
    nothing = ResultTable("Nothing", "x", "lower", ("NCI1",), (Row("GSPN", {}, {}),))
    for text in (markdown(only(empty, nothing)), page(only(empty, nothing))):
        assert text.count("No results yet.") == 1
        assert "GSPN" in text


def test_the_page_has_every_number_once() -> None:
    numbers = {"NCI1": Number(81.5, 1.25, 10), "COLLAB": Number(-72.75, None, 1)}
    shown = table(
        ("GSPN", numbers), ("GIN", {"NCI1": Number(79, 2, 10)}), published={"GIN": {"COLLAB": Number(75.6, 2.3)}}
    )
    elements = Elements(page(only(shown)))
    for number in ("81.50", "1.25", "−72.75", "79.00", "75.60", "2.30"):
        assert sum(number in cell for cell in elements.cells) == 1
    assert "1 run" in elements.text
    classes = [attributes.get("class") or "" for tag, attributes in elements.found if tag == "span"]
    assert classes.count("ours best") == classes.count("ours second") == 1
    assert "published" in classes


def test_the_page_needs_nothing_from_elsewhere_and_text_stays_text() -> None:
    html = page(findings())
    elements = Elements(html)
    tags = [tag for tag, _ in elements.found]
    assert not {"script", "iframe", "object", "img"} & set(tags)
    assert HOSTILE in elements.text
    for tag, attributes in elements.found:
        for name in ("src", "href", "xlink:href", "srcset", "data"):
            value = attributes.get(name) or "#"
            assert value.startswith("#") or (tag, value) == ("link", "data:,")
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "@import" not in html


def test_names_inside_pictures_do_not_meet() -> None:
    html = page(only(Picture("one", SQUARE), Picture("two", SQUARE)))
    names = [attributes["id"] for _, attributes in Elements(html).found if "id" in attributes]
    assert len(names) == len(set(names))
    assert {"part-1-g", "part-2-g"} <= set(names)
    assert "url(#part-1-g)" in html
    assert "url(#part-2-g)" in html


@pytest.mark.parametrize("svg", ["", "<svg", "<html/>", "<svg/>", f"{SQUARE}<p/>"])
def test_a_picture_must_be_svg(svg: str) -> None:
    with pytest.raises(InputError, match="'bad'"):
        inline_svg(svg, "p-", "bad")


@given(st.text(max_size=20))
@settings(max_examples=30)
def test_any_title_makes_a_page_and_a_file_name(title: str) -> None:
    found = replace(findings(), title=title, parts=(replace(table(("a", {})), title=title), Picture(title, SQUARE)))
    assert "<h2>" in page(found)
    first, second = figure_names(found)
    assert first != second
    assert re.fullmatch(r"[a-z0-9-]+\.svg", first)
    assert markdown(found).startswith("# ")


def test_figures_have_different_names() -> None:
    found = only(*(Picture(title, SQUARE) for title in ("a 2", "a", "A!", "a", "…")))
    assert figure_names(found) == ["a-2.svg", "a.svg", "a-3.svg", "a-4.svg", "figure.svg"]


def test_the_report_is_written_with_its_figures(tmp_path: Path) -> None:
    written = write_report(findings(), tmp_path / "deep" / "report")
    folder = written.parent
    assert written.name == "report.html"
    linked = re.findall(r"!\[.*?\]\((.*?)\)", (folder / "report.md").read_text(encoding="utf-8"))
    assert linked == ["figures/number-of-levels.svg", "figures/a-square.svg"]
    for name in linked:
        ET.fromstring((folder / name).read_text(encoding="utf-8"))
    files = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    assert files == [*sorted(linked), "report.html", "report.md"]
    before = {file: (folder / file).read_bytes() for file in files}
    write_report(findings(), folder)
    assert {file: (folder / file).read_bytes() for file in files} == before


def test_figures_that_a_report_does_not_show_any_more_are_removed(tmp_path: Path) -> None:
    write_report(only(Picture("old", SQUARE), Picture("both", SQUARE)), tmp_path)
    others = [tmp_path / "figures" / "mine.png", tmp_path / "mine.svg"]
    for other in others:
        other.write_text("not a figure of the report")
    write_report(only(Picture("new", SQUARE), Picture("both", SQUARE)), tmp_path)
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"new.svg", "both.svg", "mine.png"}
    assert all(other.exists() for other in others)
