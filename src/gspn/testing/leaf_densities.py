"""Checks of what a leaf family says is likely: densities, gaps, what is hidden, and the way to other precisions.

Conditionals and answers are checked in `leaf_answers`, learning and parameters in `leaf_learning`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from gspn.circuits import Context, Evidence, Leaves
from gspn.circuits.leaves import Natural
from gspn.testing.leaf_case import Array, LeafCase, evidence_of
from gspn.testing.running import Suite

INTEGRAL = 1e-6
"""How exact integrals over a grid are asked to be."""


class LeafDensities(Suite):
    """Densities against the independent one, and against themselves: sums, gaps, precisions."""

    case: LeafCase

    def test_log_prob_is_the_density(self) -> None:
        self._compare(torch.float64, lambda value: 1e-9 * max(1.0, abs(value)))

    def test_single_precision_is_close(self) -> None:
        """The parameters are those that float32 has kept; what is left is the arithmetic."""
        self._compare(torch.float32, lambda value: 2e-4 * max(1.0, abs(value)))

    def _compare(self, dtype: torch.dtype, tolerance: Callable[[float], float]) -> None:
        case, leaves = self.case, self.case.leaves(dtype)
        exported = {key: value.detach() for key, value in leaves.export(leaves.natural()).items()}
        rows = list(case.rows())
        for level, natural, context, given in case.levels(leaves):
            received = case.context_of(context, given, len(rows), dtype)
            found = leaves.log_prob(natural, evidence_of(rows), received)
            assert found.shape == (1, len(rows), leaves.num_leaves), f"log_prob has the shape {list(found.shape)}"
            assert found.dtype == dtype, f"log_prob is in {found.dtype} although the parameters are in {dtype}"
            for n, (values, codes) in enumerate(rows):
                for leaf in range(leaves.num_leaves):
                    expected = case.expected(exported, level, leaf, values, codes, context)
                    error = abs(found[0, n, leaf].item() - expected)
                    assert error <= tolerance(expected), (
                        f"level {level}, leaf {leaf}, values {values}, codes {codes}, context {context}: "
                        f"{found[0, n, leaf].item()} instead of {expected}"
                    )

    def test_all_levels_at_once(self) -> None:
        """Families without a context are evaluated for all levels in one go, and rows do not see each other."""
        case, leaves = self.case, self.case.leaves()
        if leaves.context_width:
            return
        rows = list(case.rows())
        together = leaves.log_prob(leaves.natural(), evidence_of(rows))
        assert together.shape == (leaves.num_levels, len(rows), leaves.num_leaves)
        for level, natural, _, _ in case.levels(leaves):
            own = torch.cat([leaves.log_prob(natural, evidence_of([row])) for row in rows], dim=1)[0]
            torch.testing.assert_close(together[level], own, rtol=1e-12, atol=1e-12)

    def test_probabilities_sum_to_one(self) -> None:
        """Over all values; where gaps are evidence, over all values and gaps."""
        self._over_leaves(self._check_total)

    def _check_total(self, leaves: Leaves, natural: Natural, context: Context | None) -> None:
        total, size = np.zeros(leaves.num_leaves), len(leaves.scope)
        patterns = [(False,) * size]
        if leaves.gaps == "informative":
            patterns = list(itertools.product([False, True], repeat=size))
        for gaps in patterns:
            total += self._integral(leaves, natural, context, ["missing" if gap else "observed" for gap in gaps])
        np.testing.assert_allclose(total, 1, rtol=0, atol=INTEGRAL, err_msg="probabilities do not sum to 1")

    def test_a_gap_is_summed_out(self) -> None:
        """An ignorable gap is the integral over its values; an informative one has the mass that observed values lack.

        Given each of some values of the other attributes.
        """
        self._over_leaves(self._check_gaps)

    def _check_gaps(self, leaves: Leaves, natural: Natural, context: Context | None) -> None:
        for column, others in self._others(leaves):
            codes = ["missing" if i == column else "observed" for i in range(len(leaves.scope))]
            gap = self._prob(leaves, natural, context, [(others, codes)])[0]
            values = self._integral(leaves, natural, context, ["observed"] * len(codes), others)
            nothing = self._prob(leaves, natural, context, [(others, _coded(codes, column, "hidden"))])[0]
            if leaves.gaps == "ignorable":
                assert np.array_equal(gap, nothing), "a gap is not the same as nothing, although gaps are ignorable"
                np.testing.assert_allclose(gap, values, rtol=INTEGRAL, atol=INTEGRAL)
            else:
                np.testing.assert_allclose(gap + values, nothing, rtol=INTEGRAL, atol=INTEGRAL)

    def test_hidden_says_nothing(self) -> None:
        """All hidden: exactly 0, whatever gaps mean; a value that is put in for a hidden one sums to what is left."""
        self._over_leaves(self._check_hidden)

    def _check_hidden(self, leaves: Leaves, natural: Natural, context: Context | None) -> None:
        size = len(leaves.scope)
        unknown: list[float | None] = [None] * size
        nothing = self._log_prob(leaves, natural, context, [(unknown, ["hidden"] * size)])
        assert bool((nothing == 0).all()), f"entries that are all hidden have a log-density of {nothing.tolist()}"
        if leaves.gaps == "ignorable":
            return
        gap = self._log_prob(leaves, natural, context, [(unknown, ["missing"] * size)])
        assert bool((gap < 0).all()), "gaps are said to be informative, but one is as likely as nothing at all"
        for column, others in self._others(leaves):
            codes = _coded(["observed"] * size, column, "hidden")
            values = self._integral(leaves, natural, context, codes, others)
            hidden = self._prob(leaves, natural, context, [(others, codes)])[0]
            np.testing.assert_allclose(values, hidden, rtol=INTEGRAL, atol=INTEGRAL)

    def test_the_table_is_the_density(self) -> None:
        """Where a family offers one: the values in order, then a gap."""
        leaves = self.case.leaves()
        table = leaves.table(leaves.natural())
        if table is None:
            return
        assert len(leaves.scope) == 1, "a table is over one attribute"
        places = self.case.places(leaves.scope[0])
        rows = [([place], ["observed"]) for place in places] + [([None], ["missing"])]
        torch.testing.assert_close(table, leaves.log_prob(leaves.natural(), evidence_of(rows)), rtol=0, atol=0)

    # What the checks are made of.

    def _over_leaves(self, check: Callable[[Leaves, Natural, Context | None], None]) -> None:
        leaves = self.case.leaves()
        with torch.no_grad():
            for _, natural, context, given in self.case.levels(leaves):
                check(leaves, natural, self.case.context_of(context, given, 1, torch.float64))

    def _others(self, leaves: Leaves) -> list[tuple[int, list[float | None]]]:
        """Every attribute with values of the others, itself unknown."""
        found: list[tuple[int, list[float | None]]] = []
        for column in range(len(leaves.scope)):
            rows = list(itertools.product(*map(self.case.places, leaves.scope)))
            for row in rows[:: max(1, len(rows) // 3)]:
                others = [None if i == column else value for i, value in enumerate(row)]
                found += [(column, others)]
        return found

    def _integral(
        self,
        leaves: Leaves,
        natural: Natural,
        context: Context | None,
        codes: Sequence[str],
        given: Sequence[float | None] | None = None,
    ) -> Array:
        """[leaves] the integral of the density over all entries that are not missing, or that are not given."""
        wanted = [code != "missing" and (given is None or given[i] is None) for i, code in enumerate(codes)]
        points = 30_001 if sum(wanted) < 2 else 701
        grids = [
            self.case.grid(attribute, points)
            if want
            else (np.array([math.nan if given is None or given[i] is None else given[i]], dtype=float), np.ones(1))
            for i, (attribute, want) in enumerate(zip(leaves.scope, wanted, strict=True))
        ]
        x = np.stack([axis.ravel() for axis in np.meshgrid(*(grid for grid, _ in grids), indexing="ij")], axis=1)
        axes = np.meshgrid(*(weight for _, weight in grids), indexing="ij")
        weights = np.prod([axis.ravel() for axis in axes], axis=0)
        masks = [torch.tensor([code == name for code in codes]).expand(len(x), -1) for name in ("hidden", "missing")]
        received = None if context is None else context[torch.zeros(len(x), dtype=torch.long)]
        found = leaves.log_prob(natural, Evidence(torch.from_numpy(x), *masks), received)[0].exp().detach().numpy()
        # Far out the weights overflow before the density has vanished: what counts is their product.
        return np.asarray(weights @ np.nan_to_num(found), dtype=np.float64)

    def _log_prob(
        self,
        leaves: Leaves,
        natural: Natural,
        context: Context | None,
        rows: Sequence[tuple[Sequence[float | None], Sequence[str]]],
    ) -> Tensor:
        return leaves.log_prob(natural, evidence_of(rows), context)[0].detach()

    def _prob(
        self,
        leaves: Leaves,
        natural: Natural,
        context: Context | None,
        rows: Sequence[tuple[Sequence[float | None], Sequence[str]]],
    ) -> Array:
        return np.asarray(self._log_prob(leaves, natural, context, rows).exp().numpy(), dtype=np.float64)


def _coded(codes: Sequence[str], column: int, code: str) -> list[str]:
    return [code if i == column else other for i, other in enumerate(codes)]
