"""Results as files: nothing is overwritten unasked, and nothing is ever there by half.

Tables are CSV, TSV, Parquet or JSON by the suffix. Whether a result can be written is checked before any work is done.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gspn.cli.console import plain
from gspn.cli.options import KEPT
from gspn.errors import InputError

if TYPE_CHECKING:
    from gspn.cli.options import Reading

TABLES = (".csv", ".tsv", ".parquet", ".json")
PICTURES = (".svg", ".png")


def check_file(path: Path | None, force: bool, suffixes: Sequence[str] = TABLES) -> None:
    """Refuse, before any work is done, a file that could not be written or must not be."""
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        raise InputError(f"{path}: the result is written as {', '.join(suffixes)}, by the suffix")
    _check_place(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    if path.exists() and not force:
        raise InputError(f"{path} exists already; --force overwrites it")


def check_folder(path: Path | None, force: bool) -> None:
    """The same for the folder of a model; with `force` a model is replaced, but nothing else ever is."""
    if path is None:
        return
    _check_place(path)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not (path / "model.json").exists():
        raise InputError(f"{path} exists already and is not a saved model; choose another name")
    if not force:
        raise InputError(f"{path} holds a model already; --force replaces it")


def _check_place(path: Path) -> None:
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}")


def write_table(frame: Any, path: Path) -> None:
    """A DataFrame as the file that the suffix names; its index is not written, geometries as text (WKT)."""
    from gspn.convert.files import import_pandas
    from gspn.convert.places import geometries

    kind = path.suffix.lower()
    if named := geometries(frame):
        frame = import_pandas().DataFrame(frame).assign(**{name: list(map(str, frame[name])) for name in named})
    if kind == ".parquet":
        buffer = BytesIO()
        try:
            frame.to_parquet(buffer, index=False)
        except ImportError as error:
            from gspn.errors import MissingExtraError

            raise MissingExtraError("Parquet files need pyarrow: pip install 'gspn[tables]'") from error
        content = buffer.getvalue()
    elif kind == ".json":
        content = (json.dumps(records(frame), ensure_ascii=False, allow_nan=False, indent=1) + "\n").encode()
    else:
        content = frame.to_csv(index=False, sep="\t" if kind == ".tsv" else ",", lineterminator="\n").encode()
    write_file(path, content)


def records(frame: Any) -> list[dict[str, Any]]:
    """The rows of a DataFrame as JSON has them."""
    columns = {str(name): [plain(value) for value in frame[name].tolist()] for name in frame.columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def write_file(path: Path, content: bytes) -> None:
    """All of it, or nothing."""
    from gspn.files import replace_file

    replace_file(path, content)


def save_model(model: Any, reading: Reading, folder: Path, further: Mapping[str, bytes] | None = None) -> None:
    """A model's folder, with how graphs were read and `further` files; interrupted, it leaves the old or the new."""
    partial, old = (folder.with_name(f".{folder.name}.{state}") for state in ("partial", "old"))
    for left in (partial, old):
        shutil.rmtree(left, ignore_errors=True)
    try:
        model.save(partial)
        (partial / KEPT).write_text(json.dumps(reading.to_json(), indent=1) + "\n", encoding="utf-8")
        for name, content in (further or {}).items():
            (partial / name).write_bytes(content)
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    finally:
        for left in (partial, old):
            shutil.rmtree(left, ignore_errors=True)
