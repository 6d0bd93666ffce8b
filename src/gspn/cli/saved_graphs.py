"""Saved PyG data (.pt) without running anything that such a file may contain.

What `torch.save` writes is a pickle. Only tensors, plain Python values and PyG's own `Data` are let in; whatever else a
file names is refused before it could do anything.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gspn.errors import InputError


def read_saved(path: Path) -> list[Any]:
    """The graphs in a file: a Data, a list of them, or what an InMemoryDataset saves (data and slices)."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import EdgeStorage, GlobalStorage, NodeStorage

    allowed = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage, NodeStorage, EdgeStorage]
    try:
        with torch.serialization.safe_globals(allowed):
            found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        what = f"it holds {named[1]}" if named else "it holds more than tensors, plain values and Data"
        raise InputError(
            f"{path} is refused: {what}, and loading that could run code. Save a list of plain Data instead, "
            "torch.save(list(dataset), path); a batch as batch.to_data_list()"
        ) from None
    except Exception as error:  # on a damaged file torch raises whatever its parts happen to raise
        raise InputError(f"{path} cannot be read as saved PyG data: {' '.join(str(error).split())}") from error
    graphs = _listed(found, Data)
    if graphs is None:
        raise InputError(f"{path} holds a {type(found).__name__}; a Data or a list of Data is needed")
    if not graphs:
        raise InputError(f"{path} holds an empty list, so there is no graph")
    return graphs


def _listed(found: Any, Data: Any) -> list[Any] | None:
    if isinstance(found, Data):
        return [found]
    if isinstance(found, Sequence) and all(isinstance(one, Data) for one in found):
        return list(found)
    collated = isinstance(found, tuple) and len(found) in (2, 3) and isinstance(found[1], dict)
    if collated and isinstance(found[0], Data | dict):
        return _separated(found[0] if isinstance(found[0], Data) else Data.from_dict(found[0]), found[1])
    return None


def _separated(data: Any, slices: dict[str, Any]) -> list[Any]:
    """One Data a graph out of the flat one that an InMemoryDataset keeps."""
    from torch_geometric.data.separate import separate

    count = len(next(iter(slices.values()))) - 1
    return [separate(type(data), data, i, slices, decrement=False) for i in range(count)]
