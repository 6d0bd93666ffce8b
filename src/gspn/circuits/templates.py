"""What a template computes: its value and the posteriors of its sum units, given leaf log-densities and mixing weights.

Two forms behind one contract: naive Bayes, whose single sum needs no circuit at all, and compiled circuits. Both take
log-densities that are already zero where an attribute is missing, which marginalises it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gspn.attributes import Schema
from gspn.circuits.evidence import Context, Evidence
from gspn.circuits.leaves import Leaves, Natural
from gspn.circuits.structure import Leaf, Sum, Unit, bottom_up, naive_bayes, walk


class Template(Protocol):
    """The contract of a template with S sum units of C states over K inputs."""

    structure: Unit
    num_sum_units: int
    scopes: tuple[tuple[int, ...], ...]
    """Sets of columns that leaves are over, in ascending order; an attribute may be in several."""
    leaf_counts: tuple[int, ...]
    """Number of leaves of each scope."""

    def join(self, log_densities: Sequence[Tensor]) -> Tensor:
        """Leaf log-densities [..., leaves] of each scope → the template's inputs [..., K]."""

    def log_value(self, inputs: Tensor, log_prior: Tensor) -> Tensor:
        """[N, K], [N, S, C] → [N] log-probability of the evidence."""

    def posterior(self, inputs: Tensor, log_prior: Tensor) -> Tensor:
        """[N, K], [N, S, C] → [N, S, C] posterior of every sum unit."""

    def leaf_log_weights(self, inputs: Tensor, log_prior: Tensor) -> list[Tensor]:
        """For every scope [N, leaves]: log-probability, given the evidence, that each leaf is its distribution.

        An attribute that is not in the evidence is distributed as the mixture of all its leaves with these weights.
        """

    def draw_leaves(self, inputs: Tensor, log_prior: Tensor, generator: torch.Generator | None) -> list[Tensor]:
        """For every scope [N]: one leaf, drawn jointly given the evidence, or -1 where none of the scope is reached."""


def inputs_of(
    template: Template,
    families: Sequence[Leaves],
    naturals: Sequence[Natural],
    evidence: Evidence,
    context: Context | None = None,
) -> Tensor:
    """[levels, N, K] inputs of a template from evidence [N, d], levels as in `naturals`; one with a context."""
    scopes = zip(families, naturals, template.scopes, strict=True)
    return template.join(
        [family.log_prob(natural, evidence.columns(scope), context) for family, natural, scope in scopes]
    )


def gaps_are_evidence(families: Sequence[Leaves]) -> bool:
    """Whether some leaves tell a missing entry from a hidden one."""
    # A list: this is asked in every pass, and a generator takes thrice as long.
    return "informative" in [family.gaps for family in families]


def silent(families: Sequence[Leaves], evidence: Evidence) -> Tensor:
    """[N] True where evidence says nothing at all, so that its probability is exactly 1, which rounding would miss."""
    silent = torch.isnan(evidence.x).all(1)
    if gaps_are_evidence(families):
        silent = silent & evidence.hidden.all(1)
    return silent


class NaiveBayes:
    """One sum over products of leaves: log p(x | i) is the sum of the attributes' log-densities."""

    def __init__(self, schema: Schema, num_states: int, together: Collection[tuple[str, ...]] = ()) -> None:
        """`together` are the sets of attributes that have a leaf in common; the others have one each."""
        taken = {name for names in together for name in names}
        alone = [(name,) for name in schema.names if name not in taken]
        self.scopes = _in_order(schema, [*alone, *together])
        names = [tuple(schema.names[column] for column in scope) for scope in self.scopes]
        self.structure: Unit = naive_bayes(schema, num_states, names)
        self.num_sum_units = 1
        self.leaf_counts = (num_states,) * len(self.scopes)

    def join(self, log_densities: Sequence[Tensor]) -> Tensor:
        total = log_densities[0]
        for log_density in log_densities[1:]:
            total = total + log_density
        return total

    def log_value(self, inputs: Tensor, log_prior: Tensor) -> Tensor:
        return torch.logsumexp(log_prior.squeeze(1) + inputs, dim=-1)

    def posterior(self, inputs: Tensor, log_prior: Tensor) -> Tensor:
        return torch.softmax(log_prior + inputs.unsqueeze(1), dim=-1)

    def leaf_log_weights(self, inputs: Tensor, log_prior: Tensor) -> list[Tensor]:
        return [torch.log_softmax(log_prior.squeeze(1) + inputs, dim=-1)] * len(self.leaf_counts)

    def draw_leaves(self, inputs: Tensor, log_prior: Tensor, generator: torch.Generator | None) -> list[Tensor]:
        return [_draw(log_prior.squeeze(1) + inputs, generator)] * len(self.leaf_counts)


@dataclass(frozen=True, eq=False)
class _Layer:
    """Units of one kind that can be computed together, at consecutive columns starting at `first`."""

    first: int
    children: Tensor
    """[units, children] columns; a product with fewer children than others is filled up with column 0, which is 0."""
    sum_units: Tensor | None
    """[units] public numbers of the sums, or None for products."""


class CompiledCircuit:
    """A circuit as a few layers of index arrays: an upward pass for values, a downward pass for posteriors."""

    def __init__(self, structure: Unit, schema: Schema) -> None:
        self.structure = structure
        leaves = [unit for unit in walk(structure) if isinstance(unit, Leaf)]
        self.scopes = _in_order(schema, {unit.attributes for unit in leaves})
        self.leaves_of = tuple(
            tuple(leaf for leaf in leaves if _in_order(schema, [leaf.attributes])[0] == scope) for scope in self.scopes
        )
        self.leaf_counts = tuple(len(leaves) for leaves in self.leaves_of)
        self.sums = tuple(unit for unit in walk(structure) if isinstance(unit, Sum))
        self.num_sum_units = len(self.sums)
        self._layers, self._root, self._num_columns = self._compile()

    def _compile(self) -> tuple[list[_Layer], int, int]:
        # Column 0 is the constant 0 = log 1 (padding); then the leaves in input order; then layer after layer.
        column = {id(leaf): 1 + i for i, leaf in enumerate(leaf for leaves in self.leaves_of for leaf in leaves)}
        height = dict.fromkeys(column, 0)
        by_layer: dict[tuple[int, bool], list[Unit]] = {}
        for unit in bottom_up(self.structure):
            if not isinstance(unit, Leaf):
                height[id(unit)] = 1 + max(height[id(child)] for child in unit.children)
                by_layer.setdefault((height[id(unit)], isinstance(unit, Sum)), []).append(unit)
        number = {id(unit): j for j, unit in enumerate(self.sums)}
        layers, first = [], 1 + sum(self.leaf_counts)
        for (_, is_sum), units in sorted(by_layer.items(), key=lambda item: item[0]):
            width = max(len(unit.children) for unit in units)
            children = torch.zeros(len(units), width, dtype=torch.long)
            for row, unit in enumerate(units):
                children[row, : len(unit.children)] = torch.tensor([column[id(child)] for child in unit.children])
                column[id(unit)] = first + row
            sum_units = torch.tensor([number[id(unit)] for unit in units]) if is_sum else None
            layers.append(_Layer(first, children, sum_units))
            first += len(units)
        return layers, column[id(self.structure)], first

    def join(self, log_densities: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(log_densities), dim=-1)

    def log_value(self, inputs: Tensor, log_prior: Tensor) -> Tensor:
        return self._upward(inputs, log_prior)[:, self._root]

    def posterior(self, inputs: Tensor, log_prior: Tensor) -> Tensor:
        values = self._upward(inputs, log_prior)
        reached, weights = self._downward(values, log_prior)
        # A unit that is not reached keeps its prior. Sums of flows may exceed 1 by rounding, which would turn a
        # posterior negative; the excess is taken off without touching the gradient.
        reached = (reached - torch.relu(reached - 1).detach()).unsqueeze(-1)
        return reached * weights + (1 - reached) * log_prior.exp()

    def leaf_log_weights(self, inputs: Tensor, log_prior: Tensor) -> list[Tensor]:
        return self._descend(inputs, log_prior, lambda logits: torch.log_softmax(logits, dim=-1))

    def draw_leaves(self, inputs: Tensor, log_prior: Tensor, generator: torch.Generator | None) -> list[Tensor]:
        def choose(logits: Tensor) -> Tensor:
            drawn = _draw(logits.flatten(0, 1), generator).reshape(*logits.shape[:2], 1)
            return torch.full_like(logits, -torch.inf).scatter(-1, drawn, 0.0)

        # Every sum has chosen one child, so one leaf of each attribute is reached, and of some scopes none.
        found = self._descend(inputs, log_prior, choose)
        return [reached.argmax(-1).masked_fill((reached == -torch.inf).all(-1), -1) for reached in found]

    def _descend(self, inputs: Tensor, log_prior: Tensor, choose: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """By scope [N, leaves] the log-flow from the root, which every sum divides among its children.

        `choose` turns logits [N, units, C] into log-shares. In log space, unlike `_downward`: a leaf that is all but
        ruled out by the evidence may still be the only one that can explain what is asked.
        """
        values = self._upward(inputs, log_prior)
        flow = torch.full_like(values, -torch.inf)
        flow[:, self._root] = 0.0
        for layer in reversed(self._layers):
            units, width = layer.children.shape
            passed = flow[:, layer.first : layer.first + units].unsqueeze(-1).expand(-1, -1, width)
            if layer.sum_units is not None:
                logits = _take(values, layer.children) + log_prior[:, layer.sum_units.to(values.device)]
                passed = passed + choose(logits)
            flow = _log_index_add(flow, layer.children.flatten().to(values.device), passed.flatten(1))
        return list(flow[:, 1 : 1 + sum(self.leaf_counts)].split(self.leaf_counts, dim=1))

    def _upward(self, inputs: Tensor, log_prior: Tensor) -> Tensor:
        """[N, columns] log-values of all units."""
        values = torch.cat([inputs.new_zeros(len(inputs), 1), inputs], dim=1)
        for layer in self._layers:
            below = _take(values, layer.children)
            if layer.sum_units is None:
                new = below.sum(-1)
            else:
                new = torch.logsumexp(below + log_prior[:, layer.sum_units.to(below.device)], dim=-1)
            values = torch.cat([values, new], dim=1)
        return values

    def _downward(self, values: Tensor, log_prior: Tensor) -> tuple[Tensor, Tensor]:
        """[N, S] probability that each sum unit is reached, and [N, S, C] its children's shares once it is."""
        flow = values.new_zeros(len(values), self._num_columns)
        flow = flow.index_fill(1, torch.tensor([self._root], device=values.device), 1.0)
        shares: list[Tensor] = []
        numbers: list[Tensor] = []
        flows: list[Tensor] = []
        for layer in reversed(self._layers):
            units, width = layer.children.shape
            own = flow[:, layer.first : layer.first + units]
            passed = own.unsqueeze(-1).expand(-1, -1, width)
            if layer.sum_units is not None:
                share = torch.softmax(
                    _take(values, layer.children) + log_prior[:, layer.sum_units.to(values.device)], dim=-1
                )
                shares.append(share)
                numbers.append(layer.sum_units)
                flows.append(own)
                passed = passed * share
            index = layer.children.flatten().to(values.device)
            flow = flow.index_add(1, index, passed.flatten(1))
        order = torch.cat(numbers).argsort().to(values.device)
        return torch.cat(flows, dim=1)[:, order], torch.cat(shares, dim=1)[:, order]


def _take(values: Tensor, columns: Tensor) -> Tensor:
    """[N, units, children] the children's columns."""
    return values[:, columns.flatten().to(values.device)].reshape(len(values), *columns.shape)


def _log_index_add(log_values: Tensor, index: Tensor, log_terms: Tensor) -> Tensor:
    """log(exp(values) with exp(terms) added to the columns `index`), where minus infinity is an honest 0."""
    top = log_values.scatter_reduce(1, index.expand_as(log_terms), log_terms, "amax")
    shift = top.masked_fill(top == -torch.inf, 0.0)
    total = (log_values - shift).exp().index_add(1, index, (log_terms - shift[:, index]).exp())
    return shift + total.log()


def _draw(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    """[rows] one column each, drawn with the softmax of the row."""
    if not len(logits):
        return torch.zeros(0, dtype=torch.long)
    return torch.multinomial(torch.softmax(logits, dim=-1), 1, generator=generator).squeeze(1)


def compile_template(
    structure: Unit | None, schema: Schema, num_states: int, together: Collection[tuple[str, ...]] = ()
) -> Template:
    """The template for a checked structure; None is naive Bayes, with leaves over the sets of attributes `together`."""
    return NaiveBayes(schema, num_states, together) if structure is None else CompiledCircuit(structure, schema)


def _in_order(schema: Schema, scopes: Collection[tuple[str, ...]]) -> tuple[tuple[int, ...], ...]:
    """Scopes as columns, ascending within and among themselves."""
    return tuple(sorted({tuple(sorted(map(schema.index, names))) for names in scopes}))
