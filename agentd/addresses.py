"""Where agents and environments listen and connect: what an address may look like, and who may come. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

LONGEST_IPC_PATH = 107
"""Bytes; the system has room for one more, which ends the text."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NOT_AN_ADDRESS = "is not an address like tcp://127.0.0.1:7003"
_EVERYWHERE = ("*", "0.0.0.0", "::")  # noqa: S104 - as others write it


def ipc_path(address: str) -> str | None:
    """The path of an ipc address; None for all others."""
    return address.removeprefix("ipc://") if address.startswith("ipc://") else None


def address_fault(address: str, *, listening: bool = False, any_port: bool = False) -> str | None:
    """What is wrong with an address, if anything, as the end of a sentence that begins with it."""
    path = ipc_path(address)
    if path is not None:
        return _path_fault(path)
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return _bare_ipv6_fault(address) or _NOT_AN_ADDRESS
    if fault := _bare_ipv6_fault(address):
        return fault
    if parts.scheme != "tcp" or not host or port is None or (port == 0 and not any_port) or parts.path:
        return _NOT_AN_ADDRESS
    if host in _EVERYWHERE and not listening:
        return "names no machine; say which one to connect to"
    return None


def _path_fault(path: str) -> str | None:
    if not path:
        return _NOT_AN_ADDRESS
    if not path.startswith("/"):  # an abstract name (@…) has no directory, so every user could take it
        return "must be an absolute path, as in ipc:///run/agentd/3"
    if path.endswith("/") or not path.isprintable():
        return "must be the path of a file, as in ipc:///run/agentd/3"
    if len(path.encode()) > LONGEST_IPC_PATH:
        return f"has a path of more than {LONGEST_IPC_PATH} bytes, which no socket can have; choose a shorter directory"
    return None


def _bare_ipv6_fault(address: str) -> str | None:
    """IPv6 numbers have colons themselves, so they stand in brackets before a port."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    if not address.startswith("tcp://") or ":" not in host or host.startswith("["):
        return None
    return f"is an IPv6 address without brackets; write tcp://[{host}]:{port}"


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address; a name other than localhost may lead anywhere."""
    try:
        parts = urlsplit(address)
        return parts.scheme in ("ipc", "inproc") or parts.hostname == "localhost" or _loopback_ip(parts.hostname or "")
    except ValueError:  # not an address at all, which is another fault
        return False


def _loopback_ip(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks and single addresses, as `--admit` names them; ValueError says which is none."""
    return tuple(_network(text) for text in texts)


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        pass
    try:
        whole = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is not a network or an address like 10.0.0.0/8, 192.168.1.7 or fd00::/8") from None
    raise ValueError(f"{text!r} is an address within a network; write {whole} for all of it") from None


def admit_fault(texts: Iterable[str]) -> str | None:
    """What is wrong with the networks of `--admit`, if anything."""
    try:
        networks(texts)
    except ValueError as fault:
        return f"--admit: {fault}"
    return None
