"""Under which name listening sockets have their connections judged (ZAP, RFC 27)."""

from __future__ import annotations

ZAP_DOMAIN = b"agentd"
