"""The graphs of an experiment: a dataset by name, how many of its graphs, and how they are divided."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from gspn import datasets
from gspn.attributes import Binary, Categorical, Schema
from gspn.errors import InputError
from gspn.experiments.toml_tables import Settings, Share, TomlTable
from gspn.graphs import GraphDataset
from gspn.graphs.splits import Fold, holdout, kfold
from gspn.random_streams import keyed_generator
from gspn.targets import target_schema

_LABELS = 1
"""Names the stream of random numbers that chooses which training graphs keep their labels."""


class Source(TomlTable):
    """A dataset of an experiment, which is a column of its table.

    graphs:
        Use so many graphs, spread evenly over the dataset (None: all).
    folds:
        Numbers of the folds, published or drawn, that are run (None: all of them).
    targets:
        Names of those targets that are predicted, as several (None: all, as the dataset has them).
    labels:
        How many training graphs have labels that may be learned from, or which share of them (None: all).
    """

    name: str
    options: Settings = Field(default={})
    graphs: int | None = Field(default=None, ge=1)
    folds: Sequence[Annotated[int, Field(ge=0)]] | None = Field(default=None, min_length=1)
    labels: Annotated[int, Field(ge=1)] | Share | None = None
    targets: Sequence[str] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if reserved := sorted({*self.options} & {"name", "progress"}):
            raise InputError(f"{reserved[0]} is not an option of the dataset")
        if len({*(self.folds or ())}) < len(self.folds or ()):
            raise InputError(f"folds must be different numbers, got {list(self.folds or ())}")
        return self

    def load(self) -> GraphDataset:
        return _loaded(*self._asked())

    def spec(self) -> dict[str, Any]:
        """What decides the numbers of its runs; which folds are run does not."""
        chosen = {} if self.targets is None else {"targets": list(self.targets)}
        return {"name": self.name, "options": dict(self.options), "graphs": self.graphs, "labels": self.labels} | chosen

    def digest(self) -> str:
        """A fingerprint of the graphs and of what their columns and targets mean."""
        return _digest(*self._asked())

    def _asked(self) -> tuple[str, str, int | None, tuple[str, ...] | None]:
        targets = None if self.targets is None else tuple(self.targets)
        return self.name, json.dumps(self.options, sort_keys=True), self.graphs, targets


@lru_cache(maxsize=2)  # the pieces of work of one dataset follow each other
def _loaded(name: str, options: str, graphs: int | None, targets: tuple[str, ...] | None) -> GraphDataset:
    dataset = datasets.load(name, progress=False, **json.loads(options))
    if targets is not None:
        dataset = _with(dataset, targets)
    if graphs is None or graphs >= len(dataset):
        return dataset
    return dataset[torch.linspace(0, len(dataset) - 1, graphs).round().long()]


def _with(dataset: GraphDataset, targets: tuple[str, ...]) -> GraphDataset:
    """The dataset with these targets alone; one of them is still several, as measures of several have it."""
    if dataset.target is None or dataset.y is None:
        raise InputError(f"there is no target {targets[0]!r}, nor any other")
    known = target_schema(dataset.target)
    places = [known.index(name) for name in targets]
    y = dataset.y.reshape(len(dataset.y), -1)[:, places]
    return replace(dataset, y=y, target=Schema([known[place] for place in places]))


@lru_cache(maxsize=16)
def _digest(name: str, options: str, graphs: int | None, targets: tuple[str, ...] | None) -> str:
    dataset = _loaded(name, options, graphs, targets)
    meaning = f"{dataset.digest()} {dataset.schema!r} {dataset.target!r}"
    return hashlib.blake2b(meaning.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Division:
    """How the graphs are divided: one of the published folds, one of k folds that are drawn, or a drawn hold-out."""

    published: int | None = None
    test: float = 0.1
    validation: float = 0.1
    seed: int = 0
    drawn: tuple[int, int] | None = None
    """The number of a fold, and of how many."""

    @property
    def fold(self) -> int | None:
        """Its number among several."""
        return self.published if self.drawn is None else self.drawn[0]

    def of(self, dataset: GraphDataset) -> Fold:
        if self.drawn is not None:
            number, k = self.drawn
            return kfold(len(dataset), k, validation=self.validation, seed=self.seed, strata=_classes(dataset))[number]
        if self.published is None:
            return holdout(len(dataset), test=self.test, validation=self.validation, seed=self.seed)
        if self.published >= len(dataset.splits):
            raise InputError(f"there is no published fold {self.published}, only {len(dataset.splits)} of them")
        return dataset.splits[self.published]

    def spec(self) -> dict[str, Any]:
        """What makes it this division."""
        if self.drawn is not None:
            return {"fold": self.drawn[0], "of": self.drawn[1], "validation": self.validation, "seed": self.seed}
        if self.published is not None:
            # The seed decides which graphs have labels, where not all have.
            return {"published": self.published} | ({"seed": self.seed} if self.seed else {})
        return {"test": self.test, "validation": self.validation, "seed": self.seed}


def _classes(dataset: GraphDataset) -> Tensor | None:
    """[G] the class of each graph, where all have one: every fold then has its share of each."""
    if dataset.y is None or dataset.target_level != "graph" or not isinstance(dataset.target, Categorical | Binary):
        return None
    y = dataset.y[dataset.positions].flatten()
    return None if bool(torch.isnan(y.double()).any()) else y


def labelled(train: Tensor, labels: float | None, seed: int) -> Tensor:
    """Which of the training graphs keep their labels, by number or (a float) by share: the same for all models."""
    number = max(1, round(labels * len(train))) if isinstance(labels, float) else labels
    if number is None or number >= len(train):
        return train
    chosen = torch.randperm(len(train), generator=keyed_generator(seed, _LABELS))[:number]
    return train[chosen.sort().values]


def fold_digest(fold: Fold) -> str:
    content = hashlib.blake2b(digest_size=8)
    for part in (fold.train, fold.validation, fold.test):
        content.update(len(part).to_bytes(8, "little") + part.long().numpy().tobytes())
    return content.hexdigest()
