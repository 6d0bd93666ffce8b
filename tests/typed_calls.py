"""What calls return: every `assert_type` is checked by mypy, and by `test_types.py` at run time, where it stands.

`is_a` and `are` ask at run time for what `assert_type` promises to the type checker. Each function is called there with
small fitted models.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, assert_type

import networkx
import numpy as np
import pandas
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Batch, Data, Dataset

import gspn
from gspn import GSPN, DeepSets, GraphDataset, Impute, Schema, Shards, Stack, StoredGraph, SupervisedGSPN, TableImputer
from gspn.attributes import Attribute, FloatArray
from gspn.baselines import FeatureImputer, GraphEmbedder, Mixture
from gspn.baselines.layerwise import Layerwise
from gspn.baselines.predicting import Predicting
from gspn.circuits.distributions import CategoricalDistribution, Distribution, MixtureDistribution
from gspn.circuits.given import Joint
from gspn.convert.arrays import Arrays
from gspn.graph_level.predicting import GraphClassifier, GraphRegressor
from gspn.graphs import Graphs
from gspn.queries.what_if import WhatIf


def is_a(found: object, kind: Any) -> None:
    assert isinstance(found, kind), f"{type(found).__name__} is no {kind}"


def are(found: object, kind: Any) -> None:
    assert isinstance(found, list), f"{type(found).__name__} is no list"
    assert found
    for one in found:
        is_a(one, kind)


# ---- Questions


def about_one_graph(model: GSPN, graph: Data) -> None:
    is_a(assert_type(model.log_likelihood(graph), Tensor), Tensor)
    is_a(assert_type(model.log_likelihood(graph, leave_one_out=True, vertices=[0]), Tensor), Tensor)
    is_a(assert_type(model.posteriors(graph), Tensor), Tensor)
    is_a(assert_type(model.embed(graph), Tensor), Tensor)
    is_a(assert_type(model.embed(graph, pooling="sum"), Tensor), Tensor)
    is_a(assert_type(model.transform(graph), Tensor), Tensor)
    is_a(assert_type(model.log_prob_missing(graph, graph), Tensor), Tensor)
    is_a(assert_type(model.impute(graph), Data), Data)
    is_a(assert_type(model.sample_missing(graph, 2), Tensor), Tensor)
    is_a(assert_type(model.pseudo_gibbs(graph, sweeps=1, vertices=[0]), Tensor), Tensor)
    is_a(assert_type(model.score_entries(graph, vertices=[0]), Tensor), Tensor)
    is_a(assert_type(model.score_vertices(graph), Tensor), Tensor)
    is_a(assert_type(model.score_graphs(graph), float), float)
    is_a(assert_type(model.unusualness_of_vertices(graph), Tensor), Tensor)
    is_a(assert_type(model.unusualness_of_graphs(graph), float), float)
    is_a(assert_type(model.posterior_entropy(graph), Tensor), Tensor)


def about_a_list(model: GSPN, graphs: list[Data]) -> None:
    are(assert_type(model.log_likelihood(graphs, leave_one_out=True), list[Tensor]), Tensor)
    are(assert_type(model.posteriors(graphs), list[Tensor]), Tensor)
    are(assert_type(model.embed(graphs), list[Tensor]), Tensor)
    is_a(assert_type(model.embed(graphs, pooling="mean"), Tensor), Tensor)
    are(assert_type(model.embed([graphs[0], graphs[1]]), list[Tensor]), Tensor)
    are(assert_type(model.embed(tuple(graphs)), list[Tensor]), Tensor)
    are(assert_type(model.transform(graphs), list[Tensor]), Tensor)
    are(assert_type(model.log_prob_missing(graphs, graphs), list[Tensor]), Tensor)
    are(assert_type(model.impute(graphs), list[Data]), Data)
    are(assert_type(model.sample_missing(graphs, 2), list[Tensor]), Tensor)
    are(assert_type(model.pseudo_gibbs(graphs, sweeps=1), list[Tensor]), Tensor)
    are(assert_type(model.score_entries(graphs), list[Tensor]), Tensor)
    are(assert_type(model.score_vertices(graphs), list[Tensor]), Tensor)
    is_a(assert_type(model.score_graphs(graphs), Tensor), Tensor)
    are(assert_type(model.unusualness_of_vertices(graphs), list[Tensor]), Tensor)
    is_a(assert_type(model.unusualness_of_graphs(graphs), Tensor), Tensor)
    are(assert_type(model.posterior_entropy(graphs), list[Tensor]), Tensor)


def about_other_sequences(model: GSPN, packed: GraphDataset, batch: Batch, dataset: Dataset) -> None:
    are(assert_type(model.embed(packed), list[Tensor]), Tensor)
    are(assert_type(model.embed(batch), list[Tensor]), Tensor)
    are(assert_type(model.embed(dataset), list[Tensor]), Tensor)
    are(assert_type(model.impute(packed), list[Data]), Data)
    are(assert_type(model.impute(batch), list[Data]), Data)
    are(assert_type(model.impute(dataset), list[Data]), Data)
    is_a(assert_type(model.embed(packed[0]), Tensor), Tensor)
    are(assert_type(model.embed(packed[1:]), list[Tensor]), Tensor)


def about_either(model: GSPN, graphs: Graphs) -> None:
    is_a(assert_type(model.embed(graphs), Tensor | list[Tensor]), Tensor | list)


def conditionals(model: GSPN, graph: Data, graphs: list[Data], packed: GraphDataset) -> None:
    is_a(assert_type(model.conditional(graph, "element"), Distribution), CategoricalDistribution)
    is_a(assert_type(model.conditional(graph, "charge", vertices=[0]), Distribution), MixtureDistribution)
    is_a(assert_type(model.conditional(graph, ["element", "charge"]), Joint), Joint)
    is_a(assert_type(model.conditional(graph, ("element",), vertices=[0]), Joint), Joint)
    are(assert_type(model.conditional(graphs, "element"), list[Distribution]), CategoricalDistribution)
    are(assert_type(model.conditional(packed, "charge"), list[Distribution]), MixtureDistribution)
    are(assert_type(model.conditional(graphs, ["element", "charge"]), list[Joint]), Joint)
    are(assert_type(model.conditional(packed, ["element", "charge"]), list[Joint]), Joint)


def changes(model: GSPN, graph: Data, graphs: list[Data]) -> None:
    found = model.what_if(graph, {0: {"element": "C"}})
    is_a(assert_type(found, WhatIf), WhatIf)
    is_a(assert_type(found.before, Tensor), Tensor)
    is_a(assert_type(found.change, Tensor), Tensor)
    is_a(assert_type(found.relative, Tensor), Tensor)
    is_a(assert_type(found.total, Tensor), Tensor)
    is_a(assert_type(model.what_if_all(graph, "element", vertices=[0]), Tensor), Tensor)
    are(assert_type(model.what_if_all(graphs, "element"), list[Tensor]), Tensor)


def answers(model: GSPN, graph: Data) -> None:
    table, leaves = model.conditional(graph, "element"), model.conditional(graph, "charge")
    for each in (table, leaves):
        is_a(assert_type(each.entropy, Tensor), Tensor)
        is_a(assert_type(each.mode, Tensor), Tensor)
        is_a(assert_type(each.sample(3), Tensor), Tensor)
        is_a(assert_type(each[0], Distribution), CategoricalDistribution | MixtureDistribution)
    assert isinstance(table, CategoricalDistribution)
    is_a(assert_type(table.probs, Tensor), Tensor)
    is_a(assert_type(table.log_prob("C"), Tensor), Tensor)
    is_a(assert_type(table.categories, tuple[Any, ...]), tuple)
    assert isinstance(leaves, MixtureDistribution)
    is_a(assert_type(leaves.interval(), Tensor), Tensor)
    is_a(assert_type(leaves.quantile(0.5), Tensor), Tensor)
    joint = model.conditional(graph, ["element", "charge", "aromatic"])
    is_a(assert_type(joint[:1], Joint), Joint)
    is_a(assert_type(joint.marginal("element"), Distribution), CategoricalDistribution)
    is_a(assert_type(joint.marginal(["element", "charge"]), Joint), Joint)
    is_a(assert_type(joint.condition({"element": "C"}), Joint), Joint)
    is_a(assert_type(joint.log_prob({"element": "C"}), Tensor), Tensor)
    is_a(assert_type(joint.sample(3), Tensor), Tensor)


# ---- Models


def fitting_and_files(model: GSPN, graphs: list[Data], folder: Path) -> None:
    is_a(assert_type(model.fit(graphs, epochs=1, progress=False), GSPN), GSPN)
    is_a(assert_type(model.keep_scores(graphs), GSPN), GSPN)
    is_a(assert_type(model.get_parameters(), dict[str, Any]), dict)
    is_a(assert_type(model.set_parameters(model.get_parameters()), GSPN), GSPN)
    model.save(folder / "model")
    is_a(assert_type(gspn.load(folder / "model"), GSPN | Stack | GraphClassifier | GraphRegressor), GSPN)
    is_a(assert_type(gspn.load(folder / "model", GSPN), GSPN), GSPN)
    graph = graphs[0]
    stored = gspn.store_graph(folder / "graph", graph.x, graph.edge_index, model.schema, progress=False)
    is_a(assert_type(stored, StoredGraph), StoredGraph)
    shards = model.evaluate_stored(stored, folder / "results", embeddings=True, progress=False)
    is_a(assert_type(shards, Shards), Shards)
    is_a(assert_type(shards.log_likelihood(), Tensor), Tensor)
    is_a(assert_type(shards.embeddings(0, 1), Tensor), Tensor)


def predictions(model: SupervisedGSPN, graph: Data, graphs: list[Data]) -> None:
    """A categorical target of graphs. `| Any`: with targets of vertices, several graphs have a list."""
    is_a(assert_type(model.predict(graph), NDArray[Any]), np.ndarray)
    is_a(assert_type(model.predict(graphs), NDArray[Any] | Any), np.ndarray)
    is_a(assert_type(model.predict_proba(graph), FloatArray), np.ndarray)
    is_a(assert_type(model.predict_proba(graphs), FloatArray | Any), np.ndarray)
    is_a(assert_type(model.log_prob(graph, ["A"]), Tensor), Tensor)
    is_a(assert_type(model.log_prob(graphs, ["A"] * len(graphs)), Tensor | Any), Tensor)
    is_a(assert_type(model.predictive(graph), Distribution | dict[str, Distribution]), CategoricalDistribution)
    is_a(model.predictive(graphs), CategoricalDistribution)
    is_a(assert_type(model.score(graphs, ["A"] * len(graphs)), float), float)
    is_a(assert_type(model.classes_, NDArray[Any]), np.ndarray)
    is_a(assert_type(model.embed(graph), Tensor), Tensor)


def predictions_of_vertices(model: SupervisedGSPN, graph: Data, graphs: list[Data]) -> None:
    """A categorical and a continuous target of vertices."""
    is_a(assert_type(model.predict(graph), NDArray[Any]), np.ndarray)
    are(model.predict(graphs), np.ndarray)
    found = model.predictive(graph)
    assert isinstance(found, dict)
    is_a(assert_type(found["class"], Distribution), CategoricalDistribution)
    several = assert_type(
        model.predictive(graphs), Distribution | list[Distribution] | dict[str, Distribution | list[Distribution]]
    )
    assert isinstance(several, dict)
    are(assert_type(several["energy"], Distribution | list[Distribution]), MixtureDistribution)


def heads(head: DeepSets, embeddings: Sequence[Tensor], y: Sequence[str]) -> None:
    is_a(assert_type(head.fit(embeddings, y, progress=False), DeepSets), DeepSets)
    is_a(assert_type(head.predict(embeddings), NDArray[Any]), np.ndarray)
    is_a(assert_type(head.predict_proba(embeddings), FloatArray), np.ndarray)
    is_a(assert_type(head.outputs(embeddings), FloatArray), np.ndarray)
    is_a(assert_type(head.score(embeddings, y), float), float)
    many = DeepSets.fit_many([{"epochs": 1}], embeddings, y, progress=False, target=head.target)
    are(assert_type(many, list[DeepSets]), DeepSets)


def baselines(
    embedder: GraphEmbedder, ancestor: Layerwise, mixture: Mixture, imputer: FeatureImputer, graphs: list[Data]
) -> None:
    graph = graphs[0]
    is_a(assert_type(embedder.embed(graph), Tensor), Tensor)
    are(assert_type(embedder.embed(graphs), list[Tensor]), Tensor)
    is_a(assert_type(embedder.transform(graph), Tensor), Tensor)
    are(assert_type(embedder.transform(graphs), list[Tensor]), Tensor)
    is_a(assert_type(ancestor.embed(graph), Tensor), Tensor)
    are(assert_type(ancestor.embed(graphs), list[Tensor]), Tensor)
    is_a(assert_type(ancestor.embed_graphs(graph), Tensor), Tensor)
    are(assert_type(ancestor.embed_graphs(graphs), list[Tensor]), Tensor)
    is_a(assert_type(ancestor.transform(graph), Tensor), Tensor)
    are(assert_type(ancestor.transform(graphs), list[Tensor]), Tensor)
    is_a(assert_type(mixture.log_likelihood(graph), Tensor), Tensor)
    are(assert_type(mixture.log_likelihood(graphs), list[Tensor]), Tensor)
    is_a(assert_type(mixture.log_prob_missing(graph, graph), Tensor), Tensor)
    are(assert_type(mixture.log_prob_missing(graphs, graphs), list[Tensor]), Tensor)
    is_a(assert_type(mixture.impute(graph), Data), Data)
    are(assert_type(mixture.impute(graphs), list[Data]), Data)
    is_a(assert_type(mixture.score(graphs), float), float)
    is_a(assert_type(imputer.impute(graph), Data), Data)
    are(assert_type(imputer.impute(graphs), list[Data]), Data)


def predicting_baselines(model: Predicting, graph: Data, graphs: list[Data]) -> None:
    is_a(assert_type(model.predict(graph), NDArray[Any]), np.ndarray)
    is_a(assert_type(model.predict(graphs), NDArray[Any]), np.ndarray)
    is_a(assert_type(model.predict_proba(graphs), FloatArray), np.ndarray)


# ---- Graphs, tables and schemas


def graphs_in_and_out(packed: GraphDataset) -> None:
    is_a(assert_type(packed[0], Data), Data)
    is_a(assert_type(packed[1:], GraphDataset), GraphDataset)
    is_a(assert_type(packed[[0, 1]], GraphDataset), GraphDataset)
    are(assert_type(list(packed), list[Data]), Data)
    is_a(assert_type(gspn.pack(packed[0], packed.schema), GraphDataset), GraphDataset)
    nodes, edges = assert_type(gspn.to_tables(packed, directed=True), tuple[pandas.DataFrame, pandas.DataFrame])
    is_a(nodes, pandas.DataFrame)
    is_a(edges, pandas.DataFrame)
    is_a(assert_type(gspn.vertex_table(packed), pandas.DataFrame), pandas.DataFrame)
    is_a(assert_type(gspn.graph_table(packed), pandas.DataFrame), pandas.DataFrame)
    are(assert_type(gspn.to_networkx(packed), list[networkx.MultiDiGraph]), networkx.MultiDiGraph)
    are(assert_type(gspn.to_networkx(packed, undirected=True), list[networkx.MultiGraph]), networkx.MultiGraph)
    arrays = gspn.to_arrays(packed)
    is_a(assert_type(arrays, Arrays), dict)
    is_a(assert_type(arrays["x"], NDArray[Any]), np.ndarray)
    is_a(assert_type(gspn.from_arrays(**arrays, schema=packed.schema), GraphDataset), GraphDataset)


def filling(model: GSPN, graph: Data, graphs: list[Data], packed: GraphDataset, batch: Batch) -> None:
    fill = Impute(model)
    is_a(assert_type(fill(graph), Data), Data)
    is_a(assert_type(fill(batch), Batch), Batch)
    are(assert_type(fill(graphs), list[Data]), Data)
    are(assert_type(fill(packed), list[Data]), Data)
    is_a(assert_type(fill.forward(graph.clone()), Data), Data)


def filling_tables(imputer: TableImputer, nodes: pandas.DataFrame, edges: pandas.DataFrame, wanted: bool) -> None:
    completed = imputer.fit_transform(nodes, edges, progress=False)
    is_a(assert_type(completed, pandas.DataFrame), pandas.DataFrame)
    is_a(assert_type(imputer.transform(nodes, edges), pandas.DataFrame), pandas.DataFrame)
    both = imputer.transform(nodes, edges, return_spread=True)
    for table in assert_type(both, tuple[pandas.DataFrame, pandas.DataFrame]):
        is_a(table, pandas.DataFrame)
    are(assert_type(imputer.draws(2, nodes, edges), list[pandas.DataFrame]), pandas.DataFrame)
    either = imputer.transform(nodes, edges, return_spread=wanted)
    is_a(
        assert_type(either, pandas.DataFrame | tuple[pandas.DataFrame, pandas.DataFrame]),
        tuple if wanted else pandas.DataFrame,
    )
    is_a(assert_type(gspn.report(imputer, nodes, edges, progress=False), gspn.Report), gspn.Report)


def schemas(schema: Schema, graph: Data) -> None:
    is_a(assert_type(schema["element"], Attribute), Attribute)
    is_a(assert_type(schema.names, tuple[str, ...]), tuple)
    is_a(assert_type(schema.index("element"), int), int)
    decoded = schema.decode(graph.x)
    is_a(assert_type(decoded, dict[str, list[Any]]), dict)
    is_a(assert_type(schema.encode(decoded), FloatArray), np.ndarray)
    is_a(assert_type(Schema.from_json(schema.to_json()), Schema), Schema)
