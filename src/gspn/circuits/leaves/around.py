"""Leaves around those of another family, with a parameter of their own beside: atoms, or gaps as evidence.

Whatever is not said otherwise is as the other family, the `rest`, has it. What belongs here is how the two are told
apart; what the additional parameter means is the business of the families that inherit this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from gspn.circuits.evidence import Context, Evidence
from gspn.circuits.leaves.contract import Leaves, Natural, Rows


class AroundLeaves(Leaves):
    """Leaves with one more parameter than those of `rest`, called `added` in `natural` and `shown` in `export`."""

    added: ClassVar[str]
    shown: ClassVar[str]

    def __init__(self, rest: Leaves) -> None:
        super().__init__(rest.scope, rest.num_levels, rest.num_leaves, context_width=rest.context_width)
        self.rest = rest
        self.exported = (*rest.exported, self.shown)
        self.penalised = rest.penalised

    def of_rest(self, parameters: Mapping[str, Tensor]) -> Natural:
        """The parameters, natural or exported, without the additional one."""
        return {name: value for name, value in parameters.items() if name not in (self.added, self.shown)}

    # Densities and conditionals.

    def conditional(self, natural: Natural, column: int, evidence: Evidence, context: Context | None = None) -> Rows:
        return self.rest.conditional(self.of_rest(natural), column, evidence, context)

    def draw(
        self,
        natural: Natural,
        leaf: Tensor,
        wanted: Tensor,
        evidence: Evidence,
        context: Context | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        return self.rest.draw(self.of_rest(natural), leaf, wanted, evidence, context, generator)

    def expectation(self, natural: Natural, evidence: Evidence, context: Context | None = None) -> list[Tensor]:
        return self.rest.expectation(self.of_rest(natural), evidence, context)

    def uncertainty(self, natural: Natural, weights: Tensor, evidence: Evidence, context: Context | None) -> Tensor:
        return self.rest.uncertainty(self.of_rest(natural), weights, evidence, context)

    def atoms(self) -> dict[str, Tensor]:
        return self.rest.atoms()

    # Learning.

    def prepare_estimates(
        self, evidence: Evidence, weights: Tensor, *, level: int = 0, context: Context | None = None
    ) -> None:
        self.rest.prepare_estimates(evidence, weights, level=level, context=context)

    def widen(self, factor: float) -> None:
        self.rest.widen(factor)

    def log_prior_of_rest(self, natural: Natural, strength: float) -> Tensor:
        """[levels] what the rest's parameters are held against; a family without a prior is not asked for one."""
        if strength or self.rest.penalised:
            return self.rest.log_prior(self.of_rest(natural), strength)
        return natural[self.added].new_zeros(len(natural[self.added]))

    def features(self, x: Tensor) -> Tensor | None:
        return self.rest.features(x)

    # Units.

    def set_units(self, x: Tensor) -> None:
        self.rest.set_units(x)

    def units(self) -> dict[str, Tensor]:
        return self.rest.units()

    def assign_units(self, units: Mapping[str, Any], given: Natural, fitted: bool) -> None:
        self.rest.assign_units(units, self.of_rest(given), fitted)

    def deviations(self, x: Tensor) -> Tensor | None:
        return self.rest.deviations(x)

    # Parameters as people read them.

    def unlike(self, one: Natural, other: Natural) -> str | None:
        if not torch.allclose(one[self.shown], other[self.shown], rtol=1e-4, atol=1e-4):
            return self.shown
        return self.rest.unlike(self.of_rest(one), self.of_rest(other))
