"""The page in a notebook: shown in a frame of a page on this machine, and gone when it is closed."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

from gspn import GSPN
from gspn.errors import InputError
from gspn.web.notebook import NotebookPage

if TYPE_CHECKING:
    from playwright.sync_api import Page


@contextmanager
def notebook(content: str) -> Iterator[str]:
    """The address of a page on loopback with this content, as a notebook's server would give it."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f"<!doctype html><link rel='icon' href='data:,'>{content}".encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def test_a_notebook_shows_it(page: Page, model: GSPN) -> None:
    with NotebookPage(model, height=600) as shown, notebook(shown._repr_html_()) as address:
        page.goto(address)
        frame = page.frame_locator("iframe")
        frame.locator("#workspace:not([hidden])").wait_for()
        frame.locator("#edited [data-vertex='0']").click()
        frame.locator(".replacement").first.wait_for()
        box = page.locator("iframe").bounding_box()
        assert box is not None
        assert box["height"] >= 600


def test_other_pages_cannot_frame_it(client: TestClient, model: GSPN) -> None:
    """That of `serve` nobody, that of a notebook pages of this machine alone."""
    assert client.get("/").headers["content-security-policy"].endswith("frame-ancestors 'none'")
    with NotebookPage(model) as shown, urllib.request.urlopen(shown.address, timeout=60) as answer:
        policy = answer.headers["content-security-policy"]
    assert policy.endswith("frame-ancestors http://localhost:* http://127.0.0.1:*")


def test_it_ends_when_it_is_closed(model: GSPN) -> None:
    shown = NotebookPage(model)
    assert repr(shown) == f"NotebookPage({shown.address})"
    shown.close()
    shown.close()
    assert repr(shown).endswith(", closed)")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(shown.address, timeout=10)


@pytest.mark.parametrize("height", [0, -1, "800", True])
def test_a_height_that_is_none(height: Any, model: GSPN) -> None:
    with pytest.raises(InputError, match="height must be a positive number of pixels"):
        NotebookPage(model, height=height)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        NotebookPage(tmp_path)
