"""Where learning starts: rows of data are dealt down the circuit, and every leaf starts from the rows that reach it.

A sum splits its rows among its children by clusters of its continuous and count attributes, a product hands all its
rows to every child. For naive Bayes these are clusters of the whole table.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gspn.attributes import Continuous, Count, Schema
from gspn.circuits.clusters import cluster
from gspn.circuits.leaves import GaussianLeaves, Leaves
from gspn.circuits.structure import Leaf, Product, Sum, Unit, bottom_up, walk
from gspn.circuits.templates import Template

MAX_ROWS = 20_000
"""Rows used for initialisation: enough for any mixture, few enough to cluster in a blink."""

_FLAT_NOISE = 0.1


def initialise(
    template: Template, leaves: list[Leaves], schema: Schema, x: Tensor, num_states: int, generator: torch.Generator
) -> Tensor:
    """Set all leaves from rows x [n, d] (users' units, NaN = missing); gives the sum units' priors as logits [S, C]."""
    if len(x) > MAX_ROWS:
        x = x[torch.randperm(len(x), generator=generator)[:MAX_ROWS]]
    dealt, logits = _deal(template.structure, schema, leaves, x, num_states, generator)
    for column, family in enumerate(leaves):
        own = [
            leaf
            for leaf in walk(template.structure)
            if isinstance(leaf, Leaf) and leaf.attribute == schema[column].name
        ]
        values = [x[dealt[id(leaf)], column] for leaf in own]
        family.initialise([group[~torch.isnan(group)] for group in values], generator)
    return logits


def _deal(
    root: Unit, schema: Schema, leaves: list[Leaves], x: Tensor, num_states: int, generator: torch.Generator
) -> tuple[dict[int, Tensor], Tensor]:
    """Rows for every leaf, and the log-shares of every sum's children. The first parent deals to a shared unit."""
    features = _features(schema, leaves, x)
    scopes = _scopes(root, schema)
    rows = {id(root): torch.arange(len(x))}
    logits = []
    for unit in walk(root):
        mine = rows[id(unit)]
        if isinstance(unit, Product):
            for child in unit.children:
                rows.setdefault(id(child), mine)
        elif isinstance(unit, Sum):
            columns = [c for c in scopes[id(unit)] if c in features]
            if columns and len(mine):
                table = torch.stack([features[c][mine] for c in columns], dim=1)
                share = cluster(table, num_states, generator)
                counts = torch.bincount(share, minlength=num_states).double()
                logits.append(torch.log(counts + 1) - torch.log(counts.sum() + num_states))
                for k, child in enumerate(unit.children):
                    rows.setdefault(id(child), mine[share == k])
            else:
                # Nothing to cluster by: the leaves' own noise tells the states apart.
                logits.append(_FLAT_NOISE * torch.randn(num_states, generator=generator, dtype=torch.float64))
                for child in unit.children:
                    rows.setdefault(id(child), mine)
    return rows, torch.stack(logits)


def _features(schema: Schema, leaves: list[Leaves], x: Tensor) -> dict[int, Tensor]:
    """Columns to cluster by, each of deviation about 1: continuous ones standardised, counts on a log scale."""
    features = {}
    for column, (attribute, family) in enumerate(zip(schema, leaves, strict=True)):
        if isinstance(attribute, Continuous) and isinstance(family, GaussianLeaves):
            features[column] = family.standardised(x[:, column])
        elif isinstance(attribute, Count):
            log_count = torch.log1p(x[:, column])
            known = log_count[~torch.isnan(log_count)]
            spread = known.std(correction=0) if len(known) else torch.tensor(0.0)
            features[column] = log_count / torch.where(spread > 0, spread, 1.0)
    return features


def _scopes(root: Unit, schema: Schema) -> dict[int, list[int]]:
    scopes: dict[int, list[int]] = {}
    for unit in bottom_up(root):
        if isinstance(unit, Leaf):
            scopes[id(unit)] = [schema.index(unit.attribute)]
        else:
            scopes[id(unit)] = sorted({column for child in unit.children for column in scopes[id(child)]})
    return scopes
