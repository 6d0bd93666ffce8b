"""The label's leaf: a mixture of regressions on the numbers of `label_context`, and the network with such a leaf.

P(y | z) = Σ_m w_m Π_t p_m(y_t | z) over the targets t that are asked for. Every regression m has the leaves of the
targets' own families with a context, which sees some of the blocks of z, perhaps through a layer of hidden units or
through trees (`label_trees`), or else learned messages (`label_messages`), which stand in z behind the blocks. The
weights w have one row for vertices with known labels within reach and one for those without. How all this is learned is
in `models.label_learning`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from gspn.attributes import Attribute, Schema
from gspn.circuits.components import Components
from gspn.circuits.distributions import Distribution, mix
from gspn.circuits.evidence import Context, Evidence
from gspn.circuits.leaves import Leaves, leaves_for
from gspn.circuits.leaves.registry import takes_context
from gspn.circuits.numerics import log_weight
from gspn.errors import InputError
from gspn.graphs.batch import Batch
from gspn.hierarchy.hierarchy import Hierarchy
from gspn.hierarchy.label_context import LABELS, LabelContext, Paths, attributes_told
from gspn.hierarchy.label_messages import LabelMessages, MessageInputs
from gspn.hierarchy.label_trees import LabelTrees, TargetTrees, can_be_grown
from gspn.hierarchy.parameters import check_like, take_units
from gspn.hierarchy.readout import SupervisedEvaluation, labels_of


@dataclass(frozen=True)
class Kind:
    """What a regression of the mixture sees, and through what."""

    blocks: tuple[str, ...]
    through: Literal["units", "forest", "boosted", "convolution", "messages"] | None = None
    """Hidden units, trees, or two layers of messages, which begin from the blocks; None: nothing"""
    dropout: float = 0.0
    """Of messages, while they are learned"""

    @property
    def labels(self) -> bool:
        """Whether it sees labels of others."""
        return any(block in LABELS for block in self.blocks)

    @property
    def trees(self) -> bool:
        return self.through in ("forest", "boosted")

    @property
    def messages(self) -> bool:
        return self.through in ("convolution", "messages")

    @property
    def attributes(self) -> tuple[str, ...]:
        """The blocks that are not of labels."""
        return tuple(block for block in self.blocks if block not in LABELS)


_APART = ("own", "gaps", "degree", "near", "far")
_SMOOTH = ("smooth", "degree")
_SYMMETRIC = ("own", "gaps", "degree", "symmetric")
_DIFFUSED = ("degree", "diffused")
_BOTH = ("own", "degree", "near", "diffused")
_CONVOLVED = ("filled", "degree")
_SENT = ("own", "gaps", "degree")
_ROUGH = (*_APART, "symmetric")
"""For trees"""
KINDS: Mapping[str, Kind] = {
    "frequencies": Kind(()),
    "labels": Kind(LABELS),
    "attributes": Kind(_APART),
    "attributes and labels": Kind((*_APART, *LABELS)),
    "smooth": Kind(_SMOOTH),
    "smooth and labels": Kind((*_SMOOTH, *LABELS)),
    "symmetric": Kind(_SYMMETRIC),
    "symmetric and labels": Kind((*_SYMMETRIC, *LABELS)),
    "diffused": Kind(_DIFFUSED),
    "diffused and labels": Kind((*_DIFFUSED, *LABELS)),
    "own and diffused": Kind(_BOTH),
    "own, diffused and labels": Kind((*_BOTH, *LABELS)),
    "states and labels": Kind((*_APART, "states", *LABELS)),
    "hidden layer, attributes": Kind(_ROUGH, "units"),
    "hidden layer": Kind((*_APART, *LABELS), "units"),
    "forest, attributes": Kind(_ROUGH, "forest"),
    "forest": Kind((*_ROUGH, *LABELS), "forest"),
    "boosted, attributes": Kind(_ROUGH, "boosted"),
    "boosted": Kind((*_ROUGH, *LABELS), "boosted"),
    "convolution, attributes": Kind(_CONVOLVED, "convolution", 0.5),
    "convolution": Kind((*_CONVOLVED, *LABELS), "convolution", 0.5),
    "firmer convolution, attributes": Kind(_CONVOLVED, "convolution", 0.2),
    "firmer convolution": Kind((*_CONVOLVED, *LABELS), "convolution", 0.2),
    "messages, attributes": Kind(_SENT, "messages", 0.5),
    "messages": Kind((*_SENT, *LABELS), "messages", 0.5),
}
"""The regressions of every mixture; those that are of no use have weight 0.

Half of them do not see gaps: indicators of a thousand columns are noise that drowns what the columns say.
"""


class LabelRegression(nn.Module):
    """One leaf per target, on some columns of z, perhaps through hidden units beside them."""

    columns: Tensor
    strength: Tensor
    """What z is multiplied by: the larger, the weaker the ridge on slopes; or what trees say, to be as sure; of
    messages, the epochs in which they were learned"""

    def __init__(
        self,
        targets: Schema,
        columns: list[int],
        num_hidden: int = 0,
        *,
        trees: bool = False,
        messages: LabelMessages | None = None,
    ) -> None:
        """`columns` are those of z, with `messages` the ones that they make."""
        super().__init__()
        self.register_buffer("columns", torch.tensor(columns, dtype=torch.long), persistent=False)
        self.register_buffer("strength", torch.ones(()))
        self.hidden = nn.Linear(len(columns), num_hidden) if num_hidden else None
        self.trees = LabelTrees(targets, len(columns)) if trees else None
        self.messages = messages
        width = len(columns) + num_hidden if self.trees is None else self.trees.width
        self.leaves = nn.ModuleList(
            leaves_for(one, 1, 1, family=leaf_family(one) if width else None, context_width=width) for one in targets
        )

    @property
    def families(self) -> list[Leaves]:
        return cast(list[Leaves], list(self.leaves))

    def context(self, z: Tensor) -> Context | None:
        """What the leaves see of z [n, ≥ W]."""
        if not len(self.columns):
            return None
        seen = z[:, self.columns]
        if self.messages is None:
            seen = (seen if self.trees is None else self.trees(seen)) * self.strength
        if self.hidden is not None:
            seen = torch.cat([seen, torch.relu(self.hidden(seen))], dim=1)
        return Context(seen, torch.ones(len(z), dtype=torch.bool, device=z.device))

    def log_prob(self, z: Tensor, y: Tensor) -> Tensor:
        """[n] Σ over the targets that are known in y [n, T]."""
        return log_prob_of(self.families, self.context(z), y)


def log_prob_of(families: Sequence[Leaves], context: Context | None, y: Tensor) -> Tensor:
    """[n] of single leaves, one family a target: Σ over the targets that are known in y [n, T]."""
    found = []
    for family, column in zip(families, y.split(1, dim=1), strict=True):
        evidence = Evidence(column, torch.ones_like(column, dtype=torch.bool))
        own = family.log_prob(family.natural(), evidence, context)[0, :, 0]
        found.append(torch.where(column[:, 0].isnan(), 0.0, own))
    return torch.stack(found).sum(0)


def log_prior_of_leaves(families: Sequence[Leaves], strength: float) -> Tensor:
    """What is held against slopes, and some observations of the usual kind."""
    return torch.stack([family.log_prior(family.natural(), strength).sum() for family in families]).sum()


class LabelReadout(nn.Module):
    """The mixture of regressions, with what they regress on; where models with other targets have a `Readout`."""

    weights: Tensor
    """[2, M] for vertices without known labels within reach, and for those with some"""

    def __init__(self, schema: Schema, targets: Schema, num_states: int, num_hidden: int) -> None:
        super().__init__()
        self.target, self.head, self.target_level = targets, "circuit", "vertex"
        for one in targets:
            if not takes_context(leaf_family(one)):
                raise InputError(
                    f"labels='evidence' needs leaves that depend on a context; '{one.distribution}' of target "
                    f"'{one.name}' do not: say labels='targets'"
                )
        self.context = LabelContext(schema, targets, num_states)
        self.width = self.context.width
        self.regressions = nn.ModuleList(self._regression(kind, num_hidden) for kind in KINDS.values())
        alone = torch.zeros(2, len(KINDS))
        alone[:, 0] = 1.0
        self.register_buffer("weights", alone)

    def _regression(self, kind: Kind, num_hidden: int) -> LabelRegression:
        if not kind.messages:
            columns, units = self.context.columns(*kind.blocks), num_hidden if kind.through == "units" else 0
            return LabelRegression(self.target, columns, units, trees=kind.trees and can_be_grown(self.target))
        if not num_hidden:
            return LabelRegression(self.target, [])
        messages = LabelMessages(
            self.context, kind.attributes, 2 * num_hidden, convolves=kind.through == "convolution", labels=kind.labels
        )
        first, self.width = self.width, self.width + messages.width
        return LabelRegression(self.target, list(range(first, self.width)), messages=messages)

    def __iter__(self) -> Iterator[LabelRegression]:
        return iter(cast(list[LabelRegression], list(self.regressions)))

    @property
    def families(self) -> list[Leaves]:
        """Those of the first regression: all have the same units."""
        return next(iter(self)).families

    @property
    def used(self) -> list[int]:
        """Which regressions have any weight."""
        return [int(m) for m in (self.weights > 0).any(0).nonzero().squeeze(1)]

    def told(self, hierarchy: Hierarchy, batch: Batch, known: Tensor) -> Tensor:
        """[N, W + 1] what labels depend on, where the known ones are [N, T], NaN elsewhere.

        The last column is 1 where any known label is within reach, and 0 elsewhere.
        """
        attributes, paths = attributes_told(hierarchy, batch), Paths(batch)
        z = self.context.standardised(attributes, self.context.labels_told(batch, known, paths))
        behind, used, seen = [], set(self.used), dict[tuple[str, ...], MessageInputs]()
        for m, one in enumerate(self):
            if one.messages is None:
                continue
            if m not in used:
                behind.append(z.new_zeros(len(z), one.messages.width))
                continue
            blocks = one.messages.blocks
            if blocks not in seen:
                silent = MessageInputs.of(self.context, attributes, batch, blocks)
                seen[blocks] = silent.knowing(known, self.context, batch, paths)
            behind.append(one.messages(seen[blocks]))
        return torch.cat([z[:, :-1], *behind, z[:, -1:]], dim=1)

    def log_weights(self, z: Tensor) -> Tensor:
        """[n, M used] for rows of z [n, W + 1], whose last column says whether a known label is within reach."""
        return log_weight(self.weights[:, self.used])[z[:, -1].long()]

    # What a model asks of a readout.

    def log_prob(self, z: Tensor, y: Tensor) -> Tensor:
        """[n] log P(known targets of y [n, T] | z); exactly 0 where none is known."""
        parts = [self.regressions[m].log_prob(z, y) for m in self.used]  # type: ignore[operator]
        found = torch.logsumexp(torch.stack(parts, dim=1) + self.log_weights(z), dim=1)
        return found.masked_fill(y.isnan().all(1), 0.0)

    @torch.no_grad()
    def predictive(self, z: Tensor) -> list[Distribution]:
        """P(y_t | z) of every target t."""
        unknown = z.new_full((len(z), 1), torch.nan).double()
        nothing, log_weights, found = Evidence(unknown, unknown.isnan()), self.log_weights(z), list[Distribution]()
        regressions = [cast(LabelRegression, self.regressions[m]) for m in self.used]
        contexts = [one.context(z) for one in regressions]
        for t in range(len(self.target)):
            rows = [
                one.families[t].conditional(one.families[t].natural(), 0, nothing, context)
                for one, context in zip(regressions, contexts, strict=True)
            ]
            found.append(mix(Components(rows), log_weights))
        return found

    def set_units(self, y: Tensor) -> None:
        """Take the units of continuous targets from labels [n, T]; every target must be labelled somewhere."""
        for attribute, column in zip(self.target, y.unbind(1), strict=True):
            if bool(column.isnan().all()):
                raise InputError(f"target '{attribute.name}' has no label at all; nothing can be learned of it")
        scopes = [(column,) for column in range(len(self.target))]
        for one in self:
            take_units(one.families, scopes, y, "target", "everywhere")
        self.context.settle_labels(y)

    # Parameters.

    def export(self) -> dict[str, Any]:
        return {name: value.detach().double().clone() for name, value in self.state_dict().items()}

    def assign(self, exported: Mapping[str, Any], *, fitted: bool) -> None:
        before = copy.deepcopy(self.state_dict())
        try:
            self.make_room(exported)
            given = check_like("the readout", exported, self.export())
            weights = given["weights"]
            if bool((weights < 0).any()) or not torch.allclose(weights.sum(1), torch.ones(2).double(), atol=1e-5):
                raise InputError("'weights' of the readout must be at least 0 and sum to 1 in every row")
            self.load_state_dict({name: value.to(before[name].dtype) for name, value in given.items()})
            if not self.is_sound():
                raise InputError("the trees of the readout do not fit each other")
        except BaseException:
            self.load_state_dict(before)
            raise

    def make_room(self, tensors: Mapping[str, Any], prefix: str = "") -> None:
        """For tensors by name that will be put here: trees have the length that they have."""
        for name, trees in self._grown():
            trees.make_room(tensors, f"{prefix}{name}.")

    def is_sound(self) -> bool:
        """Whether trees that came from somewhere read nothing that is not there."""
        return all(trees.is_sound() for _, trees in self._grown())

    def _grown(self) -> Iterator[tuple[str, TargetTrees]]:
        return ((name, one) for name, one in self.named_modules() if isinstance(one, TargetTrees))


class LabelNetwork(nn.Module):
    """A hierarchy of the attributes and the label's leaf on top: labels of others are evidence."""

    def __init__(self, hierarchy: Hierarchy, readout: LabelReadout) -> None:
        super().__init__()
        self.hierarchy = hierarchy
        self.readout = readout

    def told(self, batch: Batch) -> Tensor:
        """[N, W + 1] what the labels depend on; those that the batch carries, but for its own, are evidence at each."""
        known = torch.full((batch.num_vertices, len(self.readout.target)), torch.nan, dtype=torch.float64)
        return self.readout.told(self.hierarchy, batch, known if batch.y is None else labels_of(batch))

    def forward(self, batch: Batch) -> SupervisedEvaluation:
        """`log_prob` is that of every label given all the others."""
        batch = batch.to(self.hierarchy.raw_prior.device)
        evaluation, z, log_prob = self.hierarchy(batch), self.told(batch), None
        if batch.y is not None:
            log_prob = self.readout.log_prob(z, labels_of(batch))
        return SupervisedEvaluation(
            **vars(evaluation), readout_log_prior=self.readout.log_weights(z), log_prob=log_prob
        )


def leaf_family(attribute: Attribute) -> str:
    """The family of a target's leaves; Gaussians that regress are those over several attributes."""
    return "diagonal_gaussian" if attribute.distribution == "gaussian" else attribute.distribution
