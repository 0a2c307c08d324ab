"""Arms of the agent's own, where an environment would stand: nobody else counts its pulls or knows what they paid.

What a welcome says comes from the file of terms, and trials are numbered by the clock of the run: trial t is due t−1
intervals after its start. A life begins at the first trial that is not due yet, and is named after those before it, so
that no trial is ever pulled twice, whichever copy of a state an agent is started from (as long as the machine's clock
does not go back by more than the state knows). What was pulled and not committed when a life ended is never asked for
again: a copy cannot tell it from what was released.

In lockstep there is no such clock: a life begins with trial 1 there, keeps no state, and tells others when each reward
came.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlsplit

from agentd.addresses import is_loopback
from agentd.core.message import MAX_TRIAL, TOKEN_BYTES
from agentd.core.saved_state import SavedState
from agentd.core.terms import Clock, Terms
from agentd.core.trust.lives import Lives
from agentd.errors import ConfigurationError
from agentd.real_arms.kinds import workers
from agentd.real_arms.pulling import Pulling
from agentd.real_arms.worker import Reason
from agentd.settings import AgentSettings
from agentd.shell.alone.standing import Standing
from agentd.shell.environment_client import RunOver
from agentd.shell.json_log import Log
from agentd.wire.environment_messages import Report, Welcome

CLOCKS_DIFFER_S = 2.0
"""How far ahead of ours the clock of another machine may be before its trials are refused as future ones."""
LOOK_EVERY_S = 0.005
SAY_SILENCE_EVERY_S = 0.2
WARN_EVERY_S = 10.0
"""How often the log tells of faults, at most for each reason."""


class OwnArms:
    """What an agent asks instead of an environment."""

    lives: Lives | None = None
    """Nobody tells of lives: a larger incarnation is believed, as far as the clock of the run allows it."""
    run_round = 0
    retries = 0

    def __init__(
        self,
        settings: AgentSettings,
        terms: Terms,
        log: Log,
        stop: asyncio.Event,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._wall_ms = wall_ms
        self._settings = settings
        self._terms = terms
        self._log = log
        self._stop = stop
        self._warned_s: dict[Reason, float] = {}
        self._began: Welcome | None = None
        self._pulling: Pulling | None = None
        self.token = secrets.token_bytes(TOKEN_BYTES)
        """Of no seat: it stays here."""
        self.standing = Standing(settings.algorithm, settings.bounds)
        self.asked_s = 0.0
        self.on_silence: Callable[[], None] | None = None
        _require_usable(terms, settings)
        _warn_of(settings, log)

    async def hello(self, agent: int, incarnation: int | None, timeout_s: float) -> Welcome:  # noqa: ARG002
        """What the terms and the clock say; the same at every call but for the time."""
        if self._began is None:
            raise RuntimeError("begin() comes first")
        self.asked_s = self.now_s() - CLOCKS_DIFFER_S
        return replace(self._began, age_ms=max(0, self._age_ms()))

    def begin(self, saved: SavedState | None) -> None:
        """Begin a life after that of the state, and let the arms make ready."""
        terms, settings = self._terms, self._settings
        age_ms = self._age_ms()
        if age_ms < -1000 * CLOCKS_DIFFER_S:
            raise ConfigurationError(
                f"the clock of this machine is {-age_ms / 1000:.0f} s before the start of the run in {settings.terms}; "
                "set the clock: trials are numbered by it, and none may be numbered twice"
            )
        reached = trials_due(terms, max(0, age_ms))
        if saved is not None:
            reached = max(reached, saved.trial + 1, saved.incarnation + 1)
        if reached >= min(terms.horizon or MAX_TRIAL, settings.rounds or MAX_TRIAL):
            raise RunOver(f"trial {reached} of the run is due by now, and that was the last one")
        low, high = settings.bounds
        self._began = Welcome(terms, low, high, next_trial=reached + 1, incarnation=reached, age_ms=0)
        about = {"agent": settings.id, "life": reached, "run": terms.run.hex()}
        self._pulling = Pulling(
            workers(settings.environment, settings.max_outstanding, about), settings.bounds, self._tell
        )

    def ask(self, trial: int, arm: int, deadline_s: float) -> None:
        """Have an arm pulled; its reward counts if it is there by the deadline."""
        self.standing.pulled(arm)
        self._arms.ask(trial, arm, trial, deadline_s)

    def take(self, trial: int) -> int:
        """What a pull paid, on the grid; from now on it is too late."""
        return self._arms.take(trial)

    async def pull(self, agent: int, trial: int, arm: int, sent: Callable[[], None]) -> int:  # noqa: ARG002
        """In lockstep: wait for the reward, most of a round at most; others see when it came."""
        deadline_s = self.now_s() + 0.8 * self._settings.round_timeout_s
        self.ask(trial, arm, deadline_s)
        sent()
        say_s = self.now_s() + SAY_SILENCE_EVERY_S
        while not self._arms.has(trial) and (now_s := self.now_s()) < deadline_s:
            if self._stop.is_set():
                raise RunOver("told to stop while an arm was pulled")
            if now_s >= say_s and self.on_silence is not None:
                say_s = now_s + SAY_SILENCE_EVERY_S
                self.on_silence()
            await asyncio.sleep(LOOK_EVERY_S)
        return self.take(trial)

    def report(self, report: Report) -> None:
        """Nobody is to be told."""

    async def last_report(self, report: Report, timeout_s: float) -> None:  # noqa: ARG002
        """Nobody is to be told; how many pulls failed is in the log, which is this agent's own."""
        if self._arms.faults:
            self._log.warning("pulls that counted as the lower bound", **self._arms.faults)

    def listen(self) -> None:
        """Nobody tells where the run is."""

    def now_s(self) -> float:
        """The time, from some beginning."""
        return time.monotonic()

    def close(self) -> None:
        """End the arms, and all that they have started."""
        if self._pulling is not None:
            self._pulling.close()

    @property
    def _arms(self) -> Pulling:
        assert self._pulling is not None  # noqa: S101 - whoever pulls has begun
        return self._pulling

    def _age_ms(self) -> int:
        """Of the run, by the clock of this machine."""
        return self._wall_ms() - self._terms.start_ms

    def _tell(self, reason: Reason, why: str) -> None:
        now_s = self.now_s()
        if now_s >= self._warned_s.get(reason, 0.0):
            self._warned_s[reason] = now_s + WARN_EVERY_S
            self._log.warning("a pull counts as the lower bound", reason=reason.value, why=why)


def trials_due(terms: Terms, age_ms: int) -> int:
    """How many trials are due in a run of that age: the last one that a life before can have pulled."""
    if terms.clock is not Clock.FREE:
        return 0
    return age_ms * 1000 // terms.interval_us + 1


def _require_usable(terms: Terms, settings: AgentSettings) -> None:
    if settings.clock == "free" and not (terms.clock is Clock.FREE and terms.interval_us and terms.start_ms):
        raise ConfigurationError(
            f"the terms in {settings.terms} do not say how often agents pull and since when, and trials of arms of "
            "one's own are numbered by that; make others with `agentd terms make --clock free --interval SECONDS …`"
        )


def _warn_of(settings: AgentSettings, log: Log) -> None:
    if settings.clock != "free":
        log.warning("lockstep with arms of one's own: neighbours see when each reward came; --clock free hides it")
    if settings.environment.startswith("http:") and not is_loopback(settings.environment):
        host = urlsplit(settings.environment).hostname
        log.warning("rewards come unencrypted over the network", host=host)
