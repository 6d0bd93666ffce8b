"""README.md and docs/measured.md state what the records say, and a digit that does not fails."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(not (ROOT / "results").is_dir(), reason="a source distribution has no records")


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("measured", ROOT / "docs" / "dev" / "measured.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


measured = _load()
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in measured.TEXTS}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_says_what_the_records_say(name: str) -> None:
    assert measured.filled(TEXTS[name]) == TEXTS[name], "make numbers"


@pytest.mark.parametrize("name", TEXTS)
def test_no_number_in_a_table_of_measurements_is_typed(name: str) -> None:
    assert measured.unmarked(TEXTS[name]) == []


@pytest.mark.parametrize("name", TEXTS)
def test_a_changed_digit_is_found(name: str) -> None:
    """Wherever it is: the first digit between comments, the last one, one in the middle."""
    digits = [place for found in measured._MARKED.finditer(TEXTS[name]) for place in _digits(found)]
    for place in (digits[0], digits[len(digits) // 2], digits[-1]):
        changed = TEXTS[name][:place] + str((int(TEXTS[name][place]) + 1) % 10) + TEXTS[name][place + 1 :]
        assert measured.filled(changed) == TEXTS[name] != changed


def _digits(found: re.Match[str]) -> Iterator[int]:
    yield from (place for place in range(found.start(2), found.end(2)) if found.string[place].isdigit())


def test_a_typed_number_is_found() -> None:
    table = next(line for line in TEXTS["README.md"].splitlines() if line.startswith("|") and "<!--=" in line)
    expression, number = next(found.groups() for found in measured._MARKED.finditer(table))
    typed = TEXTS["README.md"].replace(f"<!--= {expression} -->{number}<!--/-->", number)
    (cell,) = measured.unmarked(typed)
    assert number in cell


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two measurements of one name."""
    path = tmp_path / "measurements.jsonl"
    rows = [
        [{"data": "A", "share": 0.111}, {"data": "B", "share": -0.001}],
        [{"data": "A", "share": 0.2}],
    ]
    lines = [{"name": "step", "date": f"2026-01-0{2 - day}", "found": found} for day, found in enumerate(rows)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(measured, "MEASUREMENTS", path)
    measured.measurements.cache_clear()
    yield path
    measured.measurements.cache_clear()


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("measured step data=A share .2f", "0.11 to 0.20"),
        ("measured step data=A share .0f", "0"),
        ("measured step share .1%", "−0.1 % to 20.0 %"),
        ("last step data=A share .1%", "11.1 %"),
        ("last step data=B share .2f", "0.00"),
    ],
)
def test_several_measurements_are_a_range(expression: str, said: str) -> None:
    text = f"x <!--= {expression} -->old<!--/--> y"
    assert measured.filled(text) == f"x <!--= {expression} -->{said}<!--/--> y"


def test_repetitions_are_a_mean_with_a_deviation(records: Path) -> None:
    line = {"name": "demo", "date": "2026-01-01", "found": {"errors": {"GIN": [1.0, 2.0, 3.0]}}}
    records.write_text(json.dumps(line) + "\n")
    assert measured.value("last demo errors GIN .2f") == "2.00 ± 0.82"


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a <!--= measured walk share .2f -->1<!--/-->", "measured walk share .2f: there is no such number"),
        ("a <!--= measured step data=C share .2f -->1<!--/-->", "there is no such number"),
        ("a <!--= guess step -->1<!--/-->", "there is no such number"),
        ("a <!--= measured step share .2f -->1", "without the one that ends it"),
        ("a 1<!--/-->", "without the one that ends it"),
        ("a\n<!--= measured step data=A share .2f -->1<!--/-->", "line 2 begins with a comment"),
    ],
)
def test_refusals(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        measured.filled(text)


def test_what_a_command_prints_is_recorded_with_what_belongs_to_it(records: Path) -> None:
    command = ["python", "-c", 'print(\'[{"share": 0.5, "none": NaN}]\')']
    measured.record("half", command)
    *_, line = map(json.loads, records.read_text().splitlines())
    assert (line["name"], line["found"]) == ("half", [{"share": 0.5, "none": None}])
    assert line["command"].startswith("python -c ")
    assert {"date", "machine", "versions", "commit"} < line.keys()
    assert line["machine"]["cores"] >= 1
    assert line["versions"]["python"] == sys.version.split()[0]


def test_every_measurement_says_where_it_comes_from() -> None:
    for line in measured.measurements():
        assert {"name", "command", "found", "date", "machine", "versions", "commit"} <= line.keys()
        assert line["versions"] or line["source"], "measured, or typed before there were records"
