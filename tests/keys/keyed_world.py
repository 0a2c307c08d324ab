"""An operator, agents and an environment with keys, and rosters of every kind, for tests of what keys are for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import zmq
from evidence import wall_ms
from structlog.typing import FilteringBoundLogger

from agentd.keys.key_files import Keys, new_keys, write_keys
from agentd.keys.keying import Keying
from agentd.keys.roster import Entry, Roster, SignedRoster, signed
from agentd.keys.signing import fingerprint
from agentd.shell.doors.key_admission import KeyAdmission
from agentd.shell.doors.keyring import Keyring
from agentd.wire.topics import FRAME_TOPIC, sync_topic

Context = zmq.Context[zmq.Socket[bytes]]


def entry_of(keys: Keys) -> Entry:
    return Entry(keys.curve_public, keys.sign_public)


class World:
    """Keys of so many agents, of the environment and of the operator; the roster file is written anew as tests want."""

    def __init__(self, place: Path, agents: Iterable[int]) -> None:
        self.place = place
        self.operator = new_keys("operator")
        self.environment = new_keys("environment")
        self.agents = {number: new_keys("agent", number) for number in agents}
        self.roster_file = place / "roster.json"
        for keys in (self.environment, *self.agents.values()):
            write_keys(place / "keys", keys)
        self.publish(self.roster())

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.operator.sign_public)

    def roster(self, version: int = 1, *, without: Iterable[int] = (), seconds: int = 3600) -> Roster:
        agents = {number: entry_of(keys) for number, keys in self.agents.items() if number not in set(without)}
        until = wall_ms() // 1000 + seconds
        return Roster(version, until, agents, environment=entry_of(self.environment))

    def signed(self, roster: Roster, by: Keys | None = None) -> SignedRoster:
        by = by or self.operator
        return signed(roster, by.sign_public, by.sign_secret)

    def publish(self, roster: Roster, by: Keys | None = None) -> None:
        self.roster_file.write_text(self.signed(roster, by).text(), encoding="utf-8")

    def key_file(self, agent: int | None) -> Path:
        return self.place / "keys" / ("environment.key" if agent is None else f"agent-{agent}.key")

    def keying(self, agent: int | None) -> Keying:
        return Keying(
            keys=str(self.key_file(agent)), roster=str(self.roster_file), operator_fingerprint=self.fingerprint
        )

    def flags(self, agent: int | None) -> list[str]:
        own = ["--keys", str(self.key_file(agent)), "--roster", str(self.roster_file)]
        return [*own, "--operator-fingerprint", self.fingerprint]

    def keyring(self, agent: int | None, log: FilteringBoundLogger) -> Keyring:
        made = Keyring.open(self.keying(agent), log, own=agent)
        assert made is not None
        return made

    def secrets(self) -> list[bytes]:
        """Every secret, as it may lie in a file: raw, in hexadecimal digits, and as ZeroMQ writes it."""
        from zmq.utils import z85

        every = (self.operator, self.environment, *self.agents.values())
        raw = [secret for keys in every for secret in (keys.curve_secret, keys.sign_secret)]
        return [form for secret in raw for form in (secret, secret.hex().encode(), z85.encode(secret))]


def subscriber(
    context: Context, address: str, own: Keys | None, server: bytes, topic: bytes = FRAME_TOPIC
) -> zmq.Socket[bytes]:
    """A SUB with these keys (None: without any) that takes the other end for one with this public key."""
    made = context.socket(zmq.SUB)
    made.setsockopt(zmq.LINGER, 0)
    secure(made, own, server)
    made.subscribe(topic)
    made.connect(address)
    return made


def secure(socket: zmq.Socket[bytes], own: Keys | None, server: bytes) -> None:
    if own is not None:
        socket.setsockopt(zmq.CURVE_SERVERKEY, server)
        socket.setsockopt(zmq.CURVE_PUBLICKEY, own.curve_public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, own.curve_secret)


def with_id(keys: Keys, number: int) -> Keys:
    return replace(keys, id=number)


__all__ = ["KeyAdmission", "World", "entry_of", "secure", "subscriber", "sync_topic", "with_id"]
