"""A hierarchy of templates: all learned parameters of a GSPN and their evaluation on a batch."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from gspn.attributes import Schema
from gspn.circuits.evidence import Context, Evidence
from gspn.circuits.given import Roots
from gspn.circuits.initialisation import initialise
from gspn.circuits.leaves import Leaves, Natural, at_level, with_level
from gspn.circuits.leaves.contract import as_mapping, as_numbers
from gspn.circuits.leaves.registry import (
    context_width,
    correlated_scopes,
    family_name,
    leaves_for,
    needs_context,
    takes_context,
)
from gspn.circuits.numerics import log_weight
from gspn.circuits.structure import Unit
from gspn.circuits.templates import Template, compile_template, inputs_of, silent
from gspn.errors import InputError
from gspn.graphs.batch import Batch
from gspn.hierarchy.aggregation import Messages, aggregation_named
from gspn.hierarchy.contexts import UsualContexts
from gspn.hierarchy.parameters import (
    assign_leaves,
    assign_probabilities,
    check_like,
    export_leaves,
    export_units,
    take_units,
)
from gspn.hierarchy.roots import leave_one_out, log_prob_missing, roots_after, roots_of
from gspn.kernels.contract import Climb, Expectations, Levels, Received
from gspn.kernels.registry import kernel_for


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What one pass gives for the N vertices of a batch."""

    levels: Levels
    """Priors and posteriors as the kernel gives them"""
    evidence: Evidence
    """[N, d] what the pass has seen"""
    families: Sequence[Leaves]
    """Of the hierarchy, which know whether a gap is evidence"""
    vertex_ptr: Tensor
    """[G + 1] graph g owns the vertices vertex_ptr[g] … vertex_ptr[g + 1] - 1"""
    with_hidden: Tensor | None = None
    """[N] `log_likelihood` where something is hidden; None where nothing is"""
    alone: Tensor | None = None
    """[N] True where level 0 answers; None: nowhere"""

    @property
    def log_likelihood(self) -> Tensor:
        """[N] log P(observed entries of v, hidden ones included | tree below the root)."""
        return self.log_visible if self.with_hidden is None else self.with_hidden

    @property
    def log_visible(self) -> Tensor:
        """[N] log P(visible entries of v | tree below the root); equals log_likelihood where nothing is hidden."""
        quiet = silent(self.families, self.evidence)
        return self.levels.at_vertices(self.levels.log_value).masked_fill(quiet, 0.0)

    @property
    def posteriors(self) -> Tensor:
        """[N, L, S, C] posteriors given the visible entries."""
        return self.levels.at_vertices(self.levels.posteriors)

    @property
    def root_prior(self) -> Tensor:
        """[N, S, C] prior of the root's sum units."""
        return self.levels.at_vertices(self.levels.root_prior)

    @property
    def root_log_prior(self) -> Tensor:
        """[N, S, C] log-prior of the root's sum units."""
        found = self.levels.root_log_prior
        return log_weight(self.root_prior) if found is None else self.levels.at_vertices(found)

    @property
    def root_context(self) -> Context | None:
        """What the roots have received, where leaves depend on it."""
        found = self.levels.root_context
        if found is None or self.levels.row_of is None:
            return found
        return found[self.levels.row_of]

    @property
    def graph_sums(self) -> Tensor:
        """[G, L, S, C] posteriors summed over the vertices of each graph."""
        if self.levels.graph_sums is not None:
            return self.levels.graph_sums
        graph = torch.repeat_interleave(self.vertex_ptr.diff(), output_size=len(self.evidence))
        # In double precision: a graph may have a million vertices.
        posteriors = self.posteriors
        sums = posteriors.new_zeros(len(self.vertex_ptr) - 1, *posteriors.shape[1:], dtype=torch.float64)
        return sums.index_add(0, graph, posteriors.double()).to(posteriors.dtype)

    @property
    def log_hidden(self) -> Tensor:
        """[N] log P(hidden entries of v | everything visible); 0 where nothing is hidden."""
        return self.log_likelihood - self.log_visible


class Hierarchy(nn.Module):
    """Templates at L levels, joined by transitions."""

    def __init__(
        self,
        schema: Schema,
        num_layers: int,
        num_states: int,
        template: Unit | None = None,
        shortcut: str | None = None,
        num_edge_types: int = 1,
        aggregation: str = "mean",
        leaves: Mapping[tuple[str, ...], str] | None = None,
        covariance: str = "diagonal",
        context: str | None = None,
        context_variance: float = 0.0,
        slopes: str = "tied",
        guard: float = 0.0,
        atoms: Mapping[str, Sequence[float]] | None = None,
        gaps: str = "ignorable",
    ) -> None:
        """`leaves` names the families of some attributes, or sets of attributes, by their names in schema order.

        `atoms` are values of continuous attributes, by name, that have a mass of their own. With `gaps="informative"`
        a missing entry is evidence of the state.
        """
        super().__init__()
        self.schema = schema
        self.num_layers = num_layers
        self.num_states = num_states
        self.num_edge_types = num_edge_types
        self.shortcut = shortcut
        self.context, self.context_variance, self.guard = context, context_variance, guard
        chosen = correlated_scopes(schema, template, leaves or {}, covariance, context)
        together = [names for names in chosen if len(names) > 1]
        self.template: Template = compile_template(template, schema, num_states, together)
        sums = self.template.num_sum_units
        own_levels = num_layers if shortcut is None else num_layers - 1
        told = context_width(list(schema))
        if context is not None:
            self.usual = UsualContexts(context, context_variance, num_layers, num_edge_types, told)
        self.leaves = nn.ModuleList()
        for scope, count in zip(self.template.scopes, self.template.leaf_counts, strict=True):
            attributes = [schema[column] for column in scope]
            family = family_name(attributes, chosen)
            width = told if needs_context(family) else 0
            if context is not None and takes_context(family):
                width = self.usual.width
            tied = slopes == "tied"
            self.leaves.append(
                leaves_for(
                    attributes,
                    own_levels,
                    count,
                    family=family,
                    context_width=width,
                    tied_slopes=tied,
                    atoms=atoms,
                    gaps=gaps,
                )
            )
        self.aggregation = aggregation_named(aggregation)(num_layers, num_edge_types, sums, num_states)
        self.aggregation_name = aggregation
        self.raw_prior = nn.Parameter(0.1 * torch.randn(sums, num_states))
        self.raw_transitions = nn.Parameter(torch.randn(num_layers - 1, num_edge_types, sums, num_states, num_states))
        if shortcut == "learned":
            self.raw_shortcut = nn.Parameter(torch.zeros(num_layers - 1))
        self._check_shortcut()

    def _check_shortcut(self) -> None:
        """Families that have no rule for a shortcut refuse it, and so does a context, which the root has by itself."""
        if self.shortcut is None:
            return
        for family in self.families:
            if family.context_width:
                raise InputError(f"a shortcut cannot be combined with leaves of {family.named()} that have a context")
        with torch.no_grad():
            self.naturals()

    # Parameters in their natural form.

    @property
    def families(self) -> list[Leaves]:
        return cast(list[Leaves], list(self.leaves))

    def prior(self) -> Tensor:
        return torch.softmax(self.raw_prior, dim=-1)

    def transitions(self) -> Tensor:
        return torch.softmax(self.raw_transitions, dim=-1)

    def shortcut_weights(self) -> Tensor | None:
        """[L-1] weights of levels 0 … L-2 in the root's leaves, or None."""
        if self.shortcut is None:
            return None
        if self.shortcut == "learned":
            return torch.softmax(self.raw_shortcut, dim=0)
        return self.raw_prior.new_full((self.num_layers - 1,), 1 / (self.num_layers - 1))

    def naturals(self) -> list[Natural]:
        """Leaf parameters by attribute, all L levels, the root's combined where there is a shortcut."""
        weights = self.shortcut_weights()
        naturals = []
        for family in self.families:
            natural = family.natural()
            naturals.append(natural if weights is None else with_level(natural, family.combine(natural, weights)))
        return naturals

    def widen(self, factor: float) -> None:
        """Multiply the deviations of all continuous densities: the same means, held for more or less certain."""
        for family in self.families:
            family.widen(factor)

    # Evaluation.

    def forward(self, batch: Batch) -> Evaluation:
        batch = batch.to(self.raw_prior.device)
        climb = self.climb(
            Evidence(batch.visible, batch.hidden, batch.missing), batch, self.prior(), self.transitions()
        )
        levels = kernel_for(climb).climb(climb)
        evaluation = Evaluation(levels, climb.evidence, climb.families, batch.vertex_ptr, alone=climb.alone)
        if batch.hidden is None:
            return evaluation
        everything = self.root_log_value(evaluation, climb.naturals, Evidence(batch.x, None, batch.missing))
        return replace(evaluation, with_hidden=everything)

    def climb(self, evidence: Evidence, batch: Batch, prior: Tensor, transitions: Tensor) -> Climb:
        """What a kernel has to compute: the levels on a batch, given evidence [N, d] of its vertices."""
        known: list[Tensor] = []
        name = self.aggregation_name

        def aggregate(level: int, posterior: Tensor | None, told: Expectations | None) -> Received:
            if not known:  # the same for all levels, and not needed by every kernel
                known.extend([prior.expand(batch.num_vertices, *prior.shape), batch.target, batch.in_degree])
            if posterior is None:
                return Received(known[0])
            start, target, in_degree = known
            if self.context is not None:
                start = self.usual.prior(level, prior, transitions).expand_as(start)
            mean = None if told is None else told.mean
            received: Received = self.aggregation(
                Messages(posterior, mean, level, transitions[level - 1], batch, start, target, in_degree, prior)
            )
            if self.context is None or told is None or received.context is None:
                return received
            weight = self.aggregation.sender_weight(batch)
            return replace(received, context=self.usual.context(received.context.mean, told, batch, level, weight))

        climb = Climb(
            self.template, self.families, self.naturals(), evidence, prior, transitions, batch, name, aggregate
        )
        if self.context is None:
            return climb
        return climb._replace(alone=batch.in_degree == 0, uncertain=self.context_variance > 0)

    def root_log_value(self, evaluation: Evaluation, naturals: Sequence[Natural], evidence: Evidence) -> Tensor:
        """[N] log-probability of other evidence at the roots than that which the pass has seen."""
        root = [at_level(natural, -1) for natural in naturals]
        inputs = inputs_of(self.template, self.families, root, evidence, evaluation.root_context)
        log_value = self.template.log_value(inputs[0], evaluation.root_log_prior)
        if evaluation.alone is not None and bool(evaluation.alone.any()):
            lowest = [at_level(natural, 0) for natural in naturals]
            inputs = inputs_of(self.template, self.families, lowest, evidence)
            by_lowest = self.template.log_value(inputs[0], evaluation.root_log_prior)
            log_value = torch.where(evaluation.alone, by_lowest, log_value)
        return log_value.masked_fill(silent(self.families, evidence), 0.0)

    # What questions need (`queries.contract.Answering`).

    @property
    def reach(self) -> int:
        """How many steps away a vertex can be and still affect a root."""
        return (self.num_layers - 1) * (2 if getattr(self, "context", None) == "two_hops" else 1)

    @property
    def longest_closed_walk(self) -> int:
        """How many steps a closed walk can have by which a root's own value returns to it.

        As many as `reach`, but with two levels one, a self-loop: two hops never come from the vertex itself.
        """
        return 1 if self.num_layers == 2 else self.reach

    @property
    def dtype(self) -> torch.dtype:
        return self.raw_prior.dtype

    @property
    def reads_out_degree(self) -> bool:
        return bool(self.aggregation.reads_out_degree)

    @property
    def numbers_per_vertex(self) -> int:
        return self.num_layers * self.template.num_sum_units * self.num_states

    @torch.no_grad()
    def roots(self, batch: Batch, vertices: Tensor, hidden: Tensor) -> Roots:
        return roots_of(self, batch, vertices, hidden)

    @torch.no_grad()
    def roots_after(self, batch: Batch, vertices: Tensor) -> Roots:
        return roots_after(self, batch, vertices)

    @torch.no_grad()
    def log_likelihood(self, batch: Batch, vertices: Tensor) -> Tensor:
        likelihood: Tensor = self(batch).log_likelihood
        return likelihood[vertices.to(likelihood.device)]

    @torch.no_grad()
    def log_prob_hidden(self, batch: Batch, vertices: Tensor, hidden: Tensor | None = None) -> Tensor:
        pieces = list(leave_one_out(self, batch, vertices, hidden))
        return torch.cat(pieces) if pieces else self.raw_prior.new_zeros(0)

    @torch.no_grad()
    def log_prob_missing(self, batch: Batch, truth: Tensor) -> Tensor:
        return log_prob_missing(self, batch, truth)

    # Starting points.

    def set_units(self, x: Tensor, missing: Tensor | None = None) -> None:
        """Take the units of continuous columns from rows x [n, d]; every attribute must be observed somewhere.

        `missing` [n, d] says which entries are gaps; None: all that are not there.
        """
        take_units(self.families, self.template.scopes, x, "attribute", "at every vertex")
        if missing is not None:
            for family, scope in zip(self.families, self.template.scopes, strict=True):
                family.set_gaps(missing[:, list(scope)])

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Start afresh from rows x [n, d]: leaves and priors from the data, transitions at random."""
        logits = initialise(self.template, self.families, self.schema, x, self.num_states, generator)
        with torch.no_grad():
            self.raw_prior.copy_(logits)
            noise = torch.randn(self.raw_transitions.shape, generator=generator, dtype=torch.float64)
            self.raw_transitions.copy_(noise)
            if self.shortcut == "learned":
                self.raw_shortcut.zero_()
            self.aggregation.start(generator)

    # Parameters in the users' units, by name.

    def export(self) -> dict[str, Any]:
        with torch.no_grad():
            exported: dict[str, Any] = {
                "prior": self.prior().double(),
                "transitions": self.transitions().double(),
                "leaves": export_leaves(self.families, self.naturals()),
                "units": export_units(self.families),
            }
            weights = self.shortcut_weights()
            if weights is not None:
                exported["shortcut"] = weights.double()
            own = self.aggregation.export()
            if own:
                exported["aggregation"] = own
            if self.context is not None:
                exported["context"] = self.usual.export()
        return exported

    def assign(self, exported: Mapping[str, Any], *, fitted: bool) -> None:
        """Set everything from the form `export` gives; if anything is wrong, nothing is set."""
        before = copy.deepcopy(self.state_dict())
        try:
            self._assign(as_mapping("parameters", exported), fitted)
        except BaseException:
            self.load_state_dict(before)
            raise

    def _assign(self, exported: Mapping[str, Any], fitted: bool) -> None:
        own = self.aggregation.export()
        needed = {"prior", "transitions", "leaves"} | ({"shortcut"} if self.shortcut == "learned" else set())
        needed |= {"aggregation"} if own else set()
        needed |= set() if self.context is None else {"context"}
        known = needed | {"units"} | ({"shortcut"} if self.shortcut else set())
        if not needed <= set(exported) <= known:
            raise InputError(f"parameters must be named {sorted(known)}, got {sorted(map(str, exported))}")
        if own:
            self.aggregation.assign(check_like("the aggregation", exported["aggregation"], own))
        if self.context is not None:
            self.usual.assign(exported["context"])
        for name in needed - {"leaves", "aggregation", "context"}:
            assign_probabilities(getattr(self, f"raw_{name}"), f"'{name}'", exported[name])
        weights = self.shortcut_weights()
        if self.shortcut == "mean" and weights is not None and "shortcut" in exported:
            given = as_numbers("'shortcut'", exported["shortcut"])
            if given.shape != weights.shape or not torch.allclose(given, weights.double(), atol=1e-5):
                raise InputError(f"'shortcut' must be {weights.tolist()}, which the shortcut 'mean' does not learn")
        leaves, units = as_mapping("'leaves'", exported["leaves"]), as_mapping("'units'", exported.get("units", {}))
        rows = assign_leaves(self.families, leaves, units, self.num_layers, fitted)
        for family in self.families:
            self._check_root(family, rows[family.key])

    def _check_root(self, family: Leaves, given: Natural) -> None:
        """With a shortcut the root's leaves follow from the others; given ones must not say otherwise."""
        weights = self.shortcut_weights()
        if weights is None or any(len(value) < self.num_layers for value in given.values()):
            return
        combined = family.export(family.combine(family.natural(), weights))
        key = family.unlike({key: value[-1:] for key, value in given.items()}, combined)
        if key is not None:
            raise InputError(
                f"leaves of {family.named()}: '{key}' of the root is combined from the other levels "
                f"by the shortcut and cannot be set otherwise; give levels 0 … {self.num_layers - 2} only"
            )
