"""One run of a real core agent against scripted rewards and a scripted neighbour, and all that anybody saw of it.

The agent is the daemon's own, in the order in which a free-running daemon drives it: hear, choose, pull, advance, send.
What it publishes goes through the codec and is kept as bytes, one frame per trial, empty or not, with trial numbers as
the only clock; so is what it hears. The arms that it pulls are part of the transcript too, as if the environment were
in league with its neighbour.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentd.audit.case import TARGET, Case, Input
from agentd.audit.planted_faults import noise_of, policy_of
from agentd.audit.planted_logic import paid_much, withhold_relays
from agentd.audit.scripted_neighbour import GAMMA, RUN, coins_of, neighbour_of
from agentd.core.agent import Agent
from agentd.core.assembly import assemble
from agentd.core.message import Batch
from agentd.core.privacy.laplace import Noise
from agentd.core.saved_state import SavedState
from agentd.core.terms import Terms
from agentd.wire.codec import decode_frame, encode_frame
from agentd.wire.frame import GOODBYE, Frame


@dataclass(frozen=True, slots=True)
class Transcript:
    """What there is to see of one run."""

    given: Input
    frames: list[bytes]
    """Everything the agent published, in order."""
    arms: list[int]
    """The arm of every trial."""
    twin: Noise
    """The noise of an agent of the adversary's own, made as the audited agent's was."""
    claimed: float
    """The ε that the agent's ledger holds at the end."""


class Stage:
    """The world around an agent, which outlives it: pays rewards, hears every frame, lets the neighbour answer."""

    def __init__(self, case: Case, side: int, number: int) -> None:
        self.case = case
        self.given = case.input_of(number)
        self.frames: list[bytes] = []
        self.pulled: dict[int, int] = {}
        self._side = side
        self._sequence = 0
        self._neighbour = neighbour_of(case, self.given)
        self._inbox = self._neighbour.greet()

    def deliver(self, agent: Agent) -> None:
        """Let the agent hear what the neighbour has said since."""
        for data in self._inbox:
            agent.receive(decode_frame(data, arms=self.case.arms).batches)
        self._inbox = []

    def pull(self, trial: int, arm: int) -> int:
        """The reward of a pull; asked again, the same, and another arm is refused as the environment does."""
        if self.pulled.setdefault(trial, arm) != arm:
            raise ValueError(f"trial {trial} was pulled with arm {self.pulled[trial]} and then with arm {arm}")
        return self.given.reward(self._side, trial)

    def publish(self, agent: Agent, batches: Iterable[Batch]) -> None:
        """One frame; the last one says goodbye."""
        fault, much = self.case.fault, paid_much(agent)
        self._sequence += 2 if fault == "skipped-sequence" and much else 1
        last = agent.trial == self.case.trials and not (fault == "missing-goodbye" and much)
        head = (RUN, TARGET, agent.incarnation, self._sequence, agent.trial, GOODBYE if last else 0)
        self.hear(encode_frame(Frame(*head, tuple(batches), self.case.arms)))

    def hear(self, data: bytes) -> None:
        """Keep what is on the wire, and let the neighbour answer."""
        self.frames.append(data)
        self._inbox += self._neighbour.answer(data)

    def reconnect(self) -> None:
        """The agent comes back: its frames count from one again, and the neighbour says everything again."""
        self._sequence = 0
        self._inbox = self._neighbour.greet()

    def transcript(self, agent: Agent, twin: Noise) -> Transcript:
        ledger = agent.policy.ledger
        arms = [self.pulled[trial] for trial in sorted(self.pulled)]
        return Transcript(self.given, self.frames, arms, twin, ledger.epsilon_one_reward() if ledger else 0.0)


def make_agent(case: Case, noise: Noise, saved: SavedState | None = None, counted: int = 0) -> Agent:
    """The agent under audit; its decision coins are public and the same in every run, so that choices are crisp."""
    policy = policy_of(case, coins_of(case.seed))
    terms = Terms(case.arms, GAMMA).assuming(case.policy.epsilon, case.policy.v)
    life = counted if saved is not None and saved.in_doubt(counted) else None
    agent = assemble(TARGET, policy, case.policy, terms, noise=noise, incarnation=life, trial=counted, saved=saved)
    if case.fault == "withheld-relays":
        withhold_relays(agent)
    return agent


def record(case: Case, side: int, number: int) -> Transcript:
    """One run without a crash."""
    chance = noise_of(case, side, number)
    stage, agent = Stage(case, side, number), make_agent(case, chance.target)
    while agent.trial < case.trials:
        stage.deliver(agent)
        intent = agent.choose()
        turn = agent.advance(stage.pull(intent.trial, intent.arm))
        turn.committed()
        stage.publish(agent, turn.outbox())
    return stage.transcript(agent, chance.twin)
