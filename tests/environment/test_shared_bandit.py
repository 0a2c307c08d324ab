"""Every decision of the environment, without a socket."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.core.grid import UNIT
from agentd.environment import run_terms as terms_module
from agentd.environment import shared_bandit as bandit_module
from agentd.environment.run_terms import RunTerms
from agentd.environment.shared_bandit import GATE_S, Dealer, SharedBandit
from agentd.errors import SettingsError
from agentd.run.arms import Arms, uniforms
from agentd.run.regret import NO_REWARD, NOT_PULLED, group_regret
from agentd.wire.environment_messages import (
    Hello,
    Noted,
    Ping,
    Pong,
    Pull,
    Refusal,
    Refused,
    Reply,
    Report,
    Request,
    Reward,
    Wait,
    Welcome,
)

RUN = bytes.fromhex("00112233445566ff")
ARMS = Arms.fixed((0.9, 0.5, 0.2), bounds=(-1.0, 3.0))
SEED = 7
HOME = b"home"


def bandit_of(agents: int | None = 3, rounds: int | None = 5, gone: set[bytes] | None = None) -> SharedBandit:
    away = gone if gone is not None else set()
    terms = RunTerms(run=RUN, seed=SEED, arms=ARMS, agents=agents, rounds=rounds)
    return SharedBandit(terms, lambda connection: connection not in away)


def reward_of(agent: int, trial: int, arm: int, arms: Arms = ARMS) -> int:
    return arms.deal_one(arm, float(uniforms(SEED, agent, trial, 1)[0]))


def code_of(reply: Reply) -> Refusal:
    assert isinstance(reply, Refused)
    return reply.code


def pull_all(bandit: SharedBandit, agent: int, arms: list[int]) -> None:
    for trial, arm in enumerate(arms, start=1):
        assert isinstance(bandit.answer(HOME, Pull(agent, trial, arm), 0.0), Reward)


def test_a_hello_is_answered_with_all_that_an_agent_may_know() -> None:
    assert bandit_of().answer(HOME, Hello(2, 0), 0.0) == Welcome(RUN, 3, -1.0, 3.0, 5, 1)


def test_a_run_without_end_declares_horizon_zero() -> None:
    welcome = bandit_of(rounds=None).answer(HOME, Hello(2, 0), 0.0)
    assert isinstance(welcome, Welcome)
    assert welcome.horizon == 0


def test_a_welcome_names_the_first_trial_that_was_not_pulled() -> None:
    bandit = bandit_of()
    pull_all(bandit, 1, [0, 1])
    welcome = bandit.answer(HOME, Hello(1, 4), 0.0)
    assert isinstance(welcome, Welcome)
    assert welcome.next_trial == 3
    assert bandit.seats[1].incarnation == 4


def test_a_ping_is_answered_whoever_sends_it() -> None:
    assert bandit_of().answer(b"stranger", Ping(), 0.0) == Pong()


@pytest.mark.parametrize("request_", [Hello(3, 0), Pull(3, 1, 0), Report(3, 0, 0, 0, (), 0, False)], ids=str)
def test_an_agent_beyond_the_known_number_is_refused(request_: Request) -> None:
    reply = bandit_of(agents=3).answer(HOME, request_, 0.0)
    assert reply == Refused(Refusal.UNKNOWN_AGENT, "agents are numbered 0…2, not 3")


def test_without_a_number_of_agents_there_is_room_for_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms_module, "OPEN_AGENTS_LIMIT", 2)
    bandit = bandit_of(agents=None)
    assert isinstance(bandit.answer(HOME, Hello(65_535, 0), 0.0), Welcome)
    assert isinstance(bandit.answer(HOME, Hello(7, 0), 0.0), Welcome)
    assert code_of(bandit.answer(HOME, Hello(8, 0), 0.0)) is Refusal.UNKNOWN_AGENT
    assert isinstance(bandit.answer(HOME, Hello(7, 0), 0.0), Welcome)


def test_a_pull_pays_what_seed_agent_trial_and_arm_say() -> None:
    bandit = bandit_of()
    assert bandit.answer(HOME, Pull(2, 1, 1), 0.0) == Reward(1, 1, reward_of(2, 1, 1))
    assert bandit.take_fresh() == [(2, 1, 1, reward_of(2, 1, 1))]
    assert bandit.take_fresh() == []


def test_a_pull_asked_again_pays_the_same_and_counts_once() -> None:
    bandit = bandit_of()
    replies = {bandit.answer(HOME, Pull(0, 1, 2), 0.0) for _ in range(5)}
    assert len(replies) == 1
    assert bandit.pulls == 1
    assert len(bandit.take_fresh()) == 1


def test_the_same_trial_with_another_arm_is_refused_and_changes_nothing() -> None:
    bandit = bandit_of()
    first = bandit.answer(HOME, Pull(0, 1, 2), 0.0)
    assert code_of(bandit.answer(HOME, Pull(0, 1, 0), 0.0)) is Refusal.TRIAL_CONFLICT
    assert bandit.answer(HOME, Pull(0, 1, 2), 0.0) == first


def test_a_trial_before_its_turn_is_refused() -> None:
    reply = bandit_of().answer(HOME, Pull(0, 2, 0), 0.0)
    assert reply == Refused(Refusal.TRIAL_OUT_OF_ORDER, "the next trial of agent 0 is 1")


def test_the_trial_after_the_last_is_refused_but_old_ones_are_still_answered() -> None:
    bandit = bandit_of(rounds=2)
    pull_all(bandit, 0, [0, 1])
    assert code_of(bandit.answer(HOME, Pull(0, 3, 0), 0.0)) is Refusal.RUN_OVER
    assert isinstance(bandit.answer(HOME, Pull(0, 2, 1), 0.0), Reward)


def test_a_ledger_without_a_horizon_is_full_some_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandit_module, "LEDGER_LIMIT_PULLS", 3)
    bandit = bandit_of(rounds=None)
    pull_all(bandit, 0, [0, 0, 0])
    assert code_of(bandit.answer(HOME, Pull(1, 1, 0), 0.0)) is Refusal.RUN_OVER


def test_an_arm_that_does_not_exist_is_refused() -> None:
    reply = bandit_of().answer(HOME, Pull(0, 1, 3), 0.0)
    assert reply == Refused(Refusal.ARM_OUT_OF_RANGE, "arms are numbered 0…2, not 3")


def test_the_newest_report_of_an_agent_counts() -> None:
    bandit = bandit_of()
    old, new = Report(0, 9, 1, 1, (), 1, True), Report(0, 2, 1, 1, (), 1, False)
    assert bandit.answer(HOME, old, 0.0) == Noted(9)
    assert bandit.answer(HOME, new, 0.0) == Noted(2)
    assert bandit.seats[0].report == new
    assert not bandit.seats[0].done


def test_a_run_is_done_when_every_agent_said_so() -> None:
    bandit = bandit_of(agents=2)
    assert not bandit.all_done
    bandit.answer(HOME, Report(0, 5, 0, 0, (), 0, True), 0.0)
    assert not bandit.all_done
    bandit.answer(HOME, Report(1, 5, 0, 0, (), 0, False), 0.0)
    assert not bandit.all_done
    bandit.answer(HOME, Report(1, 5, 0, 0, (), 0, True), 0.0)
    assert bandit.all_done


def test_a_run_of_an_unknown_number_of_agents_is_never_done() -> None:
    bandit = bandit_of(agents=None)
    bandit.answer(HOME, Report(0, 5, 0, 0, (), 0, True), 0.0)
    assert not bandit.all_done


@pytest.mark.parametrize("request_", [Hello(1, 0), Pull(1, 1, 0), Report(1, 0, 0, 0, (), 0, False)], ids=str)
def test_a_second_connection_of_an_agent_is_refused_while_the_first_is_there(request_: Request) -> None:
    bandit = bandit_of()
    bandit.answer(HOME, Hello(1, 0), 0.0)
    assert bandit.answer(b"other", request_, 0.0) == Refused(
        Refusal.DUPLICATE_AGENT, "agent 1 is already connected; stop it or choose another --id"
    )
    assert isinstance(bandit.answer(HOME, Pull(1, 1, 0), 0.0), Reward)


def test_a_second_connection_takes_the_place_of_one_that_is_gone() -> None:
    gone: set[bytes] = set()
    bandit = bandit_of(gone=gone)
    bandit.answer(HOME, Hello(1, 0), 0.0)
    gone.add(HOME)
    assert isinstance(bandit.answer(b"other", Pull(1, 1, 0), 0.0), Reward)
    assert code_of(bandit.answer(b"third", Hello(1, 0), 0.0)) is Refusal.DUPLICATE_AGENT


def test_one_connection_may_speak_for_several_agents() -> None:
    bandit = bandit_of()
    assert all(isinstance(bandit.answer(HOME, Hello(agent, 0), 0.0), Welcome) for agent in range(3))


def test_when_an_agent_was_last_seen_follows_the_callers_clock_and_not_refused_strangers() -> None:
    bandit = bandit_of()
    bandit.answer(HOME, Hello(1, 0), 3.0)
    bandit.answer(b"other", Hello(1, 0), 9.0)
    assert bandit.seats[1].seen_s == 3.0


@pytest.mark.parametrize("kind", ["bernoulli", "beta"])
def test_a_dealer_deals_the_same_in_blocks_one_by_one_and_all_at_once(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bandit_module, "_BLOCKS_LIMIT", 2)  # three agents: the blocks are forgotten all the time
    arms = Arms.fixed((0.9, 0.5), kind)
    dealer = Dealer(arms, SEED)
    pulls = {agent: [trial % 2 for trial in range(600)] for agent in range(3)}
    dealt = {agent: [] for agent in pulls}
    for trial in range(600):
        for agent in pulls:
            dealt[agent].append(dealer.deal(agent, trial + 1, pulls[agent][trial]))
    for agent, rewards in dealt.items():
        assert rewards == [reward_of(agent, t + 1, a, arms) for t, a in enumerate(pulls[agent])]
        assert rewards == dealer.deal_all(agent, np.array(pulls[agent], dtype=np.uint16)).tolist()
        assert len(set(rewards)) > 1


def test_the_table_of_pulls_has_a_row_per_agent_and_a_column_per_round() -> None:
    bandit = bandit_of(agents=3, rounds=4)
    pull_all(bandit, 2, [1, 0])
    arm, reward = bandit.matrix()
    assert arm.tolist() == [[NOT_PULLED] * 4, [NOT_PULLED] * 4, [1, 0, NOT_PULLED, NOT_PULLED]]
    assert reward.tolist()[2] == [reward_of(2, 1, 1), reward_of(2, 2, 0), NO_REWARD, NO_REWARD]
    assert (arm.dtype, reward.dtype) == (np.uint16, np.int32)


def test_without_a_number_of_agents_the_table_has_rows_for_those_who_came() -> None:
    bandit = bandit_of(agents=None, rounds=None)
    pull_all(bandit, 9, [1, 0])
    pull_all(bandit, 4, [2])
    assert bandit.rows == [4, 9]
    assert bandit.matrix()[0].tolist() == [[2, NOT_PULLED], [1, 0]]


def test_a_table_that_would_be_almost_empty_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandit_module, "LEDGER_LIMIT_PULLS", 10)
    bandit = bandit_of(agents=3, rounds=5)
    pull_all(bandit, 0, [0, 0])
    assert bandit.matrix()[0].shape == (3, 2), "a horizon that is out of reach adds no columns"
    wide = bandit_of(agents=30, rounds=5)
    pull_all(wide, 0, [0, 0])
    with pytest.raises(ValueError, match="too sparse"):
        wide.matrix()


def test_group_regret_is_that_of_the_table() -> None:
    bandit = bandit_of()
    pull_all(bandit, 0, [1, 1, 2])
    pull_all(bandit, 1, [0, 2])
    assert bandit.group_regret == pytest.approx(group_regret(bandit.matrix()[0], ARMS.means))
    assert bandit.group_regret == pytest.approx(2 * 0.4 + 2 * 0.7)


def restored(arm: list[int], reward: list[int], agent: int = 0, agents: int | None = 3) -> SharedBandit:
    bandit = bandit_of(agents=agents)
    bandit.restore(agent, np.array(arm, dtype=np.uint16), np.array(reward, dtype=np.int64))
    return bandit


def test_a_restored_bandit_goes_on_where_it_was() -> None:
    arms = [2, 0, 1]
    bandit = restored(arms, [reward_of(0, trial, arm) for trial, arm in enumerate(arms, start=1)])
    assert bandit.pulls == 3
    assert bandit.take_fresh() == []
    assert bandit.answer(HOME, Pull(0, 2, 0), 0.0) == Reward(2, 0, reward_of(0, 2, 0))
    assert bandit.answer(HOME, Pull(0, 4, 1), 0.0) == Reward(4, 1, reward_of(0, 4, 1))
    assert bandit.take_fresh() == [(0, 4, 1, reward_of(0, 4, 1))]


@pytest.mark.parametrize(
    ("arm", "reward", "agent", "complaint"),
    [
        ([0], [reward_of(3, 1, 0)], 3, "may not join"),
        ([0] * 6, [reward_of(0, t, 0) for t in range(1, 7)], 0, "more pulls than the 5 rounds"),
        ([3], [0], 0, "beyond the 3"),
        ([0], [UNIT - reward_of(0, 1, 0)], 0, "not those of this run's seed"),
    ],
)
def test_pulls_that_cannot_have_been_made_are_not_restored(
    arm: list[int], reward: list[int], agent: int, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        restored(arm, reward, agent)


def test_restored_reports_count_and_those_of_strangers_are_refused() -> None:
    bandit = bandit_of(agents=1)
    bandit.restore_reports([Report(0, 5, 1, 2, (), 3, True)])
    assert bandit.all_done
    with pytest.raises(ValueError, match="agent 1 may not join"):
        bandit.restore_reports([Report(1, 5, 1, 2, (), 3, True)])


def test_terms_survive_the_way_through_json() -> None:
    for terms in (bandit_of().terms, bandit_of(agents=None, rounds=None).terms):
        assert RunTerms.from_json(terms.to_json()) == terms


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"run": "00"}, "a run id has 8 bytes"),
        ({"run": 5}, "must be str"),
        ({"seed": -1}, "--seed"),
        ({"seed": 1.5}, "not a whole number"),
        ({"agents": 0}, "--agents"),
        ({"rounds": True}, "not a whole number"),
        ({"arms": {}}, "lacks 'requested'"),
        ({"arms": 3}, "malformed"),
    ],
    ids=str,
)
def test_terms_that_cannot_be_are_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        RunTerms.from_json(bandit_of().terms.to_json() | change)


def test_terms_that_lack_something_are_refused() -> None:
    with pytest.raises(ValueError, match="lacks 'seed'"):
        RunTerms.from_json({"run": RUN.hex()})


def test_all_faults_of_terms_are_told_at_once() -> None:
    with pytest.raises(SettingsError, match=r"arms.*--agents.*--rounds.*--seed.*run id"):
        RunTerms(run=b"", seed=1 << 64, arms=Arms.fixed([0.5] * 1025), agents=0, rounds=0)


AGENTS, ROUNDS, CONNECTIONS = 3, 4, (b"a", b"b")
requests = st.one_of(
    st.builds(Pull, st.integers(0, AGENTS), st.integers(1, ROUNDS + 2), st.integers(0, 3)),
    st.builds(Hello, st.integers(0, AGENTS), st.integers(0, 1)),
    st.builds(
        lambda agent, trial, done: Report(agent, trial, 0, 0, (), 0, done),
        st.integers(0, AGENTS),
        st.integers(0, 9),
        st.booleans(),
    ),
    st.builds(Ping),
)
steps = st.lists(st.tuples(st.sampled_from(CONNECTIONS), requests, st.booleans()), max_size=60)


class Oracle:
    """What the environment must answer, said another way: one list of arms per agent, one holder per agent."""

    def __init__(self) -> None:
        self.arms: dict[int, list[int]] = {agent: [] for agent in range(AGENTS)}
        self.holder: dict[int, bytes] = {}

    def expects(self, connection: bytes, request: Request, others_gone: bool) -> object:
        if isinstance(request, Ping):
            return Pong()
        if request.agent not in self.arms:
            return Refusal.UNKNOWN_AGENT
        if self.holder.get(request.agent, connection) != connection and not others_gone:
            return Refusal.DUPLICATE_AGENT
        self.holder[request.agent] = connection
        pulled = self.arms[request.agent]
        if isinstance(request, Hello):
            return Welcome(RUN, 3, -1.0, 3.0, ROUNDS, len(pulled) + 1)
        if isinstance(request, Report):
            return Noted(request.trial)
        return self.pulls(request, pulled)

    def pulls(self, pull: Pull, pulled: list[int]) -> object:
        if pull.arm == 3:
            return Refusal.ARM_OUT_OF_RANGE
        if pull.trial > ROUNDS:
            return Refusal.RUN_OVER
        if pull.trial > len(pulled) + 1:
            return Refusal.TRIAL_OUT_OF_ORDER
        if pull.trial == len(pulled) + 1:
            pulled.append(pull.arm)
        if pulled[pull.trial - 1] != pull.arm:
            return Refusal.TRIAL_CONFLICT
        return Reward(pull.trial, pull.arm, reward_of(pull.agent, pull.trial, pull.arm))


@settings(max_examples=200, deadline=None)
@given(steps)
def test_whatever_is_asked_in_whatever_order_the_answers_are_those_of_the_oracle(
    sequence: list[tuple[bytes, Request, bool]],
) -> None:
    gone: set[bytes] = set()
    bandit, oracle = bandit_of(AGENTS, ROUNDS, gone), Oracle()
    fresh = []
    for connection, request, others_gone in sequence:
        gone.clear()
        gone.update(set(CONNECTIONS) - {connection} if others_gone else ())
        reply = bandit.answer(connection, request, 0.0)
        expected = oracle.expects(connection, request, others_gone)
        assert (reply.code if isinstance(reply, Refused) else reply) == expected
        fresh += bandit.take_fresh()
    counted = {agent: [arm for a, _, arm, _ in fresh if a == agent] for agent in range(AGENTS)}
    assert counted == oracle.arms, "every pull is handed out to be written down exactly once, in order"
    assert bandit.pulls == sum(map(len, oracle.arms.values()))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=ROUNDS, max_size=ROUNDS), st.randoms(use_true_random=False))
def test_repeated_and_reordered_requests_change_nothing(arms: list[int], chance: object) -> None:
    wanted = [Pull(0, trial, arm) for trial, arm in enumerate(arms, start=1)]
    mess = wanted * 3
    chance.shuffle(mess)  # type: ignore[attr-defined]
    bandit = bandit_of(1, ROUNDS)
    rewards = {}
    for pull in mess * ROUNDS:  # an agent asks again until it is answered
        reply = bandit.answer(HOME, pull, 0.0)
        if isinstance(reply, Reward):
            assert rewards.setdefault(reply.trial, reply) == reply
        else:
            assert code_of(reply) is Refusal.TRIAL_OUT_OF_ORDER
    assert [rewards[t].reward for t in sorted(rewards)] == [reward_of(0, t, a) for t, a in enumerate(arms, start=1)]
    assert bandit.pulls == len(bandit.take_fresh()) == ROUNDS


def test_first_trials_wait_until_every_agent_asks_for_its_own() -> None:
    bandit = SharedBandit(
        RunTerms(run=RUN, seed=7, arms=ARMS, agents=2, rounds=5), lambda _connection: True, together=True
    )
    assert bandit.answer(b"a", Pull(0, 1, 0), 0.0) == Wait(1, 1)
    assert bandit.pulls == 0
    assert isinstance(bandit.answer(b"b", Pull(1, 1, 0), 0.1), Reward)
    assert isinstance(bandit.answer(b"a", Pull(0, 1, 0), 0.2), Reward)


def test_the_run_begins_without_agents_that_stay_away() -> None:
    bandit = SharedBandit(
        RunTerms(run=RUN, seed=7, arms=ARMS, agents=2, rounds=5), lambda _connection: True, together=True
    )
    assert bandit.answer(b"a", Pull(0, 1, 0), 10.0) == Wait(1, 1)
    assert isinstance(bandit.answer(b"a", Pull(0, 1, 0), 10.0 + GATE_S), Reward)
