"""Ctrl-C while a pool of processes starts: neither lost nor heard by the processes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from agentd.interrupts import signals_noted, start_deaf


class Pool(Executor):
    """Starts a process with its first task, as pools do, while Ctrl-C is pressed."""

    blocked_in_process = 0

    def submit(self, fn: Callable[..., Any], /, *_args: Any, **_keywords: Any) -> Future[Any]:
        signal.raise_signal(signal.SIGINT)
        status = subprocess.run(["cat", "/proc/self/status"], check=True, capture_output=True, text=True).stdout
        self.blocked_in_process = int(status.partition("SigBlk:")[2].split()[0], 16)
        done: Future[Any] = Future()
        done.set_result(fn())
        return done


def test_an_interrupt_while_a_pool_starts_waits_and_its_processes_are_deaf() -> None:
    pool = Pool()
    before = signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with pytest.raises(KeyboardInterrupt):
        start_deaf(pool)
    assert pool.blocked_in_process & 1 << (signal.SIGINT - 1)
    assert (signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, [])) == before


def test_signals_are_noted_until_patience_ends_and_then_are_what_they_were() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with signals_noted() as came:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGINT):
            signal.raise_signal(number)
        assert came == [signal.SIGTERM, signal.SIGINT, signal.SIGINT]
    with signals_noted(1) as came:
        signal.raise_signal(signal.SIGTERM)
        assert came == [signal.SIGTERM]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
