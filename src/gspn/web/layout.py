"""Where vertices are drawn: coordinates alone, the same for every version of a graph. Pictures are made in the page."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEPS = 120
_PAIRS_IN_ALL = 60_000_000
"""Pairs of vertices that are looked at over all steps: about a second"""


def spread(num_vertices: int, pairs: NDArray[np.int64], seed: int = 0) -> NDArray[np.float64]:
    """[N, 2] coordinates with edges of length 1, by the median.

    Neighbours attract each other, all others repel (Fruchterman and Reingold). The same graph gets the same places.
    pairs: [2, E] the ends of the edges.
    """
    rng = np.random.default_rng(seed)
    # A spiral is no vertex's neighbour on top of it, and the noise breaks ties of symmetric graphs.
    turn, radius = np.arange(num_vertices) * 2.4, 0.6 * np.sqrt(np.arange(num_vertices) + 0.5)
    places: NDArray[np.float64] = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)
    places += 0.05 * rng.standard_normal(places.shape)
    source, target = pairs[:, pairs[0] != pairs[1]]
    steps = int(np.clip(_PAIRS_IN_ALL // max(num_vertices**2, 1), 20, _STEPS))
    for step in range(steps):
        towards = places[:, None] - places[None]
        square = np.einsum("uvk,uvk->uv", towards, towards) + 1e-4
        force = np.einsum("uvk,uv->uk", towards, 1 / square)
        pull = places[source] - places[target]
        pull *= np.linalg.norm(pull, axis=1, keepdims=True)
        np.add.at(force, source, -pull)
        np.add.at(force, target, pull)
        force -= 0.05 * places  # or parts that do not hang together would drift apart
        length = np.linalg.norm(force, axis=1, keepdims=True) + 1e-9
        places += force / length * np.minimum(length, 0.5 * (1 - step / steps) * np.sqrt(num_vertices) / 3 + 0.01)
    places -= places.mean(axis=0, keepdims=True)
    lengths = np.linalg.norm(places[source] - places[target], axis=1)
    return places / max(float(np.median(lengths)), 1e-3) if len(lengths) else places
