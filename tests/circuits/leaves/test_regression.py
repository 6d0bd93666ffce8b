"""Discrete leaves with a context: estimates against a general optimiser, the ridge, and what the context rules out."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import torch
from numpy.typing import NDArray
from torch import Tensor

from gspn.attributes import Attribute, Binary, Categorical, Count
from gspn.circuits import Context, Evidence, Leaves, leaves_for
from gspn.circuits.leaves import at_level
from gspn.circuits.leaves.contract import RIDGE
from gspn.circuits.leaves.count_tables import TABULATED
from gspn.errors import InputError

Array = NDArray[np.float64]

ATTRIBUTES: list[Attribute] = [
    Categorical("c", ["a", "b", "c", "d"]),
    Binary("b"),
    Count("n"),
    Count("n", "negative_binomial"),
    Count("n", "count_table"),
]
WIDTH, LEAVES = 3, 2

over_attributes = pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda attribute: attribute.distribution)
over_ties = pytest.mark.parametrize("tied", [True, False], ids=["tied", "free"])


def data(attribute: Attribute, rows: int = 150, width: int = WIDTH, leaves: int = LEAVES) -> tuple[Any, ...]:
    """Values that depend on the context, contexts of which some are absent, and weights."""
    generator = torch.Generator().manual_seed(5)
    present = torch.rand(rows, generator=generator) > 0.1
    z = torch.randn(rows, width, generator=generator, dtype=torch.float64) * present[:, None]
    codes = len(attribute.categories) if isinstance(attribute, Categorical) else 2
    if attribute.distribution == "count_table":  # every place of the table is taken
        noise = torch.randn(rows, generator=generator, dtype=torch.float64)
        x = (TABULATED / 2 + 2 * z[:, 0] + 4 * noise).floor().clamp(0, TABULATED + 2)
    elif attribute.kind == "count":
        x = torch.poisson((0.7 + 0.5 * z[:, 0]).exp(), generator=generator)
    else:
        noise = torch.randn(rows, generator=generator, dtype=torch.float64)
        x = (codes / 2 + z[:, 0] + noise).floor().clamp(0, codes - 1)
    weights = torch.rand(rows, leaves, generator=generator, dtype=torch.float64)
    return x, Context(z, present), weights


def value_of(leaves: Leaves, evidence: Evidence, weights: Tensor, context: Context, prior: float) -> float:
    with torch.no_grad():
        natural = at_level(leaves.natural(), 1)
        total = (weights * leaves.log_prob(natural, evidence, context)[0]).sum()
        return float(total + leaves.log_prior(natural, prior)[0])


def settle(leaves: Leaves, x: Tensor, context: Context, weights: Tensor, prior: float) -> float:
    """Estimates until nothing is gained; none may lose."""
    evidence = Evidence(x[:, None])
    last = value_of(leaves, evidence, weights, context, prior)
    for _ in range(40):
        leaves.estimate(evidence, weights, level=1, context=context, prior=prior)
        found = value_of(leaves, evidence, weights, context, prior)
        assert found >= last - 1e-9 * abs(last)
        if found - last < 1e-11 * abs(found):
            break
        last = found
    return found


def likelihoods(attribute: Attribute, codes: int) -> Callable[[Array, Array, float], Array]:
    """Log-densities of counts or codes x [n] with predictors [n, P], and a shape where the family has one."""

    def log_density(eta: Array, x: Array, shape: float) -> Array:
        rows = np.arange(len(x))
        if attribute.kind == "categorical":
            return np.asarray(scipy.special.log_softmax(eta, axis=1)[rows, x.astype(int)])
        if attribute.kind == "binary":
            return np.asarray(scipy.special.log_expit(np.where(x == 1, eta[:, 0], -eta[:, 0])))
        if attribute.distribution == "count_table":
            place = np.minimum(x.astype(int), TABULATED)
            tail = np.log(2) * np.maximum(x - TABULATED + 1, 0)
            return np.asarray(scipy.special.log_softmax(eta, axis=1)[rows, place] - tail)
        if attribute.distribution == "poisson":
            return np.asarray(x * eta[:, 0] - np.exp(eta[:, 0]) - scipy.special.gammaln(x + 1))
        size, mean = np.exp(-shape), np.exp(eta[:, 0])
        choose = scipy.special.gammaln(x + size) - scipy.special.gammaln(size) - scipy.special.gammaln(x + 1)
        return np.asarray(choose + size * np.log(size / (size + mean)) + x * np.log(mean / (size + mean)))

    return log_density


@over_attributes
@over_ties
@pytest.mark.parametrize("prior", [0.0, 2.5])
def test_an_estimate_arrives_where_a_general_optimiser_does(attribute: Attribute, tied: bool, prior: float) -> None:
    x, context, weights = data(attribute)
    codes = len(attribute.categories) if isinstance(attribute, Categorical) else 2
    table = attribute.distribution == "count_table"
    predictors = codes if attribute.kind == "categorical" else TABULATED + 1 if table else 1
    has_shape = attribute.distribution == "negative_binomial"
    log_density, z, w = likelihoods(attribute, codes), context.mean.numpy(), weights.numpy()
    seen = np.ones(1) if attribute.kind == "count" else np.arange(codes, dtype=float)
    seen = np.arange(TABULATED + 1, dtype=float) if table else seen
    sizes = [LEAVES * predictors, (1 if tied else LEAVES) * predictors * WIDTH, LEAVES * has_shape]

    def loss(flat: Array) -> float:
        a, b, shape = np.split(flat, np.cumsum(sizes)[:-1])
        a, b = a.reshape(LEAVES, predictors), b.reshape(-1, predictors, WIDTH)
        total = 0.5 * RIDGE * (b**2).sum()
        for i in range(LEAVES):
            own = float(shape[i]) if has_shape else 0.0
            total -= w[:, i] @ log_density(a[i] + z @ b[0 if tied else i].T, x.numpy(), own)
            total -= prior * log_density(np.tile(a[i], (len(seen), 1)), seen, own).mean()
        return float(total)

    best = -scipy.optimize.minimize(loss, np.zeros(sum(sizes)), options={"gtol": 1e-6, "maxiter": 2000}).fun
    torch.manual_seed(0)
    leaves = leaves_for(attribute, 2, LEAVES, context_width=WIDTH, tied_slopes=tied).double()
    found = settle(leaves, x, context, weights, prior)
    # Weak dispersions lie beyond the ends of what is searched, where the likelihood is flat.
    assert found == pytest.approx(best, abs=1e-5 if has_shape else 1e-7)


@over_attributes
@over_ties
def test_many_columns_and_categories(attribute: Attribute, tied: bool) -> None:
    """Sixty columns that sum to 0 in groups, so that the scatter is singular; ten categories; sharp predictions."""
    if attribute.kind == "categorical":
        attribute = Categorical("c", list("abcdefghij"))
    x, context, weights = data(attribute, rows=300, width=60, leaves=4)
    z = context.mean.unflatten(1, (-1, 5))
    context = Context((z - z.mean(-1, keepdim=True)).flatten(1), context.present)
    torch.manual_seed(0)
    leaves = leaves_for(attribute, 2, 4, context_width=60, tied_slopes=tied).double()
    evidence = Evidence(x[:, None])
    values = [value_of(leaves, evidence, weights, context, 0.0)]
    for _ in range(15):
        leaves.estimate(evidence, weights, level=1, context=context)
        values.append(value_of(leaves, evidence, weights, context, 0.0))
    assert all(later >= earlier - 1e-9 * abs(earlier) for earlier, later in itertools.pairwise(values))
    assert all(bool(torch.isfinite(p).all()) for p in leaves.parameters())
    assert values[-1] - values[-2] < 1e-3 * abs(values[-1])


@over_attributes
def test_missing_rows_are_left_out(attribute: Attribute) -> None:
    x, context, weights = data(attribute)
    known = torch.arange(len(x)) % 4 > 0
    found = []
    for values, rows in ((torch.where(known, x, torch.nan), slice(None)), (x[known], known)):
        torch.manual_seed(0)
        leaves = leaves_for(attribute, 2, LEAVES, context_width=WIDTH).double()
        leaves.estimate(Evidence(values[:, None]), weights[rows], level=1, context=context[rows], prior=1.0)
        found.append([p.detach().clone() for p in leaves.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@over_attributes
@over_ties
def test_impossible_starts_are_left(attribute: Attribute, tied: bool) -> None:
    """From probabilities and rates of 0, in single precision too."""
    x, context, weights = data(attribute)
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        leaves = leaves_for(attribute, 2, LEAVES, context_width=WIDTH, tied_slopes=tied).to(dtype)
        exported = {key: value.detach().clone() for key, value in leaves.export(leaves.natural()).items()}
        first = next(iter(exported))
        exported[first] = torch.zeros_like(exported[first])
        if exported[first].ndim == 3:
            exported[first][..., 0] = 1.0
        leaves.assign(exported)
        values = []
        for _ in range(40):
            leaves.estimate(Evidence(x[:, None]), weights, level=1, context=context)
            values.append(value_of(leaves, Evidence(x[:, None]), weights, context, 0.0))
        torch.manual_seed(1)
        other = leaves_for(attribute, 2, LEAVES, context_width=WIDTH, tied_slopes=tied).double()
        assert values[-1] == pytest.approx(settle(other, x, context, weights, 0.0), rel=1e-4)


@over_attributes
@over_ties
def test_the_ridge_is_part_of_the_prior(attribute: Attribute, tied: bool) -> None:
    leaves = leaves_for(attribute, 2, LEAVES, context_width=WIDTH, tied_slopes=tied).double()
    assert leaves.penalised
    with torch.no_grad():
        slope = leaves.get_parameter("raw_slope")
        slope.copy_(torch.randn(slope.shape, generator=torch.Generator().manual_seed(3)))
    natural = leaves.natural()
    for strength in (0.0, 2.0):
        plain = {key: torch.zeros_like(value) if key == "slope" else value for key, value in natural.items()}
        ridge = leaves.log_prior(natural, strength) - leaves.log_prior(plain, strength)
        # Once for all leaves where they are tied.
        torch.testing.assert_close(ridge, -0.5 * RIDGE * slope.square().sum((1, 2, 3)))
    assert not leaves_for(attribute, 2, LEAVES).penalised


@over_attributes
def test_what_a_context_rules_out(attribute: Attribute) -> None:
    leaves = leaves_for(attribute, 2, LEAVES, context_width=WIDTH).double()
    assert leaves.exported[-1] == "slope"
    assert leaves.table(leaves.natural()) is None
    with pytest.raises(InputError, match=attribute.name):
        leaves.combine(leaves.natural(), torch.tensor([0.5, 0.5]))
    exported = {key: value.detach().clone() for key, value in leaves.export(leaves.natural()).items()}
    exported["slope"][1, 0] = 1.0
    before = [p.detach().clone() for p in leaves.parameters()]
    with pytest.raises(InputError, match=f"'{attribute.name}': 'slope' must be the same for all leaves"):
        leaves.assign(leaves.check_exported(exported, 2))
    assert all(torch.equal(p, old) for p, old in zip(leaves.parameters(), before, strict=True))


@over_attributes
@over_ties
def test_a_start_has_no_slopes_and_draws_what_it_draws_without_a_context(attribute: Attribute, tied: bool) -> None:
    groups = [torch.tensor([[0.0], [1.0], [1.0]], dtype=torch.float64), torch.zeros(0, 1, dtype=torch.float64)]
    made = []
    for more in ({}, {"context_width": WIDTH, "tied_slopes": tied}):
        torch.manual_seed(4)
        leaves = leaves_for(attribute, 2, LEAVES, **more)  # type: ignore[arg-type]
        drawn = {name: p.detach().clone() for name, p in leaves.named_parameters()}
        if more:
            with torch.no_grad():
                leaves.get_parameter("raw_slope").fill_(0.5)
        leaves.start(groups, torch.Generator().manual_seed(9))
        made.append((drawn, {name: p.detach().clone() for name, p in leaves.named_parameters()}))
    for plain, regressing in zip(*made, strict=True):
        slope = regressing.pop("raw_slope")
        assert not slope.any()
        assert slope.shape[:2] == (2, 1 if tied else LEAVES)
        assert plain.keys() == regressing.keys()
        assert all(torch.equal(plain[name], regressing[name]) for name in plain)
