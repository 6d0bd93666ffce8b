"""Gaussian leaves whose mean regresses on what the neighbours are expected to have: μ_i + B_i · m.

Level 0, and vertices that receive nothing, have μ_i alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gspn.circuits import Context, Evidence, Leaves
from gspn.circuits.leaves import GaussianLeaves


class NeighbourRegressionLeaves(GaussianLeaves):
    """`natural` has a slope [levels, leaves, D] beside mean and scale, in units of the data."""

    exported = ("mean", "std", "slope")

    def __init__(self, attribute: Any, num_levels: int, num_leaves: int, *, context_width: int = 0) -> None:
        super().__init__(attribute, num_levels, num_leaves)
        self.context_width = context_width
        self.raw_slope = nn.Parameter(torch.zeros(num_levels, num_leaves, context_width))

    def natural(self) -> dict[str, Tensor]:
        return {**super().natural(), "slope": self.raw_slope}

    def regress(self, natural: dict[str, Tensor], context: Context) -> dict[str, Tensor]:
        received = torch.where(context.present[:, None], context.mean, 0.0).to(natural["mean"].dtype)
        return {"mean": natural["mean"] + received @ natural["slope"][0].T, "scale": natural["scale"]}

    def combine(self, natural: dict[str, Tensor], weights: Tensor) -> dict[str, Tensor]:
        return Leaves.combine(self, natural, weights)

    def initialise(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        super().initialise(groups, generator)
        with torch.no_grad():
            self.raw_slope.zero_()

    def estimate(
        self,
        evidence: Evidence,
        weights: Tensor,
        *,
        level: int = 0,
        context: Context | None = None,
        prior: float = 0.0,
    ) -> None:
        """Weighted least squares; what the prior has seen has received nothing."""
        known = evidence.known[:, 0]
        z, weights = self.standardised(evidence.x[known, 0]).double(), weights[known].double()
        received = torch.zeros(len(z), self.context_width, dtype=torch.float64)
        if context is not None:
            received = torch.where(context.present[:, None], context.mean, 0.0)[known].double()
        if prior > 0:
            rows, shares = self.pseudo_observations()
            z = torch.cat([z, self.standardised(rows[:, 0])])
            received = torch.cat([received, torch.zeros(len(rows), self.context_width, dtype=torch.float64)])
            weights = torch.cat([weights, prior * shares[:, None].expand(-1, self.num_leaves)])
        columns = torch.cat([torch.ones(len(z), 1, dtype=torch.float64), received], dim=1)
        exported = {key: value.clone() for key, value in self.export(self.natural()).items()}
        before = [parameter.detach().clone() for parameter in self.parameters()]
        changed = weights.sum(0) > 0
        for leaf in changed.nonzero().squeeze(1).tolist():
            root = weights[:, leaf, None].sqrt()
            found = torch.linalg.lstsq(root * columns, root * z[:, None], driver="gelsd").solution[:, 0]
            rest = (weights[:, leaf] * (z - columns @ found).square()).sum() / weights[:, leaf].sum()
            exported["mean"][level, leaf] = self.center + self.spread * found[0]
            exported["std"][level, leaf] = self.spread * rest.sqrt().clamp_min(self.attribute.floor)
            exported["slope"][level, leaf] = self.spread * found[1:]
        self.assign(exported)
        with torch.no_grad():  # what is not estimated keeps its last digit
            for parameter, old in zip(self.parameters(), before, strict=True):
                for i in range(self.num_levels):
                    for leaf in range(self.num_leaves):
                        if i != level or not changed[leaf]:
                            parameter[i, leaf] = old[i, leaf]

    def export(self, natural: dict[str, Tensor]) -> dict[str, Tensor]:
        return {**super().export(natural), "slope": self.spread * natural["slope"].double()}

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        super().assign(exported)
        with torch.no_grad():
            self.raw_slope.copy_(exported["slope"] / self.spread)
