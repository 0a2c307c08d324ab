"""Drives a soak: lets happen what was drawn, undoes it in time, and looks at everything in between."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentd.errors import AgentdError
from deploy.chaos.chaos import Chaos
from deploy.soak.happenings import DELAY, KILL, LOSS, PARTITION, PAUSE, Happening
from deploy.soak.samples import Sample, take_sample
from deploy.testbed import registry

LOOKS = 1_000
"""Samples of a whole soak, about: enough for a slope and a picture, however long it lasts."""
_MOST_OFTEN_S = 0.5
_STEP_S = 0.1

Do = Callable[[], object]
Watch = Callable[[float, Sample], None]
"""Is told how long it has lasted, and what was seen."""


@dataclass
class Record:
    """What came of driving."""

    samples: list[Sample] = field(default_factory=list)
    happened: list[Happening] = field(default_factory=list)
    undone_late: list[str] = field(default_factory=list)
    """What could not be done or undone, in words."""
    lasted_s: float = 0.0


class Driver:
    """One soak of a testbed that runs already."""

    def __init__(self, run_dir: Path, agents: int, seconds: float, happenings: Sequence[Happening]) -> None:
        self._run_dir, self._agents, self._seconds = run_dir, agents, seconds
        self._chaos = Chaos(registry.read(run_dir))
        self._order = itertools.count()
        self._agenda: list[tuple[float, int, str, Do]] = []
        self._held: Counter[int] = Counter()
        self.record = Record()
        for happening in happenings:
            self._later(happening.at_s, str(happening), lambda happening=happening: self._begin(happening))  # type: ignore[misc]

    def run(self, watch: Watch) -> None:
        """Until the time is up, or the testbed has ended; a Ctrl-C ends it, too."""
        began_s, every_s, next_look_s = time.monotonic(), max(self._seconds / LOOKS, _MOST_OFTEN_S), 0.0
        while (now_s := time.monotonic() - began_s) < self._seconds and self._chaos.is_running():
            self._do_what_is_due(now_s)
            if now_s >= next_look_s:
                next_look_s = now_s + every_s
                self._look(now_s, watch)
            time.sleep(_STEP_S)
        self.record.lasted_s = time.monotonic() - began_s

    def _later(self, at_s: float, what: str, do: Do) -> None:
        heapq.heappush(self._agenda, (at_s, next(self._order), what, do))

    def _do_what_is_due(self, now_s: float) -> None:
        while self._agenda and self._agenda[0][0] <= now_s:
            _, _, what, do = heapq.heappop(self._agenda)
            try:
                do()
            except AgentdError as fault:  # such as an agent that is done, or down for another reason
                self.record.undone_late.append(f"{now_s:.0f} s, {what}: {fault}")

    def _look(self, now_s: float, watch: Watch) -> None:
        held = frozenset(agent for agent, times in self._held.items() if times > 0)
        with contextlib.suppress(AgentdError):  # the testbed is just ending; the loop sees that
            sample = take_sample(self._run_dir, self._agents, now_s, held)
            if sample is not None:
                self.record.samples.append(sample)
                watch(now_s, sample)

    def _begin(self, happening: Happening) -> None:
        if happening.kind in (KILL, PAUSE) and any(self._held[agent] for agent in happening.agents):
            return  # it has enough to bear
        begin, end = self._verbs(happening)
        begin()
        self.record.happened.append(happening)
        if holds := happening.kind in (KILL, PAUSE, PARTITION):
            self._held.update(happening.agents)

        def undo() -> None:
            end()
            if holds:
                self._held.subtract(happening.agents)

        self._later(happening.at_s + happening.lasts_s, f"end of {happening}", undo)

    def _verbs(self, happening: Happening) -> tuple[Do, Do]:
        """What begins a fault, and what ends it."""
        chaos, agents = self._chaos, happening.agents
        if happening.kind in (KILL, PAUSE):
            back = {KILL: "restart", PAUSE: "resume"}[happening.kind]
            return lambda: chaos.to_agents(happening.kind, agents), lambda: chaos.to_agents(back, agents)
        if happening.kind == LOSS:
            return lambda: chaos.loss(agents, happening.amount), lambda: chaos.loss(agents, 0.0)
        if happening.kind == DELAY:
            return lambda: chaos.delay(agents, happening.amount), lambda: chaos.delay(agents, 0.0)
        sides = (agents, frozenset(range(self._agents)) - agents)
        return lambda: chaos.partition(sides), lambda: chaos.heal(sides)
