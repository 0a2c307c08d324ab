"""Free the seat of an agent whose token is lost, as the environment's operator: whoever may read its run directory.

Where a service is using the directory it is asked over its socket, with the secret that it has put there; where none
is, the journal is written to directly, under the lock of a service.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import zmq

from agentd.environment.pull_journal import InUse
from agentd.environment.shared_bandit import SharedBandit
from agentd.environment.store import OPERATOR, Store, read_terms
from agentd.errors import ConfigurationError, EnvironmentUnreachable, PeerError
from agentd.files import require_own
from agentd.untrusted import read_json_in
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import Refused, Release, Released

PATIENCE_S = 10.0
"""How long a service may take to answer; it answers at once unless it is stopped or out of reach."""

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "::": "[::1]"}  # noqa: S104
"""Where a service that listens everywhere is found from its own machine."""


@dataclass(frozen=True, slots=True)
class Freed:
    """A seat that was released."""

    agent: int
    next_trial: int
    """With which its next holder begins."""
    running: bool
    """Whether a service was asked; else its journal was written to."""


def release_seat(directory: Path, agent: int) -> Freed:
    """Free a seat of the run in a directory; one that is free already stays so."""
    if directory.is_dir():
        require_own(directory)
    terms = read_terms(directory)
    if terms is None:
        raise ConfigurationError(f"{directory} holds no run; name the --run-dir of the environment")
    if not terms.admits(agent, 0):
        raise ConfigurationError(f"agents are numbered {terms.members_text}, not {agent}; see `agentd status`")
    try:
        store = Store.open(directory)
    except InUse:
        return _ask(directory, agent)
    with closing(store):
        bandit = SharedBandit(terms)
        store.take_up(bandit)
        next_trial = bandit.free(agent)
        if released := bandit.seating.take_fresh():
            store.record_seats(released)
    return Freed(agent, next_trial, running=False)


def _ask(directory: Path, agent: int) -> Freed:
    address, secret = _operator(directory)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        socket = context.socket(zmq.DEALER)
        socket.setsockopt(zmq.IPV6, int("[" in address))
        socket.connect(address)
        socket.send(encode_environment(Release(agent, secret)))
        if not socket.poll(int(1000 * PATIENCE_S)):
            raise EnvironmentUnreachable(
                f"the environment that uses {directory} did not answer at {address} within {PATIENCE_S:g} s; run this "
                "where it runs, or stop it first"
            )
        return _freed(socket.recv(), directory)
    except zmq.ZMQError as fault:
        raise ConfigurationError(f"cannot connect to {address}: {fault}; run this where the environment runs") from None
    finally:
        context.destroy(linger=0)


def _freed(reply: bytes, directory: Path) -> Freed:
    try:
        said = decode_environment(reply)
    except PeerError:
        said = None
    if isinstance(said, Released):
        return Freed(said.agent, said.next_trial, running=True)
    why = said.text if isinstance(said, Refused) else "it says something else"
    raise ConfigurationError(f"the environment that uses {directory} refused: {why}")


def _operator(directory: Path) -> tuple[str, bytes]:
    """Where the service is, and its operator's secret."""
    try:
        said = read_json_in(directory, OPERATOR)
        if said.get("keyed"):
            raise ConfigurationError(
                f"the environment that uses {directory} has keys: a seat there goes with the key of its agent and "
                "has no token to lose; give the agent another key with a newer roster (agentd roster make)"
            )
        return _from_here(str(said["address"])), bytes.fromhex(said["secret"])
    except (OSError, ValueError, KeyError, TypeError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else fault
        raise ConfigurationError(
            f"an environment is using {directory}, but {OPERATOR} in it does not tell how to reach it ({why}); "
            "if it has just been started, try again; else run this as its user, or stop it first"
        ) from None


def _from_here(address: str) -> str:
    parts = urlsplit(address)
    here = _EVERYWHERE.get(parts.hostname or "")
    return address if here is None else f"tcp://{here}:{parts.port}"
