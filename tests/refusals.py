"""Tables of refusals: how to call, and what the message must name."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest


def refused(named: str, call: Callable[..., object], *given: Any, **by_name: Any) -> Any:
    """The parameters `call` and `named` of a test that expects the call to be refused with a message that matches."""
    return pytest.param(partial(call, *given, **by_name), named, id=named)


def naming(words: str) -> str:
    """The pattern of a message that has these words, and anything where they have two dots by themselves."""
    return ".*".join(map(re.escape, words.split(" .. ")))
