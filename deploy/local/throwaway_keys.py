"""Keys for one testbed: made when it is prepared, in a directory that only its user may enter, and gone with it.

They lie where its sockets do, never in its run directory. Nobody keeps the operator's key, which signs the
roster.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentd.files import replace_text
from agentd.keys.key_files import Keys, new_keys, write_keys
from agentd.keys.roster import Entry, Roster, SignedRoster, signed
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


@dataclass(frozen=True, slots=True)
class InContainers:
    """Where containers see the keys of the directory that is mounted for them."""

    secrets: str
    note: Callable[[int], str]
    """Where an agent writes down which roster it took up."""


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


def keyed_in_containers(plan: Plan, places: InContainers, user: str) -> tuple[SocketDirectory, Plan]:
    """Make keys for all containers of a plan, which run as `user` (UID:GID); they go with the directory."""
    directory = SocketDirectory()
    try:
        fingerprint = make_keys(Path(directory.path), [agent.id for agent in plan.agents])
        lend_keys(Path(directory.path), user)
    except BaseException:
        directory.release()
        raise
    return directory, plan.with_keys(directory.path, fingerprint, inside=places.secrets, note=places.note)


def lend_keys(place: Path, user: str) -> None:
    """Let files of keys belong to whom containers run as: only who enters the directory could read them anyway."""
    if os.geteuid() == 0:
        uid, gid = map(int, user.split(":"))
        for file in place.iterdir():
            os.chown(file, uid, gid, follow_symlinks=False)


def _with_new_keys(plan: Plan, place: str) -> Plan:
    return plan.with_keys(place, make_keys(Path(place), [agent.id for agent in plan.agents]))


def make_keys(place: Path, ids: Iterable[int]) -> str:
    """Put keys of these agents and of the environment into a directory, and a roster; the operator's fingerprint."""
    keys, roster = draw_keys(ids)
    for each in keys:
        write_keys(place, each)
    replace_text(place / ROSTER, roster.text())
    return roster.fingerprint


def draw_keys(ids: Iterable[int]) -> tuple[list[Keys], SignedRoster]:
    """Keys of the environment and of these agents, and the roster that names them; nobody keeps the operator's."""
    operator, environment = new_keys("operator"), new_keys("environment")
    agents = {number: new_keys("agent", number) for number in ids}
    roster = Roster(
        version=1,
        valid_until=int(time.time()) + VALID_S,
        agents={number: _entry(keys) for number, keys in agents.items()},
        environment=_entry(environment),
        signatures=True,
    )
    return [environment, *agents.values()], signed(roster, operator.sign_public, operator.sign_secret)


def _entry(keys: Keys) -> Entry:
    return Entry(keys.curve_public, keys.sign_public)
