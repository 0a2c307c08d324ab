"""Measure what a reader of the page costs a testbed: `tests/dashboard/measure_reader.py [--browser] [--pairs N]`.

One run all along, and windows of it by turns: nobody reads, somebody does. A reader is a plain client of the event
stream, or Chromium with the page open. Rounds are counted afterwards, from what agent 0 has logged, so that counting
costs the run nothing. Prints the rounds per second of every pair, and then the mean of their ratios.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent), str(Path(__file__).parents[1])]

from evidence import until  # noqa: E402 - found only now

from agentd.bench.measured_testbed import milestones, processes_of  # noqa: E402

AGENTD = (sys.executable, "-m", "agentd")
STREAM = "/api/runs/0/stream"
_BYTES = "performance.getEntriesByType('resource').reduce((sum, one) => sum + one.transferSize, 0)"
"""What the page has fetched, but for the stream, which has no end that would count it."""
SETTLE_S = 3.0
"""After a reader came or went: its first look is larger than all others, and a browser builds its page."""
WARM_UP = 300
"""Trials before the first window."""


@dataclass
class Heard:
    """What a reader got to hear in all its windows."""

    bytes: int = 0
    events: int = 0


Reading = Callable[[Heard], AbstractContextManager[None]]


def main() -> None:
    asked = _arguments()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reader-")))
        os.environ["XDG_STATE_HOME"] = str(home / "state")
        run = stack.enter_context(_testbed(home / "run", asked))
        page, port = stack.enter_context(_page(run))
        reading = stack.enter_context(_browser(port)) if asked.browser else _client(port)
        until(lambda: max(milestones(run), default=0) >= WARM_UP)
        heard, used = Heard(), [0.0, 0.0]
        windows = [_window(asked, page, reading, heard, used, read=read) for read in _turns(asked.pairs)]
        until(lambda: max(milestones(run).values()) > windows[-1][1])
        reached = milestones(run)
        _require_alive(run)
    rates = [rounds_per_s(reached, *window) for window in windows]
    pairs = [
        (rates[at], rates[at + 1]) if at % 4 == 0 else (rates[at + 1], rates[at]) for at in range(0, len(rates), 2)
    ]
    for without, with_reader in pairs:
        print(f"without {without:7.1f}  with {with_reader:7.1f} rounds/s  ratio {with_reader / without:.3f}")
    share = [seconds / (asked.pairs * asked.window) for seconds in used]
    print(json.dumps(summary(pairs) | _about(asked, heard, share)))


def _about(asked: argparse.Namespace, heard: Heard, share: Sequence[float]) -> dict[str, object]:
    return {
        "reader": "chromium" if asked.browser else "plain client",
        "agents": asked.agents,
        "window_s": asked.window,
        "bytes_read": heard.bytes,
        "events_read": heard.events,
        "page_cores_without": round(share[0], 4),
        "page_cores_with": round(share[1], 4),
    }


def summary(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    """The mean ratio of pairs (without, with), and its standard error."""
    ratios = [with_reader / without for without, with_reader in pairs]
    error = stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.nan
    return {
        "pairs": len(ratios),
        "ratio": round(fmean(ratios), 4),
        "standard_error": round(error, 4),
        "rounds_per_s_without": round(fmean(without for without, _ in pairs), 1),
        "rounds_per_s_with": round(fmean(with_reader for _, with_reader in pairs), 1),
    }


def rounds_per_s(reached: dict[int, float], begin_s: float, end_s: float) -> float:
    """How fast trials went by between two moments, from when each of some trials was reached."""
    return (trial_at(reached, end_s) - trial_at(reached, begin_s)) / (end_s - begin_s)


def trial_at(reached: dict[int, float], moment_s: float) -> float:
    """The trial of a moment, straight between the two that are known around it."""
    known = sorted(reached.items())
    after = bisect_right(known, moment_s, key=lambda one: one[1])
    if not 0 < after < len(known):
        raise ValueError(f"nothing is known around {moment_s}")
    (low, low_s), (high, high_s) = known[after - 1 : after + 1]
    return low + (high - low) * (moment_s - low_s) / (high_s - low_s)


def _turns(pairs: int) -> Iterator[bool]:
    """Without and with, then with and without: what changes slowly hits both alike."""
    for pair in range(pairs):
        yield from (True, False) if pair % 2 else (False, True)


def _window(
    asked: argparse.Namespace, page: int, reading: Reading, heard: Heard, used: list[float], *, read: bool
) -> tuple[float, float]:
    """Its beginning and its end; whoever is to read has read in it."""
    before = heard.events
    with reading(heard) if read else nullcontext():
        threading.Event().wait(SETTLE_S)
        spent_s, begin_s = _processor_time_s(page), time.time()
        threading.Event().wait(asked.window)
        end_s = time.time()
        used[read] += _processor_time_s(page) - spent_s
    if read and (heard.events <= before or not heard.bytes):
        raise AssertionError("the reader has read nothing")
    return begin_s, end_s


def _client(port: int) -> Reading:
    @contextmanager
    def reading(heard: Heard) -> Iterator[None]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", STREAM)
        reply = connection.getresponse()
        assert reply.status == 200, reply.status

        def read() -> None:
            with suppress(http.client.IncompleteRead):  # cut off by ourselves, in the midst of an answer without end
                while chunk := reply.read1(1 << 16):
                    heard.bytes += len(chunk)
                    heard.events += chunk.count(b"event: look")

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            connection.sock.shutdown(socket.SHUT_RDWR)  # wakes the thread, which reads the end
            thread.join()
            connection.close()

    return reading


@contextmanager
def _browser(port: int) -> Iterator[Reading]:
    """One browser for all windows; where nobody reads it is open, without a page."""
    from browsers import chromium, visit

    with chromium() as browser:

        @contextmanager
        def reading(heard: Heard) -> Iterator[None]:
            with visit(browser, f"http://127.0.0.1:{port}/") as seen:
                figures = seen.page.locator("#tiles")
                first = figures.inner_text()
                yield
                heard.events += figures.inner_text() != first
                heard.bytes += int(seen.page.evaluate(_BYTES))

        yield reading


@contextmanager
def _testbed(run: Path, asked: argparse.Namespace) -> Iterator[Path]:
    flags = ["--agents", str(asked.agents), "--edge-probability", str(asked.edges), "--rounds", str(asked.rounds)]
    subprocess.run([*AGENTD, "up", *flags, "--run-dir", str(run), "--detach"], check=True, stdout=subprocess.DEVNULL)
    try:
        yield run
    finally:
        subprocess.run([*AGENTD, "down", str(run)], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def _page(run: Path) -> Iterator[tuple[int, int]]:
    """The page's process and its port; it is there all along, and looks only while somebody reads."""
    words = [*AGENTD, "dashboard", str(run), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as page:
        try:
            assert page.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", page.stdout.readline())
            assert found is not None
            yield page.pid, int(found[1])
        finally:
            page.send_signal(signal.SIGTERM)


def _processor_time_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _require_alive(run: Path) -> None:
    """The last window must not have seen the end of the run."""
    gone = [name for name, process in processes_of(run).items() if not Path(f"/proc/{process}").exists()]
    if gone:
        raise AssertionError(f"the run was over before the windows were: ask for more --rounds ({', '.join(gone)})")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--browser", action="store_true", help="Chromium with the page open, not a plain client")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--window", type=float, default=10.0, help="seconds of a window  [default: 10]")
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--edges", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=200_000, help="more than all windows take  [default: 200000]")
    return parser.parse_args()


if __name__ == "__main__":
    main()
