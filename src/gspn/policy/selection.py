"""Which models fill the gaps of a dataset, and with which weights, where nobody says: candidates, judged, stacked.

A share of the observed entries is held out; candidates learn from the rest and are judged by how likely they hold these
entries. Some are chosen one after another, each for what it adds to those before; their weights make the held-out
entries most likely, and in the end all of them learn on from all entries.
"""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gspn.arguments import check_choice, check_integer
from gspn.circuits.mixing_weights import weights_maximising
from gspn.errors import GSPNError
from gspn.graphs import GraphDataset
from gspn.graphs.missing import withholding
from gspn.graphs.region import sample_region
from gspn.models.gspn import GSPN
from gspn.models.stack import Stack
from gspn.policy.ahead import Work
from gspn.policy.candidates import (
    EFFORTS,
    MOST,
    Candidate,
    Effort,
    by_columns,
    can_be_held,
    started_anew,
    with_edges,
    with_more_levels,
    with_weaker_priors,
    without_edges,
)
from gspn.policy.held_out import bin_widths, held_out_mask, log_scores
from gspn.policy.learning import edge_types_of

_log = logging.getLogger(__name__)

SHARE = 0.15
"""Of the observed entries that judge."""

_FEWEST_ENTRIES = 12
"""Entries held out at a time without which nothing is chosen."""

_ENOUGH_ENTRIES, _MOST_FOLDS = 600, 5
"""Of fewer held-out entries than these a choice would be chance: then others are held out, too, in turn."""

_MOST_ROWS = {"quick": 4_000, "normal": 10_000, "thorough": 40_000}
"""Vertices that candidates learn from; what is chosen learns from all."""

_FEWEST_VALUES = 20
"""Observed values of an attribute in what candidates learn from, if there are so many at all."""

_PULL = 2.0
"""Held-out entries that each model is taken to have explained alone, so that few entries leave weights alike."""

_LEAST_RATIO = -50.0
"""Of the logarithm of a likelihood to the best one: what is less likely is told apart no further."""

_CHANCE = 1.0
"""Nats that all held-out entries gain together without which a number is not worth choosing."""

_STEP, _LEAST_SPREAD, _LARGEST_SPREAD = 1.1, 0.7, 1.4
"""Deviations of all models are multiplied by powers of the step, as far as held-out entries become more likely."""

_LEAST_WEIGHT = 0.05
"""What has less is left out: it costs time in every answer."""


@dataclass(frozen=True)
class Tried:
    """A candidate and what came of it."""

    candidate: Candidate
    loss: float
    """Nats per held-out entry; NaN where nothing was held out, or where it could not be learned"""
    weight: float = 0.0
    """In the stack"""
    error: str | None = None
    """Why it could not be learned"""


@dataclass(frozen=True, eq=False)
class Selection:
    """A stack, and how it was chosen."""

    stack: Stack
    tried: tuple[Tried, ...]
    """In the order of trying"""
    loss: float
    """Of the stack, in nats per held-out entry, before it learned from these, too"""
    held_out: int
    """How many entries have judged"""
    spread: float = 1.0
    """What deviations of continuous attributes were multiplied by, as models are too certain or not certain enough"""


@dataclass(frozen=True)
class Step:
    """What `select` is about to do: let one model learn."""

    candidate: Candidate
    number: int
    """How many candidates have learned by now"""
    ahead: tuple[Work, ...]
    """What is to be learned from now on, this one first; of later stages, which depend on what wins, a guess"""
    candidates: int
    """How many candidates there will be, by that guess"""
    learns_on: bool = False
    """It has been chosen, and learns on from all entries"""


Notice = Callable[[Step], None]
"""Called before every model that learns."""


def select(
    dataset: GraphDataset,
    *,
    effort: Effort = "normal",
    seed: int = 0,
    notice: Notice | None = None,
    seconds: float = math.inf,
) -> Selection:
    """Choose and train a stack that fills the gaps of a dataset.

    After so many `seconds`, which are not counted unless they are given, no further candidate is tried.
    """
    check_choice("effort", effort, EFFORTS)
    check_integer("seed", seed, 0)
    part = _part_to_try_on(dataset, _MOST_ROWS[effort], seed)
    folds = held_out(part, seed)
    if not folds:
        return _unjudged(dataset, effort, seed)
    contest = Contest(part, folds, notice, whole=dataset, seconds=seconds)
    mixtures, most = without_edges(part, effort, seed), MOST[effort]
    has_edges = bool(dataset.num_edges_per_graph().sum())
    places, rows, first = 1 if effort == "quick" else 2, len(part.entries()), mixtures[-most:]
    second = with_edges(first[-places:], effort, rows) if has_edges else []
    weaker = with_weaker_priors(first[-1:], effort)
    contest.enter(mixtures, [*weaker, *second, *started_anew(first, effort)], first)
    chosen = contest.chosen(most)
    contest.enter(with_weaker_priors(contest.best(1), effort), [*second, *started_anew(chosen, effort)], chosen)
    if has_edges:
        chosen = contest.chosen(most)
        later = [deep for one in chosen[:1] for deep in with_more_levels(one, part, effort)]
        later += started_anew(chosen, effort)
        contest.enter(with_edges(contest.best(places), effort, rows), later, chosen)
        if effort != "quick":
            free = [replace(one, slopes="free") for one in contest.best_regressing()]
            contest.enter(free, later, chosen)
        contest.enter_uncertain()
        for best in contest.best(1):
            contest.enter(with_more_levels(best, part, effort), started_anew(chosen, effort), chosen)
    chosen = contest.chosen(most)
    contest.enter(started_anew(chosen, effort), last=chosen)
    return contest.finish(most)


def _part_to_try_on(dataset: GraphDataset, most_rows: int, seed: int) -> GraphDataset:
    """A region of the dataset with observed entries of every attribute."""
    while True:
        part = sample_region(dataset, most_rows, seed)
        if part is dataset or bool(((~part.entries().isnan()).sum(0) >= _FEWEST_VALUES).all()):
            return part
        most_rows *= 4


def held_out(dataset: GraphDataset, seed: int) -> list[Tensor]:
    """Masks [N, d] of the entries that judge, in turn; none where there are too few."""
    folds = [held_out_mask(dataset, seed, SHARE)]
    count = int(folds[0].sum())
    if count < _FEWEST_ENTRIES:
        return []
    number = min(math.ceil(_ENOUGH_ENTRIES / count), _MOST_FOLDS)
    return folds + [held_out_mask(dataset, seed, SHARE, fold) for fold in range(1, number)]


def loss_of_columns(dataset: GraphDataset, *, effort: Effort = "normal", seed: int = 0) -> float:
    """A yardstick for the loss of what `select` chooses: nats per entry, the same ones, if columns stood by themselves.

    NaN where nothing was held out.
    """
    part = _part_to_try_on(dataset, _MOST_ROWS[effort], seed)
    folds = held_out(part, seed)
    if not folds:
        return math.nan
    contest = Contest(part, folds, whole=dataset)
    contest.enter([by_columns(part, seed)])
    return -float(contest.scores[0].mean()) if contest.scores else math.nan


def columns_alone(dataset: GraphDataset, seed: int) -> GSPN:
    """A model in which every column stands by itself, as a yardstick for others: one state learns nothing else."""
    return fitted(dataset, by_columns(dataset, seed), 1)


def _unjudged(dataset: GraphDataset, effort: Effort, seed: int) -> Selection:
    """Where there is too little to hold anything out: the simplest candidates, all with the same weight."""
    known = [one for one in without_edges(dataset, effort, seed) if one.num_states <= 4]
    if int(dataset.num_edges_per_graph().sum()):
        known = [*known[: MOST[effort] - 1], replace(known[0], edges="neighbours")]
    known = known[: MOST[effort]]
    models = [fitted(dataset, one, edge_types_of(dataset)) for one in known]
    share = 1 / len(models)
    tried = tuple(Tried(one, float("nan"), share) for one in known)
    return Selection(Stack(models), tried, float("nan"), 0)


def fitted(dataset: GraphDataset, candidate: Candidate, num_edge_types: int) -> GSPN:
    model = GSPN(dataset.schema, **candidate.settings(num_edge_types))
    return model.fit(dataset, progress=False, keep_scores=False, **candidate.learning(dataset))


class Contest:
    """Candidates that have learned from what is not held out, and their scores.

    The dataset may be a part of a `whole`, from which those that win learn.
    """

    def __init__(
        self,
        dataset: GraphDataset,
        folds: Sequence[Tensor],
        notice: Notice | None = None,
        whole: GraphDataset | None = None,
        seconds: float = math.inf,
    ) -> None:
        self.folds, self.notice, self.whole = folds, notice, dataset if whole is None else whole
        self.ends = math.inf if seconds == math.inf else time.monotonic() + seconds
        self.num_edge_types = edge_types_of(self.whole)
        self.training, self.truth = [withholding(dataset, mask) for mask in folds], dataset.entries()
        self.widths = bin_widths(dataset.schema, self.truth)
        self.candidates: list[Candidate] = []
        self.models: list[list[GSPN]] = []
        """By fold"""
        self.scores: list[Tensor] = []
        self.failed: dict[Candidate, str] = {}
        """And why"""

    def enter(
        self, candidates: Sequence[Candidate], later: Sequence[Candidate] = (), last: Sequence[Candidate] = ()
    ) -> None:
        """Let candidates learn, and judge them.

        What is expected of later stages, and which will learn on in the end, is for those who are told how far it is.
        """
        known, schema = [*self.candidates, *self.failed], self.whole.schema
        new = [one for one in candidates if one not in known and can_be_held(one, schema)]
        for number, candidate in enumerate(new):
            if self.candidates and self.ends < math.inf and time.monotonic() >= self.ends:
                return
            self._tell(candidate, [*new[number:], *later], last)
            try:
                self._judge(candidate, [fitted(one, candidate, self.num_edge_types) for one in self.training])
            except GSPNError as error:  # one that cannot be learned is no candidate; others go on
                _log.info("%s: %s", candidate, error)
                self.failed[candidate] = str(error)

    def _tell(self, candidate: Candidate, ahead: Sequence[Candidate], last: Sequence[Candidate]) -> None:
        if self.notice is None:
            return
        rows, all_rows = len(self.truth) * len(self.folds), len(self.whole.entries())
        works = [Work.of(one, rows) for one in ahead]
        works += [Work.of(one, all_rows, learns_on=True) for one in last]
        learned = len(self.candidates) + len(self.failed)
        self.notice(Step(candidate, learned, tuple(works), learned + len(ahead), learns_on=not ahead))

    def _judge(self, candidate: Candidate, models: Sequence[GSPN]) -> None:
        scores = self._scored(models)
        self.candidates.append(candidate)
        self.models.append(list(models))
        self.scores.append(scores)

    def _scored(self, models: Sequence[GSPN]) -> Tensor:
        scores = [
            log_scores(model, training, self.truth, mask, self.widths)
            for model, training, mask in zip(models, self.training, self.folds, strict=True)
        ]
        return torch.cat(scores)

    def enter_uncertain(self) -> None:
        """The best that regresses on neighbours, once more, with how uncertain they are: EM does not ask for it."""
        for candidate in self.best_regressing():
            uncertain, models = replace(candidate, context_variance=1.0), self.models[self.candidates.index(candidate)]
            self._judge(uncertain, [_with_settings(model, uncertain) for model in models])

    def best_regressing(self) -> list[Candidate]:
        """That with the highest score among those whose leaves regress on neighbours, if there are any."""
        return [one for one in self.best(len(self.candidates)) if one.edges in ("neighbours", "two_hops")][:1]

    def best(self, number: int) -> list[Candidate]:
        """So many of those with the highest scores."""
        order = sorted(range(len(self.candidates)), key=lambda n: -float(self.scores[n].mean()))
        return [self.candidates[n] for n in order[:number]]

    def chosen(self, most: int) -> list[Candidate]:
        return [self.candidates[n] for n in self._chosen(most)] if self.candidates else []

    def _chosen(self, most: int) -> list[int]:
        """Numbers of candidates, one after another that which adds most to the average of those before.

        One may be taken again, which gives it more weight; at most `most` different ones.
        """
        likelihoods = self._relative(range(len(self.scores))).exp()
        taken: list[int] = []
        total, reached = torch.zeros(len(likelihoods), dtype=torch.float64), -torch.inf
        for _ in range(2 * most):
            gains = ((total[:, None] + likelihoods) / (len(taken) + 1)).log().mean(0)
            if len(set(taken)) == most:
                others = [n for n in range(len(gains)) if n not in taken]
                gains[others] = -torch.inf
            best = int(gains.argmax())
            if float(gains[best]) <= reached:
                break
            taken.append(best)
            total, reached = total + likelihoods[:, best], float(gains[best])
        return list(dict.fromkeys(taken))

    def best_model(self) -> GSPN:
        """That with the highest score, which learns on from all entries."""
        self._require_candidates()
        return self._learned_on(max(range(len(self.candidates)), key=lambda n: float(self.scores[n].mean())))

    def finish(self, most: int) -> Selection:
        """The stack of what was chosen; its models learn on from all entries."""
        self._require_candidates()
        chosen, weights = self._weighed(sorted(self._chosen(most)))
        spread, loss = self._spread(chosen, weights)
        models = []
        for place, n in enumerate(chosen):
            self._tell(self.candidates[n], (), [self.candidates[later] for later in chosen[place:]])
            models.append(self._learned_on(n))
        for model in models:
            model.hierarchy.widen(spread)
        of = dict(zip(chosen, weights.tolist(), strict=True))
        tried = [Tried(one, -float(self.scores[n].mean()), of.get(n, 0.0)) for n, one in enumerate(self.candidates)]
        tried += [Tried(one, float("nan"), error=error) for one, error in self.failed.items()]
        stack = Stack(models, weights.tolist(), spread=spread)
        return Selection(stack, tuple(tried), loss, len(self.scores[0]), spread)

    def _spread(self, chosen: Sequence[int], weights: Tensor) -> tuple[float, float]:
        """What to multiply deviations by, all alike so that slopes stay what they are, and the loss with it.

        One step after the other in the direction that helps; a gain that may be chance is left.
        """
        own = [self.scores[n] for n in chosen]
        best, reached = 1.0, float(_mixed(own, weights).mean())
        if all(width is None for width in self.widths):
            return best, -reached
        for step in (_STEP, 1 / _STEP):
            while _LEAST_SPREAD <= best * step <= _LARGEST_SPREAD:
                scores = [self._scored([_widened(one, best * step) for one in self.models[n]]) for n in chosen]
                found = float(_mixed(scores, weights).mean())
                if (found - reached) * len(own[0]) <= _CHANCE:
                    break
                best, reached = best * step, found
            if best != 1.0:
                break
        return best, -reached

    def _require_candidates(self) -> None:
        if not self.candidates:
            raise GSPNError("none of the models that were tried could be learned from these data")

    def _weighed(self, chosen: list[int]) -> tuple[list[int], Tensor]:
        while True:
            weights = weights_maximising(self._relative(chosen), _PULL)
            enough = weights >= _LEAST_WEIGHT
            if bool(enough.all()):
                return chosen, weights
            chosen = [n for n, own in zip(chosen, enough.tolist(), strict=True) if own]

    def _relative(self, numbers: Iterable[int]) -> Tensor:
        """[H, n] scores relative to the best of these at each entry, as densities depend on the column's unit."""
        scores = torch.stack([self.scores[n] for n in numbers], dim=1)
        return (scores - scores.amax(1, keepdim=True)).clamp_min(_LEAST_RATIO)

    def _learned_on(self, number: int) -> GSPN:
        """From where the candidate stands, so that its states stay what they are."""
        learning = self.candidates[number].learning(self.whole, on=True)
        try:
            model = self.models[number][0]
            return model.fit(self.whole, progress=False, keep_scores=False, warm_start=True, **learning)
        except GSPNError as error:  # the whole may have values that are out of its reach, or make it diverge
            _log.info("%s learns from the beginning: %s", self.candidates[number], error)
            return fitted(self.whole, self.candidates[number], self.num_edge_types)


def _widened(model: GSPN, factor: float) -> GSPN:
    copied = copy.deepcopy(model)
    copied.hierarchy.widen(factor)
    return copied


def _with_settings(model: GSPN, candidate: Candidate) -> GSPN:
    """A copy of what a model has learned, with settings that change nothing in how it learns."""
    copied = GSPN(model.schema, **candidate.settings(model.num_edge_types))
    copied.load_state_dict(model.state_dict())
    return copied


def _mixed(scores: Sequence[Tensor], weights: Tensor) -> Tensor:
    return torch.logsumexp(torch.stack(list(scores), dim=1) + weights.log(), dim=1)
