"""What a model does for those who meet it first: schemas found at `fit`, callbacks, pooled embeddings, refusals."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.base import clone
from small_graphs import EVERY_KIND, draw_graphs
from torch_geometric.data import Data

import gspn
from gspn import GSPN, Continuous, Schema, SupervisedGSPN
from gspn.errors import InputError, NotFittedError

SMALL: dict[str, Any] = {"num_layers": 2, "num_states": 2, "epochs": 2}


@pytest.fixture(scope="module")
def graphs() -> gspn.GraphDataset:
    return gspn.pack(draw_graphs(12, seed=0), EVERY_KIND)


def equal(one: GSPN, other: GSPN) -> bool:
    ours, theirs = one.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


# ---- no schema


def test_a_schema_is_found_at_fit(graphs: gspn.GraphDataset, tmp_path: Path) -> None:
    model, told = GSPN(**SMALL), GSPN(EVERY_KIND, **SMALL).fit(graphs, progress=False)
    assert not list(model.parameters())
    model.fit(graphs, progress=False)
    assert model.schema == EVERY_KIND
    assert equal(model, told)
    assert model.get_params()["schema"] is None
    assert clone(model).get_params() == model.get_params()
    model.save(tmp_path)
    assert equal(gspn.load(tmp_path, GSPN), told)


def test_a_schema_is_found_in_graphs_of_pyg() -> None:
    listed = [Data(x=torch.randn(5, 2), edge_index=torch.tensor([[0, 1], [1, 0]])) for _ in range(3)]
    givens: list[Any] = [listed, listed[0], iter(listed)]
    for given in givens:
        model = GSPN(**SMALL).fit(given, progress=False)
        assert model.schema.names == ("x0", "x1")
    assert model.fit([Data(x=torch.randn(5, 3))], progress=False).schema.names == ("x0", "x1", "x2")
    with pytest.raises(InputError, match="shape"):
        model.fit([Data(x=torch.randn(5, 2))], progress=False, warm_start=True)


def test_other_arguments_of_a_model_without_a_schema(graphs: gspn.GraphDataset) -> None:
    model = GSPN(**SMALL).double()
    model.set_params(num_states=3)
    with pytest.raises(InputError, match="num_layers"):
        GSPN(num_layers=0).fit(graphs, progress=False)
    model.fit(graphs, progress=False)
    assert model.hierarchy.raw_prior.shape[-1] == 3
    assert model.hierarchy.raw_prior.dtype == torch.float64
    model.set_params(schema=None)
    assert not list(model.parameters())
    model.set_params(schema=Schema([Continuous("a")]))
    assert model.get_params()["schema"] is model.schema


def test_a_supervised_model_without_a_schema(graphs: gspn.GraphDataset) -> None:
    listed, y = list(graphs), torch.arange(12.0)
    models = [
        SupervisedGSPN(schema, Continuous("y"), num_graph_states=2, **SMALL).fit(graphs, y, progress=False)
        for schema in (None, EVERY_KIND)
    ]
    assert equal(*models)
    assert models[0].predict(listed[0]).shape == (1,)


@pytest.mark.parametrize(
    "ask",
    [
        lambda m, g: m.conditional(g, "charge"),
        lambda m, g: m.log_likelihood(g),
        lambda m, g: m.impute(g),
        lambda m, g: m.embed(g),
        lambda m, g: m.what_if(g),
        lambda m, g: m.what_if_all(g, "charge", values=[1.0]),
        lambda m, g: m.score_vertices(g),
        lambda m, g: m.collate(g),
        lambda m, g: m.get_parameters(),
        lambda m, g: m.save("nowhere"),
        lambda m, g: m.network,
    ],
)
def test_without_a_schema_nothing_is_answered(ask: Any, graphs: gspn.GraphDataset) -> None:
    with pytest.raises(NotFittedError, match=r"not fitted yet|has no schema yet"):
        ask(GSPN(), graphs[0])


# ---- callbacks


def test_callbacks_see_every_epoch_and_may_end_the_training(graphs: gspn.GraphDataset) -> None:
    seen: list[Any] = []

    def note(model: GSPN, record: dict[str, Any]) -> None:
        seen.append((record["epoch"], float(model.log_likelihood(graphs[0]).sum())))

    model = GSPN(EVERY_KIND, **SMALL | {"epochs": 5})
    model.fit(graphs, progress=False, callbacks=[note, lambda _, record: record["epoch"] == 2])
    assert [epoch for epoch, _ in seen] == [0, 1, 2]
    assert len({value for _, value in seen}) == 3
    assert len(model.history_) == 3
    assert model.training_scores_ is not None
    assert equal(model, GSPN(EVERY_KIND, **SMALL | {"epochs": 3}).fit(graphs, progress=False))


def test_callbacks_that_are_none(graphs: gspn.GraphDataset) -> None:
    for callbacks in (print, [1], 7):
        with pytest.raises(InputError, match="callbacks must be a list of functions"):
            GSPN(EVERY_KIND, **SMALL).fit(graphs, progress=False, callbacks=callbacks)  # type: ignore[arg-type]

    def fail(model: GSPN, record: dict[str, Any]) -> None:
        raise KeyError("mine")

    model = GSPN(EVERY_KIND, **SMALL)
    with pytest.raises(KeyError, match="mine"):
        model.fit(graphs, progress=False, callbacks=[fail])
    assert len(model.history_) == 1


# ---- embeddings of graphs


@pytest.mark.parametrize("pooling", ["mean", "sum"])
def test_pooled_embeddings(graphs: gspn.GraphDataset, pooling: str) -> None:
    model = GSPN(EVERY_KIND, **SMALL).fit(graphs, progress=False)
    rows = model.embed(graphs)
    expected = torch.stack([getattr(row, pooling)(0) for row in rows])
    torch.testing.assert_close(model.embed(graphs, pooling=pooling), expected)
    torch.testing.assert_close(model.embed(graphs[3], pooling=pooling), expected[3])
    with pytest.raises(InputError, match="pooling must be one of 'mean', 'sum'"):
        model.embed(graphs, pooling="max")


# ---- refusals and advice


def test_a_model_is_called_with_a_batch(graphs: gspn.GraphDataset) -> None:
    model = GSPN(EVERY_KIND, **SMALL)
    for given in (graphs[0], list(graphs), graphs):
        with pytest.raises(InputError, match=r"called with a batch, got \w+; pass model\.collate\(graphs\)"):
            model(given)
    assert model(model.collate(graphs)).log_likelihood.isfinite().all()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_device_that_is_not_there() -> None:
    model = GSPN(EVERY_KIND, **SMALL)
    for device in ("cuda", "cuda:3", torch.device("cuda", 0), 0):
        with pytest.raises(InputError, match=r"cannot go to (cuda|0).*stays where it is"):
            model.to(device)
    with pytest.raises(InputError, match="cannot go to cuda"):
        model.cuda()
    assert model.to("cpu", torch.float64).hierarchy.raw_prior.dtype == torch.float64
    assert model.to(torch.float32).hierarchy.raw_prior.dtype == torch.float32


def test_the_remedy_is_named_once(graphs: gspn.GraphDataset, caplog: pytest.LogCaptureFixture) -> None:
    model = GSPN(EVERY_KIND, **SMALL).fit(graphs, progress=False)
    model.log_likelihood(graphs)
    model.what_if(graphs[0], leave_one_out=False)
    assert not caplog.records
    model.score_vertices(graphs)
    model.what_if(graphs[0])
    model.impute(graphs)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "fit it again with objective='masked'" in caplog.text
    caplog.clear()
    GSPN(EVERY_KIND, objective="masked", **SMALL).fit(graphs, progress=False).score_vertices(graphs)
    assert not caplog.records


def test_numbers_that_say_how_likely_leave_the_vertex_out(graphs: gspn.GraphDataset) -> None:
    # With three levels a vertex comes back to itself.
    model, graph = GSPN(EVERY_KIND, **SMALL | {"num_layers": 3}).fit(graphs, progress=False), graphs[0]
    hidden = model.log_likelihood(graph, leave_one_out=True)
    torch.testing.assert_close(model.what_if(graph).before, hidden)
    assert not torch.allclose(model.log_likelihood(graph), hidden)


def test_old_names_are_told_the_new_ones(graphs: gspn.GraphDataset) -> None:
    model = GSPN(EVERY_KIND, **SMALL).fit(graphs, progress=False)
    with pytest.warns(FutureWarning, match="rank_vertices is now called unusualness_of_vertices"):
        assert torch.equal(model.rank_vertices(graphs[0]), model.unusualness_of_vertices(graphs[0]))
    with pytest.warns(FutureWarning, match="rank_graphs is now called unusualness_of_graphs"):
        assert model.rank_graphs(graphs[0]) == model.unusualness_of_graphs(graphs[0])
