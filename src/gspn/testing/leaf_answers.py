"""Checks of what a leaf family answers: conditionals, moments, quantiles, modes, entropies, draws and expectations.

All are measured against the family's own densities, which `leaf_densities` has checked against independent ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import scipy.stats
import torch
from torch import Tensor

from gspn.attributes import Binary, Categorical
from gspn.circuits import Context, Evidence, Leaves
from gspn.circuits.components import Components
from gspn.circuits.leaves import Natural, message_width
from gspn.errors import InputError
from gspn.testing.leaf_case import Array, LeafCase, evidence_of
from gspn.testing.running import Suite

INTEGRAL = 1e-4
"""How exact moments over a grid are asked to be, in deviations."""

QUANTILES = (1e-3, 0.05, 0.3, 0.5, 0.8, 0.999)
DRAWS = 4_000
SURE = 1e-5
"""Probability below which a test of draws takes them for wrong; the seed is fixed, so luck happens once."""


class LeafAnswers(Suite):
    """Conditionals are ratios of densities, and everything that is asked of them follows from their densities."""

    case: LeafCase

    def test_a_conditional_is_joint_over_marginal(self) -> None:
        case, leaves = self.case, self.case.leaves()
        for natural, column, evidence, context in self._questions(leaves):
            components = Components([leaves.conditional(natural, column, evidence, context)])
            marginal = leaves.log_prob(natural, evidence, context)[0]
            for place in case.places(leaves.scope[column]):
                x = evidence.x.clone()
                x[:, column] = place
                joint = leaves.log_prob(natural, evidence.having(x), context)[0]
                found = components.log_density(x[:, column]).expand(len(x), -1)
                torch.testing.assert_close(found, (joint - marginal).detach(), rtol=1e-8, atol=1e-8)

    def test_moments_are_integrals(self) -> None:
        for components, grid, weights, rows in self._ordered():
            density = _densities(components, grid, rows)
            mean, variance = components.mean().expand(rows, -1).numpy(), components.variance().expand(rows, -1).numpy()
            first = np.einsum("p,nps->ns", weights * grid, density)
            with np.errstate(invalid="ignore", over="ignore"):
                centred = (grid[None, :, None] - first[:, None, :]) ** 2
                second = np.einsum("p,nps,nps->ns", weights, density, centred)
            scale = np.sqrt(np.where(np.isfinite(variance), variance, 1.0))
            np.testing.assert_array_less(np.abs(mean - first), INTEGRAL * (scale + 1e-9), err_msg="mean")
            near = np.abs(variance - second) <= 1e-4 * np.abs(second) + 1e-12
            assert (near | ~np.isfinite(variance)).all(), f"variance {variance} instead of {second}"

    def test_quantiles_invert_the_cumulative_probability(self) -> None:
        for components, grid, weights, rows in self._ordered():
            density = _densities(components, grid, rows)
            below = np.cumsum(weights[None, :, None] * density, axis=1)
            for q in QUANTILES:
                found = components.quantile(q).expand(rows, -1)
                for leaf in range(found.shape[1]):
                    at = components.cumulative(found[:, leaf])[:, leaf].numpy()
                    if components.attribute.kind == "continuous" and not len(components.atoms):
                        np.testing.assert_allclose(at, q, rtol=1e-6, atol=1e-9)
                        continue
                    lower, rounding = found[:, leaf] - 1, 1e-12
                    if len(components.atoms):
                        lower, rounding = torch.nextafter(found[:, leaf], torch.tensor(-torch.inf).double()), 1e-9
                    before = components.cumulative(lower)[:, leaf].numpy()
                    assert (at >= q - rounding).all(), f"the {q}-quantile {found[:, leaf]} is too small"
                    assert (before < q + rounding).all(), f"the {q}-quantile {found[:, leaf]} is too large"
            if components.attribute.kind != "continuous":
                for place in (0, 1, len(grid) // 20):
                    found = components.cumulative(torch.full((rows,), grid[place]))
                    np.testing.assert_allclose(found.numpy(), below[:, place], rtol=0, atol=1e-9)
            else:
                middle = components.quantile(0.5).expand(rows, -1).numpy()
                for row, leaf in itertools.product(range(rows), range(middle.shape[1])):
                    inside = grid <= middle[row, leaf]
                    mass = (weights * density[row, :, leaf])[inside].sum()
                    below_or_at = components.cumulative(torch.from_numpy(middle[:, leaf]))[row, leaf]
                    assert len(components.atoms) or abs(below_or_at - 0.5) < 1e-6
                    assert abs(mass - below_or_at) < 0.01, f"{mass} of the density is below the median, not a half"

    def test_modes_are_nowhere_exceeded(self) -> None:
        """Of every leaf by itself, and of mixtures of them."""
        for components, grid, _, rows in self._every_kind():
            log_density = np.log(np.maximum(_densities(components, grid, rows), 1e-300))
            count = log_density.shape[2]
            for weights in _mixtures(rows, count):
                mode = _mode(components, weights)
                self._check_place(components, weights, mode)
                with np.errstate(divide="ignore"):
                    on_grid = np.logaddexp.reduce(np.log(weights.numpy())[:, None, :] + log_density, axis=2)
                at_mode = torch.logsumexp(weights.log() + components.log_density(mode), dim=1).numpy()
                atom = np.isin(grid, components.atoms.numpy())
                at_mode = np.where(np.isin(mode.numpy(), components.atoms.numpy()), np.inf, at_mode)
                highest = np.where(atom, -np.inf, on_grid).max(1)
                assert (at_mode >= highest - 1e-6).all(), (
                    f"log-density {at_mode} at the modes {mode.tolist()}, but {highest} at {grid[on_grid.argmax(1)]}"
                )

    def _check_place(self, components: Components, weights: Tensor, mode: Tensor) -> None:
        """With atoms, the mode is the likeliest of them, or elsewhere if that is likelier."""
        if not len(components.atoms):
            return
        log_density = [components.log_density(value.expand(len(weights))) for value in components.atoms]
        masses = torch.stack([(weights * one.exp()).sum(1) for one in log_density], dim=1)
        places = torch.cat([masses, 1 - masses.sum(1, keepdim=True)], dim=1)
        which = torch.where(mode[:, None] == components.atoms, 1, 0)
        chosen = torch.where(which.any(1), which.argmax(1), len(components.atoms))
        found, largest = places.gather(1, chosen[:, None])[:, 0], places.amax(1)
        assert bool((found >= largest - 1e-9).all()), f"a probability of {found} at the modes, but {largest} elsewhere"

    def test_entropies_are_integrals(self) -> None:
        for components, grid, weights, rows in self._ordered():
            density = _densities(components, grid, rows)
            for shares in _mixtures(rows, density.shape[2]):
                mixed = np.einsum("nc,npc->np", shares.numpy(), density)
                with np.errstate(divide="ignore", invalid="ignore"):
                    terms = np.where(mixed > 0, -mixed * np.log(np.maximum(mixed, 1e-300)), 0.0)
                found = components.entropy(shares).numpy()
                np.testing.assert_allclose(found, terms @ weights, rtol=1e-4, atol=1e-4)

    def test_samples_follow_the_density(self) -> None:
        for components, _, _, rows in self._every_kind():
            for row in range(min(rows, 2)):
                drawn = components[torch.full((DRAWS,), row)].sample(DRAWS, _generator(row))
                assert drawn.shape[0] == DRAWS
                for leaf in range(drawn.shape[1]):
                    shares = _positions(components, drawn[:, leaf], row, leaf)
                    assert _uniform(shares), f"draws of leaf {leaf} do not follow its density"
            together = components.sample(rows, _generator(0))
            assert len(together) == rows, "a draw for every row"

    def test_draws_are_joint(self) -> None:
        """Each entry, given those drawn before it, has its conditional distribution; what is known stays."""
        leaves = self.case.leaves()
        for _, natural, row, given in self.case.levels(leaves):
            context = self.case.context_of(row, given, DRAWS, torch.float64)
            size = len(leaves.scope)
            nothing = Evidence(torch.full((DRAWS, size), torch.nan).double(), torch.ones(DRAWS, size).bool())
            for leaf in range(leaves.num_leaves):
                which = torch.full((DRAWS,), leaf)
                wanted = torch.ones(DRAWS, size, dtype=torch.bool)
                x = leaves.draw(natural, which, wanted, nothing, context, _generator(leaf)).detach()
                assert x.shape == (DRAWS, size)
                assert not torch.isnan(x).any()
                for column in range(size):
                    before = nothing.having(torch.where(torch.arange(size) < column, x, torch.nan))
                    rows = leaves.conditional(natural, column, before, context)
                    shares = _positions(Components([rows]), x[:, column], None, leaf)
                    assert _uniform(shares), f"draws of '{leaves.scope[column].name}' are not those of leaf {leaf}"
                    only = (torch.arange(size) == column).expand(DRAWS, -1)
                    kept = leaves.draw(natural, which, only, before, context, _generator(7))
                    known = before.known
                    assert torch.equal(kept[known], before.x[known]), "a draw changes entries that are known"

    def test_expectations(self) -> None:
        """Known entries are told as they are; others by the mean of what would be told, given those known."""
        leaves = self.case.leaves()
        for natural, column, evidence, context in self._questions(leaves):
            told = leaves.expectation(natural, evidence, context)
            assert [t.shape[-1] for t in told] == [message_width(attribute) for attribute in leaves.scope]
            for i, attribute in enumerate(leaves.scope):
                found = told[i].detach().double().expand(len(evidence), leaves.num_leaves, -1)
                if i != column:
                    for row in evidence.known[:, i].nonzero().squeeze(1).tolist():
                        expected = self._told(leaves, i, evidence.x[row, i : i + 1].numpy())
                        torch.testing.assert_close(
                            found[row], torch.from_numpy(expected).expand_as(found[row]), rtol=1e-6, atol=1e-6
                        )
                    continue
                components = Components([leaves.conditional(natural, column, evidence, context)])
                grid, weights = self.case.grid(attribute, 8_001)
                density = _densities(components, grid, len(evidence))
                expected = np.einsum("p,nps,pk->nsk", weights, density, self._told(leaves, i, grid))
                np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)

    def test_uncertainties(self) -> None:
        """The covariance of what would be told, averaged over leaves; 0 of what is known. Some families know none."""
        leaves = self.case.leaves()
        for natural, column, evidence, context in self._questions(leaves):
            noise = torch.randn(len(evidence), leaves.num_leaves, generator=_generator(3), dtype=torch.float64)
            weights = torch.softmax(noise, dim=1)
            try:
                found = leaves.uncertainty(natural, weights, evidence, context).detach()
            except InputError:
                return
            widths = [message_width(attribute) for attribute in leaves.scope]
            assert found.shape == (len(evidence), sum(widths), sum(widths)), f"the shape is {list(found.shape)}"
            torch.testing.assert_close(found, found.mT, rtol=1e-9, atol=1e-12)
            known = evidence.known.repeat_interleave(torch.tensor(widths), dim=1)
            assert bool((found[known] == 0).all()), "a known entry is uncertain"
            components = Components([leaves.conditional(natural, column, evidence, context)])
            grid, steps = self.case.grid(leaves.scope[column], 8_001)
            density = steps[:, None] * _densities(components, grid, len(evidence))
            told = self._told(leaves, column, grid)
            mean = np.einsum("nps,pk->nsk", density, told)
            with np.errstate(invalid="ignore", over="ignore"):
                around = told[None, None] - mean[:, :, None]
                expected = np.einsum("ns,nps,nspa,nspb->nab", weights.numpy(), density, around, around, optimize=True)
            own = slice(sum(widths[:column]), sum(widths[: column + 1]))
            np.testing.assert_allclose(found[:, own, own].numpy(), expected, rtol=1e-4, atol=1e-6)

    # What the checks are made of.

    def _told(self, leaves: Leaves, column: int, values: Array) -> Array:
        """[P, width] what known values of an attribute are told as."""
        attribute = leaves.scope[column]
        if isinstance(attribute, Categorical):
            values = np.eye(len(attribute.categories))[values.astype(int)]
            return values
        if attribute.kind == "continuous":
            center, spread = leaves.units().get(attribute.name, torch.tensor([0.0, 1.0])).tolist()
            values = (values - center) / spread
        elif attribute.kind == "count":
            values = np.log1p(values)
        return np.asarray(values, dtype=np.float64)[:, None]

    def _questions(self, leaves: Leaves) -> Iterator[tuple[Natural, int, Evidence, Context | None]]:
        """One level's parameters, an attribute that is asked for, and what is known of the others, with a context."""
        for _, natural, row, given in self.case.levels(leaves):
            for column in range(len(leaves.scope)):
                rows = []
                others = [i for i in range(len(leaves.scope)) if i != column]
                for known in itertools.product([True, False], repeat=len(others)):
                    for pick in (1, 3):
                        values: list[float | None] = [None] * len(leaves.scope)
                        codes = ["hidden"] * len(leaves.scope)
                        for i, is_known in zip(others, known, strict=True):
                            places = self.case.places(leaves.scope[i])
                            values[i] = places[pick % len(places)] if is_known else None
                            codes[i] = "observed" if is_known else "missing"
                        rows.append((values, codes))
                context = self.case.context_of(row, given, len(rows), torch.float64)
                yield natural, column, evidence_of(rows), context

    def _every_kind(self) -> Iterator[tuple[Components, Array, Array, int]]:
        """Conditionals, a grid for their attribute with its weights, and the number of rows."""
        leaves = self.case.leaves()
        for natural, column, evidence, context in self._questions(leaves):
            grid, weights = self.case.grid(leaves.scope[column], 8_001)
            yield Components([leaves.conditional(natural, column, evidence, context)]), grid, weights, len(evidence)

    def _ordered(self) -> Iterator[tuple[Components, Array, Array, int]]:
        """Those of attributes that are answered by mixtures; tables of probabilities need nothing of their leaves."""
        for found in self._every_kind():
            if not isinstance(found[0].attribute, Categorical | Binary):
                yield found


def _mode(components: Components, weights: Tensor) -> Tensor:
    """Of mixtures; where the values are few, a table of their probabilities has it."""
    attribute = components.attribute
    if isinstance(attribute, Categorical | Binary):
        codes = len(attribute.categories) if isinstance(attribute, Categorical) else 2
        probs = torch.stack([(weights * p.exp()).sum(1) for p in components.log_probs(codes)], dim=1)
        return probs.argmax(1).double()
    return components.mode(weights)


def _mixtures(rows: int, count: int) -> Iterator[Tensor]:
    """Weights [rows, leaves]: each leaf by itself, and two mixtures of all."""
    for leaf in range(count):
        yield torch.eye(count, dtype=torch.float64)[leaf].expand(rows, -1).contiguous()
    generator = _generator(5)
    for sharpness in (0.5, 2.0):
        noise = torch.randn(rows, count, generator=generator, dtype=torch.float64)
        yield torch.softmax(sharpness * noise, dim=1)


def _densities(components: Components, grid: Array, rows: int) -> Array:
    """[rows, P, leaves]"""
    found = []
    for row in range(rows):
        own = components[torch.tensor([row])]
        found.append(own.log_density(torch.from_numpy(grid)).exp().numpy())
    return np.asarray(np.nan_to_num(np.stack(found)), dtype=np.float64)


def _positions(components: Components, x: Tensor, row: int | None, leaf: int) -> Array:
    """[n] where draws of a leaf lie among its probability: uniform between 0 and 1 if they follow it.

    A discrete value has an interval, of which a random place is taken. All draws are of one row, or each of its own.
    """
    own = components if row is None else components[torch.tensor([row])]
    if components.attribute.kind == "continuous":
        at = own.cumulative(x)[:, leaf]
        mass = torch.where(torch.isin(x, own.atoms), own.log_density(x)[:, leaf].exp(), 0.0)
        share = torch.rand(len(x), generator=_generator(9), dtype=torch.float64)
        return np.asarray((at - share * mass).numpy(), dtype=np.float64)
    share = torch.rand(len(x), generator=_generator(9), dtype=torch.float64)
    if isinstance(components.attribute, Categorical | Binary):
        codes = int(x.max()) + 1
        probs = torch.stack([p.exp().expand(len(x), -1)[:, leaf] for p in own.log_probs(codes)], dim=1)
        below = (probs * (torch.arange(codes) < x[:, None])).sum(1)
    else:
        below = torch.where(x > 0, own.cumulative((x - 1).clamp_min(0))[:, leaf], 0.0)
    return np.asarray((below + share * own.log_density(x)[:, leaf].exp()).numpy(), dtype=np.float64)


def _uniform(shares: Array) -> bool:
    return bool(scipy.stats.kstest(np.clip(shares, 0, 1), "uniform").pvalue > SURE)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
