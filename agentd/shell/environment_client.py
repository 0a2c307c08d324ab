"""The agent's side of the environment: ask, wait, ask again.

A pull is idempotent, so a request that got no answer is simply sent again, with growing patience, until the
environment answers or was silent for too long.
"""

from __future__ import annotations

import asyncio
import math
import time

import zmq

from agentd.errors import AgentdError, ConfigurationError, EnvironmentUnreachable, PeerError
from agentd.shell.json_log import Log
from agentd.shell.resolve import Route
from agentd.shell.sockets import requester
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import (
    Hello,
    Noted,
    Ping,
    Pull,
    Refusal,
    Refused,
    Reply,
    Report,
    Request,
    Reward,
    Wait,
    Welcome,
)

FIRST_PATIENCE_S = 1.0
MOST_PATIENCE_S = 8.0
GIVE_UP_AFTER_S = 60.0
"""How long the environment may be silent in mid-run, for example while it is restarted."""

GHOST_S = 5.0
"""How long to ask again while another connection speaks for us; a broken one is missed after about 3 s."""
OWN_GHOST_S = 20.0
"""The same for an agent that was welcome before: behind a network that was gone for a while, its own old connection is
missed only when TCP gives it up."""
ASK_AGAIN_S = 0.5
LOOK_EVERY_S = 0.01

_OPERATORS_FAULT = {Refusal.VERSION, Refusal.UNKNOWN_AGENT, Refusal.DUPLICATE_AGENT}


class RunOver(AgentdError):
    """The environment takes no more pulls, or we were told to stop; not a failure."""


class EnvironmentClient:
    """Pulls arms of a remote environment."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str, log: Log, stop: asyncio.Event) -> None:
        self._address = address
        self._socket = requester(context, address)
        self._route = Route(self._socket, address)
        self._log = log
        self._stop = stop
        self._unread: bytes | None = None
        self.retries = 0

    async def hello(self, agent: int, incarnation: int, timeout_s: float) -> Welcome:
        """Introduce the agent; learn which run this is, how many arms there are, and which trial is next."""
        await self._find(timeout_s)
        reply = await self._ask(Hello(agent, incarnation), timeout_s)
        assert isinstance(reply, Welcome)  # noqa: S101
        return reply

    async def pull(self, agent: int, trial: int, arm: int) -> int:
        """The reward of a pull, on the grid; the first one waits until all agents are there."""
        request = Pull(agent, trial, arm)
        if (reward := self._reward_at_once(request)) is not None:
            return reward
        reply = await self._ask(request, GIVE_UP_AFTER_S, sent=True)
        worth_saying = math.inf
        while isinstance(reply, Wait):
            if reply.missing <= worth_saying:  # hundreds of agents ask many times
                self._log.info("waiting for other agents", missing=reply.missing)
                worth_saying = reply.missing / 2
            await asyncio.sleep(ASK_AGAIN_S)
            if self._stop.is_set():
                raise RunOver("told to stop while waiting for other agents")
            reply = await self._ask(request, GIVE_UP_AFTER_S)
        assert isinstance(reply, Reward)  # noqa: S101
        return reply.reward

    def report(self, report: Report) -> None:
        """Tell the environment the agent's counters; if it does not hear, the next report says it again."""
        self._send(report)

    async def last_report(self, report: Report, timeout_s: float) -> None:
        """Tell it for the last time, and wait until it was heard."""
        await self._ask(report, timeout_s)

    def close(self) -> None:
        """Close the socket; what was sent still leaves."""
        self._socket.close()

    async def _find(self, timeout_s: float) -> None:
        """Wait until it is known where the environment is."""
        deadline = time.monotonic() + timeout_s
        while not self._route.find():
            if self._stop.is_set():
                raise RunOver("told to stop while looking for the environment")
            if time.monotonic() >= deadline:
                raise EnvironmentUnreachable(
                    f"nobody knows the name in {self._address} after {timeout_s:g} s; is it spelled right?"
                )
            await asyncio.sleep(LOOK_EVERY_S)

    def _reward_at_once(self, request: Pull) -> int | None:
        """Ask, and read the answer if it is the one that nearly always comes; any other is left for `_answer`."""
        self._send(request)
        part = self._part()
        if part is not None:
            try:
                reply = decode_environment(part)
            except PeerError:
                reply = None
            if isinstance(reply, Reward) and reply.trial == request.trial and reply.arm == request.arm:
                return reply.reward
        self._unread = part
        return None

    async def _ask(self, request: Request, timeout_s: float, *, sent: bool = False) -> Reply:
        started = time.monotonic()
        patience = FIRST_PATIENCE_S
        ghost_until = None  # counted from the first refusal: before it, the environment may have been out of reach
        while True:
            if not sent:
                self._send(request)
            sent = False
            reply = await self._answer(request, min(time.monotonic() + patience, started + timeout_s))
            if isinstance(reply, Refused):
                if ghost_until is None:
                    ghost_s = GHOST_S if isinstance(request, Hello) else OWN_GHOST_S
                    ghost_until = time.monotonic() + min(timeout_s, ghost_s)
                    self._log.warning("another connection speaks for this agent, asking again", address=self._address)
                await self._let_the_other_go(reply, ghost_until)
                continue
            if reply is not None:
                return reply
            if time.monotonic() >= started + timeout_s:
                raise EnvironmentUnreachable(
                    f"the environment at {self._address} did not answer within {timeout_s:g} s; "
                    "is `agentd env` running there?"
                )
            self.retries += 1
            self._reconnect()
            patience = min(2 * patience, MOST_PATIENCE_S)
            self._log.warning("environment silent, asking again", address=self._address, retries=self.retries)

    async def _let_the_other_go(self, refused: Refused, deadline: float) -> None:
        """Wait a little, because another connection speaks for this agent: mostly our own, before it broke."""
        if time.monotonic() >= deadline:
            _raise(refused, self._address)
        await asyncio.sleep(ASK_AGAIN_S)

    def _reconnect(self) -> None:
        """Connect anew: the environment may have come back elsewhere, or vanished without a word."""
        self._route.renew()

    def _send(self, request: Request) -> None:
        try:
            self._socket.send(encode_environment(request), zmq.NOBLOCK)
        except zmq.Again:  # nobody connected and the queue is full: the next try may find room
            self._log.debug("request not queued")

    async def _answer(self, request: Request, deadline: float) -> Reply | None:
        """The reply to this request, or None when the time is over; replies to older requests are passed over."""
        while time.monotonic() < deadline:
            part = self._part()
            if part is None:
                await asyncio.sleep(0)  # a slice is over: let signals in
                if self._stop.is_set() and not isinstance(request, Report):
                    raise RunOver("told to stop while waiting for the environment")
                continue
            try:
                reply = decode_environment(part)
            except PeerError as fault:
                self._log.warning("unreadable answer of the environment", reason=fault.reason)
                continue
            if isinstance(reply, Refused) and reply.code is not Refusal.DUPLICATE_AGENT:
                _raise(reply, self._address)
            if _answers(reply, request):
                return reply  # type: ignore[return-value]
        return None

    def _part(self) -> bytes | None:
        if self._unread is not None:
            part, self._unread = self._unread, None
            return part
        try:
            return self._socket.recv()
        except zmq.Again:
            return None


def _answers(reply: object, request: Request) -> bool:
    match request, reply:
        case (_, Refused()):
            return True
        case (Hello(), Welcome()):
            return True
        case (Pull(trial=trial, arm=arm), Reward(trial=answered, arm=pulled)):
            return (trial, arm) == (answered, pulled)
        case (Pull(trial=trial), Wait(trial=answered)):
            return trial == answered
        case (Report(trial=trial), Noted(trial=noted)):
            return trial == noted
    return isinstance(request, Ping)


def _raise(refusal: Refused, address: str) -> None:
    if refusal.code is Refusal.RUN_OVER:
        raise RunOver(refusal.text)
    if refusal.code in _OPERATORS_FAULT:
        raise ConfigurationError(f"the environment at {address} refuses this agent: {refusal.text}")
    raise AgentdError(f"the environment at {address} refused: {refusal.text}")
