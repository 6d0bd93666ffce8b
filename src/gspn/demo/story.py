"""The story: molecules with gaps, a model without labels, and what can be asked of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from gspn.datasets import load
from gspn.demo.few_labels import FewLabels, learn_from_few
from gspn.demo.filling import Filling, fill
from gspn.demo.replacing import Replacing, replace_atom
from gspn.graphs import GraphDataset
from gspn.graphs.missing import uniform_mask, with_missing
from gspn.models.gspn import GSPN

FEATURES = ("element", "formal_charge", "hybridisation", "aromatic", "hydrogens", "partial_charge", "in_ring")
TARGET = "logp"
HIDDEN = 0.3
LEVELS, STATES, EPOCHS = 4, 20, 10


@dataclass(frozen=True, eq=False)
class Molecules:
    """The built-in molecules: complete, and as everybody gets to see them, with the same entries hidden."""

    complete: GraphDataset
    seen: GraphDataset

    def part(self, name: str) -> tuple[GraphDataset, GraphDataset]:
        """The complete molecules and the seen ones of "train", "validation" or "test"."""
        chosen = getattr(self.complete.splits[0], name)
        return self.complete[chosen], self.seen[chosen]


@dataclass(frozen=True, eq=False)
class Story:
    """Everything that was found."""

    seed: int
    molecules: Molecules
    model: GSPN
    training_seconds: float
    filling: Filling
    few_labels: FewLabels
    replacing: Replacing
    seconds: float


def tell(seed: int = 0, epochs: int = EPOCHS, say: Callable[[str], None] = print, progress: bool = True) -> Story:
    """Run it all; `say` is told what happens."""
    # Molecules are small: a second thread gains little, and where others work too it mostly waits. It would also change
    # the last digits.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _told(seed, epochs, say, progress)
    finally:
        torch.set_num_threads(before)


def _told(seed: int, epochs: int, say: Callable[[str], None], progress: bool) -> Story:
    start = time.perf_counter()
    say("1/4  molecules: write down the built-in ones and hide 30 % of all attributes of their atoms")
    complete = load("molecules", features=FEATURES, target=TARGET, progress=False)
    molecules = Molecules(complete, with_missing(complete, uniform_mask(complete, HIDDEN, seed)))
    say(f"     {len(complete):,} molecules, {len(complete.x):,} atoms; train without labels")
    began = time.perf_counter()
    model = GSPN(
        complete.schema,
        num_layers=LEVELS,
        num_states=STATES,
        num_edge_types=len(complete.edge_types or ()),
        objective="masked",
        epochs=epochs,
        lr=0.05,
        seed=seed,
    )
    model.fit(molecules.part("train")[1], validation=molecules.part("validation")[1], progress=progress)
    trained = time.perf_counter() - began
    say(f"     trained in {trained:.0f} s")
    say("2/4  fill what was hidden in molecules that were not trained on")
    filling = fill(model, molecules.part("train")[1], *molecules.part("test"), seed)
    say("3/4  learn log P from 1 % of the labels")
    few_labels = learn_from_few(model, molecules.part("train")[1], molecules.part("test")[1], seed)
    say("4/4  replace chlorine by oxygen")
    replacing = replace_atom(model, molecules.part("test")[0])
    return Story(seed, molecules, model, trained, filling, few_labels, replacing, time.perf_counter() - start)
