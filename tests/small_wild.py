"""Tables as they come out of other programs, for tests: a company with communities and junk, and a dozen wild files."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd

DEPARTMENTS = ("sales", "engineering", "support", "finance")


def draw_company(count: int = 400, seed: int = 0) -> tuple[Any, Any, Any]:
    """Raw tables of people and of who works with whom, and their true departments, a fifth of which is hidden.

    Departments are planted communities: about nine of ten of somebody's four contacts are of the same. No column is
    called id, one is junk (an address that no two share), one is the same everywhere, one is empty, numbers are written
    as people do.
    """
    rng = np.random.default_rng(seed)
    department = rng.integers(len(DEPARTMENTS), size=count)
    people = pd.DataFrame(
        {
            "employee": [f"E{number}" for number in rng.permutation(count) + 1000],
            "email": [f"{''.join(rng.choice(list('abcdefghij'), 8))}@example.org" for _ in range(count)],
            "company": "Example Ltd",
            "fax": None,
            "department": pd.Series(np.array(DEPARTMENTS)[department]).where(rng.random(count) > 0.2),
            "salary": [f"{value:,.0f}" for value in 40_000 + 6_000 * department + rng.normal(0, 9_000, count)],
            "hours": [f"{value:.0f}%" for value in np.clip(rng.normal(80, 10, count), 20, 100)],
            "joined": _days(rng.integers(5_000, size=count)).strftime("%Y-%m-%d"),
        }
    )
    pairs = set()
    for person in range(count):
        same = np.flatnonzero(department == department[person])
        for _ in range(2):
            other = int(rng.choice(same)) if rng.random() < 0.85 else int(rng.integers(count))
            if other != person:
                pairs.add((min(person, other), max(person, other)))
    edges = pd.DataFrame(
        [(people["employee"][first], people["employee"][second]) for first, second in sorted(pairs)],
        columns=["from", "to"],
    )
    return people, edges, np.array(DEPARTMENTS)[department]


def _days(since: Any) -> Any:
    return pd.DatetimeIndex(pd.Timestamp("2010-01-01") + pd.to_timedelta(np.asarray(since), unit="D"))


def _rows(count: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    size = rng.normal(10, 3, count)
    return pd.DataFrame(
        {
            "name": [f"Person {number * 37 % 1000}" for number in range(count)],
            "team": np.where(size > 10, "Köln", "Bonn"),
            "size": size.round(2),
            "note": pd.Series(["late", None] * (count // 2)),
        }
    )


def _with_gaps(rows: pd.DataFrame, column: str) -> Any:
    return rows.assign(**{column: rows[column].where(np.arange(len(rows)) % 5 > 0)})


def _text(rows: pd.DataFrame, separator: str = ",", decimal: str = ".") -> str:
    return str(rows.to_csv(index=False, sep=separator, decimal=decimal, lineterminator="\n"))


def _excel(rows: pd.DataFrame) -> bytes:
    buffer = BytesIO()
    rows.to_excel(buffer, index=False)
    return buffer.getvalue()


def wild_files() -> dict[str, tuple[bytes, str, str | None]]:
    """By file name: the content, the column with gaps that are to be filled, and what a filled cell looks like."""
    rows = _rows()
    gappy = _with_gaps(rows, "team")
    sized = _with_gaps(rows, "size")
    days = _days(3650 + rows["size"].round() * 30)
    written = rows.assign(
        day=days.strftime("%d.%m.%Y"),
        share=[f"{value:.1f}%" for value in 5 * rows["size"]],
        amount=[f"{value:,.1f}" for value in 1000 * rows["size"]],
    )
    words = "Köln|Bonn"
    return {
        "semicolons.csv": (_text(sized, ";", ",").encode("utf-8-sig"), "size", r"\d+,\d+"),
        "tabs.csv": (_text(gappy, "\t").encode(), "team", words),
        "excel-text.csv": (_text(gappy, "\t").encode("utf-16"), "team", words),
        "windows.csv": (_text(gappy, ";").replace("\n", "\r\n").encode("cp1252"), "team", words),
        "old-mac.csv": (_text(gappy).replace("\n", "\r").encode(), "team", words),
        "with-index.csv": (gappy.to_csv(lineterminator="\n").encode(), "team", words),
        "says-so.csv": (("sep=|\n" + _text(gappy, "|")).encode(), "team", words),
        "percent.tsv": (_text(_with_gaps(written, "share"), "\t").encode(), "share", r"\d+\.\d%"),
        "amounts.csv": (_text(_with_gaps(written, "amount")).encode(), "amount", r"\d+,\d{3}\.\d"),
        "dates.csv": (_text(_with_gaps(written, "day")).encode(), "day", r"\d\d\.\d\d\.20\d\d"),
        "sheet.xlsx": (_excel(gappy), "team", words),
        "renamed.csv": (_excel(gappy.assign(day=days)), "team", words),
    }
