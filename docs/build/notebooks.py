"""Runs the notebooks of `examples` and writes what their cells show: `python docs/build/notebooks.py`.

A notebook is edited as any other; this fills in its outputs, without a Jupyter server: cells run one after the other in
one namespace, with what they print and the value of their last line, as Jupyter shows it. The outputs are part of the
repository, so that a notebook can be read where nothing can be run.
"""

from __future__ import annotations

import ast
import base64
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, redirect_stdout
from io import BytesIO, StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
_DOTS = 64
"""Of figures, an inch."""


def run(path: Path) -> dict[str, Any]:
    """The notebook with the outputs of all its code cells, run in an empty folder."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    with TemporaryDirectory() as folder, chdir(folder):
        for number, cell in enumerate(code_cells(notebook), 1):
            cell["execution_count"] = number
            cell["outputs"] = list(_outputs("".join(cell["source"]), names, f"{path.name}, cell {number}", number))
    return notebook


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _outputs(source: str, names: dict[str, Any], place: str, number: int) -> Iterator[dict[str, Any]]:
    tree = ast.parse(source, place)
    last = tree.body[-1] if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = StringIO(), None
    with redirect_stdout(printed):
        exec(compile(ast.Module(tree.body[: -1 if last else None], []), place, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), place, "eval"), names)
    if printed.getvalue():
        yield {"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())}
    if value is not None and not source.rstrip().endswith(";"):
        data = {kind: text if kind == "image/png" else _lines(text) for kind, text in _shown(value).items()}
        yield {"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"}


def _shown(value: Any) -> dict[str, str]:
    """What a notebook shows of a value, by the kind of content."""
    if hasattr(value, "_repr_mimebundle_"):
        return dict(value._repr_mimebundle_())
    shown = {"text/plain": repr(value)}
    if hasattr(value, "savefig"):
        buffer = BytesIO()
        value.savefig(buffer, format="png", dpi=_DOTS, metadata={"Software": None})
        return {"image/png": base64.b64encode(buffer.getvalue()).decode(), "text/plain": "<Figure>"}
    if hasattr(value, "_repr_html_"):
        shown["text/html"] = value._repr_html_()
    return shown


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main(paths: Sequence[str]) -> None:
    for path in map(Path, paths or map(str, NOTEBOOKS)):
        notebook = run(path.resolve())
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main(sys.argv[1:])
