"""Keys for one testbed: made when it is prepared, in a directory that only its user may enter, and gone with it.

They lie where its sockets do, never in its run directory. Nobody keeps the operator's key, which signs the
roster.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentd.files import replace_text
from agentd.keys.key_files import Keys, new_keys, write_keys
from agentd.keys.roster import Entry, Roster, signed
from deploy.local.socket_directory import SocketDirectory
from deploy.plan.plan import ROSTER, Places, Plan

VALID_S = 10 * 365 * 86_400
"""Longer than any testbed lives: it is thrown away before."""


class Opened(Protocol):
    """Sockets of ours for every process of a testbed, and where they are."""

    @property
    def listeners(self) -> Mapping[str, socket.socket]:
        """By address."""
        ...

    def places(self, run_dir: Path) -> Places:
        """Who listens where."""
        ...

    def release(self) -> None:
        """Give them back."""
        ...


@dataclass(frozen=True, slots=True)
class OpenedWithKeys:
    """The same with a directory for keys, where they have none for their sockets."""

    opened: Opened
    directory: SocketDirectory

    @property
    def listeners(self) -> Mapping[str, socket.socket]:
        """By address."""
        return self.opened.listeners

    def places(self, run_dir: Path) -> Places:
        """Who listens where."""
        return self.opened.places(run_dir)

    def release(self) -> None:
        """Give them back, and remove the keys unless a supervisor in the background still has them."""
        self.opened.release()
        self.directory.release()


def keyed(opened: Opened, plan: Plan) -> tuple[Opened, Plan]:
    """Make keys for all processes of a plan; what is to be given back at the end, and the plan with them."""
    if plan.sockets is not None:
        return opened, _with_new_keys(plan, plan.sockets)
    directory = SocketDirectory()
    try:
        return OpenedWithKeys(opened, directory), _with_new_keys(plan, directory.path)
    except BaseException:
        directory.release()
        raise


def _with_new_keys(plan: Plan, place: str) -> Plan:
    operator, environment = new_keys("operator"), new_keys("environment")
    agents = {agent.id: new_keys("agent", agent.id) for agent in plan.agents}
    for each in (environment, *agents.values()):
        write_keys(Path(place), each)
    roster = Roster(
        version=1,
        valid_until=int(time.time()) + VALID_S,
        agents={number: _entry(keys) for number, keys in agents.items()},
        environment=_entry(environment),
    )
    made = signed(roster, operator.sign_public, operator.sign_secret)
    replace_text(Path(place) / ROSTER, made.text())
    return plan.with_keys(place, made.fingerprint)


def _entry(keys: Keys) -> Entry:
    return Entry(keys.curve_public, keys.sign_public)
