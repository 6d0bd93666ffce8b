"""A real browser for the tests of pages: Debian's chromium, driven by playwright. Without one these tests are skipped.

`browser` is started once for each process of the tests. `page` is a fresh one with nothing remembered; a test fails if
something on it raises an error or complains on the console. `running` serves an app for it.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fastapi import FastAPI
    from playwright.sync_api import Browser, Page

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("there is no chromium here; on Debian: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    fresh = context.new_page()
    complaints: list[str] = []
    fresh.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    fresh.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    yield fresh
    context.close()
    assert not complaints, complaints


@contextlib.contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """The address of a server of an app, on a port of its own."""
    from gspn.web.serving import listening, server_of

    server = server_of(app)
    with listening("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server.should_exit = True
        thread.join()
