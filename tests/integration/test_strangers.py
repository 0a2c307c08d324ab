"""What somebody who is let in, and is no agent, can do to memory and to others with messages alone: little.

The floods come from a process of its own, over TCP. What libzmq does not let us bound is in SECURITY.md, with figures.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import raw_zmtp
import zmq
from env_clients import PATIENCE_S, dealers, hello, pull, serving
from evidence import cpu_s_of
from loopback import RUN, free_address, rss_mb
from loopback_fixtures import Context
from raw_zmtp import message
from structlog.typing import FilteringBoundLogger

from agentd.shell.doors.admission import admission_of_agent
from agentd.shell.doors.door import Door
from agentd.shell.link import Link
from agentd.shell.transport import ZmqTransport
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import Reward, Welcome

MOST_MB = 50.0
FREEZE_S = 0.5
"""The most work that may come between an honest request and its answer, or that one round may take."""
SIZES = [30_000, pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.timeout(600)])]


def cpu_s_of_process(number: int) -> float:
    """What a process has worked: on a busy machine an answer may take long though nobody holds it up."""
    fields = Path(f"/proc/{number}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def flood(address: str, kind: str, number: int, *parts: bytes) -> Iterator[subprocess.Popen[bytes]]:
    """Somebody who sends so many parts in all, in messages like this one, as fast as they are taken."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    words = [host, port, kind, str(number // len(parts)), message(*parts).hex()]
    with subprocess.Popen([sys.executable, raw_zmtp.__file__, *words]) as stranger:
        try:
            yield stranger
        finally:
            stranger.kill()


@pytest.mark.parametrize("number", SIZES)
@pytest.mark.parametrize(
    "parts",
    [[encode_environment(hello(1, token=b"another token 16"))], [b"garbage"], [b""] * 10],
    ids=["hello", "garbage", "multipart"],
)
def test_a_flood_of_requests_neither_fills_the_environment_nor_holds_others_up(parts: list[bytes], number: int) -> None:
    with serving("--arms", "0.9,0.1", "--agents", "2", "--log-file", os.devnull) as served:
        with dealers(served.address) as [honest]:
            honest.send(encode_environment(hello(0)))
            assert isinstance(decode_environment(honest.recv()), Welcome)
            before, most, trial, longest_s = rss_mb(served.process.pid), 0.0, 0, 0.0
            with flood(served.address, "DEALER", number, *parts) as stranger:
                while stranger.poll() is None:
                    trial += 1
                    spent_s = cpu_s_of_process(served.process.pid)
                    honest.send(encode_environment(pull(0, trial, 0)))
                    assert honest.poll(1000 * PATIENCE_S)
                    assert isinstance(decode_environment(honest.recv()), Reward)
                    longest_s = max(longest_s, cpu_s_of_process(served.process.pid) - spent_s)
                    most = max(most, rss_mb(served.process.pid) if trial % 20 == 0 else 0.0)
            assert most - before < MOST_MB
            assert longest_s < FREEZE_S
        assert served.end(15) == 0


class Pair:
    """Two links over TCP in lockstep, of which the first admits strangers from this machine."""

    def __init__(self, contexts: list[Context], log: FilteringBoundLogger) -> None:
        self._stop = asyncio.Event()
        self.places = [free_address() for _ in contexts]
        self.links = []
        for own, context in enumerate(contexts):
            admission = admission_of_agent(context, self.places[own], [self.places[1 - own]], (), log)
            door = Door(self.places[own], admission)
            transport = ZmqTransport(context, own=own, door=door, peers={1 - own: self.places[1 - own]})
            self.links.append(Link(transport, own=own, log=log))
            self.links[own].introduce(run=RUN, arms=2, incarnation=0, round_=0)
        self.round = 0

    async def ready(self) -> None:
        await asyncio.gather(*(link.wait_until_ready(PATIENCE_S, self._stop, some_needed=True) for link in self.links))

    async def play(self) -> None:
        """One round of both."""
        self.round += 1
        for link in self.links:
            link.publish(self.round, ())
        for link in self.links:
            await link.gather(PATIENCE_S, self._stop)

    def close(self) -> None:
        for link in self.links:
            link.close()


@pytest.fixture
def pair(log: FilteringBoundLogger) -> Iterator[Pair]:
    contexts: list[Context] = [zmq.Context(), zmq.Context()]
    made = Pair(contexts, log)
    yield made
    made.close()
    for context in contexts:
        context.term()


@pytest.mark.parametrize("number", SIZES)
@pytest.mark.parametrize(
    ("parts", "reason"),
    [([b"garbage"], "topic"), ([b"x" * 60], "topic"), ([b""] * 10, "multipart")],
    ids=["small", "long", "multipart"],
)
def test_a_flood_of_messages_upstream_neither_fills_an_agent_nor_holds_up_its_rounds(
    parts: list[bytes], reason: str, number: int, pair: Pair
) -> None:
    with asyncio.Runner() as runner:
        runner.run(pair.ready())
        before, most, longest_s, dropped = rss_mb(os.getpid()), 0.0, 0.0, pair.links[0].dropped
        with flood(pair.places[0], "SUB", number, *parts) as stranger:
            under_it = 0
            while stranger.poll() is None and under_it < number // 100:  # it is slowed down, and may take minutes
                under_it += bool(dropped)
                longest_s = max(longest_s, cpu_s_of(lambda: runner.run(pair.play())))
                most = max(most, rss_mb(os.getpid()) if pair.round % 20 == 0 else 0.0)
        assert most - before < MOST_MB
        assert longest_s < FREEZE_S
        assert dropped.keys() == {reason}
