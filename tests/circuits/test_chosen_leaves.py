"""Which leaf is it? Weights of leaves are derivatives, and leaves of all attributes are drawn jointly."""

from __future__ import annotations

import numpy as np
import scipy.stats
import torch
from small_circuits import CIRCUITS, EXACT, PAIR, C, compiled, draw, over_circuits

from gspn.circuits.templates import NaiveBayes


@over_circuits
def test_the_weights_of_leaves_are_derivatives(name: str) -> None:
    """P(x_a, evidence) is linear in a's leaves, so their weights are ∂ log R / ∂ log leaf, which sum to 1."""
    for template in (compiled(name), NaiveBayes(CIRCUITS[name][0], C)):
        log_densities, log_prior = draw(template, 5)
        for column in range(len(log_densities)):
            evidence = [torch.zeros_like(d) if i == column else d for i, d in enumerate(log_densities)]
            evidence[column].requires_grad_()
            inputs = template.join(evidence)
            (expected,) = torch.autograd.grad(template.log_value(inputs, log_prior).sum(), evidence[column])
            weights = template.leaf_log_weights(inputs.detach(), log_prior)[column]
            torch.testing.assert_close(weights.exp(), expected, rtol=EXACT, atol=EXACT)
            torch.testing.assert_close(weights.exp().sum(1), torch.ones(5).double(), rtol=EXACT, atol=EXACT)


@over_circuits
def test_the_weight_of_a_leaf_that_is_ruled_out_is_not_clamped(name: str) -> None:
    """Evidence of e⁻²⁰⁰⁰: log P(x_a, evidence) from the weights is log R itself, whatever leaf explains x_a."""
    template = compiled(name)
    log_densities, log_prior = draw(template, 4, scale=2000.0)
    for column, own in enumerate(log_densities):
        evidence = [torch.zeros_like(d) if i == column else d for i, d in enumerate(log_densities)]
        rest = template.join(evidence)
        weights = template.leaf_log_weights(rest, log_prior)[column]
        found = template.log_value(rest, log_prior) + torch.logsumexp(weights + own, dim=1)
        torch.testing.assert_close(
            found, template.log_value(template.join(log_densities), log_prior), rtol=1e-11, atol=0
        )


@over_circuits
def test_leaves_are_drawn_jointly(name: str) -> None:
    """Every attribute's leaves as often as they weigh; pairs of attributes as the circuit joins them."""
    n = 20_000
    template = compiled(name)
    log_densities, log_prior = draw(template, 1, scale=1.0)
    inputs = template.join(log_densities)
    weights = [w.exp()[0].numpy() for w in template.leaf_log_weights(inputs, log_prior)]
    drawn = template.draw_leaves(inputs.expand(n, -1), log_prior.expand(n, -1, -1), torch.Generator().manual_seed(1))
    for leaves, expected in zip(drawn, weights, strict=True):
        found = np.bincount(leaves.numpy(), minlength=len(expected))
        likely = expected > 1e-9
        assert found[~likely].sum() == 0
        if likely.sum() > 1:
            assert scipy.stats.chisquare(found[likely], n * expected[likely] / expected[likely].sum()).pvalue > 1e-4
    if len(drawn) > 1:
        # The second attribute's leaf given one of the first's: force the first and compare the weights.
        forced = int(np.bincount(drawn[0].numpy()).argmax())
        only = torch.full_like(log_densities[0], -1e9)
        only[:, forced] = 0.0
        expected = template.leaf_log_weights(template.join([only, *log_densities[1:]]), log_prior)[1].exp()[0].numpy()
        among = drawn[1][drawn[0] == forced].numpy()
        found, likely = np.bincount(among, minlength=len(expected)), expected > 1e-9
        assert found[~likely].sum() == 0
        if likely.sum() > 1:
            scaled = len(among) * expected[likely] / expected[likely].sum()
            assert scipy.stats.chisquare(found[likely], scaled).pvalue > 1e-4


def test_no_rows_have_no_leaves() -> None:
    for template in (NaiveBayes(PAIR, C), compiled("inner sums")):
        log_densities, log_prior = draw(template, 0)
        inputs = template.join(log_densities)
        assert all(len(leaf) == 0 for leaf in template.draw_leaves(inputs, log_prior, None))
        assert all(len(weight) == 0 for weight in template.leaf_log_weights(inputs, log_prior))
