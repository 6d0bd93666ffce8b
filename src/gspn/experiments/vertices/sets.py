"""The sets on which predictions of vertices are measured: attributes, one label a vertex, and how they are divided.

A set is for choosing (defaults may be decided by looking at it) or final (looked at once, at the end); the list was
written down before anything was measured on the final ones. Labels of one set are divided once and for all where a
division is published, otherwise 60/20/20 by seed: vertices of one graph, or whole graphs where what is predicted are
new ones.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import model_validator
from sklearn import datasets as bundled
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from gspn import datasets
from gspn.attributes import Binary, Categorical, Continuous, Count, Schema
from gspn.errors import InputError
from gspn.experiments.sources import Source
from gspn.graphs import GraphDataset
from gspn.graphs.pack import packed
from gspn.random_streams import keyed_uniform

_NEIGHBOURS = 5
_MOST_VERTICES = 6_000
"""Of sets of many graphs"""
_SPLIT = 41
"""Names a stream of random numbers."""


@dataclass(frozen=True, eq=False)
class LabelledGraphs:
    """Graphs without gaps, a label a vertex (NaN: none), which columns are never hidden, the published parts."""

    dataset: GraphDataset
    labels: Tensor
    """[N] codes"""
    target: Categorical
    visible: tuple[int, ...] = ()
    published: tuple[Tensor, Tensor, Tensor] | None = None
    new_graphs: bool = False


@dataclass(frozen=True)
class VertexSet:
    """How a set is made, of which kind it is, and whether it is a final one."""

    kind: str
    make: Callable[[], LabelledGraphs]
    final: bool = False


class VertexSource(Source):
    """A set of this list as a column of an experiment."""

    @model_validator(mode="after")
    def _check_set(self) -> Self:
        if self.name not in SETS:
            raise InputError(f"there is no set {self.name!r}; there are {', '.join(SETS)}")
        if self.model_fields_set > {"name"}:
            raise InputError(f"the set {self.name!r} has no options: what it consists of is fixed")
        return self

    def load(self) -> GraphDataset:
        return load(self.name).dataset

    def digest(self) -> str:
        found = load(self.name)
        parts = b"" if found.published is None else b"".join(part.numpy().tobytes() for part in found.published)
        meaning = (
            f"{found.dataset.digest()} {found.dataset.schema!r} {found.target!r} {found.visible} {found.new_graphs}"
        )
        content = meaning.encode() + found.labels.numpy().tobytes() + parts
        return hashlib.blake2b(content, digest_size=16).hexdigest()


@lru_cache(maxsize=2)
def load(name: str) -> LabelledGraphs:
    return SETS[name].make()


def parts(found: LabelledGraphs, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """[N] each, True for the vertices to learn from, to choose by and to be predicted."""
    if found.published is not None:
        return found.published
    graph, vertex = found.dataset.vertex_keys()
    drawn = keyed_uniform(seed, _SPLIT, graph, 0 if found.new_graphs else vertex)
    known = ~found.labels.isnan()
    return (drawn < 0.6) & known, (drawn >= 0.6) & (drawn < 0.8) & known, (drawn >= 0.8) & known


# ---- Where they come from


def _citations(name: str, published: bool) -> LabelledGraphs:
    root = os.environ.get("GSPN_DATA_ROOT")
    path = Path(root or "") / "citations" / f"{name}.npz"
    if root is None or not path.is_file():
        raise InputError(f"there is no {path.name} in the folder citations of GSPN_DATA_ROOT")
    with np.load(path) as stored:
        words, ptr, edges, label = (stored[key] for key in ("words", "word_ptr", "edges", "label"))
        number, chosen = int(stored["num_words"]), [stored[key] for key in ("train", "validation", "test")]
    x = np.zeros((len(label), number))
    x[np.repeat(np.arange(len(label)), np.diff(ptr)), words.astype(int)] = 1.0
    occurring = x.any(0)
    schema = Schema([Binary(f"word {word}") for word in np.nonzero(occurring)[0]])
    divided = []
    for rows in chosen:
        own = torch.zeros(len(label), dtype=torch.bool)
        own[torch.from_numpy(rows)] = True
        divided.append(own)
    labels = np.where(label < 0, np.nan, label.astype(float))
    found = _one(schema, x[:, occurring], edges.astype(np.int64), labels, int(label.max()) + 1)
    return replace(found, published=(divided[0], divided[1], divided[2])) if published else found


def _near(name: str) -> LabelledGraphs:
    """A table of scikit-learn's: the first half of its columns is never hidden and says who is near."""
    table = getattr(bundled, f"load_{name}")()
    x = np.asarray(table.data, dtype=float)
    x = x[:, x.std(0) > 0]
    visible = x.shape[1] // 2
    own = (x[:, :visible] - x[:, :visible].mean(0)) / x[:, :visible].std(0)
    found = NearestNeighbors(n_neighbors=_NEIGHBOURS).fit(own).kneighbors(return_distance=False)
    edges = np.stack([found.ravel(), np.repeat(np.arange(len(x)), _NEIGHBOURS)])
    schema = Schema([Continuous(f"column {column}") for column in range(x.shape[1])])
    made = _one(schema, x, edges, np.asarray(table.target, dtype=float), len(table.target_names))
    return replace(made, visible=tuple(range(visible)))


def _atoms(name: str, **options: str) -> LabelledGraphs:
    """Which element an atom is, from all else that is known of it and from its neighbours; new molecules."""
    dataset = datasets.load(name, progress=False, **options)
    most = int((dataset.num_vertices_per_graph().cumsum(0) <= _MOST_VERTICES).sum())
    dataset = dataset[torch.arange(most)]
    x, batch = dataset.entries(), dataset.batch(torch.arange(most))
    place, element = next((i, one) for i, one in enumerate(dataset.schema) if isinstance(one, Categorical))
    codes, labels = torch.unique(x[:, place], return_inverse=True)
    others = [i for i in range(len(dataset.schema)) if i != place and len(x[:, i].unique()) > 1]
    schema = Schema([Count("bonds"), *(dataset.schema[i] for i in others)])
    first = torch.cat([torch.zeros(1, dtype=torch.long), dataset.num_vertices_per_graph().cumsum(0)])
    edge_ptr = torch.cat([torch.zeros(1, dtype=torch.long), dataset.num_edges_per_graph().cumsum(0)])
    graph = torch.repeat_interleave(torch.arange(most), edge_ptr.diff())
    edges = torch.stack([batch.source.long(), batch.target.long()]) - first[graph]
    columns = torch.cat([batch.in_degree.double()[:, None], x[:, others]], dim=1)
    target = Categorical("label", [element.categories[int(code)] for code in codes])
    return LabelledGraphs(packed(schema, columns, edges, first, edge_ptr), labels.double(), target, new_graphs=True)


def _generated(homophily: float, seed: int, n: int = 600, classes: int = 4) -> LabelledGraphs:
    """Classes that six attributes tell weakly; a share of all edges is between vertices of the same class."""
    rng = np.random.default_rng(seed)
    label = rng.integers(classes, size=n)
    ends = rng.integers(n, size=(2, 40 * n))
    same = label[ends[0]] == label[ends[1]]
    kept = np.where(same, rng.random(40 * n) < homophily, rng.random(40 * n) < (1 - homophily) / (classes - 1))
    ends = ends[:, kept & (ends[0] != ends[1])][:, : 2 * n]
    means = rng.normal(size=(classes, 5))
    x = np.column_stack([rng.normal(0.6 * means[label], 1.0), rng.random(n) < 0.3 + 0.4 * (label == 0)])
    schema = Schema([*(Continuous(f"column {i}") for i in range(5)), Binary("flag")])
    return _one(schema, x, np.concatenate([ends, ends[::-1]], axis=1), label.astype(float), classes)


def _made_by_network(seed: int, n: int = 600, classes: int = 3) -> LabelledGraphs:
    """Labels that a random convolution of two layers gives to random attributes of a random graph."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(n, size=(2, 2 * n))
    edges = np.concatenate([ends, ends[::-1]], axis=1)
    x = rng.normal(size=(n, 6))
    mixing = np.eye(n)
    np.add.at(mixing, (edges[1], edges[0]), 1.0)
    mixing /= mixing.sum(1, keepdims=True)
    hidden = np.maximum(mixing @ x @ rng.normal(size=(6, 16)), 0.0)
    scores = mixing @ hidden @ rng.normal(size=(16, classes))
    label = (scores - scores.mean(0)).argmax(1).astype(float)
    return _one(Schema([Continuous(f"column {i}") for i in range(6)]), x, edges, label, classes)


def _one(
    schema: Schema, x: NDArray[np.float64], edges: NDArray[np.int64], label: NDArray[np.float64], k: int
) -> LabelledGraphs:
    edge_index = torch.from_numpy(np.ascontiguousarray(edges, dtype=np.int64))
    dataset = packed(
        schema, torch.from_numpy(x), edge_index, torch.tensor([0, len(x)]), torch.tensor([0, edges.shape[1]])
    )
    return LabelledGraphs(
        dataset, torch.from_numpy(label), Categorical("label", [f"class {code}" for code in range(k)])
    )


SETS: Mapping[str, VertexSet] = {
    "homophily": VertexSet("generated", lambda: _generated(0.85, 1)),
    "heterophily": VertexSet("generated", lambda: _generated(0.05, 2)),
    "by-network": VertexSet("generated", lambda: _made_by_network(3)),
    "breast-cancer": VertexSet("table, near", lambda: _near("breast_cancer")),
    "ESOL": VertexSet("atoms", lambda: _atoms("ESOL", features="default")),
    "cora": VertexSet("citations", lambda: _citations("cora", published=False)),
    "homophily-2": VertexSet("generated", lambda: _generated(0.7, 11), final=True),
    "heterophily-2": VertexSet("generated", lambda: _generated(0.1, 12), final=True),
    "by-network-2": VertexSet("generated", lambda: _made_by_network(13), final=True),
    "wine": VertexSet("table, near", lambda: _near("wine"), final=True),
    "digits": VertexSet("table, near", lambda: _near("digits"), final=True),
    "NCI1": VertexSet("atoms", lambda: _atoms("NCI1"), final=True),
    "citeseer": VertexSet("citations", lambda: _citations("citeseer", published=False), final=True),
    "cora-public": VertexSet("citations", lambda: _citations("cora", published=True), final=True),
    "citeseer-public": VertexSet("citations", lambda: _citations("citeseer", published=True), final=True),
}
"""All sets by name, those for choosing first; every kind is in both parts."""
