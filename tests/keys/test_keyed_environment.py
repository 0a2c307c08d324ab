"""An environment with keys answers each agent by its key alone; and no agent takes another for the environment."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq
from env_clients import Served, ask, hello, log_events, pull, report, send, serving
from evidence import until
from keyed_world import Context, World, secure
from loopback import events, free_address
from structlog.typing import FilteringBoundLogger

from agentd.core.message import TOKEN_BYTES
from agentd.environment.releasing import release_seat
from agentd.errors import ConfigurationError, EnvironmentUnreachable
from agentd.keys.key_files import Keys, new_keys
from agentd.shell.environment_client import EnvironmentClient
from agentd.wire.environment_messages import Noted, Refusal, Refused, Reward, Welcome

pytestmark = pytest.mark.system

GLANCE_MS = 500


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, (0, 1, 2))


@pytest.fixture
def served(world: World, tmp_path: Path) -> Iterator[Served]:
    flags = ("--arms", "0.9,0.1", "--agents", "3", "--run-dir", str(tmp_path / "run"), *world.flags(None))
    with serving(*flags) as made:
        yield made


@contextmanager
def dealer(context: Context, address: str, own: Keys | None, server: bytes) -> Iterator[zmq.Socket[bytes]]:
    with context.socket(zmq.DEALER) as made:
        made.setsockopt(zmq.LINGER, 0)
        secure(made, own, server)
        made.connect(address)
        yield made


def test_a_seat_goes_with_the_key_whatever_the_token_is(
    served: Served, world: World, context: Context, tmp_path: Path
) -> None:
    key = world.environment.curve_public
    with dealer(context, served.address, world.agents[1], key) as agent:
        assert isinstance(ask(agent, hello(1)), Welcome)
        assert isinstance(ask(agent, pull(1, 1, 0)), Reward)
    with dealer(context, served.address, world.agents[1], key) as returned:
        assert isinstance(ask(returned, hello(1, token=bytes(TOKEN_BYTES))), Welcome), "another connection, no token"
        assert isinstance(ask(returned, pull(1, 2, 0, token=bytes(TOKEN_BYTES))), Reward)
    with pytest.raises(ConfigurationError, match="a seat there goes with the key"):
        release_seat(tmp_path / "run", 1)


def test_nobody_speaks_in_the_name_of_another_agent(served: Served, world: World, context: Context) -> None:
    with dealer(context, served.address, world.agents[2], world.environment.curve_public) as thief:
        asked = [hello(1), pull(1, 1, 0), report(1, 0, 0, 0, (), 0, True)]
        for request in asked:
            reply = ask(thief, request)
            assert isinstance(reply, Refused)
            assert (reply.code, reply.text) == (Refusal.WRONG_TOKEN, "this key is not that of agent 1")
        assert isinstance(ask(thief, hello(2)), Welcome), "it is itself"
    assert served.end(signal.SIGTERM) == 0
    assert json.loads(served.printed().splitlines()[-1])["refused"]["wrong_key"] == len(asked)


def test_who_has_no_key_or_an_unknown_one_is_told_nothing(served: Served, world: World, context: Context) -> None:
    key = world.environment.curve_public
    for stranger, server in ((None, b""), (new_keys("agent", 1), key), (world.agents[1], world.agents[0].curve_public)):
        with dealer(context, served.address, stranger, server) as made:
            send(made, hello(1))
            assert not made.poll(GLANCE_MS)


def test_a_key_that_was_revoked_is_told_nothing_from_then_on(
    served: Served, world: World, context: Context, tmp_path: Path
) -> None:
    log, key = tmp_path / "run/logs/environment.jsonl", world.environment.curve_public
    with (
        dealer(context, served.address, world.agents[0], key) as staying,
        dealer(context, served.address, world.agents[1], key) as leaving,
    ):
        for number, agent in enumerate((staying, leaving)):
            assert isinstance(ask(agent, hello(number)), Welcome)
        world.publish(world.roster(2, without=[1]))
        served.process.send_signal(signal.SIGHUP)
        until(lambda: "roster renewed" in log_events(log))
        send(leaving, pull(1, 1, 0))
        assert isinstance(ask(staying, pull(0, 1, 0)), Reward)
        assert not leaving.poll(GLANCE_MS)
        world.publish(world.roster(1))
        served.process.send_signal(signal.SIGHUP)
        until(lambda: "roster refused" in log_events(log))
        assert "version 1, and version 2 was taken up before" in events(log, "roster refused")[0]["why"]
        assert isinstance(ask(staying, report(0, 1, 0, 0, (), 0, False)), Noted)
    with dealer(context, served.address, world.agents[1], key) as again:
        send(again, hello(1))
        assert not again.poll(GLANCE_MS)


def test_a_run_with_keys_is_served_to_nobody_without(world: World, tmp_path: Path, context: Context) -> None:
    """Who serves it without keys later cannot be talked into giving a seat away."""
    flags = ("--arms", "0.9,0.1", "--agents", "3", "--run-dir", str(tmp_path / "run"))
    with serving(*flags, *world.flags(None)) as served:
        with dealer(context, served.address, world.agents[1], world.environment.curve_public) as agent:
            assert isinstance(ask(agent, hello(1, token=bytes(TOKEN_BYTES))), Welcome)
        assert served.end(signal.SIGTERM) == 0
    with serving(*flags) as open_served, dealer(context, open_served.address, None, b"") as stranger:
        reply = ask(stranger, hello(1, token=bytes(TOKEN_BYTES)))
        assert isinstance(reply, Refused)
        assert reply.code is Refusal.WRONG_TOKEN


@pytest.mark.parametrize("false", ["without keys", "with a key of its own", "with an agent's key"])
def test_a_false_environment_is_not_spoken_to(
    false: str, world: World, context: Context, log: FilteringBoundLogger
) -> None:
    with context.socket(zmq.ROUTER) as router:
        router.setsockopt(zmq.LINGER, 0)
        if false != "without keys":
            keys = new_keys("environment") if "own" in false else world.agents[2]
            router.setsockopt(zmq.CURVE_SERVER, 1)
            router.setsockopt(zmq.CURVE_SECRETKEY, keys.curve_secret)
        address = free_address()
        router.bind(address)
        other: Context = zmq.Context()
        client = EnvironmentClient(other, address, log, asyncio.Event(), world.keyring(1, log))
        try:
            with pytest.raises(EnvironmentUnreachable):
                asyncio.run(client.hello(1, None, timeout_s=0.5))
            assert not router.poll(0), "not one request came through"
        finally:
            other.destroy(linger=0)


def test_terms_that_the_roster_does_not_pin_are_not_served(world: World, tmp_path: Path) -> None:
    from dataclasses import replace

    world.publish(replace(world.roster(2), terms="ab" * 32))
    with (
        pytest.raises(AssertionError, match="not those that the operator signed"),
        serving("--arms", "0.9,0.1", *world.flags(None)),
    ):
        pass


def test_beyond_loopback_keys_need_no_insecure(world: World) -> None:
    with serving("--arms", "0.9,0.1", *world.flags(None), listen="tcp://0.0.0.0:0") as served:
        assert served.end(signal.SIGTERM) == 0
        assert served.process.stderr is not None
        assert "WARNING" not in served.process.stderr.read()
