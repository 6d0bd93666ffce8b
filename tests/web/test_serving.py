"""Starting the server: from the command line, on loopback, with a saved model or the page's own."""

from __future__ import annotations

import importlib
import json
import logging
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient

from gspn import GSPN, load
from gspn.errors import InputError, MissingExtraError
from gspn.web import learning, make_default, serving
from gspn.web.app import create_app


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """`serve` sets torch's number of threads; other tests have their own."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_the_command_serves_a_saved_model(model: GSPN, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    command = [sys.executable, "-m", "gspn.web", str(tmp_path / "model"), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            address = re.fullmatch(r"(http://127\.0\.0\.1:\d+/)\n", line)
            assert address, line
            with urllib.request.urlopen(f"{address[1]}api/about", timeout=60) as answer:
                assert json.load(answer)["state"] == "ready"
            request = urllib.request.Request(address[1], headers={"Host": "evil.example"})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=60)
            refused.value.close()
            assert refused.value.code == 400
        finally:
            process.send_signal(signal.SIGINT)
            try:
                _, said = process.communicate(timeout=30)
            finally:
                process.kill()
    assert process.returncode == 0, said
    assert said == ""


def test_wrong_folders_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gspn.web.__main__ import main

    assert main([str(tmp_path / "nothing"), "--no-browser"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "nothing" in said


def test_other_machines_are_warned_about(
    model: GSPN, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import uvicorn

    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    with caplog.at_level(logging.WARNING):
        serving.serve(model, open_browser=False, announce=lambda _: None)
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        serving.serve(model, host="0.0.0.0", port=0, open_browser=False, announce=lambda _: None)
    assert "OPEN TO THE NETWORK" in caplog.text


def test_ports(model: GSPN, monkeypatch: pytest.MonkeyPatch) -> None:
    import uvicorn

    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    found: list[str] = []
    with serving.listening("127.0.0.1", 0) as taken:
        number = taken.getsockname()[1]
        monkeypatch.setattr(serving, "PORT", number)
        serving.serve(model, open_browser=False, announce=found.append)
        assert f":{number}/" not in found[0]
        with pytest.raises(InputError, match=f"port {number}"):
            serving.serve(model, port=number, open_browser=False)
    with pytest.raises(InputError, match="65535"):
        serving.serve(model, port=70_000, open_browser=False)


def ready(client: TestClient) -> Any:
    """What the page is told once there is a model, or none to come."""
    for _ in range(100):
        if (seen := client.get("/api/about").json())["state"] != "learning":
            break
        time.sleep(0.02)
    return seen


def test_the_page_has_a_model_of_its_own() -> None:
    with TestClient(create_app(), base_url="http://127.0.0.1") as client:
        seen = ready(client)
        assert seen["state"] == "ready", seen
        assert seen["model"]["molecules"]
        assert "MUV" in seen["model"]["learned_from"]
        asked = {"smiles": "CCO", "vertex": 2, "attribute": "element", "leave_one_out": True}
        found = client.post("/api/replacements", json=asked).json()
    # An oxygen at the end of a chain is what it expects there before anything exotic.
    order = [row["value"] for row in found["replacements"]]
    assert order.index("O") < order.index("P")
    assert order.index("C") < order.index("K")


def test_the_model_is_small_and_is_that_of_its_maker() -> None:
    assert sum(file.stat().st_size for file in learning.DEFAULT.iterdir()) < 2_000_000
    model = load(learning.DEFAULT)
    assert model.schema.names == learning.ATOM_FEATURES
    made = make_default._SETTINGS
    assert {name: getattr(model, name) for name in made} == made


def test_a_model_that_cannot_be_loaded_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(learning, "DEFAULT", tmp_path / "gone")
    with TestClient(create_app(), base_url="http://127.0.0.1") as client:
        seen = ready(client)
        assert seen["state"] == "failed"
        answer = client.post("/api/what-if", json={"smiles": "CCO"})
        assert answer.status_code == 503
        assert seen["error"] in answer.json()["error"]
        tables = client.post("/api/tables", files={"nodes": ("n.csv", b"id,x\n0,a\n1,b\n", "text/csv")})
        assert tables.json()["fitted"]


@pytest.mark.parametrize("package", ["fastapi", "python_multipart"])
def test_missing_packages_are_named_with_their_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "gspn.web.app")
    with pytest.raises(MissingExtraError, match=rf"{package}.*gspn\[web\]"):
        importlib.import_module("gspn.web.app")
