"""An extension of griffe: arguments that a docstring lists as `name: text` become a section of the reference.

In the code they stand under the text without a heading, which is shorter to read there. Several names before one colon
get an entry each. Text that follows the arguments comes before them: a section goes on to the end of its docstring.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ENTRY = re.compile(r"(?P<names>\w+(?:, \w+)*):(?: (?P<text>.*))?")
_UNDERLINED = re.compile(r"^-{3,}$", re.MULTILINE)


class Arguments(griffe.Extension):
    """Rewrites docstrings of functions and classes once the package is loaded."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        self._visit(pkg)

    def _visit(self, found: Any) -> None:
        for member in list(found.members.values()):
            if not member.is_alias:
                if member.docstring is not None and (member.is_function or member.is_class):
                    member.docstring.value = with_section(member.docstring.value, _names(member))
                self._visit(member)


def _names(found: Any) -> set[str]:
    """Arguments of a function, or of a class."""
    if found.is_function:
        return {parameter.name for parameter in found.parameters}
    start = found.members.get("__init__")
    return set(found.members) | (_names(start) if start is not None and not start.is_alias else set())


def with_section(docstring: str, names: set[str]) -> str:
    """The docstring with its listed arguments as a section "Parameters"; as it is, if there are none."""
    if _UNDERLINED.search(docstring):
        return docstring
    text: list[str] = []
    entries: list[tuple[list[str], list[str]]] = []
    current = text
    for line in docstring.splitlines():
        entry = _ENTRY.fullmatch(line)
        if entry and {*(listed := entry["names"].split(", "))} <= names:
            current = [f"    {entry['text'] or ''}"]
            entries.append((listed, current))
            continue
        if line and not line.startswith(" "):
            current = text
        current.append(line)
    if not entries:
        return docstring
    section = [line for listed, lines in entries for name in listed for line in (f"{name}:", *lines)]
    return "\n".join([*text, "", "Parameters", "----------", *section])
