"""Everything observable of one run, in the order in which it came to be; two runs are compared entry by entry.

    published     every part that leaves for neighbours, topic and frame, byte by byte: own messages, relays, greetings,
                  sequence numbers, goodbyes
    environment   what the environment hears, byte by byte: HELLO, PULL (which arm, when), REPORT with all its counters
    disk          every write to the state: where, how long, what; but for the raw sums of open batches, which are the
                  agent's own, and the digests over them. Where a policy does not say which of its rows are raw (those
                  that `saved_batches` makes), all rows of its snapshot count as such
    ledger        what was charged, with the value that left, and what may have been; what is spent in the end
    log           every line that link and keeper write
    counters      what was heard, dropped and redundant
    watched       what others may see over --http and --mqtt
    end           how the run ended

Not here: how long things take.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import zip_longest
from typing import Any

import structlog

from agentd.shell.json_log import Log
from agentd.shell.state.state_file import BLOCK, MAGIC, Layout, Slot, found_in
from agentd.shell.state.storage import Memory
from agentd.wire.codec import decode_environment, decode_frame

Entry = tuple[str, Any]
Note = Callable[[str, Any], None]

SECRET_ROW = "open_sums"  # noqa: S105 - a name, not a password
"""Of a snapshot; the one that holds raw rewards, where there is one of this name."""
_NUMBER_BYTES = 8
_DIGEST_BYTES = 32
_LONG = 4096
"""Longer ones are kept as their digest."""
_LONGEST = 240
"""Characters of an entry that are shown."""


@dataclass(slots=True)
class Observed:
    """The entries of one run."""

    entries: list[Entry] = field(default_factory=list)

    def note(self, what: str, content: Any) -> None:
        self.entries.append((what, content))

    def difference(self, than: Observed) -> str | None:
        """The first entry that is not as in another run, in words; None: all are equal."""
        if self.entries == than.entries:
            return None
        pairs = zip_longest(than.entries, self.entries, fillvalue=("end", "nothing"))
        place, (before, now) = next((place, pair) for place, pair in enumerate(pairs) if pair[0] != pair[1])
        return f"{before[0]} (observable {place + 1}): {_shown(*before)} became {_shown(*now)}"


def _shown(what: str, content: Any) -> str:
    """An entry for a person."""
    text = str(content)
    if what == "published":
        topic, _, data = content.partition(b"/")
        frame = decode_frame(data.partition(b"/")[2] if topic == b"sync" else data)
        messages = [(batch.kind.name, *message) for batch in frame.batches for message in batch.messages()]
        text = f"sequence {frame.sequence}, round {frame.round}, flags {frame.flags}, messages {messages}"
    elif what == "environment":
        text = str(decode_environment(content))
    elif what == "disk" and isinstance(content, tuple):
        part, offset, data = content
        text = f"{part} at byte {offset}, {data.hex()}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"


class SeenStorage(Memory):
    """Where a state lies that outlives its writers; what is written is noted, and a writer may die while it writes."""

    def __init__(self, note: Note, dies: Callable[[], bool], die: Callable[[], None]) -> None:
        super().__init__()
        self._note = note
        self._dies = dies
        self._die = die
        self._layout: Layout | None = None
        self._secret: list[tuple[int, int]] = []

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes somewhere; where this is the writer's last, only half of them."""
        deadly = self._dies()
        if deadly:
            data = data[: len(data) // 2]
        self._note("disk", (self._part(offset), offset, self._seen(offset, data)))
        super().write(offset, data)
        if deadly:
            self._die()

    def sync(self) -> None:
        self._note("disk", "sync")

    def replace(self, data: bytes) -> None:
        if data.startswith(MAGIC):
            self._layout = found_in(data).layout
            self._secret = secret_places(self._layout)
        self._note("disk", ("a new file", 0, self._seen(0, data)))
        super().replace(data)

    def _part(self, offset: int) -> str:
        if self._layout is None or offset < BLOCK:
            return "the header"
        if offset < self._layout.intent:
            return "the state"
        return "the intent" if offset == self._layout.intent else "the ledger"

    def _seen(self, offset: int, data: bytes) -> bytes:
        """What is not secret of some bytes at this place."""
        seen = bytearray(data)
        for first, last in self._secret:
            start, stop = max(first - offset, 0), min(last - offset, len(data))
            if start < stop:
                seen[start:stop] = bytes(stop - start)
        return bytes(seen) if len(seen) <= _LONG else b"%d bytes " % len(seen) + blake2b(seen).digest()


def secret_places(layout: Layout) -> list[tuple[int, int]]:
    """Where raw sums and the digests over them lie in a file of this layout."""
    names = [name for name, _ in layout.policy]
    places = []
    for number in (0, 1):
        start = layout.slot(number)
        place = start + _NUMBER_BYTES * len(Slot._fields)
        for name, width in layout.policy:
            end = place + _NUMBER_BYTES * width
            if name == SECRET_ROW or SECRET_ROW not in names:
                places.append((place, end))
            place = end
        places.append((start + layout.size - _DIGEST_BYTES, start + layout.size))
    return places


def noting_log(note: Note) -> Log:
    """A log whose lines are observables."""

    def noted(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
        note("log", sorted((name, str(value)) for name, value in event.items()))
        return ""

    logger: Log = structlog.wrap_logger(
        structlog.ReturnLogger(),
        processors=[noted],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    return logger
