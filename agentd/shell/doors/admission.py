"""Who may connect over TCP: a handler of ZeroMQ's authentication protocol (ZAP, RFC 27) in a thread of its own.

ZeroMQ asks it once per connection, before anything of the connection reaches a socket, so that whoever is not let in
can neither subscribe nor send. Without keys all there is to go by is the address that a connection comes from: those of
the neighbours, and the networks that `--admit` names. A name is looked up when somebody knocks whose address is not
known, for a neighbour may have come back under another; the answer waits for that.

In a thread, for the loop of an agent blocks for as long as a round takes; made after fork, and one per context, as ZAP
wants it. Where the thread is gone nobody is let in (`ZAP_ENFORCE_DOMAIN`).
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

import zmq

from agentd.addresses import Network, networks
from agentd.errors import ConfigurationError
from agentd.shell.doors.zap_domain import ZAP_DOMAIN
from agentd.shell.json_log import Log
from agentd.shell.resolve import has_name, is_number, numbers_of

LOOK_FOR_S = 3.0
"""How long somebody waits at the door while names are looked up; less than a handshake may take."""
LOOK_AGAIN_S = 1.0
"""How often names are looked up at most, whoever knocks."""
MOST_WAITING = 64
"""Who may wait at the door; further ones are refused and come again."""
MOST_NAMED = 64
"""Refused addresses that the log names; more are only counted."""

_ENDPOINT = "inproc://zeromq.zap.01"
_VERSION = b"1.0"
_SLICE_MS = 50
"""How often a thread that somebody waits for looks whether names were found."""

LOOPBACK = ("127.0.0.0/8", "::1")

Number = ipaddress.IPv4Address | ipaddress.IPv6Address


class Knock:
    """One request: whose connection it is about, and how to answer."""

    __slots__ = ("address", "reply_to", "since_s")
    mechanisms: tuple[bytes, ...] = (b"NULL",)
    """Of the connections that it may be about; `key_admission` judges those with keys."""
    needs_address = True
    """What connections of ipc have instead of one is no number."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        """ValueError where it is no request of ours."""
        empty, version, sequence, domain, address, _identity, mechanism, *_credentials = parts[1:]
        if (empty, version, domain) != (b"", _VERSION, ZAP_DOMAIN) or mechanism not in self.mechanisms:
            raise ValueError("not for us")
        self.reply_to = (parts[0], b"", version, sequence)
        self.address = plain_number(address.decode("ascii")) if self.needs_address else None
        self.since_s = time.monotonic()


def plain_number(text: str) -> Number:
    """An address as a number; one of IPv4 that came over IPv6 is one of IPv4."""
    number = ipaddress.ip_address(text.partition("%")[0])
    return getattr(number, "ipv4_mapped", None) or number


def _host(address: str) -> str:
    return urlsplit(address).hostname or ""


class GuestList:
    """Which addresses are let in; names are looked up on demand, each by a thread that may wait."""

    def __init__(self, addresses: Iterable[str], within: Iterable[Network]) -> None:
        """Of neighbours, as `--peers` has them, and whole networks."""
        self._networks = tuple(within)
        tcp = [address for address in addresses if address.startswith("tcp://")]
        self._numbers = {plain_number(_host(a)) for a in tcp if not has_name(a) and is_number(_host(a))}
        self._found: dict[str, frozenset[Number]] = {a: frozenset() for a in tcp if has_name(a)}
        self._looking: dict[str, threading.Thread] = {}
        self._look_at_s = 0.0

    def admits(self, number: Number) -> bool:
        """Whether somebody from there is let in, as far as is known."""
        if number in self._numbers or any(number in found for found in self._found.values()):
            return True
        return any(number in network for network in self._networks)

    def look(self) -> None:
        """Look all names up, unless that was done a moment ago."""
        if time.monotonic() < self._look_at_s:
            return
        self._look_at_s = time.monotonic() + LOOK_AGAIN_S
        for name in self._found:
            if name not in self._looking or not self._looking[name].is_alive():
                self._looking[name] = threading.Thread(target=self._ask, args=(name,), name=f"find {name}", daemon=True)
                self._looking[name].start()

    @property
    def is_looking(self) -> bool:
        """Whether somebody may become known soon."""
        return any(thread.is_alive() for thread in self._looking.values())

    def _ask(self, name: str) -> None:
        found = frozenset(plain_number(text) for text in numbers_of(name))
        self._found[name] = found or self._found[name]


class Admission:
    """The thread that answers; `refused` counts the connections that were not let in."""

    knock: type[Knock] = Knock

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], guests: GuestList | None, log: Log) -> None:
        """Without guests nobody is let in, unless something else than addresses is judged."""
        self._guests = guests or GuestList((), ())
        self._log = log
        self.refused = 0
        self._named: set[Number] = set()
        self._waiting: deque[Knock] = deque()
        self._requests = context.socket(zmq.ROUTER)
        self._requests.setsockopt(zmq.LINGER, 0)
        try:
            self._requests.bind(_ENDPOINT)
        except zmq.ZMQError:
            self._requests.close()
            raise ConfigurationError("a second listener over TCP in one ZeroMQ context; give each its own") from None
        self._bell, self._ended = _pair(context, f"inproc://agentd.admission.{id(self)}")
        self._thread = threading.Thread(target=self._answer_all, name="admission", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let nobody in any more, and end the thread."""
        if self._bell.closed:
            return
        self._bell.send(b"", zmq.NOBLOCK)
        self._thread.join()
        self._bell.close()

    def _answer_all(self) -> None:
        try:
            while not self._ended.poll(0):
                self._answer_some()
        except zmq.ZMQError:  # the context ends without us having been told
            pass
        finally:
            self._requests.close()
            self._ended.close(linger=0)

    def _answer_some(self) -> None:
        """Wait for requests, answer those that are there, and those that wait for names."""
        zmq.select([self._requests, self._ended], [], [], _SLICE_MS / 1000 if self._waiting else None)
        while self._requests.poll(0):
            self._answer(self._requests.recv_multipart())
        for _ in range(len(self._waiting)):
            self._judge(self._waiting.popleft())

    def _answer(self, parts: Sequence[bytes]) -> None:
        try:
            knock = self.knock(parts)
        except (ValueError, IndexError, UnicodeDecodeError):  # whatever it is, nobody is let in by it
            self.refused += 1
            return
        self._judge(knock)

    def _judge(self, knock: Knock) -> None:
        assert knock.address is not None  # noqa: S101 - it was asked for
        if self._guests.admits(knock.address):
            self._say(knock, b"200", b"")
            return
        self._guests.look()
        waits = time.monotonic() < knock.since_s + LOOK_FOR_S and len(self._waiting) < MOST_WAITING
        if self._guests.is_looking and waits:
            self._waiting.append(knock)
        elif self._guests.admits(knock.address):  # found between the two looks
            self._say(knock, b"200", b"")
        else:
            self._refuse(knock)

    def _refuse(self, knock: Knock) -> None:
        assert knock.address is not None  # noqa: S101
        self.refused += 1
        self._say(knock, b"400", b"not admitted")
        if knock.address in self._named or len(self._named) > MOST_NAMED:
            return
        self._named.add(knock.address)
        if len(self._named) <= MOST_NAMED:
            self._log.warning("connection refused", address=str(knock.address), admit="--admit names who may connect")
        else:
            self._log.warning("connections refused from many addresses, the rest are only counted")

    def _say(self, knock: Knock, status: bytes, text: bytes, name: bytes = b"") -> None:
        """Answer; every message of a connection that is let in will tell the name that it is given here."""
        self._requests.send_multipart([*knock.reply_to, status, text, name, b""])


def _pair(context: zmq.Context[zmq.Socket[bytes]], name: str) -> tuple[zmq.Socket[bytes], zmq.Socket[bytes]]:
    """Two ends of a line between threads."""
    near, far = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    near.bind(name)
    far.connect(name)
    near.setsockopt(zmq.LINGER, 0)
    return near, far


def admission_of_agent(
    context: zmq.Context[zmq.Socket[bytes]], listen: str, peers: Iterable[str], admit: Sequence[str], log: Log
) -> Admission | None:
    """Over TCP: neighbours by their addresses, and what the operator names; a file's mode does it elsewhere."""
    if not listen.startswith("tcp://"):
        return None
    return Admission(context, GuestList(peers, networks(admit)), log)


def admission_of_environment(
    context: zmq.Context[zmq.Socket[bytes]], listen: str, admit: Sequence[str], log: Log
) -> Admission | None:
    """Over TCP: what the operator names, and whoever is on this machine; None: whoever can connect."""
    if not admit or not listen.startswith("tcp://"):
        return None
    return Admission(context, GuestList([listen], networks((*admit, *LOOPBACK))), log)
