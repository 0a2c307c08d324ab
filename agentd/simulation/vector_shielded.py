"""shielded for all agents of several runs at once; `agentd.core.policy.shielded` says what it does and why.

Agents hear the same records, but not at the same time, and hold them against their own: so each has its own centre and
its own trust. Per run and arm there is a table of what each agent (row) holds of each origin (column, those on duty
first), and `core.policy.shielding` settles the rows of all agents whose records have changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agentd.core.grid import UNIT
from agentd.core.message import MAX_TRIAL
from agentd.core.policy.beliefs import DOUBTED
from agentd.core.policy.sealed import VARIANCE
from agentd.core.policy.shielding import (
    MOVED,
    Own,
    Settled,
    Told,
    believed,
    beyond_chance,
    columns_of,
    duty_of,
    liars_among,
    settle,
    settled_every,
    summed,
    told_of,
    zeal,
)
from agentd.runs.agreed_terms import beacon_of_seed
from agentd.runs.spec import RunSpec
from agentd.simulation.vector_policies import Floats, Ints, Layout
from agentd.simulation.vector_sealed import Mask, TogetherSealed, all_held_since, ucb_widths

_ROWS = 64
"""Agents that are settled at once: their tables fit a cache."""


class TogetherShielded(TogetherSealed):
    """shielded: everybody decides on what it believes of what everybody has released."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self._tables = [_Tables(spec, layout.arms) for spec in layout.specs]
        self._duty = np.concatenate([tables.duty for tables in self._tables])
        self._stale = np.zeros((layout.arms, layout.width), dtype=np.bool_)
        self._settled_at = np.full((layout.arms, layout.width), -MAX_TRIAL, dtype=np.int64)
        self._means = layout.zeros()
        self._weight = layout.zeros()
        self._zeal = np.concatenate([tables.zeal() for tables in self._tables], axis=1)
        self._tossed = layout.zeros()
        self._tossed_at = np.zeros((layout.arms, layout.width), dtype=np.int64)

    def choose(self, trial: int) -> Ints:
        """Settle the arms whose records have changed, decide anew where that was done; repeat the arm elsewhere."""
        due = self._stale & (trial - self._settled_at >= settled_every(trial))
        if due.any():
            self._settle(trial, due)
        return super().choose(trial)

    def distrusted(self, run: int) -> dict[int, int]:
        """By how many agents of a run each of the others is trusted less than half."""
        return self._tables[run].distrusted()

    def _settle(self, trial: int, due: Mask) -> None:
        agents = self._layout.agents
        group, _ = self._group.at(trial)
        for run, tables in enumerate(self._tables):
            mine = slice(run * agents, (run + 1) * agents)
            for arm in np.flatnonzero(due[:, mine].any(axis=1)).tolist():
                rows = due[arm, mine].nonzero()[0]
                self._settle_arm(arm, rows + run * agents, rows, tables, group[mine][rows])
        self._settled_at[due] = trial
        self._news |= due.any(axis=0)

    def _settle_arm(self, arm: int, who: Ints, rows: Ints, tables: _Tables, group: Ints) -> None:
        """The arm for some agents of one run: places among all agents, and rows of the run's tables."""
        place = arm * self._layout.width + who
        samples = self._own_samples[place].astype(np.float64)
        own = Own(
            samples / UNIT,
            self._own_sums[place] / np.maximum(samples, 1.0),
            group.astype(np.float64),
            liars_among(group, self._layout.specs[0].policy.tolerate),
        )
        self._stale[arm, who] = False
        for first in range(0, len(rows), _ROWS):
            some = slice(first, first + _ROWS)
            settled, again = tables.settle(arm, rows[some], Own(*(part[some] for part in own)))
            self._means[arm, who[some]] = settled.mean
            self._samples[arm, who[some]] = settled.samples
            self._weight[arm, who[some]] = settled.weight
            if again is not None:
                self._stale[:, who[some]] |= again

    def _known(self, place: Ints) -> Floats:
        """Own samples and those that are believed; nothing where the first batch of all is still open."""
        known = self._own_samples[place] + self._weight.ravel()[place]
        return np.where(self._on_duty(), 0.0, known)

    def _on_duty(self) -> Mask:
        """Who has not released anything of its duty arm yet."""
        waiting: Mask = self._own_samples[self._duty * self._layout.width + np.arange(self._layout.width)] == 0
        return waiting

    def _tell(self, trial: int, arm: Ints, place: Ints, closing: Mask) -> None:  # noqa: ARG002
        where, who = place[closing], closing.nonzero()[0]
        if len(where):
            self._seal(where)
            self._stale.ravel()[where] = True
        said = _Records(who, arm[closing], self._own_samples[where], self._own_sums[where])
        if self._forgeries:
            said = self._with_lies(said)
        agents = self._layout.agents
        for run, tables in enumerate(self._tables):
            mine = slice(run * agents, (run + 1) * agents)
            which = slice(*np.searchsorted(said.who, (mine.start, mine.stop)).tolist())
            tables.say(said.who[which] - mine.start, said.arms[which], said.samples[which], said.sums[which])
            tables.hear(self._stale[:, mine])

    def _with_lies(self, said: _Records) -> _Records:
        """What is said by everybody, of liars what they made up; in the order of agents."""
        honest = ~self._forgeries.liars[said.who]
        forged = np.array(self._forged, dtype=np.int64).reshape(-1, len(_Records._fields)).T
        together = [np.concatenate([part[honest], lies]) for part, lies in zip(said, forged, strict=True)]
        order = np.argsort(together[0])
        return _Records(*(part[order] for part in together))

    def _decide(self, trial: int, who: Ints) -> Ints:
        arm = super()._decide(trial, who)
        return np.where(self._on_duty()[who], self._duty[who], arm)

    def _indices(self, trial: int, samples: Floats, sums: Floats, who: Ints) -> Floats:  # noqa: ARG002
        means = self._means[:, who] / UNIT
        if self._thompson:
            coins = self._held_coins(trial, who)
            coins *= self._zeal[:, who]
            return means + np.sqrt(VARIANCE / samples) * coins
        return means + ucb_widths(samples)

    def _held_coins(self, trial: int, who: Ints) -> Floats:
        """The coins of each arm, tossed when it was settled last, or all of them at the trials of `held_since`."""
        since = all_held_since(trial, self._group.at(trial)[0][who])
        tossed = np.maximum(self._settled_at[:, who], since)
        new = tossed != self._tossed_at[:, who]
        for column in np.flatnonzero(new.any(axis=0)).tolist():
            agent = int(who[column])
            for at in set(tossed[new[:, column], column].tolist()):
                arms = tossed[:, column] == at
                self._tossed[arms, agent] = self._coins.of(agent, at)[arms]
        self._tossed_at[:, who] = tossed
        return self._tossed[:, who]


class _Tables:
    """What the agents of one run hold of each other: one row per agent, one column per origin."""

    def __init__(self, spec: RunSpec, arms: int) -> None:
        agents = spec.network.agents
        beacon = beacon_of_seed(spec.seed)
        self.duty = np.array([duty_of(beacon, agent, arms) for agent in range(agents)], dtype=np.int64)
        self._columns = np.array([columns_of(self.duty, arm) for arm in range(arms)])
        self._place = np.argsort(self._columns, axis=1)  # of each origin among the columns
        self._duties = np.bincount(self.duty, minlength=arms).tolist()
        self._told = np.zeros((3, arms, agents, agents))  # samples, means, 1/samples
        self._excess_now = np.zeros((arms, agents, agents))
        # The same in the order of ids, as trust is in an origin whatever the arm.
        self._excess = np.zeros((arms, agents, agents))
        self._trust, self._noted = np.ones((2, agents, agents))
        self._reach = min(spec.gamma, spec.network.diameter)
        self._distances = spec.network.distances
        self._said: list[_Records] = []
        self._kept_back: dict[int, dict[int, tuple[int, ...]]] = {agent: {} for agent in range(agents)}
        self._all_did_their_duty = False

    def distrusted(self) -> dict[int, int]:
        """By how many each origin is."""
        times = np.count_nonzero(self._trust < DOUBTED, axis=0)
        return {origin: int(times[origin]) for origin in np.flatnonzero(times).tolist()}

    def zeal(self) -> Floats:
        """Per arm and agent, how far its coins count."""
        volunteers = np.array([zeal(number) for number in self._duties])
        on_duty = self.duty == np.arange(len(self._duties))[:, np.newaxis]
        return np.where(on_duty, 1.0, volunteers[:, np.newaxis])

    def settle(self, arm: int, rows: Ints, own: Own) -> tuple[Settled, Mask | None]:
        """What some agents make of an arm; and which arms they are to look at again, because trust has moved."""
        some = _as_slice(rows)  # mostly all agents: then nothing is copied
        samples, means, inverse = (table[arm, some] for table in self._told)
        trust = self._trust[some]
        told = Told(samples, means, inverse, trust[:, self._columns[arm]], self._duties[arm])
        settled = settle(told, own, (1.0 - trust).sum(axis=1))
        return settled, self._note_dissent(arm, rows, beyond_chance(settled.dissent))

    def _note_dissent(self, arm: int, rows: Ints, excess: Floats) -> Mask | None:
        """Trust as it is now; which arms are to be looked at again by whom, if any."""
        which, columns = ((excess > 0.0) | (self._excess_now[arm, rows] > 0.0)).nonzero()
        self._excess_now[arm, rows] = excess
        if not len(which):
            return None
        origins, agents = self._columns[arm][columns], rows[which]
        self._excess[arm, agents, origins] = excess[which, columns]
        trust = believed(summed(list(self._excess[:, agents, origins])))
        self._trust[agents, origins] = trust
        moved = np.abs(trust - self._noted[agents, origins]) > MOVED
        if not moved.any():
            return None
        which, agents, origins = which[moved], agents[moved], origins[moved]
        self._noted[agents, origins] = trust[moved]
        again = np.zeros((len(self._excess), len(rows)), dtype=np.bool_)
        for each in range(len(self._excess)):
            holds = self._told[0, each, agents, self._place[each, origins]] > 0.0
            again[each, which[holds]] = True
        return again

    def say(self, who: Ints, arms: Ints, samples: Ints, sums: Ints) -> None:
        """Note what agents have published in this trial; of an origin only its duty counts, until that was said."""
        records = _Records(who, arms, samples, sums)
        if not self._all_did_their_duty:
            records = self._after_duty(records)
        if self._reach:
            self._said = [records, *self._said[: self._reach - 1]]

    def _after_duty(self, said: _Records) -> _Records:
        """Keep back what comes before its origin's duty; it counts from that on, as everybody hears all in order."""
        counting = []
        for one, arm, *record in zip(*(part.tolist() for part in said), strict=True):
            kept = self._kept_back.get(one)
            if kept is None:
                counting.append((one, arm, *record))
                continue
            kept[arm] = (one, arm, *record)
            if arm == self.duty[one]:
                counting += self._kept_back.pop(one).values()
        self._all_did_their_duty = not self._kept_back
        return _Records(*np.array(counting, dtype=np.int64).reshape(-1, 4).T)

    def hear(self, stale: Mask) -> None:
        """Let what was said reach those who are as many hops away as rounds have passed; mark what has changed."""
        for hops, said in enumerate(self._said, start=1):
            if not len(said.who):
                continue
            receivers, which = (self._distances[:, said.who] == hops).nonzero()
            arms = said.arms[which]
            columns = self._place[arms, said.who[which]]
            for table, values in zip(self._told, told_of(*said.numbers()), strict=True):
                table[arms, receivers, columns] = values[which]
            stale[arms, receivers] = True


def _as_slice(rows: Ints) -> slice | Ints:
    """The same rows as a slice, if they follow each other."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first == len(rows) - 1 else rows


class _Records(NamedTuple):
    """What was published at one trial of one run."""

    who: Ints
    arms: Ints
    samples: Ints
    sums: Ints

    def numbers(self) -> tuple[Floats, Floats]:
        """Samples and sums."""
        return self.samples.astype(np.float64), self.sums.astype(np.float64)
