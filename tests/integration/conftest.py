"""Fixtures on real sockets; here over TCP, as between machines."""

from __future__ import annotations

from collections import defaultdict

import pytest
from loopback import free_address
from loopback_fixtures import context, keep, log, log_file, make_link, make_peer, stop

__all__ = ["addresses", "context", "keep", "log", "log_file", "make_link", "make_peer", "stop"]


@pytest.fixture
def addresses() -> defaultdict[int, str]:
    return defaultdict(free_address)
