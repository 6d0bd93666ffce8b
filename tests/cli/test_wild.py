"""Tables as other programs write them: filled without a flag, or refused with all that is wrong with them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_commands import SMALL, Run, parsed
from small_wild import draw_company, wild_files

from gspn.cli.inputs import Wanted, read_graphs
from gspn.cli.options import Reading

WILD = wild_files()


@pytest.mark.parametrize("name", WILD)
def test_wild_files_are_filled_in_their_own_writing(name: str, run: Run, tmp_path: Path) -> None:
    content, column, written = WILD[name]
    (tmp_path / name).write_bytes(content)
    run("impute", tmp_path / name, "-o", tmp_path / "done.csv", "--plain", *SMALL)
    done = pd.read_csv(tmp_path / "done.csv", dtype=str, keep_default_na=False)
    assert len(done) == 40
    assert done[column].str.fullmatch(written).all(), sorted(set(done[column]))


REFUSED: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "several.csv": (
        b"id,age,size,team\n1,31,2.5,red\n2,40,tall,blue\n2,55,3.5,red\n4,inf,1.5,blue\n",
        (
            "3 problems",
            "row 2: the id 2 occurs already in row 1",
            "'tall' is not a number",
            "'age': the value is infinite",
        ),
    ),
    "ragged.csv": (b"id,age\n1,2,3\n2,3\n3\n", ("row 0: 3 cells, but the header has 2 (and 1 more row",)),
    "twice.csv": (b"id;age;age\n1;2;3\n", ("column 'age' occurs twice",)),
    "picture.csv": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ("cannot be read", "NUL")),
    "broken.xlsx": (b"PK\x03\x04 and no more", ("broken.xlsx cannot be read",)),
    "empty.xlsx": (b"", ("empty.xlsx cannot be read",)),
    "junk.csv": (
        ("a,b\n" + "".join(f"x{i},\n" for i in range(30))).encode(),
        ("no column says anything that could be learned: 'a' (30 different values in 30 rows), 'b' (empty)",),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wild_files_are_refused_in_one_message(name: str, run: Run, tmp_path: Path) -> None:
    content, words = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    said = run("impute", tmp_path / name, "-o", tmp_path / "done.csv", *SMALL, code=2).stderr
    assert said.startswith("error: ")
    if name == "picture.csv":
        assert any(word in said for word in words)
    else:
        assert [word for word in words if word not in said] == [], said


def test_all_problems_of_both_tables_with_a_command_to_copy(run: Run, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,size,note\n1,2.5,x\n2,3.5,y\n3,4.5,z\n")
    (tmp_path / "e.csv").write_text("source,target,weight\n1,2,3\n2,1,4\n1,2,5\n")
    arguments = ("impute", tmp_path / "n.csv", tmp_path / "e.csv", "-o", tmp_path / "d.csv", "--ignore", "note", *SMALL)
    said = run(*arguments, code=2).stderr
    assert "2 problems" in said
    assert "column 'weight' has no use" in said
    assert "repeats the edge" in said
    command = next(line for line in said.splitlines() if line.startswith("to copy: gspn "))
    again = shlex.split(command.removeprefix("to copy: gspn "))
    assert again[-1] == "--parallel"
    assert again[again.index("--ignore") + 1] == "note,weight"
    run(*again)
    assert (tmp_path / "d.csv").exists()


def test_advice_that_may_be_wrong_is_no_command(run: Run, tmp_path: Path) -> None:
    """A typo among numbers is to be mended: a category for every number is not what anybody wants."""
    (tmp_path / "n.csv").write_text("id,size\n1,2.5\n2,3.5\n3,tall\n")
    said = run("impute", tmp_path / "n.csv", "-o", tmp_path / "d.csv", *SMALL, code=2).stderr
    assert "--types size=categorical" in said
    assert "to copy" not in said


def test_what_is_wrong_is_told_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    """Seconds of processor time, where nobody waits for a result."""
    (tmp_path / "n.csv").write_text("id,size\n1,2.5\n2,3.5\n3,tall\n")
    (tmp_path / "e.csv").write_text("source,target,weight\n1,9,3\n")
    heavy = ("torch", "torch_geometric", "sklearn", "scipy", "numba", "joblib")
    code = (
        "import sys; from typer.testing import CliRunner; from gspn.cli.main import app; "
        "assert CliRunner().invoke(app, sys.argv[1:]).exit_code == 2; "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    for command in ("impute", "fit"):
        arguments = [command, tmp_path / "n.csv", tmp_path / "e.csv", "-o", tmp_path / "out.csv"]
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=True
        )
        assert done.stdout.strip() == "[]"


def read(source: Path, edges: Path | None = None, **said: Any) -> Any:
    return read_graphs(str(source), edges, Wanted(Reading.of(**said)))


def test_columns_that_say_nothing_are_left_out_unless_kept(run: Run, tmp_path: Path) -> None:
    rows = range(30)
    frame = pd.DataFrame(
        {"name": [f"n{i}" for i in rows], "one": 7, "void": None, "size": [i % 7 / 2 for i in rows], "row": rows}
    )
    frame.to_csv(tmp_path / "n.csv", index=False)
    found = read(tmp_path / "n.csv")
    assert found.dataset.schema.names == ("size",)
    (note,) = (note for note in found.notes if note.startswith("left out"))
    for words in ("30 different values in 30 rows", "always 7", "empty", "the number of the row", "--keep 'name'"):
        assert words in note
    assert read(tmp_path / "n.csv", keep="name,one").dataset.schema.names == ("name", "one", "size")
    kept = read_graphs(str(tmp_path / "n.csv"), None, Wanted(Reading.of(), types={"row": "continuous"}))
    assert kept.dataset.schema.names == ("size", "row")
    said = run("impute", tmp_path / "n.csv", "--keep", "nobody", "-o", tmp_path / "d.csv", code=2).stderr
    assert "keep names 'nobody', but there is no such column" in said


def test_ids_and_ends_are_found(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("age,code,size\n31,007,1.5\n40,7,2.5\n40,x,3.5\n")
    (tmp_path / "e.csv").write_text("von,nach\n007,7\n7,x\n")
    found = read(tmp_path / "n.csv", tmp_path / "e.csv")
    assert found.dataset.vertex_names.tolist() == ["007", "7", "x"]
    assert found.dataset[0].edge_index.shape == (2, 4)
    assert (found.reading.id, found.reading.ends) == ("code", ("von", "nach"))
    assert len(found.notes) == 2
    (tmp_path / "e.csv").write_text("source,target\n0,1\n1,2\n")
    by_row = read(tmp_path / "n.csv", tmp_path / "e.csv", ignore="code")
    assert by_row.dataset.vertex_names.tolist() == [0, 1, 2]
    assert by_row.dataset[0].edge_index.shape == (2, 4)


def test_id_none_takes_the_row(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,size\n5,1.5\n5,2.5\n")
    found = read(tmp_path / "n.csv", id="none")
    assert found.dataset.vertex_names.tolist() == [0, 1]
    assert found.dataset.schema.names == ("id", "size")


DRUGS = ("CCO", "c1ccccc1", "CC(=O)O", "CCN(CC)CC", "Clc1ccc(C)cc1", "C[C@H](N)C(=O)O", "CC#N", "[Na+].[Cl-]")


@pytest.mark.parametrize("name", ["SMILES", "Smiles", "structure"])
def test_a_column_of_smiles_makes_molecules(name: str, run: Run, tmp_path: Path) -> None:
    pd.DataFrame({name: DRUGS, "soluble": range(8)}).to_csv(tmp_path / "drugs.csv", index=False)
    found = read(tmp_path / "drugs.csv")
    assert found.molecules
    assert len(found.dataset) == 8
    said = run("impute", tmp_path / "drugs.csv", "-o", tmp_path / "d.csv", *SMALL, code=2).stderr
    assert f"is a table of molecules, in column '{name}'" in said
    assert "--id" not in said
    assert not read(tmp_path / "drugs.csv", ignore=name).molecules


@pytest.mark.parametrize(
    "values",
    [["C", "N", "O", "C"] * 5, ["B1", "B2", "C1", "F5"], ["Bonn", "Köln", "Ulm"], ["P53", "CO2", "NO"], ["SOS"] * 9],
)
def test_other_text_is_not_taken_for_molecules(values: list[str], tmp_path: Path) -> None:
    pd.DataFrame({"a": values, "b": np.arange(len(values)) / 2}).to_csv(tmp_path / "n.csv", index=False)
    assert not read(tmp_path / "n.csv").molecules


def test_departments_of_a_raw_table(run: Run, tmp_path: Path) -> None:
    """Planted communities, junk, numbers as people write them, no column called id: nothing has to be said."""
    people, edges, truth = draw_company()
    people.to_csv(tmp_path / "people.csv", index=False)
    edges.to_csv(tmp_path / "works.csv", index=False)
    tables = (tmp_path / "people.csv", tmp_path / "works.csv")
    result = run("impute", *tables, "--effort", "quick", "-o", tmp_path / "done.csv", "--json")
    assert {one["attribute"] for one in parsed(result)["attributes"]} == {"department", "salary", "hours", "joined"}
    done, gaps = pd.read_csv(tmp_path / "done.csv"), people["department"].isna()
    assert (done["department"][gaps] == truth[gaps]).mean() >= 0.9
    assert re.fullmatch(r"\d+,\d{3}", done["salary"][0])
