"""Generated graphs whose neighbours depend on each other strongly: friends in teams, with gaps in what is known."""

from __future__ import annotations

import torch
from torch_geometric.data import Data

from gspn.attributes import Binary, Categorical, Continuous, Count, Schema

TEAMS = ("red", "green", "blue", "black")

SCHEMA = Schema([Categorical("team", TEAMS), Continuous("age"), Binary("remote"), Count("projects")])

_AGE = torch.tensor([28.0, 36.0, 45.0, 54.0])
_REMOTE = torch.tensor([0.1, 0.4, 0.7, 0.9])
_PROJECTS = torch.tensor([1.0, 3.0, 6.0, 10.0])


def friends(seed: int, size: int = 20, loyalty: float = 0.9, missing: float = 0.3) -> Data:
    """One graph: a random tree in which newcomers mostly join a friend's team, and more friendships inside teams.

    Age, remoteness and the number of projects follow the team; a share of all entries is missing.
    """
    generator = torch.Generator().manual_seed(seed)

    def chance(probability: float) -> bool:
        return torch.rand((), generator=generator).item() < probability

    def pick(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    team = [pick(0, len(TEAMS))]
    pairs = []
    for newcomer in range(1, size):
        friend = pick(max(0, newcomer - 6), newcomer)
        pairs.append((friend, newcomer))
        team.append(team[friend] if chance(loyalty) else pick(0, len(TEAMS)))
    for _ in range(size // 4):
        u, v = pick(0, size), pick(0, size)
        if u != v and team[u] == team[v]:
            pairs.append((u, v))
    teams = torch.tensor(team)
    x = torch.stack(
        [
            teams.float(),
            _AGE[teams] + 6 * torch.randn(size, generator=generator),
            torch.bernoulli(_REMOTE[teams], generator=generator),
            torch.poisson(_PROJECTS[teams], generator=generator),
        ],
        dim=1,
    )
    x[torch.rand(x.shape, generator=generator) < missing] = torch.nan
    edges = torch.tensor(pairs).T
    return Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1))
