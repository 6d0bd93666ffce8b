"""How a file of text is written: its encoding, its line ends and what separates its cells. Found unless given.

What the cells mean is the business of `files` and `writings`.
"""

from __future__ import annotations

import codecs
import csv
import logging
from collections.abc import Iterator
from io import StringIO
from itertools import islice

from gspn.errors import Advice, InputError

_log = logging.getLogger(__name__)

_MARKS = (  # UTF-32's begins like UTF-16's
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SEPARATORS = (",", ";", "\t", "|")
_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
_SAMPLE_ROWS = 1000


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
    for separator in _SEPARATORS:
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
