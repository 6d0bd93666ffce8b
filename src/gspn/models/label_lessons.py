"""What the regressions of the label's leaf learn from: the same vertices several times, with different labels hidden.

Half of the copies hide a tenth of the labels and half a random share; a vertex never receives its own label in any
case. Regressions that see no labels need one copy. Which kinds are worth a try, and with which strengths, depends on
how much there is; how each is learned is in `label_regression` and `label_messages`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from gspn.hierarchy.label_messages import MessageInputs, told_columns
from gspn.hierarchy.label_readout import Kind, LabelReadout, LabelRegression
from gspn.models.label_exams import LabelledBatch
from gspn.models.label_growing import RegressionData
from gspn.models.label_messages import MessageLearning
from gspn.models.label_regression import fit
from gspn.random_streams import keyed_uniform

STRENGTHS, OF_UNITS, GENTLER = (0.3, 1.0, 3.0, 10.0, 30.0), (1.0, 3.0), (0.03, 0.1)
"""What contexts are multiplied by: tried first, for hidden units, and where all are no better than frequencies."""
OF_LARGE, _LARGE = (1.0, 3.0, 10.0), 3_000_000
"""Of contexts with more numbers than so many, which take their time."""
OF_FEW, _FEW = (0.3, 1.0, 3.0), 60
"""Where fewer labels are to be learned from."""
OF_TREES = (0.4, 0.6, 0.8, 1.0, 1.3, 1.7)
"""How sure of themselves trees may be."""
OF_MESSAGES = (30.0, 60.0, 100.0, 150.0, 200.0)
"""Epochs."""

_HIDDEN_SHARES = (0.1, 0.25, 0.1, 0.75)
"""Of the labels that are hidden in each copy of the training vertices."""
_COPIES_TO = 3_000_000
"""Numbers of a copy up to which there are four; of larger ones there are two."""
_COPIES_OF_MESSAGES = 8
_LEAST_OF_UNITS, _LEAST_OF_TREES = 30, 120
"""Labelled vertices from which on hidden units and trees are tried."""
_MOST_OF_UNITS, _MOST_OF_TREES = 4_000_000, 400
"""Numbers of a context up to which units are tried, and columns up to which trees are."""
_LEAST_OF_MESSAGES, _MOST_OF_MESSAGES, _MOST_SENT = 60, 6_000_000, 12_000_000
"""Labelled vertices from which on messages are tried; numbers that vertices tell and that edges carry, up to which."""
_WIDE, _MOST_OF_WIDE = 3_000, 12_000_000
"""Columns from which on so many numbers are too many for a regression: narrower ones of the same data have to do."""
_HIDE, _HIDE_FROM_MESSAGES, _SHARE = -11, -15, -16
"""Names of streams of random numbers."""

Step = Callable[[float], None]
"""Learns a regression for a strength, from where it stands: strengths are asked for in rising order"""


class Lessons:
    """Some labelled vertices of the training graphs, whose labels `known` [N, T] may be evidence for each other."""

    def __init__(
        self,
        readout: LabelReadout,
        own: LabelledBatch,
        rows: Tensor,
        known: Tensor,
        seed: int,
        class_weights: Tensor | None = None,
    ) -> None:
        """`rows` are the vertices to learn from; `class_weights` [K] those of the classes of the only target."""
        self.readout, self.own, self.rows, self.known, self.seed = readout, own, rows, known, seed
        self.y = own.truth[rows]
        self.weights = torch.ones(len(rows), dtype=torch.float64)
        if class_weights is not None:
            labelled = ~self.y[:, 0].isnan()
            self.weights[labelled] = class_weights[self.y[labelled, 0].long()]

    def strengths(self, kind: Kind, part: LabelRegression, usual: Sequence[float] = STRENGTHS) -> Sequence[float]:
        """Which are worth a try, in rising order: none where there are too few vertices, or too many numbers."""
        vertices, columns = len(self.rows), len(part.columns)
        if not kind.blocks:
            return usual[:1]
        if kind.messages:
            return OF_MESSAGES if self._can_send(part) else ()
        if kind.trees:
            few = vertices < _LEAST_OF_TREES or columns > _MOST_OF_TREES
            return () if part.trees is None or few else OF_TREES
        numbers = len(self._data(kind).z) * columns
        if kind.through == "units":
            few = vertices < _LEAST_OF_UNITS or numbers > _MOST_OF_UNITS
            return () if part.hidden is None or few else usual if usual is not STRENGTHS else OF_UNITS
        if columns > _WIDE and numbers > _MOST_OF_WIDE:
            return ()
        if usual is not STRENGTHS:
            return usual
        return OF_FEW if vertices < _FEW else OF_LARGE if numbers > _LARGE else usual

    def _can_send(self, part: LabelRegression) -> bool:
        batch, messages = self.own.batch, part.messages
        if messages is None or len(self.rows) < _LEAST_OF_MESSAGES:
            return False
        told, sent = (
            batch.num_vertices * len(told_columns(self.readout.context, messages.blocks)),
            batch.num_edges * messages.width,
        )
        return told <= _MOST_OF_MESSAGES and sent <= _MOST_SENT

    def learning(self, kind: Kind, part: LabelRegression) -> Step:
        """Begin to learn a regression."""
        if kind.messages:
            copies = self._copies(kind)
            return MessageLearning(part, kind.dropout, copies, self.rows, self.y, self.weights, self.seed).until
        data, begun = self._data(kind), False

        def step(strength: float) -> None:
            nonlocal begun
            fit(part, kind, data, strength, self.seed, goes_on=begun)
            begun = True

        return step

    def _data(self, kind: Kind) -> RegressionData:
        return self._with_labels if kind.labels else self._without

    @cached_property
    def _without(self) -> RegressionData:
        nothing = torch.full_like(self.known, torch.nan)
        return RegressionData(self.own.told(self.readout.context, nothing, self.rows), self.y, self.weights)

    @cached_property
    def _with_labels(self) -> RegressionData:
        whole = len(self.rows) * self.readout.context.width < _COPIES_TO
        shares = _HIDDEN_SHARES if whole else _HIDDEN_SHARES[:2]
        number = len(shares)
        told = [
            self.own.told(self.readout.context, self._hiding(share, _HIDE, copy), self.rows)
            for copy, share in enumerate(shares)
        ]
        return RegressionData(torch.cat(told), self.y.repeat(number, 1), self.weights.repeat(number) / number, number)

    def _copies(self, kind: Kind) -> list[MessageInputs]:
        """Which differ in the labels that are hidden; one where no labels are seen."""
        drawn = keyed_uniform(self.seed, _SHARE, torch.arange(_COPIES_OF_MESSAGES)).tolist()
        shares = (
            [share if copy % 2 else _HIDDEN_SHARES[0] for copy, share in enumerate(drawn)] if kind.labels else [1.0]
        )
        return [
            self.own.inputs(self.readout.context, self._hiding(share, _HIDE_FROM_MESSAGES, copy), kind.attributes)
            for copy, share in enumerate(shares)
        ]

    def _hiding(self, share: float, stream: int, copy: int) -> Tensor:
        """[N, T] the known labels but for a share of the vertices."""
        hidden = keyed_uniform(self.seed, stream, copy, *self.own.batch.vertex_keys()) < share
        return self.known.masked_fill(hidden[:, None], torch.nan)
