"""Results in a folder: one JSON record a training run, written atomically; claims and checkpoints of work under way.

FOLDER/records/ab/abcdef….json    what was found, by key
FOLDER/.work/                     locks and checkpoints, of no use once the records are there
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gspn.errors import InputError
from gspn.files import replace_file
from gspn.locks import claimed

Record = dict[str, Any]

_PLAIN_LIST = re.compile(r"\[\n([^\[\]{}\"]*)\n *\]")
"""A list of numbers, which needs one line and not one for each. No text has such line breaks, JSON escapes them."""


class Records:
    """The records in a folder. What has been read once is kept in memory: records of others never change."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._read: dict[str, Record] = {}

    def get(self, key: str) -> Record | None:
        """The record with this key, or None while there is none."""
        if key not in self._read:
            path = self._path(key)
            try:
                self._read[key] = json.loads(path.read_text())
            except FileNotFoundError:
                return None
            except ValueError as error:
                raise InputError(f"{path} is damaged ({error}); remove it, and its run is made again") from error
        return self._read[key]

    def at_once(self) -> Callable[[str], Record | None]:
        """`get` as of now: one look at the folder, whoever wrote into it, and not one for every key that is missing."""
        there = set(self._keys())
        return lambda key: self.get(key) if key in self._read or key in there else None

    def put(self, record: Mapping[str, Any]) -> None:
        path = self._path(record["key"])
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record, indent=1, allow_nan=False)
        text = _PLAIN_LIST.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
        replace_file(path, f"{text}\n".encode())
        self._read.pop(record["key"], None)

    def forget(self, key: str) -> None:
        """Remove a record, so that its run is made again."""
        self._path(key).unlink(missing_ok=True)
        self._read.pop(key, None)

    def all(self) -> Iterator[Record]:
        for key in self._keys():
            if (record := self.get(key)) is not None:
                yield record

    def _keys(self) -> Iterator[str]:
        for _, _, names in os.walk(self.folder / "records"):
            yield from (name.removesuffix(".json") for name in names if name.endswith(".json"))

    def _path(self, key: str) -> Path:
        return self.folder / "records" / key[:2] / f"{key}.json"

    @contextmanager
    def claim(self, key: str) -> Iterator[Path | None]:
        """A folder for the work on a piece, or None while another process works on it; it ends with its holder."""
        work = self.folder / ".work"
        work.mkdir(parents=True, exist_ok=True)
        (work / ".gitignore").write_text("*\n")
        with claimed(work / f"{key}.lock") as ours:
            if not ours:
                yield None
                return
            folder = work / key
            folder.mkdir(exist_ok=True)
            yield folder

    def clear(self, key: str) -> None:
        """The piece is finished: its checkpoints are of no use any more. Its lock stays, others may be waiting."""
        shutil.rmtree(self.folder / ".work" / key, ignore_errors=True)
