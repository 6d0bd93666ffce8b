"""Checks of how a leaf family learns and is stored: starting points, estimates, gradients, units, parameters.

What it says is likely is checked in `leaf_densities`, what it answers in `leaf_answers`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from gspn.circuits import Context, Evidence, Leaves
from gspn.circuits.leaves import Natural, at_level
from gspn.errors import GSPNError, InputError
from gspn.testing.leaf_case import LeafCase, evidence_of
from gspn.testing.running import Suite, refusal

ROWS = 200


class LeafLearning(Suite):
    """Everything that changes parameters, and everything that reads and writes them."""

    case: LeafCase

    # Gradients and starting points.

    def test_gradients_are_derivatives(self) -> None:
        """Along random directions of all learned parameters, by central differences; with gaps, which add nothing."""
        case, leaves = self.case, self.case.leaves()
        rows = list(case.rows())
        evidence = evidence_of(rows)
        for level, _, row, given in case.levels(leaves):
            context = case.context_of(row, given, len(rows), torch.float64)

            def value(level: int = level, context: Context | None = context) -> Tensor:
                # A smooth function of bounded size: far out, differences of huge densities would round.
                found = leaves.log_prob(at_level(leaves.natural(), level), evidence, context)
                return torch.asinh(found).sum()

            parameters = list(leaves.parameters())
            gradients = torch.autograd.grad(value(), parameters, allow_unused=True)
            assert any(g is not None for g in gradients), "the densities depend on no learned parameter"
            for seed in range(3):
                self._check_direction(value, parameters, gradients, seed)

    def _check_direction(
        self, value: object, parameters: list[torch.nn.Parameter], gradients: tuple[Tensor | None, ...], seed: int
    ) -> None:
        assert callable(value)
        generator, step = torch.Generator().manual_seed(seed), 1e-5
        directions = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parameters]
        slope = sum(float((g * d).sum()) for g, d in zip(gradients, directions, strict=True) if g is not None)
        assert all(g is None or bool(torch.isfinite(g).all()) for g in gradients), "a gradient is not finite"
        ends = []
        with torch.no_grad():
            for sign in (1, -2, 1):  # forward, back through the start, and home
                for p, d in zip(parameters, directions, strict=True):
                    p.add_(sign * step * d)
                ends.append(float(value()))
        difference = (ends[0] - ends[1]) / (2 * step)
        assert abs(slope - difference) <= 1e-4 * max(1.0, abs(difference)), f"gradient {slope}, difference {difference}"

    def test_a_start_is_finite(self) -> None:
        """From rows with gaps, from none at all, from constant ones; the generator fixes what is drawn."""
        first, _ = self._groups()
        constant = first[:1].expand(20, -1)
        for groups in ([first, first[:0]], [first[:0], first[:0]], [constant, first]):
            groups = (groups * self.case.shape[1])[: self.case.shape[1]]
            found = []
            for _ in range(2):
                leaves = self.case.empty()
                leaves.set_units(first)
                leaves.start(groups, torch.Generator().manual_seed(3))
                assert all(bool(torch.isfinite(p).all()) for p in leaves.parameters()), "a parameter is not finite"
                log_prob = leaves.log_prob(at_level(leaves.natural(), 0), Evidence(first))
                assert bool(torch.isfinite(log_prob).all()), "a log-density is not finite"
                gradients = torch.autograd.grad(log_prob.sum(), list(leaves.parameters()), allow_unused=True)
                assert all(g is None or bool(torch.isfinite(g).all()) for g in gradients), "a gradient is not finite"
                found.append([p.detach().clone() for p in leaves.parameters()])
            assert all(torch.equal(a, b) for a, b in zip(*found, strict=True)), "the generator does not fix the start"

    # Estimates.

    def test_an_estimate_is_not_beaten(self) -> None:
        """The weighted estimate of a level, with and without a prior; a family may refuse it (NotImplementedError)."""
        for level, strength in ((0, 0.0), (1, 0.0), (0, 3.0)):
            leaves = self.case.leaves()
            x, weights = self._groups()
            weights = weights.clone()
            weights[:, -1] = 0.0
            context = self._contexts(level, len(x))
            before = [p.detach().clone() for p in leaves.parameters()]

            objective = partial(self._objective, leaves, x, weights, level, context, strength)
            try:
                for _ in range(self._steps()):
                    last = objective()
                    leaves.estimate(Evidence(x), weights, level=level, context=context, prior=strength)
                    gain = objective() - last
                    assert not gain < -1e-9 * max(1.0, abs(last)), f"an estimate lowers the objective by {-gain}"
                    if gain <= 1e-10 * max(1.0, abs(last)):
                        break
            except NotImplementedError:
                return
            except InputError:
                assert strength > 0, "an estimate without a prior is refused as if there were one"
                continue
            self._check_untouched(leaves, before, level, strength)
            self._check_best(leaves, objective, level, strength)

    def _objective(
        self, leaves: Leaves, x: Tensor, weights: Tensor, level: int, context: Context | None, strength: float
    ) -> float:
        with torch.no_grad():
            natural = at_level(leaves.natural(), level)
            total = (weights * leaves.log_prob(natural, Evidence(x), context)[0]).sum()
            penalised = strength > 0 or leaves.penalised
            return float(total + (leaves.log_prior(natural, strength)[0] if penalised else 0.0))

    def _steps(self) -> int:
        case = self.case
        if case.steps is not None:
            return case.steps
        return 100 if case.contexts or len(case.attributes) > 1 else 1

    def _check_untouched(self, leaves: Leaves, before: list[Tensor], level: int, strength: float) -> None:
        for parameter, old in zip(leaves.parameters(), before, strict=True):
            for other in range(leaves.num_levels):
                assert other == level or torch.equal(parameter[other], old[other]), f"level {other} has changed"
            if strength == 0 and parameter.shape[1] == leaves.num_leaves:  # what leaves share has all their weight
                assert torch.equal(parameter[level, -1], old[level, -1]), "a leaf without any weight has changed"

    def _check_best(self, leaves: Leaves, objective: Callable[[], float], level: int, strength: float) -> None:
        best, generator = objective(), torch.Generator().manual_seed(1)
        assert best == best, "the objective of the estimate is not a number"
        for size in (1e-3, 1e-2, 0.1, 0.5):
            for _ in range(8):
                before = [p.detach().clone() for p in leaves.parameters()]
                with torch.no_grad():
                    for p in leaves.parameters():
                        change = size * torch.randn(p[level].shape, generator=generator, dtype=p.dtype)
                        if strength == 0 and p.shape[1] == leaves.num_leaves:
                            change[-1] = 0.0  # it has no weight and keeps what it has, whatever is held against that
                        p[level] += change
                found = objective()
                assert found <= best + 1e-6 * max(1.0, abs(best)), f"beaten by {found - best} at a distance of {size}"
                with torch.no_grad():
                    for p, old in zip(leaves.parameters(), before, strict=True):
                        p.copy_(old)

    # Parameters and units.

    def test_parameters_come_back(self) -> None:
        case, leaves = self.case, self.case.leaves()
        exported = leaves.export(leaves.natural())
        assert tuple(exported) == tuple(leaves.exported), f"{list(exported)} are exported, not {list(leaves.exported)}"
        for key, value in case.parameters().items():
            assert exported[key].dtype == torch.float64, f"'{key}' is exported in {exported[key].dtype}"
            torch.testing.assert_close(exported[key].detach(), value, rtol=1e-8, atol=1e-8)
        again = case.empty()
        again.load_state_dict(leaves.state_dict())
        self._check_same(leaves, again)

    def test_wrong_parameters_are_refused(self) -> None:
        """By name, shape and number; the message names the attributes."""
        leaves, name = self.case.leaves(), self.case.attributes[0].name
        given = self.case.parameters()
        key, value = next(iter(given.items()))
        faults = {
            "a parameter too few": {k: v for k, v in given.items() if k != key},
            "a parameter too many": {**given, "another": value},
            "a leaf too many": {**given, key: torch.cat([value, value[:, :1]], dim=1)},
            "a number that is none": {**given, key: torch.full_like(value, torch.nan)},
        }
        for fault, wrong in faults.items():
            with refusal(fault, GSPNError, naming=name):
                leaves.check_exported(wrong, leaves.num_levels)

    def test_units_change_no_density(self) -> None:
        """Measured in other units, the same parameters mean the same; units come back as they are exported."""
        case, leaves = self.case, self.case.leaves()
        units = leaves.units()
        x, _ = self._groups()
        distance = leaves.deviations(x)
        if distance is not None:
            assert set(units) == {a.name for a in leaves.scope}, "what can be too far away is measured in units"
            assert distance.shape == x.shape
        if not units:
            with refusal("units of a family without any", GSPNError):
                leaves.assign_units({case.attributes[0].name: [0.0, 1.0]}, case.parameters(), True)
            return
        other = case.empty()
        shifted = {name: [pair[0].item() + 0.7, pair[1].item() * 0.5] for name, pair in units.items()}
        other.assign_units(shifted, case.parameters(), True)
        other.assign(case.parameters())
        for name, (center, spread) in shifted.items():
            assert other.units()[name].tolist() == [center, spread], "units do not come back"
        self._check_same(leaves, other, 1e-8)

    def test_units_are_taken_from_data(self) -> None:
        leaves = self.case.empty()
        x, _ = self._groups()
        leaves.set_units(x)
        for column, attribute in enumerate(leaves.scope):
            if attribute.name in leaves.units():
                center, spread = leaves.units()[attribute.name].tolist()
                known = x[:, column][~torch.isnan(x[:, column])]
                assert known.min() <= center <= known.max(), f"the centre of '{attribute.name}' is outside of the data"
                assert spread > 0

    def test_everything_learned_is_in_natural_parameters(self) -> None:
        """Answers keep natural parameters and must not change when the family is trained on."""
        case, leaves = self.case, self.case.leaves()
        rows = list(case.rows())
        for _, natural, row, given in case.levels(leaves):
            context = case.context_of(row, given, len(rows), torch.float64)
            kept = {key: value.detach().clone() for key, value in natural.items()}
            before = leaves.log_prob(kept, evidence_of(rows), context)
            trained = copy.copy(leaves)
            with torch.no_grad():
                state = [p.detach().clone() for p in leaves.parameters()]
                for p in leaves.parameters():
                    p.add_(0.37)
                after = trained.log_prob(kept, evidence_of(rows), context)
                for p, old in zip(leaves.parameters(), state, strict=True):
                    p.copy_(old)
            assert torch.equal(before, after), "densities depend on learned parameters that `natural` does not hold"

    def test_natural_parameters_have_levels_and_leaves(self) -> None:
        leaves = self.case.leaves()
        for key, value in leaves.natural().items():
            assert value.shape[:2] == (leaves.num_levels, leaves.num_leaves), f"'{key}' has shape {list(value.shape)}"

    def test_a_shortcut_combines_levels_or_is_refused(self) -> None:
        leaves = self.case.leaves()
        weights = torch.full((leaves.num_levels,), 1 / leaves.num_levels, dtype=torch.float64)
        try:
            combined = leaves.combine(leaves.natural(), weights)
        except GSPNError as error:
            assert self.case.attributes[0].name in str(error), f"the refusal names no attribute: {error}"
            return
        assert set(combined) == set(leaves.natural()), "a combined level has other parameters"
        assert all(len(value) == 1 for value in combined.values()), "several levels are combined to one"
        alike = {key: value[:1].expand(len(value), *value.shape[1:]) for key, value in leaves.natural().items()}
        only = torch.zeros_like(weights)
        only[0] = 1.0
        one = leaves.combine(alike, only)
        rows = list(self.case.rows())
        first = at_level(leaves.natural(), 0)
        ours, theirs = (leaves.log_prob(natural, evidence_of(rows)) for natural in (one, first))
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)

    def test_memory_is_told(self) -> None:
        assert self.case.leaves().bytes_per_vertex() > 0

    def test_features_are_rows(self) -> None:
        leaves = self.case.leaves()
        x, _ = self._groups()
        found = leaves.features(x)
        assert found is None or (found.ndim == 2 and len(found) == len(x)), "features are [n, p], or None"

    # What the checks are made of.

    def _groups(self) -> tuple[Tensor, Tensor]:
        """Rows drawn from all leaves of level 0, a tenth of the entries missing, and weights [n, leaves]."""
        leaves = self.case.leaves()
        generator, size = torch.Generator().manual_seed(0), len(self.case.attributes)
        which = torch.randint(leaves.num_leaves, (ROWS,), generator=generator)
        nothing = Evidence(torch.full((ROWS, size), torch.nan).double())
        natural: Natural = at_level(leaves.natural(), 0)
        x = leaves.draw(natural, which, torch.ones(ROWS, size, dtype=torch.bool), nothing, None, generator).detach()
        x[torch.rand(ROWS, size, generator=generator) < 0.1] = torch.nan
        weights = torch.rand(ROWS, leaves.num_leaves, generator=generator, dtype=torch.float64)
        return x, weights

    def _contexts(self, level: int, rows: int) -> Context | None:
        if not self.case.contexts or level == 0:
            return None
        mean = torch.randn(rows, self.case.context_width, generator=torch.Generator().manual_seed(2)).double()
        present = torch.arange(rows) % 7 > 0  # some have received nothing
        return Context(mean * present[:, None], present)

    def _check_same(self, one: Leaves, other: Leaves, tolerance: float = 0.0) -> None:
        rows = list(self.case.rows())
        pairs = zip(self.case.levels(one), self.case.levels(other), strict=True)
        for (_, mine, row, given), (_, theirs, _, _) in pairs:
            context = self.case.context_of(row, given, len(rows), torch.float64)
            ours = one.log_prob(mine, evidence_of(rows), context)
            torch.testing.assert_close(
                other.log_prob(theirs, evidence_of(rows), context), ours, rtol=tolerance, atol=tolerance
            )
