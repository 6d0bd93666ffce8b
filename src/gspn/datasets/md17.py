"""Reader of the MD17 trajectories: every frame of a molecule's movement is a graph, its energy the target.

Atoms closer than 5 Å are joined in both directions, without self-loops. Positions (x, y, z, in Å) and forces (fx, fy,
fz, in kcal/mol/Å) are six continuous attributes, the chemical element is a categorical one; the energy is in kcal/mol.
Units are those of the files. There are no published folds, so none are given.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gspn.arguments import check_choice
from gspn.attributes import Attribute, Categorical, Continuous, Schema
from gspn.convert.positions import sorted_distances
from gspn.datasets.archives import Files
from gspn.datasets.family import Family, Found, RawSource, Sources, check_limit
from gspn.datasets.raw_files import RawFile
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.pack import pointer

SITE = "http://www.quantum-machine.org/gdml/data/npz"
FILES = {
    "benzene": "md17_benzene2017.npz",
    "ethanol": "md17_ethanol.npz",
    "malonaldehyde": "md17_malonaldehyde.npz",
    "naphthalene": "md17_naphthalene.npz",
    "salicylic_acid": "md17_salicylic.npz",
    "toluene": "md17_toluene.npz",
    "uracil": "md17_uracil.npz",
}
"""The molecules, and what the site calls their files"""

CUTOFF = 5.0
_SYMBOLS = {1: "H", 6: "C", 7: "N", 8: "O"}
_FRAMES_AT_ONCE = 4096
_NEAREST = 20
"""Atoms whose distances are attributes, at most; the molecules have 9 to 21 atoms"""


def _options(*, attributes: str = "both", limit: int | None = None) -> dict[str, Any]:
    """attributes: "element", "continuous" (position and force), "both", element first, or "invariant" (element, and
    distances to the other atoms, at most the 20 nearest, ascending); limit: the first frames only.

    The paper uses "element" for scarce supervision and "continuous" for missing data; "both", the default, leaves
    nothing out but what "invariant" has: numbers that stay the same when a molecule is turned.
    """
    check_choice("attributes", attributes, ("element", "continuous", "both", "invariant"))
    return {"attributes": attributes, "limit": check_limit(limit)}


def _sources(name: str) -> Sources:
    return {"frames": RawSource((RawFile(f"md17/{name}.npz", f"{SITE}/{FILES[name]}"),))}


def _read(name: str, found: Found, options: dict[str, Any], progress: bool) -> GraphDataset:
    path = found["frames"]
    assert path is not None
    numbers, positions, forces, energies = _load(path, options["limit"])
    schema, x = _attributes(path, numbers, positions, forces, options["attributes"])
    source, degrees = _join(positions)
    frames, atoms = positions.shape[:2]
    return GraphDataset(
        schema=schema,
        x=torch.from_numpy(x),
        source=torch.from_numpy(source),
        row_ptr=torch.from_numpy(pointer(degrees.reshape(-1))),
        vertex_ptr=torch.arange(frames + 1) * atoms,
        positions=torch.arange(frames),
        y=torch.from_numpy(energies),
        target=Continuous("energy"),
        target_level="graph",
    )


FAMILY = Family(version=1, options=_options, sources=_sources, read=_read)


def _load(path: Path, limit: int | None) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Atomic numbers [n], positions and forces [T, n, 3], energies [T]."""
    with Files(path) as files:
        z, R, F, E = (_array(files, key) for key in ("z", "R", "F", "E"))
    E = E.reshape(-1)
    if z.ndim != 1 or R.shape != (len(E), len(z), 3) or F.shape != R.shape or not len(E):
        raise InputError(
            f"{path}: shapes do not belong together: z {z.shape}, R {R.shape}, F {F.shape}, {len(E)} energies"
        )
    R, F, E = R[:limit], F[:limit], E[:limit]
    for key, array in (("R", R), ("F", F), ("E", E)):
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise InputError(f"{path}: {key} must hold finite real numbers")
    return z, R, F, E.astype(np.float64)


def _array(files: Files, key: str) -> NDArray[Any]:
    member = f"{key}.npy"
    with files.open(member) as stream:
        try:
            array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        except ValueError as error:
            raise InputError(f"{files.describe(member)} is no plain array: {error}") from error
    return array


def _attributes(
    path: Path, numbers: NDArray[Any], positions: NDArray[Any], forces: NDArray[Any], which: str
) -> tuple[Schema, NDArray[Any]]:
    attributes: list[Attribute] = []
    parts: list[NDArray[Any]] = []
    frames, atoms = positions.shape[:2]
    if which != "continuous":
        present, codes = np.unique(numbers, return_inverse=True)
        unknown = [int(number) for number in present if int(number) not in _SYMBOLS]
        if unknown:
            raise InputError(f"{path}: z holds the atomic number {unknown[0]}; MD17 molecules are of H, C, N and O")
        attributes.append(Categorical("element", [_SYMBOLS[int(number)] for number in present]))
        parts.append(np.broadcast_to(codes.astype(np.float32)[None, :, None], (frames, atoms, 1)))
    if which == "invariant":
        distances = sorted_distances(positions, _NEAREST)
        attributes += [Continuous(f"distance_{rank}") for rank in range(1, distances.shape[2] + 1)]
        parts.append(distances.astype(np.float32))
    elif which != "element":
        attributes += [Continuous(name) for name in ("x", "y", "z", "fx", "fy", "fz")]
        parts += [positions, forces]
    x = np.concatenate(parts, axis=2).reshape(frames * atoms, -1)
    return Schema(attributes), x.astype(np.float64 if x.dtype.itemsize > 4 else np.float32, copy=False)


def _join(positions: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The senders [ΣE], sorted by graph and receiver as GraphDataset wants them, and incoming edges [T, n]."""
    atoms = positions.shape[1]
    senders, degrees = [], []
    others = ~np.eye(atoms, dtype=bool)
    for start in range(0, len(positions), _FRAMES_AT_ONCE):
        frames = positions[start : start + _FRAMES_AT_ONCE].astype(np.float64)
        squared = ((frames[:, :, None] - frames[:, None]) ** 2).sum(-1)
        close = (squared < CUTOFF**2) & others
        senders.append((np.flatnonzero(close) % atoms).astype(np.int32))
        degrees.append(close.sum(2))
    return np.concatenate(senders), np.concatenate(degrees)
