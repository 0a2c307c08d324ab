"""Agents with keys on real sockets, one of them hostile: no forgery is believed or counts for long; lies are proved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from agentd_processes import Process
from hostile_company import EVERY, GAMMA, Company
from keyed_world import World
from loopback_fixtures import Addresses
from structlog.typing import FilteringBoundLogger

from agentd.keys.equivocation import parse_proof

pytestmark = pytest.mark.system


def attacked(
    place: Path,
    addresses: Addresses,
    log: FilteringBoundLogger,
    algorithm: str,
    *,
    agents: int,
    rounds: int,
    number: int,
) -> Company:
    """Let a company play with so many messages of its hostile member in each round; everything that must hold does."""
    world = World(place, range(agents))
    world.publish(replace(world.roster(), signatures=True))
    company = Company(world, algorithm, {own: addresses[own] for own in range(agents)}, log, rounds // 2)
    try:
        company.play(rounds, number)
    finally:
        company.close()
    assert [member.agent.trial for member in company.honest] == [rounds] * (agents - 1), "nobody ends"
    assert company.believed[True] > agents
    assert company.believed[False] == 0, "no forgery is found genuine"
    assert company.longest <= (0 if algorithm == "sealed" else EVERY)
    assert company.forgers == {agents - 1}, "whoever would be cut off is hostile"
    dropped = sum((member.agent.dropped for member in company.honest[1:]), company.honest[0].agent.dropped)
    assert dropped["forged"] > 0
    assert dropped["unsigned"] > 0
    assert len(company.proved_in) >= 4, "whoever hears it has a proof"
    assert max(company.proved_in.values()) <= rounds // 2 + GAMMA + 1
    return company


@pytest.mark.parametrize("algorithm", ["sealed", "coop-ucb", "byzantine-ucb"])
def test_a_hostile_agent_with_a_valid_key_is_believed_in_nobody_elses_name(
    algorithm: str, tmp_path: Path, addresses: Addresses, log: FilteringBoundLogger
) -> None:
    company = attacked(tmp_path, addresses, log, algorithm, agents=6, rounds=40, number=20)
    member = min(company.proved_in)
    proof = parse_proof(Path(f"{company.world.key_file(member)}.proof-5.json").read_bytes())
    assert proof.fault() is None
    assert proof.roster.fingerprint == company.world.fingerprint


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("algorithm", ["sealed", "coop-ucb", "byzantine-ucb"])
def test_of_a_million_hostile_messages_among_twenty_agents_none_is_believed(
    algorithm: str, tmp_path: Path, addresses: Addresses, log: FilteringBoundLogger
) -> None:
    company = attacked(tmp_path, addresses, log, algorithm, agents=20, rounds=520, number=2000)
    assert company.hostile.sent >= 1_000_000
    proof = f"{company.world.key_file(min(company.proved_in))}.proof-19.json"
    with Process("roster", "judge", proof, "--operator-fingerprint", company.world.fingerprint) as judge:
        assert judge.wait(120) == 0, judge.errors
        assert judge.output.startswith("proved: agent 19 has signed two different messages")
