"""The controls that chemists have: Morgan fingerprints and RDKit's descriptors of molecules, with a forest.

Both are computed from molecules rebuilt from graphs, so they know what the other models are given, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gspn.arguments import check_choice
from gspn.attributes import FloatArray, Schema
from gspn.baselines.on_rows import OnRows, standardised
from gspn.convert.rebuilding import rebuild_molecule
from gspn.errors import InputError
from gspn.graphs import GraphDataset
from gspn.targets import Target

COLUMNS = ("fingerprints", "descriptors", "both")

_RADIUS, _BITS = 2, 2_048
_LARGEST = 1e6
"""Of a descriptor: some grow beyond all bounds on large molecules."""


def fingerprints(molecules: Sequence[Any]) -> FloatArray:
    """[n, 2048] counts of circular neighbourhoods of radius 2, folded (Morgan)."""
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=_RADIUS, fpSize=_BITS)
    rows = [generator.GetCountFingerprintAsNumPy(molecule) for molecule in molecules]
    return np.array(rows, dtype=np.float64).reshape(-1, _BITS)


def descriptors(molecules: Sequence[Any]) -> tuple[list[str], FloatArray]:
    """Names, and [n, D] values, of RDKit's descriptors; 0 where one is not defined."""
    from rdkit import rdBase
    from rdkit.Chem import Descriptors

    calculate: Any = Descriptors.CalcMolDescriptors
    names = [name for name, _ in Descriptors.descList]
    rows = np.zeros((len(molecules), len(names)))
    with rdBase.BlockLogs():
        for row, molecule in zip(rows, molecules, strict=True):
            found = calculate(molecule, missingVal=0.0, silent=True)
            row[:] = [found[name] for name in names]
    return names, np.clip(np.nan_to_num(rows, posinf=_LARGEST, neginf=-_LARGEST), -_LARGEST, _LARGEST)


@dataclass(eq=False, repr=False)
class MoleculeForest(OnRows):
    """Fingerprints, descriptors or both of molecules, with a forest (or other `heads`).

    Graphs are molecules as `from_smiles` makes them; stereochemistry is not seen.

    Parameters
    ----------
    columns:
        "fingerprints", "descriptors" or "both".
    heads, monitor, refit, judged_by:
        As for `PooledAttributes`.
    """

    schema: Schema
    target: Target
    columns: str = "descriptors"
    heads: Sequence[str] | str = "extra trees"
    monitor: str = "loss"
    refit: bool = False
    judged_by: str = "validation"
    seed: int = 0

    def _learn_rows(self, dataset: GraphDataset) -> FloatArray:
        check_choice("columns", self.columns, COLUMNS)
        for attribute, column in zip(self.schema, dataset.entries().unbind(1), strict=True):
            if column.isnan().all():
                raise InputError(
                    f"attribute '{attribute.name}' is missing at every vertex; nothing can be learned of it"
                )
        rows = self._computed(dataset)
        self.centre_, self.scale_ = rows.mean(0), rows.std(0)
        return standardised(rows, self.centre_, self.scale_)

    def _rows(self, dataset: GraphDataset) -> FloatArray:
        return standardised(self._computed(dataset), self.centre_, self.scale_)

    def _computed(self, dataset: GraphDataset) -> FloatArray:
        molecules = [rebuild_molecule(graph, self.schema) for graph in dataset]
        parts = [] if self.columns == "descriptors" else [fingerprints(molecules)]
        parts += [] if self.columns == "fingerprints" else [descriptors(molecules)[1]]
        return np.concatenate(parts, axis=1)
