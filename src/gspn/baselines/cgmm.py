"""CGMM, the Contextual Graph Markov Model: mixtures stacked layer by layer, each learned by EM on the fixed ones below.

The first layer is a mixture over the vertices' attributes. In every later layer a vertex's prior comes from its
neighbours' posteriors in earlier layers: one transition table for each earlier layer and edge type, mixed by weights
that are learned with them. Of several neighbours along an edge type the mean is taken; where there is none, the vertex
sees an extra "bottom" state instead, so the prior is a distribution for every vertex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch.nn.functional import one_hot

from gspn.attributes import FloatArray, Schema
from gspn.baselines.contexts import neighbour_means
from gspn.baselines.evidence import Column, read_entries
from gspn.baselines.layerwise import LayerFor, LayerPosteriors, LayerwiseEM, check_sizes, nothing_seen
from gspn.graphs import Batch


@dataclass(eq=False, repr=False)
class CGMM(LayerwiseEM):
    """Contextual Graph Markov Model over typed vertex attributes, learned without labels.

    Missing attributes are marginalised. Counts are Gaussian on a log scale.

    Parameters
    ----------
    num_layers:
        Number of layers.
    num_states:
        States C of each layer.
    num_edge_types:
        Edge types told apart; 1 treats all edges alike.
    context:
        How many layers below a layer sees, mixed by learned weights; None for all of them.
    em_steps:
        Steps of EM a layer, at most.
    tolerance:
        The gain of the objective a vertex (in nats) below which EM ends early.
    smoothing:
        Pseudo-count of every cell of every table.
    embedding:
        "unigram", "bigram" or "both": what `embed` gives.

    Attributes
    ----------
    layers_:
        The learned layers; `layer_weights` says what each takes from those below.
    history_:
        One dict a step of EM: layer, part, step, log_likelihood and objective (with the tables' prior) a vertex.
    """

    schema: Schema
    num_layers: int = 5
    num_states: int = 20
    num_edge_types: int = 1
    context: int | None = None
    em_steps: int = 30
    tolerance: float = 1e-4
    smoothing: float = 0.01
    embedding: str = "unigram"
    seed: int = 0

    def _check(self) -> None:
        super()._check()
        check_sizes(num_states=self.num_states)

    def layer_weights(self, number: int) -> FloatArray:
        """Weights of the layers below that layer `number` sees, the lowest first."""
        weights: FloatArray = self.layers_[number]["vertices"].arcs.reshape(-1, self.num_edge_types).sum(1)
        return weights

    def _columns(self) -> dict[str, tuple[tuple[Column, ...], int]]:
        return {"vertices": (self.columns_, self.num_states)}

    def _climb(self, batch: Batch, layer_for: LayerFor) -> LayerPosteriors:
        evidence, shares = read_entries(self.columns_, batch.x), type_shares(batch, self.num_edge_types)
        reading = LayerPosteriors()
        seen: list[FloatArray] = []
        for number in range(self.num_layers):
            contexts = np.concatenate(self._earlier(seen), axis=1) if seen else nothing_seen(batch.num_vertices)
            layer = layer_for(number, "vertices", contexts, evidence)
            posteriors = layer.posteriors(contexts, evidence)
            reading.vertices.append(posteriors)
            seen.append(neighbour_means(batch, posteriors, shares, of_all=False))
        return reading


def type_shares(batch: Batch, num_edge_types: int) -> FloatArray:
    """[E, T] indicators of the edges' types."""
    if num_edge_types == 1 or batch.edge_type is None:
        return np.ones((batch.num_edges, 1)) if num_edge_types == 1 else np.zeros((batch.num_edges, num_edge_types))
    shares: FloatArray = one_hot(batch.edge_type, num_edge_types).double().numpy()
    return shares
