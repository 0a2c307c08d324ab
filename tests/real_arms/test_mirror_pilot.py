"""The pilot: three devices find the fastest of several mirrors, one of them cut off for a while; then it slows down."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from statistics import median

import pytest
from evidence import until
from loopback import events
from mirrors import MirrorWorld, block
from skips import no_namespaces

from agentd.terms_file import read_terms_file

INTERVAL_S = 0.2
LIMIT_S = 0.18
LATENCIES_S = [0.01, 0.07, 0.13]
SLOW_S = 0.17
CUT_S = 30.0
HALF_LIFE = 60
WITHIN_PULLS = 300
"""Of each agent, until the next best mirror is the favoured one."""
LATELY = 50


def favoured(pulls: list[int]) -> int | None:
    """What was pulled more often than all else together of late."""
    lately = pulls[-LATELY:]
    top = max(set(lately), key=lately.count, default=0)
    return top if len(lately) == LATELY and 2 * lately.count(top) > LATELY else None


@pytest.mark.long
@pytest.mark.system
@pytest.mark.timeout(600)
def test_three_devices_find_the_fastest_mirror_and_then_the_next(tmp_path: Path) -> None:
    if no_namespaces():
        pytest.skip("making network namespaces needs root")
    devices = range(3)
    with MirrorWorld(tmp_path, LATENCIES_S) as world:
        mirrors = [f"http://10.77.2.100:8000/{number}" for number in range(len(LATENCIES_S))]
        for name in ("fastest_mirror.py", "mirror_endpoint.py"):
            (tmp_path / name).write_text(block(name), encoding="utf-8")
        endpoint = [sys.executable, "mirror_endpoint.py", "8080", str(LIMIT_S), *mirrors]
        world.run("endpoint", endpoint, within=world.name(2))
        agentd = [sys.executable, "-m", "agentd"]
        agreed = ["--agents", "3", "--arms", "3", "--gamma", "2", "--algorithm", "sealed", "--epsilon", "1"]
        clock = ["--clock", "free", "--interval", str(INTERVAL_S), "--out", "terms.json"]
        subprocess.run([*agentd, "terms", "make", *agreed, *clock], cwd=tmp_path, check=True, capture_output=True)
        capture = world.capture(0)
        command = f"exec:{sys.executable} -S fastest_mirror.py {LIMIT_S} {' '.join(mirrors)}"
        for own in devices:
            peers = ",".join(f"{peer}=tcp://10.77.1.{peer + 1}:7000" for peer in devices if peer != own)
            arms = "http://127.0.0.1:8080/" if own == 2 else command
            where = ["--id", str(own), "--listen", f"tcp://10.77.1.{own + 1}:7000", "--insecure", "--peers", peers]
            kept = ["--terms", "terms.json", "--state", f"state-{own}", "--log-file", f"log-{own}.jsonl"]
            words = [*agentd, *where, *kept, "--environment", arms, "--half-life", str(HALF_LIFE)]
            world.run(f"agent-{own}", words, within=world.name(own))
        until(lambda: all(len(world.asked(own)) > 10 for own in devices))
        world.cut(1, off=True)
        threading.Event().wait(CUT_S)  # the length of the outage is what is tested
        alone = len(world.asked(1))
        world.cut(1, off=False)
        assert alone > 0.5 * CUT_S / INTERVAL_S, "an agent that is cut off goes on"
        until(lambda: all(favoured(world.asked(own)) == 0 for own in devices))

        before = {own: len(world.asked(own)) for own in devices}
        fast_until = len(capture.read_text(encoding="ascii").splitlines())
        world.slow_down(0, SLOW_S)
        took: dict[int, int] = {}

        def all_have_turned() -> bool:
            for own in set(devices) - set(took):
                if favoured(world.asked(own)) == 1:
                    took[own] = len(world.asked(own)) - before[own]
            return (
                len(took) == len(devices) or min(len(world.asked(own)) - before[own] for own in devices) > WITHIN_PULLS
            )

        until(all_have_turned)
        print("pulls until the next best was favoured:", took)
        assert len(took) == len(devices)
        assert max(took.values()) <= WITHIN_PULLS

        start_s = read_terms_file(tmp_path / "terms.json").start_ms / 1000
        times = [float(line.split()[0]) - start_s for line in capture.read_text(encoding="ascii").splitlines()]
        offsets = [time_s % INTERVAL_S for time_s in times]
        fast, slow = offsets[:fast_until], offsets[fast_until:]
        print("after a tick, median:", median(fast), median(slow), "frames:", len(fast), len(slow))
        assert abs(median(fast) - median(slow)) < INTERVAL_S / 10
        assert sum(offset < INTERVAL_S / 3 for offset in offsets) > 0.9 * len(offsets)
    for own in devices:
        (done,) = events(tmp_path / f"log-{own}.jsonl", "done")
        assert done["heard"] > 0
        assert {"favoured", "share", "released_mean"} <= set(done)
