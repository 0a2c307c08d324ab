"""The agent's side of the environment: ask, wait, ask again.

A pull is idempotent until it is committed, so a request that got no answer is simply sent again, with growing patience,
until the environment answers or was silent for too long. Who asks is shown by the token of the seat, and not by the
connection: an agent may change that whenever it likes.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NoReturn

import zmq

from agentd.core.message import TOKEN_BYTES
from agentd.core.trust.lives import Lives
from agentd.errors import AgentdError, ConfigurationError, EnvironmentUnreachable, PeerError
from agentd.shell.doors.keyring import Keyring
from agentd.shell.json_log import Log
from agentd.shell.resolve import Route
from agentd.shell.sockets import SLICE_MS, requester
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import (
    MAX_LIVES,
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

ASK_AGAIN_S = 0.5
LOOK_EVERY_S = 0.01

_OPERATORS_FAULT = {Refusal.VERSION, Refusal.UNKNOWN_AGENT, Refusal.WRONG_TOKEN}


class RunOver(AgentdError):
    """The environment takes no more pulls, or we were told to stop; not a failure."""


class OldIncarnation(ConfigurationError):
    """The agent came back in another life since this state was written."""


class EnvironmentClient:
    """Pulls arms of a remote environment."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: str,
        log: Log,
        stop: asyncio.Event,
        keyring: Keyring | None = None,
    ) -> None:
        self._anew = partial(requester, context, address)
        if keyring is not None:
            self._anew = partial(self._anew, secure=partial(keyring.seek, agent=None))
            keyring.on_change.append(self._connect_anew)
        self._socket = self._anew()
        self._route = Route(self._socket, address)
        self._begin(address, log, stop)

    def _begin(self, address: str, log: Log, stop: asyncio.Event) -> None:
        """Know nothing yet; whatever carries the requests."""
        self._address = address
        self._log = log
        self._stop = stop
        self._unread: bytes | None = None
        self._reported: Report | None = None
        self.retries = 0
        self.give_up_s = GIVE_UP_AFTER_S
        """How long an answer to a pull is waited for."""
        self.token = secrets.token_bytes(TOKEN_BYTES)
        """Of the agent's seat; one that was written down takes its place before the first hello."""
        self.asked_s = self.now_s()
        """When the last hello left; the age of the run that the welcome tells was measured after that."""
        self.lives = Lives()
        """What the environment told of everybody's incarnations."""
        self.run_round = 0
        """The latest round in which the environment said that the run is; 0: it has not said."""
        self.on_silence: Callable[[], None] | None = None
        """Called for every slice of time (a fifth of a second) that an answer lets us wait; it must not wait itself."""

    async def hello(self, agent: int, incarnation: int | None, timeout_s: float) -> Welcome:
        """Introduce the agent; learn the terms of the run, which trial is next and which incarnation this is.

        `incarnation`: of the state that was kept; None: there is none, or it is not trusted, and this is a new life.
        """
        await self._find(timeout_s)
        self.asked_s = self.now_s()
        reply = await self._ask(Hello(agent, self.token, incarnation), timeout_s)
        assert isinstance(reply, Welcome)  # noqa: S101
        return reply

    async def pull(self, agent: int, trial: int, arm: int, sent: Callable[[], None] = lambda: None) -> int:
        """The reward of a pull, on the grid; the first one waits until all agents are there.

        Whoever asks for a trial has committed the one before. `sent` is called between the request and the answer.
        """
        request = Pull(agent, self.token, trial, arm, trial - 1)
        self._send(request)
        sent()
        part = await self._part()
        if (reward := _reward_of(part, request)) is not None:
            return reward
        self._unread = part  # not the one that nearly always comes: it is left for `_answer`
        if part is None:
            self._tell_of_silence()
        reply = await self._ask(request, self.give_up_s, sent=True)
        worth_saying = math.inf
        while isinstance(reply, Wait):
            if reply.missing <= worth_saying:  # hundreds of agents ask many times
                self._log.info("waiting for other agents", missing=reply.missing)
                worth_saying = reply.missing / 2
            await self._pause(ASK_AGAIN_S)
            if self._stop.is_set():
                raise RunOver("told to stop while waiting for other agents")
            reply = await self._ask(request, self.give_up_s)
        assert isinstance(reply, Reward)  # noqa: S101
        return reply.reward

    def report(self, report: Report) -> None:
        """Tell the environment the agent's counters; if it does not hear, the next report says it again."""
        self._reported = report
        self._send(report)

    async def news(self, within_s: float) -> bool:
        """Report the same again and wait for the note, which tells the round of the run; whether one came in time."""
        if self._reported is None:
            return False
        request = replace(self._reported, returns=self.lives.known)
        self._send(request)
        return await self._answer(request, self.waited_s() + within_s) is not None

    def listen(self) -> None:
        """Take up notes that lie ready, without waiting, where no answer is awaited; anything else is left unread."""
        while self._unread is None:
            part = self._part_at_once()
            if part is None:
                return
            try:
                reply = decode_environment(part)
            except PeerError:
                return
            if isinstance(reply, Noted):
                self._learn(reply)
                self.run_round = max(self.run_round, reply.round)
            else:
                self._unread = part

    async def last_report(self, report: Report, timeout_s: float) -> None:
        """Tell it for the last time, and wait until it was heard."""
        await self._ask(report, timeout_s)

    def now_s(self) -> float:
        """The time, from some beginning."""
        return time.monotonic()

    def waited_s(self) -> float:
        """The clock by which the environment is silent: time in which an answer would have been seen."""
        return self.now_s()

    def close(self) -> None:
        """Close the socket; what was sent still leaves."""
        self._socket.close()

    async def _find(self, timeout_s: float) -> None:
        """Wait until it is known where the environment is."""
        deadline = self.now_s() + timeout_s
        while not self._route.find():
            if self._stop.is_set():
                raise RunOver("told to stop while looking for the environment")
            if self.now_s() >= deadline:
                raise EnvironmentUnreachable(
                    f"nobody knows the name in {self._address} after {timeout_s:g} s; is it spelled right?"
                )
            await asyncio.sleep(LOOK_EVERY_S)

    async def _ask(self, request: Request, timeout_s: float, *, sent: bool = False) -> Reply:
        started = self.waited_s()
        patience = FIRST_PATIENCE_S
        while True:
            if not sent:
                self._send(request)
            sent = False
            reply = await self._answer(request, min(self.waited_s() + patience, started + timeout_s))
            if reply is not None:
                return reply
            if self.waited_s() >= started + timeout_s:
                raise EnvironmentUnreachable(
                    f"the environment at {self._address} did not answer within {timeout_s:g} s; "
                    "is `agentd env` running there?"
                )
            self.retries += 1
            self._reconnect()
            patience = min(2 * patience, MOST_PATIENCE_S)
            self._log.warning("environment silent, asking again", address=self._address, retries=self.retries)

    def _reconnect(self) -> None:
        """Connect anew: the environment may have come back elsewhere, or vanished without a word."""
        if self._socket.getsockopt(zmq.RCVMORE):  # libzmq aborts the process after a disconnect in mid-message
            self._connect_anew()
        else:
            self._route.renew()

    def _connect_anew(self) -> None:
        """With another socket; what was under way is asked again. The environment may have other keys by now."""
        self._socket.close(linger=0)
        self._socket = self._anew()
        self._route.use(self._socket)

    def _send(self, request: Request) -> None:
        self._carry(encode_environment(request))

    def _carry(self, data: bytes) -> None:
        try:
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.Again:  # nobody connected and the queue is full: the next try may find room
            self._log.debug("request not queued")

    async def _answer(self, request: Request, deadline: float) -> Reply | None:
        """The reply to this request, or None when the time is over; replies to older requests are passed over."""
        while self.waited_s() < deadline:
            part = await self._part()
            if part is None:
                self._tell_of_silence()
                await asyncio.sleep(0)  # a slice is over: let signals in
                if self._stop.is_set() and not isinstance(request, Report):
                    raise RunOver("told to stop while waiting for the environment")
                continue
            try:
                reply = decode_environment(part)
            except PeerError as fault:
                self._log.warning("unreadable answer of the environment", reason=fault.reason)
                continue
            if isinstance(reply, Refused):
                _raise(reply, self._address)
            if isinstance(reply, (Noted, Welcome)):
                self.run_round = max(self.run_round, reply.round)
            if isinstance(reply, Noted):
                self._learn(reply)
            if _answers(reply, request):
                return reply  # type: ignore[return-value]
        return None

    async def _pause(self, seconds: float) -> None:
        """Let time pass, and say so as often as in any other waiting."""
        while seconds > 0 and not self._stop.is_set():
            await self._sleep(min(seconds, SLICE_MS / 1000))
            seconds -= SLICE_MS / 1000
            self._tell_of_silence()

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def _tell_of_silence(self) -> None:
        if self.on_silence is not None:
            self.on_silence()

    def _learn(self, noted: Noted) -> None:
        """Take up what a note tells of others; if that is as much as fits into one, there is more."""
        self.lives.told(noted.lives, noted.returns)
        if len(noted.lives) == MAX_LIVES and self._reported is not None:
            self.report(replace(self._reported, returns=self.lives.known))

    def _part_at_once(self) -> bytes | None:
        try:
            return self._socket.recv(zmq.NOBLOCK)
        except zmq.Again:
            return None

    async def _part(self) -> bytes | None:
        if self._unread is not None:
            part, self._unread = self._unread, None
            return part
        return await self._next_part()

    async def _next_part(self) -> bytes | None:
        """What comes next, within a slice of time."""
        try:
            return self._socket.recv()
        except zmq.Again:
            return None


def _reward_of(part: bytes | None, request: Pull) -> int | None:
    """What a pull paid, if this is the answer to it."""
    if part is None:
        return None
    try:
        reply = decode_environment(part)
    except PeerError:
        return None
    return reply.reward if type(reply) is Reward and reply[:2] == (request.trial, request.arm) else None


def _answers(reply: object, request: Request) -> bool:
    match request, reply:
        case (Hello(incarnation=asked), Welcome(incarnation=given)):
            # Not that of a hello before, which was asked twice: a new life is named after the trials before it.
            return given == (reply.next_trial - 1 if asked is None else asked)
        case (Pull(trial=trial, arm=arm), Reward(trial=answered, arm=pulled)):
            return (trial, arm) == (answered, pulled)
        case (Pull(trial=trial), Wait(trial=answered)):
            return trial == answered
        case (Report(trial=trial), Noted(trial=noted)):
            return trial == noted
    return isinstance(request, Ping)


def _raise(refusal: Refused, address: str) -> NoReturn:
    if refusal.code is Refusal.RUN_OVER:
        raise RunOver(refusal.text)
    if refusal.code is Refusal.OLD_INCARNATION:
        raise OldIncarnation(f"the environment at {address} refuses this state: {refusal.text}")
    if refusal.code in _OPERATORS_FAULT:
        raise ConfigurationError(f"the environment at {address} refuses this agent: {refusal.text}")
    if refusal.code is Refusal.TRIAL_OUT_OF_ORDER:
        raise AgentdError(
            f"the environment at {address} refused: {refusal.text}; "
            "does another process run with the same --id and --seat?"
        )
    raise AgentdError(f"the environment at {address} refused: {refusal.text}")
