"""How a neighbour presses: each pressure says what it does when its attack begins, is subscribed to, and hears a round.

The aims: to slow everybody's rounds, to fill memories, to cut links between honest agents, to end agents, and to do it
unnamed. Whoever invents a defence reads here first what was tried against it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

from forgeries import Scene, nothing
from pressing_neighbour import GOODBYE, PressingNeighbour, Pressure

HELLO, REPORT = 1, 5
LAST_ROUND = (1 << 30) - 1
LAST_SEQUENCE = (1 << 53) - 1
ROWS = 60_000
MOST_BYTES = 4_000_000
"""A little less than a frame may have."""


class KeepsStep:
    """No attack: a neighbour that has nothing to say. What the others do where nothing else is said."""

    def __init__(self, scene: Scene, *, timeout_s: float, horizon: int) -> None:
        self.scene, self.timeout_s, self.horizon = scene, timeout_s, horizon
        self.honest, self.gamma = len(scene.honest), scene.gamma

    def begins(self, of: PressingNeighbour) -> None:
        pass

    def greets(self, of: PressingNeighbour, number: int) -> None:
        of.greet(number)

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        of.frame(round_)


class Silent(KeepsStep):
    """Says nothing any more."""

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        pass


# Slowness


class Drip(KeepsStep):
    """Says each frame at 0.9 of the round timeout."""

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        of.after(0.9 * self.timeout_s, lambda: of.frame(round_))


class DripWithGreetings(KeepsStep):
    """Says half-way that it is held up, and its frame at 0.9 of what that is granted."""

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        of.after(0.45 * self.timeout_s, lambda: of.greet_all(round_))
        of.after(0.9 * 1.5 * self.timeout_s, lambda: of.frame(round_))


class GreetingOnly(KeepsStep):
    """Never says a frame, but over and over that it is held up in this very round."""

    def begins(self, of: PressingNeighbour) -> None:
        of.every(0.05 * self.timeout_s, of.greet_all)

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        of.greet_all(round_)


class DripHalf(KeepsStep):
    """Is late by half of a natural round, always."""

    share = 0.5

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        of.after(self.share * of.natural_s, lambda: of.frame(round_))


class DripNine(DripHalf):
    """Is late by nine tenths of a natural round, always: as late as is free."""

    share = 0.9


class DripRamp(KeepsStep):
    """Is late by half of a natural round, then a hundredth more each time, in case that is taken for natural."""

    def begins(self, of: PressingNeighbour) -> None:
        self.late_s = 0.5 * of.natural_s

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        self.late_s = min(1.01 * self.late_s, 0.9 * self.timeout_s)
        of.after(self.late_s, lambda: of.frame(round_))


class DripEvery(KeepsStep):
    """Is late by 0.9 of the timeout in every tenth round, and keeps step in the others."""

    between = 10

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        if round_ % self.between:
            of.frame(round_)
        else:
            of.after(0.9 * self.timeout_s, lambda: of.frame(round_))


class DripRarely(DripEvery):
    """The same in every fiftieth."""

    between = 50


class ReviveAndHold(KeepsStep):
    """Keeps step in three rounds, which revives, and is as late as it can be in the fourth."""

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        if round_ % 4:
            of.frame(round_)
        else:
            of.after(0.45 * self.timeout_s, lambda: of.greet_all(round_))
            of.after(1.45 * self.timeout_s, lambda: of.frame(round_))


class EarlyBird(KeepsStep):
    """Is always a round ahead, so that it is there before anybody else, and the others seem late."""

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        of.frame(round_ + 1)


class ComeAndGo(KeepsStep):
    """Says goodbye, subscribes again as one that came back, and is late; over and over."""

    def begins(self, of: PressingNeighbour) -> None:
        self.turns = 0

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        self.turns += 1
        if self.turns % 5 == 0:
            of.frame(round_, flags=GOODBYE)
            self._subscribe(of)
        elif self.turns % 5 == 4:
            of.after(0.9 * self.timeout_s, lambda: of.frame(round_))
        else:
            of.frame(round_)

    def _subscribe(self, of: PressingNeighbour) -> None:
        for number in of.neighbours:
            of.upstream(number, b"\x00sync/%d/" % of.own)
            of.upstream(number, b"\x01sync/%d/" % of.own)


# Claims


class ClaimsRound(KeepsStep):
    """Says in frames and greetings that it is in a later round."""

    def claimed(self, round_: int) -> int:
        return LAST_ROUND

    def greets(self, of: PressingNeighbour, number: int) -> None:
        of.greet(number, self.claimed(of.round))

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        claimed = self.claimed(round_)
        of.greet_all(claimed)
        of.frame(claimed)


class ClaimsFifty(ClaimsRound):
    """The same: fifty rounds later than it is."""

    def claimed(self, round_: int) -> int:
        return round_ + 50


class ClaimsHorizon(ClaimsRound):
    """The same: the last round of all."""

    def claimed(self, round_: int) -> int:
        return self.horizon


class ClaimsInGreetings(ClaimsRound):
    """Claims the last number there is in greetings only, and keeps step otherwise."""

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        of.greet_all(LAST_ROUND)
        of.frame(round_)


class SequenceJumps(KeepsStep):
    """Keeps step, but for the numbers of its frames."""

    def begins(self, of: PressingNeighbour) -> None:
        self.turn = 0

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        self.turn += 1
        jump = min(LAST_SEQUENCE, self.turn << 33)
        of.frame(round_, sequence=LAST_SEQUENCE if self.turn > 1000 else jump)


# Fullness


class FutureBursts(KeepsStep):
    """Says twenty large frames of later rounds in every round, and keeps step."""

    def begins(self, of: PressingNeighbour) -> None:
        self.fat = [refused_rows(self, ROWS)]

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        of.frame(round_)
        for ahead in range(1, 21):
            of.frame(round_ + ahead, self.fat)


class FatRefused(KeepsStep):
    """Says 60,000 messages in every frame, none of which anybody may believe."""

    def begins(self, of: PressingNeighbour) -> None:
        self.fat = [refused_rows(self, ROWS)]

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        of.frame(round_, self.fat)


class FatPlausible(KeepsStep):
    """Says 60,000 messages in every frame, all of origins that take part and of trials that there were."""

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        of.frame(round_, [plausible_rows(self, ROWS, round_)])


class QuotaHugging(KeepsStep):
    """Says as many plausible messages as an honest neighbour could have to say: each origin, each of γ trials."""

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        of.frame(round_, [plausible_rows(self, self.honest * self.gamma * 2, round_)])


class ManyFrames(KeepsStep):
    """Says the frame of each round two hundred times."""

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        for _ in range(200):
            of.frame(round_)


class OldReplay(KeepsStep):
    """Says records of long ago, of every origin and trial, over and over."""

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        of.frame(round_, [plausible_rows(self, 2000, max(2, round_ // 2))])


def refused_rows(of: KeepsStep, count: int) -> list[Any]:
    """Messages of origins that do not take part."""
    return _rows(of, count, [struct.pack("<HQIHH", 7 + number, 0, 1, 1, 1) for number in range(count)])


def plausible_rows(of: KeepsStep, count: int, round_: int) -> list[Any]:
    """What honest origins might have said in the last hundred trials, a hop away: that they know nothing yet."""
    last = max(1, round_ - 1)
    heads = [
        struct.pack("<HQIHH", origin, 0, last - back, of.gamma, max(1, of.gamma - 1))
        for back in range(min(last, 100))
        for origin in range(of.honest)
    ]
    return _rows(of, count, heads)


def _rows(of: KeepsStep, count: int, heads: list[bytes]) -> list[Any]:
    """So many messages, as far as a frame has room for them."""
    body = nothing(of.scene)
    count = min(count, MOST_BYTES // (18 + len(body)))
    head = b"".join(heads) * (count // len(heads) + 1)
    return [of.scene.tag, of.scene.arms, count, head[: 18 * count], body * count, b""]


# Wrong frames


class Wrong(KeepsStep):
    """Says nothing that can be used: something else is wrong with each thing it says."""

    def greets(self, of: PressingNeighbour, number: int) -> None:
        self._say_all(of, number)

    def begins(self, of: PressingNeighbour) -> None:
        of.every(0.01, lambda: [self._say_all(of, number) for number in of.neighbours])

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        pass

    def kinds(self, of: PressingNeighbour, number: int) -> list[tuple[bytes, ...]]:
        sync = b"sync/%d/" % number
        wrong: list[dict[str, Any]] = [{"version": 2}, {"run": bytes(8)}, {"sender": number}, {"sender": 5}]
        return [
            *((topic + of.encoded(of.round, **change),) for change in wrong for topic in (sync, b"frame/")),
            (sync + random.randbytes(200),),
            (b"frame/" + b"\xdd\xff\xff\xff\xff" * 40,),
            (b"frame/other/" + of.encoded(of.round),),
            (b"frame/", *(b"",) * 2000),
            (b"frame/" + of.encoded(of.round), *(b"frame/" + of.encoded(of.round),) * 50),
        ]

    def _say_all(self, of: PressingNeighbour, number: int) -> None:
        for parts in self.kinds(of, number):
            of.say(*parts)


class WrongVersion(Wrong):
    """The same with nothing but another version."""

    def kinds(self, of: PressingNeighbour, number: int) -> list[tuple[bytes, ...]]:
        return [(b"sync/%d/" % number + of.encoded(of.round, flags=2, version=2),)]


class WrongRun(Wrong):
    """The same with nothing but another run."""

    def kinds(self, of: PressingNeighbour, number: int) -> list[tuple[bytes, ...]]:
        return [(b"sync/%d/" % number + of.encoded(of.round, flags=2, run=bytes(8)),)]


class WrongSender(Wrong):
    """The same with nothing but another sender."""

    def kinds(self, of: PressingNeighbour, number: int) -> list[tuple[bytes, ...]]:
        return [(b"sync/%d/" % number + of.encoded(of.round, flags=2, sender=5),)]


class WrongBesides(Wrong):
    """Keeps step, and says all that is wrong besides."""

    def greets(self, of: PressingNeighbour, number: int) -> None:
        self._say_all(of, number)
        of.greet(number)

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        of.frame(round_)


class ManyParts(KeepsStep):
    """Keeps step, and says messages of twenty thousand empty parts besides."""

    def begins(self, of: PressingNeighbour) -> None:
        of.every(0.02, lambda: of.say(b"frame/", *(b"",) * 20_000))


class Oversize(KeepsStep):
    """Says frames that are longer than any may be, upon which libzmq ends the connection."""

    def begins(self, of: PressingNeighbour) -> None:
        of.every(0.1, lambda: of.say(b"frame/" + bytes(5 << 20)))


# Floods upstream


class SubscribesForOthers(KeepsStep):
    """Subscribes and unsubscribes what honest agents subscribe of each other, without end, and keeps step."""

    at_once, between_s = 400, 0.02

    def begins(self, of: PressingNeighbour) -> None:
        of.every(self.between_s, lambda: self._flood(of))

    def _flood(self, of: PressingNeighbour) -> None:
        for number in of.neighbours:
            for other in ((number - 1) % self.honest, (number + 1) % self.honest):
                for _ in range(self.at_once):
                    of.upstream(number, b"\x01sync/%d/" % other)
                    of.upstream(number, b"\x00sync/%d/" % other)


class SubscribesSlowly(SubscribesForOthers):
    """The same, a few times in each round's time."""

    at_once, between_s = 3, 0.005


class ManyTopics(KeepsStep):
    """Subscribes ever more topics, and keeps step."""

    def begins(self, of: PressingNeighbour) -> None:
        self.topics = 0
        of.every(0.02, lambda: self._flood(of))

    def _flood(self, of: PressingNeighbour) -> None:
        self.topics += 200
        for number in of.neighbours:
            for topic in range(self.topics - 200, self.topics):
                of.upstream(number, b"\x01%d" % topic)


class UpstreamTalk(KeepsStep):
    """Sends messages to what others publish with, and keeps step."""

    def begins(self, of: PressingNeighbour) -> None:
        of.every(
            0.02, lambda: [of.upstream(number, b"\x02" + bytes(900)) for number in of.neighbours for _ in range(400)]
        )


# Lies to the environment


class ReportsHorizon(KeepsStep):
    """Keeps step, takes its seat, and reports that it is in the last round and that all the others are at fault."""

    def begins(self, of: PressingNeighbour) -> None:
        self.token = random.randbytes(16)
        of.asks_environment(HELLO, of.own, self.token, None)
        of.every(0.1, lambda: self._report(of))

    def _report(self, of: PressingNeighbour) -> None:
        blames = [[other, why, LAST_SEQUENCE] for other in range(4) for why in (1, 2, 3, 4)]
        of.asks_environment(REPORT, of.own, self.token, 0, 0, 0, [], 0, 0, 0, self.horizon, blames)


class ReportsAndClaims(ReportsHorizon):
    """The same, and claims to be there in its frames, too."""

    def hears_round(self, of: PressingNeighbour, round_: int) -> None:
        of.greet_all(self.horizon)
        of.frame(self.horizon)


PRESSURES: dict[str, Callable[..., Pressure]] = {
    "none": KeepsStep,
    "silent": Silent,
    "drip": Drip,
    "drip-greetings": DripWithGreetings,
    "greeting-only": GreetingOnly,
    "drip-half": DripHalf,
    "drip-nine": DripNine,
    "drip-ramp": DripRamp,
    "drip-every-10": DripEvery,
    "drip-every-50": DripRarely,
    "revive-and-hold": ReviveAndHold,
    "early-bird": EarlyBird,
    "come-and-go": ComeAndGo,
    "claims-last": ClaimsRound,
    "claims-50": ClaimsFifty,
    "claims-horizon": ClaimsHorizon,
    "claims-greetings": ClaimsInGreetings,
    "sequence-jumps": SequenceJumps,
    "future-bursts": FutureBursts,
    "fat-refused": FatRefused,
    "fat-plausible": FatPlausible,
    "quota-hugging": QuotaHugging,
    "many-frames": ManyFrames,
    "old-replay": OldReplay,
    "wrong": Wrong,
    "wrong-version": WrongVersion,
    "wrong-run": WrongRun,
    "wrong-sender": WrongSender,
    "wrong-besides": WrongBesides,
    "many-parts": ManyParts,
    "oversize": Oversize,
    "subscribes-for-others": SubscribesForOthers,
    "subscribes-slowly": SubscribesSlowly,
    "many-topics": ManyTopics,
    "upstream-talk": UpstreamTalk,
    "reports-horizon": ReportsHorizon,
    "reports-and-claims": ReportsAndClaims,
}
