"""Numbers in text: what Python's own `int` and `float` would read, in blocks of any size, or the line that is wrong."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gspn.datasets import text_tables
from gspn.datasets.text_tables import integer_blocks, read_floats, read_integers
from gspn.errors import InputError

integers = st.integers(-(10**18) + 1, 10**18 - 1) | st.integers(0, 99)
blanks = st.sampled_from(["", " ", "  ", "\t"])


@st.composite
def tables(draw: st.DrawFn, cells: st.SearchStrategy[Any], show: Callable[[Any], str]) -> tuple[list[list[Any]], bytes]:
    columns = draw(st.integers(1, 4))
    rows = draw(st.lists(st.lists(cells, min_size=columns, max_size=columns), min_size=1, max_size=20))
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    lines = [",".join(draw(blanks) + show(cell) + draw(blanks) for cell in row) for row in rows]
    tail = draw(st.sampled_from(["", ending, ending + ending, ending + "  " + ending]))
    return rows, (ending.join(lines) + tail).encode()


def in_blocks(size: int, read: Callable[[], Any]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_tables, "_BLOCK_BYTES", size)
        return read()


@given(tables(integers, str), st.integers(1, 200))
def test_integers_are_what_python_reads(table: tuple[list[list[int]], bytes], size: int) -> None:
    rows, text = table
    found = in_blocks(size, lambda: read_integers(io.BytesIO(text), "t"))
    assert found.dtype == np.int64
    assert found.tolist() == rows


@given(tables(integers, str), st.integers(1, 200))
def test_blocks_know_their_lines(table: tuple[list[list[int]], bytes], size: int) -> None:
    rows, text = table
    blocks = in_blocks(size, lambda: list(integer_blocks(io.BytesIO(text), "t")))
    assert [row for line, block in blocks for row in block.tolist()] == rows
    assert all(rows[line - 1] == block[0].tolist() for line, block in blocks)


@given(tables(st.floats(allow_infinity=False), repr), st.integers(1, 200))
def test_floats_are_what_python_reads(table: tuple[list[list[float]], bytes], size: int) -> None:
    rows, text = table
    found = in_blocks(size, lambda: read_floats(io.BytesIO(text), "t"))
    np.testing.assert_array_equal(found, np.array(rows))


@given(tables(st.none() | st.floats(allow_nan=False, allow_infinity=False), lambda v: "" if v is None else repr(v)))
def test_empty_cells_are_missing(table: tuple[list[list[float | None]], bytes]) -> None:
    rows, text = table
    if len(rows[0]) == 1:  # a blank line at the end could not be told from a missing cell
        rows, text = [[*row, 1.0] for row in rows], b"".join(line + b",1\n" for line in text.split(b"\n")[: len(rows)])
        text = text.replace(b"\r", b"")
    wanted = [[math.nan if cell is None else cell for cell in row] for row in rows]
    np.testing.assert_array_equal(read_floats(io.BytesIO(text), "t", empty=True), np.array(wanted))


def test_numbers_in_other_clothes_are_read_closely() -> None:
    text = b" 1.5 ,\t2\n+3, 4e-1 \n.5, 6.\n"
    np.testing.assert_array_equal(read_floats(io.BytesIO(text), "t"), [[1.5, 2], [3, 0.4], [0.5, 6]])


@pytest.mark.parametrize("text", [b"", b"\n", b" \r\n\n"])
def test_an_empty_file_has_no_rows(text: bytes) -> None:
    assert read_integers(io.BytesIO(text), "t", columns=2).shape == (0, 2)
    assert read_floats(io.BytesIO(text), "t", columns=3).shape == (0, 3)


NO_INTEGERS = [
    *("1", "1, 2, 3", "1, ", ", 2", "1 2", "1; 2", "1, x", "1, 2.0", "1, 1e3", "1, - 2", "1-, 2", "1, --2", "1, 2-3"),
    *("", "  ", "1, 2,", "1,, 2", "1, 9999999999999999999", "1, 2 # note", "1, ²", "1 1, 2", "1\x0c, 2", "+1, 2"),
    *("\x00", "1 2,", ", 1 2", "1, 2, 3\n4"),
]
NO_NUMBERS = ["1", "1,2,3", "1,2,3\n4", "1,", "x,1", "1 2,3", "1,2_0", "1.5.2,1", "1,1e", "1-2,3", "0x10,1"]


@pytest.mark.parametrize(
    ("read", "kind", "bad"),
    [
        *((read_integers, "an integer", bad) for bad in NO_INTEGERS),
        *((read_floats, "a number", bad) for bad in NO_NUMBERS),
    ],
)
@pytest.mark.parametrize("before", [0, 3, 500])
def test_a_line_that_is_no_row_of_numbers_is_named(read: Any, kind: str, bad: str, before: int) -> None:
    text = "10, 20\n" * before + bad + "\n" + "7, 8\n" * 300
    with pytest.raises(InputError, match=rf"^some file, line {before + 1}: expected 2 cells, each {kind},"):
        in_blocks(1000, lambda: read(io.BytesIO(text.encode()), "some file", columns=2))
