"""The numbers of the page are those of the library."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from small_distributions import as_table
from torch_geometric.data import Data

from gspn import GSPN, Categorical, from_smiles
from gspn.web.examples import EXAMPLES
from gspn.web.learning import ATOM_FEATURES

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
FIFTY_ATOMS = "CC(C)c1c(C(=O)Nc2ccccc2)c(-c2ccccc2)c(-c2ccc(F)cc2)n1CCC(O)CC(O)CC(=O)OCCCCCCCCC"


def molecule(smiles: str) -> Data:
    return from_smiles([smiles], features=ATOM_FEATURES, progress=False)[0]


def elements(model: GSPN) -> list[Any]:
    kind = model.schema["element"]
    assert isinstance(kind, Categorical)
    return list(kind.categories)


def put(vertex: int, value: Any, attribute: str = "element") -> dict[str, Any]:
    return {"do": "set", "vertex": vertex, "attribute": attribute, "value": value}


def ask(client: TestClient, path: str, **question: Any) -> Any:
    answer = client.post(f"/api/{path}", json=question)
    assert answer.status_code == 200, answer.text
    return answer.json()


def assert_close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(torch.tensor(found).float(), torch.as_tensor(expected).float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_what_if_is_that_of_the_model(client: TestClient, model: GSPN, leave_one_out: bool) -> None:
    edits = [put(3, "N"), put(0, "S"), put(0, "Cl"), put(5, None), put(2, -1, "formal_charge")]
    found = ask(client, "what-if", smiles=ASPIRIN, edits=edits, leave_one_out=leave_one_out)
    changes: dict[int, dict[str, Any]] = {
        3: {"element": "N"},
        0: {"element": "Cl"},
        5: {"element": None},
        2: {"formal_charge": -1},
    }
    expected = model.what_if(molecule(ASPIRIN), changes, leave_one_out=leave_one_out)
    for name in ("before", "after", "change", "relative", "total"):
        assert_close(found[name], getattr(expected, name))
    assert_close(found["total_after"] - found["total_before"], expected.total)
    assert found["entries"]["element"][:4] == ["C", "C", "O", "O"]
    assert found["entries_after"]["element"][:6] == ["Cl", "C", "O", "N", "C", None]
    assert len(found["places"]) == len(found["names"]) == 13


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize(
    "edits",
    [
        [],
        [put(0, "F"), {"do": "remove", "ends": [3, 1]}],
        [put(3, "F")],  # which cannot be, so that what follows is unknown
        [put(3, 1, "hydrogens"), put(0, None)],
    ],
)
def test_the_list_has_the_numbers_of_clicks(
    chemist: tuple[GSPN, TestClient], edits: list[dict[str, Any]], leave_one_out: bool
) -> None:
    model, client = chemist
    asked: dict[str, Any] = {"smiles": ASPIRIN, "leave_one_out": leave_one_out}
    found = ask(client, "replacements", edits=edits, vertex=3, attribute="element", **asked)
    before = ask(client, "what-if", edits=edits, **asked)
    rows = [row for row in found["replacements"] if not row["current"]]
    assert len(rows) == len(elements(model)) - 1
    assert any(row["derived"] for row in rows)
    for row in [*rows, {**found["unknown"], "value": None}]:
        after = ask(client, "what-if", edits=[*edits, put(3, row["value"])], **asked)
        # Both versions as the page shows them, compared over what is known in both.
        sides = [from_entries(model, side) for side in (before, after)]
        changes = different(model, *sides)
        expected = model.what_if(sides[0], changes, leave_one_out=leave_one_out, derived=False)
        assert_close(row["change"], expected.total)
        others = {(v, name): value for v, own in changes.items() for name, value in own.items()}
        others.pop((3, "element"))
        assert {(one["vertex"], one["attribute"]) for one in row["derived"]} == set(others)
        if not edits:
            assert_close(row["change"], after["total"])
            assert {(one["vertex"], one["attribute"]) for one in after["derived"]} == set(others)


def test_the_list_is_that_of_the_library(chemist: tuple[GSPN, TestClient]) -> None:
    model, client = chemist
    graph = from_smiles([ASPIRIN], progress=False)[0]
    found = ask(client, "replacements", smiles=ASPIRIN, vertex=3, attribute="element", leave_one_out=True)
    listed = {row["value"]: row for row in found["replacements"]}
    for one in model.replacements(graph, "element", vertices=[3]):
        assert_close(listed[one.value]["change"], one.change)
        assert (listed[one.value]["reason"] is not None) == one.forbidden
        assert one.change == model.what_if(graph, {3: {"element": one.value}}).total.item()
    changes = [row["change"] for row in found["replacements"]]
    assert changes == sorted(changes, reverse=True)
    assert [row["value"] for row in found["replacements"] if row["current"]] == ["O"]
    table = as_table(model.conditional(graph, "element", vertices=[3]))
    assert_close(found["conditional"]["probs"], table.probs[0])


def from_entries(model: GSPN, answer: Any) -> Data:
    """The edited graph of an answer."""
    columns = [attribute.encode(answer["entries_after"][attribute.name]) for attribute in model.schema]
    edges = [(u, v, t) for u, v, t, _ in answer["edges_after"]]
    both = torch.tensor(edges + [(v, u, t) for u, v, t in edges]).T
    return Data(x=torch.tensor(np.stack(columns, 1)), edge_index=both[:2].contiguous(), edge_type=both[2])


def different(model: GSPN, old: Data, new: Data) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for v, column in ((old.x != new.x) & ~(old.x.isnan() & new.x.isnan())).nonzero().tolist():
        attribute = model.schema[column]
        found.setdefault(v, {})[attribute.name] = attribute.decode(new.x[[v], column])[0]
    return found


def test_conditional_is_that_of_the_model(client: TestClient, model: GSPN) -> None:
    found = ask(client, "conditional", smiles=ASPIRIN, vertex=7, attribute="element")
    expected = as_table(model.conditional(molecule(ASPIRIN), "element", vertices=[7]))
    assert_close(found["conditional"]["probs"], expected.probs[0])
    assert found["conditional"]["values"] == elements(model)
    counted = ask(client, "conditional", smiles=ASPIRIN, vertex=7, attribute="degree")
    assert_close(counted["conditional"]["mean"], model.conditional(molecule(ASPIRIN), "degree", vertices=[7]).mean[0])


def test_bonds_come_and_go_and_degrees_follow(client: TestClient, model: GSPN) -> None:
    remove, add = {"do": "remove", "ends": [1, 0]}, {"do": "add", "ends": [0, 12], "type": 0}
    found = ask(client, "what-if", smiles=ASPIRIN, edits=[remove, add])
    changes = {1: {"degree": 2}, 12: {"degree": 2}}
    edges: dict[str, Any] = {"add_edges": [(0, 12, 0)], "remove_edges": [(0, 1)]}
    expected = model.what_if(molecule(ASPIRIN), changes, **edges, leave_one_out=False)
    assert_close(found["change"], expected.change)
    assert [0, 1, 0, False] in found["edges"]
    assert [0, 1, 0, False] not in found["edges_after"]
    assert [0, 12, 0, False] in found["edges_after"]
    undone = ask(client, "what-if", smiles=ASPIRIN, edits=[add, {"do": "remove", "ends": [12, 0]}])
    assert undone["edges_after"] == undone["edges"]
    assert undone["total"] == 0


def test_impossible_valences_are_named(client: TestClient) -> None:
    found = ask(client, "replacements", smiles=ASPIRIN, edits=[], vertex=1, attribute="element")
    reasons = {row["value"]: row["reason"] for row in found["replacements"]}
    assert reasons["F"] == "F cannot have valence 4"
    assert reasons["C"] is None
    assert reasons["Si"] is None
    # An aromatic carbon may become a nitrogen, and the oxygen of furan a nitrogen with its hydrogen.
    ring = ask(client, "replacements", smiles="c1ccccc1", edits=[], vertex=0, attribute="element")
    assert {row["value"]: row["reason"] for row in ring["replacements"]}["N"] is None
    furan = ask(client, "replacements", smiles="c1ccoc1", edits=[], vertex=3, attribute="element")
    assert {row["value"]: row["reason"] for row in furan["replacements"]}["N"] is None


def test_charges_make_valences_possible(client: TestClient) -> None:
    # Ammonium's nitrogen without its charge has one bond too many; boron with the charge of borate is fine.
    charge = ask(client, "replacements", smiles="C[N+](C)(C)C", edits=[], vertex=1, attribute="formal_charge")
    reasons = {row["value"]: row["reason"] for row in charge["replacements"]}
    assert reasons[1] is None
    assert reasons[0] == "N cannot have valence 4"
    edited = ask(client, "what-if", smiles="C[N+](C)(C)C", edits=[put(1, 0, "formal_charge")])
    assert edited["problems"] == [{"vertex": 1, "reason": "N cannot have valence 4"}]
    carbon = ask(client, "what-if", smiles="C[N+](C)(C)C", edits=[put(1, 0, "formal_charge"), put(1, "C")])
    assert carbon["problems"] == []


def test_the_examples_can_be_asked_about(client: TestClient) -> None:
    about = client.get("/api/about").json()
    assert about["state"] == "ready"
    assert about["examples"] == list(EXAMPLES)
    for example in EXAMPLES:
        found = ask(client, "what-if", smiles=example["smiles"])
        assert found["total"] == 0
        assert found["problems"] == []


def test_layouts_do_not_depend_on_edits(client: TestClient) -> None:
    plain, edited = (ask(client, "what-if", smiles=ASPIRIN, edits=edits) for edits in ([], [put(3, "N")]))
    assert plain["places"] == edited["places"]
    assert plain["names"] == edited["names"]


def test_fifty_atoms(client: TestClient) -> None:
    """A molecule of this size is answered about wholly."""
    found = ask(client, "what-if", smiles=FIFTY_ATOMS, edits=[put(0, "N")], leave_one_out=True)
    assert len(found["places"]) == len(found["names"]) == 50
    ranked = ask(client, "replacements", smiles=FIFTY_ATOMS, vertex=7, attribute="element", leave_one_out=True)
    changes = [row["change"] for row in ranked["replacements"]]
    assert len(changes) > 1
    assert changes == sorted(changes, reverse=True)


def test_questions_that_come_at_once_are_answered_one_by_one(client: TestClient) -> None:
    alone = [ask(client, "what-if", smiles=ASPIRIN, edits=[put(vertex, "N")])["total"] for vertex in range(8)]
    with ThreadPoolExecutor(8) as threads:
        together = threads.map(
            lambda vertex: ask(client, "what-if", smiles=ASPIRIN, edits=[put(vertex, "N")])["total"], range(8)
        )
        assert list(together) == alone
