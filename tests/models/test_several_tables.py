"""Several completed copies: between them gaps differ as far as they are uncertain, and nothing else does."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from em_cases import ATOMS, SCHEMA, graph, with_atoms
from torch_geometric.data import Data

import gspn
from gspn.errors import GSPNError
from gspn.models import several_tables
from gspn.models.several_tables import several_completed

NO_EDGES = torch.zeros(2, 0, dtype=torch.long)
ONE = gspn.Schema([gspn.Continuous("x")])


def learned(data: Data, schema: gspn.Schema = SCHEMA, **settings: Any) -> gspn.GSPN:
    usual: dict[str, Any] = {"num_layers": 1, "num_states": 1, "start": "em", "epochs": 0, "prior": 0.1, "guard": 1e-3}
    model = gspn.GSPN(schema, **{**usual, **settings})
    return model.fit(data, progress=False, keep_scores=False)


def drawn(model: gspn.GSPN | gspn.Stack, data: Data, m: int, seed: int = 0) -> torch.Tensor:
    """[m, N, d]"""
    dataset = gspn.pack([data], model.schema)
    return torch.stack(list(several_completed(model, dataset, dataset, m, seed)))


def numbers(observed: int, missing: int) -> Data:
    x = torch.randn(observed, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return Data(x=torch.cat([x, torch.full((missing,), torch.nan)])[:, None], edge_index=NO_EDGES)


def test_only_gaps_are_drawn_and_the_seed_fixes_them() -> None:
    data = with_atoms(graph(size=60))
    stack = gspn.Stack(
        [
            learned(data, num_states=2, covariance="shrunk", atoms=ATOMS),
            learned(data, num_layers=2, num_states=2, num_edge_types=2, context="neighbours", atoms=ATOMS),
        ],
        [0.4, 0.6],
    )
    before = [copy.deepcopy(model.state_dict()) for model in stack.models]
    found, known = drawn(stack, data, 4), ~data.x.isnan()
    assert not found.isnan().any()
    assert torch.equal(found[:, known], data.x[known].expand(4, -1))
    assert len({tuple(table.flatten().tolist()) for table in found}) == 4
    for column in (SCHEMA.index("kind"), SCHEMA.index("flag"), SCHEMA.index("number")):
        assert torch.equal(found[..., column], found[..., column].round())
        assert found[..., column].min() >= 0
    filled = found[:, data.x[:, 0].isnan(), 0]
    assert 0 < float((filled == 0).double().mean()) < 1, "atoms have their share"
    assert torch.equal(drawn(stack, data, 2), found[:2]), "whatever m is"
    assert not torch.equal(drawn(stack, data, 1, seed=1)[0], found[0])
    for model, state in zip(stack.models, before, strict=True):
        for name, value in model.state_dict().items():
            assert torch.equal(value, state[name]), "members stay as they are"


def test_parameters_are_uncertain_too() -> None:
    """The mean of 20 filled entries varies by σ² (1/20 + 1/20) if that of 20 observed ones is not known for sure.

    Variances of 500 tables have a relative error of 0.06; with the parameters as they are it would be half as much.
    """
    data = numbers(20, 20)
    found = drawn(learned(data, ONE), data, 500)[:, 20:, 0].mean(1)
    # σ² of a bootstrap is 19/21 of the observed rows' own on average, their mean's variance σ² / 21.
    sigma = float(data.x[:20].var(correction=0))
    expected = sigma * (1 / 21 + (20 / 21) / 20)
    assert float(found.var()) == pytest.approx(expected, rel=0.2)


def test_the_guard_draws_nothing() -> None:
    """With half of the weight on tails of five deviations' scale, a third of the draws would be beyond five."""
    data = numbers(200, 400)
    found = drawn(learned(data, ONE, guard=0.5), data, 3)[:, 200:]
    assert float(found.abs().max()) < 6


def test_the_spread_of_a_stack_is_multiplied_anew() -> None:
    data = numbers(100, 50)
    model = learned(data, ONE)
    plain, wide = (drawn(gspn.Stack([model], spread=spread), data, 1)[0, 100:, 0] for spread in (1.0, 1.4))
    slope = np.polyfit(plain.numpy(), wide.numpy(), 1)[0]
    assert slope == pytest.approx(1.4, rel=1e-4), "the same noise, so much wider"


def test_members_are_drawn_with_their_weights() -> None:
    """Models of other numbers, which cannot be mistaken: 40 draws of one in four are 3 to 18 but for 1 in 500."""
    data = numbers(100, 50)
    models = [learned(Data(x=data.x + shift, edge_index=NO_EDGES), ONE) for shift in (0.0, 1000.0)]
    for model in models:
        model.epochs = 1  # as if not all were learned by EM, which would bring them together
    found = drawn(gspn.Stack(models, [0.25, 0.75]), data, 40)[:, 100:, 0].mean(1)
    assert 3 <= int((found < 500).sum()) <= 18


def test_neighbours_draws_hang_together() -> None:
    """On a chain whose vertices follow each other, gaps side by side are filled alike; alone they would not be."""
    rng = np.random.default_rng(0)
    size, x = 600, [0.0]
    for _ in range(size - 1):
        x.append(0.95 * x[-1] + math.sqrt(1 - 0.95**2) * rng.normal())
    values = torch.tensor(x, dtype=torch.float64)
    gaps = torch.arange(0, size - 10, 10)[:, None] + torch.arange(4, 8)  # four side by side
    values[gaps] = torch.nan
    one, other = torch.arange(size - 1), torch.arange(1, size)
    edges = torch.stack([torch.cat([one, other]), torch.cat([other, one])])
    data = Data(x=values[:, None], edge_index=edges)
    model = learned(data, ONE, num_layers=2, context="neighbours")
    together = drawn(model, data, 30)[..., 0]
    alone = model.sample_missing(data, 30)[..., 0]

    def alike(found: torch.Tensor) -> float:
        """The correlation of what two neighbours differ by from their means over the tables."""
        rest = (found - found.mean(0))[:, gaps]
        return float(np.corrcoef(rest[..., 1].flatten(), rest[..., 2].flatten())[0, 1])

    # 1,770 pairs: chance is about 0.03.
    assert abs(alike(alone)) < 0.15
    assert alike(together) > 0.4


def test_what_em_has_not_learned_draws_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    data, refitted = graph(size=40), []
    monkeypatch.setattr(several_tables, "bootstrap_by_em", lambda *arguments: refitted.append(arguments))
    settings: dict[str, Any] = {"num_edge_types": 2, "num_states": 2}
    deep = learned(data, num_layers=3, objective="masked", epochs=1, **settings)
    assert not drawn(deep, data, 2).isnan().any()
    assert not refitted
    drawn(learned(data, num_layers=2, **settings), data, 2)
    assert len(refitted) == 2


def test_other_weights_where_em_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def fails(*_: object) -> None:
        tries.append(1)
        if len(tries) < fine:
            raise GSPNError("diverged")

    data = numbers(20, 5)
    model, fine = learned(data, ONE), 3
    monkeypatch.setattr(several_tables, "bootstrap_by_em", fails)
    assert not drawn(model, data, 1).isnan().any()
    assert len(tries) == 3
    fine = 100
    with pytest.raises(GSPNError, match="diverged"):
        drawn(model, data, 1)


def test_gaps_may_be_evidence() -> None:
    """They are drawn by sweeps like others; that what is drawn stays a gap is a test of `pseudo_gibbs`."""
    data = graph(size=40)
    model = learned(data, num_layers=2, num_edge_types=2, num_states=2, gaps="informative")
    found = drawn(model, data, 1)
    assert not found.isnan().any()
    known = ~data.x.isnan()
    assert torch.equal(found[0][known], data.x[known])
