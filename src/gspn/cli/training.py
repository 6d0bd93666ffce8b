"""What commands that train say of it: what was read and tried, how training went, and a yardstick beside its loss.

How models are chosen and trained is `gspn.policy`'s business, the same for all who do not say otherwise.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from gspn.cli.console import Console
    from gspn.graphs import GraphDataset
    from gspn.models.gspn import GSPN
    from gspn.policy import Effort, HeldOutEntries, Selection, Tried

_FEW = 20
"""Different whole numbers that may well be names."""
_DIGITS, _REACH = 5, 3
"""More of them are codes if all have so many digits, the largest is so many times the smallest, and none is round."""
_MOST_NAMED = 5

_SHOWN = 12
"""Candidates of which people read; machines get all."""


def train(model: GSPN, dataset: GraphDataset, console: Console, checkpoint: Path | None = None) -> float | None:
    """Fit by the policy; where entries are held out, returns their loss with independent columns."""
    from gspn import policy

    policy.fit(model, dataset, checkpoint=checkpoint, progress=console.progress)
    _, held_out = policy.hold_out(model, dataset)
    return loss_of_columns(held_out, model.seed) if isinstance(held_out, policy.HeldOutEntries) else None


def loss_of_columns(held_out: HeldOutEntries, seed: int) -> float:
    """Nats a held-out entry where every column stands by itself, as a yardstick: one state learns nothing else."""
    from gspn.policy import columns_alone

    return held_out(columns_alone(held_out.training, seed))["validation"]


def show_graphs(
    console: Console, dataset: GraphDataset, said: Collection[str] | None = None, notes: Sequence[str] = ()
) -> None:
    """What was read: how much of it, and the attributes with their kinds.

    `said` names those of which a user has said the kind, where the others' are guessed from a table; `notes` is what
    was found out about its columns.
    """
    import torch

    entries = dataset.entries()
    missing = torch.isnan(entries).sum(0).tolist()
    graphs, vertices, edges = len(dataset), len(entries), int(dataset.num_edges_per_graph().sum())
    console.note(f"{graphs:,} {'graph' if graphs == 1 else 'graphs'}, {vertices:,} vertices, {edges:,} edges")
    if dataset.edge_types:
        console.note(f"edge types: {', '.join(map(str, dataset.edge_types))}")
    console.note_table(
        [
            {
                "attribute": attribute.name,
                "kind": attribute.kind,
                "missing": f"{count:,} ({count / max(vertices, 1):.0%})",
                "detail": attribute.detail if attribute.kind == "categorical" else "",
            }
            for attribute, count in zip(dataset.schema, missing, strict=True)
        ]
    )
    for note in notes:
        console.note(note)
    if said is not None:
        _show_guesses(console, dataset, said)


def _show_guesses(console: Console, dataset: GraphDataset, said: Collection[str]) -> None:
    """Whole numbers may be amounts or names; where they are few, one cannot tell."""
    for attribute, column in zip(dataset.schema, dataset.entries().T, strict=True):
        if attribute.name in said:
            continue
        values = column.unique()
        values = values[~values.isnan()]
        few = len(values) <= _FEW and bool((values == values.round()).all())
        if attribute.kind == "continuous" and few:
            taken, other, kind = "amounts", "names", "categorical"
        elif attribute.kind == "categorical" and all(isinstance(c, int) for c in attribute.categories):  # type: ignore[union-attr]
            taken, other, kind = "categories", "amounts", "continuous"
        else:
            continue
        console.note(
            f"the whole numbers of {attribute.name!r} are taken for {taken}; if they are {other}: "
            f"--types {attribute.name}={kind}"
        )
    numbers = [
        (attribute.name, column[~column.isnan()])
        for attribute, column in zip(dataset.schema, dataset.entries().T, strict=True)
        if attribute.name not in said and attribute.kind == "continuous"
    ]
    codes = [name for name, values in numbers if _are_codes(values)]
    if codes:
        console.note(
            f"{_listed(codes)}: whole numbers of equally many digits, taken for amounts. If they are codes, such as "
            f"postcodes: --types {codes[0]}=categorical, or --ignore {codes[0]} where nearly each is different"
        )
    counters = [name for name, values in numbers if _is_counter(values)]
    if counters:
        console.note(f"{_listed(counters)}: looks like the number of a row; if so: --ignore {counters[0]}")


def _are_codes(values: Tensor) -> bool:
    """Whether many whole numbers look like codes: as long as each other, far apart, and not rounded like amounts."""
    different = values.unique()
    if len(different) <= _FEW or not bool((different == different.round()).all()):
        return False
    least, most = int(different[0]), int(different[-1])
    rounded = bool((different.remainder(5) == 0).all())
    return least > 0 and len(str(least)) == len(str(most)) >= _DIGITS and most >= _REACH * least and not rounded


def _is_counter(values: Tensor) -> bool:
    """Whether whole numbers go up by one from row to row."""
    return len(values) > _FEW and bool((values == values.round()).all()) and bool((values.diff() == 1).all())


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(map(repr, names[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")


def show_training(console: Console, model: Any, seconds: float, of_columns: float | None = None) -> None:
    """How training went, in a line; beside the loss on held-out entries that of columns by themselves."""
    history = model.history_
    if not history:  # labels that are evidence have a leaf that is learned by itself
        outcome = model.label_outcome_
        of_frequencies = f" ({outcome.of_frequencies:.4f} if one knew frequencies alone)"
        console.note(f"learned in {seconds:.0f} s; {outcome.loss:.4f} nats per held-out label{of_frequencies}")
        return
    last = min((epoch for epoch in history if "validation" in epoch), key=_validation, default=history[-1])
    judged = f", {last['validation']:.4f} on what was held out" if "validation" in last else ""
    judged += "" if of_columns is None else f" ({of_columns:.4f} with independent columns)"
    sizes = f"{model.num_layers} levels, {model.num_states} states"
    console.note(f"trained {sizes}: {len(history)} epochs in {seconds:.0f} s, loss {last['train']:.4f}{judged}")
    if of_columns is not None and last["validation"] >= of_columns:
        console.note(
            "warning: held-out entries are filled no better than by every column's mean or commonest value; there may "
            "be too few rows, or --types or --states may help"
        )


def _validation(epoch: dict[str, Any]) -> float:
    return float(epoch["validation"])


def choose(dataset: GraphDataset, effort: Effort, seed: int, console: Console) -> tuple[Selection, dict[str, Any]]:
    """What the policy chooses, and what is to be said of it to machines; people read it now."""
    from gspn import policy

    start = time.perf_counter()
    with policy.choosing(console.progress) as notice:
        selection = policy.select(dataset, effort=effort, seed=seed, notice=notice)
    seconds = time.perf_counter() - start
    shown = console.progress or console.as_json
    of_columns = policy.loss_of_columns(dataset, effort=effort, seed=seed) if shown else math.nan
    show_selection(console, selection, of_columns, seconds)
    return selection, {
        "effort": effort,
        "held_out": selection.held_out,
        "loss": selection.loss,
        "loss_of_columns": of_columns,
        "seconds": seconds,
        "tried": [
            {"candidate": str(one.candidate), "loss": one.loss, "weight": one.weight, "error": one.error}
            for one in selection.tried
        ],
    }


def show_selection(console: Console, selection: Selection, of_columns: float, seconds: float) -> None:
    """A table of what was tried, a sentence on what was chosen and why, and a yardstick for its loss."""
    from gspn.policy.telling import is_in_vain, judged, why

    tried = selection.tried
    if not selection.held_out:
        console.note(why(selection))
        console.note_table([{"model": str(one.candidate), "weight": one.weight} for one in tried if one.weight > 0])
        return
    best = judged(selection)
    console.note_table(
        [
            {"model": str(one.candidate), "nats per held-out entry": one.loss, "weight": one.weight or None}
            for one in _shown(best)
        ],
        f"what was tried, the best {min(len(best), _SHOWN)} of {len(tried)} models:",
    )
    errors = [one.error for one in tried if one.error is not None]
    for error in dict.fromkeys(errors):
        console.note(f"{errors.count(error)} of them could not be learned from these data: {error}")
    console.note(f"chosen in {seconds:.0f} s: {why(selection)}. With independent columns: {of_columns:.4f}")
    if is_in_vain(selection, of_columns):
        console.note(
            "warning: held-out entries are filled no better than by every column's mean or most common value; there "
            "may be too few rows, or --types may help"
        )


def _shown(judged: list[Tried]) -> list[Tried]:
    """Of those in order of their loss the best, and all that were chosen."""
    others = _SHOWN - sum(one.weight > 0 for one in judged)
    shown = []
    for one in judged:
        if one.weight > 0:
            shown.append(one)
        elif others > 0:
            shown.append(one)
            others -= 1
    return shown
