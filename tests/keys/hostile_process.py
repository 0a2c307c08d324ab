"""The hostile one as a process of its own: it has one valid key, the roster, and whatever it hears.

argv[1] is a JSON file: its number, its place and those of its neighbours, its keys, the run, how much to send and when
to sign two things for one trial. It goes on until it is ended, and says on standard output how much it has sent.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import zmq
from env_clients import hello, pull
from hostile_company import KINDS_TOLD, Company, Hostile
from keyed_world import Context, World, secure, subscriber, sync_topic

from agentd.keys.key_files import new_keys, read_keys
from agentd.keys.keying import Keying
from agentd.shell.doors.keyring import Keyring
from agentd.shell.json_log import open_log
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import Refused


def only_its_own(told: dict[str, Any]) -> World:
    """What it has of the world: no key but its own."""
    keying = Keying(keys=told["keys"], roster=told["roster"], operator_fingerprint=told["operator"])
    own = read_keys(Path(told["keys"]))
    return cast(
        World,
        SimpleNamespace(keyring=lambda number, log: Keyring.open(keying, log, own=number), agents={told["own"]: own}),
    )


_IN_STEP = 3
"""Rounds that it takes with the others; after that it speaks as often as it can, of the newest round that it hears."""
_SMALL_ROUNDS = 20
_PACE_S = 0.1
_KNOCKS = 10
_WITHIN_QUOTA = 50
"""So many messages at once are looked at one by one; of more the quota refuses the whole frame."""


class Knocking:
    """At the doors of its neighbours and of the environment: under another's id, with an unknown key, with none."""

    def __init__(self, hostile: Hostile, told: dict[str, Any], keyring: Keyring) -> None:
        self._places = hostile.peers
        self._own = read_keys(Path(told["keys"]))
        self._roster = keyring.signed.roster
        self._environment = told["environment"]
        self._victim = min(hostile.peers)
        self._context: Context = zmq.Context()
        self._open: list[zmq.Socket[bytes]] = []
        self.let_in = 0

    def knock(self) -> None:
        """Come again, and count what was answered to who came the last time."""
        self.let_in += sum(self._answered(each) for each in self._open)
        for each in self._open:
            each.close(0)
        unknown = new_keys("agent", self._victim)
        self._open = [
            subscriber(self._context, place, own, self._roster.agents[peer].curve, sync_topic(self._victim))
            for peer, place in self._places.items()
            if peer != self._victim
            for own in (self._own, unknown, None)
        ]
        for own in (self._own, unknown, None):
            asking = self._context.socket(zmq.DEALER)
            secure(asking, own, self._roster_environment())
            asking.connect(self._environment)
            asking.send(encode_environment(hello(self._victim)))
            asking.send(encode_environment(pull(self._victim, 1, 0)))
            self._open.append(asking)

    def _roster_environment(self) -> bytes:
        environment = self._roster.environment
        assert environment is not None
        return environment.curve

    def _answered(self, socket: zmq.Socket[bytes]) -> bool:
        """Whether anything but a refusal has come."""
        while socket.poll(0):
            answer = socket.recv()
            if socket.socket_type == zmq.SUB or not isinstance(decode_environment(answer), Refused):
                return True
        return False

    def close(self) -> None:
        self._context.destroy(linger=0)


async def attack(hostile: Hostile, knocking: Knocking, number: int, rounds: int) -> None:
    stop = asyncio.Event()
    await hostile.link.wait_until_ready(120.0, stop, some_needed=True)
    for round_ in range(1, rounds + 1):
        now = round_ if round_ <= _IN_STEP else max(_IN_STEP, hostile.link.latest_round)
        hostile.publish(now, number if round_ > _SMALL_ROUNDS and round_ % 4 else min(number, _WITHIN_QUOTA))
        if round_ % 10 == 0 and round_ <= _KNOCKS * 10:
            knocking.knock()
        print(json.dumps({"round": round_, "sent": hostile.sent, "let in": knocking.let_in}), flush=True)
        await hostile.listen(stop, within_s=20.0 if round_ <= _IN_STEP else _PACE_S)
        if round_ > _IN_STEP:
            await hostile.link.pause(_PACE_S, stop)  # where it was cut off by all, nothing else keeps it from spinning


def main() -> None:
    told = json.loads(Path(sys.argv[1]).read_text())
    places = {int(own): place for own, place in told["places"].items()}
    company = SimpleNamespace(
        world=only_its_own(told),
        kind=KINDS_TOLD[told["algorithm"]],
        ids=told["ids"],
        truth=set(),
        equivocates_in=told["equivocates_in"],
    )
    hostile = Hostile(
        cast(Company, company), told["own"], places, open_log(told["log"], "info"), bytes.fromhex(told["run"])
    )
    knocking = Knocking(hostile, told, hostile.keyring)
    try:
        asyncio.run(attack(hostile, knocking, told["number"], told["rounds"]))
    finally:
        knocking.close()
        hostile.close()


if __name__ == "__main__":
    main()
