"""Imputers: what they fill in is the model's answer, and nothing else of a table or graph changes."""

from __future__ import annotations

import copy
import logging
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from small_graphs import EVERY_KIND, draw_graph, draw_graphs
from small_models import random_model
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.transforms import Compose

import gspn
from gspn import GSPN, Binary, Categorical, Continuous, Count, GSPNError, Impute, Schema, TableImputer, policy
from gspn.errors import InputError, MissingExtraError, NotFittedError

ATTRIBUTES = ("charge", "element", "word", "flag", "number", "level")


def draw_tables(seed: int = 0, rows: int = 24, graphs: int = 3) -> tuple[Any, Any]:
    """Vertices of several graphs in mixed order, of all sorts of column types with gaps, and rings of edges."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=rows)
    group = rng.integers(graphs, size=rows)
    nodes = pd.DataFrame(
        {
            "charge": rng.normal(4 * kind, 1).astype(np.float32),
            "mol": [f"g{g}" for g in group],
            "element": pd.Categorical(np.where(kind, "O", "C"), categories=["O", "N", "C"]),
            "word": np.where(kind, "yes", "no"),
            "flag": pd.array(kind == 1, dtype="boolean"),
            "id": [f"v{v}" for v in range(rows)],
            "number": pd.array(rng.poisson(5 + 20 * kind), dtype="Int64"),
            "level": pd.array(rng.normal(100 * kind - 50, 5).astype(int), dtype="Int16"),
            "note": [object() for _ in range(rows)],
        },
        index=pd.Index(rng.integers(5, size=rows), name="label"),  # labels repeat
    )
    for name in ATTRIBUTES:
        column = nodes[name].copy()
        column.iloc[np.flatnonzero(rng.random(rows) < 0.25)] = None
        nodes[name] = column
    ends = [np.flatnonzero(group == g) for g in range(graphs)]
    pairs = [(u, v) for ring in ends if len(ring) > 2 for u, v in zip(ring, np.roll(ring, 1), strict=True)]
    edges = pd.DataFrame([(f"v{u}", f"v{v}") for u, v in pairs], columns=["source", "target"])
    edges["bond"] = rng.choice(["single", "double"], size=len(edges))
    return nodes, edges


SMALL: dict[str, Any] = {
    "graph": "mol",
    "ignore": "note",
    "overrides": {"number": "count", "level": "continuous"},
    "edge_type": "bond",
    "num_layers": 2,
    "num_states": 3,
    "epochs": 3,
}


@pytest.fixture(scope="module")
def fitted() -> TableImputer:
    return TableImputer(**SMALL).fit(*draw_tables(), progress=False)


def model_of(imputer: TableImputer) -> GSPN:
    assert isinstance(imputer.model_, GSPN)
    return imputer.model_


def packed(imputer: TableImputer, nodes: Any, edges: Any) -> gspn.GraphDataset:
    return gspn.from_tables(
        nodes,
        edges,
        imputer.schema_,
        graph="mol",
        ignore="note",
        edge_type="bond",
        edge_types=imputer.edge_types_,
    )


# ---- Tables


@pytest.mark.parametrize("how", ["mean", "median", "mode", "closest", "sample"])
@pytest.mark.parametrize("seed", [0, 1])
def test_only_gaps_change(fitted: TableImputer, seed: int, how: str) -> None:
    nodes, edges = draw_tables(seed)
    given = nodes.copy(deep=True)
    imputer = copy.copy(fitted).set_params(how=how)
    completed = imputer.transform(nodes, edges)
    pd.testing.assert_frame_equal(nodes, given, check_exact=True)
    assert list(completed.columns) == list(nodes.columns)
    pd.testing.assert_index_equal(completed.index, nodes.index)
    pd.testing.assert_series_equal(completed.dtypes, nodes.dtypes)
    assert not completed.isna().any(axis=None)
    for name in nodes:
        kept = nodes[name].notna().to_numpy()
        pd.testing.assert_series_equal(completed[name][kept], nodes[name][kept], check_exact=True)
    assert all(one is other for one, other in zip(completed["note"], nodes["note"], strict=True))
    pd.testing.assert_frame_equal(imputer.transform(nodes, edges), completed, check_exact=True)  # draws, too


def test_the_model_fills(fitted: TableImputer) -> None:
    nodes, edges = draw_tables()
    completed = fitted.transform(nodes, edges)
    dataset = packed(fitted, nodes, edges)
    filled = fitted.model_.impute(dataset)
    again = packed(fitted, completed, edges)
    for ours, theirs in zip(again, filled, strict=True):
        expected = theirs.x.clone()
        level, charge = fitted.schema_.index("level"), fitted.schema_.index("charge")
        expected[:, level] = expected[:, level].round()  # a column of integers
        expected[:, charge] = expected[:, charge].float().double()
        torch.testing.assert_close(ours.x, expected, rtol=0, atol=0)


def test_the_spread_is_that_of_the_conditional(fitted: TableImputer) -> None:
    nodes, edges = draw_tables()
    completed, spread = fitted.transform(nodes, edges, return_spread=True)
    assert list(spread.columns) == ["row", "attribute", "value", "std", "probability", "low", "high", "likely"]
    assert len(spread) == int(nodes[list(ATTRIBUTES)].isna().sum().sum())
    pd.testing.assert_index_equal(spread.index, nodes.index.take(spread["row"]))
    assert spread["row"].is_monotonic_increasing
    dataset = packed(fitted, nodes, edges)
    assert dataset.vertex_names is not None
    place = {name: number for number, name in enumerate(dataset.vertex_names.tolist())}
    graph, vertex = dataset.vertex_keys()
    for one in spread.itertuples():
        row = place[nodes["id"].iloc[one.row]]
        (found,) = [fitted.model_.conditional(dataset[int(graph[row])], one.attribute, [int(vertex[row])])]
        assert pd.isna(nodes[one.attribute].iloc[one.row])
        assert one.value == completed[one.attribute].iloc[one.row]
        kind = fitted.schema_[one.attribute].kind
        if kind == "continuous":
            assert np.isnan(one.probability)
        else:
            assert one.probability == pytest.approx(found.log_prob([one.value]).exp().item(), rel=1e-6)
        if kind in ("continuous", "count"):
            # The model is in float32.
            assert one.std == pytest.approx(found.variance.sqrt().item(), rel=1e-5)
            assert (one.low, one.high) == pytest.approx(tuple(found.interval(0.9)[0].tolist()), rel=1e-5)
            assert one.likely is None
        else:
            assert np.isnan([one.std, one.low, one.high]).all()
            shares = dict(zip(found.categories, found.probs[0].tolist(), strict=True))
            assert one.likely == tuple(sorted(shares, key=lambda value: -shares[value]))[: len(one.likely)]
            held = [shares[value] for value in one.likely]
            assert sum(held[:-1]) < 0.9 <= sum(held) + 1e-6


def test_a_fitted_model_needs_no_fit(fitted: TableImputer) -> None:
    nodes, edges = draw_tables()
    arguments = {name: getattr(fitted, name) for name in ("id", "graph", "edge_type", "ignore")}
    imputer = TableImputer.with_model(fitted.model_, fitted.edge_types_, **arguments)
    pd.testing.assert_frame_equal(imputer.transform(nodes, edges), fitted.transform(nodes, edges))
    with pytest.raises(InputError, match="model must be a GSPN"):
        TableImputer.with_model("model")  # type: ignore[arg-type]


def test_intervals_widen_with_the_level(fitted: TableImputer) -> None:
    nodes, edges = draw_tables()
    widths = []
    for level in (0.5, 0.99):
        fitted.level = level
        spread = fitted.transform(nodes, edges, return_spread=True)[1].query("attribute == 'charge'")
        widths.append(spread["high"] - spread["low"])
    fitted.level = 0.9
    assert (widths[0] < widths[1]).all()


def test_rows_may_come_in_any_order(fitted: TableImputer) -> None:
    nodes, edges = draw_tables()
    order = np.random.default_rng(3).permutation(len(nodes))
    completed, moved = fitted.transform(nodes, edges), fitted.transform(nodes.iloc[order], edges)
    pd.testing.assert_frame_equal(moved, completed.iloc[order], rtol=1e-5)  # sums in another order, float32


def test_new_rows_and_graphs_need_no_training(fitted: TableImputer) -> None:
    before = {name: value.clone() for name, value in model_of(fitted).state_dict().items()}
    nodes, edges = draw_tables(seed=7, rows=40, graphs=5)
    assert not fitted.transform(nodes, edges).isna().any(axis=None)
    alone = nodes.drop(columns="note").iloc[:1]  # no edges, and nothing left to ignore
    assert not fitted.transform(alone).isna().any(axis=None)
    assert all(torch.equal(value, before[name]) for name, value in model_of(fitted).state_dict().items())


def test_neighbours_tell_what_is_missing() -> None:
    """Two communities that differ in their label: a gap is filled by its neighbours' label."""
    nodes = pd.DataFrame({"label": ["a"] * 12 + ["b"] * 12})
    pairs = [(u, v) for start in (0, 12) for u in range(start, start + 12) for v in range(u + 1, start + 12)]
    edges = pd.DataFrame(pairs, columns=["source", "target"])
    gaps = nodes.copy()
    gaps.loc[[2, 5, 14, 20], "label"] = None
    imputer = TableImputer(id=None, num_layers=2, num_states=4, epochs=60, seed=1)
    completed, spread = imputer.fit_transform(gaps, edges, return_spread=True, progress=False)
    pd.testing.assert_frame_equal(completed, nodes)
    assert (spread["probability"] > 0.8).all()


@pytest.mark.parametrize("effort", ["quick", "thorough"])
def test_the_policy_chooses_where_nobody_says(effort: policy.Effort, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, edges = draw_tables()
    model, asked = random_model(EVERY_KIND), []

    def select(dataset: gspn.GraphDataset, **how: Any) -> policy.Selection:
        asked.append((dataset.digest(), how["effort"], how["seed"]))
        return policy.Selection(gspn.Stack([model]), (), 1.5, 40)

    monkeypatch.setattr(policy, "select", select)
    columns = {name: SMALL[name] for name in ("graph", "ignore", "overrides", "edge_type")}
    imputer = TableImputer(**columns, effort=effort, seed=3).fit(nodes, edges, progress=False)
    dataset = gspn.from_tables(nodes, edges, **columns)
    assert asked == [(dataset.digest(), effort, 3)]
    assert isinstance(imputer.model_, gspn.Stack)
    assert imputer.selection_ is not None
    assert imputer.selection_.stack is imputer.model_
    for said in (
        {"num_states": 2},
        {"objective": "masked"},
        {"batch_size": 4},
        {"lr": 0.05},
        {"arguments": {"prior": 1.0}},
    ):
        one = TableImputer(**columns, effort=effort, **said).set_params(**{"epochs": 1} if "lr" in said else {})
        monkeypatch.setattr(policy, "fit", lambda model, dataset, progress: model)
        assert isinstance(one.fit(nodes, edges, progress=False).model_, GSPN), said
        assert one.selection_ is None
    assert len(asked) == 1


def test_a_choice_of_the_policy_fills_as_the_stack_answers() -> None:
    """Two clusters of sizes; whole numbers are filled with whole numbers, and neighbours may be listened to."""
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1], 100)
    nodes = pd.DataFrame({"size": rng.normal(6 * kind, 1), "level": np.round(rng.normal(20 * kind, 2))})
    nodes = nodes.mask(rng.random(nodes.shape) < 0.2)
    edges = pd.DataFrame({"source": range(199), "target": range(1, 200)})
    imputer = TableImputer(id=None, effort="quick")
    completed, spread = imputer.fit_transform(nodes, edges, return_spread=True, progress=False)
    selection = imputer.selection_
    assert selection is not None
    assert selection.held_out > 30
    assert selection.loss < policy.loss_of_columns(gspn.from_tables(nodes, edges, id=None), effort="quick") - 0.3
    assert imputer.whole_numbers_ == ("level",)
    assert not completed.isna().any(axis=None)
    assert (completed["level"] % 1 == 0).all()
    again = TableImputer.with_model(imputer.model_, whole_numbers=["level"], id=None)
    pd.testing.assert_frame_equal(again.transform(nodes, edges), completed, check_exact=True)
    assert again.selection_ is None
    assert (spread["low"] < spread["high"]).all()


def test_a_complete_table_stays_as_it_is(fitted: TableImputer) -> None:
    nodes, edges = draw_tables()
    completed = fitted.transform(nodes, edges)
    again, spread = fitted.transform(completed, edges, return_spread=True)
    pd.testing.assert_frame_equal(again, completed, check_exact=True)
    assert spread.empty


ONE = Schema([Continuous("size"), Binary("flag"), Categorical("word", ["no", "yes"]), Count("number")])
OTHERS = {"size": 1.5, "flag": 1, "word": "yes", "number": 3}


def imputer_of(schema: Schema) -> TableImputer:
    """An imputer that is fitted to nothing much."""
    rows = [{"size": -1.0, "flag": 0, "word": "no", "number": 1}, OTHERS, {**OTHERS, "size": 2.0}]
    nodes = pd.DataFrame(rows)[list(schema.names)]
    return TableImputer(schema, id=None, num_layers=1, num_states=2, epochs=0).fit(nodes, progress=False)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("size", pd.Series([1.0, np.nan], dtype="float64")),
        ("size", pd.Series([1.0, np.nan], dtype="float16")),
        ("size", pd.Series([1.0, None], dtype="Float64")),
        ("size", pd.Series([1, None], dtype="Int8")),
        ("size", pd.Series([1.0, None], dtype="float64[pyarrow]")),
        ("size", pd.Series([1.0, None], dtype=object)),
        ("flag", pd.Series([True, None], dtype="boolean")),
        ("flag", pd.Series([1.0, np.nan], dtype="float64")),
        ("flag", pd.Series([1, None], dtype="Int64")),
        ("flag", pd.Series([True, None], dtype=object)),
        ("flag", pd.Series([1, None], dtype=object)),
        ("flag", pd.Series([0, None], dtype=pd.CategoricalDtype([0, 1]))),
        ("word", pd.Series(["no", None], dtype=object)),
        ("word", pd.Series(["no", None], dtype="string")),
        ("word", pd.Series(["no", None], dtype=pd.CategoricalDtype(["yes", "no"], ordered=True))),
        ("number", pd.Series([3, None], dtype="UInt16")),
        ("number", pd.Series([3.0, np.nan], dtype="float32")),
    ],
)
def test_types_of_columns(name: str, column: Any) -> None:
    nodes = pd.DataFrame(OTHERS, index=[0, 1])
    nodes[name] = column
    completed = imputer_of(ONE).transform(nodes)
    assert completed[name].dtype == column.dtype
    assert type(completed[name].iloc[1]) is type(completed[name].iloc[0])
    assert not completed.isna().any(axis=None)


def test_a_category_that_only_the_training_table_knows() -> None:
    nodes = pd.DataFrame(OTHERS, index=[0, 1, 2])
    nodes["word"] = pd.Categorical(["no", None, None], categories=["no"])
    nodes.loc[1, ["size", "number"]] = [1.75, 3]
    completed = imputer_of(ONE).transform(nodes)
    assert completed["word"].cat.categories[0] == "no"
    assert set(completed["word"]) <= {"no", "yes"}
    assert completed["word"].iloc[0] == "no"


def test_a_column_without_any_value_takes_the_type_of_its_values() -> None:
    nodes = pd.DataFrame(OTHERS, index=[0, 1]).assign(word=np.nan)
    completed = imputer_of(ONE).transform(nodes)
    assert set(completed["word"]) <= {"no", "yes"}


def test_scikit_learn_manners(fitted: TableImputer) -> None:
    again = clone(fitted)
    assert again.get_params() == fitted.get_params()
    assert again.get_params()["num_states"] == 3
    with pytest.raises(NotFittedError, match="not fitted yet; call fit"):
        again.transform(*draw_tables())
    nodes, edges = draw_tables()
    assert again.set_params(seed=0).fit(nodes, edges, progress=False) is again
    pd.testing.assert_frame_equal(again.transform(nodes, edges), fitted.transform(nodes, edges), check_exact=True)
    assert again.feature_names_in_.tolist() == again.get_feature_names_out().tolist() == list(nodes.columns)
    assert again.model_.objective == "masked"
    of_shortcut = TableImputer(**SMALL, arguments={"shortcut": "mean"}).fit(nodes, edges, progress=False)
    assert model_of(of_shortcut).shortcut == "mean"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda n, e: (n.assign(word="perhaps"), e), "nodes, row 0, attribute 'word': 'perhaps' is none of the cat"),
        (lambda n, e: (n.drop(columns="flag"), e), "nodes: no column 'flag', which the schema asks for"),
        (lambda n, e: (n.assign(mass=1.0), e), "nodes: column 'mass' is not in the schema"),
        (lambda n, e: (n.drop(columns="id"), e), "nodes has no column 'id'"),
        (lambda n, e: (n.assign(charge=1e30), e), "attribute 'charge': 1e+30 is more than 1e+06 deviations"),
        (lambda n, e: (n, e.assign(bond="triple")), "edges, row 0, attribute 'bond': 'triple' is none of the cat"),
        (lambda n, e: (n, e.assign(source="w")), "edges, row 0: source 'w' is no id of nodes"),
        (lambda n, e: (n.to_dict(), e), "nodes must be a pandas DataFrame"),
        (lambda n, e: ("nodes.csv", e), "nodes must be a pandas DataFrame or an array, got 'nodes.csv'"),
        (lambda n, e: (n.iloc[:0], e), "nodes has no rows"),
    ],
)
def test_refusals_of_tables(fitted: TableImputer, change: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        fitted.transform(*change(*draw_tables()))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"how": "best"}, "how must be one of 'mean', 'median', 'mode', 'closest', 'sample', got 'best'"),
        ({"effort": "some"}, "effort must be one of 'quick', 'normal', 'thorough', got 'some'"),
        ({"level": 90}, "level must be a number between 0 and 1, got 90"),
        ({"arguments": {"states": 3}}, "arguments: 'states' is none of "),
        ({"arguments": {"lr": 3}}, "arguments: 'lr' is none of "),
        ({"num_states": 0}, "num_states"),
        ({"ignore": ["note", "none"]}, "ignore names 'none', but there is no such column"),
    ],
)
def test_refusals_of_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        TableImputer(**SMALL | arguments).fit(*draw_tables(), progress=False)
    assert message in str(error.value)


def test_a_column_of_integers_that_cannot_hold_the_value() -> None:
    nodes = pd.DataFrame(OTHERS, index=[0, 1]).assign(size=pd.array([100, None], dtype="UInt8"))
    imputer = imputer_of(ONE)
    parameters = model_of(imputer).get_parameters()
    parameters["leaves"]["size"]["mean"][:] = -7.0
    model_of(imputer).set_parameters(parameters)
    with pytest.raises(InputError, match="column 'size' of type UInt8 cannot hold what is filled in, such as -7"):
        imputer.transform(nodes)


def test_without_pandas_the_extra_is_named(fitted: TableImputer, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, edges = draw_tables()
    monkeypatch.setitem(sys.modules, "pandas", None)
    for ask in (fitted.transform, TableImputer().fit):
        with pytest.raises(MissingExtraError, match=r"gspn\[tables\]"):
            ask(nodes, edges)


# ---- PyG


def test_impute_fills_what_the_model_fills(caplog: pytest.LogCaptureFixture) -> None:
    model, graph = random_model(EVERY_KIND), draw_graph(np.random.default_rng(0), 8, missing=0.3)
    given = graph.clone()
    expected = model.impute(graph)
    graph.pos, graph.name = torch.zeros(8, 3), "one"
    with caplog.at_level(logging.WARNING):
        filled = Impute(model)(graph)
    assert not caplog.records  # of what a transform hands through there is nothing to say
    assert torch.equal(filled.x, expected.x)
    assert filled.name == "one"
    assert torch.equal(filled.pos, graph.pos)
    assert torch.equal(graph.x.nan_to_num(-1), given.x.nan_to_num(-1))
    seen = ~given.x.isnan()
    assert torch.equal(filled.x[seen], given.x[seen])


@pytest.mark.parametrize("types", [0, 2])
def test_impute_on_lists_batches_and_datasets(types: int) -> None:
    model = random_model(EVERY_KIND, num_edge_types=max(types, 1))
    graphs = draw_graphs(4, seed=3, missing=0.3, edge_types=types)
    transform = Impute(model, how="mode")
    one_by_one = [transform(graph) for graph in graphs]
    together = transform(Batch.from_data_list(graphs))
    assert isinstance(together, Batch)
    for several in (transform(graphs), transform(gspn.pack(graphs, EVERY_KIND)), together.to_data_list()):
        for ours, theirs in zip(several, one_by_one, strict=True):
            torch.testing.assert_close(ours.x, theirs.x, rtol=1e-9, atol=1e-9)  # modes are found by climbing
            assert torch.equal(ours.edge_index, theirs.edge_index)
    composed = Compose([Impute(model), lambda data: data])(graphs[0])
    assert not composed.x.isnan().any()


def test_impute_draws_from_its_generator() -> None:
    model, graph = random_model(EVERY_KIND), draw_graph(np.random.default_rng(0), 8, missing=0.5)
    drawn = [Impute(model, "sample", torch.Generator().manual_seed(seed))(graph).x for seed in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert repr(Impute(model, "sample")) == "Impute(GSPN, how='sample')"


def test_refusals_of_impute() -> None:
    model = random_model(EVERY_KIND)
    with pytest.raises(InputError, match="model must be a GSPN or a Stack, got 'model'"):
        Impute("model")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="how must be one of"):
        Impute(model, how="best")
    wrong: list[Any] = [HeteroData(), [HeteroData()], 3]
    for bad in wrong:
        with pytest.raises(InputError, match="Impute takes a Data, a Batch or a list of Data"):
            Impute(model)(bad)
    with pytest.raises(GSPNError, match="the list of graphs is empty"):
        Impute(model)([])
    with pytest.raises(NotFittedError):
        Impute(GSPN(EVERY_KIND))(draw_graphs(1, seed=0)[0])
    with pytest.raises(InputError, match="x has shape"):
        Impute(model)(Data(x=torch.zeros(2, 2)))
