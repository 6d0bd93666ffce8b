"""One file over HTTP: resumed where it broke off, checked, and placed whole or not at all.

Where files belong and what to do when none can be had is the business of `raw_files`.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from gspn import __version__
from gspn.errors import InputError
from gspn.locks import locked

logger = logging.getLogger(__name__)

TIMEOUT = 20.0
"""seconds without an answer or a byte"""
ATTEMPTS = 4
PAUSE = 1.0
"""seconds before the second attempt; later ones wait longer"""

_PIECE = 1 << 18
_BUSY = {408, 425, 429, 500, 502, 503, 504}


class _BrokenError(Exception):
    """The connection ended early; another attempt may go on from there."""


def download(url: str, destination: Path, *, sha256: str | None = None, progress: bool = True) -> None:
    """Fetch a file unless it is there. What has been received survives an interruption, and is continued next time.

    Two processes that want the same file do not disturb each other: the second waits and finds it there.
    """
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with locked(destination.with_name(f"{destination.name}.lock")):
            if not destination.exists():
                _Transfer(url, destination, progress).run(sha256)
    except OSError as error:  # those of the network have been dealt with
        raise InputError(f"{destination} cannot be written: {error}") from error


@dataclass
class _Transfer:
    url: str
    destination: Path
    progress: bool

    @property
    def partial(self) -> Path:
        return self.destination.with_name(f"{self.destination.name}.partial")

    @property
    def note(self) -> Path:
        """Beside the partial file: what it is a part of."""
        return self.destination.with_name(f"{self.destination.name}.partial.json")

    def run(self, sha256: str | None) -> None:
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(PAUSE * attempt)
            try:
                self._fetch()
                break
            except _BrokenError as error:
                reason = error
        else:
            raise InputError(f"the download of {self.url} broke off {ATTEMPTS} times, at last: {reason}")
        if sha256 is not None and (found := _digest(self.partial)) != sha256:
            self._forget()
            raise InputError(
                f"what {self.url} sent has the SHA-256 checksum {found} instead of {sha256}, and was thrown away"
            )
        os.replace(self.partial, self.destination)
        self.note.unlink(missing_ok=True)

    def _fetch(self) -> None:
        """Receive what is still missing."""
        offset, note = self._received()
        if note.get("total") == offset > 0:
            return
        request = urllib.request.Request(self.url, headers={"User-Agent": f"gspn/{__version__}"})
        request.add_header("Accept-Encoding", "identity")
        if offset:
            request.add_header("Range", f"bytes={offset}-")
            request.add_header("If-Range", note["validator"])  # if the file is another by now, all of it comes
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                self._receive(answer, offset, note)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416:  # no such range: what we have is a part of something else
                self._forget()
            if error.code == 416 or error.code in _BUSY:
                raise _BrokenError(f"HTTP status {error.code}") from error
            raise InputError(f"{self.url} answers with HTTP status {error.code} ({error.reason})") from error
        except urllib.error.URLError as error:
            raise InputError(f"{self.url} cannot be reached: {error.reason}") from error
        except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
            raise _BrokenError(str(error) or type(error).__name__) from error

    def _received(self) -> tuple[int, dict[str, Any]]:
        """How many bytes are here and what they are part of; what cannot be continued is thrown away."""
        try:
            note = json.loads(self.note.read_text(encoding="utf-8"))
            size = self.partial.stat().st_size
            if note["url"] == self.url and note["validator"] and size <= (note["total"] or size):
                return size, note
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.debug("nothing of %s to continue from: %r", self.url, error)
        self._forget()
        return 0, {}

    def _receive(self, answer: Any, offset: int, note: dict[str, Any]) -> None:
        if answer.status == 206:
            begin, total = _content_range(answer.headers.get("Content-Range", ""))
            if begin != offset or total != note["total"]:
                self._forget()
                raise _BrokenError("the server sent another part of the file than was asked for")
        else:
            offset, total = 0, _length(answer.headers.get("Content-Length"))
            self._forget()
            tag = answer.headers.get("ETag", "")
            # A weak tag promises the same meaning, not the same bytes.
            validator = tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified")
            note = {"url": self.url, "validator": validator, "total": total}
            self.note.write_text(json.dumps(note), encoding="utf-8")
        with (
            self.partial.open("r+b" if offset else "wb") as file,
            tqdm(
                total=total,
                initial=offset,
                desc=self.destination.name,
                unit="B",
                unit_scale=True,
                disable=None if self.progress else True,  # None: shown on a terminal only
                dynamic_ncols=True,
            ) as bar,
        ):
            file.seek(offset)
            try:
                while piece := answer.read(_PIECE):
                    file.write(piece)
                    bar.update(len(piece))
            finally:
                file.flush()
                os.fsync(file.fileno())
            size = file.tell()
        if total is not None and size != total:
            raise _BrokenError(f"{size:,} of {total:,} bytes came")

    def _forget(self) -> None:
        self.partial.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def _content_range(text: str) -> tuple[int | None, int | None]:
    """First byte and total of "bytes 5-9/10"."""
    unit, _, rest = text.partition(" ")
    extent, _, total = rest.partition("/")
    begin = extent.partition("-")[0]
    return (_length(begin), _length(total)) if unit == "bytes" else (None, None)


def _length(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
