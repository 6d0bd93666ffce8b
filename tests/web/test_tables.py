"""Uploaded tables: asked of the model if they fit it, else of a small one that is fitted to them."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from comparison import same
from fastapi.testclient import TestClient
from friends import SCHEMA, friends

from gspn import GSPN, GraphDataset, Stack, from_tables, policy, to_tables
from gspn.graphs import pack
from gspn.training import pause
from gspn.web.app import create_app
from gspn.web.columns import TableColumns
from gspn.web.learning import Learning, learn_tables
from gspn.web.limits import Limits
from gspn.web.serving import columns_of, model_of

NODES = "id,team,age\n" + "".join(f"p{i},{'red' if i % 2 else 'blue'},{20.5 + i if i % 5 else ''}\n" for i in range(12))
EDGES = "source,target,since\n" + "".join(f"p{i},p{(i + 2) % 12},2020\n" for i in range(12))


@pytest.fixture(scope="module")
def friendly() -> Iterator[tuple[GSPN, TestClient]]:
    """A model that knows no molecules, and its page."""
    model = GSPN(SCHEMA, num_layers=2, num_states=3, objective="masked", epochs=3)
    model.fit(pack([friends(seed) for seed in range(5)], SCHEMA), progress=False)
    app = create_app(
        model, Limits(requests_per_second=1e6, vertices=200, columns=6, categories=20, upload_bytes=200_000)
    )
    with TestClient(app, base_url="http://127.0.0.1") as client:
        yield model, client


def upload(client: TestClient, nodes: str | bytes, edges: str | bytes | None = None) -> Any:
    files = {"nodes": ("nodes.csv", io.BytesIO(nodes.encode() if isinstance(nodes, str) else nodes), "text/csv")}
    if edges is not None:
        files["edges"] = ("edges.csv", io.BytesIO(edges.encode() if isinstance(edges, str) else edges), "text/csv")
    return client.post("/api/tables", files=files)


def ready(client: TestClient, name: str) -> Any:
    for _ in range(600):
        report = client.get(f"/api/tables/{name}").json()
        if report["state"] != "learning":
            return report
        time.sleep(0.05)
    pytest.fail("still learning")


def ask(client: TestClient, path: str, **question: Any) -> Any:
    answer = client.post(f"/api/{path}", json=question)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_model_is_fitted_to_other_attributes(client: TestClient) -> None:
    answer = upload(client, NODES, EDGES)
    assert answer.status_code == 200, answer.text
    report = ready(client, answer.json()["upload"])
    assert report["state"] == "ready", report
    assert report["fitted"]
    assert report["attributes"] == [{"name": "team", "kind": "categorical"}, {"name": "age", "kind": "continuous"}]
    question = {"upload": report["upload"], "edits": [{"do": "set", "vertex": 3, "attribute": "team", "value": "blue"}]}
    found = ask(client, "what-if", **question)
    assert found["names"][:2] == ["p0", "p1"]
    assert not found["is_molecule"]
    assert found["entries_after"]["team"][3] == "blue"
    assert found["entries"]["age"][0] is None
    assert found["change"][3] != 0
    aged = ask(client, "replacements", **question, vertex=1, attribute="age", values=[99])
    assert {row["value"] for row in aged["replacements"]} >= {21.5, 99.0}
    assert aged["conditional"]["interval"][0] < aged["conditional"]["interval"][1]
    removed = ask(client, "what-if", upload=report["upload"], edits=[{"do": "remove", "ends": [0, 2]}])
    assert len(removed["edges_after"]) == len(removed["edges"]) - 1
    # The same tables again are the same upload.
    assert upload(client, NODES, EDGES).json()["upload"] == report["upload"]


def test_tables_that_fit_are_asked_of_the_model(friendly: tuple[GSPN, TestClient], tmp_path: Path) -> None:
    model, client = friendly
    graph = friends(99)
    values = SCHEMA.decode(graph.x)
    nodes = pd.DataFrame({"id": range(len(graph.x)), **values})
    pairs = sorted({tuple(sorted(pair)) for pair in graph.edge_index.T.tolist()})
    edges = pd.DataFrame(pairs, columns=["source", "target"])
    answer = upload(client, nodes.to_csv(index=False), edges.to_csv(index=False))
    report = answer.json()
    assert answer.status_code == 200, answer.text
    assert (report["fitted"], report["state"]) == (False, "ready")
    found = ask(client, "what-if", upload=report["upload"], leave_one_out=True)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    expected = model.log_likelihood(
        from_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv", SCHEMA)[0], leave_one_out=True
    )
    torch.testing.assert_close(torch.tensor(found["before"]), expected, rtol=1e-5, atol=1e-5)


def test_several_graphs(client: TestClient) -> None:
    nodes = "id,graph,kind\n" + "".join(f"{i},{g},{'ab'[i % 2]}\n" for g in ("one", "two") for i in range(6))
    edges = "graph,source,target,type\n" + "".join(
        f"{g},{i},{i + 1},{'xy'[i % 2]}\n" for g in ("one", "two") for i in range(5)
    )
    report = upload(client, nodes, edges).json()
    assert report["graphs"] == ["one", "two"]
    assert ready(client, report["upload"])["state"] == "ready"
    found = ask(client, "what-if", upload=report["upload"], graph=1)
    assert found["edge_types"] == ["x", "y"]
    beyond = client.post("/api/what-if", json={"upload": report["upload"], "graph": 2})
    assert beyond.status_code == 422
    assert "graph 2 does not exist" in beyond.json()["error"]


def test_molecules_are_refused_by_a_model_of_friends(friendly: tuple[GSPN, TestClient]) -> None:
    _, client = friendly
    assert client.get("/api/about").json()["model"]["molecules"] is False
    answer = client.post("/api/what-if", json={"smiles": "CCO"})
    assert answer.status_code == 422
    assert "does not know molecules" in answer.json()["error"]


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ("", None, "id"),
        ("name,team\na,red\n", None, "column called id"),
        ("id,team\na,red\na,blue\n", None, "occurs already"),
        ("id,team\na,red\n", "from,to\na,a\n", "column called source"),
        ("id,team\na,red\nb,red\n", "source,target\na,c\n", "'c'"),
        ("id,team\na,red,3\n", None, "cells"),
        ("id\na\n", None, "attribute"),
        ("id,a,b,c,d,e,f,g,h\n" + "1,2,3,4,5,6,7,8,9\n", None, "too many columns"),
        ("id,x\n" + "".join(f"{i},1\n" for i in range(500)), None, "too many rows of nodes"),
        ("id,x\n" + "".join(f"{i},value {i // 2}\n" for i in range(200)), None, "too many values of 'x'"),
        ("id,x\n0,inf\n1,2.5\n", None, "infinite"),
        (f"id,x\n0,{'a' * 5_000}\n1,b\n", None, "too many characters in 'x'"),
        (f"id,{'x' * 5_000}\n0,a\n1,b\n", None, "too many characters in"),
        (b"id,x\n0,\xff\xfe\n", None, "UTF-8"),
        (b"id,x\n\x00\x00,1\n", None, "CSV"),
        (b"PK\x03\x04\x00\x00", None, "CSV"),
    ],
)
def test_broken_tables(friendly: tuple[GSPN, TestClient], nodes: str | bytes, edges: str | None, message: str) -> None:
    _, client = friendly
    answer = upload(client, nodes, edges)
    assert answer.status_code == 422, answer.text
    assert message in answer.json()["error"]
    assert "/tmp" not in answer.text
    assert "gspn-web-" not in answer.text


def test_large_uploads(friendly: tuple[GSPN, TestClient]) -> None:
    _, client = friendly
    answer = upload(client, "id,x\n" + "1,1\n" * 100_000)
    assert answer.status_code == 413
    assert "at most 200,000 bytes" in answer.json()["error"]


def test_names_are_data(client: TestClient) -> None:
    nasty = "<script>window.pwned=1</script>"
    nodes = f'id,kind\n{nasty},a\n"=cmd()|""x""",b\n../../x,a\n'
    report = upload(client, nodes, f"source,target\n{nasty},../../x\n").json()
    assert ready(client, report["upload"])["state"] == "ready"
    found = ask(client, "what-if", upload=report["upload"])
    assert found["names"] == [nasty, '=cmd()|"x"', "../../x"]


def test_uploads_make_room(model: GSPN) -> None:
    with TestClient(create_app(model, Limits(uploads=1)), base_url="http://127.0.0.1") as client:
        first, second = (upload(client, f"id,x\n0,{x}\n1,b\n").json()["upload"] for x in "ac")
        assert client.get(f"/api/tables/{first}").status_code == 404
        assert ready(client, second)["state"] == "ready"
        gone = client.post("/api/what-if", json={"upload": first})
        assert gone.status_code == 404
        assert "upload the tables again" in gone.json()["error"]
        for name in ("..%2f..%2fetc", "%00", "x" * 500):
            assert client.get(f"/api/tables/{name}").status_code == 404


def test_malformed_uploads(client: TestClient) -> None:
    assert client.post("/api/tables", json={"nodes": "id"}).status_code == 422
    assert client.post("/api/tables", data={"nodes": "id"}).status_code == 422
    broken = client.post("/api/tables", content=b"--x\r\n", headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert broken.status_code in (400, 422)


def tables(size: int) -> tuple[str, str]:
    """Enough rows to choose by, where there are sixty."""
    rows = [f"p{i},{'red' if i % 2 else 'blue'},{20.5 + i % 7 + 9 * (i % 2) if i % 5 else ''}\n" for i in range(size)]
    pairs = [f"p{i},p{(i + 2) % size},2020\n" for i in range(size)]
    return "id,team,age\n" + "".join(rows), "source,target,since\n" + "".join(pairs)


def read_upload(tmp_path: Path, size: int) -> GraphDataset:
    nodes, edges = tables(size)
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text(edges)
    return from_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv", ignore="since")


def test_an_upload_is_learned_as_everywhere_else(tmp_path: Path) -> None:
    graphs, learning = read_upload(tmp_path, 60), Learning()
    learn_tables(learning, graphs, Limits())
    found = policy.select(graphs, effort="quick")
    stack: Any = learning.model
    assert stack.weights == found.stack.weights
    assert all(same(one, other) for one, other in zip(stack.models, found.stack.models, strict=True))
    assert learning.chosen is not None
    assert "1 model" in learning.chosen["why"] or "models" in learning.chosen["why"]
    assert sum(one["weight"] for one in learning.chosen["tried"]) == pytest.approx(1.0)


def test_learning_ends_when_the_time_is_up(tmp_path: Path) -> None:
    graphs, learning = read_upload(tmp_path, 60), Learning()
    learn_tables(learning, graphs, Limits(fit_seconds=1e-6))
    assert isinstance(learning.model, Stack)
    assert torch.isfinite(learning.model.log_likelihood(graphs[0])).all()


def test_others_are_answered_while_an_upload_learns(model: GSPN, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same thread, between two steps of learning; and the page is told in words how far it is."""
    asked, answered = threading.Event(), threading.Event()
    seen: list[str] = []

    def learn(learning: Learning, graphs: GraphDataset, limits: Limits) -> None:
        seen.append(threading.current_thread().name)
        learn_tables(learning, graphs, limits)
        asked.set()
        for _ in range(600):
            pause()
            if answered.wait(0.05):
                return
        raise AssertionError("nobody was answered")

    monkeypatch.setattr("gspn.web.shelf.learn_tables", learn)
    with TestClient(create_app(model, Limits(requests_per_second=1e6)), base_url="http://127.0.0.1") as client:
        upload(client, *tables(60))
        assert asked.wait(60)
        found = ask(client, "what-if", smiles="CCO")
        answered.set()
        assert len(found["names"]) == 3
        assert len(seen) == 1


def test_a_forgotten_upload_is_not_learned_on(model: GSPN, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def learn(learning: Learning, graphs: GraphDataset, limits: Limits) -> None:
        if begun.is_set():
            learn_tables(learning, graphs, limits)
            return
        begun.set()
        try:
            for _ in range(600):
                time.sleep(0.05)
                pause()
        except BaseException:
            ended.set()
            raise

    monkeypatch.setattr("gspn.web.shelf.learn_tables", learn)
    limits = Limits(uploads=1, requests_per_second=1e6)
    with TestClient(create_app(model, limits), base_url="http://127.0.0.1") as client:
        upload(client, *tables(60))
        assert begun.wait(60)
        second = upload(client, NODES, EDGES).json()["upload"]
        assert ended.wait(60), "it was pushed out by the second one"
        assert ready(client, second)["state"] == "ready"


def test_a_stack_is_asked_as_a_model_is(tmp_path: Path) -> None:
    """What an upload's stack says on the page is what its methods say; saved and loaded it is the page's model."""
    learning = Learning()
    graphs = read_upload(tmp_path, 60)
    learn_tables(learning, graphs, Limits())
    stack: Any = learning.model
    stack.save(tmp_path / "stack")
    loaded = model_of(tmp_path / "stack")
    with TestClient(create_app(loaded, Limits(requests_per_second=1e6)), base_url="http://127.0.0.1") as client:
        about = client.get("/api/about").json()["model"]
        assert (about["models"], about["leave_one_out"]) == (len(stack.models), True)
        report = upload(client, *tables(60)).json()
        assert (report["fitted"], report["state"]) == (False, "ready")
        edit = {"do": "set", "vertex": 3, "attribute": "team", "value": "blue"}
        found = ask(client, "what-if", upload=report["upload"], edits=[edit], leave_one_out=True)
        expected = stack.what_if(graphs[0], {3: {"team": "blue"}}, leave_one_out=True)
        torch.testing.assert_close(torch.tensor(found["change"]), expected.change.float(), rtol=1e-4, atol=1e-5)
        question = {"upload": report["upload"], "vertex": 3, "attribute": "team", "leave_one_out": True}
        rows = ask(client, "replacements", **question)["replacements"]
        changes = {row["value"]: row["change"] for row in rows}
        every = stack.what_if_all(graphs[0], "team", vertices=[3], leave_one_out=True)[0].tolist()
        assert [changes[name] for name in ("blue", "red")] == pytest.approx(every, rel=1e-4, abs=1e-5)


def test_what_is_done_is_said_in_words(tmp_path: Path) -> None:
    said: list[dict[str, Any]] = []

    class Told(Learning):
        def note(self, step: policy.Step) -> None:
            super().note(step)
            said.append(self.report())

    learning = Told()
    learn_tables(learning, read_upload(tmp_path, 60), Limits())
    assert said[0]["doing"].startswith("Trying model 1 of about ")
    assert "kinds of vertices" in said[1]["doing"]
    assert "learns from all entries" in said[-1]["doing"]
    shares = [one["share"] for one in said]
    assert shares == sorted(shares)
    assert all(one["state"] == "learning" for one in said)
    assert learning.report()["state"] == "ready"


def test_uploads_are_read_by_the_columns_of_the_model(tmp_path: Path) -> None:
    model = GSPN(SCHEMA, num_layers=2, num_states=3, objective="masked", epochs=3)
    model.fit(pack([friends(seed) for seed in range(5)], SCHEMA), progress=False).save(tmp_path / "m")
    kept = {"id": "who", "ends": ["from", "to"], "graph": None, "edge_type": None}
    (tmp_path / "m" / "reading.json").write_text(json.dumps(kept))
    columns = columns_of(tmp_path / "m")
    assert columns == TableColumns("who", "graph", "from", "to", "type")
    people, contacts = to_tables(pack([friends(9)], SCHEMA), graph=None)
    nodes = people.rename(columns={"id": "who"}).assign(junk="x").to_csv(index=False)
    edges = contacts.rename(columns={"source": "from", "target": "to"}).to_csv(index=False)
    with TestClient(create_app(model_of(tmp_path / "m"), columns=columns), base_url="http://127.0.0.1") as client:
        report = upload(client, nodes, edges).json()
        assert not report["fitted"], "the loaded model answers, whatever else the table has"
        shown = ask(client, "what-if", upload=report["upload"])
        assert shown["names"] == people["id"].astype(str).tolist()
        wrong = upload(client, NODES, EDGES)
        assert "needs a column called who" in wrong.json()["error"]
        assert client.get("/api/about").json()["columns"]["id"] == "who"


def test_a_model_of_tables_greets_with_its_table(friendly: tuple[GSPN, TestClient]) -> None:
    app = create_app(friendly[0], greeting=(NODES.encode(), EDGES.encode()))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        name = client.get("/api/about").json()["greeting"]
        assert ready(client, name)["state"] == "ready"
        assert len(ask(client, "what-if", upload=name)["names"]) == 12


def test_what_is_unknown_is_ranked_by_how_probable_it_is(friendly: tuple[GSPN, TestClient]) -> None:
    people, contacts = to_tables(pack([friends(9)], SCHEMA), graph=None)
    people.loc[3, "team"] = None
    report = upload(friendly[1], people.to_csv(index=False), contacts.to_csv(index=False)).json()
    assert not report["fitted"]
    asked = {"upload": report["upload"], "vertex": 3, "attribute": "team", "leave_one_out": True}
    found = ask(friendly[1], "replacements", **asked)
    chances = [row["probability"] for row in found["replacements"]]
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) == pytest.approx(1.0)
    assert chances == pytest.approx(sorted(found["conditional"]["probs"], reverse=True))
