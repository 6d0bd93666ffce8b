"""The documentation is true: its Python and its commands run as they stand, page by page, each in an empty folder.

A block that would take too long stands under a comment `<!-- slow: REASON -->`; it is parsed, not run, and there are
few of them. A block of text after one of Python is what that prints, up to its numbers: machines differ in these.
"""

from __future__ import annotations

import ast
import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "api" not in path.parts),
]
MOST_SLOW_BLOCKS = 10

_BLOCK = re.compile(
    r"(?:^<!-- slow: (?P<slow>.+?) -->\n)?^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
_SHELL = ("sh", "bash", "shell", "console")


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is the number of its first line of code, `slow` the reason why it is not run."""

    page: Path
    line: int
    language: str
    code: str
    slow: str | None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def python(self) -> Any:
        """The code, compiled so that errors point at lines of the page."""
        return compile("\n" * (self.line - 1) + self.code, str(self.page), "exec")

    def commands(self) -> Iterator[list[str]]:
        """The commands of a shell block in words; a backslash at the end of a line continues it."""
        for line in self.code.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield words[1:] if words[0] == "$" else words


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text[: found.start("code")].count("\n") + 1, found["language"], found["code"], found["slow"])
        for found in _BLOCK.finditer(text)
    ]


BLOCKS = {page: blocks_of(page) for page in PAGES}
ALL = [block for blocks in BLOCKS.values() for block in blocks]
RUN = [page for page, blocks in BLOCKS.items() if any(b.language in ("python", *_SHELL) and not b.slow for b in blocks)]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.usefixtures("own_registries")
@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_blocks_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In order, Python in one namespace, commands in the same folder."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    printed = ""
    for block in BLOCKS[page]:
        if block.slow:
            continue
        if block.language == "python":
            capsys.readouterr()
            exec(block.python(), names)
            printed = capsys.readouterr().out
        elif block.language == "text":
            assert without_numbers(printed) == without_numbers(block.code), f"{block.place}: it prints\n{printed}"
        elif block.language in _SHELL:
            for words in block.commands():
                run_command(words, block, monkeypatch)


def without_numbers(text: str) -> list[list[str]]:
    return [re.sub(r"[\d.]+", "0", line).split() for line in text.strip().splitlines()]


def run_command(words: list[str], block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    if words[0] == "gspn":
        code = run_gspn(words, monkeypatch)
        assert code in (None, 0), f"{block.place}: {shlex.join(words)} ended with {code}"
        return
    assert words[0] in ("python", "torchrun"), f"{block.place}: {words[0]} is not run by this test; mark the block slow"
    program = [sys.executable] if words[0] == "python" else [sys.executable, "-m", "torch.distributed.run"]
    done = subprocess.run([*program, *words[1:]], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{block.place}: {shlex.join(words)}\n{done.stderr}"


def run_gspn(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    """In this process: starting another one, which imports torch, takes longer than most commands.

    What a command sets for the rest of its process is put back.
    """
    from gspn.cli.main import main

    logger = logging.getLogger("gspn")
    level = logger.level
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", words)
        patch.setattr(sys, "tracebacklimit", 1000, raising=False)
        patch.setattr(logger, "handlers", list(logger.handlers))
        try:
            main()
        except SystemExit as end:
            return end.code
        finally:
            logger.setLevel(level)
    return None


def test_every_block_can_be_parsed() -> None:
    for block in ALL:
        if block.language == "python":
            ast.parse(block.code, block.place)
        elif block.language in _SHELL:
            for words in block.commands():
                check_command(words, block.place)
        else:
            assert block.language in ("text", "toml", "bibtex", "json"), f"{block.place}: what is {block.language!r}?"


def test_few_blocks_are_slow() -> None:
    slow = [f"{block.place}: {block.slow}" for block in ALL if block.slow]
    assert len(slow) <= MOST_SLOW_BLOCKS, "\n".join(slow)
    written = sum(page.read_text(encoding="utf-8").count("<!-- slow:") for page in PAGES)
    assert written == len(slow), "a comment about slowness stands before no block"


def test_commands_in_running_text_exist() -> None:
    """`gspn …`, `make …`, examples and benchmarks that are named between backticks."""
    for page in PAGES:
        text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
        for code in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text):
            words = code.split()
            if words[:1] == ["gspn"] and len(words) > 1 and re.fullmatch(r"[a-z-]+", words[1]):
                check_gspn(words[1:2], page.name)
            elif words[:1] in (["make"], ["python"]) and len(words) > 1 and "…" not in code:
                check_command(shlex.split(code), page.name)


def check_command(words: list[str], place: str) -> None:
    """Does the command exist, with these options?"""
    if words[0] == "gspn":
        check_gspn(words[1:], place)
    elif words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
        for target in words[1:]:
            assert target in targets or "=" in target, f"{place}: make has no target {target}"
    elif words[0] in ("python", "torchrun") and words[1:3] == ["-m", "gspn.benchmarks"]:
        assert (ROOT / "src" / "gspn" / "benchmarks" / f"{words[3]}.py").exists(), f"{place}: no benchmark {words[3]}"
    elif words[0] == "python" and words[1].startswith(("examples/", "docs/")):
        assert (ROOT / words[1]).exists(), f"{place}: there is no {words[1]}"


def check_gspn(words: list[str], place: str) -> None:
    """Are these a command and options that `gspn` has?"""
    import typer

    from gspn.cli.main import app

    command: Any = typer.main.get_command(app)
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        assert words[0] in command.commands, f"{place}: gspn has no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
    for word in words:
        if re.match(r"--?[a-z]", word):
            assert word.split("=")[0] in known, f"{place}: gspn {command.name} has no option {word}"


def test_numbers_have_their_command() -> None:
    """Every row of the table of measurements says how it was measured."""
    measured = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!what|---).*\| (.*) \|$", measured[measured.index("| what | measured | how |") :], re.M)
    assert len(rows) >= 10
    assert all("`" in how or "the same" in how for how in rows)


def test_site_is_built_without_warnings_and_asks_nobody(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pages = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert len(pages) > len(PAGES)
    fetched = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
    for path, text in pages.items():
        assert not fetched.search(text), f"{path.name} takes content from another host: {fetched.search(text)}"
        assert "arithmatex" not in text, f"{path.name}: an equation did not become MathML"
    for path in tmp_path.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", path.read_text(encoding="utf-8")), path.name


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / "dev").glob("*.md")], ids=name_of
)
def test_files_that_pages_name_exist(page: Path) -> None:
    """Paths in the repository, as `src/gspn/…` or `tests/…`; a star stands for anything."""
    named = re.findall(r"`((?:src|tests|docs|examples)/[\w./*-]+)`", page.read_text(encoding="utf-8"))
    missing = [path for path in named if not any(ROOT.glob(path.rstrip("/")))]
    assert not missing, f"{name_of(page)} names {missing}"
