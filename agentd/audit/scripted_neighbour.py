"""The neighbour that listens: quiet, or one that chooses what it says so as to make the agent give itself away.

The adversary knows the algorithm, its settings, its decision coins and every reward but one. What it does:

- It announces many origins, so that batches close after a few pulls: less noise is averaged away, more is told.
- It tells of every arm but the first, so that the first choice after the agent's first release is a real one; and
  that all but the second are worth so little that nobody would choose them.
- **It lets the agent relay**: what has life left comes so that the agent forwards it right after the unknown reward.
- **It adapts.** When it has heard the agent's first release, and the unknown reward is in it, it works out what the
  next choice will be made of, coins included, and invents origins (many, because of each only so much counts) whose
  records make the agent choose the first arm exactly if the mean it goes by is above the middle between the two inputs.
  A choice that follows the released value then tells what everybody heard anyway; one that follows anything else, such
  as raw rewards, tells which input it was.

To private-ucb it says that both arms are worth half a reward, after one pull: the agent's own raw reward tips the
scale. An agent that comes back after a crash has forgotten what it heard; a link that is made anew shows that, and
everything is said again.
"""

from __future__ import annotations

import math
from functools import lru_cache

from agentd.audit.case import TARGET, Case, Input
from agentd.core.bodies import RELEASED, SEALED, Kind
from agentd.core.grid import UNIT
from agentd.core.message import Message, batch_of
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.coins import KeyedCoins, held_since
from agentd.core.policy.sealed import VARIANCE
from agentd.core.privacy.sealing import Weighting
from agentd.wire.codec import decode_frame, encode_frame
from agentd.wire.frame import Frame

RUN = bytes(8)
SENDER = 1
GAMMA = 3
"""So that there are relays: whatever the neighbour invents, it says that it heard it on the way."""
_TRAVELLER = SENDER + 300
"""The origin whose messages the agent is to relay."""
_TRIAL = 1000
"""The trial its origins pretend to be at: enough for the pulls they claim."""
_MOST_ORIGINS = 200
_PULLS = 2
"""After so many pulls the first batch of an arm is to close."""
_SUM = 0
"""What it says of the second arm at first."""
_HOPELESS = -10
"""The mean of the arms after that; noise alone could be as large, so no check refuses it."""
_PARTS = 64
"""Origins that share what the next choice is made to hang on."""


class Quiet:
    """A neighbour that only listens."""

    def greet(self) -> list[bytes]:
        return []

    def answer(self, heard: bytes) -> list[bytes]:  # noqa: ARG002
        return []


class Adversary:
    """A neighbour that steers; every frame it sends is bytes that the agent decodes."""

    def __init__(self, case: Case, given: Input) -> None:
        self._case = case
        self._given = given
        self._tie: list[Message] = []
        self._is_told = False
        self._heard = 0

    def greet(self) -> list[bytes]:
        """What an agent hears that is new, or that comes back."""
        return [_frame(self._case, SEALED, self._all())] if self._tie else [greeting(self._case)]

    def answer(self, heard: bytes) -> list[bytes]:
        """What the adversary says to what it has just heard."""
        if ALGORITHMS[self._case.algorithm].tells is not SEALED:
            return []
        self._heard += 1
        steering = self._steer(heard)
        said = [_frame(self._case, SEALED, steering)] if steering else []
        sends_on_its_way = 0 <= self._given.flipped - self._heard <= 1  # to be relayed right after the unknown reward
        return [*said, _traveller(self._case, self._heard)] if sends_on_its_way else said

    def _steer(self, heard: bytes) -> list[Message]:
        """Once, when the agent's first release is heard."""
        if self._is_told:
            return []
        for batch in decode_frame(heard, arms=self._case.arms).batches:
            for message in batch.messages():
                if batch.kind is SEALED and message.origin == TARGET and message.body[1]:
                    self._is_told = True
                    if self._given.flipped <= message.trial:
                        self._tie = _tie(self._case, self._given.known, message.trial, message.body)
        return self._tie

    def _all(self) -> list[Message]:
        return [*_announced(self._case), *self._tie]


Neighbour = Quiet | Adversary


def neighbour_of(case: Case, given: Input) -> Neighbour:
    """Who listens in this case."""
    return Adversary(case, given) if case.adversary else Quiet()


@lru_cache(maxsize=8)
def greeting(case: Case) -> bytes:
    """The adversary's first frame."""
    if ALGORITHMS[case.algorithm].tells is SEALED:
        return _frame(case, SEALED, _announced(case))
    return _frame(case, RELEASED, [_relayed(0, (1, 1, UNIT // 2) * case.arms)])


@lru_cache(maxsize=256)
def _traveller(case: Case, number: int) -> bytes:
    """Something new that the agent is to relay."""
    return _frame(case, SEALED, [Message(_TRAVELLER, _TRIAL + number, GAMMA - 1, (0,) * 5, GAMMA)])


def _announced(case: Case) -> list[Message]:
    """One origin that tells of the second arm after one pull, and as many more that spoil the others or say hello."""
    weighting = Weighting.of(case.epsilon)
    others = min(math.ceil(8 * case.arms * UNIT / weighting.samples(_PULLS)), _MOST_ORIGINS) - 1
    samples = weighting.samples(1)
    spoilt = range(2, case.arms)
    bodies = [(arm, 1, 1, samples, _HOPELESS * samples) for arm in spoilt] or [(0, 0, 0, 0, 0)]
    said = [(1, 1, 1, samples, _SUM), *(bodies[place % len(bodies)] for place in range(others))]
    return [_relayed(place, body) for place, body in enumerate(said)]


@lru_cache(maxsize=8)
def coins_of(seed: int) -> KeyedCoins:
    """The agent's decision coins, which are public: a function of seed and trial."""
    return KeyedCoins(seed, TARGET)


def _tie(case: Case, others: int, trial: int, released: tuple[int, ...]) -> list[Message]:
    """Records of the second arm by which the next choice hangs on the first arm's mean, at the middle of both inputs.

    The choice is the larger S/A + √(VARIANCE/A)·coin; the one of the first arm is known but for its mean.
    """
    _, pulls, _, own, _ = released
    # So many origins are heard at least, and in a group that large the coins are still those of the first trial.
    coins = coins_of(case.seed).gauss(held_since(trial + 1, _PARTS), case.arms)
    told = Weighting.of(case.epsilon).samples(1)
    known = (1 + _PARTS) * told
    middle = ((pulls - 1) * others + UNIT / 2) / (pulls * UNIT)
    index = middle + math.sqrt(VARIANCE / own) * coins[0]
    mean = index - math.sqrt(VARIANCE / known) * coins[1]
    wanted = round((mean * known - _SUM) / _PARTS)
    return [_relayed(_MOST_ORIGINS + part, (1, 1, 1, told, wanted)) for part in range(_PARTS)]


def _relayed(place: int, body: tuple[int, ...]) -> Message:
    """What an invented origin is said to have said, at the end of its way."""
    return Message(SENDER + 1 + place, _TRIAL, 1, body, GAMMA)


def _frame(case: Case, kind: Kind, messages: list[Message]) -> bytes:
    return encode_frame(Frame(RUN, SENDER, 0, 1, 1, 0, (batch_of(kind, messages),), case.arms))
