"""Which real arms there are, by how they are named: exec:COMMAND, http://…, python:MODULE:FACTORY."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from agentd.real_arms.worker import Worker

_PYTHON = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)
_PREFIXES = ("exec:", "http:", "https:", "python:")


def is_real(address: str) -> bool:
    """Whether a text names arms of this kind, rightly or wrongly."""
    return address.startswith(_PREFIXES)


def runs_code(address: str) -> bool:
    """Whether it names something to run."""
    return address.startswith(("exec:", "python:"))


def fault_of(address: str) -> str | None:
    """What is wrong with the name of real arms, if anything, as the end of a sentence that begins with it."""
    kind, _, rest = address.partition(":")
    if kind == "exec":
        return _command_fault(rest)
    if kind == "python":
        return None if _PYTHON.fullmatch(rest) else "must be python:MODULE:FUNCTION, as in python:mirrors:make"
    if kind == "https":
        return "is encrypted, which the agent does not speak; let a command do it, as in exec:ask-with-curl.sh"
    return _url_fault(address)


def workers(address: str, count: int, about: Mapping[str, Any]) -> Sequence[Worker]:
    """As many who can be asked at the same time; `about` is what an endpoint is told with every pull."""
    kind, _, rest = address.partition(":")
    if kind == "exec":
        from agentd.real_arms.command import Command

        return [Command(shlex.split(rest)) for _ in range(count)]
    if kind == "python":
        from agentd.real_arms.function import Function, made_by

        return [Function(made_by(rest)) for _ in range(count)]
    from agentd.real_arms.endpoint import Endpoint

    return [Endpoint(address, about) for _ in range(count)]


def _command_fault(command: str) -> str | None:
    try:
        words = shlex.split(command)
    except ValueError as fault:
        return f"is not a command: {str(fault).lower()}"
    if not words or "\0" in command:
        return "names no command; write exec:COMMAND, as in exec:'./mirror.sh eth0'"
    return None


def _url_fault(address: str) -> str | None:
    example = "is not an address like http://127.0.0.1:8080/pull"
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return example
    if not host or port == 0 or parts.fragment or not address.isascii() or not address.isprintable() or " " in address:
        return example
    if parts.username is not None or parts.password is not None:
        return "has a password in it, which everybody on the machine could read; let a command do that (exec:…)"
    return None
