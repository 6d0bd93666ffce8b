"""The methods that are compared, by name. Each fits a dataset with gaps and answers for all of them.

A method is a function (dataset, seed, *, settings…) -> Answers; the settings are those that grids may give. To add one,
write it and put it into METHODS. Any model that answers for gaps as GSPN does goes through `answers_of`.

The single GSPN that is compared has correlated leaves that regress on neighbours, learned by EM; held-out entries
choose. One fixed configuration for all sets: at most two levels, one structure of covariances. The number of states is
chosen for a mixture, then what is done with edges, by the same contest that chooses for the doors of the library
(`gspn.policy.selection`), which let several models answer as one and try more structures.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gspn import policy
from gspn.attributes import Binary, Categorical, Count
from gspn.baselines import FeatureImputer
from gspn.baselines.features import Features
from gspn.baselines.gaussian_em import GaussianMixture, fit_gaussian_mixture
from gspn.baselines.neighbour_means import neighbour_means
from gspn.circuits.given import distributions
from gspn.errors import GSPNError, InputError, MissingExtraError
from gspn.experiments.yardstick.answers import Answers, Normals, Probabilities, Residuals, calibrated
from gspn.experiments.yardstick.scores import bin_width
from gspn.graphs import GraphDataset
from gspn.graphs.missing import with_missing
from gspn.models.gspn import GSPN
from gspn.policy.candidates import Candidate, with_edges, without_edges
from gspn.policy.selection import Contest, held_out
from gspn.queries.contract import chunk_size
from gspn.queries.entries import gaps_of

_STATES = (1, 2, 4, 8, 16)
_FEWEST = 15
"""Vertices a state must have for so many states to be tried."""

HELD_OUT = 0.15
"""Share of the observed entries on which points are tried, or numbers of components chosen."""
_COMPONENTS = (1, 2, 4, 8)
_LEAST_PROBABILITY = 0.01
"""Of a category whose indicator a Gaussian expects to be nothing or less."""
Points = Callable[[GraphDataset], Tensor]
"""From a dataset with gaps to all entries [N, d], numbers not rounded."""


def chosen_model(dataset: GraphDataset, seed: int, covariance: str = "shrunk") -> GSPN:
    """Fitted to all that is observed."""
    contest = Contest(dataset, held_out(dataset, seed))
    contest.enter(_mixtures(dataset, seed, covariance))
    if int(dataset.num_edges_per_graph().sum()):
        contest.enter(with_edges(contest.best(1), "normal"))
    return contest.best_model()


def _mixtures(dataset: GraphDataset, seed: int, covariance: str) -> list[Candidate]:
    like = replace(without_edges(dataset, "quick", seed)[0], covariance=covariance)
    most = max(1, len(dataset.entries()) // _FEWEST)
    return [replace(like, num_states=number) for number in _STATES if number <= most]


def answers_of(model: Any, dataset: GraphDataset) -> Answers:
    """What a fitted GSPN answers for the gaps of a dataset, all in one pass."""
    first = 0
    for batch in dataset.chunks(chunk_size(model.answering)):
        missing = ~batch.observed
        vertices = missing.any(1).nonzero().squeeze(1)
        for column, gaps, found in distributions(gaps_of(model.answering, batch, vertices), missing[vertices]):
            yield column, first + vertices[gaps], found
        first += batch.num_vertices


def descending_gspn(dataset: GraphDataset, seed: int) -> Answers:
    """What people got who said nothing, before models were chosen: one of the policy's size, by gradient descent."""
    model = policy.fit(policy.model_for(dataset, seed=seed), dataset, progress=False)
    return answers_of(model, dataset)


def regressing_gspn(dataset: GraphDataset, seed: int, *, covariance: str = "shrunk") -> Answers:
    """Two levels by EM with correlated leaves; states and context are chosen by held-out entries."""
    return answers_of(chosen_model(dataset, seed, covariance), dataset)


def selected_gspn(dataset: GraphDataset, seed: int, *, effort: policy.Effort = "normal", edges: bool = True) -> Answers:
    """What people get who say nothing: the stack that the policy chooses; without `edges` from the rows alone."""
    if not edges:
        dataset = _of_rows(dataset)
    return answers_of(policy.select(dataset, effort=effort, seed=seed).stack, dataset)


def _of_rows(dataset: GraphDataset) -> GraphDataset:
    """The same graphs, without their edges."""
    nowhere = torch.zeros_like(dataset.row_ptr)
    return replace(dataset, source=dataset.source[:0], row_ptr=nowhere, edge_order=None, edge_type=None)


def filled(dataset: GraphDataset, seed: int, *, how: str = "mean", neighbours: bool = False) -> Answers:
    """`FeatureImputer` with one of its methods."""

    def points(gappy: GraphDataset) -> Tensor:
        imputer = FeatureImputer(dataset.schema, how, seed=seed, neighbours=neighbours).fit(gappy)
        return torch.cat([graph.x for graph in imputer.impute(gappy)]).double()

    return with_residuals(points, dataset, seed)


def mice(dataset: GraphDataset, seed: int, *, draws: int = 3, rounds: int = 3) -> Answers:
    """miceforest: chained gradient-boosted trees with mean matching; the mean, or commonest value, of some draws."""
    try:
        import lightgbm  # noqa: F401
        import miceforest
        import pandas
    except ImportError as error:
        raise MissingExtraError("miceforest is not installed; pip install 'gspn[yardstick]' brings it") from error
    kinds = [isinstance(attribute, Categorical | Binary) for attribute in dataset.schema]

    def completed(table: Any, matched: Any) -> list[Any]:
        kernel = miceforest.ImputationKernel(table, num_datasets=draws, mean_match_strategy=matched, random_state=seed)
        kernel.mice(rounds, verbose=False, num_threads=1)
        return [kernel.complete_data(number).astype(float).to_numpy() for number in range(draws)]

    def points(gappy: GraphDataset) -> Tensor:
        x = gappy.entries().double()
        table = pandas.DataFrame(x.numpy().copy(), columns=[f"c{column}" for column in range(x.shape[1])])
        for name, is_category in zip(table.columns, kinds, strict=True):
            if is_category:
                table[name] = table[name].astype("Int64").astype("category")
        try:
            found = completed(table, "normal")
        except ValueError:  # its usual way looks for near log-odds, which are infinite where trees are sure
            found = completed(
                table, {name: "fast" if one else "normal" for name, one in zip(table, kinds, strict=True)}
            )
        drawn = torch.from_numpy(np.stack(found))
        return torch.where(torch.tensor(kinds), drawn.mode(0).values, drawn.mean(0))

    try:
        return iter(list(with_residuals(points, dataset, seed)))
    except Exception as error:  # whatever a foreign package stumbles over is a finding, not the end of the others
        raise GSPNError(f"miceforest failed: {type(error).__name__}: {error}") from error


def gaussian(
    dataset: GraphDataset, seed: int, *, components: Sequence[int] = (1,), neighbours: bool = False
) -> Answers:
    """Full-covariance Gaussians by EM over standardised columns and indicators of categories.

    Of several numbers of components, held-out entries choose, by their log-density given the rest of their rows.
    """
    features = Features.of(dataset.schema, dataset.entries())
    x = _columns(features, dataset, neighbours)
    chosen = components[0]
    if len(components) > 1:
        held = policy.held_out_mask(dataset, seed, HELD_OUT)
        training = with_missing(dataset, held)
        gappy = _columns(features, training, neighbours)
        full = torch.where(_own(features, held, gappy.shape[1]), x, gappy)
        losses, single = [], fit_gaussian_mixture(gappy)
        for number in components:
            model = single if number == 1 else fit_gaussian_mixture(gappy, number, single=single, seed=seed)
            losses.append(-float((model.log_density(full) - model.log_density(gappy)).sum()))
        chosen = components[int(np.argmin(losses))]
    return _normals(fit_gaussian_mixture(x, chosen, seed=seed), features, dataset, x)


def with_residuals(points: Points, dataset: GraphDataset, seed: int) -> Answers:
    """Answers of a method that gives points alone: its errors on held-out entries are taken for its uncertainty.

    The points are from all that is observed; the errors from a second fit without the held-out entries.
    """
    entries = dataset.entries().double()
    held = policy.held_out_mask(dataset, seed, HELD_OUT)
    tried, found = points(with_missing(dataset, held)), points(dataset)
    for column, attribute in enumerate(dataset.schema):
        rows = entries[:, column].isnan().nonzero().squeeze(1)
        if not len(rows):
            continue
        known, judged = entries[:, column], held[:, column]
        if isinstance(attribute, Categorical | Binary):
            size = len(attribute.categories) if isinstance(attribute, Categorical) else 2
            frequencies = torch.bincount(known[~known.isnan()].long(), minlength=size).double()
            hits = int((tried[judged, column] == known[judged]).sum())
            yield column, rows, calibrated(found[rows, column].long(), frequencies, hits, int(judged.sum()))
        else:
            errors = known[judged] - tried[judged, column]
            if len(errors) < 2:
                errors = known[~known.isnan()] - known.nanmean()
            yield column, rows, Residuals(attribute, found[rows, column], errors, bin_width(attribute, known))


def _columns(features: Features, dataset: GraphDataset, neighbours: bool) -> Tensor:
    """[N, w] features with gaps, and neighbours' means beside them."""
    entries = dataset.entries()
    own = features(entries).double().masked_fill(features.gaps(entries), torch.nan)
    return torch.cat([own, neighbour_means(dataset, own)], dim=1) if neighbours else own


def _own(features: Features, held: Tensor, width: int) -> Tensor:
    """[N, w] which columns belong to held-out entries."""
    marked = features.gaps(torch.where(held, torch.nan, 0.0))
    return torch.nn.functional.pad(marked, (0, width - marked.shape[1]))


def _normals(model: GaussianMixture, features: Features, dataset: GraphDataset, x: Tensor) -> Answers:
    weights, means, variances = model.conditional(x)
    entries, start = dataset.entries().double(), 0
    for column, attribute in enumerate(dataset.schema):
        fill = features.fill[attribute.name]
        own, start = slice(start, start + len(fill)), start + len(fill)
        rows = entries[:, column].isnan().nonzero().squeeze(1)
        if not len(rows):
            continue
        if isinstance(attribute, Categorical | Binary):
            expected = (weights[rows, :, None] * means[rows, :, own]).sum(1)
            if isinstance(attribute, Binary):
                expected = torch.cat([1 - expected, expected], dim=1)
            probs = expected.clamp(min=_LEAST_PROBABILITY)
            yield column, rows, Probabilities(probs / probs.sum(1, keepdim=True))
            continue
        known = entries[:, column]
        largest = float(known[~known.isnan()].max()) if isinstance(attribute, Count) else np.inf
        deviations = variances[rows, :, own].squeeze(-1).clamp(min=1e-12).sqrt()
        yield (
            column,
            rows,
            Normals(
                attribute,
                weights[rows],
                means[rows, :, own].squeeze(-1),
                deviations,
                float(fill),
                features.spread[attribute.name],
                largest,
            ),
        )


def mixture(dataset: GraphDataset, seed: int, *, neighbours: bool = False) -> Answers:
    """`gaussian` with one to eight components."""
    return gaussian(dataset, seed, components=_COMPONENTS, neighbours=neighbours)


METHODS: Mapping[str, Callable[..., Answers]] = {
    "FeatureImputer": filled,
    "Gaussian": gaussian,
    "GaussianMixture": mixture,
    "miceforest": mice,
    "GSPN, default": descending_gspn,
    "GSPN, regressing": regressing_gspn,
    "GSPN, selected": selected_gspn,
}


def check_method(name: str, settings: Mapping[str, Any]) -> None:
    """Refuse methods and settings that there are not, before anything is fitted."""
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}; there are {', '.join(METHODS)}")
    known = settings_of(name)
    if unknown := sorted({*settings} - known):
        raise InputError(f"{name} has no setting {', '.join(unknown)}; it has {', '.join(sorted(known)) or 'none'}")


def settings_of(name: str) -> set[str]:
    return {*inspect.signature(METHODS[name]).parameters} - {"dataset", "seed"}
