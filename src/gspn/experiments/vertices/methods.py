"""The methods that are compared, by name: each learns from a task and gives probabilities for all of its vertices.

A method is a function (task, seed, *, settings…) → [N, K]; to add one, write it and put it into METHODS. All see the
same: attributes with gaps, edges, the labels to learn from (which are evidence at prediction, too), and those to choose
by. Those by gradient descent are in `networks`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch_geometric.nn.models import CorrectAndSmooth, LabelPropagation

from gspn.attributes import Categorical
from gspn.baselines.features import Features
from gspn.errors import InputError
from gspn.graphs import GraphDataset
from gspn.models.supervised import SupervisedGSPN

Probabilities = NDArray[np.float64]

_PENALTIES = (0.01, 0.1, 1.0, 10.0)


@dataclass(frozen=True, eq=False)
class VertexTask:
    """What is given: graphs with gaps and without labels, the labels [N] and who may see which of them."""

    dataset: GraphDataset
    labels: Tensor
    """[N] codes, NaN where nobody knows; who predicts looks at those of `train` and `validation` alone"""
    target: Categorical
    train: Tensor
    validation: Tensor
    new_graphs: bool = False
    """Whether what is predicted are vertices of graphs that have no labels"""

    @property
    def classes(self) -> int:
        return len(self.target.categories)

    @property
    def known(self) -> Tensor:
        """[N] the labels that are evidence where something is predicted."""
        nobody = torch.zeros_like(self.train) if self.new_graphs else self.train
        return self.labels.masked_fill(~nobody, torch.nan)

    @cached_property
    def edges(self) -> Tensor:
        """[2, E]"""
        batch = self.dataset.batch(torch.arange(len(self.dataset)))
        return torch.stack([batch.source.long(), batch.target.long()])

    @cached_property
    def columns(self) -> tuple[Tensor, Tensor]:
        """Attributes with gaps filled by means [N, w], and gap indicators [N, d] of columns that have any."""
        entries = self.dataset.entries()
        features, missing = Features.of(self.dataset.schema, entries), entries.isnan()
        return features(entries), missing[:, missing.any(0)].float()

    def mean(self, columns: Tensor) -> Tensor:
        """[N, w] over incoming edges; 0 without any."""
        total = torch.zeros_like(columns).index_add(0, self.edges[1], columns[self.edges[0]])
        count = torch.bincount(self.edges[1], minlength=len(columns)).clamp_min(1)
        return total / count[:, None]

    @cached_property
    def table(self) -> NDArray[np.float32]:
        """[N, ·] own attributes, gaps, one- and two-hop means, frequencies of neighbours' known labels."""
        filled, gaps = self.columns
        near = self.mean(filled)
        known = self.known
        shown = torch.zeros(len(known), self.classes)
        rows = (~known.isnan()).nonzero().squeeze(1)
        shown[rows, known[rows].long()] = 1.0
        source, target = self.edges
        others = source != target
        total = torch.zeros_like(shown).index_add(0, target[others], shown[source[others]])
        share = total / total.sum(1, keepdim=True).clamp_min(1.0)
        found: NDArray[np.float32] = torch.cat([filled, gaps, near, self.mean(near), share], dim=1).numpy()
        return found


def frequencies(task: VertexTask, seed: int) -> Probabilities:
    counts = np.bincount(task.labels[task.train].long().numpy(), minlength=task.classes) + 1.0
    return np.repeat((counts / counts.sum())[None], len(task.labels), 0)


def logistic(task: VertexTask, seed: int) -> Probabilities:
    """The penalty is that with the least log-loss on the validation labels."""
    best, least = None, np.inf
    y = task.labels.numpy()
    for penalty in _PENALTIES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=penalty, max_iter=300).fit(task.table[task.train], y[task.train])
        found = _spread(model.predict_proba(task.table), model.classes_, task.classes)
        rows = np.nonzero(task.validation.numpy())[0]
        loss = float(-np.log(np.clip(found[rows, y[rows].astype(int)], 1e-9, None)).mean()) if len(rows) else 0.0
        if loss < least:
            best, least = found, loss
    assert best is not None
    return best


def boosting(task: VertexTask, seed: int) -> Probabilities:
    model = HistGradientBoostingClassifier(random_state=seed).fit(
        task.table[task.train], task.labels[task.train].numpy()
    )
    return _spread(model.predict_proba(task.table), model.classes_, task.classes)


def label_propagation(task: VertexTask, seed: int) -> Probabilities:
    known = task.known
    mask = ~known.isnan()
    found = LabelPropagation(num_layers=50, alpha=0.9)(known.nan_to_num(0.0).long(), task.edges, mask=mask)
    found = torch.nn.functional.pad(found, (0, task.classes - found.shape[1])).double().numpy()
    total = found.sum(1, keepdims=True)
    return np.where(total > 1e-9, found / np.maximum(total, 1e-9), frequencies(task, seed))


def correct_and_smooth(task: VertexTask, seed: int) -> Probabilities:
    found = torch.from_numpy(logistic(task, seed)).float()
    known = task.known
    mask = ~known.isnan()
    if not mask.any():
        return np.asarray(found.double().numpy())
    post = CorrectAndSmooth(50, 0.8, 50, 0.8, autoscale=True)
    y = torch.nn.functional.one_hot(known[mask].long(), task.classes).float()
    soft = post.smooth(post.correct(found, y, mask, task.edges), y, mask, task.edges).clamp_min(0.0).double().numpy()
    return np.asarray(soft / np.maximum(soft.sum(1, keepdims=True), 1e-9))


def gspn_evidence(task: VertexTask, seed: int) -> Probabilities:
    """The defaults; labels of others are evidence."""
    return _gspn(task, seed, labels=None)


def gspn_targets(task: VertexTask, seed: int) -> Probabilities:
    """The defaults where labels are targets alone."""
    return _gspn(task, seed, labels="targets")


def _gspn(task: VertexTask, seed: int, labels: str | None) -> Probabilities:
    model = SupervisedGSPN(task.dataset.schema, task.target, target_level="vertex", labels=labels, seed=seed)
    carried = task.dataset.with_targets(task.known[:, None], "vertex")
    chosen = task.labels.masked_fill(~task.validation, torch.nan)[:, None]
    learned = task.labels.masked_fill(~task.train, torch.nan)[:, None]
    model.fit(task.dataset, learned, validation=(carried, chosen), progress=False, keep_scores=False)
    found = model.predict_proba(carried)
    return np.concatenate(found) if isinstance(found, list) else found


def _spread(found: NDArray[np.float64], classes: NDArray[Any], number: int) -> Probabilities:
    """Probabilities of all classes; some may not have been in the training labels."""
    whole = np.zeros((len(found), number))
    whole[:, classes.astype(int)] = found
    return whole


METHODS: Mapping[str, Callable[..., Probabilities]] = {
    "frequencies": frequencies,
    "logistic regression": logistic,
    "gradient boosting": boosting,
    "label propagation": label_propagation,
    "correct and smooth": correct_and_smooth,
    "GSPN": gspn_evidence,
    "GSPN, targets": gspn_targets,
}


def method_named(name: str) -> Callable[..., Probabilities]:
    from gspn.experiments.vertices.networks import NETWORKS

    known = {**METHODS, **NETWORKS}
    if name not in known:
        raise InputError(f"there is no method {name!r}; there are {', '.join(known)}")
    return known[name]


def check_method(name: str, settings: Mapping[str, Any]) -> None:
    """Raise unless there is the method, with these settings."""
    takes = list(inspect.signature(method_named(name)).parameters)[2:]
    unknown = sorted({*settings} - {*takes})
    if unknown:
        raise InputError(f"{name} has no setting {unknown[0]!r}; it has {', '.join(takes) or 'none'}")
