"""The library's advice in the words of the command line: what it calls `ignore=['x']` is `--ignore x` here."""

from __future__ import annotations

import re

_WORDS = (
    (r"Pass (?:source|target)= with the right name", "Name the two columns with --ends FROM,TO"),
    (r"Pass edge_type= with the right name", "Name it with --edge-type"),
    (r"Pass (id|graph)= with the right name(?:, or id=None to take the table's index)?", r"Name it with --\1"),
    (r"pass ignore=\['(.*?)'\]", r"pass --ignore '\1'"),
    (r"pass overrides=\{'(.*?)': '(\w+)'\}", r"pass --types '\1=\2'"),
    (r"pass parallel=True", "pass --parallel"),
    (r"pass directed=True|directed=True", "--directed"),
    (r"override it with an attribute", "leave it out with --ignore, or type it with --types NAME=KIND"),
)


def in_options(message: str) -> str:
    """The message with options in place of arguments, on one line."""
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message)
    return message
