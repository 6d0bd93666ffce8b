"""A server on loopback, small archives of the TU format, and the promise that no test touches the user's cache or the
network."""

from __future__ import annotations

import threading
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gspn.datasets import download


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own, empty cache for every test."""
    monkeypatch.delenv("GSPN_DATA_ROOT", raising=False)
    monkeypatch.setenv("GSPN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    really_open = urllib.request.urlopen

    def open_loopback(request: urllib.request.Request, **arguments: Any) -> Any:
        assert request.host.startswith("127.0.0.1:"), f"{request.full_url} is not for tests"
        return really_open(request, **arguments)

    monkeypatch.setattr(urllib.request, "urlopen", open_loopback)
    monkeypatch.setattr(download, "PAUSE", 0.0)


@dataclass
class Served:
    """One file on the server, and how the server misbehaves about it."""

    content: bytes
    etag: str | None = '"first"'
    modified: str | None = None
    honours_range: bool = True
    tells_length: bool = True
    cuts: list[int] = field(default_factory=list)
    """after how many bytes of the body the connection ends, request by request; then no more"""
    statuses: list[int] = field(default_factory=list)
    """answers without a file, request by request; then no more"""


class Server:
    """Files by path, and what was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, Served] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def serve(self, path: str, content: bytes, **how: Any) -> Served:
        """Put a file on the server; `how` are the fields of `Served`."""
        self.files[path] = Served(content, **how)
        return self.files[path]

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def ranges(self) -> list[str | None]:
        """The ranges that were asked for, request by request."""
        return [headers.get("Range") for _, headers in self.requests]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        headers = dict(handler.headers.items())
        self.requests.append((handler.path, headers))
        served = self.files.get(handler.path)
        if served is None or served.statuses:
            handler.send_error(404 if served is None else served.statuses.pop(0))
            return
        start, content = 0, served.content
        asked = headers.get("Range")
        if asked and served.honours_range and headers.get("If-Range") in (served.etag, served.modified):
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                handler.send_error(416)
                return
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            handler.send_response(200)
        if served.tells_length:
            handler.send_header("Content-Length", str(len(content) - start))
        if served.etag is not None:
            handler.send_header("ETag", served.etag)
        if served.modified is not None:
            handler.send_header("Last-Modified", served.modified)
        handler.end_headers()
        end = start + served.cuts.pop(0) if served.cuts else len(content)
        handler.wfile.write(content[start:end])


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


Files = Mapping[str, str]
SMALL: Files = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n5, 5\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "1\n-1\n",
    "node_labels": "7\n3\n7\n0\n3\n",
}
"""a path of three vertices, and an edge with a self-loop at one end"""


def write_zip(path: Path, members: Mapping[str, str | bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            fixed = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))  # the same content is the same file
            archive.writestr(fixed, content, zipfile.ZIP_DEFLATED)
    return path


@pytest.fixture
def zipped() -> Callable[[Path, Mapping[str, str | bytes]], Path]:
    """Write a zip archive of named members."""
    return write_zip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def tu_archive(root: Path) -> Callable[..., Path]:
    """Write `tu/TINY.zip` with the small graphs, some of its files changed, added or (None) left out."""

    def write(**changed: str | None) -> Path:
        files = {part: text for part, text in {**SMALL, **changed}.items() if text is not None}
        members = {f"TINY/TINY_{part}.txt": text for part, text in files.items()}
        return write_zip(root / "tu" / "TINY.zip", members)

    return write
