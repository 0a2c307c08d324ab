"""How much is said in a fault-free lockstep run, in closed form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentd.core.message import MAX_AGENT_ID
from agentd.core.policy import ALGORITHMS
from agentd.runs.spec import RunSpec
from agentd.wire.size import batch_bytes, header_bytes

Sent = NDArray[np.bool_]
"""Which agent created a message at which trial, shape (agents, rounds); None stands for everybody, always."""

_FRAMES_AT_ONCE = 1 << 20  # frames that are sized at once; bounds the memory of that to some tens of megabytes


def messages_per_frame(spec: RunSpec, sent: Sent | None = None, rounds: range | None = None) -> NDArray[np.int64]:
    """How many messages the frame of each agent holds in each round, or in some that follow each other.

    A frame holds the agent's own message of the round, and relays what was created d rounds ago by the origins at
    distance d, for d up to γ−1: at distance γ a message arrives with its last life and goes no further.
    """
    rounds = range(spec.rounds) if rounds is None else rounds
    counts = np.zeros((spec.network.agents, len(rounds)), dtype=np.int64)
    if spec.gamma == 0 or ALGORITHMS[spec.algorithm].tells is None:
        return counts
    counts += 1 if sent is None else sent[:, rounds.start : rounds.stop]
    shells = spec.network.shells(spec.gamma)
    for distance in range(1, min(spec.gamma - 1, shells.reach) + 1):
        first = max(rounds.start, distance)
        if sent is None:
            counts[:, first - rounds.start :] += shells.sizes[distance - 1][:, np.newaxis]
            continue
        for now in range(first, rounds.stop):
            origins = sent[:, now - distance].nonzero()[0]
            for part in shells.pieces(distance, origins):
                members = shells.of(distance, origins[part]).nodes
                counts[:, now - rounds.start] += np.bincount(members, minlength=len(counts))
    return counts


def count_messages(spec: RunSpec, sent: Sent | None = None) -> int:
    """Messages sent in the whole run, each once per neighbour it was sent to: `messages_per_frame`, summed.

    A message created at trial t leaves everybody at distance d at trial t + d, to as many as it has neighbours.
    """
    if spec.gamma == 0 or ALGORITHMS[spec.algorithm].tells is None:
        return 0
    degrees = _degrees(spec)
    shells = spec.network.shells(spec.gamma)
    created = np.full(spec.network.agents, spec.rounds, dtype=np.int64) if sent is None else _created(sent)
    total = int(created @ degrees)
    for distance in range(1, min(spec.gamma - 1, spec.rounds - 1, shells.reach) + 1):
        late = distance if sent is None else _created(sent[:, -distance:])
        total += int((created - late) @ shells.sums(distance, degrees.astype(np.float64)).astype(np.int64))
    return total


def count_bytes(spec: RunSpec, sent: Sent | None = None, *, headers: bool = True) -> int | None:
    """Bytes of all frames of the whole run, topics not counted, each frame once per neighbour it was sent to.

    Without `headers`, only what the messages take: in lockstep a frame goes out also where nothing is to be said. None
    where there are more agents than ids: no frame says what such a run would.

    Every agent sends one frame per round, empty or not, numbered like the round. This sizes every single frame, which
    takes a third of the time of the run itself: it is for who asks.
    """
    if spec.network.agents > MAX_AGENT_ID + 1:
        return None
    degrees = _degrees(spec)
    return sum(
        int(bytes_per_frame(spec, sent, rounds, headers=headers).sum(axis=1) @ degrees) for rounds in _stretches(spec)
    )


def bytes_per_frame(
    spec: RunSpec, sent: Sent | None = None, rounds: range | None = None, *, headers: bool = True
) -> NDArray[np.int64]:
    """How long the frame of each agent is in each round, or in some that follow each other."""
    rounds = range(spec.rounds) if rounds is None else rounds
    lengths = _headers(spec, rounds) * headers
    if (kind := ALGORITHMS[spec.algorithm].tells) is not None:
        lengths = lengths + batch_bytes(kind, spec.arms.count, messages_per_frame(spec, sent, rounds))
    return lengths


def count_header_bytes(spec: RunSpec) -> int:
    """What of `count_bytes` the headers of the frames take."""
    return sum(int(_headers(spec, rounds).sum(axis=1) @ _degrees(spec)) for rounds in _stretches(spec))


def _created(sent: Sent) -> NDArray[np.int64]:
    times: NDArray[np.int64] = np.count_nonzero(sent, axis=1).astype(np.int64)
    return times


def _degrees(spec: RunSpec) -> NDArray[np.int64]:
    return np.array([len(neighbours) for neighbours in spec.network.neighbours], dtype=np.int64)


def _stretches(spec: RunSpec) -> list[range]:
    """The rounds, so many at a time as can be sized at once."""
    block = max(1, _FRAMES_AT_ONCE // spec.network.agents)
    return [range(first, min(spec.rounds, first + block)) for first in range(0, spec.rounds, block)]


def _headers(spec: RunSpec, rounds: range) -> NDArray[np.int64]:
    sender = np.arange(spec.network.agents, dtype=np.int64)[:, np.newaxis]
    round_ = np.arange(rounds.start + 1, rounds.stop + 1, dtype=np.int64)[np.newaxis, :]
    return header_bytes(sender=sender, sequence=round_, round=round_)
