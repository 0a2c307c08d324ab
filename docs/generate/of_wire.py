"""Everything that can be on the wire, from the classes that are encoded."""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import Any, get_args

from agentd.core import message
from agentd.core.bodies import KINDS
from agentd.core.trust.blame import Why
from agentd.wire import environment_messages, frame
from agentd.wire.environment_messages import Reply, Request, type_number
from agentd.wire.layout import body_bytes
from generate.text import code, plain, table

LIMITS = {
    frame: ("MAX_FRAME_BYTES", "MAX_BATCHES", "MAX_MESSAGES"),
    message: ("MAX_ARMS", "MAX_AGENT_ID", "MAX_TRIAL", "MAX_INCARNATION", "MAX_LIFETIME", "TOKEN_BYTES"),
    environment_messages: ("MAX_ENVIRONMENT_BYTES", "MAX_WELCOME_BYTES", "MAX_LIVES", "MAX_BLAMES", "MAX_REASONS"),
}


def page() -> str:
    """A summary for looking things up."""
    parts = [
        "# Wire messages\n\nMade from the code. [The protocol](protocol.md) says what each of them means and is the "
        "contract; this page is for looking things up.\n",
        f"## Bodies between agents\n\n{_bodies()}",
        f"## Requests to the environment\n\n{_messages(get_args(Request))}",
        f"## Its replies\n\n{_messages(get_args(Reply))}",
        f"## Why the environment refuses\n\n{_numbered(environment_messages.Refusal)}",
        f"## What agents blame neighbours for\n\n{_numbered(Why)}",
        f"## Why a frame is dropped\n\n{', '.join(code(reason) for reason in frame.Reason)}\n",
        f"## Limits\n\n{table(['name', 'value'], _limits())}",
    ]
    return "\n".join(parts)


def _bodies() -> str:
    return table(["tag", "body", "once", "fields", "bytes for one arm"], map(_body, KINDS.values()))


def _body(kind: Any) -> list[str]:
    told = ", ".join(f"{code(one.name)} {_bits(one.type)}{' (noised)' if one.noised else ''}" for one in kind.fields)
    return [
        code(kind.tag),
        code(kind.name),
        "per arm" if kind.per_arm else "per message",
        told,
        str(body_bytes(kind, 1)),
    ]


def _bits(wire_type: str) -> str:
    """As PROTOCOL.md writes it: u32 is four bytes."""
    return f"{wire_type[0]}{8 * int(wire_type[1:])}"


def _messages(classes: tuple[type, ...]) -> str:
    rows = []
    for one in sorted(classes, key=type_number):
        names = [part.name for part in fields(one)] if is_dataclass(one) else list(getattr(one, "_fields", ()))
        about = (inspect.getdoc(one) or "").partition("\n")[0]
        rows.append([code(type_number(one)), code(one.__name__), ", ".join(map(code, names)), plain(about)])
    return table(["type", "message", "fields", "what it says"], rows)


def _numbered(group: type[IntEnum]) -> str:
    rows = [[code(int(one)), plain(one.name.lower().replace("_", " "))] for one in group]
    return table(["number", "why"], rows)


def _limits() -> list[list[str]]:
    return [[code(name), f"{getattr(place, name):,}"] for place, names in LIMITS.items() for name in names]
