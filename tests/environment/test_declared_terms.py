"""The terms of a run: from flags, from a file, from a draft of a launcher, and as the run directory has them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentd.cli.env import environment_settings
from agentd.core.terms import Clock, PolicyTerms, Terms
from agentd.environment.run_terms import RunTerms, declared
from agentd.environment.service import EnvironmentSettings, settle
from agentd.errors import ConfigurationError, SettingsError
from agentd.runs.arms import Arms
from agentd.terms_file import terms_to_json, write_terms_file

ARMS = Arms.fixed((0.9, 0.5))
POLICY = PolicyTerms("private-ucb", 1, 1.0, 1.1, ((0, 2),))
DRAFT = Terms(arms=2, lifetime=2, horizon=50, clock=Clock.LOCKSTEP, policies=(POLICY,))
DRAWN = replace(DRAFT, run=b"run id 1", start_ms=5, beacon=bytes(range(32)))


def settings_with(**changes: Any) -> EnvironmentSettings:
    return EnvironmentSettings(**({"listen": "tcp://127.0.0.1:0", "arms": ARMS, "seed": 7} | changes))


def test_a_number_of_agents_says_who_takes_part_and_leaves_open_with_what() -> None:
    agreed = settle(settings_with(agents=3, rounds=50), None).agreed
    assert agreed.policies == (PolicyTerms("", None, None, None, ((0, 2),)),)
    assert (agreed.arms, agreed.horizon, agreed.lifetime, agreed.clock) == (2, 50, None, Clock.OPEN)
    assert agreed.drawn
    assert any(agreed.beacon)


def test_without_a_number_whoever_comes_takes_part() -> None:
    terms = settle(settings_with(), None)
    assert (terms.members, terms.agents, terms.rounds) == (None, None, None)
    assert not terms.agreed.closed


def test_a_run_begins_when_it_is_first_served() -> None:
    terms = settle(settings_with(), None)
    assert terms.started_ms == terms.agreed.start_ms > 0
    assert settle(settings_with(terms=DRAWN), None).agreed == DRAWN, "what others hold, too, is not changed"


def test_a_draft_is_completed_by_chance_and_by_what_the_launcher_knows() -> None:
    first, second = (settle(settings_with(terms=DRAFT), None).agreed for _ in range(2))
    assert first.run != second.run
    assert first.beacon != second.beacon
    assert replace(first, run=DRAFT.run, start_ms=0, beacon=DRAFT.beacon) == DRAFT
    assert settle(settings_with(terms=DRAFT, run=b"run id 9"), None).agreed.run == b"run id 9"
    seeded = replace(DRAFT, beacon=bytes(range(32)))
    assert settle(settings_with(terms=seeded), None).agreed.beacon == bytes(range(32))


def test_a_run_is_taken_up_under_the_draft_that_it_was_made_of() -> None:
    stored = RunTerms(agreed=DRAWN, seed=7, arms=ARMS, started_ms=5)
    assert settle(settings_with(terms=DRAFT), stored) == stored
    with pytest.raises(ConfigurationError, match=r"in its terms lifetime is 2, not 3"):
        settle(settings_with(terms=replace(DRAFT, lifetime=3)), stored)


def test_a_run_of_before_there_were_terms_stays_as_open_as_it_was() -> None:
    stored = RunTerms(agreed=declared(b"run id 1", 2, 3, 50), seed=7, arms=ARMS)
    assert settle(settings_with(terms=DRAFT), stored) == stored
    with pytest.raises(ConfigurationError, match="in its terms lifetime is open, not 2"):
        settle(settings_with(terms=DRAWN), stored)


def test_to_wait_for_all_who_take_part_one_must_know_who_they_are() -> None:
    assert settings_with(terms=DRAWN, until_done=True).until_done
    with pytest.raises(SettingsError, match="--until-done needs --agents or --terms"):
        settings_with(terms=Terms(arms=2, lifetime=None), until_done=True)


@pytest.mark.parametrize(("agent", "admitted"), [(0, True), (2, True), (3, False), (7, True), (8, False)])
def test_only_who_takes_part_is_admitted(agent: int, admitted: bool) -> None:
    terms = replace(DRAWN, policies=(replace(POLICY, ids=((0, 2), (7, 7))),))
    run = RunTerms(agreed=terms, seed=7, arms=ARMS)
    assert run.admits(agent, 0) == admitted
    assert (run.members, run.agents, run.members_text) == ([0, 1, 2, 7], 4, "0…2, 7")


def flags_with(**changes: Any) -> EnvironmentSettings:
    nothing = dict.fromkeys(("arms", "random_arms", "arm_range", "reward", "bounds", "seed", "agents", "rounds"))
    more = {"listen": "tcp://127.0.0.1:0", "run_dir": None, "log_file": None}
    return environment_settings(**(nothing | more | changes))


def test_the_command_line_takes_terms_from_a_file_and_as_many_arms_as_they_say(tmp_path: Path) -> None:
    write_terms_file(tmp_path / "terms.json", DRAWN)
    settings = flags_with(terms=str(tmp_path / "terms.json"))
    assert settings.terms == DRAWN
    assert (settings.arms.count, settings.agents, settings.rounds, settings.run) == (2, 3, 50, b"run id 1")


def test_the_command_line_takes_a_draft_as_launchers_write_it() -> None:
    text = json.dumps(terms_to_json(DRAFT))
    settings = flags_with(terms=text, run="0011223344556677")
    assert settings.terms is not None
    assert settings.terms.run.hex() == "0011223344556677"
    assert settings.terms.policies == DRAFT.policies
    with pytest.raises(ConfigurationError, match="cannot take the terms in --terms"):
        flags_with(terms="{" + text)
