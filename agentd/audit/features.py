"""What an observer reads out of a transcript: numbers, in families, one distinguisher each.

Everything comes from the bytes that were published, the arms, and what the adversary knows anyway: every reward but
one, which trial that was, and the noise of an agent of its own. The release that holds the unknown reward is followed.
A release is told as a cumulative record; what it added is computed back, and what the known rewards explain is taken
off, so that what remains is one unknown reward plus noise.

    counts        how many messages, relays, releases and bytes there were, and how many pulls they told of each arm
    arms          which arm was pulled at each trial, after the flipped one, and after the release that holds it
    values        what remains of that release, of the next of its arm, and of both; by arm, by batch and by what was
                  known; where it was told with several values, what all of them speak for together
    differences   to the releases before and after it, and to the noise that the adversary's own agent drew
    low bits      trailing zeros of the released numbers, as integers and as the bits of a double
    fields        what records say beyond what their pulls make of them: samples, pulls, batches, lives
    frames        bytes, messages, relays, sequence and flags of the frames at and after the flipped trial, and the last
    times         at which trials messages and releases came, and how many frames there were
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from agentd.audit.case import KNOWN, Case
from agentd.audit.told import Told, first_told, read
from agentd.audit.transcript import Transcript
from agentd.core.grid import UNIT

NONE = math.nan
"""For what did not happen: no event ever holds of it."""
_DECIMALS = 4
"""Of a reward: what is computed back from rounded records is near to this, so that equal values are equal."""
_AROUND = 2
"""Releases before and after the one that is followed, and frames after the flipped trial, that are looked at."""


class Column(NamedTuple):
    """One number of every transcript: the family it belongs to and what it is, in words."""

    family: str
    words: str


Numbers = Iterator[tuple[str, str, float]]
"""Family, words and number."""


@lru_cache(maxsize=8)
def columns(case: Case) -> list[Column]:
    """What `features` returns, in its order."""
    nothing = first_told(case, [0] * case.trials)
    return [Column(family, words) for family, words, _ in _numbers(case, nothing)]


def features(case: Case, transcript: Transcript) -> tuple[list[float], bool]:
    """The numbers of one transcript, and whether anything in it was noised twice."""
    told = read(case, transcript)
    return [number for _, _, number in _numbers(case, told)], told.noised_twice


def _numbers(case: Case, told: Told) -> Numbers:
    yield from _counts(case, told)
    yield from _arms(told)
    yield from _values(told)
    yield from _differences(told)
    yield from _bits(told)
    yield from _fields(told)
    yield from _frames(told)
    yield from _times(told)


def _counts(case: Case, told: Told) -> Numbers:
    yield "counts", "the number of messages", len(told.own)
    yield "counts", "the number of relays", sum(frame.relays for frame in told.frames)
    yield "counts", "the number of releases", len(told.releases)
    yield "counts", "the number of bytes", sum(frame.size for frame in told.frames)
    for arm in range(case.arms):
        yield "counts", f"the pulls told of arm {arm}", told.pulls_told.get(arm, 0)
    flipped = told.arm_at(told.flipped)
    yield "counts", "the pulls told of the arm of the flipped trial", told.pulls_told.get(int(flipped), 0)


def _arms(told: Told) -> Numbers:
    for trial, arm in enumerate(told.arms, start=1):
        yield "arms", f"the arm of trial {trial}", arm
    yield "arms", "the pulls of arm 0", told.arms.count(0)
    yield "arms", "the arm after the flipped trial", told.arm_at(told.flipped + 1)
    held = told.held
    after = told.arm_at(held.trial + 1) if held is not None else NONE
    yield "arms", "the arm after the release that holds it", after
    same = NONE if held is None or math.isnan(after) else float(after == held.arm)
    yield "arms", "whether the arm after the release is that of the release", same


def _values(told: Told) -> Numbers:
    held, following = told.rest(0), told.rest_of_next
    yield "values", "the release that holds it less the known rewards", held
    yield "values", "the next release of its arm less the known rewards", following
    pair = (held, following) if not math.isnan(held + following) else (NONE, NONE)
    yield "values", "the sum of both less the known rewards", sum(pair)
    yield "values", "the smaller of both less the known rewards", min(pair)
    yield "values", "the larger of both less the known rewards", max(pair)
    release = told.held
    closes = release is not None and release.trial == told.flipped
    yield (
        "values",
        "both, cut to ±½, where the flipped trial closed its batch",
        (_cut(pair[0]) + _cut(pair[1] - 0.5) if closes else NONE),
    )
    arm, batch = (release.arm, release.number) if release is not None else (-1, -1)
    yield "values", "that release, of arm 0", held if arm == 0 else NONE
    yield "values", "that release, of another arm", held if arm > 0 else NONE
    yield "values", "that release, of a first batch", held if batch == 1 else NONE
    yield "values", "that release, of a later batch", held if batch > 1 else NONE
    for known in KNOWN:
        here = held if told.known == known else NONE
        yield "values", f"that release, to a hundredth, where other rewards are {known / UNIT:g}", round(here, 2)
        yield "values", f"that release, where other rewards are {known / UNIT:g}", here
    rests = told.several
    yield "values", "the least of several values told of it", min(rests) if len(rests) > 1 else NONE
    yield "values", "the largest of several values told of it", max(rests) if len(rests) > 1 else NONE
    likelihood = sum(_cut(rest) for rest in rests) if rests else NONE
    yield "values", "the sum of all values told of it, each cut to ±½", likelihood


def _differences(told: Told) -> Numbers:
    held = told.rest(0)
    for step in (step for step in range(-_AROUND, _AROUND + 1) if step):
        place = f"{abs(step)} {'later' if step > 0 else 'earlier'}"
        yield "differences", f"that release less the one {place}", _near(held - told.rest(step))
    yield "differences", "that release less the noise of the adversary's own", _near(held - told.twin)


def _bits(told: Told) -> Numbers:
    raw = told.held.raw if told.held is not None else None
    yield "low bits", "the trailing zero bits of that release", _trailing_zeros(raw)
    yield "low bits", "the exponent of the lowest bit of that release, read as a double", _lowest_bit(raw)


def _fields(told: Told) -> Numbers:
    held = told.held
    yield "fields", "the samples of that release beyond what its pulls are worth", held.surplus if held else NONE
    yield (
        "fields",
        "the samples of all releases beyond what their pulls are worth",
        sum(r.surplus for r in told.releases),
    )
    yield "fields", "the pulls of that release", held.pulls if held else NONE
    yield "fields", "the number of that release", held.number if held else NONE
    yield "fields", "the lives left of own messages", sum(message.life for message in told.own)
    yield "fields", "the largest incarnation", max((message.incarnation for message in told.own), default=0)


def _frames(told: Told) -> Numbers:
    for step in range(_AROUND + 1):
        frame = told.frame_at(told.flipped + step)
        place = f"the frame {step} after the flipped trial"
        yield "frames", f"the bytes of {place}", frame.size if frame else NONE
        yield "frames", f"the own messages of {place}", frame.own if frame else NONE
        yield "frames", f"the relays of {place}", frame.relays if frame else NONE
        yield "frames", f"the flags of {place}", frame.flags if frame else NONE
        yield "frames", f"the numbers left out before {place}", frame.gap if frame else NONE
    yield "frames", "the flags of the last frame", told.frames[-1].flags if told.frames else NONE
    yield "frames", "the numbers left out", sum(frame.gap for frame in told.frames)


def _times(told: Told) -> Numbers:
    held = told.held
    yield "times", "the trials from the flipped one to its release", held.trial - told.flipped if held else NONE
    for place in range(_AROUND):
        trial = told.releases[place].trial if len(told.releases) > place else NONE
        yield "times", f"the trial of release {place + 1}", trial
    yield "times", "the trial of the last message", told.own[-1].trial if told.own else NONE
    yield "times", "the number of frames", len(told.frames)


def _cut(rest: float) -> float:
    """As far as it speaks for an input: beyond either, the densities of Laplace noise keep their ratio."""
    return rest if math.isnan(rest) else min(max(rest, -0.5), 0.5)


def _near(number: float) -> float:
    return number if math.isnan(number) else round(number, _DECIMALS)


def _trailing_zeros(number: int | None) -> float:
    if number is None:
        return NONE
    return (number & -number).bit_length() - 1 if number else 64


def _lowest_bit(number: int | None) -> float:
    """The exponent of the lowest bit of the double whose bits are this 64-bit integer."""
    if number is None:
        return NONE
    (value,) = struct.unpack("<d", struct.pack("<q", number))
    if not math.isfinite(value):
        return NONE
    numerator, denominator = value.as_integer_ratio()
    return float(1 - denominator.bit_length()) if denominator > 1 else _trailing_zeros(numerator)
