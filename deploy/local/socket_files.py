"""The sockets of a testbed that speaks ipc: opened here, before its processes start, and handed to them.

So nobody waits for a socket that is not there yet, and a process that is started again finds its own as it was.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from agentd.listeners import BACKLOG
from deploy.local.socket_directory import SocketDirectory
from deploy.plan.plan import Sockets, host_socket

_SCHEME = "ipc://"


class SocketFiles:
    """A directory of our own with a listening socket for every process."""

    def __init__(self, agents: int, hosts: int = 0) -> None:
        """Of every agent, or where they share processes of every host."""
        self._directory = SocketDirectory()
        self.listeners: dict[str, socket.socket] = {}
        """By address."""
        try:
            places = self.places(Path())
            of_hosts = [host_socket(self._directory.path, host) for host in range(hosts)]
            for address in (places.environment, *(of_hosts or map(places.listen, range(agents)))):
                self.listeners[address] = _listening(address)
        except BaseException:
            self.release()
            raise

    def places(self, run_dir: Path) -> Sockets:
        """Who listens where."""
        return Sockets(self._directory.path, run_dir)

    def release(self) -> None:
        """Stop listening; whoever does so last removes the directory."""
        for listener in self.listeners.values():
            listener.close()
        self.listeners.clear()
        self._directory.release()


def _listening(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listener.bind(address.removeprefix(_SCHEME))
        listener.listen(BACKLOG)
        listener.setblocking(False)  # for ZeroMQ, which would wait where somebody has hung up already
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(mask)
    return listener
