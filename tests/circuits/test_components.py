"""Components of mixtures: rows that share some parameters, several families for one attribute, no rows at all."""

from __future__ import annotations

import scipy.stats
import torch
from small_leaves import univariate

from gspn.attributes import Continuous, Count
from gspn.circuits import Rows
from gspn.circuits.components import Components
from gspn.circuits.distributions import MixtureDistribution

EVENLY = torch.full((2, 2), 0.5).double().log()


def gaussians(mean: list[list[float]], scale: list[list[float]]) -> Rows:
    natural = {"mean": torch.tensor(mean).double(), "scale": torch.tensor(scale).double()}
    return Rows(univariate(Continuous("x"), 1, 2), natural)


def test_a_parameter_that_rows_share_beside_one_that_differs() -> None:
    """Two rows, the same means, other deviations: each is the mixture that it would be alone."""
    both = MixtureDistribution(Components([gaussians([[0.0, 3.0]], [[1.0, 1.0], [1.0, 6.0]])]), EVENLY)
    for row, scale in enumerate([[1.0, 1.0], [1.0, 6.0]]):
        alone = MixtureDistribution(Components([gaussians([[0.0, 3.0]], [scale])]), EVENLY[:1])
        torch.testing.assert_close(both.mode[row], alone.mode[0], rtol=0, atol=1e-6)
        torch.testing.assert_close(both.entropy[row], alone.entropy[0], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(both.quantile(0.2)[row], alone.quantile(0.2)[0], rtol=1e-9, atol=1e-9)


def test_rows_are_drawn_independently() -> None:
    """Negative binomials whose means differ from row to row, with one dispersion: no row's rate is another's."""
    family = univariate(Count("n", "negative_binomial"), 1, 1)
    natural = {"log_mean": torch.full((2, 1), 4.0).double(), "dispersion": torch.full((1, 1), 2.0).double()}
    draws = MixtureDistribution(Components([Rows(family, natural)]), torch.zeros(2, 1).double()).sample(
        4000, torch.Generator().manual_seed(0)
    )
    assert abs(scipy.stats.pearsonr(draws[:, 0], draws[:, 1]).statistic) < 0.06  # 3.8 deviations of a chance value


def test_no_rows_have_answers_of_no_length() -> None:
    """Also where one family has a row for each and another shares its own."""
    several = Components([gaussians([[0.0, 1.0], [2.0, 3.0]], [[1.0, 1.0]]), gaussians([[5.0, 6.0]], [[1.0, 2.0]])])
    nobody = MixtureDistribution(several, torch.zeros(2, 4).double())[0:0]
    for answer in (nobody.mean, nobody.variance, nobody.mode, nobody.entropy, nobody.quantile(0.5)):
        assert answer.shape == (0,)
