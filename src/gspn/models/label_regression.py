"""How one regression of the label's leaf is fitted: the ridged maximum of a weighted log-probability.

By Newton's steps, which are the leaves' own estimates, where contexts are narrow; by L-BFGS where they are wide or
there are hidden units. A few rows of many columns are first turned into as few columns, which changes nothing:
slopes lie in the space of the rows, and lengths stay. Which rows and strengths, is `label_learning`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from gspn.attributes import Binary, Categorical
from gspn.circuits.evidence import Context, Evidence
from gspn.circuits.leaves import Leaves, leaves_for
from gspn.hierarchy.label_readout import Kind, LabelRegression, leaf_family, log_prior_of_leaves, log_prob_of
from gspn.models.label_growing import RegressionData, grow
from gspn.random_streams import keyed_generator

_NARROW = 160
"""Columns up to which Newton's method, whose matrices grow with their square, is used."""
_FEW_ROWS = 600
"""Up to which they are worth turning into columns, which takes their number's third power."""
_NEWTON_STEPS, _STEPS, _STEPS_WITH_HIDDEN = 12, 60, 40
_GAIN = 1e-5
"""Nats a row that a step must gain for another one to be worth it."""
_WIDE = 3_000_000
"""Numbers of a context from which on regressions are fitted in single precision."""
_UNITS = 13
"""Names a stream of random numbers."""
PRIOR = 1.0
"""Pseudo-observations of every leaf"""


def fit(
    part: LabelRegression, kind: Kind, rows: RegressionData, strength: float, seed: int, *, goes_on: bool = False
) -> None:
    """Fit a regression; `goes_on` begins where it stands, which was learned for another strength."""
    if part.trees is not None:
        part.strength.fill_(strength)
        if not goes_on:
            grow(part, rows, kind.through == "boosted", seed)
        return
    with torch.no_grad():
        before = float(part.strength)
        part.strength.fill_(strength)
        if not goes_on:
            _begin(part, rows.y, seed)
        else:  # so that it predicts what it did
            for slope in _slopes(part):
                slope.mul_(before / strength)
            if part.hidden is not None:
                part.hidden.weight.mul_(before / strength)
    if part.hidden is not None:
        _climb(part, rows)
        return
    context = part.context(rows.z)
    if context is None:
        _by_newton(part.families, None, rows, prior=max(map(_classes, part.families)))
    elif context.mean.shape[1] <= _NARROW:
        _by_newton(part.families, context, rows)
    elif len(rows.z) < min(context.mean.shape[1], _FEW_ROWS):
        _in_space_of_rows(part, context, rows)
    else:
        _by_lbfgs(part.families, context, rows)


def _begin(part: LabelRegression, y: Tensor, seed: int) -> None:
    generator = keyed_generator(seed, _UNITS)
    for family, column in zip(part.families, y.split(1, dim=1), strict=True):
        family.start([column[~column[:, 0].isnan()]], generator)
    if part.hidden is None:
        return
    for parameter, spread in ((part.hidden.weight, 1.0), (part.hidden.bias, 0.1)):
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.copy_(spread * noise / max(1.0, parameter.shape[-1]) ** 0.5)
    for slope in _slopes(part):  # with slopes of 0 hidden units would all move alike, that is, not at all
        slope.add_(0.1 * torch.randn(slope.shape, generator=generator, dtype=torch.float64))


def _slopes(part: nn.Module) -> list[Tensor]:
    return [value for name, value in part.named_parameters() if name.endswith("raw_slope")]


def _objective(families: Sequence[Leaves], context: Context | None, rows: RegressionData) -> Tensor:
    """The mean, as tolerances are meant for numbers about 1."""
    log_prob = log_prob_of(families, context, rows.y)
    return ((rows.weights.to(log_prob) * log_prob).sum() + log_prior_of_leaves(families, PRIOR)) / rows.weights.sum()


def _classes(family: Leaves) -> float:
    """Pseudo-observations of frequencies: one of every class."""
    (target,) = family.scope
    if isinstance(target, Categorical):
        return float(len(target.categories))
    return 2.0 if isinstance(target, Binary) else PRIOR


@torch.no_grad()
def _by_newton(families: Sequence[Leaves], context: Context | None, rows: RegressionData, prior: float = PRIOR) -> None:
    reached = float(_objective(families, context, rows))
    for _ in range(_NEWTON_STEPS):
        for family, column in zip(families, rows.y.split(1, dim=1), strict=True):
            family.estimate(Evidence(column), rows.weights[:, None], context=context, prior=prior)
        found = float(_objective(families, context, rows))
        if not found > reached + _GAIN:
            return
        reached = found


def _by_lbfgs(families: Sequence[Leaves], context: Context, rows: RegressionData) -> None:
    single = context.mean.numel() > _WIDE
    for family in families:
        family.to(torch.float32 if single else torch.float64)
    seen = Context(context.mean.float() if single else context.mean, context.present)
    parameters = [parameter for family in families for parameter in family.parameters()]
    _minimise(parameters, lambda: -_objective(families, seen, rows), _STEPS)
    for family in families:
        family.double()


def _climb(part: LabelRegression, rows: RegressionData) -> None:
    """With hidden units."""
    total = rows.weights.sum()

    def loss() -> Tensor:
        assert part.hidden is not None
        own = -_objective(part.families, part.context(rows.z), rows)
        return own + 0.5 * part.hidden.weight.square().sum() / total

    _minimise(list(part.parameters()), loss, _STEPS_WITH_HIDDEN)


def _minimise(parameters: Sequence[Tensor], loss: Callable[[], Tensor], steps: int) -> None:
    before = [parameter.detach().clone() for parameter in parameters]
    optimizer = torch.optim.LBFGS(
        list(parameters),
        max_iter=steps,
        history_size=10,
        tolerance_grad=1e-5,
        tolerance_change=_GAIN,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value.detach()

    with torch.enable_grad():
        optimizer.step(closure)
    with torch.no_grad():
        fine = all(bool(parameter.isfinite().all()) for parameter in parameters)
        for parameter, old in zip(parameters, before, strict=True):
            parameter.grad = None
            if not fine:
                parameter.copy_(old)


@torch.no_grad()
def _in_space_of_rows(part: LabelRegression, context: Context, rows: RegressionData) -> None:
    """Z = (Z Vᵀ) V with orthonormal rows V: slopes θ V of the same length do what slopes θ on Z Vᵀ do."""
    whole = context.mean
    size, vectors = torch.linalg.eigh(whole @ whole.mT)
    kept = size > 1e-10 * size[-1]
    basis = (vectors[:, kept] / size[kept].sqrt()).mT @ whole
    turned = Context(whole @ basis.mT, context.present)
    small = [
        leaves_for(family.scope, 1, 1, family=leaf_family(family.scope[0]), context_width=len(basis)).double()
        for family in part.families
    ]
    for one, family in zip(small, part.families, strict=True):
        state = {name: value for name, value in family.state_dict().items() if name != "raw_slope"}
        one.load_state_dict(state | {"raw_slope": family.state_dict()["raw_slope"] @ basis.mT})
    if len(basis) <= _NARROW:
        _by_newton(small, turned, rows)
    else:
        with torch.enable_grad():
            _by_lbfgs(small, turned, rows)
    for one, family in zip(small, part.families, strict=True):
        state = one.state_dict()
        family.load_state_dict(state | {"raw_slope": state["raw_slope"] @ basis})
