"""The agent as a machine: what goes in, what comes out, and what never does."""

from __future__ import annotations

import pytest
from small_runs import sample, samples, totals

from agentd.core.agent import Agent
from agentd.core.bodies import RELEASED, SAMPLE, TOTALS, Kind
from agentd.core.chance import Purpose, stream
from agentd.core.grid import UNIT
from agentd.core.lies import Attack, Liar
from agentd.core.message import MAX_AGENT_ID, Batch, Columns, Held, Message, News, batch_of
from agentd.core.policy import Intent, PolicySettings, make_policy
from agentd.core.privacy.ledger import Release
from agentd.core.terms import Terms
from agentd.core.trust.lives import Lives

OWN = 3


class Scripted:
    """A policy that notes every call and always answers the same."""

    ledger = None

    def __init__(self, kind: Kind | None = SAMPLE) -> None:
        self.kind = kind
        self.calls: list[tuple[object, ...]] = []

    def choose(self, trial: int) -> int:
        self.calls.append(("choose", trial))
        return 1

    def due(self, trial: int, arm: int) -> Release | None:
        return None

    def observe(self, intent: Intent, reward: int, told: int) -> None:
        self.calls.append(("observe", intent.trial, intent.arm, reward, told))

    def body(self) -> tuple[Kind, list[int]] | None:
        return (self.kind, [1, 5]) if self.kind else None

    def learn(self, news: News) -> None:
        self.calls.append(("learn", news.batch.kind, news.batch.origin.tolist(), news.rows.tolist()))

    def forget(self, rows: Columns, held: Held) -> None:
        self.calls.append(("forget", rows.tolist()))


def scripted(kind: Kind | None = SAMPLE, lifetime: int = 2, liar: Liar | None = None) -> tuple[Agent, Scripted]:
    policy = Scripted(kind)
    return Agent(OWN, policy, terms=Terms(2, None), lifetime=lifetime, liar=liar), policy


def messages(batches: list[Batch]) -> list[Message]:
    return [message for batch in batches for message in batch.messages()]


def pull(agent: Agent, reward: int = 0) -> None:
    agent.choose()
    agent.advance(reward).committed()


@pytest.mark.parametrize("own", [-1, MAX_AGENT_ID + 1])
def test_an_id_that_no_message_could_carry_is_refused(own: int) -> None:
    with pytest.raises(ValueError, match="an agent id must be in"):
        Agent(own, Scripted(), terms=Terms(2, 1))


def test_a_reward_without_a_pull_is_refused() -> None:
    agent, _ = scripted()
    with pytest.raises(ValueError, match=r"call choose\(\) first"):
        agent.advance(0)
    pull(agent)
    with pytest.raises(ValueError, match=r"call choose\(\) first"):
        agent.advance(0)


@pytest.mark.parametrize("reward", [-1, UNIT + 1])
def test_a_reward_outside_the_grid_is_refused_and_the_pull_stays_open(reward: int) -> None:
    agent, policy = scripted()
    agent.choose()
    with pytest.raises(ValueError, match="grid integer"):
        agent.advance(reward)
    agent.advance(UNIT)
    assert policy.calls[-1] == ("observe", 1, 1, UNIT, UNIT)


def test_the_arm_stays_the_same_until_its_reward_is_in() -> None:
    agent, policy = scripted()
    assert [agent.choose(), agent.choose()] == [Intent(1, 1), Intent(1, 1)]
    assert policy.calls == [("choose", 1)]
    agent.advance(9).committed()
    agent.choose()
    assert policy.calls == [("choose", 1), ("observe", 1, 1, 9, 9), ("choose", 2)]
    assert agent.trial == 1


def test_a_pull_is_told_once_with_full_life() -> None:
    agent, _ = scripted(lifetime=4)
    pull(agent)
    assert messages(agent.turn.outbox()) == [Message(OWN, 1, 4, (1, 5), 4, 0)]
    assert agent.turn.outbox() == []


def test_only_the_newest_message_waits_for_a_frame() -> None:
    agent, _ = scripted()
    pull(agent)
    pull(agent)
    assert [m.trial for m in messages(agent.turn.outbox())] == [2]


def test_without_lifetime_nothing_is_told() -> None:
    agent, _ = scripted(lifetime=0)
    pull(agent)
    assert agent.turn.outbox() == []


def test_a_silent_policy_still_relays() -> None:
    agent, _ = scripted(kind=None)
    pull(agent)
    agent.receive([samples(sample(1, 1, 3))])
    assert [(m.origin, m.life) for m in messages(agent.turn.outbox())] == [(1, 2)]


def test_own_message_and_relays_of_its_kind_share_a_batch() -> None:
    agent, _ = scripted()
    agent.receive([samples(sample(1, 1, 3)), totals(Message(2, 1, 3, (0, 0, 0, 0)))])
    pull(agent)
    told = agent.turn.outbox()
    assert [(batch.kind, batch.origin.tolist()) for batch in told] == [(SAMPLE, [OWN, 1]), (TOTALS, [2])]


def test_an_agent_that_lost_its_state_continues_the_trials_under_a_new_incarnation() -> None:
    agent = Agent(OWN, Scripted(), terms=Terms(2, 1), incarnation=2, trial=40)
    pull(agent)
    assert messages(agent.turn.outbox()) == [Message(OWN, 41, 1, (1, 5), 1, 2)]


def test_a_liar_learns_the_truth_and_tells_the_lie() -> None:
    liar = Liar(Attack.parse("worst"), 1.0, stream(1, Purpose.LIE).random)
    agent, policy = scripted(liar=liar)
    pull(agent, 7)
    assert policy.calls[-1] == ("observe", 1, 1, 7, UNIT)


def test_a_lying_relay_corrupts_what_it_forwards_but_not_its_own() -> None:
    liar = Liar(Attack.parse("relay-worst"), 1.0, stream(1, Purpose.RELAY_LIE).random)
    agent, policy = scripted(liar=liar)
    pull(agent, 7)
    agent.receive([samples(sample(1, 1, 3, arm=1, reward=9))])
    assert policy.calls[-2:] == [("observe", 1, 1, 7, 7), ("learn", SAMPLE, [1], [0])]
    assert [(m.origin, m.body) for m in messages(agent.turn.outbox())] == [(OWN, (1, 5)), (1, (1, UNIT))]


def test_what_is_heard_is_learned_once_and_counted() -> None:
    agent, policy = scripted()
    agent.receive([samples(sample(1, 1), sample(2, 1)), samples(sample(1, 1))])
    agent.receive([samples(sample(2, 1), sample(OWN, 1))])
    assert policy.calls == [("learn", SAMPLE, [1, 2], [0, 1])]
    assert agent.heard == 2
    assert len(agent._origins) == 2
    assert agent.redundant == {"duplicate": 2, "own": 1}
    assert agent.dropped == {}


def test_what_is_dropped_is_counted_wherever_it_is_dropped() -> None:
    agent = Agent(OWN, Scripted(), terms=Terms(2, 1), window=4)
    agent.receive([samples(sample(1, 9), sample(1, 1), sample(1, 2, life=0), sample(1, 30))], latest_trial=20)
    assert agent.dropped == {"stale": 1, "head": 1, "future": 1}


def test_what_was_held_of_an_origin_is_forgotten_before_its_new_life_is_learned() -> None:
    agent, policy = scripted()
    agent.receive([samples(sample(5, 1), sample(1, 1))])
    agent.receive([samples(sample(5, 2, incarnation=1))])
    assert policy.calls[1:] == [("forget", [1]), ("learn", SAMPLE, [5], [1])]


def test_a_forged_copy_does_not_take_the_place_of_the_real_one() -> None:
    agent, policy = scripted()
    agent.receive([samples(sample(1, 1, 9, reward=UNIT + 1, lifetime=9))])
    assert policy.calls == []
    agent.receive([samples(sample(1, 1, 1, reward=4))])
    assert policy.calls == [("learn", SAMPLE, [1], [0])]
    assert agent.dropped == {"body": 1}


def test_totals_that_take_back_what_was_said_are_not_learned() -> None:
    agent, policy = scripted()
    agent.receive([totals(Message(1, 5, 1, (3, 0, 2, 0)))])
    agent.receive([totals(Message(1, 6, 1, (2, 0, 2, 0)), Message(2, 6, 1, (1, 0, 0, 0)))])
    assert policy.calls == [("learn", TOTALS, [1], [0]), ("learn", TOTALS, [2], [1])]
    assert agent.dropped == {"history": 1}
    assert agent.heard == 2


def test_a_message_that_contradicts_history_is_not_learned_even_alone() -> None:
    agent, policy = scripted()
    agent.receive([totals(Message(1, 5, 1, (3, 0, 2, 0)))])
    agent.receive([totals(Message(1, 6, 1, (2, 0, 2, 0)))])
    assert len(policy.calls) == 1


@pytest.mark.parametrize("name", ["ucb1", "coop-ucb", "private-ucb", "byzantine-ucb", "dp-ucb-int"])
def test_agents_relay_every_kind_whatever_they_run(name: str) -> None:
    policy = make_policy(name, PolicySettings(arms=2), OWN)
    agent = Agent(OWN, policy, terms=Terms(2, 2))
    bodies = {RELEASED: (1, 1, 4, 0, 0, 0), TOTALS: (1, 4, 0, 0), SAMPLE: (1, 4)}
    agent.receive(
        [batch_of(kind, [Message(origin, 1, 2, body)]) for origin, (kind, body) in enumerate(bodies.items(), start=10)]
    )
    assert {m.origin: (m.life, m.body) for m in messages(agent.turn.outbox())} == {
        origin: (1, body) for origin, body in enumerate(bodies.values(), start=10)
    }
    assert agent.heard == 3


def test_what_the_environment_tells_of_a_life_voids_the_older_one() -> None:
    policy, lives = Scripted(), Lives()
    agent = Agent(OWN, policy, terms=Terms(2, 1), lives=lives)
    agent.receive([samples(sample(5, 2), sample(1, 2))])
    lives.told([(5, 2), (7, 3)])
    agent.receive([samples(sample(5, 3), sample(5, 3, incarnation=2), sample(7, 4, incarnation=3))])
    assert policy.calls[1:] == [("forget", [1]), ("learn", SAMPLE, [5, 7], [1, 2])]
    assert agent.dropped == {"incarnation": 1}


def test_a_life_that_nobody_told_of_is_asked_about_and_changes_nothing() -> None:
    policy, lives = Scripted(), Lives()
    agent = Agent(OWN, policy, terms=Terms(2, 1), lives=lives)
    agent.receive([samples(sample(5, 2))])
    agent.receive([samples(sample(5, 9, incarnation=8))])
    assert len(policy.calls) == 1
    assert lives.ask
    agent.receive([samples(sample(5, 3))])
    assert policy.calls[1:] == [("learn", SAMPLE, [5], [0])]


def test_an_agent_knows_its_own_life() -> None:
    lives = Lives()
    agent = Agent(OWN, Scripted(), terms=Terms(2, 1), incarnation=4, trial=4, lives=lives)
    agent.receive([samples(sample(OWN, 5, incarnation=4), sample(OWN, 4))])
    assert agent.redundant == {"own": 1}
    assert agent.dropped == {"incarnation": 1}
    assert not lives.ask
