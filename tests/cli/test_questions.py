"""The commands that ask a saved model: embed, score, predict, what-if; and fit, which makes one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_commands import SMALL, Run, parsed

import gspn


def test_fit_keeps_how_graphs_were_read(run: Run, files: Path, people_model: Path) -> None:
    model = gspn.load(people_model)
    assert model.num_edge_types == 2
    # Only one of the types occurs in these edges: its code must be the one that was learned.
    (people_model.parent / "few.csv").write_text("source,target,kind\np0,p1,friend\n")
    found = parsed(run("score", files / "complete.csv", people_model.parent / "few.csv", "-m", people_model, "--json"))
    data = gspn.from_tables(
        files / "complete.csv", people_model.parent / "few.csv", model.schema, edge_type="kind",
        edge_types=["colleague", "friend"],
    )  # fmt: skip
    expected = model.log_likelihood(data, leave_one_out=True)[0]
    np.testing.assert_allclose([row["log_likelihood"] for row in found["table"]], expected, rtol=1e-5)


def test_fit_says_what_it_made(run: Run, files: Path, tmp_path: Path) -> None:
    found = parsed(run("fit", files / "drugs.smi", "-o", tmp_path / "m", "--json", *SMALL))
    assert (found["kind"], found["graphs"], len(found["history"])) == ("GSPN", 5, 2)
    assert (tmp_path / "m" / "reading.json").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"m"}


def test_fit_reads_named_datasets(run: Run, tmp_path: Path) -> None:
    features = ("--features", "element", "--option", "target=rings")
    run(
        "fit",
        "molecules",
        *features,
        "-o",
        tmp_path / "m",
        "--layers",
        "1",
        "--states",
        "2",
        "--epochs",
        "1",
        "--quiet",
    )
    assert gspn.load(tmp_path / "m", gspn.GSPN).num_states == 2


def test_embeddings_of_vertices_and_graphs(run: Run, files: Path, drug_model: Path, tmp_path: Path) -> None:
    run("embed", files / "drugs.smi", "-m", drug_model, "-o", tmp_path / "v.csv")
    table = pd.read_csv(tmp_path / "v.csv")
    assert table.columns[:2].tolist() == ["graph", "id"]
    assert table.shape[1] == 2 + 2 * 3
    assert table["graph"].unique().tolist() == ["ethanol", "c1ccccc1Cl", "acid", "amine", "CC(C)Cl"]
    run("embed", files / "drugs.smi", "-m", drug_model, "--level", "graph", "-o", tmp_path / "g.npy")
    pooled = np.load(tmp_path / "g.npy")
    np.testing.assert_allclose(pooled[0], table[table["graph"] == "ethanol"].iloc[:, 2:].mean(), rtol=1e-4)
    found = parsed(run("embed", "smiles:CCO", "-m", drug_model, "--json", "--pooling", "sum", "--level", "graph"))
    assert (found["rows"], found["width"]) == (1, 6)
    run("embed", "smiles:CCO", "-m", drug_model, "--level", "molecule", code=2)


def test_scores(run: Run, files: Path, drug_model: Path, tmp_path: Path) -> None:
    result = run("score", files / "drugs.smi", "-m", drug_model, "--entries", "-o", tmp_path / "s.csv")
    assert "strangest" in result.stdout
    table = pd.read_csv(tmp_path / "s.csv")
    assert {"log_likelihood", "score", "rank", "element_score"} <= set(table.columns)
    assert table["rank"].between(0, 1).all()
    found = parsed(run("score", files / "drugs.smi", "-m", drug_model, "--level", "graph", "--pseudo", "--json"))
    assert len(found["table"]) == 5
    assert "rank" not in found["table"][0]
    run("score", files / "drugs.smi", "-m", drug_model, "--level", "graph", "--entries", code=2)


def test_predictions_of_molecules(run: Run, files: Path, solubility_model: Path, tmp_path: Path) -> None:
    found = parsed(run("predict", files / "drugs.csv", "-m", solubility_model, "--json"))
    row = found["table"][0]
    assert row["graph"] == "ethanol"
    assert row["soluble"] == "yes"
    assert row["soluble_predicted"] in ("yes", "no")
    assert row["soluble_p_yes"] + row["soluble_p_no"] == pytest.approx(1)
    assert (row["smiles"], row["logp"]) == ("CCO", -0.3)
    assert all(row["learned_from"] for row in found["table"])
    assert (found["score"], found["scored"], found["learned_from"]) == (None, 0, 4)
    without = parsed(run("predict", files / "drugs.smi", "-m", solubility_model, "--json"))
    assert without["score"] is None
    assert len(without["table"]) == 5
    # Ethanol and acetic acid were learned from; another writing of these is known, too.
    assert [row["learned_from"] for row in without["table"]] == [True, False, True, False, False]
    (tmp_path / "new.csv").write_text(
        "smiles,soluble,note\nOCC,yes,known\nCCCO,yes,new\nbad(,no,unreadable\nCCC,no,new\n"
    )
    more = parsed(run("predict", tmp_path / "new.csv", "-m", solubility_model, "--json"))
    assert [row["note"] for row in more["table"]] == ["known", "new", "new"]
    assert [row["learned_from"] for row in more["table"]] == [True, False, False]
    assert (more["scored"], more["learned_from"]) == (2, 1)
    right = [row["soluble_predicted"] == row["soluble"] for row in more["table"] if not row["learned_from"]]
    assert more["score"] == sum(right) / 2


def test_predictions_are_not_written_over_columns_of_the_input(
    run: Run, files: Path, solubility_model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "once.csv"
    run("predict", files / "drugs.csv", "-m", solubility_model, "-o", out)
    again = run("predict", out, "-m", solubility_model, code=2)
    assert "there is a column 'soluble_predicted' already" in again.stderr


def test_predictions_of_vertices_and_numbers(run: Run, files: Path, tmp_path: Path) -> None:
    run("fit", files / "complete.csv", files / "edges.csv", "--target", "age", "-o", tmp_path / "m", *SMALL)
    result = run("predict", files / "complete.csv", files / "edges.csv", "-m", tmp_path / "m", "-o", tmp_path / "p.csv")
    assert "R²" not in result.stdout
    assert "has learned from the labels of 40 of these rows" in result.stderr
    table, given = pd.read_csv(tmp_path / "p.csv"), pd.read_csv(files / "complete.csv")
    pd.testing.assert_frame_equal(table[given.columns], given)
    assert table["learned_from"].all()
    assert (table["age_low"] < table["age_high"]).all()


def test_known_labels_of_vertices_are_evidence(run: Run, files: Path, tmp_path: Path) -> None:
    """What is predicted are the gaps of the column; the level is told, or seen."""
    nodes = pd.read_csv(files / "complete.csv")
    nodes.loc[::3, "team"] = None
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    tables = (tmp_path / "nodes.csv", files / "edges.csv")
    run("fit", *tables, "--target", "team", "--level", "vertex", "-o", tmp_path / "m", *SMALL)
    assert gspn.load(tmp_path / "m", gspn.SupervisedGSPN).goal.kind == "labels"
    found = parsed(run("predict", *tables, "-m", tmp_path / "m", "--json"))
    assert all(row["team_predicted"] is not None for row in found["table"])
    assert [row["learned_from"] for row in found["table"][:4]] == [False, True, True, False]
    assert found["score"] is None
    # With the truth in the gaps, these alone count.
    truth = parsed(run("predict", files / "complete.csv", files / "edges.csv", "-m", tmp_path / "m", "--json"))
    assert (truth["scored"], truth["learned_from"]) == (14, 26)
    assert 0 <= truth["score"] <= 1
    wrong = run("fit", *tables, "--target", "team", "--level", "graph", "-o", tmp_path / "n", *SMALL, code=2)
    assert "--level graph" in wrong.stderr


def test_only_models_with_a_target_predict(run: Run, files: Path, drug_model: Path) -> None:
    assert "without a target" in run("predict", files / "drugs.smi", "-m", drug_model, code=2).stderr


def test_what_if_of_a_molecule(run: Run, drug_model: Path, tmp_path: Path) -> None:
    picture = tmp_path / "change.svg"
    result = run("what-if", "smiles:CCCl", "-m", drug_model, "--set", "2:element=O", "--set", "2:hydrogens=unknown",
                 "-o", picture)  # fmt: skip
    assert "nats" in result.stdout
    assert picture.read_text().startswith("<svg")
    found = parsed(run("what-if", "smiles:CCCl", "-m", drug_model, "--set", "2:element=O", "--pseudo", "--json"))
    model = gspn.load(drug_model)
    graph = gspn.from_smiles(["CCCl"], progress=False)[0]
    assert found["total"] == pytest.approx(
        model.what_if(graph, {2: {"element": "O"}}, leave_one_out=False).total.item(), rel=1e-5
    )


def test_what_if_of_edges_and_names(run: Run, files: Path, people_model: Path, tmp_path: Path) -> None:
    tables = (files / "complete.csv", files / "typed.csv", "-m", people_model)
    table, picture = tmp_path / "change.csv", tmp_path / "change.svg"
    change = ("--remove-edge", "p0-p1", "--add-edge", "p0-p2:friend", "--set", "p3:remote=yes", "--set", "p3:age=40")
    run("what-if", *tables, *change, "-o", table)
    assert pd.read_csv(table)["vertex"].tolist()[:2] == ["p0", "p1"]
    run("what-if", *tables, *change, "-o", picture)
    for wrong in (["--set", "p99:age=1"], ["--set", "age=1"], ["--set", "p1:age=old"], ["--set", "p1:team=pink"],
                  ["--add-edge", "p0"], ["--add-edge", "p0-p2:foe"], ["--add-edge", "p0-p2"], []):  # fmt: skip
        assert run("what-if", *tables, *wrong, code=2).stderr.startswith("error: ")


def test_what_follows_from_a_change_is_said(run: Run, drug_model: Path) -> None:
    asked = ("what-if", "smiles:CCO", "-m", drug_model, "--set")
    found = parsed(run(*asked, "2:element=Cl", "--json"))
    assert {"vertex": "2", "attribute": "hydrogens", "value": 0} in found["derived"]
    assert "were derived anew" in run(*asked, "2:element=Cl").stdout
    assert "are left out (atom 1: F cannot have valence 2): 1:" in run(*asked, "1:element=F").stdout


def test_what_is_unknown_is_ranked_by_its_conditional(run: Run, files: Path, people_model: Path) -> None:
    nodes = pd.read_csv(files / "nodes.csv")
    gaps = nodes.loc[nodes["team"].isna(), "id"].tolist()
    tables = (files / "nodes.csv", files / "typed.csv", "-m", people_model)
    rows = parsed(run("what-if", *tables, "--all", "team", "--json"))["replacements"]
    unknown = [row for row in rows if "probability" in row]
    assert rows[-len(unknown) :] == unknown
    assert {row["vertex"] for row in unknown} == set(gaps)
    chances = [row["probability"] for row in unknown]
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) == pytest.approx(len(gaps))
    one = unknown[0]
    step = parsed(run("what-if", *tables, "--set", f"{one['vertex']}:team={one['then']}", "--json"))
    assert step["whole"] == pytest.approx(one["change"], abs=1e-3)
    assert step["whole"] != pytest.approx(step["total"], abs=1e-6)


def test_edits_of_a_molecule(run: Run, solubility_model: Path, drug_model: Path, tmp_path: Path) -> None:
    page, asked = tmp_path / "edits.html", ("what-if", "smiles:CCCl", "-m")
    found = parsed(run(*asked, solubility_model, "--edits", "--json", "-o", page))
    assert (found["smiles"], found["target"]) == ("CCCl", "soluble")
    assert {"edit", "kind", "smiles", "predicted", "p(yes)", "change of p(yes)"} <= set(found["edits"][0])
    assert "Cl → O at atom 2" in {row["edit"] for row in found["edits"]}
    text = page.read_text()
    assert "Cl → O at atom 2" in text
    assert text.count("<svg") > 3
    assert "one target of graphs" in run(*asked, drug_model, "--edits", code=2).stderr
    run(*asked, solubility_model, "--edits", "--set", "2:element=O", code=2)
    run(*asked, drug_model, "--set", "2:element=O", "-o", page, code=2)


def test_every_replacement(run: Run, files: Path, drug_model: Path, tmp_path: Path) -> None:
    asked = ("what-if", files / "drugs.smi", "-m", drug_model, "--which", "acid", "--all", "element", "--json")
    every = parsed(run(*asked, "--impossible"))["replacements"]
    assert len(every) == 4 * 16
    changes = [row["change"] for row in every]
    assert changes == sorted(changes, reverse=True)
    possible = parsed(run(*asked))["replacements"]
    assert possible == [row for row in every if "problem" not in row]
    forbidden = {row["then"] for row in every if row["vertex"] == "1" and "problem" in row}
    assert {"F", "Cl", "O"} <= forbidden, "the carbon of an acid has four bonds"
    run("what-if", files / "drugs.smi", "-m", drug_model, "--all", "element", code=2)  # which one?
    run("what-if", "smiles:CCO", "-m", drug_model, "--all", "partial_charge", code=2)
    run("what-if", "smiles:CCO", "-m", drug_model, "--all", "element", "-o", tmp_path / "x.svg", code=2)
