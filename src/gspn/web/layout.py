"""Where vertices are drawn: coordinates alone, the same for every version of a graph. Pictures are made in the page."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist

_STEPS = (15, 60)
"""Least and most steps; the first guess is good already"""
_PAIRS_IN_ALL = 10_000_000
"""Pairs of vertices that are looked at over all steps: a fraction of a second"""


def spread(num_vertices: int, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """[N, 2] places whose distances are like the numbers of steps between vertices; an edge has a length of about 1.

    The graph is wider than high, and gets the same places every time. pairs: [2, E] the ends of the edges.

    Stress majorisation: every step minimises an upper bound of Σ (distance − steps)² / steps², which counts what is
    near for more.
    """
    if num_vertices == 1:
        return np.zeros((1, 2))
    steps = _steps_between(num_vertices, pairs)
    weights = 1 / steps**2
    np.fill_diagonal(weights, 0)
    # Places are free up to a shift; with the first vertex in the origin the equations have one solution.
    inverse = np.linalg.inv((np.diag(weights.sum(1)) - weights)[1:, 1:])
    places, wanted = _first_guess(steps), weights * steps
    for _ in range(int(np.clip(_PAIRS_IN_ALL // num_vertices**2, *_STEPS))):
        pull = wanted / np.maximum(cdist(places, places), 1e-6)
        target = pull.sum(1, keepdims=True) * places - pull @ places
        places = np.vstack([np.zeros((1, 2)), inverse @ target[1:]])
    places -= places.mean(0)
    # The longer axis lies; its direction is fixed by the first vertex that is off the other one.
    _, axes = np.linalg.eigh(places.T @ places)
    turned: NDArray[np.float64] = places @ axes[:, ::-1]
    return turned * np.where(turned[np.abs(turned).argmax(0), [0, 1]] < 0, -1.0, 1.0)


def _steps_between(num_vertices: int, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """[N, N] edges on the shortest path, whatever their direction; some more between separate parts."""
    shape = (num_vertices, num_vertices)
    joined = coo_array((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), shape=shape).tocsr()
    steps: NDArray[np.float64] = shortest_path(joined, directed=False, unweighted=True)
    finite = np.isfinite(steps)
    steps[~finite] = 1.5 + steps[finite].max() / 2
    np.fill_diagonal(steps, 1)  # never used; avoids a division by zero
    return steps


def _first_guess(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Classical scaling, with a little noise: vertices with the same neighbours would lie on top of each other."""
    squares = steps**2
    np.fill_diagonal(squares, 0)
    centred = squares - squares.mean(0) - squares.mean(1, keepdims=True) + squares.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    places = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-3))
    noise = np.random.default_rng(0).standard_normal(places.shape)
    guess: NDArray[np.float64] = places + 0.05 * noise
    return guess
