"""The neighbour that listens: quiet, or one that chooses what it says so as to make the agent give itself away.

The adversary knows the algorithm, its settings, its decision coins and every reward but one. What it does:

- It announces many origins, so that batches close after a few pulls: less noise is averaged away, more is told.
- It tells of every arm but the first, so that the first choice after the agent's first release is a real one; and
  that all but the second are worth so little that nobody would choose them.
- **It adapts.** When it has heard the agent's first release, it works out what the next choice will be made of, coins
  included, and invents an origin whose record makes the agent choose the first arm exactly if the mean it goes by is
  above the middle between the two inputs. A choice that follows the released value then tells what everybody heard
  anyway; one that follows anything else, such as raw rewards, tells which input it was.

To private-ucb it says that both arms are worth half a reward, after one pull: the agent's own raw reward tips the
scale. An agent that comes back after a crash has forgotten what it heard; a link that is made anew shows that, and
everything is said again.
"""

from __future__ import annotations

import math
from functools import lru_cache

from agentd.audit.case import TARGET, Case
from agentd.core.bodies import RELEASED, SEALED, Kind
from agentd.core.grid import UNIT
from agentd.core.message import Message, batch_of
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.coins import KeyedCoins
from agentd.core.policy.sealed import VARIANCE
from agentd.core.privacy.sealing import Weighting
from agentd.wire.codec import decode_frame, encode_frame
from agentd.wire.frame import Frame

RUN = bytes(8)
SENDER = 1
_TRIAL = 1000
"""The trial its origins pretend to be at: enough for the pulls they claim."""
_MOST_ORIGINS = 200
_PULLS = 2
"""After so many pulls the first batch of an arm is to close."""
_SUM = 0
"""What it says of the second arm at first."""
_HOPELESS = -10
"""The mean of the arms after that; noise alone could be as large, so no check refuses it."""


class Quiet:
    """A neighbour that only listens."""

    def greet(self) -> list[bytes]:
        return []

    def answer(self, heard: bytes) -> list[bytes]:  # noqa: ARG002
        return []


class Adversary:
    """A neighbour that steers; every frame it sends is bytes that the agent decodes."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._tie: Message | None = None

    def greet(self) -> list[bytes]:
        """What an agent hears that is new, or that comes back."""
        return [greeting(self._case)] if self._tie is None else [_frame(self._case, SEALED, self._all())]

    def answer(self, heard: bytes) -> list[bytes]:
        """What the adversary says to what it has just heard."""
        if self._tie is not None:
            return []
        for batch in decode_frame(heard, arms=self._case.arms).batches:
            for message in batch.messages():
                if batch.kind is SEALED and message.origin == TARGET and message.body[1]:
                    self._tie = _tie(self._case, message.trial, message.body)
                    return [_frame(self._case, SEALED, [self._tie])]
        return []

    def _all(self) -> list[Message]:
        return [*_announced(self._case), *([self._tie] if self._tie is not None else [])]


Neighbour = Quiet | Adversary


def neighbour_of(case: Case) -> Neighbour:
    """Who listens in this case."""
    return Adversary(case) if case.adversary else Quiet()


@lru_cache(maxsize=8)
def greeting(case: Case) -> bytes:
    """The adversary's first frame."""
    if ALGORITHMS[case.algorithm].tells is SEALED:
        return _frame(case, SEALED, _announced(case))
    return _frame(case, RELEASED, [Message(SENDER, _TRIAL, 1, (1, 1, UNIT // 2) * case.arms)])


def _announced(case: Case) -> list[Message]:
    """One origin per arm but the first, each with a batch of one pull, and as many more that only say hello."""
    weighting = Weighting.of(case.epsilon)
    needed = math.ceil(8 * case.arms * UNIT / weighting.samples(_PULLS))
    samples = weighting.samples(1)
    records = [(arm, 1, 1, samples, _SUM if arm == 1 else _HOPELESS * samples) for arm in range(1, case.arms)]
    hellos = [(0, 0, 0, 0, 0)] * (min(needed, _MOST_ORIGINS) - len(records))
    return [Message(SENDER + place, _TRIAL, 1, body) for place, body in enumerate(records + hellos)]


@lru_cache(maxsize=8)
def coins_of(seed: int) -> KeyedCoins:
    """The agent's decision coins, which are public: a function of seed and trial."""
    return KeyedCoins(seed, TARGET)


def _tie(case: Case, trial: int, released: tuple[int, ...]) -> Message:
    """A record of the second arm by which the next choice hangs on the first arm's mean, at the middle of both inputs.

    The choice is the larger S/A + √(VARIANCE/A)·coin; the one of the first arm is known but for its mean.
    """
    _, pulls, _, own, _ = released
    coins = coins_of(case.seed).gauss(trial + 1, case.arms)
    told, new = Weighting.of(case.epsilon).samples(1), Weighting.of(case.epsilon).samples(pulls)
    middle = ((pulls - 1) * case.known + UNIT / 2) / (pulls * UNIT)
    index = middle + math.sqrt(VARIANCE / own) * coins[0]
    mean = index - math.sqrt(VARIANCE / (told + new)) * coins[1]
    wanted = round(mean * (told + new)) - _SUM
    return Message(SENDER + _MOST_ORIGINS + 1, _TRIAL, 1, (1, pulls, 1, new, wanted))


def _frame(case: Case, kind: Kind, messages: list[Message]) -> bytes:
    return encode_frame(Frame(RUN, SENDER, 0, 1, 1, 0, (batch_of(kind, messages),), case.arms))
