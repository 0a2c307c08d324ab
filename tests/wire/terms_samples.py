"""Terms, good and bad, that several tests share."""

from __future__ import annotations

import math

from agentd.core.terms import Clock, PolicyTerms, Terms
from agentd.wire.frame import Reason
from agentd.wire.terms import write_terms

RUN = bytes.fromhex("00112233445566ff")
BEACON = bytes(range(32))


def documented_terms() -> Terms:
    """The terms that PROTOCOL.md explains byte by byte."""
    return Terms(
        run=RUN,
        arms=5,
        horizon=1000,
        lifetime=2,
        clock=Clock.LOCKSTEP,
        start_ms=1_790_000_000_000,
        beacon=BEACON,
        policies=(
            PolicyTerms("private-ucb", 1, 1.0, 1.1, ((0, 2), (4, 19))),
            PolicyTerms("ucb1", 0, None, None, ((3, 3),)),
        ),
    )


def longest_terms() -> Terms:
    """Everything as long as it may be: 1024 ranges, shared by 64 policies."""
    policies = tuple(
        PolicyTerms(
            chr(ord("A") + number % 26) * 32,
            255,
            1e300,
            1.4999,
            tuple((65_000 - 2 * agent, 65_000 - 2 * agent) for agent in range(16 * number + 15, 16 * number - 1, -1)),
        )
        for number in range(64)
    )
    most = (1 << 53) - 1
    return Terms(
        run=b"\xff" * 8,
        arms=1024,
        horizon=(1 << 30) - 1,
        lifetime=65_535,
        clock=Clock.FREE,
        interval_us=most,
        start_ms=most,
        beacon=b"\xff" * 32,
        policies=policies,
    )


def sample_terms() -> dict[str, Terms]:
    """One of each sort, by name."""
    anybody = PolicyTerms("", None, None, None, ((0, 9),))
    sealed = PolicyTerms("sealed", 4, 0.5, None, ((7, 7), (9, 65_535)))
    return {
        "documented": documented_terms(),
        "open": Terms(run=RUN, arms=2, lifetime=None),
        "who, but not what": Terms(run=RUN, arms=2, lifetime=None, horizon=30, policies=(anybody,)),
        "no communication": Terms(run=RUN, arms=1, lifetime=0, policies=(anybody,)),
        "free-running": Terms(run=RUN, arms=3, lifetime=4, clock=Clock.FREE, interval_us=250_000, policies=(sealed,)),
        "free-running as fast as anybody likes": Terms(run=RUN, arms=3, lifetime=4, clock=Clock.FREE),
        "longest": longest_terms(),
    }


def bad_terms() -> dict[str, tuple[object, Reason]]:
    """Arrays that are no terms, each with the reason to refuse it."""
    return {
        "nil": (None, Reason.SHAPE),
        "bytes": (b"123456789", Reason.SHAPE),
        "eight fields": (write_terms(documented_terms())[:8], Reason.SHAPE),
        "ten fields": ([*write_terms(documented_terms()), 0], Reason.SHAPE),
        "a short run": (_with(0, b"1234567"), Reason.LENGTH),
        "a run as text": (_with(0, "12345678"), Reason.TYPE),
        "no arms": (_with(1, 0), Reason.RANGE),
        "1025 arms": (_with(1, 1025), Reason.RANGE),
        "arms true": (_with(1, True), Reason.TYPE),
        "arms nil": (_with(1, None), Reason.TYPE),
        "a horizon too far": (_with(2, 1 << 30), Reason.RANGE),
        "a horizon as a float": (_with(2, 1000.0), Reason.TYPE),
        "a negative lifetime": (_with(3, -1), Reason.RANGE),
        "a lifetime too long": (_with(3, 65_536), Reason.RANGE),
        "a lifetime as text": (_with(3, "half"), Reason.TYPE),
        "clock 3": (_with(4, 3), Reason.RANGE),
        "clock nil": (_with(4, None), Reason.TYPE),
        "an interval in lockstep": (_with(5, 1), Reason.RANGE),
        "a negative interval": (_with(5, -1), Reason.RANGE),
        "a start too late": (_with(6, 1 << 53), Reason.RANGE),
        "a short beacon": (_with(7, bytes(31)), Reason.LENGTH),
        "policies nil": (_with(8, None), Reason.SHAPE),
        "65 policies": (_with(8, [["", None, None, None, [[2 * n, 2 * n]]] for n in range(65)]), Reason.SHAPE),
        "a policy as text": (_with(8, ["ucb1"]), Reason.SHAPE),
        "a policy of four fields": (_with(8, [["", None, None, None]]), Reason.SHAPE),
        "an algorithm nil": (_policy_with(0, None), Reason.TYPE),
        "an algorithm as bytes": (_policy_with(0, b"ucb1"), Reason.TYPE),
        "an algorithm of 33 characters": (_policy_with(0, "x" * 33), Reason.RANGE),
        "an algorithm with a terminal escape": (_policy_with(0, "\x1b[2J"), Reason.RANGE),
        "an algorithm beyond ASCII": (_policy_with(0, "é"), Reason.RANGE),
        "tag 256": (_policy_with(1, 256), Reason.RANGE),
        "tag true": (_policy_with(1, True), Reason.TYPE),
        "ε of 0": (_policy_with(2, 0.0), Reason.RANGE),
        "ε below 0": (_policy_with(2, -1.0), Reason.RANGE),
        "ε without bound": (_policy_with(2, math.inf), Reason.RANGE),
        "ε that is no number": (_policy_with(2, math.nan), Reason.RANGE),
        "ε as a whole number": (_policy_with(2, 1), Reason.TYPE),
        "v of 1": (_policy_with(3, 1.0), Reason.RANGE),
        "v of 1.5": (_policy_with(3, 1.5), Reason.RANGE),
        "v as a whole number": (_policy_with(3, 1), Reason.TYPE),
        "ids nil": (_policy_with(4, None), Reason.SHAPE),
        "no ids": (_policy_with(4, []), Reason.RANGE),
        "an id alone": (_policy_with(4, [3]), Reason.SHAPE),
        "three ids in a range": (_policy_with(4, [[3, 4, 5]]), Reason.SHAPE),
        "an id too large": (_policy_with(4, [[0, 65_536]]), Reason.RANGE),
        "an id true": (_policy_with(4, [[False, True]]), Reason.TYPE),
        "a range backwards": (_policy_with(4, [[4, 3]]), Reason.RANGE),
        "ranges in descending order": (_policy_with(4, [[5, 6], [0, 1]]), Reason.RANGE),
        "ranges that overlap": (_policy_with(4, [[0, 5], [5, 6]]), Reason.RANGE),
        "ranges that are one": (_policy_with(4, [[0, 1], [2, 3]]), Reason.RANGE),
        "1025 ranges": (_policy_with(4, [[2 * n, 2 * n] for n in range(1025)]), Reason.SHAPE),
        "1026 ranges in two policies": (
            _with(8, [["", None, None, None, [[4 * n + s, 4 * n + s] for n in range(513)]] for s in (0, 2)]),
            Reason.RANGE,
        ),
        "an id in two policies": (
            _with(8, [["", None, None, None, [[0, 3]]], ["ucb1", 0, None, None, [[3, 5]]]]),
            Reason.RANGE,
        ),
    }


def shown(terms: Terms) -> dict:
    """Terms as terms_vectors.json shows them."""
    return {
        "run": terms.run.hex(),
        "arms": terms.arms,
        "horizon": terms.horizon,
        "lifetime": terms.lifetime,
        "clock": int(terms.clock),
        "interval": terms.interval_us,
        "start": terms.start_ms,
        "beacon": terms.beacon.hex(),
        "policies": [
            {
                "algorithm": policy.algorithm,
                "tag": policy.tag,
                "epsilon": policy.epsilon,
                "v": policy.v,
                "ids": [list(pair) for pair in policy.ids],
            }
            for policy in terms.policies
        ],
    }


def _with(index: int, value: object) -> list:
    raw = write_terms(documented_terms())
    raw[index] = value
    return raw


def _policy_with(index: int, value: object) -> list:
    policy = ["private-ucb", 1, 1.0, 1.1, [[0, 2]]]
    policy[index] = value
    return _with(8, [policy])
