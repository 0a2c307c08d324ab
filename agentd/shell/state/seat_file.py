"""The secret that holds an agent's seat at the environment, where the agent will find it again.

It is written down before the environment hears of it: otherwise an agent that dies in between, or whose welcome is
lost, would have locked itself out. The file holds 32 hexadecimal digits; only its owner may read it.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from agentd.core.message import TOKEN_BYTES
from agentd.errors import ConfigurationError
from agentd.files import make_directory, replacing
from agentd.settings import AgentSettings
from agentd.untrusted import read_in

NAME = "seat"
"""Of the file in a state directory."""


def seat_token(settings: AgentSettings) -> bytes:
    """The token that was written down, else a new one; where there is no place for it, it goes with the process."""
    place = seat_place(settings)
    if place is None:
        return secrets.token_bytes(TOKEN_BYTES)
    try:
        return _read(place, settings.id)
    except FileNotFoundError:
        token = secrets.token_bytes(TOKEN_BYTES)
    except OSError as fault:
        raise ConfigurationError(f"cannot read the seat in {place}: {fault.strerror}; see who may read it") from None
    try:
        write_seat(place, token)
    except OSError as fault:
        raise ConfigurationError(
            f"cannot write the seat to {place}: {fault.strerror}; make room there or name another place with --seat"
        ) from None
    return token


def seat_place(settings: AgentSettings) -> Path | None:
    """Where the token is kept: where --seat says, else beside the state; None: nowhere."""
    if settings.seat is not None:
        return Path(settings.seat)
    return Path(settings.state) / NAME if settings.state is not None else None


def write_seat(place: Path, token: bytes) -> None:
    """Put a token there, all of it or nothing, and wait for the disk."""
    make_directory(place.parent)
    with replacing(place) as file:
        file.write(f"{token.hex()}\n".encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
    directory = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _read(place: Path, agent: int) -> bytes:
    try:
        token = bytes.fromhex(read_in(place.parent, place.name, 2 * TOKEN_BYTES + 2).decode("ascii"))
    except ValueError:
        token = b""
    if len(token) != TOKEN_BYTES:
        raise ConfigurationError(
            f"the seat in {place} is damaged: it does not hold {2 * TOKEN_BYTES} hexadecimal digits; restore it, or "
            f"move it away and free the seat with `agentd env release {agent}`"
        )
    return token
