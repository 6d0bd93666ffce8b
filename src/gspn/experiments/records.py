"""Results in a folder: one JSON record a training run; claims and checkpoints of work under way.

FOLDER/records/ab/abcdef….json    results of single runs, by key: concurrent commands share work through them
FOLDER/records/predict.jsonl      the same, compacted: one line per record, sorted by key, one file per question
FOLDER/.work/                     locks and checkpoints, of no use once the records are there

Every file is replaced as a whole. A single record goes before a compacted one with its key, and is removed only when
the compacted file has it: whoever looks for a record, there and then here, finds it at any moment.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from gspn.errors import InputError
from gspn.files import replace_file
from gspn.locks import claimed, locked

Record = dict[str, Any]

LOOKS = "looks.jsonl"
"""What stands beside compacted records and is none: looks at final sets (`yardstick.looks`)."""

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
            record = self._single(key) or self._compacted().get(key)
            if record is None:
                return None
            self._read[key] = record
        return self._read[key]

    def at_once(self) -> Callable[[str], Record | None]:
        """`get` as of now: one look at the folder, whoever wrote into it, and not one for every key that is missing."""
        there = {*self._singles(), *self._compacted()}
        return lambda key: self.get(key) if key in self._read or key in there else None

    def put(self, record: Mapping[str, Any]) -> None:
        """Write a record of its own."""
        text = json.dumps(record, indent=1, allow_nan=False)
        text = _PLAIN_LIST.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
        path = self._path(record["key"])
        with self._changing():
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, f"{text}\n".encode())
        self._read.pop(record["key"], None)

    def forget(self, key: str) -> None:
        """Remove a record, so that its run is made again."""
        with self._changing():
            compacted = dict(self._compacted())
            if (record := compacted.pop(key, None)) is not None:
                self._write(compacted.values(), _question(record))
            self._path(key).unlink(missing_ok=True)
        self._read.pop(key, None)

    def compact(self) -> int:
        """Move all single records into the files of their questions; returns how many there were.

        Runs may be under way: what they write meanwhile stays single. Killed at any moment, nothing is lost.
        """
        with self._changing():
            singles = {key: record for key in self._singles() if (record := self._single(key)) is not None}
            both = {**self._compacted(), **singles}
            for question in sorted({_question(record) for record in singles.values()}):
                self._write(both.values(), question)
            for key in singles:
                self._path(key).unlink()
        return len(singles)

    def all(self) -> Iterator[Record]:
        for key in sorted({*self._singles(), *self._compacted()}):
            if (record := self.get(key)) is not None:
                yield record

    def _single(self, key: str) -> Record | None:
        path = self._path(key)
        try:
            return _parsed(path.read_text(encoding="utf-8"), path)
        except FileNotFoundError:
            return None

    def _singles(self) -> Iterator[str]:
        for _, _, names in os.walk(self.folder / "records"):
            yield from (name.removesuffix(".json") for name in names if name.endswith(".json"))

    def _compacted(self) -> Mapping[str, Record]:
        folder = self.folder / "records"
        names = os.listdir(folder) if folder.is_dir() else []
        files = [folder / name for name in sorted(names) if name.endswith(".jsonl") and name != LOOKS]
        states = [file.stat() for file in files]
        return _lines(tuple((file, s.st_mtime_ns, s.st_ino) for file, s in zip(files, states, strict=True)))

    def _write(self, records: Iterable[Record], question: str) -> None:
        """The compacted file of a question, of those of the records that are its own."""
        own = sorted((one for one in records if _question(one) == question), key=lambda one: str(one["key"]))
        text = "".join(f"{json.dumps(one, allow_nan=False)}\n" for one in own)
        replace_file(self.folder / "records" / f"{question}.jsonl", text.encode())

    def _path(self, key: str) -> Path:
        return self.folder / "records" / key[:2] / f"{key}.json"

    def _changing(self) -> AbstractContextManager[None]:
        """Held while files are written that another process may move."""
        return locked(self._work() / "records.lock")

    def _work(self) -> Path:
        work = self.folder / ".work"
        work.mkdir(parents=True, exist_ok=True)
        (work / ".gitignore").write_text("*\n")
        return work

    @contextmanager
    def claim(self, key: str) -> Iterator[Path | None]:
        """A folder for the work on a piece, or None while another process works on it; it ends with its holder."""
        work = self._work()
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


def _question(record: Record) -> str:
    return str(record["run"]["question"])


@lru_cache(maxsize=4)
def _lines(files: tuple[tuple[Path, int, int], ...]) -> Mapping[str, Record]:
    """Records of compacted files by key; the files come with what tells that they have been replaced."""
    found = {}
    for path, *_ in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            record = _parsed(line, f"line {number} of {path}")
            found[record["key"]] = record
    return found


def _parsed(text: str, where: object) -> Record:
    try:
        record: Record = json.loads(text)
    except ValueError as error:
        raise InputError(f"{where} is damaged ({error}); remove it, and its run is made again") from error
    return record
