"""Samples of all leaf families are independent and come from the given generator alone.

That they follow their distributions is shown by the suite of leaves (`testing/test_leaves.py`).
"""

from __future__ import annotations

import torch
from seeded import generator
from small_leaves import LEAVES, LEVELS, Case, over_families, univariate

from gspn.attributes import Continuous
from gspn.circuits.leaves import Rows
from gspn.circuits.leaves.univariate import sample_rows


@over_families
def test_samples_come_from_the_given_generator_alone(case: Case) -> None:
    family = case.build()
    natural = family.natural()
    with torch.no_grad():
        before = torch.get_rng_state()
        first, again = family.sample(natural, 50, generator(3)), family.sample(natural, 50, generator(3))
        other = family.sample(natural, 50, generator(4))
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        # Without a generator the global one is used, as everywhere in torch.
        family.sample(natural, 1)
        assert not torch.equal(torch.get_rng_state(), before)


@over_families
def test_leaves_and_draws_are_independent(case: Case) -> None:
    """One random number used for several leaves or rows would correlate them."""
    family = case.empty()
    parameters = {
        key: value[:1, :1].expand(LEVELS, LEAVES, *value.shape[2:]) for key, value in case.parameters().items()
    }
    family.assign(family.check_exported(parameters, LEVELS))
    n = 10_000
    with torch.no_grad():
        draws = family.sample(family.natural(), n, generator(5)).reshape(n, -1)
    this_and_the_next = torch.cat([draws[1:], draws[:-1]], dim=1)
    # Correlations of independent columns have deviation 1/√n = 0.01; five of those do not happen by chance.
    assert torch.corrcoef(this_and_the_next.T).fill_diagonal_(0).abs().max() < 0.05


def test_rows_that_share_a_parameter_have_draws_of_their_own() -> None:
    """The first parameter is the same for all rows, the other is each row's."""
    family = univariate(Continuous("x"), 1, 1)
    natural = {"scale": torch.full((1, 1), 1e-6), "mean": torch.arange(5.0)[:, None]}
    drawn = sample_rows(Rows(family, natural), 5, generator())
    torch.testing.assert_close(drawn, torch.arange(5.0, dtype=torch.float64)[:, None], rtol=0, atol=1e-3)
