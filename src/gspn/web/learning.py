"""Where the page's models come from: one of drug-like molecules, which comes with the package; small ones for uploads.

Whatever learns pauses after every step, so that questions are answered in between (`worker`), and the page can say how
far it is. Which models answer for an upload is chosen by `gspn.policy`, as it is for the same tables everywhere else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gspn import policy
from gspn.convert.atoms import import_rdkit
from gspn.graphs.dataset import GraphDataset
from gspn.models.gspn import GSPN
from gspn.models.saving import load
from gspn.models.stack import Stack
from gspn.policy.ahead import Stopwatch
from gspn.policy.telling import in_words, is_in_vain, judged, why
from gspn.queries.scoring import is_cheap
from gspn.web.limits import Limits

ATOM_FEATURES = ("element", "formal_charge", "aromatic", "degree")
"""What the page's own model knows of an atom.

Little that follows from others (no hydrogens, hybridisation, partial charge): most replacements are of one entry alone,
and a list of them is answered in one pass.
"""

DEFAULT = Path(__file__).parent / "default"
"""The page's own model"""

EFFORT: policy.Effort = "quick"
"""How much is tried for an upload: somebody waits for it"""


@dataclass
class Learning:
    """A model, or how far it has come."""

    model: GSPN | Stack | None = None
    share: float = 0.0
    error: str | None = None
    doing: str = ""
    """In plain words, while it learns"""
    source: str = ""
    """What it has learned from, in words, where that is known"""
    chosen: dict[str, Any] | None = None
    """What was chosen from what, and why, where there was a choice"""
    can_leave_out: bool = True
    """Whether leaving out every vertex is cheap"""
    is_wanted: bool = True
    """Whether anybody waits for it; if not, it ends at its next pause"""
    _choosing: policy.Step | None = None
    _watch: Stopwatch = field(default_factory=Stopwatch)

    def report(self) -> dict[str, Any]:
        state = "failed" if self.error else "learning" if self.model is None else "ready"
        left = None
        if state == "learning" and self._choosing is not None:
            share, left = policy.how_far(self._watch, self._choosing)
            self.share = max(self.share, share)  # what is left is an estimate, and may grow
        return {
            "state": state,
            "share": round(self.share, 3),
            "error": self.error,
            "doing": self.doing,
            "left": None if left is None else round(left, 1),
            "chosen": self.chosen,
        }

    def note(self, step: policy.Step) -> None:
        """What `policy.select` is about to do."""
        if self._choosing is None:
            self._watch = Stopwatch()
        self._watch.begin(step.ahead[0])
        self._choosing = step
        words = in_words(step.candidate)
        if step.learns_on:
            self.doing = f"What was chosen learns from all entries: {words}"
        else:
            self.doing = f"Trying model {step.number + 1} of about {step.candidates}: {words}"


def load_default(learning: Learning) -> None:
    """The page's own model of molecules, which comes with the package; `make_default` has made it."""
    import_rdkit()
    model = load(DEFAULT)
    assert isinstance(model, GSPN)
    learning.model, learning.source = model, "20,000 drug-like molecules of MUV"


def learn_tables(learning: Learning, graphs: GraphDataset, limits: Limits) -> None:
    """The stack that the policy chooses for an upload; when the time is up, from what is known by then."""
    selection = policy.select(graphs, effort=EFFORT, notice=learning.note, seconds=limits.fit_seconds)
    learning.chosen = _chosen(selection, policy.loss_of_columns(graphs, effort=EFFORT))
    longest = selection.stack.answering.longest_closed_walk
    learning.can_leave_out = is_cheap(graphs, longest, limits.vertices, seed=0)
    learning.model = selection.stack


def _chosen(selection: policy.Selection, of_columns: float) -> dict[str, Any]:
    """The choice for the page: a sentence, and what was tried, the best first."""
    known = judged(selection) if selection.held_out else [one for one in selection.tried if one.weight > 0]
    return {
        "why": why(selection),
        "of_columns": None if math.isnan(of_columns) else of_columns,
        "in_vain": is_in_vain(selection, of_columns),
        "tried": [
            {
                "model": in_words(one.candidate),
                "setting": str(one.candidate),
                "loss": None if math.isnan(one.loss) else one.loss,
                "weight": one.weight,
            }
            for one in known
        ],
    }
