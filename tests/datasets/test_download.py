"""Downloads from a server on loopback that behaves well, badly, or not at all."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gspn.datasets import download as module
from gspn.datasets.download import download
from gspn.errors import InputError

CONTENT = np.random.default_rng(0).bytes(1_000_000)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "raw" / "tu" / "SET.zip"


def leftovers(place: Path) -> list[str]:
    return sorted(file.name for file in place.parent.iterdir() if not file.name.endswith(".lock"))


def start_partly(server: Any, place: Path, received: int) -> None:
    """What an interrupted download leaves."""
    server.files["/SET.zip"].cuts = [received] + [0] * (module.ATTEMPTS - 1)
    with pytest.raises(InputError, match="broke off"):
        download(f"{server.url}/SET.zip", place, progress=False)
    assert place.with_name("SET.zip.partial").stat().st_size == received
    assert not place.exists()
    server.requests.clear()


@pytest.mark.parametrize("progress", [True, False])
def test_a_whole_file(server: Any, place: Path, progress: bool) -> None:
    server.serve("/SET.zip", CONTENT)
    download(f"{server.url}/SET.zip", place, sha256=hashlib.sha256(CONTENT).hexdigest(), progress=progress)
    assert place.read_bytes() == CONTENT
    assert leftovers(place) == ["SET.zip"]
    assert server.ranges() == [None]
    assert server.requests[0][1]["User-Agent"].startswith("gspn/")


def test_a_file_that_is_there_is_not_fetched(server: Any, place: Path) -> None:
    place.parent.mkdir(parents=True)
    place.write_bytes(b"mine")
    download(f"{server.url}/SET.zip", place)
    assert place.read_bytes() == b"mine"
    assert not server.requests


def test_a_broken_connection_is_resumed_at_once(server: Any, place: Path) -> None:
    server.serve("/SET.zip", CONTENT, cuts=[300_000, 200_000])
    download(f"{server.url}/SET.zip", place, progress=False)
    assert place.read_bytes() == CONTENT
    assert server.ranges() == [None, "bytes=300000-", "bytes=500000-"]


@pytest.mark.parametrize("validator", [{"etag": '"v1"'}, {"etag": None, "modified": "Mon, 01 Jan 2024 00:00:00 GMT"}])
def test_an_interrupted_download_is_resumed_next_time(server: Any, place: Path, validator: dict[str, Any]) -> None:
    server.serve("/SET.zip", CONTENT, **validator)
    start_partly(server, place, 400_000)
    download(f"{server.url}/SET.zip", place, progress=False)
    assert place.read_bytes() == CONTENT
    assert server.ranges() == ["bytes=400000-"]
    assert leftovers(place) == ["SET.zip"]


def test_a_file_that_has_changed_meanwhile_is_fetched_anew(server: Any, place: Path) -> None:
    server.serve("/SET.zip", CONTENT)
    start_partly(server, place, 400_000)
    newer = CONTENT[::-1]
    server.serve("/SET.zip", newer, etag='"second"')
    download(f"{server.url}/SET.zip", place, progress=False)
    assert place.read_bytes() == newer


def test_a_server_that_ignores_ranges_sends_all_again(server: Any, place: Path) -> None:
    server.serve("/SET.zip", CONTENT)
    start_partly(server, place, 400_000)
    server.files["/SET.zip"].honours_range = False
    download(f"{server.url}/SET.zip", place, progress=False)
    assert place.read_bytes() == CONTENT
    assert server.ranges() == ["bytes=400000-"]


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_a_validator_nothing_is_continued(server: Any, place: Path, etag: str | None) -> None:
    server.serve("/SET.zip", CONTENT, etag=etag)
    start_partly(server, place, 0)
    server.files["/SET.zip"].cuts = [300_000]
    download(f"{server.url}/SET.zip", place, progress=False)
    assert place.read_bytes() == CONTENT
    assert server.ranges() == [None, None]


def test_another_address_continues_nothing(server: Any, place: Path) -> None:
    server.serve("/SET.zip", CONTENT)
    start_partly(server, place, 400_000)
    server.serve("/OTHER.zip", CONTENT[::-1])
    download(f"{server.url}/OTHER.zip", place, progress=False)
    assert place.read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize("note", ["", "{", "[]", "null", '{"url": 1}'])
def test_a_damaged_note_continues_nothing(server: Any, place: Path, note: str) -> None:
    server.serve("/SET.zip", CONTENT)
    start_partly(server, place, 400_000)
    place.with_name("SET.zip.partial.json").write_text(note)
    download(f"{server.url}/SET.zip", place, progress=False)
    assert place.read_bytes() == CONTENT
    assert server.ranges() == [None]


def test_a_partial_file_that_is_too_long_is_thrown_away(server: Any, place: Path) -> None:
    server.serve("/SET.zip", CONTENT)
    start_partly(server, place, 400_000)
    place.with_name("SET.zip.partial").write_bytes(bytes(len(CONTENT) + 1))
    download(f"{server.url}/SET.zip", place, progress=False)
    assert place.read_bytes() == CONTENT


def test_a_complete_partial_file_only_has_to_be_placed(server: Any, place: Path) -> None:
    """The process was killed between the last byte and the renaming."""
    server.serve("/SET.zip", CONTENT)
    start_partly(server, place, 400_000)
    place.with_name("SET.zip.partial").write_bytes(CONTENT)
    download(f"{server.url}/SET.zip", place, sha256=hashlib.sha256(CONTENT).hexdigest(), progress=False)
    assert place.read_bytes() == CONTENT
    assert not server.requests


def test_a_range_that_the_server_does_not_have(server: Any, place: Path) -> None:
    """The same tag, but a shorter file: the server is at odds with itself, and everything is fetched anew."""
    server.serve("/SET.zip", CONTENT)
    start_partly(server, place, 400_000)
    server.serve("/SET.zip", CONTENT[:1000])
    download(f"{server.url}/SET.zip", place, progress=False)
    assert place.read_bytes() == CONTENT[:1000]
    assert server.ranges() == ["bytes=400000-", None]


def test_a_file_of_another_length_under_the_same_tag(server: Any, place: Path) -> None:
    server.serve("/SET.zip", CONTENT)
    start_partly(server, place, 400_000)
    server.serve("/SET.zip", CONTENT[::-1] + b"more")
    download(f"{server.url}/SET.zip", place, progress=False)
    assert place.read_bytes() == CONTENT[::-1] + b"more"


def test_a_body_of_unknown_length(server: Any, place: Path) -> None:
    server.serve("/SET.zip", CONTENT, tells_length=False)
    download(f"{server.url}/SET.zip", place, progress=False)
    assert place.read_bytes() == CONTENT


@pytest.mark.parametrize("resumed", [False, True])
def test_a_wrong_checksum_leaves_nothing(server: Any, place: Path, resumed: bool) -> None:
    server.serve("/SET.zip", CONTENT)
    if resumed:
        start_partly(server, place, 400_000)
    with pytest.raises(InputError, match=rf"checksum {hashlib.sha256(CONTENT).hexdigest()} instead of 00ff") as caught:
        download(f"{server.url}/SET.zip", place, sha256="00ff", progress=False)
    assert f"{server.url}/SET.zip" in str(caught.value)
    assert leftovers(place) == []


def test_a_busy_server_is_asked_again(server: Any, place: Path) -> None:
    server.serve("/SET.zip", CONTENT, statuses=[503, 429])
    download(f"{server.url}/SET.zip", place, progress=False)
    assert place.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("served", "named", "requests"),
    [
        ({"honours_range": False, "cuts": [999_999] * 50}, "broke off 4 times", 4),
        ({"statuses": [503] * 50}, "broke off 4 times, at last: HTTP status 503", 4),
        *(({"statuses": [status]}, f"answers with HTTP status {status}", 1) for status in (403, 404, 410)),  # final
    ],
)
def test_a_server_that_gives_no_file(
    server: Any, place: Path, served: dict[str, Any], named: str, requests: int
) -> None:
    server.serve("/SET.zip", CONTENT, **served)
    with pytest.raises(InputError, match=rf"/SET\.zip {named}"):
        download(f"{server.url}/SET.zip", place, progress=False)
    assert len(server.requests) == requests
    assert not place.exists()


def test_no_server(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(InputError, match=rf"http://127\.0\.0\.1:{port}/SET\.zip cannot be reached"):
        download(f"http://127.0.0.1:{port}/SET.zip", place, progress=False)


def test_a_silent_server(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/SET.zip"
        with pytest.raises(InputError, match="timed out"):
            download(url, place, progress=False)


def test_a_place_that_cannot_be_written(server: Any, tmp_path: Path) -> None:
    server.serve("/SET.zip", CONTENT)
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(InputError, match=r"SET\.zip cannot be written"):
        download(f"{server.url}/SET.zip", tmp_path / "file" / "SET.zip", progress=False)


def test_several_at_once_fetch_it_once(server: Any, place: Path) -> None:
    server.serve("/SET.zip", CONTENT)
    threads = [
        threading.Thread(target=download, args=(f"{server.url}/SET.zip", place), kwargs={"progress": False})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert place.read_bytes() == CONTENT
    assert len(server.requests) == 1


def test_the_note_says_what_the_part_belongs_to(server: Any, place: Path) -> None:
    server.serve("/SET.zip", CONTENT)
    start_partly(server, place, 400_000)
    note = json.loads(place.with_name("SET.zip.partial.json").read_text())
    assert note == {"url": f"{server.url}/SET.zip", "validator": '"first"', "total": len(CONTENT)}
