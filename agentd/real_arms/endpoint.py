"""http://…: an endpoint that is asked with a POST of a JSON object for every pull, and answers with another.

    request   {"arm": 2, "trial": 17, "agent": 3, "life": 0, "run": "0011223344556677"}
    answer    200 {"reward": 0.25}

A request that got no answer is sent again until the deadline, word for word: run, agent, life and trial name a pull,
and an endpoint that remembers what it answered pays a repeated one only once. Nothing else is believed: no redirect is
followed, no proxy is asked, and the answer, with its head, may be `LONGEST_REPLY` bytes long and take until the
deadline in all, however slowly it drips.

The client is fifty lines on a socket because no part of the standard library bounds the time of a whole exchange.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from agentd.real_arms.worker import LONGEST_ANSWER, ArmFault, Reason

LONGEST_REPLY = 16 << 10
FIRST_PAUSE_S = 0.05
MOST_PAUSE_S = 1.0
"""How long to wait before a request is sent again."""

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: |\r|$)")


class Endpoint:
    """One request at a time, each on a connection of its own."""

    def __init__(self, address: str, about: Mapping[str, Any]) -> None:
        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._named = parts.netloc
        self._about = about
        self._closed = False

    def begin(self) -> None:
        """Nobody is connected to before there is something to ask."""

    def pull(self, arm: int, trial: int, deadline_s: float, agent: int | None = None) -> float:
        """Ask until there is an answer; see `Worker`."""
        whose = {} if agent is None else {"agent": agent}
        request = self._request({"arm": arm, "trial": trial, **self._about, **whose})
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return _reward(self._exchange(request, deadline_s))
            except OSError as fault:
                why = fault.strerror or str(fault) or type(fault).__name__
            left_s = deadline_s - time.monotonic()
            if self._closed or left_s <= pause_s:
                reason = Reason.LATE if left_s <= 0 else Reason.UNREACHABLE
                raise ArmFault(reason, f"{self._named} does not answer: {why}")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, MOST_PAUSE_S)

    def close(self) -> None:
        """Ask no more; what is under way ends at its deadline."""
        self._closed = True

    def _request(self, content: Mapping[str, Any]) -> bytes:
        body = json.dumps(content).encode()
        head = (
            f"POST {self._target} HTTP/1.0\r\nHost: {self._named}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode("ascii") + body

    def _exchange(self, request: bytes, deadline_s: float) -> bytes:
        """What is answered, head and body; OSError where the connection fails or the time is over."""
        with socket.create_connection((self._host, self._port), _left_s(deadline_s)) as connection:
            connection.settimeout(_left_s(deadline_s))
            connection.sendall(request)
            reply = b""
            while not _is_whole(reply):
                connection.settimeout(_left_s(deadline_s))
                part = connection.recv(LONGEST_REPLY + 1)
                if not part:
                    break
                reply += part
                if len(reply) > LONGEST_REPLY:
                    raise ArmFault(Reason.TOO_LONG, f"an answer of more than {LONGEST_REPLY} bytes")
            return reply


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the time is over")
    return left_s


def _is_whole(reply: bytes) -> bool:
    """Whether as much of the body has come as the head says; one that says nothing ends with the connection."""
    head, end, body = reply.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d{1,9})[ \t]*(?:\r\n|$)", head)
    return bool(end) and length is not None and len(body) >= int(length[1])


def _reward(reply: bytes) -> float:
    head, end, body = reply.partition(b"\r\n\r\n")
    if not end:
        raise ConnectionError("an answer that breaks off")
    status = _STATUS.match(head)
    if status is None or status[1] != b"200":
        what = "something else than HTTP" if status is None else status[1].decode()
        raise ArmFault(Reason.REFUSED, f"the endpoint answered with {what}, not with 200")
    try:
        reward = json.loads(body, parse_constant=_no_number, parse_int=_whole, parse_float=_whole)["reward"]
    except (ValueError, KeyError, TypeError, RecursionError):
        reward = None
    if type(reward) is not float:
        raise ArmFault(Reason.UNREADABLE, 'the answer is not a JSON object like {"reward": 0.25}')
    return reward


def _whole(text: str) -> float:
    """A number, however it is written; Python would take minutes over integers of a million digits."""
    return float(text) if len(text) <= LONGEST_ANSWER else float("nan")


def _no_number(text: str) -> float:
    return float(text)  # NaN and Infinity: numbers, and outside of all bounds
