"""Fixtures on real sockets."""

from __future__ import annotations

from loopback_fixtures import addresses, context, keep, log, log_file, make_link, make_peer, stop

__all__ = ["addresses", "context", "keep", "log", "log_file", "make_link", "make_peer", "stop"]
