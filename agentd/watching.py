"""How a process may be watched: the knobs that agents and environments share, and what is wrong with them. Pure.

What is served over `--http` and told over `--mqtt` follows from raw rewards at most as frames do; see docs/watching.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from agentd.addresses import is_loopback
from agentd.core.policy.knobs import knob

LOG_FORMATS = ("auto", "human", "json")
"""For people or for programs; auto: for people where a terminal is written to."""
MQTT_PORT = 1883
MQTTS_PORT = 8883

_PREFIX = re.compile(r"[A-Za-z0-9_-]{1,32}")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


def host_and_port(text: str) -> tuple[str, int] | None:
    """The two parts of HOST:PORT, IPv6 numbers in brackets; None where it is not of that form."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    bare_ipv6 = text.count(":") > 1 and not text.startswith("[")
    if not host or port is None or parts.netloc != text or parts.username is not None or bare_ipv6:
        return None
    return host, port


def _http_fault(text: str) -> str | None:
    return None if host_and_port(text) else f"--http must be of the form HOST:PORT, as in 127.0.0.1:9100, got {text!r}"


def _names_fault(names: tuple[str, ...]) -> str | None:
    wrong = [name for name in names if not _NAME.fullmatch(name)]
    return f"--http-names: {wrong[0]!r} is not the name of a machine" if wrong else None


class Broker(NamedTuple):
    """Whom to tell."""

    host: str
    port: int
    tls: bool
    prefix: str
    """Of topics and names: runs that share a broker have different ones."""


def broker_of(text: str) -> Broker | None:
    """The parts of mqtt://HOST[:PORT][/PREFIX] or mqtts://…; None where it is not of that form."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    prefix, tls = parts.path.removeprefix("/") or "agentd", parts.scheme == "mqtts"
    if parts.scheme not in ("mqtt", "mqtts") or not host or not _PREFIX.fullmatch(prefix) or set(text) & set("?#"):
        return None
    return Broker(host, port or (MQTTS_PORT if tls else MQTT_PORT), tls, prefix)


def _mqtt_fault(text: str) -> str | None:
    if "@" in text:  # not repeated: it may hold a password
        return "--mqtt takes no user and password, which every user of the machine could read; see --mqtt-credentials"
    return (
        None
        if broker_of(text)
        else f"--mqtt must be of the form mqtt://HOST, mqtt://HOST/PREFIX or mqtts://HOST:PORT, got {text!r}"
    )


@dataclass(frozen=True, kw_only=True)
class Watching:
    """Who may look on, and how."""

    http: str | None = knob(
        None,
        metavar="HOST:PORT",
        check=_http_fault,
        help="Serve /livez, /readyz, /metrics and /status there; needs the extra `metrics`.",
    )
    http_names: tuple[str, ...] = knob(
        (),
        reads="networks",
        metavar="NAME,…",
        check=_names_fault,
        help="Names that --http is asked by, beside numbers and localhost; may be repeated.",
    )
    """Others are refused: a page in a browser must not reach it under a name of its own (DNS rebinding)."""
    http_insecure: bool = knob(
        False, help="Let --http listen beyond this machine: whoever reaches it reads it, unencrypted."
    )
    mqtt: str | None = knob(
        None,
        metavar="URL",
        check=_mqtt_fault,
        help="Tell how it goes to this broker, as in mqtt://broker; needs the extra `mqtt`.",
    )
    mqtt_credentials: str | None = knob(
        None, metavar="FILE", help="User and password for the broker, a line each; yours alone (0600)."
    )
    log_format: str = knob("auto", choices=LOG_FORMATS, help="Logs for people or programs; auto: people on terminals.")


def watching_faults(s: Watching) -> Iterator[str]:
    """What is wrong with these knobs together."""
    place = host_and_port(s.http) if s.http is not None else None
    if place is not None and not s.http_insecure and not is_loopback(f"tcp://{s.http}"):
        yield (
            f"--http {s.http} is reachable from other machines, unencrypted; add --http-insecure if that is what you "
            "want"
        )
    if s.http is None and (s.http_insecure or s.http_names):
        yield "--http-insecure and --http-names say how --http is served: name HOST:PORT with --http"
    if s.mqtt is None and s.mqtt_credentials is not None:
        yield "--mqtt-credentials are for a broker: name it with --mqtt"
