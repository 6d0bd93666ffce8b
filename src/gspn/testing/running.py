"""A suite is a class with `test_` methods: pytest collects its subclasses, and `failures` runs one without pytest.

What is checked stands in the modules of the single suites.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Suite:
    """The base of all suites: every method whose name begins with `test_` is a check."""

    @classmethod
    def checks(cls) -> list[str]:
        """The names of all checks."""
        return [name for name in dir(cls) if name.startswith("test_") and callable(getattr(cls, name))]

    @classmethod
    def on(cls, **attributes: Any) -> type[Suite]:
        """A suite with these class attributes: the cases that it is run on."""
        for name in attributes:
            if name not in cls.__annotations__ and not hasattr(cls, name):
                raise TypeError(f"{cls.__name__} has no attribute '{name}'")
        return type(cls.__name__, (cls,), attributes)

    def run(self, check: str) -> None:
        getattr(self, check)()


def failures(suite: type[Suite]) -> dict[str, Exception]:
    """Run every check of a suite; what was raised, by the name of the check. Empty: all passed."""
    found: dict[str, Exception] = {}
    for check in suite.checks():
        try:
            suite().run(check)
        except Exception as error:
            found[check] = error
    return found


@contextmanager
def environment(name: str, value: str | None) -> Iterator[None]:
    """An environment variable with another value, or without any, for a while."""
    before = os.environ.get(name)
    try:
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


@contextmanager
def refusal(what: str, *errors: type[Exception], naming: str = "") -> Iterator[None]:
    """Passes where one of the errors is raised with a message that names what it is about."""
    try:
        yield
    except errors as error:
        assert naming in str(error), f"{what} is refused without naming {naming!r}: {error}"
        return
    raise AssertionError(f"{what} is not refused")
