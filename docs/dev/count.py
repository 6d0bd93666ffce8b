"""Lines of code by room, and beside those of another checkout: `python docs/dev/count.py [OTHER]`.

A line counts if a token of code stands in it: blank lines, comments and docstrings do not, however they are broken.
"""

from __future__ import annotations

import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

_SILENT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


def lines_of_code(text: str) -> int:
    """How many lines of a module have code in them."""
    counted: set[int] = set()
    statement: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT:
            statement.append(token)
        elif token.type == tokenize.NEWLINE:
            if any(part.type != tokenize.STRING for part in statement):  # a string by itself documents
                counted.update(line for part in statement for line in range(part.start[0], part.end[0] + 1))
            statement = []
    return len(counted)


def by_room(checkout: Path, tree: str) -> Counter[str]:
    """Lines of code of each room: a folder below the tree, or what stands in the tree itself."""
    found: Counter[str] = Counter()
    for file in sorted((checkout / tree).rglob("*.py")):
        parts = file.relative_to(checkout / tree).parts
        found[parts[0] if len(parts) > 1 else "(top)"] += lines_of_code(file.read_text(encoding="utf-8"))
    return found


def table(checkouts: list[Path]) -> str:
    """A table per tree with a row per room and a column per checkout."""
    written = []
    for tree in ("src/gspn", "tests"):
        counts = [by_room(checkout, tree) for checkout in checkouts]
        rows = [(room, *(count[room] for count in counts)) for room in sorted({*counts[0], *counts[-1]})]
        rows.append(("all", *(count.total() for count in counts)))
        written.append("\n".join([tree, *(f"  {row[0]:<14}" + "".join(f"{n:>8,}" for n in row[1:]) for row in rows)]))
    return "\n\n".join(written)


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[2]
    print(table([*map(Path, sys.argv[1:]), here]))
