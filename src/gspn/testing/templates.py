"""The suite of templates: what a template computes, against all its induced trees, one by one.

Leaves have no part in it: a template is given log-densities, and so is the oracle.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import scipy.stats
import torch
from torch import Tensor

from gspn.attributes import Schema
from gspn.circuits.structure import Leaf, Sum, walk
from gspn.circuits.templates import Template
from gspn.testing import oracle
from gspn.testing.running import Suite
from gspn.testing.translation import oracle_circuit

ROWS, DRAWS = 6, 6_000


@dataclass(frozen=True)
class TemplateCase:
    """A template over a schema; its `structure` says which circuit it stands for, which the oracle enumerates."""

    schema: Schema
    build: Callable[[Schema], Template] = field(repr=False)


class TemplateSuite(Suite):
    """Subclass it under a name that begins with Test, and set `case`."""

    case: TemplateCase

    def test_scopes_and_leaves_are_those_of_the_structure(self) -> None:
        template, schema = self.case.build(self.case.schema), self.case.schema
        counts: dict[tuple[int, ...], int] = {}
        for unit in walk(template.structure):
            if isinstance(unit, Leaf):
                scope = tuple(sorted(map(schema.index, unit.attributes)))
                counts[scope] = counts.get(scope, 0) + 1
        assert tuple(template.scopes) == tuple(sorted(counts)), "scopes are in ascending order"
        assert tuple(template.leaf_counts) == tuple(counts[scope] for scope in template.scopes)
        assert template.num_sum_units == sum(isinstance(unit, Sum) for unit in walk(template.structure))

    def test_values_and_posteriors(self) -> None:
        template, log_densities, log_prior = self._drawn()
        inputs = template.join(log_densities)
        log_value, posterior = template.log_value(inputs, log_prior), template.posterior(inputs, log_prior)
        for row, model in self._models(template, log_densities):
            total, expected = oracle.explain(model, 0, log_prior[row].exp().numpy(), self._nothing(model))
            assert abs(log_value[row].item() - total) <= 1e-10 * max(1, abs(total)), "log_value"
            np.testing.assert_allclose(posterior[row].numpy(), expected, rtol=0, atol=1e-10, err_msg="posterior")

    def test_weights_of_leaves(self) -> None:
        """The share of all induced trees, weighted, that reach each leaf."""
        template, log_densities, log_prior = self._drawn()
        found = template.leaf_log_weights(template.join(log_densities), log_prior)
        for row, model in self._models(template, log_densities):
            expected = [np.zeros(count) for count in template.leaf_counts]
            for leaves, probability in self._outcomes(template, model, log_prior[row]).items():
                for scope, leaf in enumerate(leaves):
                    if leaf >= 0:
                        expected[scope][leaf] += probability
            for own, theirs in zip(found, expected, strict=True):
                np.testing.assert_allclose(own[row].exp().numpy(), theirs, rtol=0, atol=1e-10)

    def test_leaves_are_drawn_jointly(self) -> None:
        """One for every scope that is reached, together as likely as the trees that reach them all."""
        template, log_densities, log_prior = self._drawn(scale=1.0)
        for row, model in itertools.islice(self._models(template, log_densities), 2):
            inputs = template.join([d[row : row + 1].expand(DRAWS, -1) for d in log_densities])
            prior = log_prior[row : row + 1].expand(DRAWS, -1, -1)
            drawn = template.draw_leaves(inputs, prior, torch.Generator().manual_seed(0))
            found: dict[tuple[int, ...], int] = {}
            for leaves in torch.stack(drawn, dim=1).tolist():
                found[tuple(leaves)] = found.get(tuple(leaves), 0) + 1
            expected = self._outcomes(template, model, log_prior[row])
            assert set(found) <= set(expected), "leaves are drawn that no induced tree reaches together"
            likely = [leaves for leaves, probability in expected.items() if DRAWS * probability > 5]
            rest = DRAWS - sum(found.get(leaves, 0) for leaves in likely)
            seen = [found.get(leaves, 0) for leaves in likely] + [rest]
            shares = [expected[leaves] for leaves in likely]
            wanted = [DRAWS * share for share in shares] + [max(DRAWS * (1 - math.fsum(shares)), 1e-9)]
            if wanted[-1] < 5:  # too few to be counted by themselves
                seen, wanted = [seen[0] + seen[-1], *seen[1:-1]], [wanted[0] + wanted[-1], *wanted[1:-1]]
            if len(seen) > 1:
                assert scipy.stats.chisquare(seen, np.array(wanted) * sum(seen) / sum(wanted)).pvalue > 1e-5

    def test_without_evidence_nothing_is_learned(self) -> None:
        template, _, log_prior = self._drawn()
        inputs = template.join([torch.zeros(ROWS, count).double() for count in template.leaf_counts])
        torch.testing.assert_close(
            template.log_value(inputs, log_prior), torch.zeros(ROWS).double(), rtol=0, atol=1e-12
        )
        torch.testing.assert_close(template.posterior(inputs, log_prior), log_prior.exp(), rtol=0, atol=1e-12)

    def test_gradients_are_derivatives(self) -> None:
        template, log_densities, log_prior = self._drawn(scale=1.0)
        inputs = template.join([d[:2] for d in log_densities]).requires_grad_(), log_prior[:2].clone().requires_grad_()
        assert torch.autograd.gradcheck(template.log_value, inputs)
        assert torch.autograd.gradcheck(template.posterior, inputs)

    def test_rows_do_not_see_each_other(self) -> None:
        template, log_densities, log_prior = self._drawn()
        inputs = template.join(log_densities)
        for row in range(ROWS):
            own = slice(row, row + 1)
            alone = template.posterior(inputs[own], log_prior[own])
            torch.testing.assert_close(alone, template.posterior(inputs, log_prior)[own], rtol=0, atol=1e-12)

    # What the checks are made of.

    def _drawn(self, scale: float = 3.0) -> tuple[Template, list[Tensor], Tensor]:
        """Log-densities [rows, leaves] by scope, and log-priors [rows, S, C]."""
        template, generator = self.case.build(self.case.schema), torch.Generator().manual_seed(0)
        counts = template.leaf_counts
        log_densities = [scale * torch.randn(ROWS, m, generator=generator, dtype=torch.float64) for m in counts]
        states = len(next(unit for unit in walk(template.structure) if isinstance(unit, Sum)).children)
        noise = torch.randn(ROWS, template.num_sum_units, states, generator=generator, dtype=torch.float64)
        return template, log_densities, torch.log_softmax(noise, dim=-1)

    def _models(self, template: Template, log_densities: list[Tensor]) -> Iterator[tuple[int, oracle.Model]]:
        """For every row the oracle with leaves that have these log-densities, whatever the entries are."""
        names, circuit = self.case.schema.names, oracle_circuit(template.structure, self.case.schema)
        scopes = [tuple(names[column] for column in scope) for scope in template.scopes]
        keys: list[oracle.Scope] = [scope[0] if len(scope) == 1 else scope for scope in scopes]
        units, states = template.num_sum_units, 1
        for row in range(ROWS):
            yield (
                row,
                oracle.Model(
                    circuit,
                    dict.fromkeys(names, "continuous"),
                    np.full((units, states), math.nan),
                    np.zeros((0, 1, units, states, states)),
                    {key: {"value": d[row][None].numpy()} for key, d in zip(keys, log_densities, strict=True)},
                    densities={key: lambda leaf, values, codes, context: float(leaf["value"]) for key in keys},
                ),
            )

    def _nothing(self, model: oracle.Model) -> dict[str, oracle.Entry]:
        return dict.fromkeys(model.kinds, (None, "missing"))

    def _outcomes(self, template: Template, model: oracle.Model, log_prior: Tensor) -> dict[tuple[int, ...], float]:
        """The leaf of each scope (-1: none) that trees reach, with their probability."""
        names = self.case.schema.names
        place = {tuple(names[c] for c in scope): i for i, scope in enumerate(template.scopes)}
        priors, nothing = log_prior.exp().numpy(), self._nothing(model)
        trees = list(oracle.induced_trees(model, 0, model.circuit, priors, nothing, None))
        total = oracle.log_sum_exp(tree.log_weight for tree in trees)
        found: dict[tuple[int, ...], float] = {}
        for tree in trees:
            leaves = [-1] * len(place)
            for scope, m in tree.reached:
                leaves[place[oracle.names_of(scope)]] = m
            found[tuple(leaves)] = found.get(tuple(leaves), 0.0) + math.exp(tree.log_weight - total)
        return found
