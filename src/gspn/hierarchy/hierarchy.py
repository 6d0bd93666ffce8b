"""A hierarchy of templates: all learned parameters of a GSPN and their evaluation on a batch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gspn.attributes import Schema
from gspn.circuits.initialisation import initialise
from gspn.circuits.leaves import GaussianLeaves, Leaves, Natural, leaves_for
from gspn.circuits.leaves.contract import as_mapping, as_numbers, at_level, with_level
from gspn.circuits.numerics import log_weight
from gspn.circuits.structure import Unit
from gspn.circuits.templates import NaiveBayes, Template, compile_template, inputs_of
from gspn.errors import InputError
from gspn.graphs.batch import Batch
from gspn.hierarchy.parameters import assign_leaves, assign_probabilities, export_leaves, export_units, take_units
from gspn.kernels.choose import use_fast
from gspn.kernels.contract import Levels
from gspn.kernels.distinct import distinct_inputs
from gspn.kernels.fast import fast
from gspn.kernels.levels import climb_circuit
from gspn.kernels.reference import reference


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What one pass gives for the N vertices of a batch."""

    levels: Levels
    """Priors and posteriors as the kernel gives them"""
    visible: Tensor
    """[N, d] the evidence"""
    vertex_ptr: Tensor
    """[G + 1] graph g owns the vertices vertex_ptr[g] … vertex_ptr[g + 1] - 1"""
    with_hidden: Tensor | None = None
    """[N] `log_likelihood` where something is hidden; None where nothing is"""

    @property
    def log_likelihood(self) -> Tensor:
        """[N] log P(observed entries of v, hidden ones included | tree below the root)."""
        return self.log_visible if self.with_hidden is None else self.with_hidden

    @property
    def log_visible(self) -> Tensor:
        """[N] log P(visible entries of v | tree below the root); equals log_likelihood where nothing is hidden."""
        return where_any(self.levels.at_vertices(self.levels.log_value), self.visible)

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
        return log_weight(self.root_prior)

    @property
    def graph_sums(self) -> Tensor:
        """[G, L, S, C] posteriors summed over the vertices of each graph."""
        if self.levels.graph_sums is not None:
            return self.levels.graph_sums
        graph = torch.repeat_interleave(self.vertex_ptr.diff(), output_size=len(self.visible))
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
    ) -> None:
        super().__init__()
        self.schema = schema
        self.num_layers = num_layers
        self.num_states = num_states
        self.num_edge_types = num_edge_types
        self.shortcut = shortcut
        self.template: Template = compile_template(template, schema, num_states)
        sums = self.template.num_sum_units
        own_levels = num_layers if shortcut is None else num_layers - 1
        self.leaves = nn.ModuleList(
            leaves_for(attribute, own_levels, count)
            for attribute, count in zip(schema, self.template.leaf_counts, strict=True)
        )
        self.raw_prior = nn.Parameter(0.1 * torch.randn(sums, num_states))
        self.raw_transitions = nn.Parameter(torch.randn(num_layers - 1, num_edge_types, sums, num_states, num_states))
        if shortcut == "learned":
            self.raw_shortcut = nn.Parameter(torch.zeros(num_layers - 1))

    # Parameters in their natural form.

    @property
    def families(self) -> list[Leaves]:
        return [family for family in self.leaves if isinstance(family, Leaves)]

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

    # Evaluation.

    def forward(self, batch: Batch) -> Evaluation:
        batch = batch.to(self.raw_prior.device)
        naturals, visible = self.naturals(), batch.visible
        levels = self._climb(naturals, visible, batch)
        with_hidden = None
        if batch.hidden is not None:
            everything = self.inputs([at_level(natural, -1) for natural in naturals], batch.x)
            root_prior = levels.at_vertices(levels.root_prior)
            log_value = self.template.log_value(everything[0], log_weight(root_prior))
            with_hidden = where_any(log_value, batch.x)
        return Evaluation(levels, visible, batch.vertex_ptr, with_hidden)

    def _climb(self, naturals: list[Natural], visible: Tensor, batch: Batch) -> Levels:
        prior, transitions = self.prior(), self.transitions()
        if not isinstance(self.template, NaiveBayes):
            return climb_circuit(self.template, self.inputs(naturals, visible), prior, transitions, batch)
        if not use_fast(prior, transitions, visible):
            return reference(self.inputs(naturals, visible), None, prior, transitions, batch)
        log_density, evidence = distinct_inputs(self.template, self.families, naturals, visible)
        return fast(log_density, evidence, prior, transitions, batch)

    def inputs(self, naturals: list[Natural], x: Tensor) -> Tensor:
        """[levels, N, K] inputs of the template, levels as in `naturals`."""
        return inputs_of(self.template, self.families, naturals, x)

    # Starting points.

    def set_units(self, x: Tensor) -> None:
        """Take the units of continuous columns from rows x [n, d]; every attribute must be observed somewhere."""
        take_units(self.families, x, "attribute", "at every vertex")

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Start afresh from rows x [n, d]: leaves and priors from the data, transitions at random."""
        logits = initialise(self.template, self.families, self.schema, x, self.num_states, generator)
        with torch.no_grad():
            self.raw_prior.copy_(logits)
            noise = torch.randn(self.raw_transitions.shape, generator=generator, dtype=torch.float64)
            self.raw_transitions.copy_(noise)
            if self.shortcut == "learned":
                self.raw_shortcut.zero_()

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
        known = {"prior", "transitions", "leaves", "units"} | ({"shortcut"} if self.shortcut else set())
        needed = {"prior", "transitions", "leaves"} | ({"shortcut"} if self.shortcut == "learned" else set())
        if not needed <= set(exported) <= known:
            raise InputError(f"parameters must be named {sorted(known)}, got {sorted(map(str, exported))}")
        for name in needed - {"leaves"}:
            assign_probabilities(getattr(self, f"raw_{name}"), f"'{name}'", exported[name])
        weights = self.shortcut_weights()
        if self.shortcut == "mean" and weights is not None and "shortcut" in exported:
            given = as_numbers("'shortcut'", exported["shortcut"])
            if given.shape != weights.shape or not torch.allclose(given, weights.double(), atol=1e-5):
                raise InputError(f"'shortcut' must be {weights.tolist()}, which the shortcut 'mean' does not learn")
        leaves, units = as_mapping("'leaves'", exported["leaves"]), as_mapping("'units'", exported.get("units", {}))
        rows = assign_leaves(self.families, leaves, units, self.num_layers, fitted)
        for family in self.families:
            self._check_root(family, rows[family.attribute.name])

    def _check_root(self, family: Leaves, given: Natural) -> None:
        """With a shortcut the root's leaves follow from the others; given ones must not say otherwise."""
        weights = self.shortcut_weights()
        if weights is None:
            return
        for key, combined in family.export(family.combine(family.natural(), weights)).items():
            if len(given[key]) == self.num_layers:
                # Compared in units of the data: nothing is near or far by itself.
                center = family.center if isinstance(family, GaussianLeaves) and key == "mean" else 0.0
                spread = family.spread if isinstance(family, GaussianLeaves) else 1.0
                theirs, ours = (given[key][-1] - center) / spread, (combined[0] - center) / spread
                if not torch.allclose(theirs, ours, rtol=1e-4, atol=1e-4):
                    raise InputError(
                        f"leaves of '{family.attribute.name}': '{key}' of the root is combined from the other levels "
                        f"by the shortcut and cannot be set otherwise; give levels 0 … {self.num_layers - 2} only"
                    )


def where_any(log_value: Tensor, x: Tensor) -> Tensor:
    """Log-values, exactly 0 where x has no entries, which rounding of the weights would miss."""
    return log_value.masked_fill(torch.isnan(x).all(1), 0.0)
