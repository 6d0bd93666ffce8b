"""E-CGMM: a CGMM on the vertices and a second one on the edges, coupled.

Edges have states of their own. In every layer but the first an edge sees the posteriors of its two ends in the layers
below (sender and receiver are two arcs), and a vertex sees its neighbours sorted by the states of the edges that lead
to them: for each state of an edge, the mean over all incoming edges of the edge's posterior times the neighbour's.
What is missing of 1 there (neighbours along edges in other states, or no neighbour at all) is in the "bottom" state.

An edge's evidence is its type. Where edges have no types (`num_edge_types=1`), there would be nothing to learn; then
the evidence is the attributes of its two ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gspn.attributes import FloatArray, Schema
from gspn.baselines.contexts import neighbour_means
from gspn.baselines.evidence import Column, read_entries
from gspn.baselines.layerwise import LayerFor, LayerPosteriors, LayerwiseEM, check_sizes, nothing_seen
from gspn.graphs import Batch


@dataclass(eq=False, repr=False)
class ECGMM(LayerwiseEM):
    """CGMM with states on the edges. Missing attributes are marginalised.

    `num_edge_states` are the states of an edge; `context` is 1 by default, as the statistics of a vertex have
    `num_edge_states` · (`num_states` + 1) numbers for each layer below that it sees. The other arguments are CGMM's.
    Unigrams hold the vertices' posteriors and the sums of the posteriors of incoming edges; bigrams are the vertices'.
    """

    schema: Schema
    num_layers: int = 5
    num_states: int = 20
    num_edge_states: int = 5
    num_edge_types: int = 1
    context: int | None = 1
    em_steps: int = 30
    tolerance: float = 1e-4
    smoothing: float = 0.01
    embedding: str = "unigram"
    seed: int = 0

    def _check(self) -> None:
        super()._check()
        check_sizes(num_states=self.num_states, num_edge_states=self.num_edge_states)

    def _columns(self) -> dict[str, tuple[tuple[Column, ...], int]]:
        edges = (Column(self.num_edge_types),) if self.num_edge_types > 1 else self.columns_ * 2
        return {"vertices": (self.columns_, self.num_states), "edges": (edges, self.num_edge_states)}

    def _climb(self, batch: Batch, layer_for: LayerFor) -> LayerPosteriors:
        evidence = read_entries(self.columns_, batch.x)
        source, target = batch.source.numpy(), batch.target.numpy()
        edge_evidence = self._edge_evidence(batch, evidence[source], evidence[target])
        reading = LayerPosteriors()
        seen: list[FloatArray] = []
        ends: list[FloatArray] = []
        for number in range(self.num_layers):
            contexts = np.concatenate(self._earlier(seen), axis=1) if seen else nothing_seen(batch.num_vertices)
            edge_contexts = np.concatenate(self._earlier(ends), axis=1) if ends else nothing_seen(batch.num_edges)
            vertices = layer_for(number, "vertices", contexts, evidence).posteriors(contexts, evidence)
            layer = layer_for(number, "edges", edge_contexts, edge_evidence)
            edges = layer.posteriors(edge_contexts, edge_evidence)
            reading.vertices.append(vertices)
            reading.edges.append(edges)
            seen.append(neighbour_means(batch, vertices, edges, of_all=True))
            ends.append(np.stack([vertices[source], vertices[target]], axis=1))
        return reading

    def _edge_evidence(self, batch: Batch, senders: FloatArray, receivers: FloatArray) -> FloatArray:
        if self.num_edge_types == 1:
            return np.concatenate([senders, receivers], axis=1)
        if batch.edge_type is None:  # graphs without edges
            return np.empty((0, 1))
        types: FloatArray = batch.edge_type.double().numpy()[:, None]
        return types
