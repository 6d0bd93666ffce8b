"""Datasets by name: which family reads a name, and the way from raw files through the cache to a GraphDataset."""

from __future__ import annotations

import difflib
import inspect
import logging
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gspn.columns import enumerate_briefly
from gspn.datasets import md17, molecules, ogb, tu
from gspn.datasets.cache import prepared
from gspn.datasets.family import Family, Sources
from gspn.datasets.raw_files import Folders, find, obtain
from gspn.datasets.tu_names import TU_NAMES
from gspn.errors import InputError
from gspn.graphs.dataset import GraphDataset

logger = logging.getLogger(__name__)

BUILTIN = "molecules"

_FAMILIES: dict[str, Family] = {
    **dict.fromkeys(md17.FILES, md17.FAMILY),
    **dict.fromkeys(ogb.FILES, ogb.FAMILY),
    **dict.fromkeys(molecules.TABLES, molecules.FAMILY),
    **dict.fromkeys(TU_NAMES, tu.FAMILY),
}


def names() -> list[str]:
    """All names that `load` knows. Any other archive in the TU format can be loaded by its name as well, once it is
    put where raw files are looked for, as `tu/NAME.zip`."""
    return [BUILTIN, *_FAMILIES]


def catalogue() -> list[dict[str, Any]]:
    """Of every name its family, and whether its files are here, so that loading needs no network."""
    folders = Folders.choose(None, None)
    families = {id(md17.FAMILY): "MD17", id(ogb.FAMILY): "OGB", id(molecules.FAMILY): "molecules", id(tu.FAMILY): "TU"}
    rows: list[dict[str, Any]] = [{"name": BUILTIN, "family": "built in", "here": True}]
    for name, family in _FAMILIES.items():
        sources = family.sources(name).values()
        here = all(find(source.alternatives, folders) is not None for source in sources if source.required)
        rows.append({"name": name, "family": families[id(family)], "here": here})
    return rows


def load(
    name: str,
    *,
    root: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    progress: bool = True,
    **options: Any,
) -> GraphDataset:
    """A public dataset by name, with schema, target and, where there are any, its published folds (`splits`).

    Raw files are looked up in `root`, then in `cache`, and otherwise downloaded into the cache. Parsed datasets are
    kept there as well, and memory-mapped the next time.

    The root has `tu/NAME.zip`, `md17/NAME.npz`, `molecules/NAME.csv.gz`, `ogb/NAME.zip` or `ogb/NAME/`, and
    `splits/NAME.json.gz`; below the cache the same lies in `raw`.

    Options by family:

    - TU collection (NCI1, COLLAB, REDDIT-BINARY, …): `degree=None | "continuous" | "count"`
    - MD17 (benzene, ethanol, …): `attributes="both" | "element" | "continuous"`, `limit=None` (number of frames)
    - ogbg-molhiv, ogbg-molpcba: `limit=None` (number of molecules)
    - MUV, Tox21, ESOL: `features="ogb"` (as in `from_smiles`), `duplicates=None | "merge" | "keep"`, `limit=None`
    - molecules (built in, needs no file): `features="default"`, `target=None`, see `builtin`

    The modules of the families describe how each format is read.

    name: the dataset's name, see `names`.
    root: a folder of raw files, which is never written to; None is the one that GSPN_DATA_ROOT names.
    cache: a folder for downloads and parsed datasets; None is GSPN_CACHE, or the user's cache folder.
    progress: whether downloads show a progress bar.
    options: options of the family, as above.
    """
    if not isinstance(name, str):
        raise InputError(f"a dataset is called by its name, got {name!r}")
    if name == BUILTIN:
        return _builtin(options, progress)
    folders = Folders.choose(root, cache)
    family = _FAMILIES.get(name) or _own_archive(name, folders)
    complete = _check_options(name, family.options, options)
    sources = family.sources(name)
    files = _obtain(name, sources, folders, progress)
    return prepared(
        folders.cache,
        name,
        family.version,
        complete,
        files,
        sources,
        lambda: family.read(name, files, complete, progress),
    )


def _builtin(options: Mapping[str, Any], progress: bool) -> GraphDataset:
    from gspn.datasets.builtin import load_builtin

    _check_names(BUILTIN, options, [name for name in inspect.signature(load_builtin).parameters if name != "progress"])
    return load_builtin(progress=progress, **options)


def _own_archive(name: str, folders: Folders) -> Family:
    """The TU family for an archive of that format that somebody has put in place, whatever its name."""
    # The name becomes a part of paths, so it must not lead anywhere.
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", name) and find(
        tu.FAMILY.sources(name)["graphs"].alternatives, folders
    ):
        return tu.FAMILY
    by_lower_case = {known.lower(): known for known in names()}
    close = [by_lower_case[match] for match in difflib.get_close_matches(name.lower(), by_lower_case, n=5, cutoff=0.5)]
    hint = f"close names: {', '.join(close)}" if close else f"known names: {enumerate_briefly(names())}"
    places = " or ".join(str(place) for place in folders.places("tu"))
    raise InputError(
        f"there is no dataset {name!r}; {hint}. An archive of your own in the TU format can be loaded as NAME "
        f"if NAME.zip is in {places}"
    )


def _check_options(name: str, check: Callable[..., dict[str, Any]], options: Mapping[str, Any]) -> dict[str, Any]:
    _check_names(name, options, list(inspect.signature(check).parameters))
    return check(**options)


def _check_names(name: str, options: Mapping[str, Any], known: list[str]) -> None:
    for option in options:
        if option not in known:
            raise InputError(f"{name} has no option {option!r}; its options: {', '.join(known)}")


def _obtain(name: str, sources: Sources, folders: Folders, progress: bool) -> dict[str, Path | None]:
    files: dict[str, Path | None] = {}
    for role, source in sources.items():
        offered = any(file.url is not None for file in source.alternatives)
        if not source.required and not offered:
            files[role] = find(source.alternatives, folders)
            continue
        try:
            files[role] = obtain(source.alternatives, folders, progress=progress)
        except InputError as error:
            if source.required:
                raise
            logger.warning("%s is loaded without its %s: %s", name, role, error)
            files[role] = None
    return files
