"""How many pulls per second the environment service answers."""

from __future__ import annotations

import multiprocessing
import signal
import time
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import zmq

from agentd import fork_server, listeners
from agentd.bench.bare import Place
from agentd.core.message import TOKEN_BYTES
from agentd.runs.arms import Arms
from agentd.wire.codec import decode_environment, encode_environment
from agentd.wire.environment_messages import Hello, Pull, Refused

CLIENTS = 50
PULLS_EACH = 400
TOKEN = bytes(TOKEN_BYTES)
_PATIENCE_MS = 10_000


def bench_environment(place: Place, repetitions: int = 3) -> dict[str, Any]:
    """Pulls per second with many clients asking in turn, each waiting for its answer before it asks again."""
    fork_server.end_at_exit()
    rates = [_rate(place) for _ in range(repetitions)]
    return {"clients": CLIENTS, "pulls_per_s": median(rates), "least": min(rates), "most": max(rates)}


def _rate(place: Place) -> float:
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    service = context.Process(target=_serve, args=(place, theirs), daemon=True)
    service.start()
    try:
        return _ask_all(ours.recv())
    finally:
        if service.pid is not None:
            service.terminate()
        service.join(10)


def _serve(place: Place, ready: Connection) -> None:
    from agentd.environment.service import EnvironmentSettings, run_environment

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A fork server that a testbed has started in this program before is deaf to it, and so are its children.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    listeners.hand_over(*place)
    settings = EnvironmentSettings(
        listen=place[0],
        arms=Arms.fixed([0.9, 0.5, 0.1]),
        agents=CLIENTS,
        rounds=PULLS_EACH,
        seed=1,
        log_file="/dev/null",
    )
    run_environment(settings, on_ready=ready.send)


def _ask_all(address: str) -> float:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    clients = [context.socket(zmq.DEALER) for _ in range(CLIENTS)]
    try:
        for agent, client in enumerate(clients):
            client.setsockopt(zmq.LINGER, 0)
            client.setsockopt(zmq.RCVTIMEO, _PATIENCE_MS)
            client.connect(address)
            _ask(client, encode_environment(Hello(agent, TOKEN, None)))
        started = time.perf_counter()
        for trial in range(1, PULLS_EACH + 1):
            for agent, client in enumerate(clients):
                client.send(encode_environment(Pull(agent, TOKEN, trial, trial % 3, trial - 1)))
            for client in clients:
                client.recv()
        return CLIENTS * PULLS_EACH / (time.perf_counter() - started)
    finally:
        for client in clients:
            client.close()
        context.term()


def _ask(client: zmq.Socket[bytes], request: bytes) -> None:
    client.send(request)
    reply = decode_environment(client.recv())
    if isinstance(reply, Refused):
        raise RuntimeError(reply.text)
