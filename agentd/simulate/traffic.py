"""How much is said in a fault-free lockstep run, in closed form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentd.core.policy import ALGORITHMS
from agentd.simulate.spec import RunSpec
from agentd.wire.size import batch_bytes, header_bytes


def messages_per_frame(spec: RunSpec) -> NDArray[np.int64]:
    """How many messages the frame of each agent holds in each round, shape (agents, rounds).

    A frame holds the agent's own message of the round, and relays what was created d rounds ago by the origins at
    distance d, for d up to γ−1: at distance γ a message arrives with its last life and goes no further.
    """
    agents, rounds = spec.network.agents, spec.rounds
    counts = np.zeros((agents, rounds), dtype=np.int64)
    if spec.gamma == 0 or ALGORITHMS[spec.algorithm].tells is None:
        return counts
    counts += 1
    for distance in range(1, min(spec.gamma - 1, rounds - 1) + 1):
        counts[:, distance:] += np.count_nonzero(spec.network.distances == distance, axis=1)[:, np.newaxis]
    return counts


def count_messages(spec: RunSpec) -> int:
    """Messages sent in the whole run, each once per neighbour it was sent to: `messages_per_frame`, summed."""
    if spec.gamma == 0 or ALGORITHMS[spec.algorithm].tells is None:
        return 0
    degrees = np.array([len(neighbours) for neighbours in spec.network.neighbours], dtype=np.int64)
    total = np.full(spec.network.agents, spec.rounds, dtype=np.int64)
    for distance in range(1, min(spec.gamma - 1, spec.rounds - 1) + 1):
        total += np.count_nonzero(spec.network.distances == distance, axis=1) * (spec.rounds - distance)
    return int(total @ degrees)


def count_bytes(spec: RunSpec) -> int:
    """Bytes of all frames of the whole run, topics not counted, each frame once per neighbour it was sent to.

    Every agent sends one frame per round, empty or not, numbered like the round. This sizes every single frame, which
    takes a third of the time of the run itself: it is for who asks.
    """
    degrees = np.array([len(neighbours) for neighbours in spec.network.neighbours], dtype=np.int64)
    sender = np.arange(spec.network.agents, dtype=np.int64)[:, np.newaxis]
    round_ = np.arange(1, spec.rounds + 1, dtype=np.int64)[np.newaxis, :]
    lengths = header_bytes(sender=sender, incarnation=0, sequence=round_, round_=round_)
    if (kind := ALGORITHMS[spec.algorithm].tells) is not None:
        lengths = lengths + batch_bytes(kind, spec.arms.count, messages_per_frame(spec))
    return int(lengths.sum(axis=1) @ degrees)
