"""Where raw files come from: the user's data folder, the cache, or the dataset's public home, in that order.

A raw file is known by one path, the same below the data folder (which is only read) and below `raw` in the cache
(where downloads go). What is in the files belongs to the readers, how bytes travel to `download`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from gspn.datasets.download import download
from gspn.errors import InputError

logger = logging.getLogger(__name__)

CHECKSUMS: dict[str, str] = {
    # ESOL as several projects that fetch it from the same address have recorded it.
    "molecules/esol.csv": "8c06a76f0c6487d29ab0f903e6a7a7139f189ab3c1178f159c8be8964602f189",
}
"""SHA-256 of downloads, by path, where one is known; files that people put in place themselves are taken as they are"""


@dataclass(frozen=True)
class RawFile:
    """One file (or folder) by its path below the data folder or the cache, and its public address if it has one."""

    path: str
    url: str | None = None


@dataclass(frozen=True)
class Folders:
    """Where to look and where to write."""

    root: Path | None
    """the user's data, never written to"""
    cache: Path

    @classmethod
    def choose(cls, root: str | os.PathLike[str] | None, cache: str | os.PathLike[str] | None) -> Folders:
        """The given folders, else those of GSPN_DATA_ROOT and GSPN_CACHE, else none and the user's cache."""
        root = root or os.environ.get("GSPN_DATA_ROOT") or None
        chosen = None if root is None else Path(root).expanduser()
        if chosen is not None and not chosen.is_dir():
            raise InputError(f"the data folder {chosen} (`root`, or GSPN_DATA_ROOT) does not exist")
        cache = cache or os.environ.get("GSPN_CACHE") or platformdirs.user_cache_dir("gspn", appauthor=False)
        try:
            return cls(chosen, Path(cache).expanduser().absolute())
        except RuntimeError as error:
            raise InputError("there is no home folder to keep datasets in; set GSPN_CACHE to a folder") from error

    def places(self, path: str) -> list[Path]:
        """Where a raw file may lie, in the order of search."""
        return [*([self.root / path] if self.root is not None else []), self.cache / "raw" / path]


def find(alternatives: Sequence[RawFile], folders: Folders) -> Path | None:
    """The first of the alternatives that is here, each looked for in the data folder and then in the cache."""
    places = (place for file in alternatives for place in folders.places(file.path))
    return next((place for place in places if os.path.exists(place)), None)


_may_download: ContextVar[bool] = ContextVar("may_download", default=True)


@contextmanager
def without_downloads() -> Iterator[None]:
    """Datasets that are not here are an error meanwhile."""
    before = _may_download.set(False)
    try:
        yield
    finally:
        _may_download.reset(before)


def obtain(alternatives: Sequence[RawFile], folders: Folders, *, progress: bool) -> Path:
    """A path that exists: one that is here, or else the first alternative that can be downloaded."""
    if (found := find(alternatives, folders)) is not None:
        return found
    offered = next((file for file in alternatives if file.url is not None), None)
    reason = "it has no public address" if _may_download.get() else "nothing is downloaded for this"
    if offered is not None and offered.url is not None and _may_download.get():
        destination = folders.cache / "raw" / offered.path
        logger.info("downloading %s to %s", offered.url, destination)
        try:
            download(offered.url, destination, sha256=CHECKSUMS.get(offered.path), progress=progress)
            return destination
        except InputError as error:
            reason = str(error)
    raise InputError(f"{(offered or alternatives[0]).path} is not here, and {reason}. {advice(alternatives, folders)}")


def advice(alternatives: Sequence[RawFile], folders: Folders) -> str:
    """Which file to put where."""
    wanted = next((file for file in alternatives if file.url is not None), alternatives[0])
    source = f" from {wanted.url}" if wanted.url else ""
    places = " or ".join(str(place) for place in folders.places(wanted.path))
    hint = f", or as {wanted.path} into a folder that GSPN_DATA_ROOT names" if folders.root is None else ""
    others = [file.path for file in alternatives if file is not wanted]
    also = f" ({' or '.join(others)} would do as well)" if others else ""
    return f"Get the file by hand{source} and put it at {places}{hint}{also}"
