"""Somebody else on this machine, who tries what another user can try."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest

NOBODY = 65_534


def as_another_user(act: Callable[[], Any]) -> Any:
    """What `act` returns, as JSON can carry it, in a process of a user without any rights."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the child uses none and soon ends
        child = os.fork()
    if child == 0:
        _become_nobody(act, writing)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    assert said, "the other user's process failed"
    return json.loads(said)


def _become_nobody(act: Callable[[], Any], writing: int) -> None:
    code = 1
    try:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os.write(writing, json.dumps(act()).encode())
        code = 0
    finally:
        os._exit(code)
