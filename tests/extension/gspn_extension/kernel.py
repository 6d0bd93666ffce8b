"""A kernel in plain loops, vertex after vertex and edge after edge: naive Bayes with the mean, edge types included.

Slow, and easy to read; differentiable because torch is. In double precision throughout: sums over a hub's messages, and
their gradients, would lose digits in another.
"""

from __future__ import annotations

import torch

from gspn.circuits.leaves import at_level
from gspn.circuits.templates import NaiveBayes
from gspn.kernels import Climb, Kernel, Levels


def climb(given: Climb) -> Levels:
    batch, dtype = given.batch, given.prior.dtype
    prior, transitions = given.prior[0].double(), given.transitions.double()
    told = given.transitions.shape[1] > 1 and batch.edge_type is not None
    below = list[torch.Tensor]()
    levels = []
    for level in range(given.num_levels):
        own = [at_level(natural, level) for natural in given.naturals]
        scopes = zip(given.families, own, given.template.scopes, strict=True)
        densities = [family.log_prob(natural, given.evidence.columns(scope))[0] for family, natural, scope in scopes]
        log_density = torch.stack(densities).double().sum(0)
        posteriors, priors, values = [], [], []
        for v in range(batch.num_vertices):
            edges = range(int(batch.row_ptr[v]), int(batch.row_ptr[v + 1])) if level else range(0)
            mine = prior
            if len(edges):
                received = []
                for edge in edges:
                    kind = int(batch.edge_type[edge]) if told and batch.edge_type is not None else 0
                    received.append(below[int(batch.source[edge])] @ transitions[level - 1, kind, 0])
                mine = torch.stack(received).mean(0)
            joint = (mine + torch.finfo(mine.dtype).tiny).log() + log_density[v]
            posteriors.append(torch.softmax(joint, 0))
            priors.append(mine)
            values.append(torch.logsumexp(joint, 0))
        below = posteriors
        levels.append(torch.stack(posteriors))
    return Levels(
        torch.stack(levels, dim=1).unsqueeze(2).to(dtype),
        torch.stack(priors).unsqueeze(1).to(dtype),
        torch.stack(values).to(dtype),
    )


def obstacle(given: Climb) -> str | None:
    if not isinstance(given.template, NaiveBayes):
        return "loops over naive Bayes templates, not over other circuits"
    if given.aggregation != "mean":
        return f"knows the mean, not '{given.aggregation}'"
    if given.has_context:
        return "knows no context"
    return None


LOOPS = Kernel("loops", climb, obstacle)
