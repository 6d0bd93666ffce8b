"""The readout: a circuit over the targets of a graph (or of a vertex) whose mixing weights come from all posteriors.

π_r = Ω(Σ_u Σ_l Σ_j ϑ[l, j]ᵀ h[l, u, j]) over the graph's vertices u, then P(y | graph) = Σ_i π_r(i) Π_t P(y_t | i) over
the observed targets t. Posteriors are summed over the vertices before they are multiplied by ϑ: it is the same thing.

With "standardised" pooling, log(1 + Σ_u h[l, u, j]) takes the place of the sums, in units of the training graphs, and
ϑ is any matrix, with a Gaussian prior: a regression that needs few steps and knows states that speak against a class.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gspn.attributes import Binary, Categorical, Schema
from gspn.circuits.components import Components
from gspn.circuits.distributions import CategoricalDistribution, Distribution, mix
from gspn.circuits.evidence import Evidence
from gspn.circuits.initialisation import initialise
from gspn.circuits.leaves import Leaves, leaves_for
from gspn.circuits.leaves.contract import as_mapping
from gspn.circuits.numerics import log_weight
from gspn.circuits.templates import NaiveBayes, gaps_are_evidence, inputs_of
from gspn.compiling import obstacle
from gspn.errors import InputError
from gspn.graphs.batch import Batch
from gspn.hierarchy.hierarchy import Evaluation, Hierarchy
from gspn.hierarchy.parameters import (
    assign_leaves,
    assign_probabilities,
    check_like,
    export_leaves,
    export_units,
    take_units,
)
from gspn.kernels.compiled.distinct import distinct_inputs
from gspn.kernels.compiled.mixture import log_mixture

POOLINGS = ("sum", "mean", "standardised")

_UNITS = ("centre", "scale")

_PRECISION = 10.0
"""Of the prior of a standardised readout's weights, beside one for every labelled row"""
_LEAST = 1e-4
"""Deviation of a standardised sum below which it says nothing"""
_NOISE = 0.1
"""Deviation of the first transitions' logits: with more, the sum over a graph would already have chosen one state."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SupervisedEvaluation(Evaluation):
    """What one pass gives for the vertices of a batch, and for its G graphs (or vertices, where these have targets)."""

    readout_log_prior: Tensor
    """[G, C_g] log-weights of the graph states"""
    log_prob: Tensor | None
    """[G] log P(observed targets | graph), 0 where none is observed; None where the batch carries no targets"""


class Readout(nn.Module):
    """Transitions from the levels' states to graph states, and what the targets look like in each of these."""

    def __init__(
        self,
        target: Schema,
        levels: tuple[int, int, int],
        num_graph_states: int,
        pooling: str = "sum",
        target_level: str = "graph",
        head: str = "circuit",
    ) -> None:
        """`levels` is (L, S, C) of the hierarchy below."""
        super().__init__()
        self.target = target
        self.num_graph_states = num_graph_states
        self.pooling = pooling
        self.target_level = target_level
        self.head = head
        self.raw_transitions = nn.Parameter(torch.randn(*levels, num_graph_states))
        self.centre: Tensor
        self.scale: Tensor
        self.rows: Tensor
        if pooling == "standardised":
            self.register_buffer("centre", torch.zeros(levels))
            self.register_buffer("scale", torch.ones(levels))
            self.register_buffer("rows", torch.ones(()))
        self.template = NaiveBayes(target, num_graph_states)
        if head == "circuit":
            self.leaves = nn.ModuleList(leaves_for(attribute, 1, num_graph_states) for attribute in target)
        else:
            self.linear = nn.Linear(num_graph_states, sum(_num_logits(attribute) for attribute in target))

    @property
    def families(self) -> list[Leaves]:
        return [family for family in self.leaves if isinstance(family, Leaves)] if self.head == "circuit" else []

    def transitions(self) -> Tensor:
        """[L, S, C, C_g], each row a distribution; of standardised pooling any weights."""
        if self.pooling == "standardised":
            return self.raw_transitions
        return torch.softmax(self.raw_transitions, dim=-1)

    # Evaluation.

    def log_prior(self, evaluation: Evaluation) -> Tensor:
        """[G, C_g] from the posteriors of a batch; uniform for a graph without vertices."""
        by_vertex = self.target_level == "vertex"
        pooled = evaluation.posteriors if by_vertex else evaluation.graph_sums
        if self.pooling == "standardised":
            pooled = (pooled.log1p() - self.centre) / self.scale
        total = pooled.flatten(1) @ self.transitions().flatten(0, 2)
        if self.pooling != "mean":
            return torch.log_softmax(total, dim=-1)
        # Every posterior is a distribution, so the mass to divide by is the number of posteriors.
        levels, units = pooled.shape[1:3]
        sizes = torch.ones_like(total[:, 0]) if by_vertex else evaluation.vertex_ptr.diff().to(total.dtype)
        mean = total / (levels * units * sizes.clamp_min(1))[:, None]
        return log_weight(torch.where((sizes == 0)[:, None], 1 / self.num_graph_states, mean))

    def penalty(self) -> Tensor | None:
        """−log-density of the weights' prior, for each labelled row; None where they have none."""
        if self.pooling != "standardised":
            return None
        return self.raw_transitions.square().sum() * (_PRECISION / 2 / self.rows)

    def log_prob(self, log_prior: Tensor, y: Tensor, *, fast: bool = False) -> Tensor:
        """[G] log P(observed targets | graph state weights); exactly 0 where none is observed.

        `fast`: in compiled code, for plain tensors on the CPU; differentiable once.
        """
        if self.head == "circuit":
            families = self.families
            naturals = [family.natural() for family in families]
            # Labels are asked for: values put in for hidden entries; an absent one is never a gap.
            asked = torch.ones_like(y, dtype=torch.bool) if gaps_are_evidence(families) else None
            evidence = Evidence(y, asked)
            if fast:
                log_density, number = distinct_inputs(self.template, families, naturals, evidence)
                return log_mixture(log_prior, log_density[0], number, y)
            inputs = inputs_of(self.template, families, naturals, evidence)
            log_prob = self.template.log_value(inputs.squeeze(0), log_prior.unsqueeze(1))
        else:
            known = [
                table.gather(1, column.nan_to_num(0.0).long()[:, None]).squeeze(1).masked_fill(torch.isnan(column), 0.0)
                for table, column in zip(self._tables(log_prior), y.unbind(1), strict=True)
            ]
            log_prob = torch.stack(known).sum(0)
        return log_prob.masked_fill(torch.isnan(y).all(1), 0.0)

    def predictive(self, log_prior: Tensor) -> list[Distribution]:
        """P(y_t | graph) of every target t."""
        if self.head == "circuit":
            unknown = log_prior.new_full((len(log_prior), 1), torch.nan)
            nothing = Evidence(unknown, torch.isnan(unknown))
            answers = [family.conditional(family.natural(), 0, nothing) for family in self.families]
            return [mix(Components([rows]), log_prior) for rows in answers]
        tables = zip(self.target, self._tables(log_prior), strict=True)
        return [
            CategoricalDistribution(attribute, table)
            for attribute, table in tables
            if isinstance(attribute, Categorical | Binary)
        ]

    def _tables(self, log_prior: Tensor) -> list[Tensor]:
        """[G, K] log-probabilities of every target, from logits that are linear in π_r."""
        logits = self.linear(log_prior.exp()).split([_num_logits(attribute) for attribute in self.target], dim=1)
        # A binary target has one logit; the other class's is 0.
        return [
            torch.log_softmax(own if isinstance(attribute, Categorical) else nn.functional.pad(own, (1, 0)), dim=1)
            for attribute, own in zip(self.target, logits, strict=True)
        ]

    # Starting points.

    def set_units(self, y: Tensor) -> None:
        """Take the units of continuous targets from labels [n, T]; every target must be labelled somewhere."""
        for attribute, column in zip(self.target, y.unbind(1), strict=True):
            if bool(torch.isnan(column).all()):
                raise InputError(f"target '{attribute.name}' has no label at all; nothing can be learned of it")
        if self.head == "circuit":
            take_units(self.families, self.template.scopes, y, "target", "everywhere")

    def initialise(self, y: Tensor, generator: torch.Generator) -> None:
        """Start afresh: leaves from the labels [n, T], transitions at random."""
        with torch.no_grad():
            noise = torch.randn(self.raw_transitions.shape, generator=generator, dtype=torch.float64)
            standardised = self.pooling == "standardised"
            spread = self.centre.numel() ** -0.5 if standardised else _NOISE
            self.raw_transitions.copy_(spread * noise)
            if standardised:
                self.rows.fill_(max(1, int((~torch.isnan(y)).any(1).sum())))
            if self.head == "circuit":
                initialise(self.template, self.families, self.target, y, self.num_graph_states, generator)
            else:
                spread = self.num_graph_states**-0.5
                weight = torch.randn(self.linear.weight.shape, generator=generator, dtype=torch.float64)
                self.linear.weight.copy_(spread * weight)
                self.linear.bias.zero_()

    @torch.no_grad()
    def standardise(self, evaluations: Iterable[Evaluation]) -> None:
        """Take the units of standardised pooling from the training graphs, as the hierarchy sees them by now."""
        number, total, squares = 0, self.centre.double() * 0, self.centre.double() * 0
        for evaluation in evaluations:
            pooled = evaluation.posteriors if self.target_level == "vertex" else evaluation.graph_sums
            logs = pooled.double().log1p()
            number, total, squares = number + len(logs), total + logs.sum(0), squares + logs.square().sum(0)
        mean = total / max(number, 1)
        deviation = (squares / max(number, 1) - mean.square()).clamp_min(0).sqrt()
        self.centre.copy_(mean)
        self.scale.copy_(torch.where(deviation > _LEAST, deviation, 1.0))

    # Parameters in the users' units, by name.

    def export(self) -> dict[str, Any]:
        with torch.no_grad():
            exported: dict[str, Any] = {"transitions": self.transitions().double().clone()}
            if self.pooling == "standardised":
                exported |= {name: getattr(self, name).double().clone() for name in _UNITS}
            if self.head == "circuit":
                exported["leaves"] = export_leaves(self.families, [family.natural() for family in self.families])
                exported["units"] = export_units(self.families)
            else:
                exported |= {name: value.double().clone() for name, value in self.linear.state_dict().items()}
        return exported

    def assign(self, exported: Mapping[str, Any], *, fitted: bool) -> None:
        """Set everything from the form `export` gives; if anything is wrong, nothing is set."""
        before = copy.deepcopy(self.state_dict())
        try:
            self._assign(as_mapping("'readout'", exported), fitted)
        except BaseException:
            self.load_state_dict(before)
            raise

    def _assign(self, exported: Mapping[str, Any], fitted: bool) -> None:
        needed = {"transitions", "leaves"} if self.head == "circuit" else {"transitions", "weight", "bias"}
        needed |= set(_UNITS) if self.pooling == "standardised" else set()
        known = needed | {"units"} if self.head == "circuit" else needed
        if not needed <= set(exported) <= known:
            raise InputError(f"parameters of the readout are {sorted(known)}, got {sorted(map(str, exported))}")
        if self.pooling == "standardised":
            own = {"transitions": self.raw_transitions, **{name: getattr(self, name) for name in _UNITS}}
            given = check_like("the readout", {name: exported[name] for name in own}, own)
            if bool((given["scale"] <= 0).any()):
                raise InputError("'scale' of the readout must be positive")
            with torch.no_grad():
                for name, tensor in own.items():
                    tensor.copy_(given[name])
        else:
            assign_probabilities(self.raw_transitions, "'transitions' of the readout", exported["transitions"])
        if self.head == "circuit":
            leaves = as_mapping("'leaves' of the readout", exported["leaves"])
            units = as_mapping("'units' of the readout", exported.get("units", {}))
            assign_leaves(self.families, leaves, units, 1, fitted)
            return
        learned = dict(self.linear.named_parameters())
        given = check_like("the readout", {name: exported[name] for name in learned}, learned)
        with torch.no_grad():
            for name, parameter in learned.items():
                parameter.copy_(given[name])


class SupervisedHierarchy(nn.Module):
    """A hierarchy with a readout on top."""

    def __init__(self, hierarchy: Hierarchy, readout: Readout) -> None:
        super().__init__()
        self.hierarchy = hierarchy
        self.readout = readout

    def forward(self, batch: Batch) -> SupervisedEvaluation:
        evaluation: Evaluation = self.hierarchy(batch)
        log_prior, log_prob = self.readout.log_prior(evaluation), None
        if batch.y is not None:
            # Where the posteriors are differentiable once, nothing is lost if the rest is, too.
            fast = evaluation.levels.graph_sums is not None and obstacle(log_prior) is None
            log_prob = self.readout.log_prob(log_prior, labels_of(batch).to(log_prior.device), fast=fast)
        return SupervisedEvaluation(**vars(evaluation), readout_log_prior=log_prior, log_prob=log_prob)


def labels_of(batch: Batch) -> Tensor:
    """[G, T] the targets that a batch carries, NaN where missing."""
    assert batch.y is not None
    y = batch.y.double()
    return y if y.dim() == 2 else y.unsqueeze(-1).flatten(1)  # which knows what to do with no rows at all


def _num_logits(attribute: object) -> int:
    return len(attribute.categories) if isinstance(attribute, Categorical) else 1
