"""The aggregations beside the mean, literally: one receiver, message after message.

They are what `oracle.Model` takes as `mix` and `weigh`. Nothing of the library belongs here.
"""

from __future__ import annotations

import math

import numpy as np

from gspn.testing.oracle_leaves import Array
from gspn.testing.oracle_template import Message, Mix


def symmetric_weights(messages: list[Message]) -> list[float]:
    """One over the root of the number of edges that leave the sender, divided by the sum of these."""
    rough = [1 / math.sqrt(message.sender_out_degree) for message in messages]
    return [own / math.fsum(rough) for own in rough]


def symmetric(level: int, messages: list[Message], theta: Array, start: Array) -> Array:
    """The mean, weighted."""
    if not messages:
        return start
    prior = np.zeros_like(start)
    for message, weight in zip(messages, symmetric_weights(messages), strict=True):
        for j in range(len(start)):
            prior[j] += weight * theta[kind(message, theta), j].T @ message.posterior[j]
    return np.asarray(prior, dtype=np.float64)


def product(own: Array, beta: Array, lowest: Array | None = None) -> Mix:
    """b_1 … b_{L-1} [L-1, S, C], their exponents [L-1] and b_0 [S, C]; None: what `mix` is given as start."""

    def mix(level: int, messages: list[Message], theta: Array, start: Array) -> Array:
        b = own[level - 1]
        if not messages:
            return np.asarray(b, dtype=np.float64)
        zero = start if lowest is None else lowest
        below, weight = (zero if level == 1 else own[level - 2]), len(messages) ** -float(beta[level - 1])
        prior = np.zeros_like(b)
        for j, states in enumerate(b):
            exponents = np.zeros(len(states))
            for i in range(len(states)):
                sent = []
                for message in messages:
                    column = theta[kind(message, theta), j][:, i]
                    received = math.fsum(p * h for p, h in zip(column, message.posterior[j], strict=True))
                    usual = math.fsum(p * h for p, h in zip(column, below[j], strict=True))
                    sent.append(math.log(received) - math.log(usual))
                exponents[i] = math.log(states[i]) + weight * math.fsum(sent)
            relative = np.exp(exponents - exponents.max())
            prior[j] = relative / relative.sum()
        return np.asarray(prior, dtype=np.float64)

    return mix


def kind(message: Message, theta: Array) -> int:
    """The type of its edge, where types are told apart."""
    return message.edge_type if len(theta) > 1 else 0
