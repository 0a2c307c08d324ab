"""The server of requests: from the socket to the bandit, to disk, and back to the socket.

All requests that have arrived are answered as one batch: decide them all, write the new pulls to the journal with one
write, then send all replies. So a pull whose reply left is on disk, whatever happens to the process afterwards.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from agentd.core.message import TOKEN_BYTES
from agentd.environment.hello_limit import HelloLimit
from agentd.environment.live_status import Speed, Tallies, dropped_in_all, observed, status_of
from agentd.environment.log_throttle import LogThrottle
from agentd.environment.shared_bandit import SharedBandit
from agentd.environment.store import Store
from agentd.errors import PeerError
from agentd.runs.status import Status
from agentd.shell.json_log import Log
from agentd.shell.watch.snapshot import Observed
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import (
    Hello,
    Ping,
    Pull,
    Refusal,
    Refused,
    Release,
    Reply,
    Report,
    Request,
    Welcome,
)
from agentd.wire.frame import VERSION, Reason
from agentd.wire.parcel import Parcel, decode_parcel, encode_parcel, is_parcel

STATUS_EVERY_S = 1.0
LOOK_EVERY_S = 0.01
"""How often to look whether real arms have paid."""
_STATUS_SHARE = 0.05  # with thousands of agents status.json is written less often, to cost no more than this


@dataclass(frozen=True, slots=True)
class RunEnding:
    """What an environment knows at its end."""

    bandit: SharedBandit
    status: Status
    wall_s: float
    """Since the service started; a run that was taken up again is older."""


class Carrier(Protocol):
    """What brings requests and takes replies: `Router` over sockets."""

    address: str

    @property
    def refused_connections(self) -> int:
        """Of addresses that are not admitted."""
        ...

    async def ready(self, timeout_s: float | None) -> None:
        """Come back when a message waits or the time is over."""
        ...

    def waiting(self) -> list[list[bytes]]:
        """All that has come: who sent it, and its parts."""
        ...

    def send(self, connection: bytes, data: bytes) -> bool:
        """Send a reply; whether that was possible."""
        ...


class KeyedCarrier(Carrier, Protocol):
    """One that knows by its key who speaks."""

    def speaker(self, connection: bytes) -> int | None:
        """The agent whose key a connection has, of which a message was waiting just now."""
        ...


class RequestServer:
    """Carries requests to the bandit and its replies back."""

    def __init__(
        self,
        bandit: SharedBandit,
        router: Carrier,
        store: Store | None,
        log: Log,
        now_s: Callable[[], float] | None = None,
        *,
        keyed: KeyedCarrier | None = None,
    ) -> None:
        """`keyed`: the router once more, where it knows who speaks."""
        self.bandit = bandit
        self._keyed = keyed
        bandit.seating.keyed = keyed is not None
        self._unknown_token = secrets.token_bytes(TOKEN_BYTES)
        """Holds the seats of agents with keys, in case that somebody serves the run without keys: nobody has it."""
        self._now_s = now_s or time.monotonic
        self.tallies = Tallies()
        self._router = router
        self._store = store
        self._log = log
        self._throttle = LogThrottle()
        self._hellos = HelloLimit()
        self._started_s = self._now_s()
        self._speed = Speed(bandit.pulls, self._started_s)
        self._watched_speed = Speed(bandit.pulls, self._started_s)
        self._changed = False
        self._status_due_s = self._started_s
        self._saved_done: set[int] = set()
        """Who is done, as reports.json says; what else their reports say is written with the next status."""
        self._unsaved_done = False
        self._under_way: dict[int, list[bytes]] = {}
        """Requests for pulls of real arms that have not paid yet, one of each agent."""

    async def serve(self, until_done: bool) -> None:
        """Answer requests; returns when all agents are done, if asked to, else never."""
        while not (until_done and self.bandit.all_done):
            await self._router.ready(self._patience_s())
            self.answer_waiting()
            self._write_status_if_due()

    def _patience_s(self) -> float | None:
        """How long to wait for requests at most; None: for ever."""
        if self._under_way:
            return LOOK_EVERY_S
        return max(0.0, self._status_due_s - self._now_s()) if self._changed else None

    def announce(self) -> str:
        """Say in the log and in status.json that requests are taken; returns the address."""
        terms, address = self.bandit.terms, self._router.address
        left_open = terms.agreed.left_open()
        about = {"run": terms.run.hex(), "arms": terms.arms.count, "agents": terms.agents}
        self._log.info("listening", address=address, **about, **({"cannot_refuse": left_open} if left_open else {}))
        self._write_status(self._now_s())
        return address

    def answer_waiting(self) -> int:
        """Answer all that has arrived; returns how many requests that were."""
        again, came = list(self._under_way.values()), self._router.waiting()
        self._under_way = {}
        messages = [*again, *came]
        if not messages:
            return 0
        now_s = self._now_s()
        replies = [(parts[0], self._answer(parts, now_s)) for parts in again]
        replies += [(parts[0], self._answer_any(parts, now_s)) for parts in came]
        self._save()
        for connection, data in replies:
            if data and not self._router.send(connection, data):
                self.tallies.unanswerable += 1
        self._changed = True
        return len(messages)

    def observe(self, state: str) -> Observed:
        """What others may see of the run."""
        now_s = self._now_s()
        speed = self._watched_speed.look(self.bandit.pulls, now_s)
        status = status_of(self.bandit, self.tallies, address=self._router.address, pulls_per_s=speed, now_s=now_s)
        return observed(status, "" if state == "running" else f"it is {state}")

    def finish(self) -> RunEnding:
        """Write everything down and say goodbye."""
        self._log.info("ending", pulls=self.bandit.pulls)
        self.answer_waiting()
        status = self._write_status(self._now_s(), last=True)
        wall_s = self._now_s() - self._started_s
        if self._store is not None:
            self._write_results(self._store)
        self._log.info("ended", pulls=self.bandit.pulls, group_regret=status.group_regret, wall_s=round(wall_s, 3))
        return RunEnding(self.bandit, status, wall_s)

    def _answer(self, parts: list[bytes], now_s: float, *, fresh: bool = False) -> bytes:
        """The bytes of the reply to one request; none: it is not answered."""
        reply = self._reply(parts, now_s, fresh=fresh)
        return b"" if reply is None else encode_environment(reply)

    def _answer_any(self, parts: list[bytes], now_s: float) -> bytes:
        """The same for what has just come: one request, or a parcel, whose answer is a parcel."""
        if len(parts) != 2 or not is_parcel(parts[1]):
            return self._answer(parts, now_s, fresh=True)
        try:
            parcel = decode_parcel(parts[1])
        except PeerError:
            return self._answer(parts, now_s, fresh=True)  # which says what is wrong with it
        answers = [self._answer([parts[0], each], now_s, fresh=True) for each in parcel.items]
        return encode_parcel(Parcel(parcel.number, answers))

    def _reply(self, parts: list[bytes], now_s: float, *, fresh: bool = False) -> Reply | None:
        """The reply to one request; None: it is not answered, because its agent asks the same all the time.

        Who speaks was looked at when it was fresh.
        """
        try:
            request = _read(parts)
        except PeerError as fault:
            self.tallies.malformed[fault.reason] += 1
            code = Refusal.VERSION if fault.reason == Reason.VERSION else Refusal.MALFORMED
            self._complain(f"malformed {fault.reason}", now_s)
            return Refused(code, f"not a request of protocol version {VERSION}: {fault}")
        if fresh and self._keyed is not None and (other := self._not_its_own(request, parts[0])) is not None:
            self.tallies.refused["wrong_key"] += 1
            self._complain("wrong_key", now_s, text=other.text)
            return other
        if self._keyed is not None and type(request) is Hello:
            request = replace(request, token=self._unknown_token)
        if type(request) is Hello and self._is_said_too_often(request, now_s):
            return None
        reply = self.bandit.answer(request, now_s)
        if reply is None:  # a real arm is being pulled; of several requests of an agent the latest is answered
            assert isinstance(request, Pull)  # noqa: S101
            self._under_way[request.agent] = parts
            return None
        if type(reply) is Refused:
            self.tallies.refused[reply.code.name.lower()] += 1
            self._complain(reply.code.name.lower(), now_s, text=reply.text)
        elif type(request) is Report:
            self._unsaved_done |= request.done and request.agent not in self._saved_done
        elif type(reply) is Welcome and type(request) is Hello:
            self._greet(request, reply, now_s)
        elif type(request) is Release:
            self._log.warning("seat released by the operator", agent=request.agent)
        return reply

    def _not_its_own(self, request: Request, connection: bytes) -> Refused | None:
        """The refusal of a request in the name of another agent than the one whose key it came with."""
        assert self._keyed is not None  # noqa: S101
        if not isinstance(request, (Hello, Pull, Report)) or request.agent == self._keyed.speaker(connection):
            return None
        return Refused(Refusal.WRONG_TOKEN, f"this key is not that of agent {request.agent}")

    def _is_said_too_often(self, hello: Hello, now_s: float) -> bool:
        if not self.bandit.seating.holds(hello.agent, hello.token) or self._hellos.allows(hello.agent, now_s):
            return False
        self.tallies.refused["hello_too_often"] += 1
        self._complain("hello_too_often", now_s, agent=hello.agent)
        return True

    def _save(self) -> None:
        """Put on disk what must be there before the replies leave."""
        fresh, seated = self.bandit.take_fresh(), self.bandit.seating.take_fresh()
        if self._store is None:
            return
        self._store.record(fresh)
        if seated:
            self._store.record_seats(seated)
        if self._unsaved_done:
            self._write_reports(self._store)

    def _write_reports(self, store: Store) -> None:
        store.write_reports(self.bandit.seats.values())
        self._saved_done = {agent for agent, seat in self.bandit.seats.items() if seat.done}
        self._unsaved_done = False

    def _write_status_if_due(self) -> None:
        now_s = self._now_s()
        if self._changed and now_s >= self._status_due_s:
            self._write_status(now_s)

    def _write_status(self, now_s: float, *, last: bool = False) -> Status:
        if self._router.refused_connections:
            self.tallies.refused["connections"] = self._router.refused_connections
        spent_before_s = time.process_time()  # not the clock: on a busy machine that would mean hardly ever writing
        status = status_of(
            self.bandit,
            self.tallies,
            address=self._router.address,
            pulls_per_s=self._speed.look(self.bandit.pulls, now_s),
            now_s=now_s,
        )
        if self._store is not None:
            self._store.write_status(status)
            reports = (seat.report for seat in self.bandit.seats.values() if seat.report is not None)
            self._store.write_history(status, dropped_in_all(reports), last=last)
            self._write_reports(self._store)
        self._changed = False
        cost_s = time.process_time() - spent_before_s
        self._status_due_s = now_s + max(STATUS_EVERY_S, cost_s / _STATUS_SHARE)
        return status

    def _write_results(self, store: Store) -> None:
        try:
            store.write_results(self.bandit)
        except ValueError as fault:  # pulls.journal still has every pull
            self._log.warning("no pulls.npz, regret.csv and regret.svg", why=str(fault))

    def _complain(self, reason: str, now_s: float, **about: Any) -> None:
        if (times := self._throttle.due(reason, now_s)) is not None:
            self._log.warning("refused", reason=reason, times=times, **about)

    def _greet(self, hello: Hello, welcome: Welcome, now_s: float) -> None:
        if self._throttle.due(f"hello {hello.agent}", now_s) is not None:
            self._log.info("hello", agent=hello.agent, incarnation=welcome.incarnation, next_trial=welcome.next_trial)


def _read(parts: list[bytes]) -> Request:
    """The request that a message holds."""
    if len(parts) != 2:
        raise PeerError(Reason.SHAPE, f"{Reason.SHAPE}, a request has one part")
    request = decode_environment(parts[1])
    if not isinstance(request, (Pull, Hello, Report, Ping, Release)):
        raise PeerError(Reason.TAG, f"{Reason.TAG}, a reply where a request should be")
    return request
