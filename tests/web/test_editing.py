"""Pages of models with a property of molecules: the list of edits is that of `gspn.edit_list`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from browser import running
from fastapi.testclient import TestClient

import gspn
from gspn import GSPN, Binary, Categorical, Continuous, Schema
from gspn.errors import InputError
from gspn.web.app import create_app
from gspn.web.limits import Limits
from gspn.web.serving import model_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHAINS = ["C" * n + end for n in range(1, 13) for end in ("O", "N", "Cl", "")]
FEATURES = ["element", "hydrogens"]
SIZES = np.array([len(smiles) for smiles in CHAINS], dtype=float)


@pytest.fixture(scope="module", params=["number", "class", "end to end"])
def predictor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of models of sizes."""
    dataset = gspn.from_smiles(CHAINS, features=FEATURES, processes=1, progress=False)
    inner = GSPN(dataset.schema, num_layers=2, num_states=3, num_edge_types=5, epochs=2)
    features = gspn.GraphFeatures(inner, attributes=True)
    made: Any
    if request.param == "number":
        made = gspn.GraphRegressor(dataset.schema, Continuous("size"), features=features, heads="linear")
    elif request.param == "class":
        made = gspn.GraphClassifier(dataset.schema, Binary("large"), features=features, heads="linear")
    else:
        made = gspn.SupervisedGSPN(
            dataset.schema, Continuous("size"), num_layers=2, num_states=3, num_edge_types=5, epochs=2
        )
    labels = torch.tensor(SIZES > 6 if request.param == "class" else SIZES)
    made.fit(dataset, labels, progress=False)
    folder = tmp_path_factory.mktemp("predictors") / "model"
    made.save(folder)
    return folder


@pytest.fixture
def client(predictor: Path) -> Iterator[TestClient]:
    with TestClient(create_app(model_of(predictor), Limits(edited_atoms=20)), base_url="http://127.0.0.1") as started:
        while started.get("/api/about").json()["state"] == "learning":
            pass
        yield started


def test_the_list_is_that_of_the_library(predictor: Path, client: TestClient) -> None:
    found = client.post("/api/edits", json={"smiles": "CCCl"}).json()
    model: Any = gspn.load(predictor)
    expected = gspn.edit_list(model, "CCCl")
    assert [row["edit"] for row in found["rows"]] == expected["edit"].tolist()
    assert [row["smiles"] for row in found["rows"]] == expected["smiles"].tolist()
    change = expected.columns[-1] if isinstance(model.target, Binary) else "change"
    columns = {"change": change, "predicted": "predicted", "low": "change_low", "high": "change_high"}
    if isinstance(model.target, Binary):
        columns = {"change": change, "predicted": change.removeprefix("change of ")}
    assert found["property"] == (columns["predicted"] if isinstance(model.target, Binary) else "size")
    for own, name in columns.items():
        assert [row[own] for row in found["rows"]] == pytest.approx(expected[name].tolist())
    assert (found["rows"][0]["low"] is None) == (found["level"] is None) == isinstance(model.target, Binary)
    assert client.get("/api/about").json()["predicts"] == model.target.name
    assert client.post("/api/what-if", json={"smiles": "CCCl"}).status_code == 200


def test_large_molecules_are_refused(client: TestClient) -> None:
    answer = client.post("/api/edits", json={"smiles": "C" * 21})
    assert answer.status_code == 422
    assert "at most 20 atoms" in answer.json()["error"]


def test_other_models_have_no_list(model: GSPN, tmp_path: Path) -> None:
    with TestClient(create_app(model), base_url="http://127.0.0.1") as plain:
        assert plain.get("/api/about").json()["predicts"] is None
        assert plain.post("/api/edits", json={"smiles": "CCCl"}).status_code == 422
    schema = Schema([Categorical("team", ["a", "b"])])
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = [gspn.from_arrays(torch.full((2, 1), i % 2.0), edges, schema=schema)[0] for i in range(12)]
    inner = GSPN(schema, num_layers=2, num_states=2, epochs=1)
    of_teams = gspn.GraphClassifier(schema, Binary("won"), features=gspn.GraphFeatures(inner), heads="linear")
    of_teams.fit(graphs, np.arange(12) % 3 == 0, progress=False).save(tmp_path / "teams")
    with pytest.raises(InputError, match="one property of molecules"):
        model_of(tmp_path / "teams")


@pytest.mark.parametrize("predictor", ["number"], indirect=True)
def test_edits_are_shown_and_followed(page: Page, predictor: Path) -> None:
    model: Any = gspn.load(predictor)
    expected = gspn.edit_list(model, "CCCl")
    with running(create_app(model)) as address:
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(f"{address}#smiles=CCCl")
        page.wait_for_selector("#edits summary")
        assert "change of size" in page.inner_text("#edits summary")
        page.click("#edits summary")
        page.wait_for_selector("#edits tbody tr")
        assert page.locator("#edits tbody td button").all_inner_texts() == expected["edit"].tolist()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.locator("#edits tbody td button").first.click()
        page.wait_for_function("first => document.getElementById('smiles').value === first", arg=expected["smiles"][0])
        count = len(gspn.edit_list(model, expected["smiles"][0]))
        page.wait_for_function("count => document.querySelectorAll('#edits tbody tr').length === count", arg=count)
