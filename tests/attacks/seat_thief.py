"""Somebody who wants what another agent was paid; it speaks to the environment itself, from PROTOCOL.md alone."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any, Self

import msgpack
import zmq

HELLO, WELCOME, PULL, REWARD, REPORT, REFUSED = 1, 2, 3, 4, 5, 9
PATIENCE_MS = 20_000


class Thief:
    """A DEALER of its own, and what it was answered."""

    def __init__(self, address: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.connect(address)
        self.texts: set[str] = set()
        """What refusals said."""
        self.codes: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.destroy(linger=0)

    def ask(self, *fields: Any) -> list[Any]:
        """One request and its answer, both without the version."""
        self._socket.send(msgpack.packb([1, *fields]))
        assert self._socket.poll(PATIENCE_MS), "the environment says nothing"
        answer: list[Any] = msgpack.unpackb(self._socket.recv())[1:]
        if answer[0] == REFUSED:
            self.codes.add(answer[1])
            self.texts.add(answer[2])
        return answer

    def stolen(self, victim: int, trials: Iterable[int], arms: int, *, token: bytes | None = None) -> int:
        """Of how many trials of the victim the reward is told, whatever is tried with this token (drawn: any other)."""
        return sum(self._is_told(victim, trial, arms, token) for trial in trials)

    def _is_told(self, victim: int, trial: int, arms: int, token: bytes | None) -> bool:
        for arm in range(arms):
            for committed in (0, trial - 1):
                guess = secrets.token_bytes(16) if token is None else token
                if self.ask(PULL, victim, guess, trial, arm, committed)[0] == REWARD:
                    return True
        return False
