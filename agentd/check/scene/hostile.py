"""Neighbours that attack: no agents, but somebody who knows the protocol and everything about the run, and no secrets.

Each attack is what one does when it is greeted, and when it hears of a round for the first time. They are the attacks
that were once found to work (tests/attacks has them over real sockets), as small as they can be without changing what
they try. What nobody can refuse without signatures, a plausible message in another's name, is not among them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from agentd.check.scene.hosted_environment import HostedEnvironment
from agentd.check.scene.lines import Wires
from agentd.check.world import World
from agentd.core.grid import UNIT
from agentd.core.message import TOKEN_BYTES
from agentd.core.policy import ALGORITHMS
from agentd.core.privacy.sealing import Weighting
from agentd.errors import PeerError
from agentd.wire.codec import decode_frame, encode_environment, encode_plain
from agentd.wire.environment_messages import Hello, Pull, Report
from agentd.wire.frame import GOODBYE, GREETING, VERSION
from agentd.wire.topics import FRAME_TOPIC, payload, sync_topic

LAST_ROUND = (1 << 30) - 1
LAST_INCARNATION = (1 << 53) - 1
LAST_LIFE = (1 << 16) - 1
CROWD = 40
"""Names that are invented at once."""
FLOOD = 400
"""Messages or frames that are too many."""


class Hostile:
    """One attacker at its place in the graph."""

    def __init__(self, world: World, own: int, run: bytes, wires: Wires, environment: HostedEnvironment) -> None:
        self.world, self.own, self.run = world, own, run
        self.is_up = True
        self.round = 0
        self.sequence = 0
        self.victims = [agent for agent in world.neighbours(own) if agent in world.honest]
        self.arms = len(world.means)
        kinds = [ALGORITHMS[world.algorithms[each]].tells for each in world.honest]
        self.kind = next((kind for kind in kinds if kind is not None), None)
        self.heard: list[bytes] = []
        self._wires, self._timeline, self._environment = wires, wires.timeline, environment
        self._attack = ATTACKS[dict(world.hostile)[own]]

    def start(self) -> None:
        """Listen to the neighbours."""
        for victim in self.victims:
            self._wires.listen(self, victim)

    def hears(self, sender: int, part: bytes) -> None:  # noqa: ARG002 - whoever it is
        """Go by the rounds that others are in."""
        try:
            frame = decode_frame(payload(part, sync_topic(self.own)))
        except PeerError:
            return
        if frame.greeting or frame.round <= self.round:
            return
        self.round = frame.round
        self.heard = [*self.heard[-8:], part]
        self._attack(self, self.round)

    def sees(self, subscriber: int, joined: bool) -> None:
        """Greet who listens, and say something."""
        if joined:
            self.greet(subscriber)
            if not self.round:
                self._attack(self, 1)

    def wants(self, speaker: int) -> bool:
        return speaker in self.victims

    def greet(self, victim: int, round_: int | None = None) -> None:
        self.say(victim, sync_topic(victim) + self.encoded(self.round if round_ is None else round_, GREETING))

    def greet_all(self, round_: int | None = None) -> None:
        for victim in self.victims:
            self.greet(victim, round_)

    def frame(self, round_: int, batches: Iterable[Any] = (), flags: int = 0, **other: Any) -> None:
        """One frame to all."""
        self.sequence += 1
        self.say_all(FRAME_TOPIC + self.encoded(round_, flags, list(batches), **other))

    def encoded(self, round_: int, flags: int = 0, batches: list[Any] | None = None, **other: Any) -> bytes:
        """A frame as bytes, with whatever is to be wrong about it."""
        fields = {"version": VERSION, "run": self.run, "sender": self.own, "incarnation": 0, "sequence": self.sequence}
        return encode_plain((*{**fields, "round": round_, "flags": flags, **other}.values(), batches or []))

    def say_all(self, part: bytes) -> None:
        for victim in self.victims:
            self.say(victim, part)

    def say(self, victim: int, part: bytes) -> None:
        self._wires.say(self.own, victim, part)

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        self._timeline.at(self._timeline.now_s + seconds, event)

    def ask(self, request: Any) -> None:
        """Ask the environment, in whoever's name; the answer does not matter here."""
        self._environment.ask(encode_environment(request), lambda _data: None)

    def claim(self, arm: int, trials: int) -> bytes:
        """A body of the kind of its neighbours in which one arm had all pulls and always paid."""
        if self.kind is None or self.kind.name != "SEALED":
            return _praise(self.kind.name if self.kind else "SAMPLE", self.arms, trials, arm)
        worth = Weighting.of(self.world.epsilon).samples(trials)
        return struct.pack("<HIIqq", arm, trials, 1, worth, worth)

    def rows(
        self, heads: Iterable[tuple[int, int, int, int, int]], salt: int = 0, body: bytes | None = None
    ) -> list[Any]:
        """A batch of messages (origin, incarnation, trial, lifetime, life) that say much, or one that says nothing."""
        kind, packed = self.kind, [struct.pack("<HQIHH", *head) for head in heads]
        if kind is None or not packed:
            return []
        body = body or _praise(kind.name, self.arms, 1 + salt)
        return [[kind.tag, self.arms, len(packed), b"".join(packed), body * len(packed), b""]]


def _praise(kind: str, arms: int, pulls: int, best: int | None = None) -> bytes:
    """A body of each kind in which one arm, usually the last, pays everything."""
    best = arms - 1 if best is None else best
    if kind == "SAMPLE":
        return struct.pack("<HI", best, UNIT)
    if kind == "SEALED":
        return struct.pack("<HIIqq", best, pulls, 1, UNIT // 16, UNIT // 16)
    paid = [pulls * UNIT if arm == best else 0 for arm in range(arms)]
    form = "<Iq" if kind == "TOTALS" else "<IIq"
    counts = (pulls,) if kind == "TOTALS" else (pulls, pulls)
    return b"".join(struct.pack(form, *counts, each) for each in paid)


def _keeps_step(of: Hostile, round_: int) -> None:
    of.frame(round_)


def _silent(of: Hostile, _round: int) -> None:
    pass


def _drips(of: Hostile, round_: int) -> None:
    of.after(0.9 * of.world.timeout_s, lambda: of.frame(round_))


def _drips_and_greets(of: Hostile, round_: int) -> None:
    of.after(0.45 * of.world.timeout_s, lambda: of.greet_all(round_))
    of.after(1.35 * of.world.timeout_s, lambda: of.frame(round_))


def _greets_only(of: Hostile, round_: int) -> None:
    for _ in range(4):
        of.greet_all(round_)


def _revives_and_holds(of: Hostile, round_: int) -> None:
    if round_ % 4:
        of.frame(round_)
    else:
        _drips_and_greets(of, round_)


def _early(of: Hostile, round_: int) -> None:
    of.frame(round_ + 1)


def _comes_and_goes(of: Hostile, round_: int) -> None:
    of.frame(round_, flags=GOODBYE if round_ % 5 == 0 else 0)
    if round_ % 5 == 0:
        for victim in of.victims:
            of._wires.hang_up(of.own, victim)
            of._wires.listen(of, victim)


def _claims_last(of: Hostile, _round: int) -> None:
    of.greet_all(LAST_ROUND)
    of.frame(LAST_ROUND)


def _claims_fifty(of: Hostile, round_: int) -> None:
    of.greet_all(round_ + 50)
    of.frame(round_ + 50)


def _claims_horizon(of: Hostile, _round: int) -> None:
    of.greet_all(of.world.rounds)
    of.frame(of.world.rounds)


def _jumps(of: Hostile, round_: int) -> None:
    of.frame(round_, sequence=min(LAST_INCARNATION, round_ << 33))


def _bursts(of: Hostile, round_: int) -> None:
    of.frame(round_)
    for ahead in range(1, 12):
        of.frame(round_ + ahead, of.rows([(of.own, 0, 1, 1, 1)] * 8))


def _floods(of: Hostile, round_: int) -> None:
    of.frame(round_, of.rows([(7 + number % 1000, 0, 1, 1, 1) for number in range(FLOOD * 8)]))


def _many_frames(of: Hostile, round_: int) -> None:
    for _ in range(40):
        of.frame(round_)


def _forges_incarnations(of: Hostile, round_: int) -> None:
    heads = [(each, LAST_INCARNATION, round_, LAST_LIFE, LAST_LIFE) for each in of.world.honest]
    of.frame(round_, of.rows(heads))


def _forges_returns(of: Hostile, round_: int) -> None:
    gamma = of.world.gamma
    heads = [(each, round_ - 1, round_, gamma, gamma - 1) for each in of.world.honest if gamma > 1 and round_ > 1]
    of.frame(round_, of.rows(heads))


def _invents(of: Hostile, round_: int) -> None:
    gamma = max(1, of.world.gamma)
    names = range(1000, 1000 + CROWD)
    of.frame(round_, of.rows([(name, 0, round_, gamma, max(1, gamma - 1)) for name in names]))


def _long_lives(of: Hostile, round_: int) -> None:
    everybody = [*of.world.honest, of.own]
    of.frame(round_, of.rows([(each, 0, round_, LAST_LIFE, LAST_LIFE) for each in everybody]))


def _future_trials(of: Hostile, round_: int) -> None:
    gamma, ahead = of.world.gamma, LAST_ROUND - 5000 + round_
    others = [(each, 0, ahead, gamma, gamma - 1) for each in of.world.honest if gamma > 1]
    of.frame(round_, of.rows([*others, (of.own, 0, ahead, max(1, gamma), max(1, gamma))]))


def _lies(of: Hostile, round_: int) -> None:
    gamma = max(1, of.world.gamma)
    of.frame(round_, of.rows([(of.own, 0, round_, gamma, gamma)], salt=round_ // of.arms))


def _equivocates(of: Hostile, round_: int) -> None:
    """Tells every neighbour something else under one and the same key, all of which could be true."""
    gamma = max(1, of.world.gamma)
    of.sequence += 1
    for number, victim in enumerate(of.victims):
        batches = of.rows([(of.own, 0, round_, gamma, gamma)], body=of.claim((number + round_) % of.arms, round_))
        of.say(victim, FRAME_TOPIC + of.encoded(round_, 0, batches))


def _wrong(of: Hostile, round_: int) -> None:
    of.frame(round_, version=2)
    of.frame(round_, run=bytes(8))
    of.frame(round_, sender=of.victims[0] if of.victims else 0)
    of.say_all(FRAME_TOPIC + b"\xdd\xff\xff\xff\xff" * 8)
    of.say_all(FRAME_TOPIC + bytes([round_ % 256]) * 60)
    of.say_all(b"other/" + of.encoded(round_))
    of.frame(round_)


def _replays(of: Hostile, round_: int) -> None:
    of.frame(round_)
    for part in of.heard:
        of.say_all(part)


def _steals(of: Hostile, round_: int) -> None:
    """Keeps step with its neighbours, and asks the environment in their names with a token of its own."""
    of.frame(round_)
    token = bytes([of.own + 1]) * TOKEN_BYTES
    for victim in of.world.honest[:3]:
        of.ask(Hello(victim, token, None))
        for trial in (max(1, round_ - 1), round_, round_ + 1):
            of.ask(Pull(victim, token, trial, 0, trial - 1))
        of.ask(Report(victim, token, of.world.rounds, 0, 0, (), 0, True, 0, of.world.rounds, ()))


def _reports_horizon(of: Hostile, round_: int) -> None:
    of.frame(round_)
    token = bytes([of.own + 1]) * TOKEN_BYTES
    of.ask(Hello(of.own, token, None))
    of.ask(Report(of.own, token, 0, 0, 0, (), 0, False, 0, of.world.rounds, ()))


def _subscribes(of: Hostile, round_: int) -> None:
    """Subscribes in the names of others."""
    of.frame(round_)
    for victim in of.victims:
        for other in of.world.neighbours(victim)[:3]:
            if other != of.own:
                of._wires.pretend(other, victim)


ATTACKS: dict[str, Callable[[Hostile, int], None]] = {
    "keeps-step": _keeps_step,
    "silent": _silent,
    "drips": _drips,
    "drips-and-greets": _drips_and_greets,
    "greets-only": _greets_only,
    "revives-and-holds": _revives_and_holds,
    "early": _early,
    "comes-and-goes": _comes_and_goes,
    "claims-last": _claims_last,
    "claims-fifty": _claims_fifty,
    "claims-horizon": _claims_horizon,
    "jumps": _jumps,
    "bursts": _bursts,
    "floods": _floods,
    "many-frames": _many_frames,
    "forges-incarnations": _forges_incarnations,
    "forges-returns": _forges_returns,
    "invents": _invents,
    "long-lives": _long_lives,
    "future-trials": _future_trials,
    "lies": _lies,
    "equivocates": _equivocates,
    "wrong": _wrong,
    "replays": _replays,
    "steals": _steals,
    "reports-horizon": _reports_horizon,
    "subscribes": _subscribes,
}
"""What an attacker does, by name."""
STEALS = "steals"
EQUIVOCATES = "equivocates"
