"""What is beyond a limit, broken or hostile is refused with a message, and the server goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gspn import GSPN
from gspn.errors import InputError
from gspn.web.app import create_app
from gspn.web.limits import Limits

ETHANOL = {"smiles": "CCO"}


def post(client: TestClient, question: Any, path: str = "what-if") -> Any:
    return client.post(f"/api/{path}", json=question)


@pytest.fixture(autouse=True)
def still_up(client: TestClient) -> Iterator[None]:
    """After every attempt the server answers as before."""
    yield
    assert post(client, ETHANOL).status_code == 200


@pytest.mark.parametrize(
    ("smiles", "message"),
    [
        ("", "no SMILES"),
        ("   ", "no SMILES"),
        ("C1CC", "cannot be read"),
        ("C(C)(C)(C)(C)C", "cannot be read"),
        ("<script>window.pwned = 1</script>", "cannot be read"),
        ("CCO <script>alert(1)</script>", "cannot be read"),
        ("../../etc/passwd", "cannot be read"),
        ("C" * 1_000, "too many atoms: 1,000"),
        ("C" * 10_000, "too many SMILES characters: 10,000"),
        ("Ｃ Ｃ Ｏ", "plain letters"),
        ("C\u202eO\u0000C", "plain letters"),
        ("\ud83d\ude00", "plain letters"),
        ("C\nC", "plain letters"),
        ("(" * 1_500, "cannot be read"),
        ("[" * 1_500, "cannot be read"),
        ("%", "cannot be read"),
    ],
)
def test_broken_molecules(client: TestClient, smiles: str, message: str) -> None:
    answer = client.post(
        "/api/what-if", content=json.dumps({"smiles": smiles}), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422, answer.text
    assert message in answer.json()["error"]


def change(**other: Any) -> dict[str, Any]:
    return ETHANOL | {"edits": [{"do": "set", "vertex": 0, "attribute": "element", "value": "O"} | other]}


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (change(vertex=3), "vertex 3 does not exist"),
        (change(vertex=-1), "malformed"),
        (change(vertex="0"), "malformed"),
        (change(vertex=1.5), "malformed"),
        (change(vertex=True), "malformed"),
        (change(vertex=10**30), "malformed"),
        (change(attribute="mass"), "no attribute 'mass'"),
        (change(attribute="<img src=x onerror=alert(1)>"), "no attribute"),
        (change(attribute="x" * 400), "malformed"),
        (change(value="Xx"), "'Xx' is none of the categories"),
        (change(value=["O"]), "malformed"),
        (change(value={"O": 1}), "malformed"),
        (change(attribute="degree", value=-2), "negative"),
        (change(attribute="degree", value=10**400), "degree"),
        (change(attribute="degree", value="two"), "degree"),
        (change(do="destroy"), "malformed"),
        (change(more=1), "malformed"),
        (ETHANOL | {"edits": [{"do": "remove", "ends": [0, 2]}]}, "no such edge"),
        (ETHANOL | {"edits": [{"do": "remove", "ends": [0]}]}, "malformed"),
        (ETHANOL | {"edits": [{"do": "add", "ends": [0, 2], "type": 77}]}, "no edge type"),
        (ETHANOL | {"edits": [{"do": "add", "ends": [0, 9], "type": 0}]}, "does not exist"),
        (ETHANOL | {"edits": change()["edits"] * 201}, "too many edits: 201"),
        (ETHANOL | {"edits": "all"}, "malformed"),
        (ETHANOL | {"leave_one_out": "yes"}, "malformed"),
        (ETHANOL | {"upload": "x"}, "one of them"),
        ({}, "one of them"),
        ([], "malformed"),
        ("CCO", "malformed"),
        (None, "malformed"),
        ({"smiles": 7}, "malformed"),
    ],
)
def test_wrong_questions(client: TestClient, question: Any, message: str) -> None:
    answer = post(client, question)
    assert answer.status_code == 422, answer.text
    assert message in answer.json()["error"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none(client: TestClient, number: str) -> None:
    text = json.dumps(change(attribute="degree", value="number")).replace('"number"', number)
    answer = client.post("/api/what-if", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert "malformed" in answer.json()["error"]


@pytest.mark.parametrize("text", ["", "{", "[" * 40_000, '{"smiles": "CCO"', "\x00", "smiles=CCO"])
def test_broken_json(client: TestClient, text: str) -> None:
    answer = client.post("/api/what-if", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert set(answer.json()) == {"error"}


def test_other_content_types(client: TestClient) -> None:
    answer = client.post("/api/what-if", content=json.dumps(ETHANOL), headers={"Content-Type": "text/plain"})
    assert answer.status_code == 422  # a form of another site could send this without asking


@pytest.mark.parametrize("path", ["replacements", "conditional"])
@pytest.mark.parametrize(
    "asked",
    [{"vertex": 3, "attribute": "element"}, {"vertex": 0, "attribute": "mass"}, {"vertex": 0}, {"vertex": None}],
)
def test_wrong_entries(client: TestClient, path: str, asked: dict[str, Any]) -> None:
    answer = post(client, ETHANOL | asked, path)
    assert answer.status_code == 422
    assert answer.json()["error"]


def test_large_bodies(client: TestClient) -> None:
    pasted = post(client, {"smiles": "C" * 10_000_000})
    assert pasted.status_code == 413
    assert "at most 100,000 bytes" in pasted.json()["error"]

    def pieces() -> Iterator[bytes]:  # of no announced length
        yield b'{"smiles": "'
        for _ in range(300):
            yield b"C" * 1_000

    streamed = client.post("/api/what-if", content=pieces(), headers={"Content-Type": "application/json"})
    assert streamed.status_code == 413


def test_paths(client: TestClient) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2f..%2fapp.py", "/static//etc/passwd"):
        answer = client.get(path)
        assert answer.status_code == 404, path
        assert set(answer.json()) == {"error"}
    for path in ("/docs", "/redoc", "/openapi.json", "/api/nothing", "/api/tables/../about/x"):
        assert client.get(path).status_code == 404, path
    assert client.get("/api/what-if").status_code == 405


def test_no_page_can_frame_it(client: TestClient) -> None:
    policy = client.get("/").headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert policy.endswith("frame-ancestors 'none'")


def test_names_of_other_machines(client: TestClient) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[::1", "", "a" * 5_000):
        answer = client.get("/", headers={"Host": host})
        assert answer.status_code == 400, host
    for host in ("localhost:8000", "127.0.0.1", "[::1]:8000", "LOCALHOST"):
        assert client.get("/", headers={"Host": host}).status_code == 200, host


def test_pages_of_other_sites(client: TestClient) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999"):
        answer = client.post("/api/what-if", json=ETHANOL, headers={"Origin": origin})
        assert answer.status_code == 403, origin
    assert client.post("/api/what-if", json=ETHANOL, headers={"Origin": "http://127.0.0.1"}).status_code == 200
    assert "access-control-allow-origin" not in client.get("/").headers


def test_every_answer_tells_browsers_what_is_allowed(client: TestClient) -> None:
    for answer in (client.get("/"), client.get("/static/js/main.js"), client.get("/nowhere"), post(client, [])):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_too_many_requests(model: GSPN) -> None:
    with TestClient(create_app(model, Limits(requests_per_second=1)), base_url="http://127.0.0.1") as hurried:
        answers = [hurried.get("/api/about") for _ in range(10)]
        assert [answer.status_code for answer in answers[:3]] == [200] * 3
        assert answers[-1].status_code == 429
        assert "at most 1 a second" in answers[-1].json()["error"]
        assert hurried.get("/").status_code == 200


def test_too_little_time(model: GSPN) -> None:
    with TestClient(create_app(model, Limits(seconds=0.0)), base_url="http://127.0.0.1") as hurried:
        answer = post(hurried, ETHANOL)
        assert answer.status_code == 503
        assert "within 0 seconds" in answer.json()["error"]


def test_too_many_waiting(model: GSPN) -> None:
    with TestClient(create_app(model, Limits(waiting=0)), base_url="http://127.0.0.1") as hurried:
        answer = post(hurried, ETHANOL)
        assert answer.status_code == 503
        assert "busy" in answer.json()["error"]


def test_what_nobody_expected_is_not_told(model: GSPN, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("gspn.web.answers.compare", fail)
    app = create_app(model)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as unlucky:
        answer = post(unlucky, ETHANOL)
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


def test_unfitted_models_are_refused(model: GSPN) -> None:
    with pytest.raises(InputError, match="not fitted"):
        create_app(GSPN(model.schema))
