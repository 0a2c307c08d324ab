"""sealed: one release per reward, every decision from released values; the whole transcript is ε-private.

Per arm an agent holds an open batch (secret) and what it has released: N pulls in B closed batches that are worth A
noiseless samples, with the weighted noised sum S. It closes a batch when everybody doing the same would double what the
group knows about the arm, releases it once with discrete Laplace noise of scale 1/ε, and publishes the arm's cumulative
record (arm, N, B, A, S). Receivers keep the record with the largest N per origin and arm, so loss, repetition and order
do not matter, and count of its sum what its samples can have been paid and one deviation beyond. Arms are chosen from
records alone, the agent's own among them. Records are repeated now and then, and all of them at once when somebody is
back that has missed them (see `returns`); an agent that was restarted pulls its usual arm until it has heard of all.
With a half-life it goes by what is left of records (see `fading`): still nothing but released values and trial numbers.

Why it is private. Fix everything but one reward of one agent, and let an observer see all that the agent ever emits
(records, when they came, every arm it pulled) while all other agents may be in league and send what they like.

1. Fix the decision coins, whatever they are: they are independent of rewards and noise, so what holds for any of them
   holds without knowing them. Write the probability of a transcript as a product over rounds, each factor conditioned
   on the transcript so far.
2. Which arm is pulled, which batch a reward goes into and when a batch closes are functions of released values, of
   messages received, of public ids and counts (how many take part, by the run's terms, is one of them) and of the
   coins. Given the transcript so far, these factors are equal for both inputs; and the transcript itself tells which
   batch holds the changed reward.
3. Batches are disjoint and each is released once (parallel composition): exactly one factor changes, the noise of that
   one batch. A reward moves its sum by at most one unit (sensitivity 1), so by the Laplace mechanism the factor changes
   by at most e^ε. If the batch never closes, nothing changes at all. Forwarding, pooling and weighting are
   post-processing.
4. So the ratio of the two probabilities is at most e^ε for every transcript: pure ε-differential privacy, whatever γ, T
   and M are. By group privacy r rewards of one person cost r·ε.

What the code keeps to make this true: rewards are clamped as they are added; the open sum is released in one place
only, `OpenBatch.seal` (the agent's journal keeps it too, on the agent's own disk); nothing ever flushes an open batch,
also not at the end; noise and decision coins have separate sources. A liar's batches hold what it tells, so it believes
its own lies: it has no other data.
"""

from __future__ import annotations

import math
from typing import ClassVar

from agentd.core.bodies import SEALED, Kind
from agentd.core.grid import UNIT
from agentd.core.message import Columns, Held, News
from agentd.core.policy.base import Intent, Released, Snapshot
from agentd.core.policy.coins import Coins, held_since
from agentd.core.policy.knobs import PolicySettings
from agentd.core.policy.records import NOTHING, Record, RecordPool, counted_sum
from agentd.core.policy.remembered.fading import OWN, Fading
from agentd.core.policy.remembered.returns import Returns
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.release import DrawnNoise, restored
from agentd.core.privacy.sealing import OpenBatch, Weighting, restored_batch, saved_batches
from agentd.core.terms import Terms

VARIANCE = UNIT / 4.0
"""c/4 for c = 1: variance of one effective sample, on the grid. c = ½ is better on average for short runs, but now and
then it never comes back to the best arm."""
UCB_WIDTH = 0.6 * UNIT / 2.0


class Sealed:
    """Thompson sampling (or UCB) on released records only."""

    fades: ClassVar[bool] = True
    """Whether records may lose weight with time (`--half-life`)."""

    def __init__(self, settings: PolicySettings, own: int, coins: Coins) -> None:
        arms = settings.arms
        self._order = [(own + step) % arms for step in range(arms)]
        self._thompson = settings.rule == "thompson"
        self._refresh = settings.refresh
        self._returns = Returns(settings.refresh)
        self._weighting = Weighting.of(settings.epsilon)
        self._coins = coins
        self._open = [OpenBatch() for _ in range(arms)]
        self._ahead = [0] * arms  # pulls under way that the batch open then will hold, where rewards come late
        self._closing = [0] * arms  # batches that pulls under way will close
        self._own = [NOTHING] * arms
        self._pool = RecordPool(arms)
        half_life = settings.half_life if self.fades else None
        self._fading = Fading(arms, half_life) if half_life is not None else None
        self._decided_at = 0
        self._heard = 1
        self._group: int | None = None  # how many take part, where the terms say so
        self._all_heard_after = 0
        self._arm: int | None = None
        self._body: list[int] | None = None
        self._told_at: int | None = None
        self._repeated = own % arms  # others begin elsewhere, so that together they repeat all arms soon
        self._untold = 0  # records to be told again at once: somebody does not hold them
        self._is_back = False  # after a restart, until a hello asks others to tell again what they know
        self._trial = 0
        self._usual: int | None = None  # what a life before pulled most, while others tell again what they know
        self._usual_until = 0
        self.ledger = Ledger(disjoint=True, budget=settings.epsilon_budget)

    def agree(self, terms: Terms, lifetime: int) -> None:
        """Take note of how many there are, and of how many rounds it takes until those within reach were heard."""
        self._group = terms.tellers(SEALED.tag) or None
        self._all_heard_after = lifetime

    def choose(self, trial: int) -> int:
        """The arm that the records speak for; the same again unless there are news, or what was known has faded."""
        if self._fading is not None:
            self._fading.pass_to(trial)
            if trial - self._decided_at >= self._fading.look_every:
                self._arm = None
        if self._arm is None or trial == self._usual_until:
            self._arm, self._decided_at = self._decide(trial), trial
        return self._arm

    def due(self, trial: int, arm: int) -> Release | None:
        """The arm's batch is closed if the group, everybody closing it like this, would double its knowledge."""
        before = 0 if self._closing[arm] else self._open[arm].pulls
        group, pulls = self._expected(trial), before + self._ahead[arm] + 1
        if group * self._weighting.samples(pulls) < self._to_reach(arm, group):
            return None
        return Release(arm, trial, pulls, self._weighting.scale)

    def intended(self, intent: Intent) -> None:
        """Let a pull whose reward comes late be in its batch already, as far as closing goes by counts."""
        if intent.noise is not None or intent.refused:
            self._closing[intent.arm] += 1
            self._ahead[intent.arm] = 0
        else:
            self._ahead[intent.arm] += 1

    def _arrived(self, intent: Intent) -> None:
        """A pull is under way no more; those before a closing one are counted no more already."""
        arm = intent.arm
        if intent.noise is not None or intent.refused:
            self._closing[arm] = max(0, self._closing[arm] - 1)
        elif not self._closing[arm]:
            self._ahead[arm] = max(0, self._ahead[arm] - 1)

    def observe(self, intent: Intent, reward: int, told: int) -> Released | None:  # noqa: ARG002
        """Add the reward to the arm's open batch; close it if that is due, throw it away if the budget refuses that."""
        self._trial = intent.trial
        self._arrived(intent)
        self._open[intent.arm].add(told)
        self._heard = self._pool.origins + 1  # as when the arm was chosen: nobody hears anything in between
        released, self._body = None, None
        if intent.noise is not None:
            released, self._body = self._close(intent.noise)
        elif intent.refused:
            self._open[intent.arm] = OpenBatch()
        elif self._told_at is None or self._is_back:
            self._body, self._is_back = [0, *NOTHING], False
        elif self._untold or intent.trial - self._told_at >= self._refresh:
            self._body = self._repetition()
            self._untold = max(0, self._untold - 1)
        if self._body is not None:
            self._told_at = intent.trial
        return released

    def body(self) -> tuple[Kind, list[int]] | None:
        """The record of the arm whose batch has just closed, now and then an older one again; first of all a hello."""
        return None if self._body is None else (SEALED, self._body)

    def learn(self, news: News) -> None:
        """Keep the records that say more than the ones held."""
        if news.batch.kind is not SEALED:
            return
        if changed := self._pool.replace(news.batch, news.rows):
            self._replaced(news, changed)
        if self._returns.noticed(news.batch, news.rows, self._trial):
            self._tell_all_again()

    def _replaced(self, news: News, changed: list[tuple[int, int]]) -> None:  # noqa: ARG002
        """Records of others, at some rows and arms of the pool, are new."""
        self._arm = None
        if self._fading is not None:
            for row, arm in changed:
                pulls, _, samples, total = self._pool.held[row, arm].tolist()
                self._fading.tell(row + 1, arm, pulls, samples, counted_sum(samples, total))

    def forget(self, rows: Columns, held: Held) -> None:  # noqa: ARG002
        """Drop what is held of the origins."""
        self._pool.forget(rows)
        if self._fading is not None:
            self._fading.renew(rows + 1)
        self._arm = None

    def released_means(self) -> list[float | None]:
        """S/A per arm, of all that was released, as it counts today; None: nobody has told of the arm."""
        known = zip(self._known_sums(), self._known_samples(), strict=True)
        return [total / samples if samples else None for total, samples in known]

    def snapshot(self) -> Snapshot:
        """What was released, and the open batches."""
        own = [number for record in self._own for number in record]
        return {"own": own, **saved_batches(self._open)}

    def restore(self, snapshot: Snapshot) -> None:
        """Take back a snapshot; what others released comes again by itself."""
        arms, width = len(self._own), len(NOTHING)
        if {name: len(row) for name, row in snapshot.items()} != {
            "own": arms * width,
            "open_pulls": arms,
            "open_sums": arms,
        }:
            raise ValueError(f"not the state of sealed with {arms} arms: {sorted(snapshot)}")
        own = snapshot["own"]
        self._own = [
            Record(*record)
            for record in zip(own[::width], own[1::width], own[2::width], restored(own[3::width]), strict=True)
        ]
        self._open = [
            restored_batch(pulls, total)
            for pulls, total in zip(snapshot["open_pulls"], snapshot["open_sums"], strict=True)
        ]
        for arm in range(arms):
            self._date_own(arm)
        self._is_back = True
        self._tell_all_again()  # others may be back, too
        if self._untold:
            self._usual = max(range(arms), key=lambda arm: self._own[arm].pulls)

    def discard(self, arm: int | None, trial: int) -> tuple[Release, ...]:
        """Throw the open batch away, and with it the lost reward; it may have closed.

        Whether it did followed from what others had said, which is not kept. What was released before goes on.
        """
        lost = range(len(self._open)) if arm is None else (arm,)
        possible = tuple(Release(each, trial, self._open[each].pulls + 1, self._weighting.scale) for each in lost)
        for each in lost:
            self._open[each] = OpenBatch()
        return possible

    def _expected(self, trial: int) -> int:
        """How many origins there will be, itself included."""
        heard = self._pool.origins + 1
        if self._group is None:
            return expected_group(heard, heard - self._heard)
        return self._group if trial <= self._all_heard_after else heard

    def _close(self, drawn: DrawnNoise) -> tuple[Released, list[int]]:
        """Release the arm's batch; what the arm's record says now is told."""
        release, arm = drawn.release, drawn.release.arm
        sealed = self._open[arm].seal(self.ledger, drawn)
        self._own[arm] = self._own[arm].after(sealed, self._weighting)
        self._date_own(arm)
        self._arm = None
        return Released(release, sealed.noised), [arm, *self._own[arm]]

    def _date_own(self, arm: int) -> None:
        """Let what was released of an arm fade from now on, where anything fades."""
        own = self._own[arm]
        if self._fading is not None:
            self._fading.tell(OWN, arm, own.pulls, own.samples, own.total)

    def _to_reach(self, arm: int, group: int) -> int:
        """What a batch of the arm by everybody is to be worth: what is known of it, which is doubled so."""
        return max(least_samples(len(self._open), group), self._known_samples()[arm])

    def _known_samples(self) -> list[int]:
        """What all have released, per arm, as far as it counts today."""
        if self._fading is not None:
            return self._fading.samples
        return [own.samples + others for own, others in zip(self._own, self._pool.samples, strict=True)]

    def _known_sums(self) -> list[int]:
        if self._fading is not None:
            return self._fading.sums
        return [own.total + others for own, others in zip(self._own, self._pool.sums, strict=True)]

    def _tell_all_again(self) -> None:
        self._untold = sum(record.pulls > 0 for record in self._own)

    def _repetition(self) -> list[int]:
        """What was released of the next arm that has anything, in turn; a hello while there is none."""
        arms = len(self._own)
        for step in range(arms):
            arm = (self._repeated + step) % arms
            if self._own[arm].pulls:
                self._repeated = arm + 1
                return [arm, *self._own[arm]]
        return [0, *NOTHING]

    def _decide(self, trial: int) -> int:
        samples = self._known_samples()
        if not all(samples):
            return self._pull_blindly(trial, samples)
        sums = self._known_sums()
        if self._thompson:
            indices = thompson(sums, samples, self._coins.gauss(held_since(trial, self._expected(trial)), len(sums)))
        else:
            indices = upper_bounds(sums, samples)
        return indices.index(max(indices))

    def _pull_blindly(self, trial: int, samples: list[int]) -> int:
        """An arm that nobody has told of; after a restart, while others tell again what they know, the usual one."""
        if self._usual is not None:
            self._usual_until = self._usual_until or trial + self._refresh
            if trial < self._usual_until:
                return self._usual
        # Each agent begins elsewhere, so that together they try all arms at once.
        return next(arm for arm in self._order if not samples[arm])


def expected_group(heard: int, newcomers: int) -> int:
    """How many origins there will be, where nobody has said how many: a group that grows will grow by as much again.

    Agents pull from the first round on, while hellos are on their way. Where noise is small the first batches could
    close before everybody was heard, and whoever waits pulls blindly meanwhile: measured with 200 agents at ε = 3, this
    saves a tenth of the regret. Once no new origin appears it is the number heard.
    """
    return heard + newcomers


def least_samples(arms: int, group: int) -> int:
    """min(8K, 4m) samples on the grid: how much the first batches of an arm are to be worth, taken together."""
    return min(8 * arms, 4 * group) * UNIT


def thompson(sums: list[int], samples: list[int], coins: list[float]) -> list[float]:
    """S/A + √(c/(4A))·gauss per arm; only operations that IEEE 754 rounds correctly, so every engine agrees."""
    return [
        total / known + math.sqrt(VARIANCE / known) * coin
        for total, known, coin in zip(sums, samples, coins, strict=True)
    ]


def upper_bounds(sums: list[int], samples: list[int]) -> list[float]:
    """S/A + √(0.6·ln(1 + ΣA/A)/(2A)) per arm."""
    widths = upper_widths(samples)
    return [total / known + width for total, known, width in zip(sums, samples, widths, strict=True)]


def upper_widths(samples: list[int]) -> list[float]:
    """√(0.6·ln(1 + ΣA/A)/(2A)) per arm."""
    everything = sum(samples)
    return [math.sqrt(UCB_WIDTH * math.log(1.0 + everything / known) / known) for known in samples]
