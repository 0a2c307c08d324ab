"""Terms only narrow what an agent's operator has allowed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentd.core.terms import Clock, PolicyTerms, Terms
from agentd.errors import ConfigurationError
from agentd.settings import AgentSettings
from agentd.shell.agreement import agree, assumed, file_terms, narrowed, said_for
from agentd.shell.json_log import Log
from agentd.terms_file import write_terms_file

POLICY = PolicyTerms("private-ucb", 1, 1.0, 1.1, ((0, 3),))
TERMS = Terms(run=b"run id 1", arms=3, lifetime=2, horizon=100, clock=Clock.LOCKSTEP, start_ms=5, policies=(POLICY,))


def settings_with(**changes: Any) -> AgentSettings:
    plain = {"id": 1, "listen": "tcp://127.0.0.1:7001", "environment": "tcp://127.0.0.1:7000"}
    return AgentSettings(**({"algorithm": "private-ucb"} | plain | changes))


def terms_with(**changes: Any) -> Terms:
    policy = {name: changes.pop(name) for name in ("algorithm", "tag", "epsilon", "v", "ids") if name in changes}
    return replace(TERMS, policies=(replace(POLICY, **policy),), **changes)


def test_terms_that_are_the_settings_change_only_the_horizon() -> None:
    settings, adopted = narrowed(settings_with(), TERMS)
    assert adopted == {"rounds": 100}
    assert settings == settings_with(rounds=100)


@pytest.mark.parametrize(
    ("settings", "terms", "complaint"),
    [
        ({}, {"ids": ((2, 3),)}, "agent 1 does not take part (--id)"),
        ({}, {"algorithm": "ucb1", "tag": 0}, "this agent runs ucb1 (--algorithm ucb1), not private-ucb"),
        (
            {},
            {"algorithm": "", "tag": 3},
            "this agent sends bodies of kind 3, and private-ucb (--algorithm) those of 1",
        ),
        ({}, {"epsilon": 1.5}, "ε is 1.5 (--epsilon 1.5), more than 1"),
        ({}, {"algorithm": "", "epsilon": 1.5}, "ε is 1.5 (--epsilon 1.5), more than 1"),
        ({}, {"epsilon": None}, "this agent adds no noise, and private-ucb (--algorithm) does, for an ε of 1"),
        ({}, {"v": 1.2}, "v is 1.2 (--v 1.2), not 1.1"),
        ({"gamma": 1}, {}, "messages live 2 hops (--gamma 2), not 1"),
        ({}, {"lifetime": 3}, "messages live 3 hops (--gamma 3), not 2"),
        ({"clock": "free"}, {}, "the clock is lockstep (--clock lockstep), not free"),
        ({}, {"clock": Clock.FREE}, "the clock is free (--clock free), not lockstep"),
    ],
    ids=str,
)
def test_what_the_operator_did_not_allow_ends_the_agent(
    settings: dict[str, Any], terms: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError) as fault:
        narrowed(settings_with(**settings), terms_with(**terms))
    assert complaint in str(fault.value)
    assert fault.value.exit_code == 78


def test_everything_that_is_beyond_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"--epsilon 2.*--v 1\.3.*--gamma 9.*--clock free"):
        narrowed(settings_with(), terms_with(epsilon=2.0, v=1.3, lifetime=9, clock=Clock.FREE))


@pytest.mark.parametrize(
    ("settings", "terms", "adopted"),
    [
        ({"rounds": 50}, {}, {}),
        ({"rounds": 200}, {}, {"rounds": 100}),
        ({"rounds": 50}, {"horizon": 0}, {}),
        ({"rounds": 100}, {"epsilon": 0.25}, {"epsilon": 0.25}),
        ({"rounds": 100, "algorithm": "ucb1"}, {"algorithm": "ucb1", "tag": 0, "epsilon": 0.25, "v": 1.3}, {}),
        (
            {"rounds": 100, "clock": "free", "interval_s": 0.5},
            {"clock": Clock.FREE, "interval_us": 2_000_000},
            {"interval_s": 2.0},
        ),
        ({"rounds": 100, "clock": "free", "interval_s": 5.0}, {"clock": Clock.FREE, "interval_us": 2_000_000}, {}),
    ],
    ids=str,
)
def test_what_is_narrower_is_adopted(settings: dict[str, Any], terms: dict[str, Any], adopted: dict[str, Any]) -> None:
    before = settings_with(**settings)
    after, found = narrowed(before, terms_with(**terms))
    assert found == adopted
    assert after == replace(before, **adopted)


def test_an_open_run_changes_nothing_and_is_taken_to_be_as_oneself() -> None:
    settings = settings_with(gamma=4, epsilon=0.5, clock="free", interval_s=0.25)
    nothing = Terms(run=b"run id 1", arms=3, lifetime=None)
    assert narrowed(settings, nothing) == (settings, {})
    taken = assumed(settings, nothing)
    assert (taken.lifetime, taken.clock, taken.closed) == (4, Clock.FREE, False)
    assert taken.assumed is not None
    assert (taken.assumed.epsilon, taken.assumed.v) == (0.5, 1.1)
    assert taken.interval_us == 0, "others may pull more often than we do"


def test_agents_of_whom_nothing_is_known_are_taken_to_add_the_same_noise() -> None:
    anybody = terms_with(algorithm="", tag=None, epsilon=None, v=None, lifetime=None, clock=Clock.OPEN)
    (policy,) = assumed(settings_with(epsilon=0.5, v=1.3), anybody).policies
    assert policy == PolicyTerms("", None, 0.5, 1.3, ((0, 3),))
    assert assumed(settings_with(epsilon=3.0), TERMS).policies == TERMS.policies


def test_terms_say_for_one_agent_what_is_said_of_it() -> None:
    assert said_for(1, TERMS) == {
        "algorithm": "private-ucb", "epsilon": 1.0, "v": 1.1, "gamma": 2, "clock": "lockstep", "rounds": 100,
    }  # fmt: skip
    free = terms_with(algorithm="ucb1", epsilon=None, v=None, lifetime=None, clock=Clock.FREE, interval_us=250_000)
    assert said_for(0, free) == {"algorithm": "ucb1", "clock": "free", "interval_s": 0.25, "rounds": 100}
    assert said_for(9, Terms(arms=2, lifetime=None)) == {}


def test_the_terms_of_the_environment_must_be_those_of_the_file(tmp_path: Path, log: Log) -> None:
    write_terms_file(tmp_path / "terms.json", TERMS)
    settings = settings_with(terms=str(tmp_path / "terms.json"))
    own = file_terms(settings)
    assert agree(settings, TERMS, own, log) == (replace(settings, rounds=100), TERMS)
    with pytest.raises(ConfigurationError, match=r"there horizon is 100, not 99 here") as fault:
        agree(settings, replace(TERMS, horizon=99), own, log)
    assert fault.value.exit_code == 78


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"run": b"run id 2"}, "run is 72756e2069642031, not 72756e2069642032"),
        ({"lifetime": None}, "lifetime is 2, not open"),
        ({"policies": ()}, "there are 1 policies, not 0"),
        ({"policies": (replace(POLICY, epsilon=0.5),)}, "epsilon of agents from 0 on is 1.0, not 0.5"),
        ({"policies": (replace(POLICY, ids=((0, 1), (3, 3))),)}, "ids of agents from 0 on is 0…3, not 0…1, 3"),
    ],
    ids=str,
)
def test_the_first_difference_is_named(log: Log, change: dict[str, Any], difference: str) -> None:
    with pytest.raises(ConfigurationError) as fault:
        agree(settings_with(), replace(TERMS, **change), TERMS, log)
    assert difference in str(fault.value)
