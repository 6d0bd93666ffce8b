"""What correlated leaves, contexts, their variance and the guard are when they say nothing: the model without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from small_graphs import EVERY_KIND, draw_graph
from torch_geometric.data import Data

from gspn import GSPN, Continuous, Schema

SCHEMA = Schema([*EVERY_KIND, Continuous("weight")])
NUMBERS = tuple(a.name for a in SCHEMA if isinstance(a, Continuous))


def data() -> Data:
    """A cycle with gaps, so that everybody hears somebody: a vertex that does not is answered for by another level."""
    drawn, more = (
        draw_graph(np.random.default_rng(3), 8, missing=0.3),
        torch.randn(8, 1, generator=torch.Generator().manual_seed(1)),
    )
    at = torch.arange(8)
    around = torch.stack([torch.cat([at, at]), torch.cat([at.roll(1), at.roll(-1)])])
    return Data(x=torch.cat([drawn.x.double(), more.double()], dim=1), edge_index=around)


def plain(**settings: Any) -> GSPN:
    """With parameters of the constructor's choice, in users' units of its own."""
    model = GSPN(SCHEMA, num_layers=3, num_states=3, seed=2, **settings).double()
    return model.set_parameters(model.get_parameters())


def carrying(old: GSPN, **settings: Any) -> GSPN:
    """A model with the new parts, which have the old one's numbers, no slopes and no correlations."""
    new = GSPN(SCHEMA, num_layers=3, num_states=3, **settings).double()
    theirs, mine = old.get_parameters(), new.get_parameters()
    leaves = {}
    for key, own in mine["leaves"].items():
        if key == NUMBERS:
            mean, std = (torch.stack([theirs["leaves"][name][k] for name in NUMBERS], -1) for k in ("mean", "std"))
            given = {"mean": mean}
            if "noise" in own:
                given |= {"loadings": torch.zeros_like(own["loadings"]), "noise": std.square()}
            else:
                given["covariance"] = torch.diag_embed(std.square())
        else:
            given = dict(theirs["leaves"][key])
        if "slope" in own:
            given["slope"] = torch.zeros_like(own["slope"])
        leaves[key] = given
    kept = {name: theirs[name] for name in ("prior", "transitions", "units")}
    return new.set_parameters({**mine, **kept, "leaves": leaves})


@pytest.mark.parametrize("variance", [0.0, 1.0])
@pytest.mark.parametrize("context", [None, "neighbours", "two_hops"])
@pytest.mark.parametrize("covariance", ["diagonal", "full", "shrunk", "low_rank"])
def test_old_numbers(covariance: str, context: str | None, variance: float) -> None:
    if variance and context is None:
        return  # nothing that could vary
    old, graph = plain(), data()
    new = carrying(old, covariance=covariance, context=context, context_variance=variance)
    questions: list[Callable[[GSPN], torch.Tensor]] = [
        lambda model: model.log_likelihood(graph),
        lambda model: model.log_likelihood(graph, leave_one_out=True),
        lambda model: model.posteriors(graph),
        lambda model: model.impute(graph).x,
        lambda model: model.conditional(graph, "weight").variance,
        lambda model: model.conditional(graph, SCHEMA.names[0]).entropy,
    ]
    for ask in questions:
        torch.testing.assert_close(ask(new), ask(old), rtol=1e-9, atol=1e-9)


def test_no_guard_is_the_old_answer() -> None:
    old, graph = plain(), data()
    new = plain(guard=0.0)
    far = torch.full((8,), 50.0)
    assert torch.equal(new.conditional(graph, "weight").log_prob(far), old.conditional(graph, "weight").log_prob(far))
