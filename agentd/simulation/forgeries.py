"""What the liars of several runs say in the vectorised engine: made by the core's own forgers, liar by liar.

Liars are few and mostly speak rarely, so nothing is gained by doing their work in columns, and everything by its being
the same work that the core agents' liars do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentd.core.assembly import seeded_forger
from agentd.core.attacks.basis.honest_pool import HonestPool
from agentd.core.attacks.forger import Body, Forger
from agentd.core.grid import UNIT
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.records import counted_sum
from agentd.runs.agreed_terms import known_to
from agentd.runs.spec import RunSpec
from agentd.simulation.vector_policies import Ints, Layout

Mask = NDArray[np.bool_]


class Forged(NamedTuple):
    """What one liar says at a trial."""

    place: int
    """Of the liar, among the agents of all runs."""
    body: Body


class ForgedRecord(NamedTuple):
    """The same of a liar that tells of records."""

    place: int
    arm: int
    samples: int
    total: int


class Forgeries:
    """The forgers of all runs; none where nobody forges."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._forgers: list[tuple[int, Forger]] = []
        self._pools: list[HonestPool | None] = []
        for run, spec in enumerate(layout.specs):
            self._take_on(run, spec)
        self.liars = np.zeros(layout.width, dtype=np.bool_)
        """Who forges."""
        self.liars[[place for place, _ in self._forgers]] = True
        self._held: dict[tuple[int, int], tuple[int, int]] = {}
        self.sent = np.zeros((layout.rounds if self else 0, layout.width), dtype=np.bool_)
        """Which liar said something at which trial."""

    def __bool__(self) -> bool:
        return bool(self._forgers)

    @property
    def tell_liars(self) -> bool:
        """Whether they are to know what honest agents release."""
        return any(pool is not None for pool in self._pools)

    def _take_on(self, run: int, spec: RunSpec) -> None:
        kind = ALGORITHMS[spec.algorithm].tells
        forging = bool(spec.liars) and spec.attack.forges and kind is not None and spec.gamma > 0
        pool = HonestPool(spec.arms.count) if forging and spec.attack.knows_everything else None
        self._pools.append(pool)
        if forging and kind is not None:
            for own in sorted(spec.liars):
                known = known_to(spec, own, pool)
                forger = seeded_forger(spec.attack, spec.policy, spec.seed, known, kind)
                self._forgers.append((run * self._layout.agents + own, forger))

    def bodies(self, trial: int) -> list[Forged]:
        """What the liars say at a trial, by what was released until the one before; asked once for each, in order."""
        said = [(place, forger.body(trial)) for place, forger in self._forgers]
        forged = [Forged(place, body) for place, body in said if body is not None]
        self.sent[trial - 1, [each.place for each in forged]] = True
        return forged

    def records(self, trial: int) -> list[ForgedRecord]:
        """The same of those who tell of records, hellos left out."""
        if not self:
            return []
        said = [(place, *body) for place, body in self.bodies(trial)]
        return [ForgedRecord(place, arm, samples, total) for place, arm, pulls, _, samples, total in said if pulls]

    def growth(self, record: ForgedRecord) -> tuple[int, int]:
        """By how much a record grows what is held of its origin and arm, the sum as far as it counts."""
        held = self._held.get(record[:2], (0, 0))
        self._held[record[:2]] = told = (record.samples, counted_sum(record.samples, record.total))
        return told[0] - held[0], told[1] - held[1]

    def samples(self, trial: int, arm: Ints, told: Ints) -> tuple[Ints, Ints, Mask]:
        """Of whom told of which arm what it paid, the same with lies; and who says anything at all."""
        if not self:
            return arm, told, ~self.liars
        arm, told, speaking = arm.copy(), told.copy(), ~self.liars
        for place, body in self.bodies(trial):
            arm[place], told[place] = body
            speaking[place] = True
        self._tell_samples(arm, told)
        return arm, told, speaking

    def released(self, arms: Ints, places: Ints, samples: Ints, sums: Ints) -> None:
        """Let those liars know who are to: agents at these places released so much of these arms."""
        if not self.tell_liars:
            return
        for arm, place, worth, total in zip(
            arms.tolist(), places.tolist(), samples.tolist(), sums.tolist(), strict=True
        ):
            pool = self._pools[place // self._layout.agents]
            if pool is not None and not self.liars[place]:
                pool.add(arm, worth, total)

    def _tell_samples(self, arm: Ints, told: Ints) -> None:
        if self.tell_liars:
            honest = (~self.liars).nonzero()[0]
            self.released(arm[honest], honest, np.full(len(honest), UNIT, dtype=np.int64), told[honest])
