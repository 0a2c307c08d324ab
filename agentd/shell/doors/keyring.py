"""The keys of this process at work: sockets that are encrypted, and who is at the other end of each, by the roster.

CURVE binds a key to a connection in the handshake. Whoever connects is let in by the roster in force then, and every
message of the connection carries a name that was given to it there: the id and the beginning of the key. A newer roster
makes names unknown, also those of connections there are; an id with another key has another name.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket as system
import time
from collections.abc import Callable
from typing import Protocol

import zmq

from agentd.errors import ConfigurationError
from agentd.keys import signing
from agentd.keys.accepted import RosterFile, RosterRefused
from agentd.keys.key_files import Keys, read_keys
from agentd.keys.keying import Keying
from agentd.keys.roster import Roster, SignedRoster
from agentd.shell.doors.zap_domain import ZAP_DOMAIN
from agentd.shell.json_log import Log

KEY_BYTES = 32
LONGEST_HANDSHAKE = 320
"""Bytes of a handshake with keys, rounded up; without them it is a sixth of that."""
WRAPPING = 64
"""More than encryption adds to a message."""
SOON_S = 7 * 86_400.0
"""Before a roster expires, the log says so."""
USER_ID = "User-Id"
_DESCRIPTOR = "__fd"
"""Under which libzmq tells the descriptor of the connection that a message came over."""
_NAMED_BYTES = 16


class Message(Protocol):
    """A message that was received with what is known of its connection."""

    def get(self, name: str) -> object:
        """A property of the connection; UnicodeDecodeError, ZMQError or a like where there is none."""
        ...


class Keyring:
    """Own keys, and the roster in force."""

    def __init__(
        self,
        keys: Keys,
        file: RosterFile,
        log: Log,
        *,
        own: int | None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Of agent `own`; None: of the environment. RosterRefused where there is no roster to begin with."""
        self._keys = keys
        self._monotonic_s = monotonic_s
        self._file = file
        self._log = log
        self._own = own
        self._signer: Callable[[bytes], bytes] | None = None
        self._nobody = secrets.token_bytes(KEY_BYTES)
        """A public key that nobody has: who is not in the roster is connected to in vain."""
        self.on_change: list[Callable[[], None]] = []
        """Called when a newer roster is in force."""
        self._roster: Roster
        self._names: dict[bytes, str]
        self._ids: dict[str, int]
        self._until_s: float
        self._lapsed: bool
        self._warned: bool
        self._use(file.accept(self._require_own))

    @classmethod
    def open(cls, keying: Keying, log: Log, *, own: int | None, state: str | None = None) -> Keyring | None:
        """As the settings say; None where they name no keys. `state` is where this process keeps things, if it does."""
        if keying.keys is None or keying.roster is None or keying.operator_fingerprint is None:
            return None
        keys = read_keys(keying.keys)
        if (keys.kind, keys.id) != (("environment", None) if own is None else ("agent", own)):
            raise ConfigurationError(f"{keying.keys} holds the keys of {keys.name}; name the file of this process")
        pinned = keying.operator_fingerprint
        file = RosterFile(keying.roster, operator_fingerprint=pinned, notes=keying.notes(state))
        made = cls(keys, file, log, own=own)
        log.info("keys", roster=made.roster.version, agents=len(made.roster.agents))
        return made

    @property
    def roster(self) -> Roster:
        """In force."""
        return self._roster

    def renew(self) -> bool:
        """Read the roster anew; one that is refused changes nothing. Whether we are in the one in force."""
        before = self._roster
        try:
            newer = self._file.accept(self._require_same_run)
        except ConfigurationError as fault:
            self._log.warning("roster refused", why=str(fault), in_force=before.version)
            return self._is_in(before)
        if newer.version == before.version:
            self._log.info("roster unchanged", version=before.version)
            return self._is_in(before)
        self._use(newer)
        changed = {number for number in {*before.agents, *newer.agents} if _key(before, number) != _key(newer, number)}
        self._log.info("roster renewed", version=newer.version, agents=len(newer.agents), changed=sorted(changed)[:64])
        self._tell()
        return self._is_in(newer)

    def judge_expiry(self) -> float:
        """Let nobody in and speak to nobody once the roster has expired; how many seconds it has left.

        A newer one, taken up by `renew`, brings everybody back. A clock that is set back prolongs nothing.
        """
        left_s = min(self._file.left_s(self._roster), self._until_s - self._monotonic_s())
        about = {"version": self._roster.version, "valid_until": self._roster.valid_until}
        if left_s <= 0 and not self._lapsed:
            self._lapsed, self._names, self._ids = True, {}, {}
            self._log.error("roster expired: nobody is known until a newer one is taken up (SIGHUP)", **about)
            self._tell()
        elif 0 < left_s < SOON_S and not self._warned:
            self._warned = True
            self._log.warning("roster expires soon; hand out a newer one, then SIGHUP", **about)
        return left_s

    def _tell(self) -> None:
        for told in self.on_change:
            told()

    def serve(self, socket: zmq.Socket[bytes]) -> None:
        """Let a socket that will listen take encrypted connections only, of whom the admission lets in."""
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self._keys.curve_secret)
        socket.setsockopt(zmq.ZAP_DOMAIN, ZAP_DOMAIN)
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without it and a handler every key would do

    def seek(self, socket: zmq.Socket[bytes], agent: int | None) -> None:
        """Let a socket that will connect find this agent (None: the environment) at the other end, or nobody."""
        socket.setsockopt(zmq.CURVE_SERVERKEY, self.key_of(agent))
        socket.setsockopt(zmq.CURVE_PUBLICKEY, self._keys.curve_public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self._keys.curve_secret)

    def key_of(self, agent: int | None) -> bytes:
        """The public key of an agent (None: of the environment); one that nobody has where there is none."""
        return (None if self._lapsed else _key(self._roster, agent)) or self._nobody

    def admits(self, key: bytes) -> str | None:
        """The name of a connection with this key; None: it is not in the roster. May be called by other threads."""
        return self._names.get(key)

    def agent_of(self, name: str) -> int | None:
        """Whose connection has this name; None: nobody's, or not any more."""
        return self._ids.get(name)

    def sign(self, data: bytes) -> bytes:
        """Our signature of these bytes."""
        if self._signer is None:
            self._signer = signing.signer(self._keys.sign_secret)
        return self._signer(data)

    def has_signed(self, agent: int, data: bytes, signature: bytes) -> bool:
        """Whether an agent of the roster in force has signed these bytes."""
        entry = self._roster.agents.get(agent)
        return entry is not None and signing.is_signed(entry.sign, data, signature)

    @property
    def signed(self) -> SignedRoster:
        """The roster in force under the operator's signature."""
        return self._file.signed

    def _use(self, roster: Roster) -> None:
        names = {entry.curve: _name(number, entry.curve) for number, entry in roster.agents.items()}
        self._ids = {name: roster_id for roster_id, name in zip(roster.agents, names.values(), strict=True)}
        self._names = names
        self._roster = roster
        self._until_s = self._monotonic_s() + self._file.left_s(roster)
        self._lapsed = self._warned = False

    def _require_same_run(self, newer: Roster) -> None:
        if newer.signatures != self._roster.signatures:
            what = "requires signatures" if newer.signatures else "requires no signatures"
            raise RosterRefused(
                f"the newer roster is refused: it {what}, unlike the one in force; begin another run with it"
            )
        if newer.terms != self._roster.terms:
            raise RosterRefused("the newer roster is refused: it pins other terms; begin another run with it")

    def _require_own(self, roster: Roster) -> None:
        if not self._is_in(roster):
            raise ConfigurationError(
                f"the roster of version {roster.version} does not have the keys of {self._keys.name}; ask the "
                "operator for one that does, or use the keys that it has"
            )

    def _is_in(self, roster: Roster) -> bool:
        entry = roster.environment if self._own is None else roster.agents.get(self._own)
        return entry is not None and (entry.curve, entry.sign) == (self._keys.curve_public, self._keys.sign_public)


def _key(roster: Roster, agent: int | None) -> bytes | None:
    entry = roster.environment if agent is None else roster.agents.get(agent)
    return None if entry is None else entry.curve


def _name(agent: int, key: bytes) -> str:
    return f"{agent}/{key[:_NAMED_BYTES].hex()}"


def name_of(message: Message) -> str:
    """What the connection of a message was named when it was let in; empty: it was not."""
    try:
        return str(message.get(USER_ID))
    except (zmq.ZMQError, UnicodeDecodeError, LookupError):
        return ""


def descriptor_of(message: Message) -> int | None:
    """The descriptor of the connection that a message came over, as far as libzmq tells."""
    try:
        return int(str(message.get(_DESCRIPTOR)))
    except (zmq.ZMQError, UnicodeDecodeError, LookupError, ValueError):
        return None


def hang_up(descriptor: int) -> None:
    """End a connection that libzmq has open; it has no other way to send one away.

    Where it ended by itself in the meantime, another connection of ours may have its number: that one is made anew by
    who connected it. What is no connection is left alone.
    """
    with contextlib.suppress(OSError):
        copy = os.dup(descriptor)
        try:
            line = system.socket(fileno=copy)
        except OSError:
            os.close(copy)
            return
        with line, contextlib.suppress(OSError):
            line.shutdown(system.SHUT_RDWR)
