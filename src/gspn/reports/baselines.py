"""The baselines beside a model that predicts targets: a constant, and a forest on a table of plain numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gspn.attributes import Binary, Categorical
from gspn.baselines import Constant, MoleculeForest, PooledAttributes
from gspn.baselines.features import Features
from gspn.baselines.neighbour_means import neighbour_means
from gspn.convert.atoms import features_of
from gspn.convert.valences import ELEMENT
from gspn.errors import GSPNError
from gspn.graphs import GraphDataset
from gspn.reports.targets import CONSTANT, Predictions, labels_of
from gspn.targets import Target, target_schema

DESCRIPTORS = "descriptors and a forest"
POOLED = "pooled attributes and a forest"
OWN = "own attributes and a forest"
NEIGHBOURS = "labels of neighbours"

_MOST = 5_000
"""Graphs or vertices that a forest learns from: more take long, and change little."""

Predicting = Mapping[str, Callable[[], list[Predictions]]]


def for_graphs(training: GraphDataset, held: GraphDataset, seed: int) -> tuple[Predicting, dict[str, str]]:
    """By name what predicts the targets of `held` graphs, learned from those of others; and what each of them is."""
    labelled = np.flatnonzero(~np.isnan(labels_of(training)).all(1))
    chosen = np.random.default_rng(seed).permutation(labelled)[:_MOST]
    few = training[torch.from_numpy(np.sort(chosen))]
    given: Any = {"schema": few.schema, "target": few.target}
    forest: Any = PooledAttributes(**given, heads="extra trees", seed=seed)
    name, words = POOLED, "means, sums and deviations of attributes, degrees and edge types, and a forest on these"
    if is_molecular(training):
        forest, name = MoleculeForest(**given, seed=seed), DESCRIPTORS
        words = "RDKit's descriptors of the molecules, and a forest on these"
    if len(few) < len(labelled):
        words += f", from {len(few):,} of them"
    found = {
        CONSTANT: lambda: _predicted(Constant(**given).fit(few, progress=False), held),
        name: lambda: _predicted(forest.fit(few, progress=False), held),
    }
    return found, {CONSTANT: "the same for all: the most common class, or the median", name: words}


def is_molecular(dataset: GraphDataset) -> bool:
    """Whether descriptors can be computed."""
    if features_of(dataset.schema) is None or not set(ELEMENT) & set(dataset.schema.names):
        return False
    try:
        from gspn.convert.atoms import import_rdkit

        import_rdkit()
    except GSPNError:
        return False
    return True


def for_vertices(
    dataset: GraphDataset, known: torch.Tensor, held: torch.Tensor, seed: int
) -> tuple[Predicting, dict[str, str]]:
    """The same for labels of vertices, from those of the vertices `known`."""
    target, labels = dataset.target, labels_of(dataset)
    assert target is not None
    visible = np.full_like(labels, np.nan)
    visible[known.numpy()] = labels[known.numpy()]
    entries = dataset.entries()
    usable = ~entries.isnan().all(0)

    def rows() -> NDArray[np.float64]:
        schema = type(dataset.schema)(one for one, there in zip(dataset.schema, usable.tolist(), strict=True) if there)
        return Features.of(schema, entries[:, usable])(entries[:, usable]).double().numpy()

    def by_neighbours() -> list[Predictions]:
        found = []
        for attribute, column in zip(target_schema(target), visible.T, strict=True):
            if isinstance(attribute, Categorical | Binary):
                size = len(attribute.categories) if isinstance(attribute, Categorical) else 2
                columns = np.eye(size)[np.nan_to_num(column).astype(int)]
                columns[np.isnan(column)] = np.nan
            else:
                columns = column[:, None]
            told = neighbour_means(dataset, torch.from_numpy(columns)).numpy()[held.numpy()]
            told = np.where(np.isnan(told), np.nanmean(columns, axis=0), told)
            discrete = isinstance(attribute, Categorical | Binary)
            values = told.argmax(1).astype(float) if discrete else told[:, 0]
            found.append((values, told[:, 1] if isinstance(attribute, Binary) else None))
        return found

    found: dict[str, Callable[[], list[Predictions]]] = {CONSTANT: lambda: _constant(target, visible, len(held))}
    words = {CONSTANT: "the same for all: the most common class, or the mean"}
    if int(dataset.num_edges_per_graph().sum()):
        found[NEIGHBOURS] = by_neighbours
        words[NEIGHBOURS] = "the most common label, or the mean, of neighbours with a known label"
    if bool(usable.any()):
        found[OWN] = lambda: _forest(target, rows(), visible, held.numpy(), seed)
        words[OWN] = "a forest on the attributes of the vertex itself; it sees no edge"
    return found, words


def _predicted(model: Any, held: GraphDataset) -> list[Predictions]:
    schema = list(target_schema(model.target))
    values = np.asarray(model.predict(held), dtype=object).reshape(len(held), len(schema))
    encoded = [np.asarray(one.encode(values[:, column].tolist())) for column, one in enumerate(schema)]
    chances: list[Any] = [None] * len(schema)
    if all(isinstance(one, Binary) for one in schema):
        given = model.predict_proba(held)
        chances = [given[:, 1]] if len(schema) == 1 else list(given.T)
    return list(zip(encoded, chances, strict=True))


def _constant(target: Target, visible: NDArray[np.float64], count: int) -> list[Predictions]:
    found: list[Predictions] = []
    for attribute, column in zip(target_schema(target), visible.T, strict=True):
        known = column[~np.isnan(column)]
        discrete = isinstance(attribute, Categorical | Binary)
        value = float(np.bincount(known.astype(int)).argmax()) if discrete else float(known.mean())
        chances = np.full(count, known.mean()) if isinstance(attribute, Binary) else None
        found.append((np.full(count, value), chances))
    return found


def _forest(
    target: Target, rows: NDArray[np.float64], visible: NDArray[np.float64], held: NDArray[np.int64], seed: int
) -> list[Predictions]:
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    found: list[Predictions] = []
    for attribute, column in zip(target_schema(target), visible.T, strict=True):
        known = np.random.default_rng(seed).permutation(np.flatnonzero(~np.isnan(column)))[:_MOST]
        discrete = isinstance(attribute, Categorical | Binary)
        kind = ExtraTreesClassifier if discrete else ExtraTreesRegressor
        forest = kind(200, min_samples_leaf=2, random_state=seed % 2**32).fit(rows[known], column[known])
        values = np.asarray(forest.predict(rows[held]), dtype=np.float64)
        chances = None
        if isinstance(attribute, Binary):
            place = list(forest.classes_).index(1.0) if 1.0 in forest.classes_ else None
            chances = np.zeros(len(held)) if place is None else forest.predict_proba(rows[held])[:, place]
        found.append((values, chances))
    return found
