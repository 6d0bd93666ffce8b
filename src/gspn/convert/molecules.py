"""Molecules as graphs: atoms are vertices, bonds are edges, read by RDKit from SMILES and SD files.

Here belong the two ways in, targets and names of molecules, and the spreading of the work over processes. Where the
texts come from is in `gspn.convert.molecule_files`, what RDKit computes for an atom in `gspn.convert.atoms`. Named
datasets belong to `gspn.datasets`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from gspn.attributes import Attribute, Categorical, Schema
from gspn.columns import is_missing, shorten, tensor_to_array
from gspn.convert.atoms import (
    BOND_TYPES,
    DEFAULT_FEATURES,
    DEFAULT_SCHEMA,
    FEATURES,
    OGB_SCHEMA,
    Chunk,
    Recipe,
    choose_features,
    convert_chunk,
    import_rdkit,
)
from gspn.convert.molecule_files import MoleculeRecords, read_sdf, read_smiles_source
from gspn.convert.values import encode_target
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset
from gspn.graphs.pack import packed, pointer

__all__ = ["BOND_TYPES", "DEFAULT_FEATURES", "DEFAULT_SCHEMA", "FEATURES", "OGB_SCHEMA", "from_sdf", "from_smiles"]

_log = logging.getLogger(__name__)

_CHUNK = 500
# Below this many molecules, starting processes takes longer than reading them.
_WORTH_PROCESSES = 5_000
_SHOWN = 5
_NO_VALUE = {"", "na", "n/a", "nan", "null", "none"}
_TRUTH = {"true": True, "false": False}

T = TypeVar("T")
R = TypeVar("R")


def from_smiles(
    source: Any,
    *,
    features: str | Sequence[str] = "default",
    y: Any = None,
    target: Attribute | Schema | None = None,
    smiles: str = "smiles",
    names: str | Sequence[Any] | None = None,
    on_error: Literal["skip", "raise"] = "skip",
    check_valence: bool = True,
    hydrogens: bool = False,
    processes: int | None = None,
    progress: bool = True,
) -> GraphDataset:
    """Molecules written as SMILES.

    Vertices are the atoms in the order of the SMILES; edges are the bonds, in both directions, with their type as edge
    type (`BOND_TYPES`: single 0, double 1, triple 2, aromatic 3, all others 4).

    source: a list or Series of SMILES; a DataFrame or a .csv or .tsv file with the column `smiles`; or a .smi, .smiles
        or .txt file with a SMILES and possibly a name a line. Files may be gzipped.
    features: "default", "ogb" or names out of `FEATURES`. The schema depends on this choice alone, never on the
        molecules, so a model can be asked about any molecule later.

        - default: element (common ones, else "other"), formal_charge (-3 … 3, else "other"), hybridisation, aromatic,
          hydrogens (how many are bound, drawn as vertices or not), partial_charge (Gasteiger; missing where RDKit has
          no parameters), chirality (none, R, S, other), in_ring, degree (number of neighbours in the graph). By name
          there are also radical_electrons, valence, isotope (0 = the natural mixture).
        - ogb: the nine features of the Open Graph Benchmark with its integer codes; "misc" is what its lists lack.
    y: targets, one per molecule. For a source with columns, one name or a list of names; else values: [n], [n, T],
        a mapping of names to columns, a DataFrame. They are people's values (the target encodes them); None, NaN and
        in files empty cells, NA, N/A, NaN, null and None are missing labels.
    target: what y means, an attribute or for several targets a schema; inferred and logged if not given.
    names: names of the molecules, a column or values; None takes those of the file.
    on_error: a SMILES that cannot be read, or has no atoms, is left out together with its target and name and reported
        in a logged warning ("skip"), or is an InputError ("raise"). Both say where it stands and what is wrong.
    check_valence: False keeps molecules with atoms of a valence that RDKit does not permit (aluminium complexes, say).
    hydrogens: whether hydrogens are vertices. If so, those in the SMILES keep their place and the others follow after
        all its atoms; if not, they are counted in their neighbour's attribute (isotopes such as [2H] stay vertices).
    processes: None takes one for fewer than 5,000 molecules and else as many as there are cores. They are started
        afresh (never forked) and do not run the calling script again, so it needs no `if __name__ == "__main__"`.
    progress: show a bar with the remaining time on a terminal.
    """
    import_rdkit()
    recipe = _recipe("smiles", features, hydrogens, check_valence)
    records = read_smiles_source(source, smiles, _columns_asked(y, names))
    return _convert(records, recipe, y, target, names, on_error, processes, progress)


def from_sdf(
    path: str | Path,
    *,
    features: str | Sequence[str] = "default",
    y: Any = None,
    target: Attribute | Schema | None = None,
    names: str | Sequence[Any] | None = None,
    on_error: Literal["skip", "raise"] = "skip",
    check_valence: bool = True,
    hydrogens: bool = False,
    processes: int | None = None,
    progress: bool = True,
) -> GraphDataset:
    """Molecules of an SD file (.sdf, .sd or .mol, also gzipped); atoms keep their order, coordinates are not read.

    With `hydrogens=True` those in the file keep their place and missing ones follow.

    path: the file.
    y: SD properties that are targets, by name, or values as for `from_smiles`.
    names: an SD property with the molecules' names; None takes the titles of the records.
    features, target, on_error, check_valence, hydrogens, processes, progress: as for `from_smiles`.
    """
    import_rdkit()
    recipe = _recipe("molblock", features, hydrogens, check_valence)
    records = read_sdf(path, _columns_asked(y, names))
    return _convert(records, recipe, y, target, names, on_error, processes, progress)


def _recipe(
    form: Literal["smiles", "molblock"], features: str | Sequence[str], hydrogens: bool, check_valence: bool
) -> Recipe:
    chosen = features if isinstance(features, str) or not isinstance(features, Iterable) else tuple(features)
    choose_features(chosen)  # complains before any work is done
    return Recipe(form, chosen, bool(hydrogens), bool(check_valence))


def _convert(
    records: MoleculeRecords,
    recipe: Recipe,
    y: Any,
    target: Attribute | Schema | None,
    names: str | Sequence[Any] | None,
    on_error: str,
    processes: int | None,
    progress: bool,
) -> GraphDataset:
    count = len(records.texts)
    if not count:
        raise InputError("there are no molecules in the source")
    if on_error not in ("skip", "raise"):
        raise InputError(f"on_error must be 'skip' or 'raise', got {on_error!r}")
    targets, target = _read_targets(y, target, records)
    titles = _read_names(names, records)
    chunks, rejected = _read_molecules(records, recipe, on_error, _num_processes(processes, count), progress)
    kept = np.setdiff1d(np.arange(count), list(rejected))
    if rejected:
        reports = [f"{records.show(row)}: {reason}" for row, reason in list(rejected.items())[:_SHOWN]]
        more = [f"… and {len(rejected) - _SHOWN} more"] if len(rejected) > _SHOWN else []
        listed = "\n  ".join([*reports, *more])
        if not len(kept):
            raise InputError(f"none of the {count} molecules can be read:\n  {listed}")
        _log.warning("%d of %d molecules cannot be read and are left out:\n  %s", len(rejected), count, listed)
    return packed(
        Schema(feature.attribute for feature in choose_features(recipe.features)),
        _join(chunks, "x"),
        _join(chunks, "edges", axis=1),
        pointer(_join(chunks, "num_atoms")),
        pointer(_join(chunks, "num_edges")),
        edge_type=_join(chunks, "bond_types"),
        edge_types=BOND_TYPES,
        y=None if targets is None else targets[kept],
        target_level=None if targets is None else "graph",
        target=target,
        graph_names=None if titles is None else titles[kept],
    )


def _read_molecules(
    records: MoleculeRecords, recipe: Recipe, on_error: str, processes: int, progress: bool
) -> tuple[list[Chunk], dict[int, str]]:
    """All molecules in order, and for the rows that are none the reason."""
    starts = range(0, len(records.texts), _CHUNK)
    parts = (records.texts[start : start + _CHUNK] for start in starts)
    chunks: list[Chunk] = []
    rejected: dict[int, str] = {}
    # disable=None: shown on a terminal only; a log file gets no bar.
    bar = tqdm(
        total=len(records.texts),
        desc="molecules",
        unit="mol",
        disable=None if progress else True,
        dynamic_ncols=True,
    )
    with bar, closing(_map_in_order(partial(convert_chunk, recipe), parts, processes)) as results:
        for start, chunk in zip(starts, results, strict=True):
            rejected |= {start + position: reason for position, reason in chunk.rejected}
            if rejected and on_error == "raise":
                row, reason = next(iter(rejected.items()))
                raise InputError(f"{records.show(row)}: {reason}")
            chunks.append(chunk)
            bar.update(len(chunk.num_atoms) + len(chunk.rejected))
    return chunks, rejected


def _map_in_order(function: Callable[[T], R], parts: Iterable[T], processes: int) -> Generator[R, None, None]:
    """The function's results in the order of the parts, computed by so many processes."""
    if processes == 1:
        yield from map(function, parts)
        return
    # joblib's processes are fresh interpreters, as with "spawn", but do not import the caller's main module.
    from joblib import Parallel, delayed

    stopped = False

    def tasks() -> Iterator[Any]:
        for part in parts:
            if stopped:
                return
            yield delayed(function)(part)

    results = Parallel(n_jobs=processes, return_as="generator", max_nbytes=None)(tasks())
    try:
        for result in results:  # noqa: UP028 (`yield from` would close the generator, and joblib warns then)
            yield result
    finally:
        stopped = True
        for _ in results:  # what has been handed out already is waited for
            pass


def _num_processes(processes: int | None, count: int) -> int:
    if processes is None:
        if count < _WORTH_PROCESSES:
            return 1
        from joblib import cpu_count

        processes = int(cpu_count())
    elif isinstance(processes, bool) or not isinstance(processes, int) or processes < 1:
        raise InputError(f"processes must be None or a whole number from 1 on, got {processes!r}")
    return min(processes, -(-count // _CHUNK))


def _columns_asked(y: Any, names: Any) -> list[str]:
    asked = [y] if isinstance(y, str) else list(y) if _is_names(y) else []
    return list(dict.fromkeys([*asked, *([names] if isinstance(names, str) else [])]))


def _is_names(y: Any) -> bool:
    return isinstance(y, (list, tuple)) and len(y) > 0 and all(isinstance(name, str) for name in y)


def _read_targets(
    y: Any, target: Attribute | Schema | None, records: MoleculeRecords
) -> tuple[NDArray[np.float64] | None, Attribute | Schema | None]:
    """y [n] or [n, T] over all rows of the source, and what it means."""
    if y is None:
        if target is not None:
            raise InputError("target says what y means, but there is no y")
        return None, None
    columns, single = _target_columns(y, target, records)
    for name, column in columns.items():
        if len(column) != len(records.texts):
            raise InputError(f"y ({name}) has {len(column)} values, but there are {len(records.texts)} molecules")
    return encode_target(columns, target, single, "the molecules", records.place)


def _target_columns(y: Any, target: Attribute | Schema | None, records: MoleculeRecords) -> tuple[dict[str, Any], bool]:
    """The values of every target by name, and whether there is just one, which is no table."""
    if isinstance(y, str) or (_is_names(y) and records.has_columns):
        if not records.has_columns:
            raise InputError(f"y={y!r} names a column, but the source has none; give the values")
        columns = {name: records.columns[name] for name in ([y] if isinstance(y, str) else y)}
        if records.raw:
            columns = {name: _read_cells(name, cells, target, records.place) for name, cells in columns.items()}
        return columns, isinstance(y, str)
    if isinstance(y, Mapping) or hasattr(y, "columns"):
        return {name: y[name] for name in y}, False
    values = tensor_to_array(y) if hasattr(y, "detach") else y
    names = target.names if isinstance(target, Schema) else () if target is None else (target.name,)
    if not isinstance(values, np.ndarray) or values.ndim != 2:
        return {names[0] if names else "y": values if hasattr(values, "__len__") else [values]}, True
    names = names or tuple(f"y{i}" for i in range(values.shape[1]))
    if len(names) != values.shape[1]:
        raise InputError(f"y has {values.shape[1]} columns, but the target {len(names)}: {', '.join(names)}")
    return dict(zip(names, values.T, strict=True)), False


def _read_names(names: str | Sequence[Any] | None, records: MoleculeRecords) -> NDArray[Any] | None:
    """Names over all rows as an array of fixed width; an empty one where there is none."""
    if isinstance(names, str) and not records.has_columns:
        raise InputError(f"names={names!r} names a column, but the source has none; give the values")
    found: Any = records.names if names is None else records.columns[names] if isinstance(names, str) else names
    if found is None:
        return None
    listed = ["" if is_missing(name) else str(name) for name in found]
    if len(listed) != len(records.texts):
        raise InputError(f"there are {len(listed)} names for {len(records.texts)} molecules")
    return np.array(listed)


def _read_cells(
    name: str, cells: Sequence[str], target: Attribute | Schema | None, place: Callable[[int], str]
) -> list[Any]:
    """Cells of a file as values: missing, numbers, truth values, text."""
    meaning = next((a for a in target if a.name == name), None) if isinstance(target, Schema) else target
    stripped = [cell.strip() for cell in cells]
    if isinstance(meaning, Categorical) and any(isinstance(category, str) for category in meaning.categories):
        return [None if cell.lower() in _NO_VALUE and cell not in meaning.categories else cell for cell in stripped]
    values = [_read_cell(cell) for cell in stripped]
    if meaning is None and len({isinstance(value, str) for value in values if value is not None}) > 1:
        row = next(row for row, value in enumerate(values) if isinstance(value, str))
        raise InputError(
            f"{place(row)}, column {name!r}: {shorten(values[row])} is not a number, but other cells are; give a target"
        )
    return values


def _read_cell(cell: str) -> float | bool | str | None:
    lowered = cell.lower()
    if lowered in _NO_VALUE:
        return None
    if lowered in _TRUTH:
        return _TRUTH[lowered]
    try:
        return float(cell)
    except ValueError:
        return cell


def _join(chunks: Sequence[Chunk], part: str, axis: int = 0) -> NDArray[Any]:
    return np.concatenate([getattr(chunk, part) for chunk in chunks], axis=axis)
