"""The control for molecules in motion: what each kind of atom has, sorted, so that the order of atoms does not matter.

With sorted distances as attributes and a kernel machine this is the usual simple way to learn energies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gspn.attributes import Categorical, Continuous, FloatArray, Schema
from gspn.baselines.on_rows import OnRows, standardised
from gspn.errors import InputError
from gspn.graphs import GraphDataset
from gspn.targets import Target


@dataclass(eq=False, repr=False)
class SortedAttributes(OnRows):
    """Continuous attributes of the vertices of each category, sorted one by one; graphs must consist of the same.

    Parameters
    ----------
    heads, monitor, refit, judged_by:
        As for `PooledAttributes`.
    """

    schema: Schema
    target: Target
    heads: Sequence[str] | str = "kernel ridge"
    monitor: str = "loss"
    refit: bool = False
    judged_by: str = "validation"
    seed: int = 0

    def _learn_rows(self, dataset: GraphDataset) -> FloatArray:
        kinds = [attribute for attribute in self.schema if isinstance(attribute, Categorical)]
        if len(kinds) != 1 or not any(isinstance(attribute, Continuous) for attribute in self.schema):
            raise InputError("sorted attributes need one categorical attribute, beside continuous ones")
        self.kind_ = self.schema.index(kinds[0].name)
        self.columns_ = [place for place, one in enumerate(self.schema) if isinstance(one, Continuous)]
        codes = dataset[[0]].entries()[:, self.kind_].nan_to_num(-1.0).long().numpy()
        self.composition_ = np.sort(codes)
        rows = self._sorted(dataset)
        self.centre_, self.scale_ = rows.mean(0), rows.std(0)
        return standardised(rows, self.centre_, self.scale_)

    def _rows(self, dataset: GraphDataset) -> FloatArray:
        return standardised(self._sorted(dataset), self.centre_, self.scale_)

    def _sorted(self, dataset: GraphDataset) -> FloatArray:
        size = len(self.composition_)
        if not bool((dataset.num_vertices_per_graph() == size).all()):
            raise InputError(f"sorted attributes need graphs of the same vertices; the first one has {size}")
        entries = dataset.entries().double().numpy().reshape(len(dataset), size, -1)
        codes = np.nan_to_num(entries[:, :, self.kind_], nan=-1.0).astype(np.int64)
        order = np.argsort(codes, axis=1, kind="stable")
        if (np.take_along_axis(codes, order, 1) != self.composition_).any() or (self.composition_ < 0).any():
            raise InputError("sorted attributes need graphs with the same number of vertices of each category")
        values = np.take_along_axis(entries[:, :, self.columns_], order[:, :, None], 1)
        if np.isnan(values).any():
            raise InputError("sorted attributes need continuous attributes without gaps")
        parts = [
            np.sort(values[:, self.composition_ == code], axis=1).reshape(len(dataset), -1)
            for code in np.unique(self.composition_)
        ]
        return np.concatenate(parts, axis=1)
