"""Which regressions of labels count: chance is not taken for knowledge, and knowledge is used."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from gspn.hierarchy.label_readout import KINDS
from gspn.models.label_choice import LabelFit, weighed

FREQUENCIES = list(KINDS).index("frequencies")
USUAL = math.log(0.5)


def both(log_prob: Tensor) -> Tensor:
    return torch.stack([log_prob, log_prob], dim=1)


def found(n: int, others: dict[str, Tensor], seed: int = 0) -> LabelFit:
    scores = {("frequencies", 0.3): both(torch.full((n,), USUAL, dtype=torch.float64))}
    scores |= {(name, 1.0): both(one.double()) for name, one in others.items()}
    return weighed(scores, torch.ones(n, dtype=torch.bool), seed)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_of_many_by_chance_is_doubted(seed: int) -> None:
    """Predictions that are right as often as a coin: the best of them seems to know something on 40 labels."""
    generator = torch.Generator().manual_seed(seed)
    names = [name for name in KINDS if name != "frequencies"]
    right = torch.rand(len(names), 40, generator=generator) < 0.5
    fit = found(40, {name: torch.where(own, 0.6, 0.4).log() for name, own in zip(names, right, strict=True)}, seed)
    assert min(fit.losses.values()) < -USUAL  # one of them is better on the labels that choose
    assert fit.doubt > 0.5
    assert not fit.better
    assert bool((fit.weights[:, FREQUENCIES] > 0.5).all())


def test_what_is_known_is_used_and_a_little_is_left_to_frequencies() -> None:
    fit = found(60, {"labels": torch.full((60,), 0.9).log()})
    assert fit.better
    assert fit.doubt < 1e-6
    torch.testing.assert_close(fit.weights[:, FREQUENCIES], torch.full((2,), 3 / 63).double(), atol=0.03, rtol=0)
    assert set(fit.strengths) == {"frequencies", "labels"}
    torch.testing.assert_close(fit.weights.sum(1), torch.ones(2).double())


def test_the_loss_is_of_labels_that_had_no_part_in_the_choice() -> None:
    """Two regressions, each sure of one half of the labels: whoever chooses on all of them finds a mixture."""
    sure = torch.arange(50) % 2 == 0
    others = {"labels": torch.where(sure, 0.95, 0.3).log(), "smooth": torch.where(sure, 0.3, 0.95).log()}
    fit = found(50, others)
    weights = fit.weights[1] * 53 / 50  # without what is left to frequencies
    places = [list(KINDS).index(name) for name in others]
    table = torch.stack([one.double() for one in others.values()], dim=1)
    together = -float(torch.logsumexp(table + weights[places].clamp_max(1).log(), dim=1).mean())
    assert fit.loss >= together - 1e-3
    assert fit.loss < min(fit.losses["labels", 1.0], fit.losses["smooth", 1.0])


def test_without_anyone_to_judge_it_stays_with_a_smooth_regression_and_frequencies() -> None:
    fit = weighed({}, torch.zeros(0, dtype=torch.bool), 0)
    assert set(fit.strengths) == {"smooth", "frequencies"}
    torch.testing.assert_close(fit.weights.sum(1), torch.ones(2).double())
