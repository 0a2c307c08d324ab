"""What one life of an agent has heard, counted again from the beginning, in the most obvious way.

Every message that reaches an agent is noted here by its key. What the agent should know follows from that alone: of
cumulative kinds the newest of each origin, of samples each one once. The agent comes to the same by rings, windows,
memories of heads and bodies, and short cuts for rounds that repeat each other; after every round both must agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from agentd.check.world import World
from agentd.core.agent import Agent
from agentd.core.bodies import RELEASED, SAMPLE, SEALED, TOTALS
from agentd.core.bodies.cumulative import History
from agentd.core.message import Batch
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.records import counted_sum
from agentd.core.policy.sealed import Sealed

Key = tuple[int, int, int]
"""Origin, incarnation, trial."""
Row = tuple[int, int, int, int, int]
"""The head of a message."""

REFUSALS = ("head", "origin", "kind", "lifetime", "shape", "body", "history")
"""Reasons for which nothing honest is ever dropped."""


class Recount:
    """The oracle of one life."""

    def __init__(self, agent: Agent, algorithm: str, world: World) -> None:
        self._agent = agent
        self._arms = range(len(world.means))
        self._kind = ALGORITHMS[algorithm].tells
        self._horizon, self._lifetime = world.rounds, world.gamma
        self._hops_take_rounds = world.clock == "lockstep"
        self.heard: dict[Key, int] = {}
        """Every message that counts, and in which round it came first."""
        self._newest: dict[int, tuple[int, list[int]]] = {}
        self._records: dict[tuple[int, int], tuple[int, list[int]]] = {}
        self._incarnations: dict[int, int] = {}
        self._samples: Counter[int] = Counter()
        self._own: Counter[int] = Counter()

    def pulled(self, arm: int) -> None:
        """The agent pulled itself."""
        self._own[arm] += 1

    def hear(self, batches: Iterable[Batch], latest: int, round_: int, is_trusted: Callable[[int], bool]) -> None:
        """Note messages of those whose messages are all honest."""
        latest = min(latest, self._horizon)
        self._forget_former_lives()
        for batch in batches:
            learns = batch.kind is self._kind
            bodies = batch.body.tolist() if learns else [[]] * len(batch)
            for head, body in zip(batch.head.tolist(), bodies, strict=True):
                if is_trusted(head[0]) and self._counts(head, latest):
                    self._note(head, body, learns, round_)

    def _forget_former_lives(self) -> None:
        lives = self._agent.lives
        assert lives is not None  # noqa: S101 - the daemon has them
        for origin, incarnation in self._incarnations.items():
            if lives.of(origin) != incarnation:
                self._incarnations[origin] = lives.of(origin)
                self._newest.pop(origin, None)
                for arm in [arm for other, arm in self._records if other == origin]:
                    del self._records[origin, arm]

    def _counts(self, head: list[int], latest: int) -> bool:
        """Whether the message is of the present life of another, and not of the future."""
        origin, incarnation, trial, lifetime, life = head
        lives = self._agent.lives
        assert lives is not None  # noqa: S101
        if origin == self._agent.own or incarnation != lives.of(origin) or incarnation >= trial:
            return False
        if lifetime != self._lifetime:
            return False
        reached = trial + lifetime - life if self._hops_take_rounds else trial
        return reached <= latest

    def _note(self, head: list[int], body: list[int], learns: bool, round_: int) -> None:
        origin, incarnation, trial = head[:3]
        self._incarnations[origin] = incarnation
        if (origin, incarnation, trial) in self.heard:
            return
        self.heard[origin, incarnation, trial] = round_
        if not learns:
            return
        if self._kind is SEALED:
            if body[1] > self._records.get((origin, body[0]), (0, []))[0]:
                self._records[origin, body[0]] = body[1], body[2:]
        elif self._kind is SAMPLE:
            self._samples[body[0]] += 1
        elif trial > self._newest.get(origin, (0, []))[0]:
            self._newest[origin] = trial, body

    def difference(self) -> str | None:
        """How what the agent has counted differs from this, if it does."""
        policy: Any = self._agent.policy
        arms = self._arms
        if self._kind is SAMPLE:
            return self._samples_differ(policy)
        if self._kind is None:
            return None
        if self._kind is SEALED:
            counts = [sum(record[1] for (_, a), (_, record) in self._records.items() if a == arm) for arm in arms]
            sums = [
                sum(counted_sum(*record[1:]) for (_, a), (_, record) in self._records.items() if a == arm)
                for arm in arms
            ]
            found = policy._pool.samples, policy._pool.sums
        else:
            shares = [self._share(body) for _, body in self._newest.values()]
            counts = [sum(share[0][arm] for share in shares) for arm in arms]
            sums = [sum(share[1][arm] for share in shares) for arm in arms]
            found = policy._pool.counts, policy._pool.sums
        if (counts, sums) == tuple(map(list, found)):
            return None
        return f"it counts {found[0]} and sums {found[1]}; what came adds up to {counts} and {sums}"

    def misheld(self) -> str | None:
        """What the agent holds of somebody honest that this one did not say, or said before; whoever else attacks.

        Of those in their first life only: an attacker may guess a later one, and nobody can refuse that unsigned.
        """
        policy, memory = self._agent.policy, self._agent._checks._memories.get(self._kind)  # type: ignore[arg-type]
        rows = self._agent._origins._row_of
        if isinstance(policy, Sealed):
            for (origin, arm), (pulls, rest) in self._records.items():
                held = policy._pool.held[rows[origin], arm].tolist()
                if held != [pulls, *rest] and not self._incarnations[origin]:
                    return f"it holds {held} of arm {arm} of agent {origin}, which says {[pulls, *rest]}"
        elif isinstance(memory, History):
            for origin, (trial, body) in self._newest.items():
                found = _held_of(memory, int(rows[origin]))
                if found != (trial, body) and not self._incarnations[origin]:
                    return f"it holds {found} of agent {origin}, which says {body} at trial {trial}"
        return None

    def _share(self, body: list[int]) -> tuple[list[int], list[int]]:
        """What one origin says, per arm: pulls, and what they paid."""
        if self._kind is TOTALS:
            return body[::2], body[1::2]
        assert self._kind is RELEASED  # noqa: S101 - there are no others
        fields = list(zip(body[::3], body[1::3], body[2::3], strict=True))
        return [now for now, _, _ in fields], [now * noised // at if at else 0 for now, at, noised in fields]

    def _samples_differ(self, policy: Any) -> str | None:
        found = [policy._samples[arm].size for arm in self._arms]
        wanted = [self._own[arm] + self._samples[arm] for arm in self._arms]
        stale = self._agent.dropped["stale"]  # what cannot be told from what was counted is dropped
        if found == wanted or (stale and sum(wanted) - stale <= sum(found) <= sum(wanted)):
            return None
        return f"it holds {found} samples of the arms; {wanted} were pulled or came"


def _held_of(memory: History, row: int) -> tuple[int, list[int]]:
    """The newest body of an origin that an agent holds, and its trial."""
    if memory._last is not None:
        batch, rows = memory._last
        for place in (rows == row).nonzero()[0].tolist():
            return int(batch.trial[place]), batch.body[place].tolist()
    if row >= len(memory._trial):
        return 0, []
    return int(memory._trial[row]), memory._cells[:, :, row].T.reshape(-1).tolist()
