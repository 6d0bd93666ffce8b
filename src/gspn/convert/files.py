"""Tables as people hand them over: a pandas DataFrame, or a file of CSV, TSV, Parquet, Excel or places.

Reading is all that belongs here: how a text is written (its encoding, its line ends, what separates its cells) is found
unless given. What the columns mean is the business of `tables`, how cells are written that of `writings`. pandas,
pyarrow, openpyxl and geopandas are imported on use.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO, StringIO
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from gspn.attributes import Attribute, Categorical
from gspn.columns import enumerate_briefly, shorten
from gspn.errors import DAMAGE, Advice, InputError, MissingExtraError, from_extra

_log = logging.getLogger(__name__)

# What an empty cell is written as in CSV files; pandas' own list, without its oddities such as "-1.#IND".
_GAPS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "-NaN", "null", "NULL", "None")

_WHOLE_NUMBER = r"[+-]?\d+"

_SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
_PARQUET, _EXCEL = (".parquet", ".pq"), (".xlsx",)
_PLACES = (".geojson", ".gpkg", ".shp")
_ENDINGS = (*_SEPARATORS, *_PARQUET, *_EXCEL, *_PLACES)
_ZIPPED = b"PK\x03\x04"
"""Excel files begin so, whatever they are called."""

_MARKS = (  # UTF-32's begins like UTF-16's
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_TRIED = (",", ";", "\t", "|")
_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
_SAMPLE_ROWS = 1000


@dataclass(frozen=True, eq=False)
class Table:
    """A DataFrame and what messages call it."""

    frame: Any
    name: str
    """"nodes", or the file's path"""
    is_text: bool = False
    """whether the columns of ids were read as text, since the file does not tell numbers from text"""
    text: str | None = field(default=None, repr=False)
    """what stood in the file of text"""
    separator: str = ","

    def place(self, row: int) -> str:
        return f"{self.name}, row {row}"

    def column(self, name: str, argument: str, *others: Advice) -> Any:
        """The column of this name, or the index if that is called so, as a Series."""
        if name in self.frame.columns:
            return self.frame[name]
        if name in self.frame.index.names:
            return self.frame.index.get_level_values(name).to_series(index=self.frame.index)
        raise InputError(
            f"{self.name} has no column {name!r}; there are {enumerate_briefly(self.frame.columns)}",
            advice=[Advice(argument), *others],
        )

    def with_text(self, names: Collection[str]) -> Table:
        """The same, with columns that have turned out to hold ids as they stand in the file."""
        if self.text is None:
            return self
        written = import_pandas().read_csv(
            StringIO(self.text), sep=self.separator, dtype=str, keep_default_na=False, na_values=[""], index_col=False
        )
        return replace(self, frame=self.frame.assign(**{name: written[name] for name in names}))

    def with_whole_numbers(self) -> Any:
        """The frame with columns as `Int64` that were written as whole numbers: their gaps have made floats of them."""
        frame = self.frame
        gappy = [name for name in frame.columns if frame[name].dtype == float and frame[name].isna().any()]
        if self.text is None or not gappy:
            return frame
        written = import_pandas().read_csv(
            StringIO(self.text), sep=self.separator, dtype=str, keep_default_na=False, usecols=gappy, index_col=False
        )
        whole = [
            name
            for name in gappy
            if len(present := written[name][frame[name].notna().to_numpy()])
            and present.str.strip().str.fullmatch(_WHOLE_NUMBER).all()
        ]
        return frame.astype(dict.fromkeys(whole, "Int64"))


def import_pandas() -> Any:
    with from_extra("tables", "tables need pandas"):
        import pandas
    return pandas


def read_table(
    table: Any,
    name: str,
    ids: Collection[str | None],
    kinds: Mapping[str, Attribute] | None = None,
    others: Attribute | None = None,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Table:
    """The table itself (also one that was read before) or, if it is a path, the table in that file.

    In CSV files columns of `ids` are read as text (007 stays 007, and NA is an id, not a gap), and so are those of
    unknown kind in which a number has leading zeros, which amounts have not. Columns of a known kind
    (in `kinds`, or `others` for the rest) are read as that: text stays text, and there a category may be called NA.
    `delimiter` and `encoding` of text are found where they are not given.
    """
    pandas = import_pandas()
    if isinstance(table, Table):
        read = table
    elif isinstance(table, pandas.DataFrame):
        read = Table(table, name)
    elif isinstance(table, (str, os.PathLike)):
        read = _read_file(pandas, Path(table), ids, _Kinds(kinds or {}, others), delimiter, encoding)
    else:
        raise InputError(f"{name} must be a pandas DataFrame or the path of a file, got {shorten(table)}")
    twice = read.frame.columns[read.frame.columns.duplicated()]
    if len(twice):
        raise InputError(f"{read.name}: column {twice[0]!r} occurs twice; rename one")
    return read


@dataclass(frozen=True)
class _Kinds:
    named: Mapping[str, Attribute]
    others: Attribute | None

    def of(self, name: str) -> Attribute | None:
        return self.named.get(name, self.others)

    def text(self, name: str) -> tuple[Any, ...] | None:
        """The categories of a column of text; None if it is of another kind or unknown."""
        kind = self.of(name)
        known = kind.categories if isinstance(kind, Categorical) else ()
        return known if known and all(isinstance(category, str) for category in known) else None


def _read_file(
    pandas: Any, path: Path, ids: Collection[str | None], kinds: _Kinds, delimiter: str | None, encoding: str | None
) -> Table:
    ending = next((known for known in _ENDINGS if path.name.lower().endswith(known)), None)
    if ending is None:
        raise InputError(f"{path}: files of tables end in {', '.join(_ENDINGS)}")
    if not path.exists():
        raise InputError(f"{path}: there is no such file")
    if ending in _PLACES:
        return Table(_read_places(path), str(path))
    try:
        content = path.read_bytes()  # once: a pipe has nothing to say a second time
        if ending in _PARQUET:
            return Table(pandas.read_parquet(BytesIO(content)), str(path))
        if ending in _EXCEL or content.startswith(_ZIPPED):
            return Table(_read_excel(pandas, content, path), str(path))
        text = read_text(gzip.decompress(content) if ending.endswith(".gz") else content, str(path), encoding)
        separator, text = find_separator(text, _SEPARATORS[ending])
        if delimiter is not None:
            separator = named_separator(delimiter)
        frame = _read_csv(pandas, text, str(path), separator, ids, kinds)
    except ImportError as error:
        what, package = ("Excel", "openpyxl") if ending in _EXCEL else ("Parquet", "pyarrow")
        raise MissingExtraError(
            f"{what} files need {package}, which is not installed: pip install 'gspn[tables]'"
        ) from error
    except InputError:
        raise
    except (*DAMAGE, csv.Error, ValueError, KeyError, BadZipFile) as error:  # pandas' and pyarrow's are ValueErrors
        raise InputError(f"{path} cannot be read: {error}") from error
    return Table(frame, str(path), is_text=True, text=text, separator=separator)


def _read_places(path: Path) -> Any:
    """A GeoDataFrame; a shapefile is several files, so the content of one would not do."""
    try:
        import geopandas
    except ImportError as error:
        raise MissingExtraError(
            "files of places need geopandas, which is not installed: pip install 'gspn[spatial]'"
        ) from error
    try:
        return geopandas.read_file(path)
    except (OSError, ValueError, RuntimeError) as error:  # pyogrio's are RuntimeErrors
        raise InputError(f"{path} cannot be read: {error}") from error


def _read_excel(pandas: Any, content: bytes, path: Path) -> Any:
    """The first sheet that holds anything."""
    sheets = pandas.read_excel(
        BytesIO(content), sheet_name=None, engine="openpyxl", keep_default_na=False, na_values=list(_GAPS)
    )
    filled = [name for name, sheet in sheets.items() if len(sheet.columns)]
    if not filled:
        raise ValueError("it is empty")
    if len(filled) > 1:
        _log.warning("%s: sheet %r is read, not %s", path, filled[0], ", ".join(map(repr, filled[1:])))
    return sheets[filled[0]].rename(columns=str)


def _read_csv(pandas: Any, text: str, path: str, separator: str, ids: Collection[str | None], kinds: _Kinds) -> Any:
    names, codes = _read_header(text, path, separator)
    for position, name in enumerate(names):
        if name in names[:position]:
            raise ValueError(f"column {name!r} occurs twice; rename one")
    texts = {name: kinds.text(name) for name in names}
    gaps = {name: [gap for gap in _GAPS if gap not in (known or ())] for name, known in texts.items()}
    # pandas 3.1 reads floats exactly and deprecates the option; before, the last digit could be lost.
    old = tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1)
    frame = pandas.read_csv(
        StringIO(text),
        sep=separator,
        dtype={
            name: str
            for name, known in texts.items()
            if name in ids or known is not None or (name in codes and kinds.of(name) is None)
        },
        keep_default_na=False,
        na_values=gaps | {name: [""] for name in names if name in ids},
        index_col=False,
        low_memory=False,  # or each piece of a long column would get its own type
        **({"float_precision": "round_trip"} if old else {}),
    )
    for name, known in texts.items():
        other = kinds.of(name) is not None and name not in ids and known is None
        if other and pandas.api.types.infer_dtype(frame[name], skipna=True) == "string":
            frame[name] = parse_cells(pandas, frame[name])
    return frame


def _read_header(text: str, path: str, separator: str) -> tuple[list[str], set[str]]:
    """The names of the columns, once every row is known to have a cell for each: pandas would fill and cut rows.

    And the names of those in which a number is written with leading zeros, as codes are: 01067 would lose its 0.
    """
    rows = rows_of(text, separator)
    header = next(rows, None)
    if header is None:
        raise ValueError("the file is empty")
    header = [name or f"Unnamed: {place}" for place, name in enumerate(header)]  # as pandas calls them
    codes, ragged = set[str](), list[tuple[int, int]]()
    for number, row in enumerate(rows):
        if len(row) != len(header):
            ragged.append((number, len(row)))
            continue
        codes |= {header[place] for place, cell in enumerate(row) if cell[:1] == "0" and _is_code(cell)}
    if ragged:
        (number, count), more = ragged[0], len(ragged) - 1
        others = f" (and {more} more rows have not as many, either)" if more else ""
        raise InputError(f"{path}, row {number}: {count} cells, but the header has {len(header)}{others}")
    return header, codes


def _is_code(cell: str) -> bool:
    return len(cell) > 1 and cell.isdecimal()


def parse_cells(pandas: Any, column: Any) -> Any:
    """A column that should not be text, cell by cell, so that just the bad cells of it are text."""
    truths = column.str.lower().map({"true": True, "false": False}).astype(object)
    parsed = truths.where(truths.notna(), pandas.to_numeric(column, errors="coerce").astype(object))
    return parsed.where(parsed.notna(), column.astype(object))


def read_text(content: bytes, path: str, encoding: str | None = None) -> str:
    """What the bytes say, with line feeds where nothing but carriage returns ends a line."""
    text = _decoded(content, path, encoding)
    if "\0" in text:
        raise InputError(
            f"{path} is no text: it holds NUL characters", advice=[Advice("encoding", "if it is one of another kind")]
        )
    return text if "\n" in text else text.replace("\r", "\n")


def _decoded(content: bytes, path: str, encoding: str | None) -> str:
    if encoding is not None:
        try:
            return content.decode(encoding).removeprefix("\ufeff")
        except (LookupError, UnicodeError) as error:
            raise InputError(f"{path} cannot be read as {encoding}: {error}") from error
    for mark, name in _MARKS:
        if content.startswith(mark):
            return content.decode(name)
    if b"\0" in content:  # UTF-16 without a mark: of Latin letters every other byte is 0
        return content.decode("utf-16-le" if content[1::2].count(0) >= content[::2].count(0) else "utf-16-be")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        text = content.decode("cp1252", errors="replace")
        if "\ufffd" in text or not _is_prose(text):
            raise InputError(
                f"{path} cannot be read: {error}", advice=[Advice("encoding", "with the name of its encoding")]
            ) from error
        _log.warning("%s is no UTF-8 and is read as Windows-1252 unless an encoding is given", path)
        return text


def _is_prose(text: str) -> bool:
    """Whether there are no control characters: those make something else than text likely."""
    return all(character >= " " or character in "\t\r\n" for character in text)


def find_separator(text: str, usual: str) -> tuple[str, str]:
    """What separates cells, and the text without a first line that says it, as Excel writes one.

    The separator is the one that gives every row as many cells as the header, more than one; else the one with the most
    cells in the header; else the usual one.
    """
    first, _, rest = text.partition("\n")
    if first.strip().lower().startswith("sep=") and len(first.strip()) == len("sep=") + 1:
        return first.strip()[-1], rest
    rated = []
    for separator in _TRIED:
        sizes = _row_sizes(text, separator)
        if sizes and sizes[0] > 1:
            rated.append((len(set(sizes)) == 1, sizes[0], separator == usual, separator))
    return max(rated)[-1] if rated else usual, text


def named_separator(said: str) -> str:
    """The character that a user has named, also in words: a tab is hard to type."""
    separator = _NAMES.get(said.lower(), said)
    if len(separator) != 1:
        raise InputError(f"the delimiter is one character (or tab, comma, semicolon), got {said!r}")
    return separator


def rows_of(text: str, separator: str) -> Iterator[list[str]]:
    """The rows; lines that are empty or hold just blanks are none to pandas either."""
    every = csv.reader(StringIO(text, newline=""), delimiter=separator)
    return (row for row in every if row and not (len(row) == 1 and row[0].isspace()))


def _row_sizes(text: str, separator: str) -> list[int]:
    try:
        return [len(row) for row in islice(rows_of(text, separator), _SAMPLE_ROWS)]
    except csv.Error:
        return []
