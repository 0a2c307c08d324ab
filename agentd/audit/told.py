"""A transcript, read: frames, own messages, releases in their order, and the one that holds the unknown reward."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
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
from agentd.wire.frame import Frame

NONE = math.nan


class Release(NamedTuple):
    """One release as its first telling had it."""

    trial: int
    arm: int
    number: int
    """Of its arm, from 1 on."""
    pulls: int
    """That it added, or that its sum runs over."""
    noised: float
    """What it added to the sum, in grid steps; the sum of all pulls where sums run on."""
    raw: int
    """The number on the wire."""
    scale: int
    surplus: int = 0
    """Samples beyond those that its pulls are worth, in grid steps."""


class Seen(NamedTuple):
    """What there is to see of a frame."""

    round: int
    size: int
    own: int
    relays: int
    flags: int
    gap: int
    """Sequence numbers that were left out before it."""


@dataclass(slots=True)
class Told:
    """All that an observer has of one run."""

    flipped: int
    known: int
    arms: list[int]
    frames: list[Seen] = field(default_factory=list)
    own: list[Message] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    held: Release | None = None
    """The release that holds the unknown reward."""
    several: list[float] = field(default_factory=list)
    """What remains of every value that was told of it."""
    twin: float = NONE
    """The noise that an agent of the adversary's own drew for such a release."""
    pulls_told: dict[int, int] = field(default_factory=dict)
    """The most pulls that were told of each arm."""
    noised_twice: bool = False
    """Whether any release was told with several values, as no honest agent's ever is."""

    def arm_at(self, trial: int) -> float:
        return self.arms[trial - 1] if trial <= len(self.arms) else NONE

    def frame_at(self, trial: int) -> Seen | None:
        """The first frame of a trial."""
        return next((frame for frame in self.frames if frame.round == trial), None)

    def rest(self, step: int) -> float:
        """What remains of the release so many after the one that is followed, less what is known: noise, and ±½."""
        if self.held is None:
            return NONE
        place = self.releases.index(self.held) + step
        return self._rest(self.releases[place]) if 0 <= place < len(self.releases) else NONE

    @property
    def rest_of_next(self) -> float:
        """The same of the next release of that arm."""
        if self.held is None:
            return NONE
        later = self.releases[self.releases.index(self.held) + 1 :]
        return next((self._rest(release) for release in later if release.arm == self.held.arm), NONE)

    def _rest(self, release: Release) -> float:
        return self.rest_of(release, release.noised)

    def rest_of(self, release: Release, noised: float) -> float:
        """A value that was told of a release, less what is known."""
        if release is self.held:
            return (noised - (release.pulls - 1) * self.known) / UNIT - 0.5
        return (noised - release.pulls * self.known) / UNIT


def first_told(case: Case, arms: list[int]) -> Told:
    """A run in which nothing was said."""
    return Told(case.input_of(0).flipped, case.input_of(0).known, arms)


def release_trials(case: Case, transcript: Transcript) -> list[int]:
    """The trials of all releases."""
    return [release.trial for release in read(case, transcript).releases]


def read(case: Case, transcript: Transcript) -> Told:
    """Read a transcript."""
    told = Told(*transcript.given, transcript.arms)
    reader = _Reader(case)
    sequence = 0
    for data, frame in zip(transcript.frames, decode_frames(transcript.frames, arms=case.arms), strict=True):
        if isinstance(frame, PeerError):
            raise ValueError(f"the agent published a frame that nobody can read: {frame}")
        own = _own(frame)
        gap = frame.sequence - sequence - 1 if frame.sequence > sequence else 0  # another life counts from one again
        sequence = frame.sequence
        told.frames.append(Seen(frame.round, len(data), len(own), frame.messages - len(own), frame.flags, gap))
        for kind, message in own:
            told.own.append(message)
            reader.read(kind, message)
    told.releases, told.noised_twice, told.pulls_told = reader.releases, reader.noised_twice, reader.pulls_told
    _follow(told, transcript, reader)
    return told


def _own(frame: Frame) -> list[tuple[Kind, Message]]:
    return [(b.kind, message) for b in frame.batches for message in b.messages() if message.origin == TARGET]


def _follow(told: Told, transcript: Transcript, reader: _Reader) -> None:
    """Find the release that holds the unknown reward: the first of its arm that comes after it."""
    arm = told.arm_at(told.flipped)
    held = next((r for r in told.releases if r.arm == arm and r.trial >= told.flipped), None)
    if held is None:
        return
    told.held = held
    told.several = sorted({told.rest_of(held, value) for value in reader.values[held.arm, held.number]})
    for _ in range(held.number):
        told.twin = transcript.twin.draw(held.arm, held.scale) / UNIT


class _Reader:
    """Computes back what each release added."""

    def __init__(self, case: Case) -> None:
        self._weighting = Weighting.of(case.epsilon)
        self._held: dict[int, tuple[int, ...]] = {}
        self._bodies: dict[tuple[int, int], tuple[int, ...]] = {}
        self.releases: list[Release] = []
        self.values: dict[tuple[int, int], list[float]] = {}
        self.pulls_told: dict[int, int] = {}
        self.noised_twice = False

    def read(self, kind: Kind, message: Message) -> None:
        """Take in an own message."""
        if kind is SEALED:
            self._count(*message.body[:2])
            self._record(message)
            return
        for arm, pulls in enumerate(message.body[0::3]):
            self._count(arm, pulls)
        cells = zip(message.body[1::3], message.body[2::3], strict=True)
        for arm, (pulls, noised) in enumerate(cells):
            if pulls and self._is_new(arm, pulls, (noised,)):
                number = 1 + sum(release.arm == arm for release in self.releases)
                self.values[arm, number] = [noised]
                self.releases.append(Release(message.trial, arm, number, pulls, noised, noised, scale_steps(pulls)))

    def _count(self, arm: int, pulls: int) -> None:
        self.pulls_told[arm] = max(pulls, self.pulls_told.get(arm, 0))

    def _record(self, message: Message) -> None:
        arm, pulls, batches, samples, total = message.body
        if not pulls:
            return
        before = self._held.get(arm, (0, 0, 0))
        if self._is_new(arm, batches, (pulls, samples, total)):
            added = pulls - before[0]
            noised = self._unweighed(added, total - before[2])
            surplus = samples - before[1] - self._weighting.samples(added)
            self.values[arm, batches] = [noised]
            self.releases.append(
                Release(message.trial, arm, batches, added, noised, total, self._weighting.scale, surplus)
            )
            self._held[arm] = (pulls, samples, total)
            self._bodies[arm, -batches] = before
        elif self._bodies[arm, batches] != (pulls, samples, total):
            before = self._bodies[arm, -batches]
            self.values[arm, batches].append(self._unweighed(pulls - before[0], total - before[2]))

    def _is_new(self, arm: int, number: int, body: tuple[int, ...]) -> bool:
        """Whether a release is told for the first time; told again, it must be as it was."""
        known = self._bodies.setdefault((arm, number), body)
        self.noised_twice |= known != body
        return known is body

    def _unweighed(self, pulls: int, total: int) -> float:
        grown = pulls * UNIT
        return total * (grown + self._weighting.handicap) / grown if grown else 0.0
