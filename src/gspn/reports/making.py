"""`gspn.report`: how good a model is on one's own data, as one page and as numbers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.base import clone

from gspn import policy
from gspn.columns import shorten
from gspn.errors import InputError, NotFittedError
from gspn.files import replace_file
from gspn.graphs import GraphDataset, pack
from gspn.imputation import TableImputer
from gspn.models.gspn import GSPN
from gspn.models.stack import Stack
from gspn.reports.checking import Check, Learn, check
from gspn.reports.page import PageParts, honesty, verdict, write_page
from gspn.reports.surroundings import describe
from gspn.reports.targets import HeldOut

SUFFIX = ".html"


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A page, and the numbers on it."""

    html: str
    """One page that needs no other file, readable on a phone, light and dark"""
    verdict: str
    """Who fills best, in a sentence or two"""
    numbers: list[dict[str, Any]]
    """One row a column: who fills it best, the errors of all methods, the share of truths inside 90 % intervals"""

    def save(self, path: str | Path) -> Path:
        """Write the page, so that a crash leaves the old file or the new one."""
        path = Path(path)
        if path.suffix.lower() != SUFFIX:
            raise InputError(f"a report is saved as {SUFFIX}, not as {path.name!r}")
        replace_file(path, self.html.encode())
        return path

    def __repr__(self) -> str:
        return f"Report({self.verdict})"


def report(
    model: TableImputer | GSPN | Stack,
    graphs: Any = None,
    edges: Any = None,
    *,
    share: float | None = None,
    seed: int | None = None,
    progress: bool = True,
) -> Report:
    """How well a model fills the gaps of one's own data, beside simple methods, as a page.

    A share of the observed entries is hidden. Everything is learned again without them, the choice of models included,
    so a report takes about as long as `fit`; then the model, column means, nearest rows, scikit-learn's iterative
    imputer and the mean of neighbours fill them in. The page names the best of each column, whoever it is, and shows
    how often intervals hold the truth, what was chosen and why, and the graph.

    A model that cannot learn again is asked as it is: a Stack, or an imputer where other tables are given. If it has
    learned from these very entries, its numbers are too good, and the page says so.

    model: a fitted `TableImputer`, `GSPN` or `Stack`.
    graphs: the table of vertices for an imputer, None for the one that it was fitted to; graphs for the others.
    edges: the table of edges, if a table of vertices is given.
    share: of the observed entries, to hide; None hides a tenth, and more of columns with few entries.
    seed: chooses the hidden entries; None is the model's own.
    progress: whether progress bars are shown.
    """
    own: Any = model
    seed = int(getattr(own, "seed", 0)) if seed is None else seed
    if isinstance(model, TableImputer):
        dataset, learn = _of_imputer(model, graphs, edges, progress)
        return make_report(
            dataset,
            model.model_,
            learn,
            selection=model.selection_ if learn else None,
            share=share,
            seed=seed,
            progress=progress,
        )
    if not isinstance(model, GSPN | Stack):
        raise InputError(f"a report is about a TableImputer, a GSPN or a Stack, got {shorten(model)}")
    if graphs is None:
        raise InputError("a report needs the graphs that it is about")
    dataset = pack(graphs, own.schema)
    return make_report(dataset, model, relearning(model, progress), share=share, seed=seed, progress=progress)


def make_report(
    dataset: GraphDataset,
    model: GSPN | Stack,
    learn: Learn | None,
    *,
    selection: policy.Selection | None = None,
    title: str = "How well gspn fills this table",
    command: str = "",
    share: float | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Report:
    """The report on a model of a dataset; `learn` is how it was learned."""
    start = time.perf_counter()
    found, reason = None, ""
    try:
        found = check(dataset, model, learn, seed=seed, share=share, progress=progress)
    except InputError as error:
        if share is not None:
            raise
        reason = str(error)
    parts = PageParts(
        title=title,
        dataset=dataset,
        surroundings=describe(dataset, seed),
        check=found,
        why_unchecked=reason,
        selection=selection,
        model=_in_words(model),
        command=command,
        seconds=time.perf_counter() - start,
    )
    return Report(write_page(parts), _told(found, reason), [] if found is None else found.rows())


def make_target_report(
    dataset: GraphDataset,
    held_out: HeldOut,
    *,
    title: str,
    model: str,
    tried: Sequence[Mapping[str, Any]] = (),
    command: str = "",
    seed: int = 0,
) -> Report:
    """The report on a model that predicts targets, from its scores on what was held out."""
    parts = PageParts(
        title=title,
        dataset=dataset,
        surroundings=describe(dataset, seed),
        targets=held_out,
        model=model,
        tried=tried,
        command=command,
    )
    return Report(write_page(parts), held_out.verdict(), held_out.rows())


def choosing_again(effort: policy.Effort, seed: int, progress: bool) -> Learn:
    """To choose models once more, as `policy.select` did."""

    def learn(dataset: GraphDataset) -> Stack:
        with policy.choosing(progress) as notice:
            return policy.select(dataset, effort=effort, seed=seed, notice=notice).stack

    return learn


def relearning(model: GSPN | Stack, progress: bool) -> Learn | None:
    """To train a model with the same settings once more; None for a stack, whose origin it does not know."""
    if not isinstance(model, GSPN):
        return None
    return lambda dataset: policy.fit(clone(model), dataset, progress=progress)


def _of_imputer(imputer: TableImputer, nodes: Any, edges: Any, progress: bool) -> tuple[GraphDataset, Learn | None]:
    if not imputer.__sklearn_is_fitted__():
        raise NotFittedError("this TableImputer is not fitted yet; call fit first")
    learned_from = getattr(imputer, "_learned_from", None)
    if nodes is not None:
        return imputer._to_complete(nodes, edges), None
    if learned_from is None or edges is not None:
        raise InputError("a report needs the table of vertices, unless it is about the tables of fit")
    if imputer.selection_ is None:
        return learned_from[1], relearning(imputer.model_, progress)
    return learned_from[1], choosing_again(imputer.effort, imputer.seed, progress)


def _in_words(model: GSPN | Stack) -> str:
    own: Any = model
    if isinstance(model, Stack):
        return f"{len(own.models)} models answer together."
    return f"One model of {model.num_layers} levels and {model.num_states} states, as it was asked for."


def _told(found: Check | None, reason: str) -> str:
    return f"not checked: {reason}" if found is None else f"{verdict(found)} {honesty(found)}"
