"""A roster that expires while a process runs is noticed when it does, not at the next start."""

from __future__ import annotations

import asyncio

from agentd.shell.doors.keyring import Keyring

LOOK_EVERY_S = 60.0
"""A clock may be set forward, and a newer roster may last less long."""


def watch_expiry(loop: asyncio.AbstractEventLoop, keyring: Keyring) -> None:
    """Judge the roster now and, as long as the loop turns, when it will have expired."""
    left_s = keyring.judge_expiry()
    loop.call_later(min(left_s, LOOK_EVERY_S) if left_s > 0 else LOOK_EVERY_S, watch_expiry, loop, keyring)
