"""Covariances of correlated leaves: how each structure is parametrised, and its weighted estimate in EM.

All in units of the data. A structure holds what is learned of all levels and leaves; means, slopes and densities belong
to the leaves (`correlated`).

Covariances are computed in double precision whatever the parameters are in: where columns nearly follow from others,
products of factors in single precision would not be positive definite any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from gspn.circuits.numerics import inverse_softplus

LEAST_EIGENVALUE = 1e-4
"""Of a covariance estimated with a prior; without one, the square of the attributes' floor."""

_INNER_STEPS = 5
"""Of a factor analysis in one estimate: each rises, and EM comes back."""

_LARGEST_RANK = 8


class Scatter(NamedTuple):
    """What was found of the leaves of a level."""

    sums: Tensor
    """[leaves, d, d] weighted sums of squares about their means"""
    mass: Tensor
    """[leaves] total weights"""

    def beside(self, seen: Scatter) -> tuple[Tensor, Tensor, Tensor]:
        """The leaves [k] that have any mass, and their sums and masses with what each of them has seen before."""
        leaves = (self.mass > 0).nonzero().squeeze(1)
        return leaves, self.sums[leaves] + seen.sums, self.mass[leaves] + seen.mass


class Covariances(nn.Module, ABC):
    """Of `num_leaves` leaves over d attributes at each level; `floor` [d] bounds deviations from below."""

    exported: ClassVar[tuple[str, ...]] = ("covariance",)
    shared: ClassVar[bool] = False
    """Whether all leaves of a level have the same."""
    pulled: ClassVar[bool] = False
    """Whether estimates are drawn towards the pooled covariance, by d + 2 pseudo-observations."""

    def __init__(self, num_levels: int, num_leaves: int, floor: Tensor) -> None:
        super().__init__()
        self.num_levels, self.num_leaves, self.floor = num_levels, num_leaves, floor

    @abstractmethod
    def forward(self) -> Tensor:
        """[levels, leaves, d, d] in double precision"""

    def natural(self) -> dict[str, Tensor]:
        """The covariances, and what else they are made of."""
        return {"covariance": self()}

    @abstractmethod
    def put(self, level: int, leaves: Tensor, covariance: Tensor) -> None:
        """Set some leaves [k] of a level to covariances [k, d, d], or to what comes near them."""

    @abstractmethod
    def update(self, level: int, found: Scatter, seen: Scatter, least: float) -> None:
        """Set the leaves of a level that have any mass to what suits their scatters best.

        Each has also `seen` pseudo-observations, [1, d, d] of mass [1]. Eigenvalues are at least `least`; where this
        makes a leaf worse than it was, it stays as it was.
        """

    def export(self, natural: Mapping[str, Tensor], spread: Tensor) -> dict[str, Tensor]:
        """Under the names in `exported`, in users' units of the given spreads [d]."""
        return {"covariance": natural["covariance"].double() * spread[:, None] * spread}

    def variances(self, exported: Mapping[str, Tensor]) -> Tensor:
        """[levels, leaves, d] of single attributes."""
        return torch.diagonal(exported["covariance"], dim1=-2, dim2=-1)

    def widen(self, factor: float) -> None:
        """Multiply all deviations, down to the floor at most."""
        for level, covariance in enumerate(self().detach() * factor**2):
            own = covariance[:1] if self.shared else covariance
            self.put(level, torch.arange(len(own)), own)

    @abstractmethod
    def assign(self, exported: Mapping[str, Tensor], spread: Tensor) -> str | None:
        """Set everything from exported parameters, or say what is wrong with them."""

    def seen(self, pool: Tensor) -> Scatter:
        """What each leaf has seen before any data, where it is drawn towards the pooled covariance."""
        pulls = len(self.floor) + 2 if self.pulled else 0
        mass = torch.full((1,), float(pulls), dtype=pool.dtype, device=pool.device)
        return Scatter((pulls * pool).unsqueeze(-3), mass)


class Full(Covariances):
    """Any covariance whose eigenvalues the floor bounds: its square, and the product of a triangular factor."""

    def __init__(self, num_levels: int, num_leaves: int, floor: Tensor) -> None:
        super().__init__(num_levels, num_leaves, floor)
        size, own = len(floor), 1 if self.shared else num_leaves
        self.raw_factor = nn.Parameter(torch.zeros(num_levels, own, size, size))

    def forward(self) -> Tensor:
        raw = self.raw_factor.double()
        factor = torch.tril(raw, -1) + torch.diag_embed(softplus(torch.diagonal(raw, dim1=-2, dim2=-1)))
        # A bound on the factor's diagonal alone would let eigenvalues of many columns fall far below it.
        found = factor @ factor.mT + torch.diag(self.floor.square()).to(raw.device)
        return found.expand(-1, self.num_leaves, -1, -1)

    def put(self, level: int, leaves: Tensor, covariance: Tensor) -> None:
        # Not by Cholesky: where an eigenvalue is at the floor, what is left is singular.
        values, vectors = torch.linalg.eigh(covariance - torch.diag(self.floor.square()).to(covariance))
        upper = torch.linalg.qr((vectors * values.clamp_min(0.0).sqrt().unsqueeze(-2)).mT).R
        diagonal = torch.diagonal(upper, dim1=-2, dim2=-1)
        factor = torch.where(diagonal < 0, -1.0, 1.0).unsqueeze(-2) * upper.mT
        raw = torch.tril(factor, -1) + torch.diag_embed(inverse_softplus(diagonal.abs()))
        with torch.no_grad():
            self.raw_factor[level, leaves] = raw.to(self.raw_factor)

    def update(self, level: int, found: Scatter, seen: Scatter, least: float) -> None:
        leaves, scatter, mass = found.beside(seen)
        if not len(leaves):
            return
        if self.shared:  # leaves without any mass, too: the ridge of slopes that they keep is in their sums
            leaves, mass = leaves[:1] * 0, mass.sum(0, keepdim=True)
            scatter = (found.sums + seen.sums * (found.mass > 0)[:, None, None]).sum(0, keepdim=True)
        new = floored(scatter / mass[:, None, None], least)
        old = self.forward()[level, leaves].detach()
        better = expected_log_density(new, scatter, mass) >= expected_log_density(old, scatter, mass)
        self.put(level, leaves[better], new[better])

    def assign(self, exported: Mapping[str, Tensor], spread: Tensor) -> str | None:
        covariance = exported["covariance"] / (spread[:, None] * spread)
        if not torch.allclose(covariance, covariance.mT, rtol=1e-6, atol=1e-9):
            return "symmetric"
        if self.shared and not torch.allclose(covariance, covariance[:, :1], rtol=1e-6, atol=1e-9):
            return "the same for all leaves of a level"
        bound = torch.diag(self.floor.square())
        if bool((torch.linalg.eigvalsh(covariance - bound) < -1e-6 * bound.amax()).any()):
            return f"positive definite, with deviations of at least {self.floor.tolist()} of the units of the data"
        for level, own in enumerate(covariance):
            self.put(level, torch.arange(self.raw_factor.shape[1]), own[: self.raw_factor.shape[1]])
        return None


class Shrunk(Full):
    """Any covariance, drawn towards what the leaves have in common."""

    pulled = True


class Tied(Full):
    """One covariance for all leaves of a level."""

    shared = True


class Diagonal(Covariances):
    """Independent attributes."""

    def __init__(self, num_levels: int, num_leaves: int, floor: Tensor) -> None:
        super().__init__(num_levels, num_leaves, floor)
        self.raw_scale = nn.Parameter(torch.zeros(num_levels, num_leaves, len(floor)))

    def _variance(self) -> Tensor:
        return (self.floor.to(self.raw_scale.device) + softplus(self.raw_scale.double())).square()

    def forward(self) -> Tensor:
        return torch.diag_embed(self._variance())

    def put(self, level: int, leaves: Tensor, covariance: Tensor) -> None:
        scale = torch.diagonal(covariance, dim1=-2, dim2=-1).sqrt() - self.floor.to(covariance)
        with torch.no_grad():
            self.raw_scale[level, leaves] = inverse_softplus(scale).to(self.raw_scale)

    def update(self, level: int, found: Scatter, seen: Scatter, least: float) -> None:
        leaves, scatter, mass = found.beside(seen)
        variance = torch.diagonal(scatter, dim1=-2, dim2=-1) / mass[:, None]
        # The likelihood falls on both sides of its maximum, so the floor is the best of what is allowed.
        self.put(level, leaves, torch.diag_embed(variance.clamp_min(least)))

    def assign(self, exported: Mapping[str, Tensor], spread: Tensor) -> str | None:
        covariance = exported["covariance"] / (spread[:, None] * spread)
        variance = torch.diagonal(covariance, dim1=-2, dim2=-1)
        if not torch.equal(torch.diag_embed(variance), covariance):
            return "diagonal"
        if bool((variance < self.floor.square() * (1 - 1e-6)).any()):
            return f"at least the squares of {self.floor.tolist()} of the units of the data"
        for level, own in enumerate(covariance):
            self.put(level, torch.arange(len(own)), own)
        return None


class LowRank(Covariances):
    """W Wᵀ + diag ψ: a few common factors, and noise of every attribute's own."""

    exported = ("loadings", "noise")

    def __init__(self, num_levels: int, num_leaves: int, floor: Tensor) -> None:
        super().__init__(num_levels, num_leaves, floor)
        size = len(floor)
        self.rank = max(1, min(_LARGEST_RANK, size // 2))
        self.raw_loadings = nn.Parameter(0.1 * torch.randn(num_levels, num_leaves, size, self.rank))
        self.raw_scale = nn.Parameter(torch.zeros(num_levels, num_leaves, size))

    def _noise(self) -> Tensor:
        return (self.floor.to(self.raw_scale.device) + softplus(self.raw_scale.double())).square()

    def forward(self) -> Tensor:
        loadings = self.raw_loadings.double()
        return loadings @ loadings.mT + torch.diag_embed(self._noise())

    def put(self, level: int, leaves: Tensor, covariance: Tensor) -> None:
        """From a plain covariance: its leading eigenvectors, and a few steps of factor analysis."""
        values, vectors = torch.linalg.eigh(covariance)
        rest = values[:, : -self.rank].mean(-1) if self.rank < covariance.shape[-1] else values[:, 0] / 2
        lead = (values[:, -self.rank :] - rest[:, None]).clamp_min(1e-6).sqrt()
        loadings = vectors[:, :, -self.rank :] * lead[:, None, :]
        left = torch.diagonal(covariance - loadings @ loadings.mT, dim1=-2, dim2=-1)
        self._put(level, leaves, loadings, left.clamp_min(1e-3))

    def _put(self, level: int, leaves: Tensor, loadings: Tensor, noise: Tensor) -> None:
        with torch.no_grad():
            self.raw_loadings[level, leaves] = loadings.to(self.raw_loadings)
            scale = noise.sqrt() - self.floor.to(noise)
            self.raw_scale[level, leaves] = inverse_softplus(scale).to(self.raw_scale)

    def update(self, level: int, found: Scatter, seen: Scatter, least: float) -> None:
        """A few steps of factor analysis, which never make it worse."""
        leaves, scatter, mass = found.beside(seen)
        target, old = scatter / mass[:, None, None], self.forward()[level, leaves].detach()
        loadings, noise = self.raw_loadings[level, leaves].detach().double(), self._noise()[level, leaves].detach()
        identity = torch.eye(self.rank, dtype=torch.float64, device=target.device)
        for _ in range(_INNER_STEPS):
            beta = torch.linalg.solve(loadings @ loadings.mT + torch.diag_embed(noise), loadings).mT
            second = identity - beta @ loadings + beta @ target @ beta.mT
            loadings = torch.linalg.solve(second.mT, (target @ beta.mT).mT).mT
            noise = torch.diagonal(target - loadings @ beta @ target, dim1=-2, dim2=-1).clamp_min(least)
        new = loadings @ loadings.mT + torch.diag_embed(noise)
        better = expected_log_density(new, scatter, mass) >= expected_log_density(old, scatter, mass)
        self._put(level, leaves[better], loadings[better], noise[better])

    def widen(self, factor: float) -> None:
        loadings, noise = self.raw_loadings.detach().double(), self._noise().detach()
        for level in range(len(loadings)):
            self._put(level, torch.arange(loadings.shape[1]), loadings[level] * factor, noise[level] * factor**2)

    def natural(self) -> dict[str, Tensor]:
        return {**super().natural(), "loadings": self.raw_loadings, "noise": self._noise()}

    def export(self, natural: Mapping[str, Tensor], spread: Tensor) -> dict[str, Tensor]:
        loadings = natural["loadings"].double() * spread[:, None]
        return {"loadings": loadings, "noise": natural["noise"].double() * spread.square()}

    def variances(self, exported: Mapping[str, Tensor]) -> Tensor:
        return exported["loadings"].square().sum(-1) + exported["noise"]

    def assign(self, exported: Mapping[str, Tensor], spread: Tensor) -> str | None:
        noise = exported["noise"] / spread.square()
        if bool((noise < self.floor.square() * (1 - 1e-6)).any()):
            return f"at least the squares of {self.floor.tolist()} of the units of the data"
        for level, own in enumerate(noise):
            self._put(level, torch.arange(len(own)), exported["loadings"][level] / spread[:, None], own)
        return None


STRUCTURES: Mapping[str, type[Covariances]] = {
    "diagonal": Diagonal,
    "full": Full,
    "shrunk": Shrunk,
    "tied": Tied,
    "low_rank": LowRank,
}


def floored(covariance: Tensor, least: float) -> Tensor:
    """Covariances [..., d, d] with eigenvalues of at least `least`; those that have them stay as they are."""
    values, vectors = torch.linalg.eigh(covariance)
    raised = (vectors * values.clamp_min(least).unsqueeze(-2)) @ vectors.mT
    return torch.where((values.amin(-1) < least)[..., None, None], raised, covariance)


def expected_log_density(covariance: Tensor, scatter: Tensor, mass: Tensor) -> Tensor:
    """[leaves] −½ (mass · log |Σ| + tr Σ⁻¹ S), up to a constant."""
    trace: Tensor = torch.diagonal(torch.linalg.solve(covariance, scatter), dim1=-2, dim2=-1).sum(-1)
    log_det: Tensor = torch.linalg.slogdet(covariance).logabsdet
    return -0.5 * (mass * log_det + trace)


def structure_named(name: str, num_levels: int, num_leaves: int, floor: Sequence[float]) -> Covariances:
    return STRUCTURES[name](num_levels, num_leaves, torch.tensor(floor, dtype=torch.float64))
