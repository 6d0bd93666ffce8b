"""How much is computed at once where a question is about many graphs."""

from __future__ import annotations

from gspn.queries.contract import Answering

_NUMBERS_AT_ONCE = 4_000_000
"""Posterior entries of one chunk: 16 MB in float32, about what a processor's cache holds.

Larger chunks are slower: their memory has to be fetched from the system, page by page, for every chunk anew.
"""


def chunk_size(model: Answering) -> int:
    """Vertices and edges of one chunk, for `GraphDataset.chunks`."""
    return max(1, _NUMBERS_AT_ONCE // model.numbers_per_vertex)
