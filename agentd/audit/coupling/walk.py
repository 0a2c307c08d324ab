"""What outlives an agent in one run of a world: rewards, neighbours, the bytes of its state, and who takes note.

A death is an exception at a seam, or within a write of which half is done; what is in the journal's bytes then is what
the next life finds.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentd.audit.coupling.company import Company
from agentd.audit.coupling.observed import Observed, SeenStorage, noting_log
from agentd.audit.coupling.paired_noise import Draw, PairedNoise
from agentd.audit.coupling.virtual_lines import VirtualLines
from agentd.audit.coupling.worlds import AFTER_THE_SEND, TARGET, World
from agentd.core.agent import Agent, Turn
from agentd.core.message import TOKEN_BYTES
from agentd.shell.json_log import Log
from agentd.shell.link import Link
from agentd.shell.state.journal import StateJournal
from agentd.shell.state.keeper import state_identity
from agentd.shell.watch.agent_view import TIMES, AgentView
from agentd.wire.codec import encode_environment
from agentd.wire.environment_messages import MICRO, Hello, Pull, Report
from agentd.wire.topics import FRAME_TOPIC

TOKEN = bytes(TOKEN_BYTES)


class Died(Exception):
    """The process is gone."""


class Fate:
    """When the agent dies: at an edge of a trial, once each."""

    def __init__(self, world: World) -> None:
        self._plan = set(world.deaths)
        self._place = 0
        self._writes = 0

    def begin(self, place: int) -> None:
        """A trial begins, or a life (−1 for the second)."""
        self._place, self._writes = place, 0

    def at(self, edge: str) -> None:
        """Pass an edge, or die there."""
        if self._is_due(edge):
            self.die()

    def in_this_write(self) -> bool:
        """Whether the write that begins now is the last."""
        self._writes += 1
        return self._is_due(f"write {self._writes - 1}")

    def die(self) -> None:
        raise Died

    def _is_due(self, edge: str) -> bool:
        death = (self._place, edge)
        due = death in self._plan
        self._plan.discard(death)
        return due


class Walk:
    """A world and what becomes of it; `observed` is all that anybody can see of that."""

    def __init__(self, world: World, *, flipped: bool = False, shifts: Mapping[Draw, int] | None = None) -> None:
        self.world = world
        self.observed = Observed()
        self.holding: dict[Draw, int] = {}
        """What the releases that hold the reward in question were noised with, in order, and the scale of each."""
        self.claimed = 0.0
        """The most that the ledger of any life held for one reward."""
        self.difference = 0
        """By how much that reward is another one in the other input; 0: it was not paid."""
        self.lives = 0
        self._flipped = flipped
        self._shifts = shifts or {}
        self._note = self.observed.note
        self.fate = Fate(world)
        self._company = Company(world)
        self._storage = SeenStorage(self._note, self.fate.in_this_write, self.fate.die)
        self._pulled: dict[int, int] = {}
        self._kept: dict[int, list[int]] = {}
        """The trials of each arm whose rewards are in the agent's state."""

    def begin_life(self) -> StateJournal | None:
        """A process begins; where it keeps its state, if it does."""
        self.fate.begin(-self.lives)
        self.lives += 1
        if not self.world.keeps_state:
            self._kept.clear()
            return None
        journal = StateJournal.over(self._storage, state_identity(self.world.settings()))
        over = journal.saved.trial if journal.saved is not None else 0
        self._kept = {arm: [trial for trial in trials if trial <= over] for arm, trials in self._kept.items()}
        return journal

    @property
    def counted(self) -> int:
        """The trials that the environment has counted."""
        return len(self._pulled)

    @property
    def neighbours(self) -> list[int]:
        return self._company.ids

    def noise(self) -> PairedNoise:
        """That of a new life."""
        return PairedNoise(self.world, self.lives, self._shifts)

    def hello(self, incarnation: int | None) -> None:
        """What the environment hears first."""
        self._note("environment", encode_environment(Hello(TARGET, TOKEN, incarnation)))

    def greet(self, lines: VirtualLines) -> None:
        """The neighbours notice that the agent is there."""
        self._company.greet(lines)

    def publish(self, part: bytes, lines: VirtualLines) -> None:
        """What leaves for neighbours."""
        self._note("published", part)
        self._company.answer(part, lines)
        if part.startswith(FRAME_TOPIC):
            self.fate.at(AFTER_THE_SEND)

    def pull(self, trial: int, arm: int) -> int:
        """The reward of a pull; asked again, the same, and another arm is refused as the environment does."""
        self._note("environment", encode_environment(Pull(TARGET, TOKEN, trial, arm, trial - 1)))
        if self._pulled.setdefault(trial, arm) != arm:
            raise ValueError(f"trial {trial} was pulled with arm {self._pulled[trial]} and then with arm {arm}")
        paid = self.world.reward(trial, arm, flipped=self._flipped)
        if trial == self.world.flipped:
            self.difference = self.world.reward(trial, arm, flipped=not self._flipped) - paid
        self.fate.at("after the pull")
        return paid

    def took_in(self, arm: int, turn: Turn, noise: PairedNoise) -> None:
        """A reward is in: which releases hold it follows from how many pulls each says it is over."""
        if turn.ledger is not None:
            self.claimed = max(self.claimed, turn.ledger.epsilon_one_reward())
        kept = self._kept.setdefault(arm, [])
        kept.append(turn.trial)
        for release, _ in turn.releases:
            over = self._kept.get(release.arm, [])[-release.pulls :]
            if self.world.flipped in over and (drawn := noise.latest(release.arm)) is not None:
                self.holding[drawn[0]] = drawn[1]

    def charged(self, turn: Turn) -> None:
        """What the ledger holds of a turn that is committed."""
        for release, value in turn.releases:
            self._note("ledger", (release, int(value)))

    def ended(self, how: str) -> None:
        self._note("end", how)

    def report(self, agent: Agent, link: Link, *, done: bool) -> None:
        """What the environment is told of it, and what it counts besides."""
        ledger = agent.policy.ledger
        dropped = agent.dropped + link.dropped
        if ledger is not None and ledger.refused:
            dropped["budget"] = ledger.refused
        report = Report(
            agent=TARGET,
            token=TOKEN,
            trial=agent.trial,
            messages=link.messages,
            bytes=link.bytes,
            dropped=tuple(sorted(dropped.items())),
            epsilon_micro=round(ledger.epsilon_one_reward() * MICRO) if ledger else 0,
            done=done,
            returns=agent.lives.known if agent.lives is not None else 0,
            round=link.round,
            blames=link.blames,
        )
        self._note("environment", encode_environment(report))
        self._note("counters", (agent.heard, sorted(agent.redundant.items())))
        if done and ledger is not None:
            spent = [(arm, ledger.releases(arm), ledger.spent(arm)) for arm in ledger.arms]
            self._note("ledger", (spent, ledger.refused))

    def watched(self, view: AgentView, *, much: bool) -> None:
        """What others may see of the agent now, but for how long things took."""
        seen = view("running")
        shown = {name: value for name, value in seen.status.items() if name not in TIMES}
        self._note("watched", (shown, seen.unready, much))

    def logs(self) -> Log:
        return noting_log(self._note)
