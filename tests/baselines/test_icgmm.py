"""The sampler against enumeration, the number of states it finds, and what iCGMM's embeddings say."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import multivariate_t
from small_graphs import EVERY_KIND, draw_graphs
from torch_geometric.data import Data

from gspn import Categorical, Continuous, GSPNError, Schema
from gspn.baselines import ICGMM
from gspn.baselines.evidence import Column
from gspn.baselines.gibbs import RATE, SHAPE, ChainState, Priors, Sampler

PRIORS = Priors(pseudo_count=0.5, strength=0.3, shape=1.5, rate=0.4)
COLUMNS = (Column(3), Column(0))
GROUPS = np.array([0, 0, 0, 1, 1, 1])
NAN = math.nan
# Two loose bunches, and gaps of every kind.
EVIDENCE = np.array([[0, -1.0], [0, -0.6], [1, 1.1], [1, NAN], [NAN, 0.9], [2, -0.8]])

Partition = tuple[int, ...]


def sampler(seed: int, groups: NDArray[np.int64] = GROUPS) -> Sampler:
    return Sampler(EVIDENCE, groups, 2, COLUMNS, PRIORS, np.random.default_rng(seed))


# ---- Exact answers


def log_marginal(members: list[int], evidence: NDArray[np.float64] = EVIDENCE) -> float:
    """log of the evidence of one state's members, its parameters integrated out."""
    rows = evidence[members]
    codes, values = rows[~np.isnan(rows[:, 0]), 0], rows[~np.isnan(rows[:, 1]), 1]
    a, counts = PRIORS.pseudo_count, np.bincount(codes.astype(int), minlength=3)
    found = gammaln(3 * a) - gammaln(3 * a + len(codes)) + (gammaln(a + counts) - gammaln(a)).sum()
    if len(values):
        # Normal–gamma integrated over mean and precision: one t in as many dimensions as there are values.
        shape = PRIORS.rate / PRIORS.shape * (np.eye(len(values)) + 1 / PRIORS.strength)
        found += multivariate_t(np.zeros(len(values)), shape, df=2 * PRIORS.shape).logpdf(values)
    return float(found)


def partitions(size: int) -> Iterator[Partition]:
    """All ways to share `size` things among states, states numbered as they occur."""
    if size == 0:
        yield ()
        return
    for rest in partitions(size - 1):
        for k in range(max(rest, default=-1) + 2):
            yield (*rest, k)


def canonical(states: Any) -> Partition:
    names: dict[int, int] = {}
    return tuple(names.setdefault(int(state), len(names)) for state in states)


def blocks(partition: Partition) -> list[list[int]]:
    return [[u for u, k in enumerate(partition) if k == block] for block in range(max(partition) + 1)]


def franchise() -> dict[Partition, float]:
    """P(partition of the six points | evidence): tables in restaurants, dishes at tables, α and γ integrated out."""
    # Midpoints on a logarithmic scale over all that Gamma(1, 0.01) leaves possible, weighted by its density.
    grid = np.exp(np.linspace(math.log(1e-4), math.log(3000), 300))
    density = grid * grid ** (SHAPE - 1) * np.exp(-RATE * grid)

    def crp(tables: int, sizes: tuple[int, ...]) -> NDArray[np.float64]:
        """grid^tables / Π (grid)_(n): what a concentration says of seatings, up to what does not depend on it."""
        log_seats = np.sum([gammaln(grid + n) - gammaln(grid) for n in sizes], axis=0)
        weights: NDArray[np.float64] = np.exp(tables * np.log(grid) - log_seats)
        return weights

    evidence = {p: sum(map(log_marginal, blocks(p))) for p in partitions(6)}
    weights: defaultdict[Partition, float] = defaultdict(float)
    for seating in product(partitions(3), partitions(3)):
        tables = [max(group) + 1 for group in seating]
        orders = sum(gammaln(len(b)) for group in seating for b in blocks(group))
        alpha = float((crp(sum(tables), (3, 3)) * density).sum())
        for dishes in partitions(sum(tables)):
            gamma = float((crp(max(dishes) + 1, (sum(tables),)) * density).sum())
            served = canonical([dishes[t] for t in seating[0]] + [dishes[tables[0] + t] for t in seating[1]])
            orders_of_dishes = sum(gammaln(len(b)) for b in blocks(dishes))
            weights[served] += alpha * gamma * math.exp(orders + orders_of_dishes + evidence[served])
    total = sum(weights.values())
    return {partition: weight / total for partition, weight in weights.items()}


def distance(found: dict[Any, float], exact: dict[Any, float]) -> float:
    """Total variation."""
    return 0.5 * sum(abs(found.get(key, 0.0) - exact.get(key, 0.0)) for key in found.keys() | exact.keys())


# ---- The sampler


def test_whole_chain_matches_enumeration() -> None:
    """States, table counts, β, α and γ together have the hierarchical process's posterior over partitions."""
    exact = franchise()
    chain, draws = sampler(seed=0), 15_000
    found: Counter[Partition] = Counter()
    for _ in range(draws):
        chain.sweep()
        found[canonical(chain.mixture.states)] += 1
    # 203 partitions; independent draws would come to 0.5 Σ sqrt(2 p / (π n)) < 0.05, most of it from the rare ones.
    assert distance({p: n / draws for p, n in found.items()}, exact) < 0.06
    for u, v in combinations(range(6), 2):
        share = sum(n for partition, n in found.items() if partition[u] == partition[v]) / draws
        # Deviation sqrt(p (1 − p) / n) < 0.004 for independent draws; a chain of few points forgets in a few sweeps.
        assert share == pytest.approx(sum(w for p, w in exact.items() if p[u] == p[v]), abs=0.025)


def test_fixed_weights_match_a_finite_dirichlet_mixture() -> None:
    """With β fixed and nothing left for new states each group's weights are Dirichlet(α β) over three states."""
    beta, alpha = np.array([0.5, 0.3, 0.2, 0.0]), 1.7
    exact = {}
    for states in product(range(3), repeat=6):
        counts = np.zeros((2, 3))
        np.add.at(counts, (GROUPS, np.array(states)), 1)
        prior = (gammaln(alpha * beta[:3] + counts) - gammaln(alpha * beta[:3])).sum()
        members = [[u for u in range(6) if states[u] == k] for k in range(3)]
        exact[states] = math.exp(prior + sum(log_marginal(own) for own in members if own))
    total = sum(exact.values())
    exact = {states: weight / total for states, weight in exact.items()}
    chain, draws = sampler(seed=1), 15_000
    chain.mixture = ChainState(np.zeros(6, dtype=np.int64), beta, alpha, 1.0)
    found: Counter[tuple[int, ...]] = Counter()
    for _ in range(draws):
        chain.draw_states()
        found[tuple(chain.mixture.states.tolist())] += 1
    # 729 assignments, so independent draws would come to less than 0.09.
    assert distance({s: n / draws for s, n in found.items()}, exact) < 0.09
    for u in range(6):
        for k in range(3):
            share = sum(n for states, n in found.items() if states[u] == k) / draws
            assert share == pytest.approx(sum(p for states, p in exact.items() if states[u] == k), abs=0.025)


def test_posteriors_are_the_weights_times_the_predictives() -> None:
    chain = sampler(seed=2)
    chain.mixture = ChainState(np.array([0, 0, 1, 1, 1, 0]), np.array([0.5, 0.3, 0.2]), 1.7, 1.0)
    rows = np.array([[1, 0.4], [NAN, 2.0], [2, NAN], [NAN, NAN]])
    groups = np.array([0, 1, 1, 0])
    found = chain.sample().posteriors(groups, rows)
    counts = np.array([[2, 1], [1, 2]])
    for u, row in enumerate(rows):
        both = np.vstack([EVIDENCE, row])
        expected = [
            (1.7 * beta + counts[groups[u], k]) * math.exp(log_marginal([*own, 6], both) - log_marginal(own))
            for k, (beta, own) in enumerate(((0.5, [0, 1, 5]), (0.3, [2, 3, 4])))
        ]
        np.testing.assert_allclose(found[u], np.array(expected) / sum(expected), rtol=1e-9)


# ---- Planted groups


@pytest.mark.parametrize("start_states", [None, 1, 10])
@pytest.mark.parametrize("planted", [3, 6])
def test_finds_the_number_of_planted_groups(planted: int, start_states: int | None) -> None:
    rng = np.random.default_rng(planted)
    kind = rng.integers(planted, size=600)
    angle = 2 * np.pi * kind / planted
    x = np.stack([5 * np.cos(angle), 5 * np.sin(angle)], axis=1) + rng.normal(size=(600, 2)) * 0.5
    x[rng.random(x.shape) < 0.05] = NAN
    graphs = [Data(x=torch.from_numpy(part), edge_index=torch.empty(2, 0, dtype=torch.long)) for part in np.split(x, 6)]
    schema = Schema([Continuous("a"), Continuous("b")])
    model = ICGMM(schema, num_layers=1, sweeps=100, start_states=start_states).fit(graphs)
    late = [step["num_states"] for step in model.history_[50:]]
    assert abs(np.median(late) - planted) <= 1
    assert abs(model.num_states_[0] - planted) <= 1


def test_groups_of_the_second_layer_are_what_the_neighbours_favour() -> None:
    """Two kinds of star: the hub's own attribute is noise, its leaves decide its group, and so its state's weights."""
    rng = np.random.default_rng(0)
    schema = Schema([Categorical("colour", ["red", "green"])])
    leaves = torch.arange(1, 5)
    hub = torch.zeros(4, dtype=torch.long)
    edges = torch.stack([torch.cat([leaves, hub]), torch.cat([hub, leaves])])
    graphs = [
        Data(x=torch.tensor([[rng.integers(2)], *[[i % 2]] * 4], dtype=torch.float64), edge_index=edges)
        for i in range(100)
    ]
    model = ICGMM(schema, num_layers=2, pseudo_count=0.01, seed=3).fit(graphs)
    even = Data(x=torch.tensor([[NAN], [0], [0], [0], [0.0]]), edge_index=edges)
    odd = Data(x=torch.tensor([[NAN], [1], [1], [1], [1.0]]), edge_index=edges)
    width = model.num_states_[0]
    found = [model.embed(graph)[0, width:] for graph in (even, odd)]
    first = [model.embed(graph)[0, :width] for graph in (even, odd)]
    torch.testing.assert_close(first[0], first[1])
    assert (found[0] - found[1]).abs().max() > 0.1


# ---- The estimator


def test_embeddings_hold_unigrams_and_bigrams() -> None:
    graphs = draw_graphs(30, seed=0)
    model = ICGMM(EVERY_KIND, num_layers=2, sweeps=10).fit(graphs)
    alone = model.embed(graphs[3])
    assert alone.shape == (graphs[3].num_nodes, sum(model.num_states_))
    for part in alone.split(model.num_states_, dim=1):
        torch.testing.assert_close(part.sum(1), torch.ones(len(alone)))
    torch.testing.assert_close(model.embed(graphs)[3], alone)
    model.set_params(embedding="both")
    assert model.embed(graphs[3]).shape[1] == sum(k + k * k for k in model.num_states_)
    isolated = Data(x=graphs[0].x[:1], edge_index=torch.empty(2, 0, dtype=torch.long))
    assert torch.isfinite(model.embed(isolated)).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sweeps": 0}, "sweeps must be an integer of at least 1"),
        ({"start_states": 0}, "start_states must be"),
        ({"pseudo_count": 0.0}, "pseudo_count must be a number above 0"),
        ({"embedding": "trigram"}, "embedding must be one of"),
    ],
)
def test_arguments_that_cannot_work_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(GSPNError, match=message):
        ICGMM(EVERY_KIND, **arguments).fit(draw_graphs(2, seed=0))
