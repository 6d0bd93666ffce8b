"""Tables of numbers in plain text (one row per line, cells separated by commas), read in blocks with vectorised code.

Here belongs the way from bytes to arrays, and the line in the message when a cell is not what it should be. What the
numbers mean belongs to the readers of the formats.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

from gspn.columns import shorten
from gspn.errors import InputError

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

# Blocks of this size stay in the processor's cache, and their temporary arrays in memory that is already mapped.
_BLOCK_BYTES = 1 << 20

_ZERO, _COMMA, _NEWLINE, _MINUS = np.frombuffer(b"0,\n-", dtype=np.uint8)
_MOST_DIGITS = 18  # more might not fit into 64 bits
_INTEGER = re.compile(rb"[ \t\r]*-?[0-9]{1,18}[ \t\r]*")
_BLANKS = b" \t\r\n"
_FLOAT_BYTES = b"0123456789+-.eEnaNifIty,\n"


def read_integers(stream: IO[bytes], where: str, *, columns: int | None = None) -> Integers:
    """All rows [n, columns]; `where` names the file in messages. Without `columns` the first line decides."""
    blocks = [block for _, block in integer_blocks(stream, where, columns=columns)]
    return np.concatenate(blocks) if blocks else np.empty((0, columns or 1), dtype=np.int64)


def integer_blocks(stream: IO[bytes], where: str, *, columns: int | None = None) -> Iterator[tuple[int, Integers]]:
    """The rows in blocks, each with the number of its first line (from 1)."""
    for line, text in _whole_lines(stream):
        columns = columns or text[: text.index(b"\n")].count(b",") + 1
        values = _parse_integers(text, columns)
        if values is None:
            fault = _find_fault(text, line, where, columns, _is_integer, "an integer")
            raise fault or InputError(f"{where}: the lines from {line} on cannot be read")
        yield line, values


def read_floats(stream: IO[bytes], where: str, *, columns: int | None = None, empty: bool = False) -> Floats:
    """All rows [n, columns] of real numbers; with `empty`, a cell without text is missing (NaN)."""
    blocks = []
    for line, text in _whole_lines(stream):
        columns = columns or text[: text.index(b"\n")].count(b",") + 1
        values = _parse_floats(text, columns, empty)
        if values is None:
            values = _parse_floats_closely(text, line, where, columns, empty)
        blocks.append(values)
    return np.concatenate(blocks) if blocks else np.empty((0, columns or 1))


def _whole_lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The text in blocks that end with a line's end; blank lines at the very end of the text are left out."""
    line, rest = 1, b""
    while piece := stream.read(_BLOCK_BYTES):
        text = rest + piece
        # The last line that is not blank waits for what follows it.
        cut = text.rfind(b"\n", 0, len(text.rstrip(_BLANKS))) + 1
        if cut:
            yield line, text[:cut]
            line += text.count(b"\n", 0, cut)
        rest = text[cut:]
    if last := rest.rstrip(_BLANKS):
        yield line, last + b"\n"


def _parse_integers(text: bytes, columns: int) -> Integers | None:
    """The integers [n, columns] of whole lines, or None if some line is not as it should be.

    Runs of digits are found by where digits begin and end, and every run is summed up from its last digit. The text is
    right if exactly one separator, of the right kind, follows each run and nothing else stands between but spaces and
    signs.
    """
    codes = np.frombuffer(text, dtype=np.uint8)
    is_digit = (codes - _ZERO) < 10  # wraps around below "0"
    change = np.flatnonzero(is_digit[1:] != is_digit[:-1]) + 1
    if is_digit[0]:
        change = np.concatenate(([0], change))
    starts, ends = change[0::2], change[1::2]  # a line's end is no digit, so every run ends
    separators = np.flatnonzero((codes == _COMMA) | (codes == _NEWLINE))
    if len(separators) != len(starts) or len(starts) % columns:
        return None
    kinds = codes[separators].reshape(-1, columns)
    if (kinds[:, :-1] != _COMMA).any() or (kinds[:, -1] != _NEWLINE).any():
        return None
    if (separators < ends).any() or (separators[:-1] >= starts[1:]).any():
        return None
    lengths = ends - starts
    if lengths.max() > _MOST_DIGITS:
        return None
    values = np.zeros(len(starts), dtype=np.int64)
    for k in range(int(lengths.max())):
        digits = codes[np.maximum(ends - (1 + k), 0)] - _ZERO
        values += np.where(lengths > k, digits, np.uint8(0)) * np.int64(10**k)
    known = np.count_nonzero(is_digit) + len(separators) + text.count(b" ")
    if known != len(text):
        signs = np.flatnonzero(codes == _MINUS)
        negative = np.searchsorted(starts, signs + 1)
        if (starts[np.minimum(negative, len(starts) - 1)] != signs + 1).any():
            return None
        values[negative] *= -1
        if known + len(signs) + text.count(b"\r") + text.count(b"\t") != len(text):
            return None
    return values.reshape(-1, columns)


def _parse_floats(text: bytes, columns: int, empty: bool) -> Floats | None:
    """The numbers [n, columns] of plain whole lines, or None if some line needs a closer look."""
    text = text.replace(b"\r\n", b"\n").replace(b", ", b",")
    codes = np.frombuffer(text, dtype=np.uint8)
    separators = codes[(codes == _COMMA) | (codes == _NEWLINE)]
    if text.translate(None, _FLOAT_BYTES) or len(separators) % columns:
        return None
    kinds = separators.reshape(-1, columns)
    if (kinds[:, :-1] != _COMMA).any() or (kinds[:, -1] != _NEWLINE).any():
        return None
    if empty:
        text = b"\n" + text
        # Twice, as the second of two neighbouring gaps begins where the first ends.
        for gap, filled in 2 * ((b",,", b",nan,"), (b"\n,", b"\nnan,"), (b",\n", b",nan\n"), (b"\n\n", b"\nnan\n")):
            text = text.replace(gap, filled)
        text = text[1:]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy's way to say that it stopped early
        try:
            values = np.fromstring(text.replace(b"\n", b","), sep=",")
        except (DeprecationWarning, ValueError):
            return None
    return values.reshape(-1, columns) if len(values) == len(separators) else None


def _parse_floats_closely(text: bytes, line: int, where: str, columns: int, empty: bool) -> Floats:
    def is_float(cell: bytes) -> bool:
        if not cell.strip():
            return empty
        try:
            float(cell)
        except ValueError:
            return False
        return b"_" not in cell  # that freedom is Python's own

    if fault := _find_fault(text, line, where, columns, is_float, "a number"):
        raise fault
    rows = [row.split(b",") for row in text.split(b"\n")[:-1]]
    return np.array([[float(cell) if cell.strip() else np.nan for cell in row] for row in rows])


def _is_integer(cell: bytes) -> bool:
    return _INTEGER.fullmatch(cell) is not None


def _find_fault(
    text: bytes, line: int, where: str, columns: int, is_good: Callable[[bytes], bool], kind: str
) -> InputError | None:
    """What is wrong with the first line that is not as it should be."""
    for number, row in enumerate(text.split(b"\n")[:-1]):
        cells = row.split(b",")
        if len(cells) != columns or not all(map(is_good, cells)):
            wanted = f"{kind} in the line" if columns == 1 else f"{columns} cells, each {kind},"
            found = shorten(row.decode("utf-8", errors="replace").strip())
            return InputError(f"{where}, line {line + number}: expected {wanted} but found {found}")
    return None
