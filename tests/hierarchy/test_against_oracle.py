"""The library against Algorithm 1 written literally: 240 random cases over everything that can vary.

Both compute in float64. The numbers involved are sums of a few hundred rounded terms of size up to about 100, so their
rounding stays below 1e-12; 1e-9 leaves three digits for unlucky cancellations.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracle_cases import CASES, GAPS, GRAPHS, HIDDEN, SHORTCUTS, TEMPLATES, make_case

from gspn.hierarchy.roots import leave_one_out
from gspn.testing import oracle

TOLERANCE = 1e-9


@pytest.mark.parametrize("seed", range(CASES))
def test_agrees(seed: int) -> None:
    case = make_case(seed)
    n = len(case.graph.x)
    hidden, axes = case.axes["hidden"], case.axes
    rng = np.random.default_rng(1)
    if hidden == "none":
        ours = case.model.log_likelihood(case.data)
        theirs = [oracle.log_likelihood(case.theirs, case.graph, v) for v in range(n)]
        # Posteriors of every level and sum unit, too.
        posteriors = case.model.posteriors(case.data).numpy()
        expected = np.stack([oracle.posteriors(case.theirs, case.graph, v) for v in range(n)])
        np.testing.assert_allclose(posteriors, expected, rtol=0, atol=TOLERANCE, err_msg=str(axes))
    elif hidden == "own vertex":
        ours = case.model.log_likelihood(case.data, leave_one_out=True)
        theirs = [oracle.leave_one_out(case.theirs, case.graph, v) for v in range(n)]
    elif hidden == "one entry":
        columns = rng.integers(case.graph.x.shape[1], size=n)
        entries = torch.zeros(case.graph.x.shape, dtype=torch.bool)
        entries[torch.arange(n), torch.from_numpy(columns)] = True
        batch = case.model.collate(case.data)
        ours = torch.cat(list(leave_one_out(case.model.hierarchy, batch, torch.arange(n), entries)))
        theirs = [oracle.entry(case.theirs, case.graph, v, int(columns[v])) for v in range(n)]
    else:
        entries = torch.from_numpy(rng.random(case.graph.x.shape) < 0.4)
        batch = case.model.collate(case.data).hiding(entries)
        ours = case.model(batch).log_hidden
        pairs = {(int(v), int(c)) for v, c in entries.nonzero()}
        theirs = oracle.masked(case.theirs, case.graph, pairs)
    np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=TOLERANCE, atol=TOLERANCE, err_msg=str(axes))


@pytest.mark.parametrize("seed", [seed for seed in range(CASES) if HIDDEN[(seed // 3) % 4] == "own vertex"][:20])
def test_small_budget_of_copies_changes_nothing(seed: int) -> None:
    case = make_case(seed)
    n = len(case.graph.x)
    batch = case.model.collate(case.data)
    pieces = list(leave_one_out(case.model.hierarchy, batch, torch.arange(n), budget=2))
    expected = case.model.log_likelihood(case.data, leave_one_out=True)
    torch.testing.assert_close(torch.cat(pieces), expected, rtol=1e-12, atol=1e-12)


def test_cases_cover_every_axis() -> None:
    axes = [make_case(seed).axes for seed in range(CASES)]
    wanted = {
        "levels": {1, 2, 3, 4},
        "template": set(TEMPLATES),
        "graph": set(GRAPHS),
        "edge types": {1, 2, 3},
        "missing": {0.0, 0.25, 0.6, 1.0},
        "hidden": set(HIDDEN),
        "shortcut": set(SHORTCUTS),
        "gaps": set(GAPS),
    }
    for name, values in wanted.items():
        assert {a[name] for a in axes} == values
    together = {(a["template"], a["hidden"], a["gaps"]) for a in axes}
    assert len(together) == len(TEMPLATES) * len(HIDDEN) * len(GAPS)
