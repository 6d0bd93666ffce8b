"""Embeddings as people have them: every form is read alike, and what cannot be used is named."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from small_embeddings import COLUMNS, GRAPHS, OTHERS, SIGNAL, fitted, kinds, make
from torch import Tensor

from gspn.errors import InputError


def test_every_form_of_embeddings() -> None:
    whole = [(10 * graph).round() for graph in GRAPHS]
    y = kinds(SIGNAL)

    def weights(graphs: Any) -> Tensor:
        return make(epochs=2).fit(graphs, y, progress=False).weights_["vertex.weight"]

    single = weights(whole)
    assert single.dtype == torch.float32
    for dtype in (torch.int64, torch.uint8, torch.float16, torch.bfloat16):
        assert torch.equal(weights([graph.to(dtype) for graph in whole]), single)
    assert torch.equal(weights([graph.numpy() for graph in whole]), single)
    assert torch.equal(weights(tuple(graph.clone().requires_grad_() for graph in whole)), single)
    read_only = [graph.numpy().copy() for graph in whole]
    for graph in read_only:
        graph.flags.writeable = False
    assert torch.equal(weights(read_only), single)
    double = weights([graph.double() for graph in whole])
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), single, rtol=1e-3, atol=1e-4)
    assert weights([whole[0].double(), *whole[1:]]).dtype == torch.float64


def test_the_callers_embeddings_are_left_alone() -> None:
    before = [graph.clone() for graph in GRAPHS]
    fitted(epochs=2).predict(GRAPHS)
    assert all(torch.equal(a, b) for a, b in zip(before, GRAPHS, strict=True))


def test_graphs_without_vertices_pool_to_zero() -> None:
    empty = torch.empty(0, COLUMNS)
    for pooling in ("sum", "mean"):
        head = make(pooling=pooling, epochs=2)
        head.fit([empty, *GRAPHS], ["high", *kinds(SIGNAL)], validation=([empty], ["high"]), progress=False)
        weights = {name: value.double() for name, value in head.weights_.items()}
        logits = weights["output.weight"] @ weights["graph.bias"].relu() + weights["output.bias"]
        expected = logits.softmax(0).numpy()
        np.testing.assert_allclose(head.predict_proba([empty, GRAPHS[0], empty])[[0, 2]], [expected] * 2, rtol=1e-5)
    make(epochs=2).fit([empty] * 4, ["low"] * 4, progress=False)


def test_predictions_do_not_depend_on_the_other_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    head = fitted(epochs=5)
    together = head.predict_proba(OTHERS)
    alone = np.concatenate([head.predict_proba([graph]) for graph in OTHERS])
    np.testing.assert_allclose(together, alone, rtol=1e-5)
    monkeypatch.setattr("gspn.predictors.heads._NUMBERS_AT_ONCE", 100)  # chunks of a graph or two
    np.testing.assert_allclose(head.predict_proba(OTHERS), together, rtol=1e-5)


def spoiled(value: float, graph: int = 2, vertex: int = 1, column: int = 3) -> list[Tensor]:
    graphs = [x.clone() for x in GRAPHS]
    graphs[graph][vertex, column] = value
    return graphs


@pytest.mark.parametrize(
    ("embeddings", "message"),
    [
        ([], "embeddings is empty: give one .* matrix a graph"),
        (None, "embeddings must be a list"),
        ("graphs", "embeddings must be a list"),
        (spoiled(math.nan), "embeddings, graph 2, vertex 1, column 3: nan is not a finite number"),
        (spoiled(-math.inf), "embeddings, graph 2, vertex 1, column 3: -inf is not a finite number"),
        ([*GRAPHS[:4], torch.zeros(2, 5)], "embeddings, graph 4: 5 columns, but graph 0 has 4"),
        (GRAPHS[0], r"embeddings, graph 0: .*\[N, D\], got shape \[4\]; a single graph goes into a list"),
        ([GRAPHS[0], torch.zeros(2, 2, 2)], r"embeddings, graph 1: expected a matrix \[N, D\], got shape \[2, 2, 2\]"),
        ([GRAPHS[0], np.array([["a"]])], "embeddings, graph 1: no matrix of real numbers, but of <U1"),
        ([GRAPHS[0], torch.zeros(2, 4, dtype=torch.complex64)], "embeddings, graph 1: .*complex64"),
        ([GRAPHS[0], [[1.0], [1.0, 2.0]]], "embeddings, graph 1: no matrix of numbers"),
    ],
)
def test_embeddings_that_are_refused(embeddings: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make().fit(embeddings, kinds(SIGNAL))
    if isinstance(embeddings, list) and embeddings:
        with pytest.raises(InputError, match=f"validation {message}".replace("graph 0 has 4", "4 were learned from")):
            make().fit(GRAPHS, kinds(SIGNAL), validation=(embeddings, ["low"] * len(embeddings)))


def test_units_of_the_inputs_are_no_matter() -> None:
    """Scaled and shifted by powers of two, columns are standardised to the same numbers; constant ones to 0."""
    scale, shift = torch.tensor([1.0, 1024.0, 0.25, 8.0]), torch.tensor([0.0, 0.0, 0.0, 4.0])
    constant = [torch.cat([graph, torch.full((len(graph), 1), 0.1)], dim=1) for graph in GRAPHS]
    moved = [torch.cat([graph * scale + shift, torch.full((len(graph), 1), 7.3)], dim=1) for graph in GRAPHS]
    one, other = (make(epochs=3).fit(graphs, kinds(SIGNAL), progress=False) for graphs in (constant, moved))
    assert one.weights_["input.deviation"][-1] == other.weights_["input.deviation"][-1] == 1
    for name in ("vertex.weight", "output.bias"):
        torch.testing.assert_close(one.weights_[name], other.weights_[name], rtol=0, atol=1e-4)
