"""PROTOCOL.md suffices: a client of forty lines that shares no code with us is understood by an agent."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from agentd_processes import Process, agent_arguments
from loopback import LONG_S, StandIn, events, free_address
from small_runs import totals

from agentd.core.agent import Agent
from agentd.core.grid import UNIT
from agentd.core.message import Message
from agentd.core.policy import PolicySettings, make_policy
from agentd.core.terms import Terms
from agentd.runs.arms import Arms

CLIENT = Path(__file__).parent / "independent_client.py"
ROUNDS = 200


def test_the_client_is_short_and_knows_nothing_of_ours() -> None:
    source = CLIENT.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 40
    imported = {node.names[0].name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import)}
    assert imported == {"msgpack", "struct", "sys", "zmq"}
    assert not [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]


def imagined(environment: StandIn, praised: int | None) -> list[int]:
    """The arms of an agent, without any wire, that is told each round that one arm always pays, or told nothing."""
    policy = make_policy("coop-ucb", PolicySettings(arms=3), 1)
    agent, arms = Agent(1, policy, terms=Terms(3, 1)), []
    for trial in range(1, ROUNDS + 1):
        arms.append(agent.choose().arm)
        agent.advance(environment.reward(1, trial, arms[-1])).committed()
        if praised is not None:
            body = [number for arm in range(3) for number in ((trial, trial * UNIT) if arm == praised else (0, 0))]
            agent.receive([totals(Message(2, trial, 1, tuple(body)))])
    return arms


@pytest.mark.system
def test_an_agent_acts_on_what_the_client_tells_exactly_as_if_a_neighbour_of_ours_had_told_it(log_file: Path) -> None:
    own, other, praised = free_address(), free_address(), 2
    with StandIn(free_address(), arms=Arms.fixed((0.5, 0.5, 0.2)), horizon=ROUNDS) as environment:
        client = subprocess.Popen([sys.executable, str(CLIENT), other, own, str(praised), "3"])
        try:
            flags = {"algorithm": "coop-ucb", "gamma": 1, "log_file": log_file, "round_timeout": LONG_S}
            with Process(*agent_arguments(1, own, environment.address, {2: other}, **flags)) as agent:
                assert agent.wait() == 0, agent.errors
            assert client.wait(LONG_S) == 0
        finally:
            client.kill()
            client.wait()
    arms = list(environment.pulls[1].values())
    assert arms == imagined(environment, praised)
    assert arms.count(praised) > 2 * imagined(environment, None).count(praised)  # it made a difference
    (done,) = events(log_file, "done")
    assert done["heard"] == ROUNDS - 1  # one message in every round but the last, which nobody waits for
    assert done["dropped"] == {}
