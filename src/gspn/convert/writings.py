"""Numbers as people write them: dates, 87 %, 1,234.5 and 3,14; and the same writing for what is filled in.

Columns are read as a whole: one that holds a number in such a writing in every cell is a column of numbers. Which
columns a table has, and what they are for, is in `tables`. Dates are days since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Protocol, TypeAlias

from gspn.attributes import Attribute, Categorical
from gspn.columns import is_missing, shorten
from gspn.convert.files import Table, import_pandas, parse_cells
from gspn.errors import Advice, InputError, Problems

_EPOCH, _DAY = datetime(1970, 1, 1), timedelta(days=1)
_SAMPLE = 200

_DATES = {
    "%Y-%m-%d": r"\d{4}-\d\d?-\d\d?",
    "%Y/%m/%d": r"\d{4}/\d\d?/\d\d?",
    "%d.%m.%Y": r"\d\d?\.\d\d?\.\d{4}",
    "%m/%d/%Y": r"\d\d?/\d\d?/\d{4}",
    "%d/%m/%Y": r"\d\d?/\d\d?/\d{4}",
}
_TIMES = {"": "", "%H:%M": r"\d\d?:\d\d", "%H:%M:%S": r"\d\d?:\d\d:\d\d", "%H:%M:%S.%f": r"\d\d?:\d\d:\d\d\.\d+"}


class Writing(Protocol):
    """How the cells of a column write numbers."""

    def read(self, cell: Any) -> float | None:
        """The number; None of what is not written so."""

    def write(self, value: float) -> Any:
        """A cell."""


@dataclass(frozen=True)
class _Numeral:
    """Digits in groups of three, a point or a comma before fractions, perhaps %."""

    group: str
    point: str
    percent: str = ""
    digits: int = 0
    """of fractions, where one is written"""
    grouped: bool = False
    """whether one is written in groups"""

    def read(self, cell: Any) -> float | None:
        if not isinstance(cell, str) or not self._pattern().fullmatch(cell := cell.strip()):
            return None
        bare = cell.removesuffix("%").rstrip()
        return float(bare.replace(self.group, "").replace(self.point, "."))

    def write(self, value: float) -> str:
        text = f"{value:{',' if self.grouped else ''}.{self.digits}f}"
        return text.translate(str.maketrans(",.", self.group + self.point)) + self.percent

    def like(self, cells: Iterable[str]) -> _Numeral:
        """The same, with fractions and groups as in these cells."""
        bare = [cell.strip().removesuffix("%").rstrip() for cell in cells]
        digits = max((len(cell.partition(self.point)[2]) for cell in bare), default=0)
        return _Numeral(self.group, self.point, self.percent, digits, any(self.group in cell for cell in bare))

    def _pattern(self) -> re.Pattern[str]:
        group, point = re.escape(self.group), re.escape(self.point)
        end = r"\s?%" if self.percent else ""
        return re.compile(rf"[+-]?(\d{{1,3}}({group}\d{{3}})+|\d+)({point}\d+)?{end}")


@dataclass(frozen=True)
class _Moment:
    """Dates as text."""

    form: str
    pattern: str

    def read(self, cell: Any) -> float | None:
        if not isinstance(cell, str) or not re.fullmatch(self.pattern, cell := cell.strip()):
            return None
        try:
            return (datetime.strptime(cell, self.form) - _EPOCH) / _DAY
        except ValueError:
            return None

    def write(self, value: float) -> str:
        return _moment(value, whole_days="%H" not in self.form).strftime(self.form)


@dataclass(frozen=True)
class _Clock:
    """Dates as pandas or Python has them."""

    whole_days: bool
    as_date: bool
    zone: Any = None

    def read(self, cell: Any) -> float | None:
        moment = import_pandas().Timestamp(cell)
        moment = moment if moment.tzinfo is None else moment.tz_convert(None)
        return float((moment - import_pandas().Timestamp(_EPOCH)) / _DAY)

    def write(self, value: float) -> Any:
        moment = _moment(value, self.whole_days)
        if self.as_date:
            return moment.date()
        stamp = import_pandas().Timestamp(moment)
        return stamp if self.zone is None else stamp.tz_localize("UTC").tz_convert(self.zone)


def _moment(value: float, whole_days: bool) -> datetime:
    least, most = ((edge - _EPOCH) / _DAY for edge in (datetime(1000, 1, 1), datetime(9999, 12, 31)))
    days = min(max(value, least), most)
    moment = _EPOCH + timedelta(days=round(days) if whole_days else days)
    return moment if whole_days else moment.replace(microsecond=0)


Kinds: TypeAlias = Mapping[str, Attribute | str]


def find_writing(column: Any, comma: bool = False) -> Writing | None:
    """How all present cells of a column write numbers; None where they are plain numbers, or none.

    `comma` says that 1,234 is rather a little more than one, as in files whose cells are separated by semicolons.
    """
    writing, misfit = _likely_writing(column, comma)
    return None if misfit is not None else writing


def as_numbers(columns: Mapping[str, Any], kinds: Kinds, table: Table, problems: Problems) -> dict[str, Any]:
    """The columns with numbers in place of their writings, except where they are said to be categories.

    Also columns that were read as text for their leading zeros, where numbers are what they are said to be. A column
    that is written so but for some cells is noted as a problem, and left out.
    """
    pandas, found = import_pandas(), {}
    for name, column in columns.items():
        said = kinds.get(name)
        if said is not None and _is_categorical(said):
            found[name] = column
            continue
        writing, misfit = _likely_writing(column, table.separator == ";")
        if misfit is not None and said is None:
            row = next(row for row, cell in enumerate(column) if not is_missing(cell) and cell == misfit)
            problems.found.append(
                InputError(
                    f"{table.place(row)}, attribute {name!r}: {shorten(misfit)} is not a number or date, but most "
                    "values are; mend it, or keep it as a category",
                    advice=[Advice("overrides", "if it is meant", {name: "categorical"}, doubtful=True)],
                )
            )
        elif writing is not None:
            values = [None if is_missing(cell) else writing.read(cell) for cell in column.tolist()]
            read = pandas.Series(values, index=column.index, dtype=float)
            found[name] = read if misfit is None else read.astype(object).where(read.notna(), column)
        elif said is not None and pandas.api.types.infer_dtype(column, skipna=True) == "string":
            found[name] = parse_cells(pandas, column)
        else:
            found[name] = column
    return found


def _is_categorical(kind: Attribute | str) -> bool:
    if isinstance(kind, str):
        return kind == "categorical"
    return isinstance(kind, Categorical) and any(isinstance(category, str) for category in kind.categories)


def _likely_writing(column: Any, comma: bool) -> tuple[Writing | None, Any]:
    """The writing of at least half of the different cells, and the first cell that is written otherwise."""
    kind = import_pandas().api.types.infer_dtype(column, skipna=True)
    if kind in ("datetime", "datetime64", "date"):
        present = column.dropna()
        clock = _Clock(whole_days=False, as_date=kind == "date", zone=getattr(column.dtype, "tz", None))
        whole = all(clock.read(cell) % 1 == 0 for cell in present)  # type: ignore[operator]
        return _Clock(whole, clock.as_date, clock.zone), None
    if kind != "string":
        return None, None
    different = dict.fromkeys(column.dropna().tolist())
    sample = list(islice(different, _SAMPLE))
    best, most = None, 0
    for writing in _candidates(sample, comma):
        fitting = sum(writing.read(cell) is not None for cell in sample)
        if fitting > most and 2 * fitting >= len(sample):
            best, most = writing, fitting
    if best is None or not any(_is_special(cell) for cell in sample if best.read(cell) is not None):
        return None, None
    misfit = next((cell for cell in different if best.read(cell) is None), None)
    if isinstance(best, _Numeral):
        if misfit is not None and best.point == ",":
            return None, None  # 1,2 and 1,2,3 are lists
        best = best.like(cell for cell in different if best.read(cell) is not None)
    return best, misfit


def _candidates(sample: Sequence[str], comma: bool) -> list[Writing]:
    percents = [" %" if " " in cell.strip() else "%" for cell in sample if cell.strip().endswith("%")]
    percent = percents[0] if 2 * len(percents) >= len(sample) and percents else ""
    numerals: list[Writing] = [_Numeral(",", ".", percent), _Numeral(".", ",", percent)]
    dates: list[Writing] = [
        _Moment(f"{day}{between}{time}{zone}", f"{of_day}{between}{of_time}{zone}")
        for day, of_day in _DATES.items()
        for time, of_time in _TIMES.items()
        for between in ((" ", "T") if time else ("",))
        for zone in (("", "Z") if time else ("",))
    ]
    return [*(reversed(numerals) if comma else numerals), *dates]


def _is_special(cell: str) -> bool:
    """Whether a cell is a number to people and none to a computer."""
    try:
        float(cell)
    except ValueError:
        return True
    return False
