"""What an attacker says: each attack makes the messages of one round, written from PROTOCOL.md alone.

The aim is always the same: that honest agents pull the worst arm. An attack is a function of the scene and the round;
it may say things in the attacker's name, in those of honest agents, and in names that it invents.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

UNIT = 1 << 20
LAST_TRIAL = (1 << 30) - 1
LAST_INCARNATION = (1 << 53) - 1
LAST_LIFE = 65_535
RELEASED, TOTALS, SAMPLE, SEALED = 1, 2, 3, 4
TAGS = {"private-ucb": RELEASED, "coop-ucb": TOTALS, "byzantine-ucb": SAMPLE, "sealed": SEALED}

INVENTED = 400
"""Names that say something in every round."""
CROWD = 6000
"""Names that say something once: more than any table of origins has room for."""
CROWD_AT_ONCE = 300
"""Of these in one round; a frame with all of them is longer than any that the terms allow, and is not even read."""


class Said(NamedTuple):
    """One message, as the wire has it."""

    tag: int
    origin: int
    incarnation: int
    trial: int
    lifetime: int
    life: int
    body: bytes

    @property
    def head(self) -> bytes:
        return struct.pack("<HQIHH", self.origin, self.incarnation, self.trial, self.lifetime, self.life)


@dataclass(frozen=True)
class Scene:
    """What an attacker knows of the run."""

    algorithm: str
    arms: int
    praised: int
    """The worst arm, which everybody is to pull."""
    gamma: int
    honest: tuple[int, ...]
    own: int
    means: tuple[float, ...]
    epsilon: float = 1.0
    told: dict[Any, Any] = field(default_factory=dict)
    """What attacks remember of the rounds before."""

    @property
    def tag(self) -> int:
        return TAGS[self.algorithm]

    @cached_property
    def handicap(self) -> float:
        """Of sealed batches: h = 8/ε²."""
        return 8.0 / self.epsilon**2


Attack = Callable[[Scene, int], Iterable[Said]]


def batches(messages: Iterable[Said], arms: int) -> list[list[Any]]:
    """The batches of a frame, one per kind."""
    grouped = groupby(sorted(messages, key=lambda said: said.tag), key=lambda said: said.tag)
    return [_batch(tag, arms, list(said)) for tag, said in grouped]


def _batch(tag: int, arms: int, said: list[Said]) -> list[Any]:
    return [tag, arms, len(said), b"".join(m.head for m in said), b"".join(m.body for m in said), b""]


# Bodies


def praise(scene: Scene, name: int, trial: int, salt: int = 0) -> bytes | None:
    """What an origin with so many trials would say if the praised arm always paid and no other ever did."""
    share = trial // scene.arms
    if scene.tag == SAMPLE:
        return _sample(scene, trial + name)
    if scene.tag == SEALED:
        return _sealed(scene, name, trial, salt)
    paid = [share * UNIT if arm == scene.praised else 0 for arm in range(scene.arms)]
    if scene.tag == TOTALS:
        return b"".join(struct.pack("<Iq", share, each) for each in paid)
    return b"".join(struct.pack("<IIq", share, share, each) for each in paid)


def _sample(scene: Scene, turn: int) -> bytes:
    arm = scene.praised if turn % 2 else turn // 2 % scene.arms
    return struct.pack("<HI", arm, UNIT if arm == scene.praised else 0)


def _sealed(scene: Scene, name: int, trial: int, salt: int) -> bytes | None:
    """The record of one arm after another, each batch as large as all before it; None while no batch is full."""
    arm = trial % scene.arms
    pulls, count, samples = scene.told.get((name, arm, salt), (0, 0, 0))
    more = trial // scene.arms - pulls
    if more < max(4, pulls):
        return None
    samples += int(more * more / (more + scene.handicap) * UNIT)
    scene.told[name, arm, salt] = pulls + more, count + 1, samples
    return struct.pack("<HIIqq", arm, pulls + more, count + 1, samples, samples if arm == scene.praised else 0)


def nothing(scene: Scene) -> bytes:
    """A body that tells of no reward."""
    return {RELEASED: bytes(16 * scene.arms), TOTALS: bytes(12 * scene.arms), SAMPLE: bytes(6), SEALED: bytes(26)}[
        scene.tag
    ]


def _say(
    scene: Scene,
    origin: int,
    trial: int,
    *,
    life: int,
    lifetime: int | None = None,
    incarnation: int = 0,
    body: bytes | None = None,
    salt: int = 0,
) -> list[Said]:
    if body is None:
        body = praise(scene, origin, trial, salt)
    if body is None or trial < 1 or life < 1:
        return []
    return [Said(scene.tag, origin, incarnation, trial, scene.gamma if lifetime is None else lifetime, life, body)]


# Attacks


def silence(scene: Scene, round_: int) -> list[Said]:
    """No attack: a neighbour that says nothing in any name."""
    return []


def forged_incarnation(scene: Scene, round_: int) -> list[Said]:
    """Every honest agent seems to have come back for the last time, with nothing to tell."""
    return [
        said
        for origin in scene.honest
        for said in _say(
            scene,
            origin,
            round_,
            life=LAST_LIFE,
            lifetime=LAST_LIFE,
            incarnation=LAST_INCARNATION,
            body=nothing(scene) if scene.tag != SAMPLE else None,
        )
    ]


def forged_return(scene: Scene, round_: int) -> list[Said]:
    """Every honest agent seems to come back in every round, as one that lost its state would, and praises."""
    return [
        said
        for origin in scene.honest
        for behind in (0, 1)
        if (lost := round_ - behind - 1) > 0
        for said in _say(scene, origin, lost + 1, life=scene.gamma - behind, incarnation=lost, salt=behind)
    ]


def invented_origins(scene: Scene, round_: int) -> list[Said]:
    """Hundreds that nobody knows praise, half of them as if next to us and half as if behind us."""
    said = []
    for name in range(1000, 1000 + INVENTED):
        behind = name % 2
        said += _say(scene, name, round_ - behind, life=scene.gamma - behind)
    return said


def crowd(scene: Scene, round_: int) -> list[Said]:
    """Thousands of names in the first rounds, so that there is no room for those who are real."""
    body, first = nothing(scene), 7 + CROWD_AT_ONCE * (round_ - 1)
    names = range(first, min(first + CROWD_AT_ONCE, 7 + CROWD))
    life = scene.gamma + 1 - min(round_, 2)
    return [said for name in names for said in _say(scene, name, 1, life=life, body=body)]


def long_lives(scene: Scene, round_: int) -> list[Said]:
    """Everybody seems to praise, with so much life that these copies are preferred to all real ones, and go round."""
    return [
        said
        for origin in (*scene.honest, scene.own)
        for said in _say(scene, origin, round_, life=LAST_LIFE, lifetime=LAST_LIFE)
    ]


def future_trials(scene: Scene, round_: int) -> list[Said]:
    """Every honest agent seems to have come to its last trial already."""
    ahead = LAST_TRIAL - scene.arms - 2000 + round_
    return [
        said
        for origin in (*scene.honest, scene.own)
        for said in _say(scene, origin, ahead, life=scene.gamma if origin == scene.own else scene.gamma - 1)
    ]


def near_future(scene: Scene, round_: int) -> list[Said]:
    """Every honest agent seems to be at the end of its run, as far as anybody may be."""
    ahead = min(round_ + 1000, 1500)
    return [
        said
        for origin in (*scene.honest, scene.own)
        for said in _say(scene, origin, ahead, life=scene.gamma if origin == scene.own else scene.gamma - 1)
    ]


def own_praise(scene: Scene, round_: int) -> list[Said]:
    """A liar in its own name, without any noise."""
    return _say(scene, scene.own, round_, life=scene.gamma)


def own_noise(scene: Scene, round_: int) -> list[Said]:
    """A liar in its own name with as much luck with its noise as 49aef1d believed: means of 12 and 69."""
    if scene.tag == RELEASED:
        return _say(scene, scene.own, round_, life=scene.gamma, body=_lucky_releases(scene, round_, 63.9, 0.75))
    if scene.tag == SEALED:
        body = _incredible_record(scene, round_)
        return _say(scene, scene.own, round_, life=scene.gamma, body=body) if body else []
    return own_praise(scene, round_)


def _lucky_releases(scene: Scene, trial: int, scales: float, exponent: float) -> bytes:
    share = trial // scene.arms
    slack = int(scales * share**exponent * UNIT)
    sums = [share * UNIT + slack if arm == scene.praised else -slack for arm in range(scene.arms)]
    return b"".join(struct.pack("<IIq", share, share, total) for total in sums)


def _incredible_record(scene: Scene, trial: int) -> bytes | None:
    """Every pull a batch of its own: the most batches, and 64 scales of noise in each."""
    arm = trial % scene.arms
    pulls = trial // scene.arms
    if not pulls:
        return None
    samples = int(pulls / (1 + scene.handicap) * UNIT)
    slack = int(63.9 * (pulls * samples * (UNIT / 8)) ** 0.5)
    total = samples + slack if arm == scene.praised else -slack
    return struct.pack("<HIIqq", arm, pulls, pulls, samples, total)


def own_luck(scene: Scene, round_: int) -> list[Said]:
    """The same with as much luck as is believed now: noise that an honest agent has once in a billion messages."""
    if scene.tag == RELEASED:
        return _say(scene, scene.own, round_, life=scene.gamma, body=_lucky_releases(scene, round_, 22.0, 0.55))
    if scene.tag == SEALED:
        body = _lucky_record(scene, round_)
        return _say(scene, scene.own, round_, life=scene.gamma, body=body) if body else []
    return own_praise(scene, round_)


def _lucky_record(scene: Scene, trial: int) -> bytes | None:
    """The first batch of each arm had all the luck, those after it none."""
    body = praise(scene, scene.own, trial)
    if body is None:
        return None
    arm, pulls, count, samples, total = struct.unpack("<HIIqq", body)
    first = scene.told.setdefault(("first", arm), pulls)
    luck = int(21.0 / scene.epsilon * first / (first + scene.handicap) * UNIT)
    return struct.pack("<HIIqq", arm, pulls, count, samples, total + (luck if arm == scene.praised else -luck))


def own_strongest(scene: Scene, round_: int) -> list[Said]:
    """A liar in its own name with the strongest lie that is known to pass every check, trial by trial."""
    numbers = _lie_of(scene).says(round_)
    if numbers is None:
        return []
    return _say(scene, scene.own, round_, life=scene.gamma, body=struct.pack(_body_format(scene), *numbers))


def hear(scene: Scene, batches: list[list[Any]]) -> None:
    """Let a lie that goes by what others say hear them."""
    record = struct.Struct(_body_format(scene))
    for tag, _arms, count, heads, bodies, _signatures in batches:
        for place in range(count if tag == scene.tag else 0):
            (origin,) = struct.unpack_from("<H", heads, 18 * place)
            _lie_of(scene).hears(origin, record.unpack_from(bodies, record.size * place))


def _lie_of(scene: Scene) -> Any:
    from strongest_lies import LIES  # needs this program, and attacks on others may not

    if "lie" not in scene.told:
        scene.told["lie"] = LIES[scene.algorithm](scene.means, scene.epsilon)
    return scene.told["lie"]


def _body_format(scene: Scene) -> str:
    return {RELEASED: "<" + "IIq" * scene.arms, TOTALS: "<" + "Iq" * scene.arms, SAMPLE: "<HI", SEALED: "<HIIqq"}[
        scene.tag
    ]


def fat_frames(scene: Scene, round_: int) -> list[Said]:
    """As many messages as a frame holds, none of which anybody may believe."""
    if scene.told.get("fat") is None:
        scene.told["fat"] = [Said(scene.tag, name, 0, 1, 1, 1, nothing(scene)) for name in range(7, 60_007)]
    fat: list[Said] = scene.told["fat"]
    return fat


def plausible_forgery(scene: Scene, round_: int) -> list[Said]:
    """Every honest agent praises, as if we had relayed it: nothing in it can be refused without signatures."""
    return [said for origin in scene.honest for said in _say(scene, origin, round_ - 1, life=scene.gamma - 1, salt=1)]


ATTACKS: dict[str, Attack] = {
    "none": silence,
    "forged-incarnation": forged_incarnation,
    "forged-return": forged_return,
    "invented-origins": invented_origins,
    "crowd": crowd,
    "long-lives": long_lives,
    "future-trials": future_trials,
    "near-future": near_future,
    "own-praise": own_praise,
    "own-noise": own_noise,
    "own-luck": own_luck,
    "own-strongest": own_strongest,
    "fat-frames": fat_frames,
    "plausible-forgery": plausible_forgery,
}
LISTENS = {"own-strongest": hear}
"""What an attack does with what others say."""
CLAIMS_ROUND = {"future-trials": LAST_TRIAL, "near-future": 1500}
"""The round that an attacker claims in its greetings; elsewhere the one that it is in."""
