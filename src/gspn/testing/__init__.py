"""Suites of tests."""

from gspn.testing import oracle

__all__ = ["oracle"]
