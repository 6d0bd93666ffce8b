"""The story: molecules with gaps, models that are chosen without labels, and what can be asked of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import torch

from gspn import policy
from gspn.arguments import check_choice
from gspn.datasets import load
from gspn.demo.few_labels import FewLabels, learn_from_few
from gspn.demo.filling import Filling, fill
from gspn.demo.replacing import Replacing, replace_atom
from gspn.graphs import GraphDataset
from gspn.graphs.missing import uniform_mask, with_missing
from gspn.models.gspn import GSPN
from gspn.models.stack import Stack
from gspn.policy.telling import why

FEATURES = ("element", "formal_charge", "hybridisation", "aromatic", "hydrogens", "partial_charge", "in_ring")
TARGET = "logp"
HIDDEN = 0.3


@dataclass(frozen=True, eq=False)
class Molecules:
    """The built-in molecules: complete, and as everybody gets to see them, with the same entries hidden.

    What the built-in division keeps for choosing is not needed: the policy holds out entries of its own.
    """

    complete: GraphDataset
    seen: GraphDataset

    def part(self, name: str) -> tuple[GraphDataset, GraphDataset]:
        """The complete molecules and the seen ones of "train" or "test"."""
        chosen = getattr(self.complete.splits[0], name)
        return self.complete[chosen], self.seen[chosen]


@dataclass(frozen=True, eq=False)
class Story:
    """Everything that was found."""

    seed: int
    molecules: Molecules
    effort: policy.Effort
    selection: policy.Selection
    choosing_seconds: float
    embedder: GSPN
    """Of the chosen models the one whose states stand for atoms where few labels are learned from"""
    filling: Filling
    few_labels: FewLabels
    replacing: Replacing
    seconds: float


def tell(seed: int = 0, effort: str = "quick", say: Callable[[str], None] = print, progress: bool = True) -> Story:
    """Run it all; `say` is told what happens."""
    check_choice("effort", effort, policy.EFFORTS)
    with in_one_thread():
        return _told(seed, cast(policy.Effort, effort), say, progress)


@contextmanager
def in_one_thread() -> Iterator[None]:
    """The demonstration's way of computing, its pictures included."""
    # Molecules are small: a second thread gains little, and where others work too it mostly waits. It would also change
    # the last digits.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _told(seed: int, effort: policy.Effort, say: Callable[[str], None], progress: bool) -> Story:
    start = time.perf_counter()
    say("1/4  molecules: write down the built-in ones and hide 30 % of all attributes of their atoms")
    complete = load("molecules", features=FEATURES, target=TARGET, progress=False)
    molecules = Molecules(complete, with_missing(complete, uniform_mask(complete, HIDDEN, seed)))
    say(f"     {len(complete):,} molecules, {len(complete.x):,} atoms; choose models without labels")
    (_, training), (known, asked) = molecules.part("train"), molecules.part("test")
    began = time.perf_counter()
    with policy.choosing(progress) as notice:
        selection = policy.select(training, effort=effort, seed=seed, notice=notice)
    chosen = time.perf_counter() - began
    say(f"     chosen in {chosen:.0f} s: {why(selection)}")
    say("2/4  fill what was hidden in molecules that nothing was learned from")
    filling = fill(selection.stack, training, known, asked, seed)
    say("3/4  learn log P from 1 % of the labels")
    embedder = embedder_of(selection.stack)
    few_labels = learn_from_few(embedder, training, asked, seed)
    say("4/4  replace chlorine by oxygen")
    replacing = replace_atom(selection.stack, known)
    seconds = time.perf_counter() - start
    return Story(seed, molecules, effort, selection, chosen, embedder, filling, few_labels, replacing, seconds)


def embedder_of(stack: Stack) -> GSPN:
    """The model with the most levels, and among these the most states: it tells most of an atom and what is around."""
    return max(stack.models, key=lambda one: (one.num_layers, one.num_states))
