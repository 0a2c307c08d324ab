"""A process that is busy with its agents does not take the environment for silent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import zmq

from agentd.shell.host.desk import LONGEST_LOOK_S, RENEW_EVERY_S, Desk, HostedClient
from agentd.shell.host.waits import Waits
from agentd.shell.json_log import open_log


class Clock(Waits):
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.time_s = 100.0
        self.now_s = lambda: self.time_s


class Counted:
    """A route that counts how often it is taken anew."""

    renewed = 0

    def renew(self) -> None:
        self.renewed += 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def desk(clock: Clock, tmp_path: Path) -> Desk:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    desk = Desk(context, f"ipc://{tmp_path}/e", clock, open_log(None, "error"), 0.2)
    desk.route = Counted()  # type: ignore[assignment]
    yield desk  # type: ignore[misc]
    desk.close()
    context.destroy(linger=0)


def test_time_in_which_the_process_did_not_look_is_no_silence(clock: Clock, desk: Desk) -> None:
    client = HostedClient(desk, open_log(None, "error"), asyncio.Event())
    before_s = client.waited_s()
    clock.time_s += 600.0
    assert client.waited_s() == before_s
    desk.drain()
    assert client.waited_s() - before_s == LONGEST_LOOK_S


def test_the_connection_is_made_anew_only_after_the_process_has_listened_in_vain(clock: Clock, desk: Desk) -> None:
    clock.time_s += 600.0
    desk.drain()
    desk.renew()
    assert desk.route.renewed == 0  # type: ignore[attr-defined]
    for _ in range(round(RENEW_EVERY_S / LONGEST_LOOK_S)):
        clock.time_s += LONGEST_LOOK_S
        desk.drain()
    desk.renew()
    desk.renew()
    assert desk.route.renewed == 1  # type: ignore[attr-defined]
