"""What befalls a testbed, and when: drawn beforehand from a seed, so that a soak can be had again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

KILL, PAUSE, LOSS, DELAY, PARTITION = "kill", "pause", "loss", "delay", "partition"
KINDS = (KILL, PAUSE, LOSS, DELAY, PARTITION)

_FIRST, _LAST = 0.1, 0.9
"""Shares of the time between which things happen: before, a normal is measured, and after, everything has to heal."""
_LASTS_S = {KILL: (2.0, 10.0), PAUSE: (1.0, 8.0), LOSS: (5.0, 20.0), DELAY: (5.0, 20.0), PARTITION: (2.0, 6.0)}
_LOSS_RATE, _DELAY_MS = (0.02, 0.2), (1.0, 20.0)


@dataclass(frozen=True, slots=True)
class Happening:
    """One fault: what, to whom, from when on and for how long."""

    at_s: float
    lasts_s: float
    kind: str
    agents: frozenset[int]
    amount: float = 0.0
    """The share of frames lost, or the milliseconds that they are held back."""

    def __str__(self) -> str:
        who = f"agent {min(self.agents)}" if len(self.agents) == 1 else f"{len(self.agents)} agents"
        how = {LOSS: f" {self.amount:.0%}", DELAY: f" {self.amount:.0f} ms"}.get(self.kind, "")
        return f"{self.kind}{how}, {who}, {self.lasts_s:.0f} s"


@dataclass(frozen=True, slots=True)
class Weather:
    """How much befalls a testbed."""

    churn_percent: float = 1.0
    """Of the agents that crash in a minute, and come back some seconds later."""
    per_minute: float = 1.0
    """Faults of each other kind in a minute."""
    kinds: tuple[str, ...] = KINDS


def draw_happenings(agents: int, seconds: float, weather: Weather, seed: int) -> list[Happening]:
    """Everything that will happen, in order; at least one fault of each kind that is wanted."""
    chance = np.random.Generator(np.random.Philox(seed))
    minutes, drawn = seconds / 60.0, []
    for kind in KINDS:
        if kind not in weather.kinds or (kind == PARTITION and agents < 2):
            continue
        rate = agents * weather.churn_percent / 100.0 if kind == KILL else weather.per_minute / (len(KINDS) - 1)
        many = max(1, round(rate * minutes)) if rate > 0 else 0
        drawn += [_draw(kind, agents, seconds, chance) for _ in range(many)]
    return sorted(drawn, key=lambda happening: happening.at_s)


def _draw(kind: str, agents: int, seconds: float, chance: np.random.Generator) -> Happening:
    at_s = seconds * float(chance.uniform(_FIRST, _LAST))
    lasts_s = min(float(chance.uniform(*_LASTS_S[kind])), seconds / 10.0)
    who = [int(chance.integers(agents))]
    if kind == PARTITION:
        who = [int(agent) for agent in chance.permutation(agents)[: agents // 2]]
    amount = {LOSS: _LOSS_RATE, DELAY: _DELAY_MS}.get(kind)
    return Happening(at_s, lasts_s, kind, frozenset(who), float(chance.uniform(*amount)) if amount else 0.0)
