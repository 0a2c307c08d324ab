"""The environment of a world: its state machine, its journals on real files, and what befalls it.

Requests and replies are bytes that take time. A death of the process loses what was under way: requests that were not
read, and replies whose pulls are in the journal already. What is on disk is taken up again, a torn record included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agentd.check.scene.fibers import Killed, Timeline
from agentd.check.scene.story import Story
from agentd.environment.pull_journal import NAME as PULLS
from agentd.environment.request_server import RequestServer
from agentd.environment.run_terms import RunTerms
from agentd.environment.shared_bandit import Counted, SharedBandit
from agentd.environment.store import Store
from agentd.errors import AgentdError
from agentd.wire.parcel import decode_parcel, is_parcel

Reply = Callable[[bytes], None]

STATUS_EVERY_S = 1.0
BACK_S = 0.5
"""How soon one that ended by itself is started again."""


class FaultyStore(Store):
    """A run directory whose disk may be full."""

    is_full = False
    counted: Callable[[Sequence[Counted]], None] | None = None

    def record(self, pulls: Sequence[Counted]) -> None:
        if self.is_full and pulls:
            raise AgentdError("no space left")
        if self.counted is not None:
            self.counted(pulls)
        super().record(pulls)


class HostedEnvironment:
    """One environment over all its lives; `ask` brings requests."""

    def __init__(self, terms: RunTerms, place: Path, timeline: Timeline, story: Story) -> None:
        self._terms = terms
        self._place = place
        self._timeline = timeline
        self._story = story
        self.address = "memory://environment"
        self.refused_connections = 0
        self.latency_s = 0.001
        self.counted: Callable[[Sequence[Counted]], None] = lambda _pulls: None
        """Told of each pull that counts."""
        self.judge: Callable[[bytes, bytes], None] = lambda _request, _reply: None
        """Told of each request and its reply."""
        self.is_up = self.is_full = False
        self.paused_until_s = 0.0
        self.dies_at = ""
        """Where in its work it dies next."""
        self.away_s = BACK_S
        """For how long it is away then."""
        self.on_death: Callable[[float, Callable[[], None]], None] = lambda _away_s, _start: None
        self.life = 0
        self._waiting: list[tuple[Reply, bytes]] = []
        self._asked: dict[bytes, tuple[Reply, bytes]] = {}
        self._answers_s = -1.0
        store = Store.open(place)
        store.begin(self._terms)
        store.close()
        self.start()

    def start(self) -> None:
        """A process begins, and takes up what is on disk."""
        self.life += 1
        self._story.tell("environment", "starts")
        self._store = _opened(self._place)
        self._store.counted = self._tell_counted
        self.bandit = SharedBandit(self._terms)
        self._store.take_up(self.bandit)
        if self.bandit.seating.is_used or self.bandit.seats:
            self.bandit.began_s = 0.0
        self.server = RequestServer(
            self.bandit, self, self._store, self._story.log("environment"), lambda: self._timeline.now_s
        )
        self.is_up = True
        self._tell_status(self.life)

    def stop(self, *, torn: bool = False) -> None:
        """It dies without a word."""
        if not self.is_up:
            return
        self._story.tell("environment", "is gone")
        self.is_up, self.dies_at = False, ""
        self._waiting, self._asked = [], {}
        self._store.close()
        if torn:
            with (self._place / PULLS).open("ab") as file:
                file.write(bytes([1, 0, 0]))
        self.on_death(self.away_s, self._come_back)

    def close(self) -> None:
        """The world is over."""
        self.on_death = lambda _away_s, _start: None
        self.stop()

    def ask(self, data: bytes, reply: Reply) -> None:
        """Let a request arrive in a while."""

        def arrive() -> None:
            if self.is_up:
                self._waiting.append((reply, data))
                if self._answers_s < self._timeline.now_s:
                    self._answers_s = max(self._timeline.now_s, self.paused_until_s)
                    self._timeline.at(self._answers_s, self._answer)

        self._timeline.at(self._timeline.now_s + self.latency_s, arrive)

    def _answer(self) -> None:
        if not self.is_up or not self._waiting:
            return
        if self._timeline.now_s < self.paused_until_s:
            self._answers_s = self.paused_until_s
            self._timeline.at(self._answers_s, self._answer)
            return
        self._store.is_full = self.is_full
        if self.dies_at == "before answering":
            self.stop()
            return
        try:
            self.server.answer_waiting()
        except AgentdError:  # its disk is full: it ends before any reply has left, and somebody starts it again
            self.away_s = BACK_S
            self.stop()
        except Killed:
            self.stop(torn=True)

    def _tell_counted(self, pulls: Sequence[Counted]) -> None:
        self.counted(pulls)

    def _come_back(self) -> None:
        if not self.is_up:
            self.start()

    def _tell_status(self, life: int) -> None:
        """As the service does once a second: so reports survive it."""

        def tell() -> None:
            if self.is_up and self.life == life:
                if self.is_full:
                    self._tell_status(life)
                else:
                    self.server._write_reports(self._store)
                    self._tell_status(life)

        self._timeline.at(self._timeline.now_s + STATUS_EVERY_S, tell)

    def waiting(self) -> list[list[bytes]]:
        """What the server reads."""
        taken, self._waiting = self._waiting, []
        self._asked = {b"%d" % number: each for number, each in enumerate(taken)}
        return [[name, data] for name, (_, data) in self._asked.items()]

    def send(self, connection: bytes, data: bytes) -> bool:
        """What the server says; everything that it is to remember is on disk by now."""
        if self.dies_at == "after saving":
            raise Killed
        reply, request = self._asked[connection]
        if is_parcel(request):
            for asked, answered in zip(decode_parcel(request).items, decode_parcel(data).items, strict=True):
                self.judge(asked, answered)
        else:
            self.judge(request, data)
        self._timeline.at(self._timeline.now_s + self.latency_s, lambda: reply(data))
        return True

    async def ready(self, timeout_s: float | None) -> None:
        """Nobody waits here."""


def _opened(place: Path) -> FaultyStore:
    store = FaultyStore.open(place)
    assert isinstance(store, FaultyStore)  # noqa: S101 - that is the class it was asked of
    return store
