"""The hostile one as a process of its own: it has one valid key, half of one that it stole, and whatever it hears.

argv[1] is a JSON file: its number, its places and those of its neighbours, its keys and how much to send. First it
plays the environment, which it is not. When the true one is there, a line on standard input tells it the run, and it
takes its part; another line tells it that somebody has come back in another life. It has an address of its own for each
neighbour, and so a *face* to each: each may be told something else. What it says while it is cut off nobody hears, and
it is not counted.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import zmq
from env_clients import hello, pull
from hostile_company import EVERY, KINDS_TOLD, OTHER_RUN, Company, Hostile, _lie
from keyed_world import Context, World, secure, subscriber, sync_topic
from structlog.typing import FilteringBoundLogger
from zmq.utils.monitor import recv_monitor_message

from agentd.core.bodies import SEALED
from agentd.core.message import Batch, Message, batch_of, by_kind, join, unsigned
from agentd.keys.accepted import RosterFile
from agentd.keys.key_files import Keys, new_keys, read_keys
from agentd.keys.keying import Keying
from agentd.shell.doors.keyring import Keyring
from agentd.shell.json_log import open_log
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import Refused
from agentd.wire.statements import statements

EQUIVOCATES_IN = 6
"""After a few true words; (origin + trial) is no multiple of k for the numbers that tests give it."""
WITHIN_QUOTA = 56
"""Messages that an honest neighbour may say in a round, under the terms of these runs."""
SURE = (
    "no signature of anybody",
    "its own signature",
    "the signature of an unknown key",
    "said in another run",
    "another body",
    "stripped of its signature",
    "another life",
    "another trial",
)
"""For which one is cut off, where they are verified before they count."""
HARMLESS = ("said before", "as many hops to go as it can have", "one hop to go", "another lifetime")
SILENT_FOR_ROUNDS, MOST_OF_ONE = 8, 8
"""How long nothing has come of an origin in whose name it goes on, and how often it does."""
ROUND_BRINGS = 70
"""Messages that a round adds to the allowance of a neighbour, rounded up."""
AFTERWARDS = 60
"""Rounds in which it goes on after somebody was heard in another life."""
KNOCK_EVERY_S = 2.0
GLANCE_MS = 1000
"""Longer than a handshake on one machine takes by far."""
PACE_S = 0.05
LISTENED_TO_S = 90.0
"""How long a face waits to be listened to again."""


class FalseEnvironment:
    """At the environment's address, with a valid key that is not the environment's, and without any."""

    def __init__(self, address: str, own: Keys, callers: int) -> None:
        self.connections = self.requests = 0
        for keys in (own, None):
            self._serve(address, keys, callers)

    def _serve(self, address: str, keys: Keys | None, callers: int) -> None:
        context: Context = zmq.Context()
        router = context.socket(zmq.ROUTER)
        if keys is not None:
            router.setsockopt(zmq.CURVE_SERVER, 1)
            router.setsockopt(zmq.CURVE_SECRETKEY, keys.curve_secret)
        monitor = router.get_monitor_socket(zmq.EVENT_ACCEPTED)
        router.bind(address)
        came = 0
        while came < callers:
            if monitor.poll(100):
                recv_monitor_message(monitor)
                came += 1
            while router.poll(0):
                router.recv_multipart()
                self.requests += 1
        self.requests += bool(router.poll(GLANCE_MS))
        self.connections += came
        router.disable_monitor()
        monitor.close()
        router.close(0)
        context.destroy(linger=0)


class Knocking:
    """At the doors of its neighbours and of the environment: under another's id, with an unknown key, with none."""

    def __init__(self, peers: dict[int, str], told: dict[str, Any], keyring: Keyring, stolen: Keys) -> None:
        self._places = peers
        self._own = read_keys(Path(told["keys"]))
        self._stolen = stolen
        self._roster = keyring.signed.roster
        self._environment = told["environment"]
        self._victim = min(peers)
        self._context: Context = zmq.Context()
        self._open: list[zmq.Socket[bytes]] = []
        self.let_in = self.times = 0

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
            for own in (self._own, self._stolen, unknown, None)
        ]
        for own in (self._own, self._stolen, unknown, None):
            asking = self._context.socket(zmq.DEALER)
            environment = self._roster.environment
            assert environment is not None
            secure(asking, own, environment.curve)
            asking.connect(self._environment)
            asking.send(encode_environment(hello(self._victim)))
            asking.send(encode_environment(pull(self._victim, 1, 0)))
            self._open.append(asking)
        self.times += 1

    def _answered(self, socket: zmq.Socket[bytes]) -> bool:
        """Whether anything but a refusal has come."""
        while socket.poll(0):
            answer = socket.recv()
            if socket.socket_type == zmq.SUB or not isinstance(decode_environment(answer), Refused):
                return True
        return False

    def close(self) -> None:
        self._context.destroy(linger=0)


class Face(Hostile):
    """It, as one neighbour knows it."""

    def __init__(
        self, company: SimpleNamespace, own: int, place: str, peer: tuple[int, str], log: FilteringBoundLogger
    ) -> None:
        self.another_life: threading.Event = company.another_life
        self.spared: int = company.spared
        """In whose name nothing is forged before it is silent: it is not suspected then."""
        super().__init__(cast(Company, company), own, {own: place, peer[0]: peer[1]}, log, company.run)
        self.peer = peer[0]
        self.random.seed(own * 1000 + self.peer)
        self.said: Counter[str] = Counter()
        """Messages to somebody who listens, by what is wrong with them."""
        self.round = 0
        self.listens = False
        self._forged: Counter[int] = Counter()
        self._firsts: dict[tuple[int, int], Batch] = {}
        """The first that was heard of each life of each origin."""
        subscription = self.link.rounds.subscription

        def noted(number: int, *, joined: bool, now_s: float) -> None:
            self.listens = joined
            subscription(number, joined=joined, now_s=now_s)

        self.link.rounds.subscription = noted  # type: ignore[method-assign]

    async def listen(self, stop: asyncio.Event, within_s: float = 20.0) -> None:
        known = len(self.heard)
        await super().listen(stop, within_s)
        for batch in self.heard[min(known, 39) :]:
            for row, (origin, life) in enumerate(batch.head[:, :2].tolist()):
                if (origin, life) not in self._firsts:
                    self._firsts[origin, life] = batch.rows(np.array([row]))

    def say(self, told: dict[str, Batch]) -> None:
        """One frame of the round that comes next, or that the others are in by now."""
        in_step = not self.link.down
        self.round = max(self.round + in_step, self.link.latest_round)
        told = {name: batch for name, batch in told.items() if len(batch) and (batch.life >= 1).all()}
        self.link.publish(self.round, by_kind(told.values()))
        if self.listens:
            for name, batch in told.items():
                self.said[name] += len(batch)

    def of_a_life_before(self) -> Batch:
        """What was genuine until its origin came back in another life."""
        newest = {origin: max(life for one, life in self._firsts if one == origin) for origin, _ in self._firsts}
        old = [batch for (origin, life), batch in self._firsts.items() if life < newest[origin] and origin != self.own]
        old = [batch for batch in old if (batch.life > 1).all()]
        return join(old).aged() if old else self._nothing()

    def some(self, name: str, number: int, which: Callable[[Batch], Any] | None = None) -> Batch:
        """A few messages with something wrong about them."""
        if not any((batch.life > 1).any() for batch in self.heard):
            return self._nothing()
        batch = self.attacks(max(200, number), self.link.latest_round)[name]()
        if len(batch) and which is not None:
            batch = batch.rows(which(batch))
        drawn = self.random.choices(range(len(batch)), k=number) if len(batch) else []
        return batch.rows(np.array(sorted(drawn), dtype=np.intp))

    def _nothing(self) -> Batch:
        width = self.company.kind.width(2)
        return Batch(self.company.kind, np.zeros((0, 5), np.int64), np.zeros((0, width), np.int64), unsigned(0))

    def may_wait(self, batch: Batch) -> Any:
        """Which of some messages an honest neighbour, too, may pass on unverified."""
        due = (batch.origin + batch.trial) % EVERY == 0
        return ~due & (batch.origin != self.peer) & (batch.origin != self.own) & (batch.origin != self.spared)

    def ahead_of_the_silent(self) -> Batch:
        """In the names of those of whom nothing has come for a while, more of what they have said last."""
        newest: dict[int, Message] = {}
        for message in [each for batch in self.heard for each in batch.messages() if each.origin != self.own]:
            if message.trial > newest.get(message.origin, message).trial - 1:
                newest[message.origin] = message
        made = []
        for origin, last in newest.items():
            trial = last.trial + 1 + ((origin + last.trial + 1) % EVERY == 0)
            silent = trial < self.link.latest_round - SILENT_FOR_ROUNDS and self._forged[origin] < MOST_OF_ONE
            if silent and origin != self.peer:
                self._forged[origin] += 1
                made.append(last._replace(trial=trial, life=1, body=self._one_more(last, trial)))
        return self.with_random(batch_of(self.company.kind, made)) if made else self._nothing()

    def _one_more(self, last: Message, trial: int) -> tuple[int, ...]:
        if len(last.body) != 4:
            return _lie(self.company.kind, 1)
        pulls = trial - last.trial
        return (*last.body[:2], last.body[2] + pulls, last.body[3] + pulls * (1 << 20))


class Script:
    """What one face does, from its first round to the last."""

    def __init__(self, face: Face, told: dict[str, Any], word: int, sure: list[str], goes_on: threading.Event) -> None:
        self._face = face
        self._told = told
        self._word = word
        self._sure = sure
        self._goes_on = goes_on
        self._stop = asyncio.Event()

    async def play(self) -> None:
        await self._face.link.wait_until_ready(120.0, self._stop, some_needed=True)
        await self._be_one_of_them()
        await self._say_what_is_looked_at()
        await self._say_too_much()
        for name in self._sure:
            await self._forge(name)
        while self._has_more_to_say() and await self._is_listened_to():
            await self._say_too_much()

    async def _round(self, told: dict[str, Batch]) -> None:
        self._face.say(told)
        await self._face.listen(self._stop)
        if self._face.link.down:  # nobody keeps it from spinning
            await self._face.link.pause(PACE_S, self._stop)

    async def _be_one_of_them(self) -> None:
        """Say what is true of itself, until it tells some this and others that."""
        for trial in range(1, EQUIVOCATES_IN + 1):
            lies = trial == EQUIVOCATES_IN
            if self._face.company.kind is SEALED:  # a record of one batch is not told again and again
                word = {"two words": self._face.own_word(trial, 1 + self._word)} if lies else {}
            else:
                word = {"two words": self._face.own_word(trial, trial - lies * self._word)}
            await self._round(word)

    async def _say_what_is_looked_at(self) -> None:
        """No more than it may, and nothing for which it must be cut off at once."""
        face, waits = self._face, self._face.company.kind is not SEALED
        rounds = since = 0
        while rounds < self._told["within"] or since < AFTERWARDS:
            rounds, since = rounds + 1, since + (self._goes_on.is_set() and face.another_life.is_set())
            share = WITHIN_QUOTA // 4
            told = {name: face.some(name, share) for name in HARMLESS[:3]}
            told["said in a life before"] = face.of_a_life_before()
            if len(told["said in a life before"]):
                face.another_life.set()
            if waits:
                name = face.random.choice([name for name in SURE if name != "stripped of its signature"])
                told[name] = face.some(name, share, face.may_wait)
                told["ahead of the silent"] = face.ahead_of_the_silent()
            await self._round(told)

    def _has_more_to_say(self) -> bool:
        return sum(self._face.said.values()) < self._told["share"]

    async def _say_too_much(self) -> None:
        """As much as a frame may hold, every other round; none of it is read while its allowance is used up."""
        face, number = self._face, self._told["number"]
        before, harmless = self._rounds_so_far(), number
        while self._has_more_to_say() and face.listens:
            await self._round({HARMLESS[0]: face.some(HARMLESS[0], harmless)})
            await self._round({"no signature of anybody": face.some("no signature of anybody", number)})
            passed, before = self._rounds_so_far() - before, self._rounds_so_far()
            harmless = min(number, ROUND_BRINGS * (passed + 3))  # more than these rounds have added to the allowance

    def _rounds_so_far(self) -> int:
        return max(self._face.round, self._face.link.latest_round)

    async def _is_listened_to(self) -> bool:
        face = self._face
        end_s = face.link.now_s() + LISTENED_TO_S
        while not face.listens and face.link.now_s() < end_s:
            await self._look_around()
        return face.listens

    async def _forge(self, name: str) -> None:
        """Wait until somebody listens, and say what no honest one does."""
        face = self._face
        await self._is_listened_to()
        cut_s = face.link.now_s() + 5.0
        while face.listens and face.link.now_s() < cut_s:
            face.say({name: face.some(name, WITHIN_QUOTA, self._due)})
            await self._look_around()

    async def _look_around(self) -> None:
        self._face.link.greet_subscribers()
        await self._face.listen(self._stop, within_s=PACE_S)
        await self._face.link.pause(PACE_S, self._stop)

    def _due(self, batch: Batch) -> Any:
        due = ~self._face.may_wait(batch)
        return due if due.any() else np.ones(len(batch), np.bool_)


class Stolen(Script):
    """To one who takes it for another, whose key of links it has, and not the one that signs."""

    async def play(self) -> None:
        face = self._face
        await face.link.wait_until_ready(120.0, self._stop, some_needed=True)
        for _ in range(self._told["within"]):
            round_ = max(face.round + 1, face.link.latest_round)
            word = Message(face.own, round_, 3, _lie(face.company.kind, 1), 3)
            await self._round({"a stolen key": face.under(batch_of(face.company.kind, [word]), face.secret)})


def only_its_own(told: dict[str, Any]) -> World:
    """What it has of the world: no key but its own, and half of another's."""
    keying = Keying(keys=told["keys"], roster=told["roster"], operator_fingerprint=told["operator"])
    own = read_keys(Path(told["keys"]))

    def keyring(number: int, log: FilteringBoundLogger) -> Keyring:
        if number == own.id:
            made = Keyring.open(keying, log, own=number)
            assert made is not None
            return made
        return Keyring(stolen_keys(told, own), _roster_file(told), log, own=number)

    return cast(World, SimpleNamespace(keyring=keyring, agents={told["own"]: own, told["stolen"]: own}))


def _roster_file(told: dict[str, Any]) -> RosterFile:
    return RosterFile(told["roster"], operator_fingerprint=told["operator"], notes=[Path(told["keys"] + ".stolen")])


def stolen_keys(told: dict[str, Any], own: Keys) -> Keys:
    """Another's key of links, beside its own that signs."""
    entry = _roster_file(told).accept(lambda _: None).agents[told["stolen"]]
    secret = bytes.fromhex(told["stolen_curve"])
    return Keys(
        kind="agent",
        id=told["stolen"],
        curve_public=entry.curve,
        sign_public=entry.sign,
        curve_secret=secret,
        sign_secret=own.sign_secret,
    )


def _recorded(told: dict[str, Any], kind: Any) -> Batch:
    """What others have signed in a run before."""
    heads = [Message(origin, 1, 1, _lie(kind, 1), 3) for origin in told["ids"]]
    batch = batch_of(kind, heads).signed(np.zeros((len(heads), kind.signature_bytes), np.uint8))
    assert [said.hex() for said in statements(batch, OTHER_RUN)] == [said for said, _ in told["recorded"]]
    signatures = [np.frombuffer(bytes.fromhex(made), np.uint8) for _, made in told["recorded"]]
    return batch.signed(np.hstack([np.stack(signatures), batch.signature[:, 64:]]))


def main() -> None:
    told = json.loads(Path(sys.argv[1]).read_text())
    own = read_keys(Path(told["keys"]))
    false = FalseEnvironment(told["environment"], own, len(told["ids"]) - 1)
    print(json.dumps({"connections": false.connections, "requests": false.requests}), flush=True)
    kind = KINDS_TOLD[told["algorithm"]]
    company = SimpleNamespace(
        world=only_its_own(told),
        kind=kind,
        ids=told["ids"],
        truth=set(),
        recorded=_recorded(told, kind),
        another_life=threading.Event(),
        spared=told["spared"],
        run=bytes.fromhex(sys.stdin.readline()),
    )
    log, goes_on = open_log(told["log"], "info"), threading.Event()
    faces = [
        Face(company, told["own"], place, (int(peer), told["peers"][peer]), log)
        for peer, place in told["faces"].items()
    ]
    scripts = [
        Script(face, told, 2 * number // len(faces), list(SURE[number :: len(faces)]), goes_on)
        for number, face in enumerate(faces)
    ]
    misled = Face(company, told["stolen"], told["false_place"], (told["misled"], told["misled_place"]), log)
    scripts.append(Stolen(misled, told, 0, [], goes_on))
    threads = [threading.Thread(target=asyncio.run, args=(script.play(),)) for script in scripts]
    for thread in threads:
        thread.start()
    knocking = Knocking(
        {int(peer): place for peer, place in told["peers"].items()}, told, faces[0].keyring, stolen_keys(told, own)
    )
    threading.Thread(target=lambda: (sys.stdin.readline(), goes_on.set()), daemon=True).start()
    for thread in threads:
        while thread.is_alive():
            knocking.knock()
            thread.join(KNOCK_EVERY_S)
    knocking.knock()
    said = sum((face.said for face in (*faces, misled)), Counter[str]())
    print(json.dumps({"said": said, "knocks": knocking.times, "let in": knocking.let_in}), flush=True)
    knocking.close()
    for face in (*faces, misled):
        face.close()


if __name__ == "__main__":
    main()
