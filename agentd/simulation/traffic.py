"""How much is said in a fault-free lockstep run, in closed form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentd.core.policy import ALGORITHMS
from agentd.runs.spec import RunSpec
from agentd.wire.size import batch_bytes, header_bytes

Sent = NDArray[np.bool_]
"""Which agent created a message at which trial, shape (agents, rounds); None stands for everybody, always."""


def messages_per_frame(spec: RunSpec, sent: Sent | None = None) -> NDArray[np.int64]:
    """How many messages the frame of each agent holds in each round, shape (agents, rounds).

    A frame holds the agent's own message of the round, and relays what was created d rounds ago by the origins at
    distance d, for d up to γ−1: at distance γ a message arrives with its last life and goes no further.
    """
    agents, rounds = spec.network.agents, spec.rounds
    counts = np.zeros((agents, rounds), dtype=np.int64)
    if spec.gamma == 0 or ALGORITHMS[spec.algorithm].tells is None:
        return counts
    counts += 1 if sent is None else sent
    for distance in range(1, _relays(spec) + 1):
        there = spec.network.distances == distance
        if sent is None:
            counts[:, distance:] += np.count_nonzero(there, axis=1)[:, np.newaxis]
        else:  # whole numbers in floats, which is what fast products are made for
            products = there.astype(np.float32) @ sent[:, : rounds - distance].astype(np.float32)
            counts[:, distance:] += products.astype(np.int64)
    return counts


def count_messages(spec: RunSpec, sent: Sent | None = None) -> int:
    """Messages sent in the whole run, each once per neighbour it was sent to: `messages_per_frame`, summed."""
    if spec.gamma == 0 or ALGORITHMS[spec.algorithm].tells is None:
        return 0
    degrees = np.array([len(neighbours) for neighbours in spec.network.neighbours], dtype=np.int64)
    if sent is not None:
        return int(messages_per_frame(spec, sent).sum(axis=1) @ degrees)
    total = np.full(spec.network.agents, spec.rounds, dtype=np.int64)
    for distance in range(1, _relays(spec) + 1):
        total += np.count_nonzero(spec.network.distances == distance, axis=1) * (spec.rounds - distance)
    return int(total @ degrees)


def _relays(spec: RunSpec) -> int:
    """The largest distance over which a message is relayed; beyond the diameter there is nobody."""
    return min(spec.gamma - 1, spec.rounds - 1, spec.network.diameter)


def count_bytes(spec: RunSpec, sent: Sent | None = None, *, headers: bool = True) -> int:
    """Bytes of all frames of the whole run, topics not counted, each frame once per neighbour it was sent to.

    Without `headers`, only what the messages take: in lockstep a frame goes out also where nothing is to be said.

    Every agent sends one frame per round, empty or not, numbered like the round. This sizes every single frame, which
    takes a third of the time of the run itself: it is for who asks.
    """
    degrees = np.array([len(neighbours) for neighbours in spec.network.neighbours], dtype=np.int64)
    lengths = _headers(spec) * headers
    if (kind := ALGORITHMS[spec.algorithm].tells) is not None:
        lengths = lengths + batch_bytes(kind, spec.arms.count, messages_per_frame(spec, sent))
    return int(lengths.sum(axis=1) @ degrees)


def count_header_bytes(spec: RunSpec) -> int:
    """What of `count_bytes` the headers of the frames take."""
    degrees = np.array([len(neighbours) for neighbours in spec.network.neighbours], dtype=np.int64)
    return int(_headers(spec).sum(axis=1) @ degrees)


def _headers(spec: RunSpec) -> NDArray[np.int64]:
    sender = np.arange(spec.network.agents, dtype=np.int64)[:, np.newaxis]
    round_ = np.arange(1, spec.rounds + 1, dtype=np.int64)[np.newaxis, :]
    return header_bytes(sender=sender, sequence=round_, round=round_)
