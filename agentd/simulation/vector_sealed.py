"""sealed for all agents of several runs at once; `agentd.core.policy.sealed` says what it does and why.

What follows from a batch's pulls is read from tables that the core's own integer arithmetic filled, and what follows
from a batch's noised sum is computed by the core itself: batches close rarely. Coins are drawn from the same streams.
A repeated record tells nobody anything new, because here nothing is lost: it only counts as a message.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from agentd.core.chance import Purpose, Rekeyed
from agentd.core.grid import UNIT
from agentd.core.message import MAX_TRIAL
from agentd.core.policy.coins import FEW, held_since
from agentd.core.policy.records import counted_sums
from agentd.core.policy.sealed import UCB_WIDTH, VARIANCE, least_samples
from agentd.core.privacy.sealing import Weighting
from agentd.runs.spec import RunSpec
from agentd.simulation.draws import LaplaceNoise
from agentd.simulation.forgeries import ForgedRecord, Forgeries
from agentd.simulation.spread import spread_of
from agentd.simulation.vector_policies import Floats, Ints, Layout, Together, best_of, noise_keys

Mask = NDArray[np.bool_]


class TogetherSealed:
    """sealed: everybody decides on what everybody has released."""

    def __init__(self, layout: Layout) -> None:
        policy = layout.specs[0].policy
        self._layout = layout
        self._thompson = policy.rule == "thompson"
        self._refresh = policy.refresh
        self._weighting = Weighting.of(policy.epsilon)
        self._worth = np.array([self._weighting.samples(pulls) for pulls in range(layout.rounds + 1)], dtype=np.int64)
        self._noise = LaplaceNoise(noise_keys(layout), np.full(layout.rounds, float(self._weighting.scale)))
        self._coins = CoinsOfAll(layout)
        self._group = _Group(layout)
        self._forgeries = Forgeries(layout)
        self._forged: list[ForgedRecord] = []
        self._first = np.tile(np.arange(layout.agents), layout.runs) % layout.arms
        self._open, self._secret = layout.integers(), layout.integers()
        self._samples, self._sums = layout.zeros(), layout.zeros()
        self._own_samples, self._own_sums = layout.integers(), layout.integers()
        self._arm = np.zeros(layout.width, dtype=np.int64)
        self._news = np.ones(layout.width, dtype=np.bool_)
        # Samples travel in the first rows, sums in rows of their own below.
        self._spread = spread_of(layout.specs, 2 * layout.arms)
        self._arrived = np.zeros((1, 2 * layout.arms, layout.runs, layout.agents))
        self._nothing = np.zeros(self._arrived.shape[1:])
        self.releases = np.zeros(layout.width, dtype=np.int64)
        """Batches closed, per agent."""
        self.sent = np.zeros((layout.rounds, layout.width), dtype=np.bool_)
        """Who created a message at which trial."""
        self._repeat_at = np.zeros(layout.width, dtype=np.int64)

    def choose(self, trial: int) -> Ints:
        """Decide anew where there is news; repeat the arm elsewhere."""
        who = self._news.nonzero()[0]
        if len(who):
            self._arm[who] = self._decide(trial, who)
            self._news[who] = False
        return self._arm.copy()

    def observe(self, trial: int, arm: Ints, place: Ints, reward: Ints, told: Ints) -> None:  # noqa: ARG002
        """Add to the open batches, close those that are due, say so, and take in what arrives before the next trial."""
        pulls = self._open[place] + 1
        self._open[place] = pulls
        self._secret[place] += told
        self._forged = self._forgeries.records(trial)  # by what was released before this trial
        group, least = self._group.at(trial)
        closing = group * self._worth[pulls] >= np.maximum(least, self._known(place))
        self._note_messages(trial, closing)
        closers = closing.nonzero()[0]
        if len(closers):
            self._news[closers] = True
            self.releases[closers] += 1
        self._tell(trial, arm, place, closers)

    def _tell(self, trial: int, arm: Ints, place: Ints, closers: Ints) -> None:
        """Close the batches of who is closing one, say so, and take in what arrives before the next trial."""
        if not len(closers) and not self._forgeries:
            self._spread.say(trial, self._nothing, self._layout.nowhere)
            self._hear(trial + 1)
            return
        said = np.zeros(2 * self._samples.size)
        tellers, arms = closers, arm[closers]
        if len(closers):
            self._close(place[closers], said)
        if self._forgeries:
            arms, tellers = self._say_lies(said, arms, tellers)
        samples_rows = self._layout.active(arms, self._layout.arms, tellers)
        active = [rows + [row + self._layout.arms for row in rows] for rows in samples_rows]
        self._spread.say(trial, said.reshape(self._arrived.shape[1:]), active)
        self._hear(trial + 1)

    def _known(self, place: Ints) -> Floats:
        """The samples of what is known at these places of (arm, agent)."""
        known: Floats = self._samples.ravel()[place]
        return known

    def _say_lies(self, said: Floats, arms: Ints, tellers: Ints) -> tuple[Ints, Ints]:
        """Put what liars say in place of what they released; of which arms there is news now, and by whom."""
        honest = ~self._forgeries.liars[tellers]
        said.reshape(2, self._layout.arms, self._layout.width)[:, :, self._forgeries.liars] = 0.0
        for each in self._forged:
            where = each.arm * self._layout.width + each.place
            said[where], said[where + self._samples.size] = self._forgeries.growth(each)
        lied_about = np.array([each.arm for each in self._forged], dtype=np.int64)
        liars = np.array([each.place for each in self._forged], dtype=np.int64)
        return np.concatenate([arms[honest], lied_about]), np.concatenate([tellers[honest], liars])

    def _note_messages(self, trial: int, closing: Mask) -> None:
        telling = closing | (self._repeat_at <= trial)
        if self._forgeries:
            telling = np.where(self._forgeries.liars, self._forgeries.sent[trial - 1], telling)
        self._repeat_at[telling] = trial + self._refresh
        self.sent[trial - 1] = telling

    def _close(self, where: Ints, said: Floats) -> None:
        """Seal the open batches at these places of (arm, agent); what they add to the records is said."""
        counted, samples, total = self._counted(where), self._own_samples[where], self._own_sums[where]
        self._seal(where)
        said[where] = self._own_samples[where] - samples
        said[where + self._samples.size] = self._counted(where) - counted
        self._samples.ravel()[where] += said[where]
        self._sums.ravel()[where] += self._own_sums[where] - total

    def _seal(self, where: Ints) -> None:
        """Add what the open batches at these places release to the agents' own records; the batches are empty then."""
        noised = self._secret[where] + self._noise.take(where)
        pulls = self._open[where]
        batches = zip(pulls.tolist(), noised.tolist(), strict=True)
        weighed = [self._weighting.weighed(number, total) for number, total in batches]
        if self._forgeries.tell_liars:
            arm, agent = np.divmod(where, self._layout.width)
            self._forgeries.released(arm, agent, self._worth[pulls], np.array(weighed, dtype=np.int64))
        self._own_sums[where] += weighed
        self._own_samples[where] += self._worth[pulls]
        self._open[where] = self._secret[where] = 0

    def _counted(self, where: Ints) -> Ints:
        """What others count of the sums of the records at these places."""
        return counted_sums(self._own_samples[where], self._own_sums[where])

    def _hear(self, trial: int) -> None:
        arms = self._layout.arms
        flat = self._arrived.reshape(2 * arms, self._layout.width)
        for row in self._spread.arrive(trial, self._arrived):
            arrived = flat[row]
            if row < arms:
                self._samples[row] += arrived
                self._news |= arrived != 0.0
            else:
                self._sums[row - arms] += arrived
            arrived.fill(0.0)

    def _decide(self, trial: int, who: Ints) -> Ints:
        samples, sums = self._samples, self._sums
        if len(who) < self._layout.width:
            samples, sums = samples[:, who], sums[:, who]
        if np.count_nonzero(samples) == samples.size:
            return best_of(self._indices(trial, samples, sums, who))
        unknown = samples == 0.0
        arm = np.empty(len(who), dtype=np.int64)
        fresh = unknown.any(axis=0)
        if fresh.any():
            arm[fresh] = first_unknown(unknown[:, fresh], self._first[who[fresh]])
        known = ~fresh
        if known.any():
            arm[known] = best_of(self._indices(trial, samples[:, known], sums[:, known], who[known]))
        return arm

    def _indices(self, trial: int, samples: Floats, sums: Floats, who: Ints) -> Floats:
        if self._thompson:
            return thompson_indices(sums, samples, self._coins.at(trial, who, self._group.at(trial)[0]))
        return sums / samples + ucb_widths(samples)


class TogetherThompson(Together):
    """coop-thompson: sealed's rule on exact sums, every pull told."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self._coins = CoinsOfAll(layout)
        self._everybody = np.arange(layout.width)
        self._groups = np.array([layout.agents if spec.gamma else 1 for spec in layout.specs]).repeat(layout.agents)

    def choose(self, trial: int) -> Ints:
        """An arm that nobody has told of, each agent beginning elsewhere; then what the group's data speaks for."""
        arm = first_unknown(self._counts == 0.0, self._everybody % self._layout.agents)
        known = np.flatnonzero((self._counts > 0.0).all(axis=0))
        if len(known):
            samples, sums = self._counts[:, known] * UNIT, self._sums[:, known]
            arm[known] = best_of(thompson_indices(sums, samples, self._coins.at(trial, known, self._groups)))
        return arm


def ucb_widths(samples: Floats) -> Floats:
    """√(0.6·ln(1 + ΣA/A)/(2A)) per arm and agent."""
    share = 1.0 + samples.sum(axis=0) / samples
    # The same logarithm as the core's: numpy's own may differ in the last bit.
    log = np.array([math.log(value) for value in share.ravel().tolist()]).reshape(share.shape)
    return np.sqrt(UCB_WIDTH * log / samples)


def thompson_indices(sums: Floats, samples: Floats, coins: Floats) -> Floats:
    """`agentd.core.policy.sealed.thompson` for many agents."""
    spread: Floats = np.sqrt(VARIANCE / samples)
    spread *= coins
    return sums / samples + spread


def first_unknown(unknown: Mask, own: Ints) -> Ints:
    """The first arm without samples, each agent beginning at its own."""
    arms = len(unknown)
    order = (own + np.arange(arms)[:, np.newaxis]) % arms
    turn = np.take_along_axis(unknown, order, axis=0).argmax(axis=0)
    chosen: Ints = (own + turn) % arms
    return chosen


class _Group:
    """How many origins each agent expects at each trial: all who take part, and after γ rounds those it has heard."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._last = max(spec.gamma for spec in layout.specs) + 1
        self._latest: tuple[Ints, Ints] | None = None

    def at(self, trial: int) -> tuple[Ints, Ints]:
        """Per agent the origins it expects, itself included, and the least samples that its first batches aim for."""
        if trial <= self._last or self._latest is None:
            group = np.concatenate([_expected(spec, trial) for spec in self._layout.specs])
            least = np.array([least_samples(self._layout.arms, origins) for origins in group.tolist()], dtype=np.int64)
            self._latest = group, least
        return self._latest


def _expected(spec: RunSpec, trial: int) -> Ints:
    agents = spec.network.agents
    if trial <= spec.gamma:
        return np.full(agents, agents, dtype=np.int64)
    return spec.network.heard(spec.gamma)


def all_held_since(trial: int, groups: Ints) -> Ints:
    """`held_since` for many agents, whose groups have few different sizes."""
    sizes, which = np.unique(groups, return_inverse=True)
    since: Ints = np.array([held_since(trial, size) for size in sizes.tolist()], dtype=np.int64)[which]
    return since


class CoinsOfAll:
    """The decision coins of all agents of all runs."""

    def __init__(self, layout: Layout) -> None:
        self._keys = [(spec.seed, agent) for spec in layout.specs for agent in range(layout.agents)]
        self._rekeyed = Rekeyed()
        self._drawn = np.empty((layout.width, layout.arms))
        self._since = np.zeros(layout.width, dtype=np.int64)  # the trial that each row is of
        self._groups: Ints | None = None
        # By the rule of `held_since`: the trial whose coins each holds, and when it tosses next.
        self._held, self._next = np.ones((2, layout.width), dtype=np.int64)
        self._next_of_all = 0
        self._always = np.zeros(0, dtype=np.int64)  # who tosses in every round

    def of(self, one: int, trial: int) -> Floats:
        """The coins of one agent at a trial, per arm."""
        seed, agent = self._keys[one]
        return self._rekeyed.at(seed, Purpose.COIN, agent, trial).standard_normal(self._drawn.shape[1])

    def at(self, trial: int, who: Ints, groups: Ints) -> Floats:
        """Per arm and agent, the coins that decide at this trial; `groups` are the sizes of everybody's."""
        self._hold(trial, groups)
        since = self._held[who]
        stale = self._since[who] != since
        if np.count_nonzero(stale):
            for one, first in zip(who[stale].tolist(), since[stale].tolist(), strict=True):
                seed, agent = self._keys[one]
                self._rekeyed.at(seed, Purpose.COIN, agent, first).standard_normal(out=self._drawn[one])
            self._since[who] = since
        return self._drawn[who].T

    def _hold(self, trial: int, groups: Ints) -> None:
        if groups is not self._groups:
            self._groups, self._next_of_all = groups, 0
            self._held.fill(1)
            self._always = np.flatnonzero(groups < FEW)
            self._next = np.where(groups < FEW, MAX_TRIAL + 1, groups)
        while self._next_of_all <= trial:
            due = self._next <= trial
            self._held[due] = self._next[due]
            self._next[due] += self._next[due] // 4
            self._next_of_all = int(self._next.min())
        if len(self._always):
            self._held[self._always] = trial
