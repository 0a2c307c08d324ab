"""The first rounds of a few agents, played once where all agents of a testbed are forked from.

Imported last by the fork server, and by nobody else. Whatever a process touches for the first time after the fork is
copied into it: the byte code that the interpreter rewrites while it learns which types pass by, what libraries set up
at their first call, the holes between blocks of memory that get filled. Done here, before any fork, it is there once
and shared by all. Measured with 60 agents: a tenth of the memory of each, for less than a second until all are ready.

Nothing of it is left to share but memory: no socket, no file, no thread, no generator, no noise.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import secrets
from collections.abc import Mapping, Sequence

from agentd.core.assembly import assemble
from agentd.core.bodies import RELEASED, SEALED, Kind
from agentd.core.grid import UNIT
from agentd.core.policy import PolicySettings
from agentd.core.privacy.laplace import ExactLaplace
from agentd.core.terms import Clock, PolicyTerms, Terms
from agentd.core.trust.lives import Lives
from agentd.errors import PeerError
from agentd.shell.json_log import open_log
from agentd.shell.state.journal import StateJournal
from agentd.shell.state.storage import Memory
from agentd.wire.codec import decode_frames, encode_frame
from agentd.wire.expectation import Expectation, read_expected
from agentd.wire.frame import Frame, together
from agentd.wire.layout import HeadReader
from agentd.wire.size import fitting
from agentd.wire.topics import FRAME_TOPIC

PLAYED: Mapping[str, Kind] = {"sealed": SEALED, "private-ucb": RELEASED}
"""The default, and the one that calls for most: noise, ledger, journal, relays."""
AGENTS = 3
ARMS = 5
GAMMA = 2
ROUNDS = 24
"""The interpreter has made up its mind about a function after fewer calls."""
HOLES_BYTES = (65_536, 16_384, 4_096, 1_024, 512, 256, 128, 64, 24)
"""Sizes of blocks that fill what is free, the largest first."""

MOST_HOLES = 10_000
"""Of one size; a heap with more holes keeps some."""


class _Player:
    """An agent with its journal in memory, and its frames in place of sockets."""

    def __init__(self, own: int, algorithm: str) -> None:
        noise = ExactLaplace(secrets.token_bytes)
        settings = PolicySettings(arms=ARMS)
        policy = PolicyTerms(algorithm, PLAYED[algorithm].tag, settings.epsilon, settings.v, ((0, AGENTS - 1),))
        terms = Terms(ARMS, GAMMA, horizon=ROUNDS, clock=Clock.LOCKSTEP, policies=(policy,))
        self._agent = assemble(own, algorithm, settings, terms, noise=noise, lives=Lives())
        self._journal = StateJournal.over(Memory(), {"agent": own, "algorithm": algorithm})
        self._journal.join(self._agent.turn, run="", arms=ARMS, incarnation=0)
        self._heads = HeadReader()
        self._expected: list[Expectation | None] = [None] * (AGENTS - 1)

    def say(self, round_: int) -> bytes:
        """Pull, write it down, and put it into a frame."""
        agent = self._agent
        self._journal.intend(round_, agent.choose().arm)
        turn = agent.advance(UNIT // 2)
        self._journal.commit(turn)
        batches, _ = fitting(turn.outbox(), ARMS)
        return FRAME_TOPIC + encode_frame(Frame(bytes(8), agent.own, 0, round_, round_, 0, batches, ARMS))

    def hear(self, round_: int, parts: Sequence[bytes]) -> None:
        """Read the others' frames: as expected, or whatever they say."""
        expected = [(before, round_, part) for before, part in zip(self._expected, parts, strict=True)]
        batch = read_expected(expected, round_, self._heads)
        if batch is not None:
            self._agent.receive([batch], latest_trial=round_)
            return
        decoded = decode_frames([part[len(FRAME_TOPIC) :] for part in parts], arms=ARMS, heads=self._heads)
        frames = [frame for frame in decoded if not isinstance(frame, PeerError)]
        self._expected = [Expectation.after(frame, part) for frame, part in zip(frames, parts, strict=True)]
        self._agent.receive(together(frames), latest_trial=round_)


async def play() -> None:
    """A few rounds of a few agents."""
    for algorithm in PLAYED:
        await play_together([_Player(own, algorithm) for own in range(AGENTS)])


async def play_together(players: Sequence[_Player]) -> None:
    """A few rounds of these."""
    log = open_log(os.devnull, "info").bind(agent=0)
    for round_ in range(1, ROUNDS + 1):
        said = [player.say(round_) for player in players]
        for own, player in enumerate(players):
            player.hear(round_, [part for other, part in enumerate(said) if other != own])
        log.info("progress", trial=round_)
        await asyncio.sleep(0)


def fill_holes() -> None:
    """Take what is free between used blocks, for good.

    A child that allocates would copy a page of the fork server for every hole it uses; from the end of the heap it
    gets whole pages of its own, and fills them.
    """
    libc = ctypes.CDLL(None)
    with contextlib.suppress(AttributeError):  # another C library; then the holes stay
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.mallinfo2.restype = _Heap
        for size in HOLES_BYTES:
            for _ in range(MOST_HOLES):
                if not _took_a_hole(libc, size):
                    break


class _Heap(ctypes.Structure):
    """What glibc tells of its heap (`mallinfo2`)."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("size", *"abcdef", "used", "free", "free_at_end")]


def _took_a_hole(libc: ctypes.CDLL, size: int) -> bool:
    before: _Heap = libc.mallinfo2()
    libc.malloc(size)
    after: _Heap = libc.mallinfo2()
    return bool(after.size == before.size and after.free_at_end >= before.free_at_end)


# The fork server knows one way to do something before it forks: to import it.
asyncio.run(play())
gc.collect()
fill_holes()
