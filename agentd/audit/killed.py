"""Runs whose agents really die: each life a process that ends by SIGKILL, on a state directory of its own.

The parent is the world: what a life pulled and sent comes through a pipe, whose content outlives the writer.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import tempfile
from pathlib import Path

from agentd.audit.case import Case
from agentd.audit.planted_faults import noise_of
from agentd.audit.restart import DeadlyJournal, Reaper, deaths, live, settings_of
from agentd.audit.transcript import Stage, Transcript
from agentd.core.privacy.laplace import Noise
from agentd.shell.state.keeper import state_identity

_HEADER = struct.Struct("<cId")
_PULL, _FRAME, _DYING, _DONE = b"p", b"f", b"k", b"d"


class Pipe:
    """Where a life tells the world what it does."""

    def __init__(self, file: int) -> None:
        self._file = file

    def tell(self, what: bytes, number: int, value: float = 0.0, data: bytes = b"") -> None:
        os.write(self._file, _HEADER.pack(what, number, value) + data)


class PipedStage(Stage):
    """A stage in a process that may die."""

    pipe: Pipe | None = None

    def pull(self, trial: int, arm: int) -> int:
        """As ever; the environment remembers it."""
        reward = super().pull(trial, arm)
        if self.pipe is not None:
            self.pipe.tell(_PULL, trial, arm)
        return reward

    def hear(self, data: bytes) -> None:
        """As ever; it is on the wire."""
        if self.pipe is not None:
            self.pipe.tell(_FRAME, len(data), data=data)
        super().hear(data)


class RealReaper(Reaper):
    """Ends the process for good."""

    def __init__(self, plan: list[tuple[int, str]], pipe: Pipe) -> None:
        super().__init__(plan)
        self._pipe = pipe

    def kill(self) -> None:
        """SIGKILL, which nothing can catch."""
        self._pipe.tell(_DYING, len(self.plan))
        os.kill(os.getpid(), signal.SIGKILL)


def record_killed(case: Case, side: int, number: int, release: int) -> Transcript:
    """One run in which every life but the last ends by SIGKILL."""
    chance, stage = noise_of(case, side, number), PipedStage(case, side, number)
    plan = deaths(case, side, number, release)
    with tempfile.TemporaryDirectory(prefix="agentd-audit-") as place:
        while True:
            told, code = _life(stage, Path(place), plan, chance.target)
            claimed, left = _replay(stage, told)
            if claimed is not None:
                arms = [stage.pulled[trial] for trial in sorted(stage.pulled)]
                return Transcript(stage.given, stage.frames, arms, chance.twin, claimed)
            if code != -signal.SIGKILL:
                raise RuntimeError(f"an audited agent ended with exit code {code} instead of being killed")
            plan = plan[len(plan) - left :]
            stage.reconnect()


def _life(stage: PipedStage, place: Path, plan: list[tuple[int, str]], noise: Noise) -> tuple[bytes, int]:
    """What one life told before its end, and how it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            _live(stage, place, plan, noise, Pipe(writing))
        except BaseException as fault:
            sys.stderr.write(f"{fault!r}\n")
            os._exit(3)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    return told, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _live(stage: PipedStage, place: Path, plan: list[tuple[int, str]], noise: Noise, pipe: Pipe) -> None:
    stage.pipe = pipe
    journal = DeadlyJournal.open(place, state_identity(settings_of(stage.case)))
    agent = live(stage, journal, RealReaper(list(plan), pipe), noise)
    journal.close()
    pipe.tell(_DONE, 0, agent.policy.ledger.epsilon_one_reward() if agent.policy.ledger else 0.0)


def _replay(stage: PipedStage, told: bytes) -> tuple[float | None, int]:
    """Let the world know what a life did; the ε it claims if it came to its end, the deaths still planned if not."""
    place, claimed, left = 0, None, 0
    while place < len(told):
        what, number, value = _HEADER.unpack_from(told, place)
        place += _HEADER.size
        if what == _PULL:
            stage.pull(number, int(value))
        elif what == _FRAME:
            stage.hear(told[place : place + number])
            place += number
        elif what == _DYING:
            left = number
        else:
            claimed = value
    return claimed, left
