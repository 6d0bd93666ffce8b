"""The graphs of one run of the question "predict", as those take them who train and judge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from gspn.graphs import GraphDataset
from gspn.targets import Target


@dataclass(frozen=True)
class Parts:
    """The graphs of one run, and which of the training graphs have labels; `test` is None during selection."""

    target: Target
    train: GraphDataset
    labelled: Tensor
    validation: GraphDataset
    test: GraphDataset | None

    def judged(self) -> Iterator[tuple[str, GraphDataset]]:
        yield "validation", self.validation
        if self.test is not None:
            yield "test", self.test


def labels_of(graphs: GraphDataset) -> Tensor:
    assert graphs.y is not None
    return graphs.y[graphs.positions]
