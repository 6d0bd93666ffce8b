"""How good predictive distributions are where the truth is known: one way for all methods.

Numbers are measured in deviations of the complete column. The probability of a value is that of a bin of width δ around
it, one δ per column, so that masses and densities compare; that of a count or category is its own. Where a cumulative
probability leaps, a value lies in an interval if any of its leap does, and its PIT is the leap's middle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from gspn.attributes import Attribute, Binary, Categorical, Count
from gspn.experiments.yardstick.answers import Answer, Categories, Numbers
from gspn.policy.held_out import bin_width as width_of_bins

LEVEL = 0.9
BINS = 10
"""Of PIT histograms."""
_QUANTILES = 20
"""Levels at which a distribution is asked for its CRPS."""
_FEWEST_DIGITS = 1e-9
"""Below this a difference of two cumulative probabilities is noise."""
_SMALLEST = 1e-12
"""A category that somebody holds for impossible costs no more than this."""


def bin_width(attribute: Attribute, column: Tensor) -> float:
    """δ: that by which the policy judges; 1 of a count."""
    return 1.0 if isinstance(attribute, Count) else width_of_bins(column)


def judge(
    truth: Tensor,
    attributes: Iterable[Attribute],
    answers: Iterable[tuple[int, Tensor, Answer]],
    alone: Tensor | None = None,
) -> dict[str, Any]:
    """Scores of answers for entries of the complete table `truth` [N, d]; entries that have no truth are left out.

    rmse, crps, width: deviations; coverage: of central intervals of 90 %; nll: nats per entry of any kind, densities
    per deviation; costliest: the largest of them. rmse and accuracy are means over columns, the others over entries.
    Of rows that are `alone` [N] the coverage, once more. None where there is nothing to judge.
    """
    known = tuple(attributes)
    numbers: dict[int, list[dict[str, Tensor]]] = {}
    categories: dict[int, list[dict[str, Tensor]]] = {}
    for column, rows, answer in answers:
        x, attribute = truth[rows, column].double(), known[column]
        told = ~x.isnan()
        if not told.any():
            continue
        if isinstance(attribute, Categorical | Binary):
            assert isinstance(answer, Categories)
            found = _of_categories(x.nan_to_num(0.0), answer)
            categories.setdefault(column, []).append({name: score[told] for name, score in found.items()})
        else:
            whole = truth[:, column].double()
            spread = float(whole[~whole.isnan()].std(correction=0))
            delta = bin_width(attribute, whole)
            found = _of_numbers(x.nan_to_num(0.0), attribute, answer, spread, delta)  # type: ignore[arg-type]
            if alone is not None:
                found["alone"] = alone[rows]
            numbers.setdefault(column, []).append({name: score[told] for name, score in found.items()})
    of_numbers = [{name: torch.cat([part[name] for part in parts]) for name in parts[0]} for parts in numbers.values()]
    of_categories = [
        {name: torch.cat([part[name] for part in parts]) for name in parts[0]} for parts in categories.values()
    ]

    def pooled(columns: list[dict[str, Tensor]], name: str) -> float | None:
        return float(torch.cat([scores[name] for scores in columns]).mean()) if columns else None

    pit = torch.cat([scores["pit"] for scores in of_numbers]) if of_numbers else torch.zeros(0)
    apart = [scores["covered"][scores["alone"]] for scores in of_numbers if alone is not None]
    return {
        "entries": sum(len(scores["nll"]) for scores in [*of_numbers, *of_categories]),
        "rmse": _mean([float(scores["squared"].mean().sqrt()) for scores in of_numbers]),
        "accuracy": _mean([float(scores["hit"].mean()) for scores in of_categories]),
        "nll": pooled([*of_numbers, *of_categories], "nll"),
        "costliest": max((float(scores["nll"].max()) for scores in [*of_numbers, *of_categories]), default=None),
        "nll of numbers": pooled(of_numbers, "nll"),
        "nll of categories": pooled(of_categories, "nll"),
        "crps": pooled(of_numbers, "crps"),
        "coverage": pooled(of_numbers, "covered"),
        "coverage alone": _mean(torch.cat(apart).tolist()) if apart else None,
        "entries alone": sum(map(len, apart)) or None,
        "width": pooled(of_numbers, "width"),
        "pit": torch.histc(pit.double(), BINS, 0.0, 1.0).int().tolist(),
    }


def _of_categories(x: Tensor, answer: Categories) -> dict[str, Tensor]:
    probs = answer.probs.double()
    own = probs.gather(1, x.long()[:, None]).squeeze(1)
    return {"hit": (probs.argmax(1) == x.long()).double(), "nll": -own.clamp(min=_SMALLEST).log()}


def _of_numbers(x: Tensor, attribute: Attribute, answer: Numbers, spread: float, delta: float) -> dict[str, Tensor]:
    if isinstance(attribute, Count):
        at = answer.cumulative(x)
        lower, upper = torch.where(x > 0, answer.cumulative((x - 1).clamp(min=0)), 0.0), at
        pit = (lower + upper) / 2
        before = lower
    else:
        lower, upper = answer.cumulative(x - delta / 2), answer.cumulative(x + delta / 2)
        # The probability may leap at x: what lies below is that of the number before.
        at, before = answer.cumulative(x), answer.cumulative(x.nextafter(x.new_tensor(-math.inf)))
        pit = (before + at) / 2
    mass, log_prob = upper - lower, answer.log_prob(x)
    leaps = torch.isin(x, getattr(answer, "atoms", x.new_zeros(0)))
    log_density = torch.where(
        mass > _FEWEST_DIGITS,
        mass.clamp(min=_FEWEST_DIGITS).log() - math.log(delta),
        torch.where(leaps, log_prob - math.log(delta), log_prob),
    )
    tail = (1 - LEVEL) / 2
    levels = [(number + 0.5) / _QUANTILES for number in range(_QUANTILES)]
    pinball = torch.zeros_like(x)
    for level in levels:
        away = x - answer.quantile(level)
        pinball += torch.maximum(level * away, (level - 1) * away)
    return {
        "squared": ((answer.mean - x) / spread).square(),
        "nll": -log_density - math.log(spread),
        "crps": 2 * pinball / _QUANTILES / spread,
        "covered": ((at >= tail) & (before <= 1 - tail)).double(),
        "width": (answer.quantile(1 - tail) - answer.quantile(tail)) / spread,
        "pit": pit.clamp(0.0, 1.0),
    }


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
