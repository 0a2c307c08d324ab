"""Real sockets for the tests of the shell: addresses, a peer made by hand, an environment in a thread."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import zmq
from evidence import until

from agentd.core.message import Batch
from agentd.core.rounds import Standing
from agentd.core.terms import Terms
from agentd.runs.arms import Arms, uniforms
from agentd.shell.link import Link
from agentd.wire.codec import decode_environment, decode_frame, encode_environment, encode_frame
from agentd.wire.environment_messages import EnvironmentMessage, Hello, Noted, Ping, Pong, Pull, Report, Reward, Welcome
from agentd.wire.frame import GREETING, Frame
from agentd.wire.topics import FRAME_TOPIC, payload, sync_topic

RUN = bytes.fromhex("00112233445566ff")
LONG_S = 60.0
"""More than anything here takes, even on a busy machine: reaching it is a failure."""

SOON_S = 0.25
"""A round timeout for rounds that are meant to run into it."""

Answer = Callable[[EnvironmentMessage], Iterable[EnvironmentMessage | bytes]]


def free_address() -> str:
    """A TCP address that nobody uses, nor will until these tests are over.

    The port stays bound by a socket that never listens: no other test finds it free, while listeners that reuse
    addresses, as ZeroMQ's do, may have it. It lies below those that testbeds search and the system gives.
    """
    while True:
        port = random.SystemRandom().randrange(10_000, 17_000)
        with socket.socket() as held, suppress(OSError):
            held.bind(("127.0.0.1", port))
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.detach()  # open until this process ends
            return f"tcp://127.0.0.1:{port}"


def events(log_file: Path, name: str | None = None) -> list[dict[str, Any]]:
    """The lines of a log, or those of one event."""
    if not log_file.exists():
        return []
    whole = log_file.read_text(encoding="utf-8").split("\n")[:-1]
    lines = [json.loads(line) for line in whole]
    return [line for line in lines if name in (None, line["event"])]


def rss_mb(process_id: int) -> float:
    """Memory that a process holds."""
    status = Path(f"/proc/{process_id}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


class Voice(ABC):
    """How a neighbour made by hand speaks: exactly as a test tells it to."""

    def __init__(self, own: int, other: int) -> None:
        self.own, self.other = own, other
        self.incarnation = 0
        self.sequence = 0
        self.run = RUN

    @abstractmethod
    def say(self, part: bytes) -> None:
        """Let the other hear it."""

    def greet(self, round_: int = 0, **changes: Any) -> None:
        self.say(sync_topic(self.other) + self.encoded(round_, (), flags=GREETING, **changes))

    def publish(self, round_: int, *batches: Batch, flags: int = 0, **changes: Any) -> None:
        self.sequence += 1
        self.say(FRAME_TOPIC + self.encoded(round_, batches, flags=flags, **changes))

    def encoded(self, round_: int, batches: Iterable[Batch], *, flags: int, **changes: Any) -> bytes:
        fields: dict[str, Any] = {
            "run": self.run,
            "sender": self.own,
            "incarnation": self.incarnation,
            "sequence": self.sequence,
            "round": round_,
            "flags": flags,
            "batches": tuple(batches),
            "arms": 2,
        }
        return encode_frame(Frame(**(fields | changes)))


class Peer(Voice):
    """A neighbour made by hand, from plain sockets."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], own: int, other: int, *, listen: str, hears: str
    ) -> None:
        super().__init__(own, other)
        self._hears = hears
        self.subscriptions: list[bytes] = []
        self.xpub = context.socket(zmq.XPUB)
        self.xpub.setsockopt(zmq.XPUB_VERBOSE, 1)
        self.xpub.setsockopt(zmq.XPUB_NODROP, 1)  # the test must know what it has sent
        self.xpub.setsockopt(zmq.LINGER, 0)
        until(lambda: self._bound(listen))
        self.sub = self._subscribed()

    def _bound(self, listen: str) -> bool:
        """Whether the address could be taken; a socket closed just now may hold it a moment longer."""
        with suppress(zmq.ZMQError):
            self.xpub.bind(listen)
            return True
        return False

    def _subscribed(self) -> zmq.Socket[bytes]:
        sub: zmq.Socket[bytes] = self.xpub.context.socket(zmq.SUB)
        sub.setsockopt(zmq.LINGER, 0)
        sub.subscribe(FRAME_TOPIC)
        sub.subscribe(sync_topic(self.own))
        sub.connect(self._hears)
        return sub

    def listen_anew(self) -> None:
        """Subscribe with another socket, as after a restart."""
        self.sub.close()
        self.sub = self._subscribed()

    def join(self) -> None:
        """Wait until the other hears us, and greet it."""
        self.await_subscription()
        self.greet()

    def await_subscription(self, times: int = 1) -> None:
        """Wait until the other's sync topic was seen so often."""
        wanted = b"\x01" + sync_topic(self.other)
        until(lambda: self.look_at_subscriptions().count(wanted) >= times)

    def look_at_subscriptions(self) -> list[bytes]:
        with suppress(zmq.Again):
            while True:
                self.subscriptions.append(self.xpub.recv(zmq.NOBLOCK))
        return self.subscriptions

    def say(self, part: bytes) -> None:
        self.xpub.send(part)

    def hear(self, within_s: float = LONG_S) -> Frame:
        """The next frame of the other."""
        assert self.sub.poll(int(within_s * 1000)), "the other says nothing"
        return decode_frame(payload(self.sub.recv(), sync_topic(self.own)))

    def hear_round(self, round_: int) -> Frame:
        """The other's frame of a round; what came before it is passed over."""
        while True:
            frame = self.hear()
            if frame.round == round_ and not frame.greeting:
                return frame

    def close(self) -> None:
        self.xpub.close()
        self.sub.close()


def said(batches: list[Batch]) -> list[tuple[int, int]]:
    """Who said something, and of which trial."""
    return sorted((message.origin, message.trial) for batch in batches for message in batch.messages())


def arrived(link: Link, *peers: Peer) -> None:
    """Wait until something that each peer said lies in the link's socket, so that no short limit has to hold for it."""
    for peer in peers:
        until(lambda peer=peer: link._lines[peer.own].is_readable())


def hears_us(link: Link, peer: int) -> bool:
    """Whether the peer's subscription was seen."""
    return link.rounds[peer].standing in (Standing.LISTENING, Standing.LIVE)


def joined(link: Link, *peers: Peer) -> None:
    """Let peers join and wait until both directions are open; all that is left to the barrier is to look."""
    for peer in peers:
        peer.join()
        until(lambda peer=peer: link.greet_subscribers() or hears_us(link, peer.own))
    arrived(link, *peers)


def about_to_greet(link: Link) -> None:
    """Wait until a subscriber's sync topic, the one that is answered, is the next thing that the link will look at."""
    until(lambda: link._transport.event() == b"\x01" + FRAME_TOPIC)
    until(lambda: link._transport._publisher.poll(0))


async def ready(link: Link, *peers: Peer) -> None:
    for peer in peers:
        peer.join()
    await link.wait_until_ready(LONG_S, asyncio.Event(), some_needed=True)


class StandIn:
    """An environment in a thread: the answers of the protocol, or those that a test makes up."""

    def __init__(
        self, address: str, answer: Answer | None = None, *, arms: Arms | None = None, horizon: int = 0
    ) -> None:
        self.address = address
        self.arms = arms or Arms.fixed((0.9, 0.1), "bernoulli")
        self.horizon = horizon
        self.run = RUN
        self.seed = 7
        self.requests: list[EnvironmentMessage] = []
        self.pulls: dict[int, dict[int, int]] = {}
        """The arm of each trial, by agent."""
        self.reports: dict[int, Report] = {}
        self._answer = answer or self.honest
        self._stop = threading.Event()
        self._bound = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def honest(self, request: EnvironmentMessage) -> list[EnvironmentMessage | bytes]:
        """What the protocol asks for."""
        match request:
            case Hello(agent=agent, incarnation=stated):
                counted = len(self.pulls.setdefault(agent, {}))
                terms = Terms(self.arms.count, None, run=self.run, horizon=self.horizon)
                incarnation = counted if stated is None else stated
                return [Welcome(terms, self.arms.low, self.arms.high, counted + 1, incarnation, 0)]
            case Pull(agent=agent, trial=trial, arm=arm):
                self.pulls.setdefault(agent, {})[trial] = arm
                return [Reward(trial, arm, self.reward(agent, trial, arm))]
            case Report(agent=agent, trial=trial):
                self.reports[agent] = request
                return [Noted(trial, 0)]
            case Ping():
                return [Pong()]
        raise AssertionError(f"not a request: {request}")

    def reward(self, agent: int, trial: int, arm: int) -> int:
        return self.arms.deal_one(arm, float(uniforms(self.seed, agent, trial, 1)[0]))

    def _serve(self) -> None:
        with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
            router.setsockopt(zmq.LINGER, 0)
            router.bind(self.address)
            self._bound.set()
            while not self._stop.is_set():
                if router.poll(20):
                    self._reply(router, *router.recv_multipart())

    def _reply(self, router: zmq.Socket[bytes], connection: bytes, data: bytes) -> None:
        request = decode_environment(data)
        self.requests.append(request)
        for reply in self._answer(request):
            router.send_multipart((connection, reply if isinstance(reply, bytes) else encode_environment(reply)))

    def __enter__(self) -> StandIn:
        self._thread.start()
        assert self._bound.wait(LONG_S), f"the stand-in cannot listen on {self.address}"
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(LONG_S)
