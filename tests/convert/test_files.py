"""Tables in files: CSV, TSV and Parquet there and back, ids as text, and files that cannot be used."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_datasets import assert_same, datasets
from small_tables import ONE, names_of, read_back, targets_of

from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
from gspn.convert.frames import from_tables, graph_table, to_tables
from gspn.errors import InputError, MissingExtraError
from gspn.graphs.dataset import GraphDataset

INTEGERS = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(alphabet="ab01-. ,\"'NAé", min_size=1, max_size=4).map("v{}".format)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv", ".parquet"])
@settings(max_examples=25)
@given(dataset=datasets(names=TEXT) | datasets(names=INTEGERS))
def test_round_trip_through_files(dataset: GraphDataset, ending: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tables")
    paths = {name: folder / f"{name}{ending}" for name in ("nodes", "edges", "targets")}
    tables = dict(zip(paths, (*to_tables(dataset, directed=True), graph_table(dataset)), strict=True))
    for name, table in tables.items():
        if ending == ".parquet":
            table.to_parquet(paths[name])
        else:
            table.to_csv(paths[name], index=False, sep="\t" if ending == ".tsv" else ",")
    types = None if dataset.edge_type is None else range(4)
    again = read_back(dataset, *paths.values(), directed=True, edge_types=types)
    assert_same(again, dataset, in_order=True)


def test_text_ids_of_files_stay_text(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,a\n007,0.5\n7,1.5\nNA,\n", encoding="utf-8")
    (tmp_path / "edges.csv").write_text("source,target\n7,007\nNA,7\n", encoding="utf-8")
    dataset = from_tables(tmp_path / "nodes.csv", str(tmp_path / "edges.csv"), directed=True)
    assert names_of(dataset) == ["007", "7", "NA"]
    assert dataset[0].edge_index.tolist() == [[1, 2], [0, 1]]
    assert dataset.x.isnan().flatten().tolist() == [False, False, True]


def test_leading_zeros_make_names_of_numbers(tmp_path: Path) -> None:
    """01067 is no amount; a kind that is given makes it one all the same, and 0.5 and 0 have nothing that is lost."""
    path = tmp_path / "nodes.csv"
    path.write_text("id,zip,share,zero\na,01067,0.5,0\nb,80331,0.25,10\nc,,,20\n", encoding="utf-8")
    dataset = from_tables(path)
    assert [one.kind for one in dataset.schema] == ["categorical", "continuous", "continuous"]
    assert dataset.schema["zip"].decode(dataset[0].x[:, 0]) == ["01067", "80331", None]
    assert from_tables(path, overrides={"zip": "continuous"}).entries()[0, 0] == 1067


def test_numbers_of_files_meet_numbers_of_frames(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,g,a\n1,5,0.5\n2,5,1.5\n-3,6,1.5\n", encoding="utf-8")
    (tmp_path / "edges.csv").write_text("source,target,g\n2,1,5\n-3,-3,6\n", encoding="utf-8")
    (tmp_path / "targets.csv").write_text("g,label\n6,x\n5,y\n", encoding="utf-8")
    frames = [pd.read_csv(tmp_path / f"{name}.csv") for name in ("nodes", "edges", "targets")]
    paths = [tmp_path / f"{name}.csv" for name in ("nodes", "edges", "targets")]
    for nodes, edge_table, targets in [(frames[0], paths[1], paths[2]), (paths[0], frames[1], frames[2]), paths]:
        dataset = from_tables(nodes, edge_table, graph="g", targets=targets, directed=True)
        assert names_of(dataset) == [1, 2, -3]
        assert [graph.edge_index.tolist() for graph in dataset] == [[[1], [0]], [[0], [0]]]
        assert targets_of(dataset) == [1, 0]


def test_a_schema_tells_how_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,code,y\n1,01,None\n2,NA,n/a\n3,,\n", encoding="utf-8")
    schema = Schema([Categorical("code", ["01", "NA"])])
    dataset = from_tables(tmp_path / "nodes.csv", None, schema, y="y", target_attribute=Categorical("t", ["None"]))
    np.testing.assert_equal(dataset.x.tolist(), [[0], [1], [np.nan]])
    np.testing.assert_equal(targets_of(dataset), [0, np.nan, np.nan])


def test_one_bad_cell_of_a_file_is_named(tmp_path: Path) -> None:
    schema = Schema([Continuous("c"), Binary("b"), Categorical("k", [6, 5])])
    good = "id,c,b,k\n1,0.5,true,6\n2,,,\n3,1.5,0,5\n"
    (tmp_path / "nodes.csv").write_text(good, encoding="utf-8")
    (tmp_path / "edges.csv").write_text("source,target,d,k\n1,2,True,01\n2,3,?,02\n", encoding="utf-8")
    (tmp_path / "names.csv").write_text("source,target\n1,2\n2,x\n", encoding="utf-8")
    (tmp_path / "targets.csv").write_text("g,t\n0,1\n1,x\n", encoding="utf-8")
    dataset = from_tables(tmp_path / "nodes.csv", None, schema)
    np.testing.assert_equal(dataset.x.tolist(), [[0.5, 1, 0], [np.nan] * 3, [1.5, 0, 1]])
    types = from_tables(
        tmp_path / "nodes.csv", tmp_path / "edges.csv", schema, edge_type="k", edge_types=["02", "01"], ignore="d"
    )
    assert types[0].edge_type.tolist() == [1, 1, 0, 0]
    with pytest.raises(InputError, match=r"edges\.csv, row 1, attribute 'd': '\?' is neither True nor False"):
        from_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv", schema, directed="d", ignore="k")
    with pytest.raises(InputError, match=r"names\.csv, row 1: target 'x' is no id of .*nodes\.csv$"):
        from_tables(tmp_path / "nodes.csv", tmp_path / "names.csv", schema)
    nodes = pd.DataFrame({"id": [1, 2], "g": [0, 1], "a": [0.5, 1.5]})
    with pytest.raises(InputError, match=r"targets\.csv, row 1, attribute 'n': 'x' is not a number"):
        from_tables(nodes, None, graph="g", targets=tmp_path / "targets.csv", target_attribute=Count("n"))
    for column, bad, message in [
        (1, "high", "attribute 'c': 'high' is not a number"),
        (2, "yes", "attribute 'b': 'yes' is neither True nor False"),
        (3, "x", "attribute 'k': 'x' is none of the categories 6, 5"),
    ]:
        rows = [line.split(",") for line in good.splitlines()]
        rows[3][column] = bad
        (tmp_path / "bad.csv").write_text("\n".join(map(",".join, rows)), encoding="utf-8")
        with pytest.raises(InputError, match=rf"bad\.csv, row 2, {message}"):
            from_tables(tmp_path / "bad.csv", None, schema)


def damaged_gzip(text: bytes) -> bytes:
    """Whole, but its packed content makes no sense."""
    packed = bytearray(gzip.compress(text))
    packed[10:14] = b"\xff\xff\xff\xff"
    return bytes(packed)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("nodes.txt", b"id,a\n1,2\n", r"nodes.txt: .*\.csv, \.csv\.gz, \.tsv, \.tsv\.gz, \.parquet"),
        ("absent.csv", None, "absent.csv: there is no such file"),
        ("absent.parquet", None, "absent.parquet: there is no such file"),
        ("empty.csv", b"", r"empty.csv cannot be read: the file is empty"),
        ("ragged.csv", b"id,a\n1,2\n1,2,3\n", r"ragged.csv, row 1: 3 cells, but the header has 2"),
        ("short.csv", b"id,a\n\n1,.1\n  \n2\n", r"short.csv, row 1: 1 cells, but the header has 2"),
        ("short.tsv", b"id\ta\tb\n1\t.1\t\n2\t.3\n", r"short.tsv, row 1: 2 cells, but the header has 3"),
        ("quoted.csv", b'id,a\n"x\ny,z",.1\n2\n', r"quoted.csv, row 1: 1 cells, but the header has 2"),
        ("long.csv", b"id,a\n1,2,3\n4,5,6\n", r"long.csv, row 0: 3 cells, but the header has 2"),
        ("twice.csv", b"id,a,a\n1,2,3\n", "twice.csv cannot be read: column 'a' occurs twice; rename one"),
        ("broken.csv.gz", b"id,a\n1,2\n", r"broken.csv.gz cannot be read: Not a gzipped file"),
        ("spoilt.csv.gz", damaged_gzip(b"id,a\n" + b"1,2\n" * 99), r"spoilt.csv.gz cannot be read: "),
        ("cut.csv.gz", gzip.compress(b"id,a\n" * 99, mtime=0)[:-9], r"cut.csv.gz cannot be read: "),
        ("broken.parquet", b"id,a\n1,2\n", r"broken.parquet cannot be read: "),
        ("bytes.csv", b"id,a\n1,\xff\x01\n", r"bytes.csv cannot be read: 'utf-8' codec"),
        ("gap.csv", b"id,a\n1,0.5\n,1.5\n", r"gap.csv, row 1: the id \(column 'id'\) is missing"),
        ("text.csv", b"id,a\n1,0.5\n2,high\n", r"text.csv, row 1, attribute 'a': 'high' is not a number"),
        ("header.csv", b"id,a\n", "header.csv has no rows, so there is no graph"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, file: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError, match=message):
        from_tables(tmp_path / file, None, ONE)


def test_one_typo_makes_no_categories(tmp_path: Path) -> None:
    cells = [f"{i / 7}" for i in range(199)]
    rows = [f"{i},{cell}" for i, cell in enumerate([*cells[:17], "?", *cells[17:]])]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,v", *rows]), encoding="utf-8")
    with pytest.raises(InputError, match=r"nodes\.csv, row 17, attribute 'v': '\?' is not a number, .*overrides="):
        from_tables(tmp_path / "nodes.csv")
    (kind,) = from_tables(tmp_path / "nodes.csv", overrides={"v": "categorical"}).schema
    assert isinstance(kind, Categorical)
    assert len(kind.categories) == 200
    with pytest.raises(InputError, match=r"row 17, attribute 'v': .*; mend it, or keep it .*; pass target_attribute="):
        from_tables(pd.read_csv(tmp_path / "nodes.csv").assign(a=0.5), y="v")


def test_a_long_column_is_of_one_type(tmp_path: Path) -> None:
    """pandas reads long files in pieces, and would give each a type of its own."""
    cells = [*["1", "2"] * 300_000, *["x", "y", "z", "1"] * 5_000]  # a piece is 2¹⁹ rows
    (tmp_path / "nodes.csv").write_text("k\n" + "\n".join(cells), encoding="utf-8")
    (kind,) = from_tables(tmp_path / "nodes.csv", id=None, overrides={"k": "categorical"}).schema
    assert kind == Categorical("k", ["1", "2", "x", "y", "z"])


@pytest.mark.parametrize("package", ["pandas", "pyarrow"])
def test_missing_packages(package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        raise ImportError("pyarrow")

    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(pd, "read_parquet", fail)
    (tmp_path / "nodes.parquet").touch()
    with pytest.raises(MissingExtraError, match=rf"{package}, .*gspn\[tables\]"):
        from_tables(tmp_path / "nodes.parquet")
