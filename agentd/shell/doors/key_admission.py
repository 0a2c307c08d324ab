"""Who may connect where there are keys: who proved in the handshake to have one that the roster names.

ZeroMQ asks when the key is proved, so a name is given to nobody else. Who has no key at all, or seeks another one at
our end, fails before that and is not even heard of here. Addresses matter only where the operator says so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import zmq

from agentd.addresses import networks
from agentd.shell.doors.admission import MOST_NAMED, Admission, Knock, plain_number
from agentd.shell.doors.keyring import KEY_BYTES, Keyring
from agentd.shell.json_log import Log


class KeyKnock(Knock):
    """One request about a connection with a key."""

    __slots__ = ("key", "where")
    mechanisms = (b"CURVE",)
    needs_address = False

    def __init__(self, parts: Sequence[bytes]) -> None:
        super().__init__(parts)
        self.key, self.where = parts[-1], parts[5].decode("ascii", errors="replace")
        if len(parts) != 9 or len(self.key) != KEY_BYTES:
            raise ValueError("not for us")


class KeyAdmission(Admission):
    """The thread that answers, by the roster in force; `refused` counts keys that were not let in."""

    knock = KeyKnock

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        keyring: Keyring,
        log: Log,
        *,
        only: Collection[int] | None = None,
        within: Sequence[str] = (),
    ) -> None:
        """`only`: of these agents, whoever else is in the roster; `within`: over TCP only from these networks."""
        self._within = networks(within)
        self._keyring = keyring
        self._only = only
        self._named_keys: set[bytes] = set()
        super().__init__(context, None, log)

    def _judge(self, knock: Knock) -> None:
        assert isinstance(knock, KeyKnock)  # noqa: S101
        name = self._keyring.admits(knock.key)
        agent = None if name is None else self._keyring.agent_of(name)
        if name is not None and agent is not None and self._is_welcome(agent, knock.where):
            self._say(knock, b"200", b"", name.encode("ascii"))
            return
        self.refused += 1
        self._say(knock, b"400", b"not admitted")
        self._tell(knock, agent)

    def _is_welcome(self, agent: int, where: str) -> bool:
        if self._only is not None and agent not in self._only:
            return False
        if not self._within or where.startswith(":"):  # as libzmq names the user at the other end of ipc
            return True
        try:
            return any(plain_number(where) in network for network in self._within)
        except ValueError:
            return False

    def _tell(self, knock: KeyKnock, agent: int | None) -> None:
        """Name a key once; they cost nothing to make, so only so many."""
        if knock.key in self._named_keys or len(self._named_keys) > MOST_NAMED:
            return
        self._named_keys.add(knock.key)
        if len(self._named_keys) > MOST_NAMED:
            self._log.warning("connections refused with many keys, the rest are only counted")
            return
        whose = "of no agent in the roster" if agent is None else f"of agent {agent}, who is no neighbour or elsewhere"
        self._log.warning("connection refused", key=f"{knock.key.hex():.16}", whose=whose, address=knock.where)
