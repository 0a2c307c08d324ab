"""Every decision of the environment, without a socket."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from env_clients import TOKEN, hello, pull, report
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.core.grid import UNIT
from agentd.environment import run_terms as terms_module
from agentd.environment import shared_bandit as bandit_module
from agentd.environment.lives_spent import NO_LIFE
from agentd.environment.run_terms import RunTerms, declared
from agentd.environment.shared_bandit import GATE_S, Dealer, SharedBandit
from agentd.errors import PeerError
from agentd.runs.arms import Arms, uniforms
from agentd.runs.regret import NO_REWARD, NOT_PULLED, group_regret
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import (
    Hello,
    Noted,
    Ping,
    Pong,
    Pull,
    Refusal,
    Refused,
    Release,
    Released,
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
FORGED = bytes(16)


def terms_of(agents: int | None, rounds: int | None, outstanding: int) -> RunTerms:
    agreed = declared(RUN, ARMS.count, agents, rounds)
    return RunTerms(agreed=agreed, seed=SEED, arms=ARMS, max_outstanding=outstanding)


def bandit_of(agents: int | None = 3, rounds: int | None = 5, outstanding: int = 1, **more: Any) -> SharedBandit:
    """With all agents of a known number in their seats."""
    bandit = SharedBandit(terms_of(agents, rounds, outstanding), **more)
    for agent in range(agents or 0):
        bandit.answer(hello(agent), 0.0)
    return bandit


def welcome_of(next_trial: int = 1, incarnation: int = 0, horizon: int = 5, **more: int) -> Welcome:
    return replace(Welcome(declared(RUN, 3, 3, horizon), -1.0, 3.0, next_trial, incarnation, 0), **more)


def reward_of(agent: int, trial: int, arm: int, arms: Arms = ARMS) -> int:
    return arms.deal_one(arm, float(uniforms(SEED, agent, trial, 1)[0]))


def code_of(reply: Reply) -> Refusal:
    assert isinstance(reply, Refused)
    return reply.code


def pull_all(bandit: SharedBandit, agent: int, arms: list[int]) -> None:
    bandit.answer(hello(agent), 0.0)
    for trial, arm in enumerate(arms, start=1):
        assert isinstance(bandit.answer(pull(agent, trial, arm), 0.0), Reward)


def test_a_hello_is_answered_with_all_that_an_agent_may_know() -> None:
    assert bandit_of().answer(hello(2), 0.0) == welcome_of()


def test_a_run_without_end_declares_horizon_zero() -> None:
    welcome = bandit_of(rounds=None).answer(hello(2), 0.0)
    assert isinstance(welcome, Welcome)
    assert welcome.horizon == 0


def test_a_welcome_names_the_first_trial_that_was_not_pulled() -> None:
    bandit = bandit_of()
    pull_all(bandit, 1, [0, 1])
    assert bandit.answer(hello(1, 0), 0.0) == welcome_of(next_trial=3, round=2)


def test_a_welcome_tells_how_long_ago_the_first_one_was() -> None:
    bandit = SharedBandit(terms_of(3, 5, 1))
    assert isinstance(bandit.answer(pull(0, 1, 0), 3.0), Refused), "a stranger does not start the clock"
    ages = [bandit.answer(hello(agent), now_s) for agent, now_s in ((0, 10.0), (1, 12.5))]
    assert [welcome.age_ms for welcome in ages if isinstance(welcome, Welcome)] == [0, 2500]


def test_a_run_is_at_least_as_old_as_its_pulls_say() -> None:
    bandit = bandit_of()
    pull_all(bandit, 1, [0, 1, 2])
    assert bandit.least_age_s() == 0.0, "nobody agreed on an interval"
    slow = SharedBandit(replace(bandit.terms, agreed=replace(bandit.terms.agreed, interval_us=500_000)))
    assert slow.least_age_s() == 0.0
    pull_all(slow, 1, [0, 1, 2])
    assert slow.least_age_s() == 1.0


def test_a_ping_is_answered_whoever_sends_it() -> None:
    assert bandit_of().answer(Ping(), 0.0) == Pong()


@pytest.mark.parametrize("request_", [hello(3), pull(3, 1, 0), report(3, 0, 0, 0, (), 0, False)], ids=str)
def test_an_agent_beyond_the_known_number_is_refused(request_: Request) -> None:
    reply = bandit_of(agents=3).answer(request_, 0.0)
    assert reply == Refused(Refusal.UNKNOWN_AGENT, "agents are numbered 0…2, not 3")


def test_without_a_number_of_agents_there_is_room_for_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms_module, "OPEN_AGENTS_LIMIT", 2)
    bandit = bandit_of(agents=None)
    assert isinstance(bandit.answer(hello(65_535), 0.0), Welcome)
    assert isinstance(bandit.answer(hello(7), 0.0), Welcome)
    assert code_of(bandit.answer(hello(8), 0.0)) is Refusal.UNKNOWN_AGENT
    assert isinstance(bandit.answer(hello(7), 0.0), Welcome)


def test_a_pull_pays_what_seed_agent_trial_and_arm_say() -> None:
    bandit = bandit_of()
    assert bandit.answer(pull(2, 1, 1), 0.0) == Reward(1, 1, reward_of(2, 1, 1))
    assert bandit.take_fresh() == [(2, 1, 1, reward_of(2, 1, 1))]
    assert bandit.take_fresh() == []


def test_a_pull_asked_again_pays_the_same_and_counts_once() -> None:
    bandit = bandit_of()
    replies = {bandit.answer(pull(0, 1, 2), 0.0) for _ in range(5)}
    assert len(replies) == 1
    assert bandit.pulls == 1
    assert len(bandit.take_fresh()) == 1


def test_the_same_trial_with_another_arm_is_refused_and_changes_nothing() -> None:
    bandit = bandit_of()
    first = bandit.answer(pull(0, 1, 2), 0.0)
    refused = Refused(Refusal.TRIAL_CONFLICT, "trial 1 of agent 0 was another arm")
    assert [bandit.answer(pull(0, 1, arm), 0.0) for arm in (0, 1)] == [refused] * 2, "nobody learns which"
    assert bandit.answer(pull(0, 1, 2), 0.0) == first


def test_a_trial_before_its_turn_is_refused() -> None:
    reply = bandit_of().answer(pull(0, 2, 0), 0.0)
    assert reply == Refused(Refusal.TRIAL_OUT_OF_ORDER, "the next trial of agent 0 is 1")


def test_the_trial_after_the_last_is_refused_but_the_last_is_still_answered() -> None:
    bandit = bandit_of(rounds=2)
    pull_all(bandit, 0, [0, 1])
    assert code_of(bandit.answer(pull(0, 3, 0, committed=1), 0.0)) is Refusal.RUN_OVER
    assert isinstance(bandit.answer(pull(0, 2, 1), 0.0), Reward)


def test_a_ledger_without_a_horizon_is_full_some_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandit_module, "LEDGER_LIMIT_PULLS", 3)
    bandit = bandit_of(rounds=None)
    pull_all(bandit, 0, [0, 0, 0])
    assert code_of(bandit.answer(pull(1, 1, 0), 0.0)) is Refusal.RUN_OVER


def test_an_arm_that_does_not_exist_is_refused() -> None:
    reply = bandit_of().answer(pull(0, 1, 3), 0.0)
    assert reply == Refused(Refusal.ARM_OUT_OF_RANGE, "arms are numbered 0…2, not 3")


def test_the_newest_report_of_an_agent_counts() -> None:
    bandit = bandit_of()
    old, new = report(0, 9, 1, 1, (), 1, True), report(0, 2, 1, 1, (), 1, False)
    assert bandit.answer(old, 0.0) == Noted(9, 0)
    assert bandit.answer(new, 0.0) == Noted(2, 0)
    assert bandit.seats[0].report == replace(new, token=bytes(16)), "the token is not kept with it"
    assert not bandit.seats[0].done


def test_a_run_is_done_when_every_agent_said_so() -> None:
    bandit = bandit_of(agents=2)
    assert not bandit.all_done
    bandit.answer(report(0, 5, 0, 0, (), 0, True), 0.0)
    assert not bandit.all_done
    bandit.answer(report(1, 5, 0, 0, (), 0, False), 0.0)
    assert not bandit.all_done
    bandit.answer(report(1, 5, 0, 0, (), 0, True), 0.0)
    assert bandit.all_done


def test_a_run_of_an_unknown_number_of_agents_is_never_done() -> None:
    bandit = bandit_of(agents=None)
    bandit.answer(hello(0), 0.0)
    bandit.answer(report(0, 5, 0, 0, (), 0, True), 0.0)
    assert not bandit.all_done


def test_when_an_agent_was_last_seen_follows_the_callers_clock_and_not_refused_strangers() -> None:
    bandit = bandit_of()
    bandit.answer(hello(1), 3.0)
    bandit.answer(hello(1, token=FORGED), 9.0)
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
    assert bandit.answer(pull(0, 3, 1), 0.0) == Reward(3, 1, reward_of(0, 3, 1))
    assert bandit.answer(pull(0, 4, 1), 0.0) == Reward(4, 1, reward_of(0, 4, 1))
    assert bandit.take_fresh() == [(0, 4, 1, reward_of(0, 4, 1))]


def test_who_was_welcome_before_a_restart_and_has_not_pulled_yet_is_no_stranger() -> None:
    """Found by `agentd check`: every agent ended with 78 whose first pull met an environment that had restarted."""
    before = bandit_of()
    after = SharedBandit(before.terms)
    for event in before.seating.take_fresh():
        after.restore_seat(event)
    assert after.answer(pull(1, 1, 2), 0.0) == Reward(1, 2, reward_of(1, 1, 2))
    assert isinstance(after.answer(report(2, 0, 0, 0, (), 0, False), 0.0), Noted)
    assert code_of(after.answer(pull(0, 1, 2, token=FORGED), 0.0)) is Refusal.WRONG_TOKEN
    assert sorted(after.seats) == [1, 2], "who shows another token takes no place"


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
    bandit.restore_reports([(report(0, 5, 1, 2, (), 3, True), None, NO_LIFE)])
    assert bandit.all_done
    with pytest.raises(ValueError, match="agent 1 may not join"):
        bandit.restore_reports([(report(1, 5, 1, 2, (), 3, True), None, NO_LIFE)])


def test_terms_survive_the_way_through_json() -> None:
    for terms in (bandit_of().terms, bandit_of(agents=None, rounds=None).terms):
        assert RunTerms.from_json(terms.to_json()) == terms


FORMAT_1 = {
    "format": 1,
    "version": "0.1.0",
    "created": "2026-11-16T10:00:00+0000",
    "run": RUN.hex(),
    "seed": SEED,
    "arms": ARMS.to_json(),
    "agents": 3,
    "rounds": 5,
}
"""environment.json as it was before there were terms."""


def test_a_run_of_before_there_were_terms_is_taken_up_with_what_is_known_of_it() -> None:
    terms = RunTerms.from_json(FORMAT_1)
    assert (terms.run, terms.seed, terms.arms, terms.agents, terms.rounds) == (RUN, SEED, ARMS, 3, 5)
    assert terms.members == [0, 1, 2]
    assert terms.started_ms == terms.agreed.start_ms == 1_794_823_200_000
    assert terms.agreed.left_open() == ("bodies of other kinds", "other lifetimes", "trials of the future")
    assert RunTerms.from_json(FORMAT_1 | {"agents": None}).members is None
    assert RunTerms.from_json(FORMAT_1 | {"created": "yesterday"}).started_ms == 0


def test_a_run_is_as_old_as_the_time_since_it_was_first_served() -> None:
    terms = RunTerms.from_json(FORMAT_1)
    assert terms.age_ms(terms.started_ms + 1500) == 1500
    assert terms.age_ms(terms.started_ms - 1) == 0, "the clock was set back"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"seed": -1}, "--seed"),
        ({"seed": 1.5}, "not a whole number"),
        ({"started_ms": None}, "not a whole number"),
        ({"terms": {}}, "the terms must have format, run"),
        ({"terms": 5}, "must be a JSON object"),
        ({"arms": Arms.fixed((0.5,)).to_json()}, "about 3 arms, and there are 1"),
    ],
    ids=str,
)
def test_new_terms_that_cannot_be_are_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        RunTerms.from_json(bandit_of().terms.to_json() | change)


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
        RunTerms.from_json(FORMAT_1 | change)


def test_terms_that_lack_something_are_refused() -> None:
    with pytest.raises(ValueError, match="lacks 'seed'"):
        RunTerms.from_json({"run": RUN.hex()})


def test_all_faults_of_terms_are_told_at_once() -> None:
    wrong = {"run": "", "seed": 1 << 64, "arms": Arms.fixed([0.5] * 1025).to_json(), "agents": 0, "rounds": 0}
    with pytest.raises(ValueError, match=r"arms.*--agents.*--rounds.*--seed.*run id"):
        RunTerms.from_json(FORMAT_1 | wrong)


AGENTS, ROUNDS, OUTSTANDING, TOKENS = 3, 6, 2, (b"a" * 16, b"b" * 16)
a_token = st.sampled_from((TOKENS[0], *TOKENS))
requests = st.one_of(
    st.builds(
        Pull, st.integers(0, AGENTS), a_token, st.integers(1, ROUNDS + 2), st.integers(0, 3), st.integers(0, ROUNDS)
    ),
    st.builds(Hello, st.integers(0, AGENTS), a_token, st.sampled_from((None, None, 0, 1, 2))),
    st.builds(
        lambda agent, token, trial, done, *more: Report(agent, token, trial, 0, 0, (), 0, done, *more),
        st.integers(0, AGENTS),
        a_token,
        st.integers(0, 9),
        st.booleans(),
        st.integers(0, 4),
        st.integers(0, 12),
    ),
    st.builds(Release, st.integers(0, AGENTS), a_token),
    st.builds(Ping),
)
steps = st.lists(requests, max_size=60)


class Oracle:
    """What the environment must answer, said another way: lists that are searched from one end to the other."""

    def __init__(self) -> None:
        self.arms: dict[int, list[int]] = {agent: [] for agent in range(AGENTS)}
        self.secret = dict.fromkeys(range(AGENTS), ())
        self.done_with = dict.fromkeys(range(AGENTS), 0)
        self.changes: list[tuple[int, int]] = []
        self.now_s = 0.0
        self.seen_s: dict[int, float] = {}
        self.missed = dict.fromkeys(range(AGENTS), 0)
        self.finished: set[int] = set()
        self.reported_s: dict[int, list[float]] = {agent: [] for agent in range(AGENTS)}

    def told(self, agent: int) -> int:
        """The round of the second of the three, if there are two."""
        there = {each for each in self.seen_s if self.is_heard(each)} - self.finished
        rounds = sorted(len(self.arms[each]) + self.missed[each] for each in there)
        return min(ROUNDS, rounds[-2] if len(rounds) > 1 else len(self.arms[agent]) + self.missed[agent])

    def is_heard(self, agent: int) -> bool:
        """Within ten seconds, or three pauses between its last two reports."""
        *_, before_s, last_s = [math.nan, math.nan, *self.reported_s[agent]]
        within_s = max(10.0, 3 * (last_s - before_s))  # NaN is never larger
        return self.now_s - self.seen_s[agent] <= within_s

    def life(self, agent: int) -> int:
        return max((life for changed, life in self.changes if changed == agent), default=0)

    def expects(self, request: Request) -> object:
        if isinstance(request, Ping):
            return Pong()
        if isinstance(request, Release) and request.secret != TOKENS[1]:
            return Refusal.WRONG_TOKEN
        if request.agent not in self.arms:
            return Refusal.UNKNOWN_AGENT
        if isinstance(request, Release):
            self.secret[request.agent] = ()
            self.missed[request.agent] = 0
            return Released(request.agent, self.forget(request.agent) + 1)
        if isinstance(request, Hello) and not self.secret[request.agent]:
            if request.incarnation in (None, self.life(request.agent)):
                self.secret[request.agent] = (request.token,)
        elif self.secret[request.agent] != (request.token,):
            return Refusal.WRONG_TOKEN
        return self.answers(request)

    def forget(self, agent: int) -> int:
        self.done_with[agent] = len(self.arms[agent])
        return len(self.arms[agent])

    def answers(self, request: Hello | Pull | Report) -> object:
        pulled = self.arms[request.agent]
        if isinstance(request, Hello):
            if request.incarnation not in (None, self.life(request.agent)):
                return Refusal.OLD_INCARNATION
            if request.incarnation is None and self.forget(request.agent) != self.life(request.agent):
                self.changes.append((request.agent, len(pulled)))
            self.seen_s[request.agent] = self.now_s
            return welcome_of(len(pulled) + 1, self.life(request.agent), ROUNDS, round=self.told(request.agent))
        self.seen_s[request.agent] = self.now_s
        said = request.trial if isinstance(request, Report) else request.committed
        self.done_with[request.agent] = max(self.done_with[request.agent], min(said, len(pulled)))
        if isinstance(request, Report):
            known = request.returns if request.returns <= len(self.changes) else 0
            unheard = self.changes[known:]
            newest = [change for n, change in enumerate(unheard) if change[0] not in dict(unheard[n + 1 :])]
            self.missed[request.agent] = max(0, request.round - request.trial)
            self.finished = self.finished | {request.agent} if request.done else self.finished - {request.agent}
            self.reported_s[request.agent].append(self.now_s)
            return Noted(request.trial, len(self.changes), tuple(newest), self.told(request.agent))
        return self.pulls(request, pulled)

    def pulls(self, pull: Pull, pulled: list[int]) -> object:
        if pull.arm == 3:
            return Refusal.ARM_OUT_OF_RANGE
        if pull.trial > ROUNDS:
            return Refusal.RUN_OVER
        done_with = self.done_with[pull.agent]
        if pull.trial > len(pulled) + 1 or pull.trial <= max(done_with, pull.committed):
            return Refusal.TRIAL_OUT_OF_ORDER
        if pull.trial == len(pulled) + 1:
            if len(pulled) - done_with >= OUTSTANDING:
                return Refusal.TRIAL_OUT_OF_ORDER
            pulled.append(pull.arm)
        if pulled[pull.trial - 1] != pull.arm:
            return Refusal.TRIAL_CONFLICT
        return Reward(pull.trial, pull.arm, reward_of(pull.agent, pull.trial, pull.arm))


@settings(max_examples=300, deadline=None)
@given(steps)
def test_whatever_is_asked_in_whatever_order_the_answers_are_those_of_the_oracle(sequence: list[Request]) -> None:
    terms = terms_of(AGENTS, ROUNDS, OUTSTANDING)
    bandit, oracle = SharedBandit(terms, operator=TOKENS[1]), Oracle()
    fresh = []
    for oracle.now_s, request in enumerate(sequence):
        reply = bandit.answer(request, oracle.now_s)
        if isinstance(reply, Welcome):
            reply = replace(reply, age_ms=0)
        expected = oracle.expects(request)
        assert (reply.code if isinstance(reply, Refused) else reply) == expected
        fresh += bandit.take_fresh()
    counted = {agent: [arm for a, _, arm, _ in fresh if a == agent] for agent in range(AGENTS)}
    assert counted == oracle.arms, "every pull is handed out to be written down exactly once, in order"
    assert bandit.pulls == sum(map(len, oracle.arms.values()))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=ROUNDS, max_size=ROUNDS), st.randoms(use_true_random=False))
def test_repeated_and_reordered_requests_change_nothing(arms: list[int], chance: object) -> None:
    wanted = [pull(0, trial, arm, committed=0) for trial, arm in enumerate(arms, start=1)]
    mess = wanted * 3
    chance.shuffle(mess)  # type: ignore[attr-defined]
    bandit = bandit_of(1, ROUNDS, outstanding=ROUNDS)
    rewards = {}
    for asked in mess * ROUNDS:  # an agent asks again until it is answered
        reply = bandit.answer(asked, 0.0)
        if isinstance(reply, Reward):
            assert rewards.setdefault(reply.trial, reply) == reply
        else:
            assert code_of(reply) is Refusal.TRIAL_OUT_OF_ORDER
    assert [rewards[t].reward for t in sorted(rewards)] == [reward_of(0, t, a) for t, a in enumerate(arms, start=1)]
    assert bandit.pulls == len(bandit.take_fresh()) == ROUNDS


def test_first_trials_wait_until_every_agent_asks_for_its_own() -> None:
    bandit = bandit_of(2, together=True)
    assert bandit.answer(pull(0, 1, 0), 0.0) == Wait(1, 1)
    assert bandit.pulls == 0
    assert isinstance(bandit.answer(pull(1, 1, 0), 0.1), Reward)
    assert isinstance(bandit.answer(pull(0, 1, 0), 0.2), Reward)


def test_the_run_begins_without_agents_that_stay_away() -> None:
    bandit = bandit_of(2, together=True)
    assert bandit.answer(pull(0, 1, 0), 10.0) == Wait(1, 1)
    assert isinstance(bandit.answer(pull(0, 1, 0), 10.0 + GATE_S), Reward)


def test_whatever_can_be_decoded_is_answered_with_something_that_can_be_encoded() -> None:
    """A hundred thousand of them: mutants of sound requests that the wire lets through, at a bandit with seats."""
    dice, bandit = random.Random(3), bandit_of(3, 5, operator=TOKEN)
    seeds = [hello(1), hello(1, 0), pull(1, 1, 0), report(1, 1, 0, 0, (("a", 1),), 0, False), Release(1, FORGED)]
    answered = 0
    for _ in range(100_000):
        data = bytearray(encode_environment(dice.choice(seeds)))
        data[dice.randrange(3, len(data))] = dice.choice((0, 1, 2, 3, 0xC0, dice.randrange(256)))
        try:
            request = decode_environment(bytes(data))
        except PeerError:
            continue
        assert encode_environment(bandit.answer(request, 0.0))
        answered += 1
    assert answered > 50_000
    assert len(bandit.seats) == 3
