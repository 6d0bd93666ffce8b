"""Small files on disk and small saved models for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from small_commands import SMALL, SMILES, Run, draw_people
from typer.testing import CliRunner, Result

from gspn.cli.main import app


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `gspn` with these arguments in this process; the exit code is checked."""
    monkeypatch.setenv("COLUMNS", "200")

    def run_it(*arguments: object, code: int = 0) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == code, f"{result.exit_code}\n{result.stdout}\n{result.stderr}\n{result.exception!r}"
        return result

    return run_it


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with molecules and tables."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "drugs.smi").write_text(SMILES)
    (folder / "drugs.csv").write_text(
        "smiles,name,soluble,logp\nCCO,ethanol,yes,-0.3\nc1ccccc1,benzene,no,2.1\nCC(=O)O,acid,yes,-0.2\n"
        "CCCCCC,hexane,no,3.9\n"
    )
    gappy, complete = draw_people()
    gappy.to_csv(folder / "nodes.csv", index=False)
    complete.to_csv(folder / "complete.csv", index=False)
    gappy.assign(
        projects=gappy["projects"].astype("Int64"), age=gappy["age"].astype(float)
    ).convert_dtypes().to_parquet(folder / "nodes.parquet", index=False)
    ring = [(f"p{i}", f"p{(i + 1) % len(gappy)}") for i in range(len(gappy))]
    edges = pd.DataFrame(ring, columns=["source", "target"])
    edges.to_csv(folder / "edges.csv", index=False)
    edges.assign(kind=["friend", "colleague"] * (len(edges) // 2)).to_csv(folder / "typed.csv", index=False)
    return folder


@pytest.fixture(scope="session")
def drug_model(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of molecules."""
    return fitted(tmp_path_factory, files / "drugs.smi")


@pytest.fixture(scope="session")
def people_model(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the table of vertices, with two edge types."""
    return fitted(
        tmp_path_factory, files / "nodes.csv", files / "typed.csv", "--edge-type", "kind", "--types", "projects=count"
    )


@pytest.fixture(scope="session")
def solubility_model(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that predicts a category of molecules."""
    return fitted(tmp_path_factory, files / "drugs.csv", "--id", "name", "--target", "soluble")


def fitted(folders: pytest.TempPathFactory, *arguments: object) -> Path:
    folder = folders.mktemp("models") / "model"
    result = CliRunner().invoke(app, [*map(str, ("fit", *arguments, "-o", folder)), *SMALL])
    assert result.exit_code == 0, f"{result.stderr}{result.exception!r}"
    return folder
