"""What an observer reads out of a transcript: numbers, in families, one distinguisher each.

Everything comes from the bytes that were published, the arms, and what the adversary knows anyway: every reward but
one, and the noise of an agent of its own. A release is told as a cumulative record; what it added is computed back,
and what the known rewards explain is taken off, so that what remains is one unknown reward plus noise.

    counts        how many messages, releases and bytes there were, and how many pulls they told of each arm
    arms          which arm was pulled at each trial
    values        what remains of the first two releases; where one was told with several values the least, the largest
                  and, by the likelihood of each, what all of them speak for together
    differences   between the two releases, and to the noise that the adversary's own agent drew
    low bits      trailing zeros of the released numbers, as integers and as the bits of a double
    times         at which trials messages and releases came, and how many lives the agent had
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from agentd.audit.case import TARGET, Case
from agentd.audit.transcript import Transcript
from agentd.core.bodies import SEALED, Kind
from agentd.core.grid import UNIT
from agentd.core.message import Message
from agentd.core.privacy.sealing import Weighting
from agentd.core.privacy.series import scale_steps
from agentd.errors import PeerError
from agentd.wire.codec import decode_frames

NONE = math.nan
"""For what did not happen: no event ever holds of it."""
TOLD_TWICE = "the least of several values told of release 1, less the known rewards"
"""The column that is there only where one release was noised more than once, as no honest agent's ever is."""
_RELEASES = 2


class Told(NamedTuple):
    """One release as its first telling had it."""

    trial: int
    arm: int
    pulls: int
    """That it added, or that its sum runs over."""
    noised: float
    """What it added to the sum, in grid steps; the sum of all pulls where sums run on."""
    raw: int
    """The number on the wire."""
    scale: int


class Column(NamedTuple):
    """One number of every transcript: the family it belongs to and what it is, in words."""

    family: str
    words: str


@lru_cache(maxsize=8)
def columns(case: Case) -> list[Column]:
    """What `features` returns, in its order."""
    counts = ["the number of messages", "the number of releases", "the number of bytes"]
    counts += [f"the pulls told of arm {arm}" for arm in range(case.arms)]
    arms = [f"the arm of trial {trial}" for trial in range(1, case.trials + 1)] + ["the pulls of arm 0"]
    values = [
        "release 1 less the known rewards",
        "release 2 less the known rewards",
        "the sum of both releases less the known rewards",
        "the smaller of both releases less the known rewards",
        "the larger of both releases less the known rewards",
        TOLD_TWICE,
        "the largest of several values told of release 1, less the known rewards",
        "the sum of all values told of release 1, each less the known rewards and cut to ±½",
    ]
    differences = [
        "release 1 less release 2, without the known rewards",
        "release 1 less the known rewards and the noise of the adversary's own release",
        "release 2 less the known rewards and the noise of the adversary's own release",
    ]
    bits = [
        "the trailing zero bits of release 1",
        "the trailing zero bits of release 2",
        "the exponent of the lowest bit of release 1, read as a double",
        "the exponent of the lowest bit of release 2, read as a double",
    ]
    times = [
        "the trial of release 1",
        "the trial of release 2",
        "the trial of the last message",
        "the number of frames",
    ]
    families = {
        "counts": counts,
        "arms": arms,
        "values": values,
        "differences": differences,
        "low bits": bits,
        "times": times,
    }
    return [Column(family, words) for family, names in families.items() for words in names]


def features(case: Case, transcript: Transcript) -> list[float]:
    """The numbers of one transcript."""
    messages = list(_messages(case, transcript))
    releases, values = _releases(case, messages)
    pulls = [0] * case.arms
    for kind, message in messages:
        for arm, count in _pulls_told(kind, message):
            pulls[arm] = max(pulls[arm], count)
    numbers: list[float] = [len(messages), len(releases), sum(map(len, transcript.frames)), *pulls]
    numbers += [*transcript.arms, transcript.arms.count(0)]
    numbers += _of_values(case, transcript, releases, values)
    first, second = _padded([told.raw for told in releases])
    numbers += [_trailing_zeros(first), _trailing_zeros(second), _lowest_bit(first), _lowest_bit(second)]
    last = messages[-1][1].trial if messages else NONE
    return [*numbers, *_padded([told.trial for told in releases]), last, len(transcript.frames)]


def first_releases(case: Case, transcript: Transcript) -> list[int]:
    """The trials of all releases."""
    return [told.trial for told in _releases(case, list(_messages(case, transcript)))[0]]


def _messages(case: Case, transcript: Transcript) -> Iterable[tuple[Kind, Message]]:
    """The agent's own messages."""
    for frame in decode_frames(transcript.frames, arms=case.arms):
        if isinstance(frame, PeerError):
            raise ValueError(f"the agent published a frame that nobody can read: {frame}")
        for batch in frame.batches:
            for message in batch.messages():
                if message.origin == TARGET:
                    yield batch.kind, message


def _pulls_told(kind: Kind, message: Message) -> list[tuple[int, int]]:
    if kind is SEALED:
        return [(message.body[0], message.body[1])]
    return list(enumerate(message.body[0::3]))


def _releases(case: Case, messages: list[tuple[Kind, Message]]) -> tuple[list[Told], list[float]]:
    """The releases in the order of their first telling, and every value that was told of the first one."""
    weighting = Weighting.of(case.epsilon)
    held: dict[int, tuple[int, int, int]] = {}
    releases: list[Told] = []
    keys: list[tuple[int, int]] = []
    values: list[float] = []
    for kind, message in messages:
        for key, told in _told(kind, message, held, weighting):
            if key not in keys:
                keys.append(key)
                releases.append(told)
            if key == keys[0]:
                values.append(told.noised)
    return releases, values


def _told(
    kind: Kind, message: Message, held: dict[int, tuple[int, int, int]], weighting: Weighting
) -> Iterable[tuple[tuple[int, int], Told]]:
    """What a message says was released, by arm and by number or place of the release."""
    if kind is not SEALED:
        cells = zip(message.body[1::3], message.body[2::3], strict=True)
        for arm, (pulls, noised) in enumerate(cells):
            if pulls:
                yield (arm, pulls), Told(message.trial, arm, pulls, noised, noised, scale_steps(pulls))
        return
    arm, pulls, batches, _, total = message.body
    if not pulls:
        return
    number, before_pulls, before_total = held.get(arm, (0, 0, 0))
    if batches > number:
        held[arm] = (batches, pulls, total)
    elif batches == 1:
        before_pulls, before_total = 0, 0  # a first batch told again
    else:
        return  # a later batch told again: nothing hangs on it, only the first release is followed
    added = pulls - before_pulls
    grown = added * UNIT
    sum_added = (total - before_total) * (grown + weighting.handicap) / grown
    yield (arm, batches), Told(message.trial, arm, added, sum_added, total, weighting.scale)


def _of_values(case: Case, transcript: Transcript, releases: list[Told], values: list[float]) -> list[float]:
    rest = [(told.noised - told.pulls * case.known) / UNIT for told in releases[:_RELEASES]]
    first, second = _padded(rest)
    own = [transcript.twin.draw(told.arm, told.scale) / UNIT for told in releases[:_RELEASES]]
    own_first, own_second = _padded(own)
    least = largest = NONE
    known = releases[0].pulls * case.known if releases else 0
    rests = [(value - known) / UNIT for value in sorted(set(values))]
    if len(rests) > 1:
        least, largest = rests[0], rests[-1]
    # Beyond either input the densities of Laplace noise keep their ratio; in between, its logarithm is a straight line.
    likelihood = sum(min(max(rest, -0.5), 0.5) for rest in rests) if rests else NONE
    both = [first + second, min(first, second), max(first, second)] if len(rest) > 1 else [NONE] * 3
    told = [least, largest, likelihood]
    return [first, second, *both, *told, first - second, first - own_first, second - own_second]


def _padded(numbers: Sequence[float]) -> tuple[float, float]:
    first, second, *_ = [*numbers, NONE, NONE]
    return first, second


def _trailing_zeros(number: float) -> float:
    if math.isnan(number):
        return NONE
    whole = int(number)
    return (whole & -whole).bit_length() - 1 if whole else 64


def _lowest_bit(number: float) -> float:
    """The exponent of the lowest bit of the double whose bits are this 64-bit integer."""
    if math.isnan(number):
        return NONE
    (value,) = struct.unpack("<d", struct.pack("<q", int(number)))
    if not math.isfinite(value):
        return NONE
    numerator, denominator = value.as_integer_ratio()
    return float(1 - denominator.bit_length()) if denominator > 1 else _trailing_zeros(numerator)
