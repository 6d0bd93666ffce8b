"""The page's files: what they share with the rest of the library, and what they must not contain."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gspn import web
from gspn.plots.colours import DIVERGING

STATIC = Path(str(web.__file__)).parent / "static"
SCRIPTS = sorted((STATIC / "js").glob("*.js"))


def test_the_scale_is_that_of_the_figures() -> None:
    found = re.search(r"light: \[(.*?)\]", (STATIC / "js" / "scale.js").read_text(encoding="utf-8"))
    assert found
    assert re.findall(r"#\w{6}", found[1]) == list(DIVERGING)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_parse_and_write_no_markup(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text)
    assert len(text.splitlines()) < 400
    if node := shutil.which("node"):
        subprocess.run([node, "--check", str(script)], check=True, capture_output=True)


def test_nothing_comes_from_other_hosts() -> None:
    for file in STATIC.rglob("*.*"):
        addresses = set(re.findall(r"https?://[^\s\"'`<>)]+", file.read_text(encoding="utf-8")))
        assert addresses <= {"http://www.w3.org/2000/svg"}, file


def test_the_page_has_no_scripts_or_styles_of_its_own() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*src=)", page) == []
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)
