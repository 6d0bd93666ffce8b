"""Questions need nothing of a model but the protocol: two models that answer as one implement it like any other.

What a mixture of models must say follows from its members' answers with pencil and paper, for every question.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_graphs import EVERY_KIND, draw_graph
from small_models import TEMPLATES, random_model, template
from torch import Tensor

from gspn.circuits.distributions import MixtureDistribution
from gspn.graphs.batch import Batch
from gspn.hierarchy.stacked import Stacked
from gspn.queries.contract import Answering
from gspn.queries.entries import conditional, conditional_of_one, fill, sample_missing
from gspn.queries.pseudo_gibbs import pseudo_gibbs
from gspn.queries.scoring import sampled_log_probs, score_entries, totals
from gspn.queries.what_if import what_if, what_if_all

WEIGHTS = (0.3, 0.7)
LOG_WEIGHTS = torch.tensor(WEIGHTS, dtype=torch.float64).log()
COLUMNS = {name: column for column, name in enumerate(EVERY_KIND.names)}


def mixed(log_probs: list[Tensor], log_weights: Tensor = LOG_WEIGHTS) -> Tensor:
    return torch.logsumexp(torch.stack(log_probs, dim=-1) + log_weights, dim=-1)


def case(name: str) -> tuple[Stacked, Batch]:
    """A naive Bayes model of three levels and one of the given template with two, on a graph with gaps."""
    one = random_model(EVERY_KIND, 1)
    other = random_model(EVERY_KIND, 2, template=template(name, EVERY_KIND, 3), num_layers=2)
    graph = draw_graph(np.random.default_rng(0), 7, missing=0.3)
    return Stacked((one.hierarchy, other.hierarchy), WEIGHTS), one.collate(graph)


def agree(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found.double(), expected.double(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", TEMPLATES)
def test_conditionals_are_mixtures(name: str) -> None:
    both, batch = case(name)
    vertices, weights = torch.arange(batch.num_vertices), LOG_WEIGHTS.exp()
    for attribute in EVERY_KIND.names:
        ours = conditional_of_one(both, batch, vertices, [attribute])
        theirs = [conditional_of_one(member, batch, vertices, [attribute]) for member in both.members]
        values = torch.ones(batch.num_vertices)
        agree(ours.log_prob(values), mixed([one.log_prob(values) for one in theirs]))
        if attribute != "element":
            agree(ours.mean, weights[0] * theirs[0].mean + weights[1] * theirs[1].mean)
        if isinstance(ours, MixtureDistribution):
            below = [one.cumulative(ours.quantile(0.3)) for one in theirs if isinstance(one, MixtureDistribution)]
            share = weights[0] * below[0] + weights[1] * below[1]
            assert (share >= 0.3 - 1e-9).all()
            least = 0.0 if attribute != "charge" else -torch.inf
            heights = [ours.log_prob((ours.mode + step).clamp_min(least)) for step in (-1.0, 0.0, 1.0)]
            assert (heights[1] >= torch.stack(heights) - 1e-9).all()
            assert torch.isfinite(ours.entropy).all()
    joint = conditional(both, batch, vertices, ["charge", "element"])
    parts = [conditional(member, batch, vertices, ["charge", "element"]) for member in both.members]
    asked = {"charge": 0.5, "element": "N"}
    agree(joint.log_prob(asked), mixed([part.log_prob(asked) for part in parts]))
    # The chain rule holds inside one answer.
    rest = joint.condition({"element": "N"})
    agree(joint.marginal("element").log_prob("N") + rest.log_prob({"charge": 0.5}), joint.log_prob(asked))


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_question_can_be_put_to_two(name: str) -> None:
    both, batch = case(name)
    model: Answering = both
    everywhere = torch.arange(batch.num_vertices)
    filled = fill(model, batch, "mean")
    assert not filled.isnan().any()
    gaps = ~batch.observed
    assert torch.equal(filled[~gaps], batch.x[~gaps])
    means = [fill(member, batch, "mean")[:, 0] for member in both.members]
    agree(filled[gaps[:, 0], 0], (0.3 * means[0] + 0.7 * means[1])[gaps[:, 0]])
    draws = sample_missing(model, batch, 3, torch.Generator().manual_seed(0))
    assert draws.shape == (3, *batch.x.shape)
    assert not draws.isnan().any()
    assert not pseudo_gibbs(model, batch, torch.ones_like(gaps), 2, 2, torch.Generator().manual_seed(0)).isnan().any()
    entries = score_entries(model, batch, everywhere)
    assert torch.equal(entries.isnan(), gaps)
    agree(totals(model, batch, everywhere)[:, 0], model.log_prob_hidden(batch, everywhere))
    changed = batch.x.clone()
    changed[0, 1] = 2.0
    answer = what_if(model, batch, replace(batch, x=changed), torch.tensor([0]), torch.zeros(0, dtype=torch.long), True)
    column = COLUMNS["element"]
    every = what_if_all(model, batch, column, torch.tensor([2.0]).double(), torch.tensor([0]), True)
    agree(every[0, 0], answer.total)


def test_samples_of_a_dataset() -> None:
    from gspn import pack

    both, _ = case("naive Bayes")
    dataset = pack([draw_graph(np.random.default_rng(seed), 5) for seed in range(4)], EVERY_KIND)
    log_probs, observed = sampled_log_probs(both, dataset, 8, seed=0)
    theirs = [sampled_log_probs(member, dataset, 8, seed=0) for member in both.members]
    agree(log_probs, mixed([one[0] for one in theirs]))
    assert torch.equal(observed, theirs[0][1])
