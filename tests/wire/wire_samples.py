"""Frames and messages that several tests of the wire share."""

from __future__ import annotations

import numpy as np
import terms_samples

from agentd.core.bodies import RELEASED, SAMPLE, SEALED, TOTALS, Kind
from agentd.core.bodies.cumulative import Cumulative
from agentd.core.message import Batch, Message, batch_of
from agentd.core.terms import Terms
from agentd.core.trust.blame import Blame, Why
from agentd.core.trust.regard import UNTOLD, Regard
from agentd.wire.environment_messages import (
    EnvironmentMessage,
    Hello,
    Noted,
    Ping,
    Pong,
    Pull,
    Refusal,
    Refused,
    Release,
    Released,
    Report,
    Reward,
    Wait,
    Welcome,
)
from agentd.wire.frame import GOODBYE, GREETING, Frame

RUN = bytes.fromhex("00112233445566ff")
TOKEN = bytes(range(16))
NUMBER_OF_TYPE = {
    Hello: 1,
    Welcome: 2,
    Pull: 3,
    Reward: 4,
    Report: 5,
    Noted: 6,
    Ping: 7,
    Pong: 8,
    Refused: 9,
    Wait: 10,
    Release: 11,
    Released: 12,
}


def a_frame(*batches: Batch, arms: int = 2, flags: int = 0, sender: int = 3, sequence: int = 301) -> Frame:
    return Frame(RUN, sender, 1, sequence, 300, flags, batches, arms)


def documented_frame() -> Frame:
    """The frame that PROTOCOL.md explains byte by byte."""
    return a_frame(batch_of(RELEASED, [Message(7, 300, 1, (200, 150, 90_000_000, 0, 0, 0), 2, 1)]))


def random_batch(draw: np.random.Generator, kind: Kind, arms: int, count: int, *, signed: bool = False) -> Batch:
    """Rows that any honest or dishonest peer could send; the wire does not judge bodies."""
    lifetime = draw.integers(1, 1 << 16, count)
    head = [
        draw.integers(0, 1 << 16, count),
        draw.integers(0, 1 << 53, count),
        draw.integers(1, 1 << 30, count),
        lifetime,
        1 + draw.integers(0, 1 << 16, count) % lifetime,
    ]
    per_arm = isinstance(kind, Cumulative)
    limits = {
        RELEASED: (32, 32, -63),
        TOTALS: (32, -63),
        SAMPLE: (16, 32),
        SEALED: (16, 32, 32, -63, -63),
    }[kind]
    columns = [
        draw.integers(0 if bits > 0 else -(1 << -bits), (1 << abs(bits)) - 1, count, dtype=np.int64)
        for _ in range(arms if per_arm else 1)
        for bits in limits
    ]
    body = np.stack(columns, axis=1)
    assert body.shape == (count, kind.width(arms))
    signature = draw.integers(0, 256, (count, kind.signature_bytes * signed), dtype=np.uint8)
    return Batch(kind, np.stack(head, axis=1), body, signature)


def sample_frames() -> dict[str, Frame]:
    """One frame of each sort, by name."""
    draw = np.random.default_rng(20261116)
    released, totals, sample = (random_batch(draw, kind, 2, 3) for kind in (RELEASED, TOTALS, SAMPLE))
    limits = Message(65535, (1 << 30) - 1, 65535, (2**32 - 1, 2**32 - 1, -(2**63)), 65535, (1 << 53) - 1)
    return {
        "documented": documented_frame(),
        "empty": a_frame(),
        "goodbye": a_frame(flags=GOODBYE),
        "goodbye with messages": a_frame(released, flags=GOODBYE),
        "greeting before the first frame": Frame(RUN, 0, 0, 0, 0, GREETING, (), 0),
        "every number as large as it may be": Frame(
            b"\xff" * 8, 65535, 2**53 - 1, 2**53 - 1, 2**30 - 1, GOODBYE, (batch_of(RELEASED, [limits]),), 1
        ),
        "every kind": a_frame(released, totals, sample),
        "signed": a_frame(random_batch(draw, TOTALS, 2, 2, signed=True)),
        "signed and unsigned of one kind": a_frame(released, random_batch(draw, RELEASED, 2, 1, signed=True)),
        "more than 255 bytes of heads": a_frame(random_batch(draw, SAMPLE, 5, 15), arms=5),
        "a hello and a record of one arm": a_frame(
            batch_of(
                SEALED,
                [Message(7, 1, 1, (0, 0, 0, 0, 0), 2, 1), Message(7, 300, 1, (1, 40, 3, 30_000_000, -5), 2, 1)],
            )
        ),
        "sealed": a_frame(random_batch(draw, SEALED, 2, 3)),
    }


def sample_messages() -> dict[str, EnvironmentMessage]:
    """One message of each type, as PROTOCOL.md shows them, and some at the limits."""
    open_terms = Terms(5, None, run=RUN, horizon=1000)
    return {
        "HELLO": Hello(3, TOKEN, None),
        "WELCOME": Welcome(open_terms, 0.0, 1.0, 121, 120, 61_000, 140),
        "PULL": Pull(3, TOKEN, 121, 4, 120),
        "REWARD": Reward(121, 4, 1 << 20),
        "REPORT": Report(
            *(3, TOKEN, 200, 4000, 409600, (("stale", 2),), 4660000, False, 1, 212, (Blame(7, Why.SLOW, 9),)),
            (Regard(7, 3, 198, UNTOLD),),
        ),
        "NOTED": Noted(200, 3, ((7, 40), (3, 120)), 210),
        "PING": Ping(),
        "PONG": Pong(),
        "REFUSED": Refused(Refusal.WRONG_TOKEN, "another token"),
        "WAIT": Wait(1, 3),
        "RELEASE": Release(3, TOKEN),
        "RELEASED": Released(3, 121),
        "HELLO with the incarnation of a state": Hello(65535, b"\xff" * 16, (1 << 53) - 1),
        "WELCOME without end": Welcome(Terms(1024, None, run=RUN), -1e300, 1e300, 1 << 30, 0, 0, 0),
        "WELCOME with terms": Welcome(terms_samples.documented_terms(), 0.0, 1.0, 1, 0, (1 << 53) - 1, (1 << 30) - 1),
        "PULL at the limits": Pull(65535, bytes(16), (1 << 30) - 1, 1023, (1 << 30) - 1),
        "PULL of the first trial": Pull(0, TOKEN, 1, 0, 0),
        "REPORT with most reasons": Report(
            65535,
            TOKEN,
            0,
            2**53 - 1,
            0,
            tuple((f"reason-{n:02}" + "é" * 23, n) for n in range(32)),
            0,
            True,
            2**53 - 1,
        ),
        "REPORT with most blames": Report(
            65535,
            TOKEN,
            (1 << 30) - 1,
            0,
            0,
            (),
            0,
            False,
            0,
            (1 << 30) - 1,
            tuple(Blame(65535 - n // 4, Why(1 + n % 4), 2**53 - 1 - n) for n in range(16)),
        ),
        "REPORT with most regards": Report(
            *(65535, TOKEN, (1 << 30) - 1, 0, 0, (), 0, False, 0, (1 << 30) - 1, ()),
            tuple(Regard(65535 - n, (1 << 30) - 1 - n, 2**53 - 1 - n, 1001 - n) for n in range(64)),
        ),
        "NOTED without news": Noted(0, 0, (), 0),
        "NOTED with most lives": Noted(
            (1 << 30) - 1, 2**53 - 1, tuple((65535 - n, 2**53 - 1 - n) for n in range(64)), (1 << 30) - 1
        ),
        "REFUSED with the longest text": Refused(Refusal.RUN_OVER, "ü" * 200),
    }


def shown_frame(frame: Frame) -> dict:
    """A frame as vectors.json shows it."""
    return {
        "run": frame.run.hex(),
        "sender": frame.sender,
        "incarnation": frame.incarnation,
        "sequence": frame.sequence,
        "round": frame.round,
        "flags": frame.flags,
        "batches": [
            {
                "tag": batch.kind.tag,
                "arms": frame.arms,
                "messages": [
                    {
                        "origin": message.origin,
                        "incarnation": message.incarnation,
                        "trial": message.trial,
                        "lifetime": message.lifetime,
                        "life": message.life,
                        "body": list(message.body),
                        "signature": signature.tobytes().hex(),
                    }
                    for message, signature in zip(batch.messages(), batch.signature, strict=True)
                ],
            }
            for batch in frame.batches
        ],
    }


def shown_message(message: EnvironmentMessage) -> dict:
    """A message to or from the environment as vectors.json shows it."""
    fields = message if isinstance(message, tuple) else [getattr(message, name) for name in message.__slots__]
    shown = {
        bytes: lambda v: v.hex(),
        tuple: lambda v: [list(pair) for pair in v],
        bool: int,
        Refusal: int,
        Terms: terms_samples.shown,
    }
    plain = [shown.get(type(value), lambda v: v)(value) for value in fields]
    return {"type": NUMBER_OF_TYPE[type(message)], "fields": plain}
