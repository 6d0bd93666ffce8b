"""Leaves with atoms: values of continuous attributes that have a mass of their own, around any other family.

In state i attribute a is at its k-th atom with probability α_iak, whatever the others do, and otherwise where the other
family has it. That family is handed rows in which entries at atoms are unknown: an entry at an atom leaves the joint
density of its vertex as if missing. Which values are atoms is part of the structure; α is learned. What one attribute
with atoms answers is in `univariate_atoms`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from gspn.circuits.evidence import Context, Evidence
from gspn.circuits.leaves.around import AroundLeaves
from gspn.circuits.leaves.contract import Leaves, Natural, Rows
from gspn.circuits.leaves.univariate_atoms import LOG_SHARES, UnivariateAtomLeaves, draw_places
from gspn.circuits.numerics import log_positive, log_weight
from gspn.errors import InputError

_ROUNDING = 1e-6
"""By how much given probabilities may exceed 1 together."""


class AtomLeaves(AroundLeaves):
    """The leaves of `rest` with atoms; `natural` has "log_shares" [levels, leaves, Σ (K + 1)] beside the rest's.

    For each attribute that has atoms, one after the other: the log-probability of being elsewhere, then of each atom.
    """

    added = LOG_SHARES
    shown = "atoms"

    def __init__(self, rest: Leaves, atoms: Mapping[str, Sequence[float]]) -> None:
        super().__init__(rest)
        if rest.gaps == "informative":
            raise InputError(f"leaves of {rest.named()} ({type(rest).__name__}) take gaps for evidence: no atoms")
        # Plain tensors, not buffers: `.float()` must not round them, or no entry would be at an atom.
        self._values: dict[int, Tensor] = {}
        self._places: dict[int, slice] = {}
        width = 0
        for column, attribute in enumerate(self.scope):
            if attribute.name in atoms:
                values = torch.tensor(sorted(atoms[attribute.name]), dtype=torch.float64)
                self._values[column], self._places[column] = values, slice(width, width + len(values) + 1)
                width += len(values) + 1
        self.raw_shares = nn.Parameter(torch.zeros(rest.num_levels, rest.num_leaves, width))
        usual = torch.cat([torch.full((len(values) + 1,), 1 / (len(values) + 1)) for values in self._values.values()])
        self.register_buffer("usual", usual.repeat(rest.num_levels, 1))

    usual: Tensor
    """[levels, Σ (K + 1)] shares in all rows: what a prior has seen"""

    def atoms(self) -> dict[str, Tensor]:
        return {self.scope[column].name: values for column, values in self._values.items()}

    def natural(self) -> Natural:
        shares = [torch.log_softmax(self.raw_shares[..., own], dim=-1) for own in self._places.values()]
        return {**self.rest.natural(), LOG_SHARES: torch.cat(shares, dim=-1)}

    # Rows taken apart: where entries are, and what is left of them for the density.

    def _apart(self, evidence: Evidence) -> tuple[dict[int, Tensor], Evidence]:
        """By column with atoms [n]: 0 where an entry is elsewhere or unknown, k at the k-th atom; the rest."""
        x, places = evidence.x.clone(), {}
        for column, values in self._values.items():
            at = evidence.x[:, column, None] == values.to(evidence.x.device)
            places[column] = (at * torch.arange(1, len(values) + 1, device=at.device)).sum(1)
            x[:, column] = x[:, column].masked_fill(places[column] > 0, torch.nan)
        return places, evidence.having(x)

    def _elsewhere(self, x: Tensor) -> Tensor:
        return self._apart(Evidence(x))[1].x

    def _counts(self, evidence: Evidence, places: dict[int, Tensor]) -> Tensor:
        """[n, Σ (K + 1)] 1 where a known entry is, 0 where it is not, and of unknown ones."""
        found = [
            one_hot(place, len(self._values[column]) + 1).double() * evidence.known[:, column, None]
            for column, place in places.items()
        ]
        return torch.cat(found, dim=1)

    # Densities and conditionals.

    def log_prob(self, natural: Natural, evidence: Evidence, context: Context | None = None) -> Tensor:
        places, rest = self._apart(evidence)
        shares = natural[LOG_SHARES]
        of_places = self._counts(evidence, places).to(shares.dtype) @ shares.mT
        return of_places + self.rest.log_prob(self.of_rest(natural), rest, context)

    def conditional(self, natural: Natural, column: int, evidence: Evidence, context: Context | None = None) -> Rows:
        rows = self.rest.conditional(self.of_rest(natural), column, self._apart(evidence)[1], context)
        if column not in self._values:
            return rows
        shares = {LOG_SHARES: natural[LOG_SHARES][..., self._places[column]]}
        return Rows(UnivariateAtomLeaves(rows.family, self._values[column]), rows.natural | shares)

    def draw(
        self,
        natural: Natural,
        leaf: Tensor,
        wanted: Tensor,
        evidence: Evidence,
        context: Context | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        # All that is wanted is drawn from the density first; what then is at an atom was drawn for nothing.
        rest = self._apart(evidence)[1]
        x = self.rest.draw(self.of_rest(natural), leaf, wanted, rest, context, generator)
        for column, values in self._values.items():
            shares = natural[LOG_SHARES][0, :, self._places[column]].double().exp()
            place = draw_places(shares[leaf], generator)
            x[:, column] = torch.where(place > 0, values[place - 1], x[:, column])
        return torch.where(wanted, x, evidence.x.double())

    def expectation(self, natural: Natural, evidence: Evidence, context: Context | None = None) -> list[Tensor]:
        told = self.rest.expectation(self.of_rest(natural), self._apart(evidence)[1], context)
        for column in self._values:
            elsewhere, masses, at = self._told(natural, column, told[column])
            expected = (elsewhere * told[column].squeeze(-1) + (masses * at).sum(-1)).unsqueeze(-1)
            known = evidence.known[:, column, None, None]
            own = self._standardised(column, evidence.x[:, column].nan_to_num(0.0)).to(expected.dtype)
            told[column] = torch.where(known, own[:, None, None], expected)
        return told

    def uncertainty(self, natural: Natural, weights: Tensor, evidence: Evidence, context: Context | None) -> Tensor:
        """Of entries that are elsewhere together, the covariance of the density; of one entry, also where it is."""
        rest, own = self._apart(evidence)[1], self.of_rest(natural)
        expected = torch.cat(self.rest.expectation(own, rest, context), dim=-1)
        unknown = (~evidence.known).to(expected.dtype)
        share, spread = torch.ones_like(expected), torch.zeros_like(expected)
        for column in self._values:
            elsewhere, masses, at = self._told(natural, column, expected)
            xi = expected[..., column]
            mean = elsewhere * xi + (masses * at).sum(-1)
            spread[..., column] = elsewhere * (xi - mean).square() + (masses * (at - mean.unsqueeze(-1)).square()).sum(
                -1
            )
            share[..., column] = elsewhere.expand_as(xi)
        weights = weights.to(expected.dtype)
        found = torch.diag_embed((weights.unsqueeze(-1) * spread).sum(1))
        for leaf in range(self.num_leaves):
            alone = one_hot(torch.tensor(leaf, device=weights.device), self.num_leaves).to(weights).expand_as(weights)
            within = self.rest.uncertainty(own, alone, rest, context)
            both = share[:, leaf, :, None] * share[:, leaf, None, :]
            both = torch.diagonal_scatter(both, share[:, leaf], dim1=-2, dim2=-1)
            found = found + weights[:, leaf, None, None] * both * within
        return found * unknown[:, :, None] * unknown[:, None, :]

    def _told(self, natural: Natural, column: int, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[leaves] share elsewhere, [leaves, K] masses, [K] the atoms as they are told."""
        shares = natural[LOG_SHARES][0, :, self._places[column]].exp().to(like.dtype)
        return shares[:, 0], shares[:, 1:], self._standardised(column, self._values[column]).to(like)

    def _standardised(self, column: int, x: Tensor) -> Tensor:
        units = self.rest.units().get(self.scope[column].name)
        return x if units is None else (x - units[0].item()) / units[1].item()

    # Learning.

    def start(self, groups: Sequence[Tensor], generator: torch.Generator) -> None:
        apart = [self._apart(Evidence(group)) for group in groups]
        self.rest.start([rest.x for _, rest in apart], generator)
        with torch.no_grad():
            for leaf, (group, (places, _)) in enumerate(zip(groups, apart, strict=True)):
                counts = self._counts(Evidence(group), places).sum(0) + self.usual
                self.raw_shares[:, leaf] = self._log_shares(counts).to(self.raw_shares)

    def prepare_estimates(
        self, evidence: Evidence, weights: Tensor, *, level: int = 0, context: Context | None = None
    ) -> None:
        self.rest.prepare_estimates(self._apart(evidence)[1], weights, level=level, context=context)

    @torch.no_grad()
    def copy_from_below(self, level: int) -> None:
        self.rest.copy_from_below(level)
        for shares in (self.raw_shares, self.usual):
            shares[level] = shares[level - 1]

    @torch.no_grad()
    def estimate(
        self,
        evidence: Evidence,
        weights: Tensor,
        *,
        level: int = 0,
        context: Context | None = None,
        prior: float = 0.0,
    ) -> None:
        places, rest = self._apart(evidence)
        self.rest.estimate(rest, weights, level=level, context=context, prior=prior)
        counts = weights.double().mT @ self._counts(evidence, places) + prior * self.usual[level].double()
        new = self._log_shares(counts).to(self.raw_shares)
        for own in self._places.values():
            seen = counts[:, own].sum(-1) > 0
            self.raw_shares[level, seen, own] = new[seen, own]

    def _log_shares(self, counts: Tensor) -> Tensor:
        """Log-probabilities from counts […, Σ (K + 1)]."""
        tiny = torch.finfo(counts.dtype).tiny
        found = [
            counts[..., own] / counts[..., own].sum(-1, keepdim=True).clamp_min(tiny) for own in self._places.values()
        ]
        return log_positive(torch.cat(found, dim=-1).to(self.raw_shares))

    def log_prior(self, natural: Natural, strength: float) -> Tensor:
        """That of the rest; of atoms, pseudo-observations that are at them as often as all rows are."""
        shares = natural[LOG_SHARES]
        usual = self.usual.to(shares)[: len(shares)]
        return self.log_prior_of_rest(natural, strength) + strength * (usual[:, None] * shares).sum((1, 2))

    def features(self, x: Tensor) -> Tensor | None:
        return self.rest.features(self._elsewhere(x))

    # Units: those of what is not at an atom, so that no sentinel decides them.

    def set_units(self, x: Tensor) -> None:
        elsewhere = self._elsewhere(x)
        nothing = torch.isnan(elsewhere).all(0)
        self.rest.set_units(torch.where(nothing, x, elsewhere))
        places, _ = self._apart(Evidence(x))
        counts = self._counts(Evidence(x), places).sum(0)
        for own in self._places.values():
            # As if one more row were anywhere: nothing is impossible.
            counts[own] += 1 / len(counts[own])
            counts[own] /= counts[own].sum()
        self.usual.copy_(counts.expand_as(self.usual))

    def deviations(self, x: Tensor) -> Tensor | None:
        return self.rest.deviations(self._elsewhere(x))

    # The shortcut.

    def combine(self, natural: Natural, weights: Tensor) -> Natural:
        combined = self.rest.combine(self.of_rest(natural), weights)
        shares = (weights[:, None, None] * natural[LOG_SHARES].exp()).sum(0, keepdim=True)
        return {**combined, LOG_SHARES: log_weight(shares)}

    # Parameters as people read them.

    def export(self, natural: Natural) -> Natural:
        """The rest's, and as "atoms" [levels, leaves, Σ K] the probabilities, attribute after attribute, ascending."""
        shares = natural[LOG_SHARES].double().exp()
        masses = [shares[..., own.start + 1 : own.stop] for own in self._places.values()]
        return {**self.rest.export(self.of_rest(natural)), "atoms": torch.cat(masses, dim=-1)}

    def assign(self, exported: Mapping[str, Tensor]) -> None:
        shares = []
        for masses in exported["atoms"].split([len(values) for values in self._values.values()], dim=-1):
            elsewhere = 1 - masses.sum(-1, keepdim=True)
            if bool((masses < 0).any()) or bool((elsewhere < -_ROUNDING).any()):
                raise self.refuse("atoms", "probabilities, those of an attribute at most 1 together")
            shares.append(torch.cat([elsewhere.clamp_min(0.0), masses], dim=-1))
        self.rest.assign(self.of_rest(exported))
        with torch.no_grad():
            self.raw_shares.copy_(log_positive(torch.cat(shares, dim=-1)))

    def bytes_per_vertex(self) -> int:
        # Beside the rest's: rows taken apart, where their entries are, and how likely that is.
        return self.rest.bytes_per_vertex() + 8 * (3 * len(self.scope) + 4 * self.raw_shares.shape[2] + self.num_leaves)


def with_atoms(leaves: Leaves, atoms: Mapping[str, Sequence[float]]) -> Leaves:
    """The leaves with those atoms that their attributes have; where there are none, the leaves themselves."""
    names = {attribute.name for attribute in leaves.scope}
    own = {name: values for name, values in atoms.items() if name in names and len(values)}
    return AtomLeaves(leaves, own) if own else leaves
