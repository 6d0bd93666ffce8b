"""Full-covariance Gaussians and mixtures of them, fitted by EM to tables with gaps, in float64.

Gaps are marginalised exactly: a row says something about the moments of what it lacks. Columns are numbers in
comparable units; what they mean is for those who make them (`baselines.features`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

_NUMBERS_AT_ONCE = 20_000_000
"""Bounds the memory of one step."""
_JITTER = 1e-6
"""Least variance in any direction, as a share of the mean variance: it keeps factors of singular tables finite."""


@dataclass(frozen=True)
class GaussianMixture:
    """C Gaussians over d columns."""

    weights: Tensor
    """[C]"""
    means: Tensor
    """[C, d]"""
    covariances: Tensor
    """[C, d, d]"""

    def log_density(self, x: Tensor) -> Tensor:
        """[n] of the observed entries of rows x [n, d], gaps are NaN."""
        return torch.cat([torch.logsumexp(joint, 1) for joint, _, _ in self._conditioned(x)])

    def conditional(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Weights [n, C], means and variances [n, C, d] of all columns given the observed entries of the rows."""
        parts = [
            (torch.softmax(joint, 1), means, covariances.diagonal(dim1=-2, dim2=-1).clamp(min=0.0))
            for joint, means, covariances in self._conditioned(x)
        ]
        weights, means, variances = (torch.cat(part) for part in zip(*parts, strict=True))
        return weights, means, variances

    def _conditioned(self, x: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """By pieces of rows: log of weight times density [n, C], conditional means and covariances [n, C, d(, d)]."""
        components, d = self.means.shape
        factors = torch.linalg.cholesky(self.covariances)
        precisions = torch.cholesky_inverse(factors)
        log_dets = 2 * factors.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        step = max(1, _NUMBERS_AT_ONCE // (components * d * d))
        for rows in x.split(step):
            seen = ~rows.isnan()
            # Observed dimensions are cut out of the precision and replaced by the identity: one factor whatever is
            # missing. What is left is the inverse of the conditional covariance.
            neither = (~seen[:, :, None] & ~seen[:, None, :])[:, None]
            block = torch.where(neither, precisions, 0.0) + torch.diag_embed(seen.double())[:, None]
            factor = torch.linalg.cholesky(block)
            covariances = torch.where(neither, torch.cholesky_inverse(factor), 0.0)
            away = torch.where(seen[:, None], rows.nan_to_num(0.0)[:, None] - self.means, 0.0)
            away = away - (covariances @ (precisions @ away[..., None])).squeeze(-1)
            square = (away * (precisions @ away[..., None]).squeeze(-1)).sum(-1)
            log_det = log_dets + 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
            constant = seen.sum(1, keepdim=True) * math.log(2 * math.pi)
            joint = self.weights.log() - 0.5 * (square + log_det + constant)
            means = torch.where(seen[:, None], rows.nan_to_num(0.0)[:, None], self.means + away)
            yield joint, means, covariances


def fit_gaussian_mixture(
    x: Tensor,
    components: int = 1,
    *,
    prior: float | None = None,
    start: GaussianMixture | None = None,
    single: GaussianMixture | None = None,
    iterations: int = 100,
    tolerance: float = 1e-3,
    seed: int = 0,
) -> GaussianMixture:
    """The mixture that EM finds for rows x [n, d] with gaps (NaN), from clusters of the rows unless `start` is given.

    `prior` is a number of pseudo-observations of every component's covariance: of the columns' variances where there is
    one component (default 1), else of the single Gaussian's covariance over C^(2/d) (default d + 2), which is fitted
    first unless `single` is given. It stops when the log-density of a row gains less than `tolerance` on average.
    """
    x = x.double()
    n, d = x.shape
    prior = (1.0 if components == 1 else d + 2.0) if prior is None else prior
    scale = _variances(x).diag()
    if components > 1 and (prior or start is None):
        single = single or fit_gaussian_mixture(x, iterations=iterations, tolerance=tolerance)
        scale = single.covariances[0] / components ** (2 / d)
    model = _from_clusters(x, components, scale, seed) if start is None else start
    before = -math.inf
    for _ in range(iterations):
        now, model = _step(model, x, prior, scale)
        if now - before < tolerance * n:
            break
        before = now
    return model


def _step(model: GaussianMixture, x: Tensor, prior: float, scale: Tensor) -> tuple[float, GaussianMixture]:
    """The log-density under the model, with its prior, and the next model."""
    components, d = model.means.shape
    log_density = 0.0
    counts, sums = torch.zeros(components).double(), torch.zeros(components, d).double()
    seconds = torch.zeros(components, d, d).double()
    for joint, means, covariances in model._conditioned(x):
        total = torch.logsumexp(joint, 1, keepdim=True)
        share = (joint - total).exp()
        log_density += float(total.sum())
        counts += share.sum(0)
        sums += torch.einsum("nc,ncd->cd", share, means)
        away = means - model.means  # about the old means, so that nothing large cancels
        seconds += torch.einsum("nc,ncd,nce->cde", share, away, away) + torch.einsum("nc,ncde->cde", share, covariances)
    counts = counts.clamp(min=1e-9)
    means = sums / counts[:, None]
    shift = means - model.means
    scatter = seconds - counts[:, None, None] * shift[:, :, None] * shift[:, None, :]
    covariances = (scatter + prior * scale) / (counts + prior)[:, None, None]
    covariances = (covariances + covariances.mT) / 2
    floor = _JITTER * scale.diagonal().mean()
    if prior:
        factor = torch.linalg.cholesky(model.covariances)
        solved = torch.cholesky_solve(scale.expand_as(covariances), factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        log_density -= 0.5 * prior * float((solved + log_det).sum())
        covariances = covariances + floor * torch.eye(d).double()
    return log_density, replace(model, weights=counts / counts.sum(), means=means, covariances=covariances)


def _variances(x: Tensor) -> Tensor:
    known = ~x.isnan()
    count = known.sum(0).clamp(min=1)
    mean = x.nan_to_num(0.0).sum(0) / count
    variance = torch.where(known, x - mean, 0.0).square().sum(0) / count
    return torch.where(variance > 0, variance, 1.0)


def _from_clusters(x: Tensor, components: int, scale: Tensor, seed: int) -> GaussianMixture:
    """Means are those of clusters of the rows, completed by the single Gaussian; covariances are `scale`."""
    known = ~x.isnan()
    mean = x.nan_to_num(0.0).sum(0) / known.sum(0).clamp(min=1)
    if components == 1:
        return GaussianMixture(torch.ones(1).double(), mean[None], scale[None])
    single = GaussianMixture(torch.ones(1).double(), mean[None], scale[None])
    filled = single.conditional(x)[1][:, 0]
    unit = scale.diagonal().sqrt()
    clusters = KMeans(components, n_init=3, random_state=seed).fit((filled / unit).numpy())
    counts = torch.from_numpy(np.bincount(clusters.labels_, minlength=components)).double()
    centers = torch.from_numpy(clusters.cluster_centers_).double() * unit
    return GaussianMixture((counts + 1) / (counts + 1).sum(), centers, scale.expand(components, -1, -1).clone())
