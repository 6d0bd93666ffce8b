"""Raw files as streams of bytes: members of a zip archive, files of a folder, gzipped or plain.

Nothing is ever extracted: members are read in memory by the name that a format gives them. Whatever is wrong with an
archive ends as an error that names it.
"""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, cast

from gspn.errors import DAMAGE, InputError

_DAMAGE = (*DAMAGE, zipfile.BadZipFile, NotImplementedError, RuntimeError)


@contextmanager
def reading(where: str | Path) -> Iterator[None]:
    """Turn what damaged files raise into an error that names the file and says what to do."""
    try:
        yield
    except _DAMAGE as error:
        reason = str(error) or type(error).__name__
        raise InputError(
            f"{where} cannot be read: {reason}; if the file is damaged, remove it and get it anew"
        ) from error


class Files:
    """The files of one raw dataset: a zip archive, or a folder that holds what the archive would."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive: zipfile.ZipFile | None = None
        self._names: list[str] = []
        if path.is_dir():
            return
        with reading(path):
            archive = zipfile.ZipFile(path)
        self._archive = archive
        self._names = [member.filename for member in archive.infolist() if not member.is_dir()]
        for name in archive.namelist():
            if _escapes(name):
                archive.close()
                raise InputError(f"{path} is no archive to trust: its member {name!r} points outside its folder")

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: object) -> None:
        if self._archive is not None:
            self._archive.close()

    def find(self, ending: str) -> str | None:
        """The file of this path: of a folder just so, of an archive below any one folder; None if there is none."""
        if self._archive is None:
            return ending if (self.path / ending).is_file() else None
        parts = PurePosixPath(ending).parts
        found = [name for name in self._names if PurePosixPath(name).parts[-len(parts) :] == parts]
        if len(found) > 1:
            raise InputError(f"{self.path} holds {ending} more than once: {found[0]} and {found[1]}")
        return found[0] if found else None

    def describe(self, ending: str) -> str:
        """How messages call a file."""
        return f"{self.path}, {ending}"

    @contextmanager
    def open(self, ending: str) -> Iterator[IO[bytes]]:
        """The content of a file, unpacked if its name says that it is gzipped; an error if there is no such file."""
        name = self.find(ending)
        if name is None:
            raise InputError(f"{self.path} holds no {ending}; the file is incomplete or of another format")
        with reading(self.describe(ending)):
            raw = self._archive.open(name) if self._archive is not None else (self.path / name).open("rb")
            with raw:
                if name.endswith(".gz"):
                    with gzip.open(raw) as unpacked:
                        yield cast(IO[bytes], unpacked)
                else:
                    yield raw


@contextmanager
def open_plain(path: Path) -> Iterator[IO[bytes]]:
    """The content of a file, unpacked if it is gzipped, whatever its name."""
    with reading(path), path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if packed:
            with gzip.open(raw) as unpacked:
                yield cast(IO[bytes], unpacked)
        else:
            yield raw


def _escapes(name: str) -> bool:
    """Whether a name, read as either kind of path, leads out of the folder it is put into."""
    windows = PureWindowsPath(name)
    return bool(PurePosixPath(name).is_absolute() or windows.drive or windows.root or ".." in windows.parts)
