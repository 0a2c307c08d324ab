"""Fixtures on real sockets, and on a clock that is a number."""

from __future__ import annotations

from loopback_fixtures import addresses, context, keep, log, log_file, make_link, make_peer, stop, virtual

__all__ = ["addresses", "context", "keep", "log", "log_file", "make_link", "make_peer", "stop", "virtual"]
