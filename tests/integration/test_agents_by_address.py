"""Two agents and their environment as processes, whatever their addresses look like."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from agentd_processes import Process, agent_arguments
from loopback import events, free_address

from agentd.shell.resolve import has_ipv6

ROUNDS = 30
needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


@pytest.fixture
def place() -> Iterator[Path]:
    with TemporaryDirectory(prefix="agentd.") as directory:  # short enough for ipc
        yield Path(directory)


def port() -> str:
    return free_address().rpartition(":")[2]


def take_part(place: Path, listen: list[str], reach: list[str], *flags: str) -> list[list[str]]:
    """Run an environment and two agents to their end; what the logs of the agents say was missing at the start.

    Each listens at one address and is reached at another; the environment is the last one.
    """
    served = ("env", "--arms", "0.9,0.1", "--agents", "2", "--rounds", str(ROUNDS), "--until-done", "--json", *flags)
    logs = [place / f"{own}.jsonl" for own in (0, 1)]
    with ExitStack() as stack:
        environment = stack.enter_context(Process(*served, "--listen", listen[2]))
        environment.said()
        agents = []
        for own, other in ((0, 1), (1, 0)):
            words = agent_arguments(own, listen[own], reach[2], {other: reach[other]}, log_file=logs[own])
            agents.append(stack.enter_context(Process(*words, *flags)))
        assert [agent.wait() for agent in agents] == [0, 0], [agent.errors for agent in agents]
        assert environment.wait() == 0, environment.errors
        summary = json.loads(environment.output)
    assert (summary["pulls"], summary["agents_done"]) == (2 * ROUNDS, 2)
    assert summary["messages"] > 0
    return [[entry["event"] for entry in events(log) if entry["level"] != "info"] for log in logs]


def test_over_ipc_and_nothing_is_left_behind(place: Path) -> None:
    there = [f"ipc://{place}/{name}" for name in ("0", "1", "env")]
    take_part(place, there, there)
    assert sorted(path.name for path in place.iterdir()) == ["0.jsonl", "1.jsonl"]


@needs_ipv6
def test_over_ipv6(place: Path) -> None:
    there = [f"tcp://[::1]:{port()}" for _ in range(3)]
    take_part(place, there, there)


@needs_ipv6
def test_over_both_where_all_listen_everywhere(place: Path) -> None:
    """The first is reached over IPv6 and reaches the other over IPv4; each admits the address that it reaches."""
    ports = [port() for _ in range(3)]
    reach = [f"tcp://[::1]:{ports[0]}", f"tcp://127.0.0.1:{ports[1]}", f"tcp://[::1]:{ports[2]}"]
    listen = [f"tcp://*:{number}" for number in ports]
    take_part(place, listen, reach, "--insecure", "--admit", "127.0.0.1,::1")


def test_by_name(place: Path) -> None:
    ports = [port() for _ in range(3)]
    listen, reach = ([f"tcp://{host}:{number}" for number in ports] for host in ("127.0.0.1", "localhost"))
    warnings = take_part(place, listen, reach)
    assert "connection refused" not in warnings[0] + warnings[1]
