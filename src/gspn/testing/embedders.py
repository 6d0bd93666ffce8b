"""The suite of embedders: anything with `fit` and `embed`, the library's models and baselines among them.

How good embeddings are is not asked here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from gspn.attributes import Schema
from gspn.errors import GSPNError
from gspn.testing.running import Suite, refusal
from gspn.testing.small_graphs import SCHEMA, draw_graphs, permuted

CLOSE = 1e-4
"""Embeddings may be in float32, and sums of messages in another order."""


class EmbedderSuite(Suite):
    """Subclass it under a name that begins with Test, and set `make`: (schema, seed) → an embedder that is not fitted.

    As it is a function in a class, say `make = staticmethod(…)`.
    """

    make: Callable[[Schema, int], Any]

    def test_one_row_a_vertex(self) -> None:
        fitted = self._fitted()
        for data in self._graphs(1):
            found = fitted.embed(data)
            assert len(found) == data.num_nodes, f"{len(found)} rows for {data.num_nodes} vertices"
            assert found.ndim == 2
            assert bool(torch.isfinite(_tensor(found)).all()), "an embedding is not finite"

    def test_alone_or_in_a_list(self) -> None:
        fitted, graphs = self._fitted(), self._graphs(1)
        for data, found in zip(graphs, fitted.embed(graphs), strict=True):
            _check("a graph in a list", found, fitted.embed(data))

    def test_the_order_of_graphs_means_nothing(self) -> None:
        fitted, graphs = self._fitted(), self._graphs(1)
        there, back = fitted.embed(graphs), fitted.embed(graphs[::-1])[::-1]
        for one, other in zip(there, back, strict=True):
            _check("a graph among others in another order", one, other)

    def test_the_order_of_vertices_means_nothing(self) -> None:
        fitted = self._fitted()
        for data in self._graphs(2):
            order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))
            _check("a graph with permuted vertices", fitted.embed(permuted(data, order)), fitted.embed(data)[order])

    def test_a_seed_fixes_everything(self) -> None:
        one, other = self._fitted(), self._fitted()
        for data in self._graphs(1):
            assert torch.equal(_tensor(one.embed(data)), _tensor(other.embed(data))), "the same seed, other embeddings"

    def test_the_global_generator_means_nothing(self) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            one = self._fitted()
            torch.manual_seed(2)
            other = self._fitted()
        data = self._graphs(1)[0]
        assert torch.equal(_tensor(one.embed(data)), _tensor(other.embed(data))), "a global seed changes embeddings"

    def test_fit_gives_itself(self) -> None:
        made = self._made()
        assert made.fit(self._graphs(0), **_quiet(made)) is made

    def test_unfitted_use_is_refused(self) -> None:
        with refusal("embed before fit", GSPNError):
            self._made().embed(self._graphs(1)[0])

    def test_graphs_are_left_as_they_are(self) -> None:
        graphs = self._graphs(3)
        before = [data.clone() for data in graphs]
        made = self._made()
        made.fit(graphs, **_quiet(made)).embed(graphs)
        for data, old in zip(graphs, before, strict=True):
            assert torch.equal(data.x.nan_to_num(-1), old.x.nan_to_num(-1)), "fit or embed changes a graph"
            assert torch.equal(data.edge_index, old.edge_index), "fit or embed changes a graph"

    # What the checks are made of.

    def _made(self, seed: int = 0) -> Any:
        return type(self).make(SCHEMA, seed)

    def _fitted(self, seed: int = 0) -> Any:
        made = self._made(seed)
        return made.fit(self._graphs(0), **_quiet(made))

    def _graphs(self, seed: int) -> list[Data]:
        return draw_graphs(8, seed, vertices=7)


def _quiet(made: Any) -> dict[str, Any]:
    """Models that show their progress are asked not to."""
    code = getattr(made.fit, "__code__", None) or made.fit.__func__.__code__
    return {"progress": False} if "progress" in code.co_varnames else {}


def _tensor(found: Any) -> Tensor:
    return torch.as_tensor(found)


def _check(what: str, found: Any, expected: Any) -> None:
    torch.testing.assert_close(
        _tensor(found),
        _tensor(expected),
        rtol=CLOSE,
        atol=CLOSE,
        msg=lambda text: f"{what} is embedded otherwise: {text}",
    )
