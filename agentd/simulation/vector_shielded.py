"""shielded for all agents of several runs at once; `agentd.core.policy.shielded` says what it does and why.

Agents hear the same records, but not at the same time, and hold them against their own: so each has its own centre and
its own trust. There is a table of what each agent holds of each arm (a row) by each origin of its run (a column), and
`core.policy.shielding` settles the rows whose records have changed, some at a time.
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
    Told,
    believed,
    beyond_chance,
    duty_of,
    liars_among,
    settle,
    settled_every,
    summed,
    told_of,
    worth_of_duty,
    zeal,
)
from agentd.runs.agreed_terms import beacon_of_seed
from agentd.runs.spec import RunSpec
from agentd.simulation.vector_policies import Floats, Ints, Layout
from agentd.simulation.vector_sealed import Mask, TogetherSealed, all_held_since, ucb_widths

_CELLS = 12_800
"""Of the table, settled at once: what that takes fits a cache."""


class TogetherShielded(TogetherSealed):
    """shielded: everybody decides on what it believes of what everybody has released."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        arms, width = layout.arms, layout.width
        self._duty = np.concatenate([_duties(spec) for spec in layout.specs])
        self._table = _Table(layout, self._duty)
        self._earshot = _Earshot(layout)
        self._did_duty = np.zeros(width, dtype=np.bool_)
        self._first_batch = np.zeros(width, dtype=np.int64)
        self._stale = np.zeros((arms, width), dtype=np.bool_)
        self._looked_at = np.full(width, -MAX_TRIAL, dtype=np.int64)
        self._settled_at = np.full((arms, width), -MAX_TRIAL, dtype=np.int64)
        self._means, self._weight = layout.zeros(), layout.zeros()
        self._zeal = _zeal(layout, self._duty)
        self._tossed = layout.zeros()
        self._tossed_at = np.zeros((arms, width), dtype=np.int64)

    def choose(self, trial: int) -> Ints:
        """Settle the arms whose records have changed, decide anew where that was done; repeat the arm elsewhere."""
        due = self._stale & (trial - self._looked_at >= settled_every(trial))
        if np.count_nonzero(due):
            self._settle(trial, due)
        return super().choose(trial)

    def observe(self, trial: int, arm: Ints, place: Ints, reward: Ints, told: Ints) -> None:
        """As with `sealed`; the first batch of all is that of the duty, and larger."""
        group, least = self._group.at(trial)
        self._first_batch = worth_of_duty(least, group)
        super().observe(trial, arm, place, reward, told)

    def distrusted(self, run: int) -> dict[int, int]:
        """By how many agents of a run each of the others is trusted less than half."""
        agents = self._layout.agents
        times = np.count_nonzero(self._table.trust[run * agents : (run + 1) * agents] < DOUBTED, axis=0)
        return {origin: int(times[origin]) for origin in np.flatnonzero(times).tolist()}

    def _settle(self, trial: int, due: Mask) -> None:
        self._stale[due] = False
        self._settled_at[due] = trial
        news = due.any(axis=0)
        self._looked_at[news] = trial
        self._news |= news
        rows = np.flatnonzero(due)
        own = self._own(trial, rows)
        suspects = []
        at_once = max(1, _CELLS // self._layout.agents)
        for first in range(0, len(rows), at_once):
            some = slice(first, first + at_once)
            place = rows[some]
            told, distrust = self._table.told(place)
            settled = settle(told, Own(*(part[some] for part in own)), distrust)
            self._means.ravel()[place] = settled.mean
            self._samples.ravel()[place] = settled.samples
            self._weight.ravel()[place] = settled.weight
            suspects.append(self._table.note_dissent(place, beyond_chance(settled.dissent)))
        self._table.note_trust(np.concatenate(suspects), self._stale)

    def _own(self, trial: int, rows: Ints) -> Own:
        """What agents released themselves, and their groups; a row is an arm of an agent."""
        samples = self._own_samples[rows].astype(np.float64)
        group = self._group.at(trial)[0][rows % self._layout.width]
        return Own(
            samples / UNIT,
            self._own_sums[rows] / np.maximum(samples, 1.0),
            group.astype(np.float64),
            liars_among(group, self._layout.specs[0].policy.tolerate),
        )

    def _known(self, place: Ints) -> Floats:
        """Own samples and those that are believed; not these, where the first batch of all is still open."""
        known = self._own_samples[place] + self._weight.ravel()[place]
        return np.where(self._on_duty(), self._first_batch, known)

    def _on_duty(self) -> Mask:
        """Who has not released anything of its duty arm yet."""
        waiting: Mask = self._own_samples[self._duty * self._layout.width + np.arange(self._layout.width)] == 0
        return waiting

    def _tell(self, trial: int, arm: Ints, place: Ints, closers: Ints) -> None:  # noqa: ARG002
        where = place[closers]
        if len(where):
            self._seal(where)
            self._stale.ravel()[where] = True
        said = _Records(closers, arm[closers], self._own_samples[where], self._own_sums[where])
        if self._forgeries:
            said = self._with_lies(said)
        self._note_duties(said)
        for heard, receivers in self._earshot.reached(said):
            self._table.take_in(heard, receivers)
            self._stale[heard.arms, receivers] = True

    def _with_lies(self, said: _Records) -> _Records:
        """What is said by everybody, of liars what they made up."""
        honest = ~self._forgeries.liars[said.who]
        forged = np.array(self._forged, dtype=np.int64).reshape(-1, len(_Records._fields)).T
        return _Records(*(np.concatenate([part[honest], lies]) for part, lies in zip(said, forged, strict=True)))

    def _note_duties(self, said: _Records) -> None:
        """Everybody tells of its duty first, liars too; what came before that would not count (see `beliefs`)."""
        self._did_duty[said.who[said.arms == self._duty[said.who]]] = True
        if not self._did_duty[said.who].all():
            raise AssertionError("something was told before the duty of its origin")

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
        arms, columns = (tossed != self._tossed_at[:, who]).nonzero()
        agents, trials = who[columns], tossed[arms, columns]
        tosses, which = np.unique(agents * (MAX_TRIAL + 1) + trials, return_inverse=True)
        coins = np.array([self._coins.of(*divmod(toss, MAX_TRIAL + 1)) for toss in tosses.tolist()])
        if len(tosses):
            self._tossed[arms, agents] = coins[which, arms]
            self._tossed_at[arms, agents] = trials
        return self._tossed[:, who]


class _Table:
    """What the agents of all runs hold of each other: one row per arm and agent, one column per origin."""

    def __init__(self, layout: Layout, duty: Ints) -> None:
        arms, agents, width = layout.arms, layout.agents, layout.width
        self._layout = layout
        self._told = np.zeros((3, arms * width, agents))  # samples, means, 1/samples
        self._excess = np.zeros((arms * width, agents))
        self.trust = np.ones((width, agents))
        """Of each agent in each origin of its run."""
        self._noted = np.ones((width, agents))
        self._distrust = np.zeros(width)
        # One row per arm and run.
        on_duty = duty.reshape(1, layout.runs, agents) == np.arange(arms).reshape(-1, 1, 1)
        self._on_duty = on_duty.reshape(-1, agents).astype(np.float64)
        self._volunteers = 1.0 - self._on_duty

    def told(self, rows: Ints) -> tuple[Told, Floats]:
        """What some rows hold, and the distrust of their agents."""
        layout = self._layout
        who, duties = rows % layout.width, rows // layout.agents
        samples, means, inverse = (table.take(rows, axis=0) for table in self._told)
        parts = self.trust.take(who, axis=0), self._on_duty.take(duties, axis=0), self._volunteers.take(duties, axis=0)
        return Told(samples, means, inverse, *parts), self._distrust[who]

    def take_in(self, said: _Records, receivers: Ints) -> None:
        """Some agents hear a record each."""
        agents = self._layout.agents
        cells = (said.arms * self._layout.width + receivers) * agents + said.who % agents
        for table, values in zip(self._told, told_of(*said.numbers()), strict=True):
            table.ravel()[cells] = values

    def note_dissent(self, rows: Ints, excess: Floats) -> Ints:
        """What now speaks against whom; the cells of `trust` that follow from it."""
        before = self._excess.take(rows, axis=0)
        self._excess[rows] = excess
        before += excess
        which, origins = np.divmod(np.flatnonzero(before), self._layout.agents)
        cells: Ints = rows[which] % self._layout.width * self._layout.agents + origins
        return cells

    def note_trust(self, cells: Ints, stale: Mask) -> None:
        """Trust as it is now, in some cells; who has moved is a reason to look at all arms that it told of."""
        layout = self._layout
        trust = believed(summed([excess.ravel()[cells] for excess in self._excess.reshape(layout.arms, -1)]))
        changed = np.flatnonzero(trust != self.trust.ravel()[cells])
        cells, trust = cells[changed], trust[changed]
        self.trust.ravel()[cells] = trust
        who = np.unique(cells // layout.agents)
        self._distrust[who] = (1.0 - self.trust[who]).sum(axis=1)
        moved = np.abs(trust - self._noted.ravel()[cells]) > MOVED
        cells, trust = cells[moved], trust[moved]
        self._noted.ravel()[cells] = trust
        for arm, samples in enumerate(self._told[0].reshape(layout.arms, -1)):
            stale[arm, cells[samples[cells] > 0.0] // layout.agents] = True


class _Earshot:
    """Who hears what when: everybody as many rounds later as its origin is hops away."""

    def __init__(self, layout: Layout) -> None:
        self._said: list[_Records] = []
        reach = max(spec.network.reach(spec.gamma) for spec in layout.specs)
        self._rings = [_Ring(layout, hops) for hops in range(1, reach + 1)]

    def reached(self, said: _Records) -> list[tuple[_Records, Ints]]:
        """With what is said in this round: the records that somebody hears now, one per receiver, and the receivers."""
        self._said = [said, *self._said[: max(0, len(self._rings) - 1)]]
        heard = zip(self._rings, self._said, strict=False)
        return [ring.spread(records) for ring, records in heard if len(records.who)]


class _Ring:
    """Of each agent those who are so many hops away, if news travel that far."""

    def __init__(self, layout: Layout, hops: int) -> None:
        neighbours = [(spec.network.distances == hops) & (hops <= spec.gamma) for spec in layout.specs]
        self._others = np.concatenate(
            [np.nonzero(near)[1] + run * layout.agents for run, near in enumerate(neighbours)]
        )
        self._number = np.concatenate([np.count_nonzero(near, axis=1) for near in neighbours])
        self._first = np.cumsum(self._number) - self._number

    def spread(self, said: _Records) -> tuple[_Records, Ints]:
        """Each record once for everybody on the ring around its origin, and who that is."""
        numbers = self._number[said.who]
        which = np.arange(len(numbers)).repeat(numbers)
        begins = np.cumsum(numbers) - numbers
        receivers = self._others[np.arange(len(which)) + (self._first[said.who] - begins)[which]]
        return _Records(*(part[which] for part in said)), receivers


def _duties(spec: RunSpec) -> Ints:
    """The duty of each agent of a run."""
    beacon = beacon_of_seed(spec.seed)
    return np.array([duty_of(beacon, agent, spec.arms.count) for agent in range(spec.network.agents)], dtype=np.int64)


def _zeal(layout: Layout, duty: Ints) -> Floats:
    """Per arm and agent, how far its coins count."""
    found = np.empty((layout.arms, layout.width))
    for run, duties in enumerate(duty.reshape(layout.runs, layout.agents)):
        numbers = np.bincount(duties, minlength=layout.arms).tolist()
        found[:, run * layout.agents : (run + 1) * layout.agents] = [[zeal(number)] for number in numbers]
    found[duty, np.arange(layout.width)] = 1.0
    return found


class _Records(NamedTuple):
    """What was published at one trial."""

    who: Ints
    arms: Ints
    samples: Ints
    sums: Ints

    def numbers(self) -> tuple[Floats, Floats]:
        """Samples and sums."""
        return self.samples.astype(np.float64), self.sums.astype(np.float64)
