"""Where learning starts: rows of data are dealt down the circuit, and every leaf starts from the rows that reach it.

A sum splits its rows among its children by clusters of its continuous and count attributes, a product hands all its
rows to every child. For naive Bayes these are clusters of the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gspn.attributes import Schema
from gspn.circuits.clusters import cluster
from gspn.circuits.leaves import Leaves
from gspn.circuits.structure import Leaf, Product, Sum, Unit, bottom_up, walk
from gspn.circuits.templates import Template

MAX_ROWS = 20_000
"""Rows used for initialisation: enough for any mixture, few enough to cluster in a blink."""

_FLAT_NOISE = 0.1


def initialise(
    template: Template, leaves: Sequence[Leaves], schema: Schema, x: Tensor, num_states: int, generator: torch.Generator
) -> Tensor:
    """Set all leaves from rows x [n, d] (users' units, NaN = missing); gives the sum units' priors as logits [S, C]."""
    if len(x) > MAX_ROWS:
        x = x[torch.randperm(len(x), generator=generator)[:MAX_ROWS]]
    features = _features(template, leaves, x)
    dealt, logits = _deal(template.structure, schema, features, x, num_states, generator)
    for scope, family in zip(template.scopes, leaves, strict=True):
        own = [
            leaf
            for leaf in walk(template.structure)
            if isinstance(leaf, Leaf) and sorted(map(schema.index, leaf.attributes)) == list(scope)
        ]
        family.start([x[dealt[id(leaf)]][:, list(scope)] for leaf in own], generator)
    return logits


def _deal(
    root: Unit,
    schema: Schema,
    features: dict[tuple[int, ...], Tensor],
    x: Tensor,
    num_states: int,
    generator: torch.Generator,
) -> tuple[dict[int, Tensor], Tensor]:
    """Rows for every leaf, and the log-shares of every sum's children. The first parent deals to a shared unit."""
    covered = _scopes(root, schema)
    rows = {id(root): torch.arange(len(x))}
    logits = []
    for unit in walk(root):
        mine = rows[id(unit)]
        if isinstance(unit, Product):
            for child in unit.children:
                rows.setdefault(id(child), mine)
        elif isinstance(unit, Sum):
            own = [features[scope][mine] for scope in features if set(scope) <= covered[id(unit)]]
            if own and len(mine):
                table = torch.cat(own, dim=1)
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


def _features(template: Template, leaves: Sequence[Leaves], x: Tensor) -> dict[tuple[int, ...], Tensor]:
    """By scope, columns to cluster by, each of deviation about 1; those of an attribute count once."""
    features, taken = {}, set[int]()
    for scope, family in zip(template.scopes, leaves, strict=True):
        found = None if taken & set(scope) else family.features(x[:, list(scope)])
        if found is not None:
            features[scope] = found
            taken |= set(scope)
    return features


def _scopes(root: Unit, schema: Schema) -> dict[int, set[int]]:
    scopes: dict[int, set[int]] = {}
    for unit in bottom_up(root):
        if isinstance(unit, Leaf):
            scopes[id(unit)] = set(map(schema.index, unit.attributes))
        else:
            scopes[id(unit)] = {column for child in unit.children for column in scopes[id(child)]}
    return scopes
