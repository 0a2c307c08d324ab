"""How many agents share a process."""

from __future__ import annotations

import pytest

from agentd.errors import SettingsError
from deploy.plan.hosts import FILES_OF_ITS_OWN, files_of, members, per_process_of

MANY = 1 << 20


def test_auto_makes_one_process_for_each_core() -> None:
    assert per_process_of("auto", 200, cores=2, files=MANY, state=False) == 100
    assert per_process_of("auto", 201, cores=2, files=MANY, state=False) == 101
    assert per_process_of("auto", 1, cores=8, files=MANY, state=False) == 1


def test_auto_makes_more_where_a_process_may_not_open_enough_files() -> None:
    per_process = per_process_of("auto", 10_000, cores=2, files=4_096, state=False)
    hosts = -(-10_000 // per_process)
    assert files_of(per_process, hosts, 1) <= 4_096
    assert per_process_of("auto", 10_000, cores=2, files=4_096, state=True) < per_process


@pytest.mark.parametrize(
    ("agents", "state", "hosts"),
    [(200, False, 2), (2_000, True, 2), (10_000, False, 2), (10_000, True, 2), (60_000, False, 4), (60_000, True, 10)],
)
def test_auto_goes_by_cores_and_by_what_two_of_them_may_open_under_a_hard_limit_of_twenty_thousand(
    agents: int, state: bool, hosts: int
) -> None:
    per_process = per_process_of("auto", agents, cores=2, files=20_000, state=state)
    assert -(-agents // per_process) == hosts
    assert files_of(per_process, hosts, 3 if state else 1) <= 20_000


def test_a_number_is_taken_as_it_is_up_to_all_agents() -> None:
    assert per_process_of("50", 200, cores=2, files=MANY, state=False) == 50
    assert per_process_of("500", 200, cores=2, files=MANY, state=False) == 200


def test_what_does_not_fit_is_refused_with_what_to_do() -> None:
    with pytest.raises(SettingsError, match="--per-process auto, fewer agents in a process, or raise the limit"):
        per_process_of("2000", 2000, cores=2, files=1024 + FILES_OF_ITS_OWN, state=False)
    with pytest.raises(SettingsError, match="put more agents into each"):
        per_process_of("2", 5000, cores=2, files=MANY, state=False)


def test_every_agent_is_in_one_process() -> None:
    every = [agent for host in range(4) for agent in members(host, 3, 10)]
    assert every == list(range(10))
