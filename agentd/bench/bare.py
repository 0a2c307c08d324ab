"""The yardstick of lockstep: the same processes, graph, sockets and bytes, and nothing else.

A round of the bare loop sends one frame of the same length to the same neighbours and receives theirs, blocking, socket
by socket. No codec, no algorithm, no environment: what remains is what the kernel, ZeroMQ and Python's call overhead
cost, which no implementation on this stack can undercut by much.
"""

from __future__ import annotations

import socket as system
import time
from collections.abc import Sequence
from multiprocessing.context import ForkServerContext
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

import zmq

from agentd import listeners
from agentd.runs.spec import Network
from agentd.shell.doors.door import Door
from agentd.shell.sockets import publisher, subscriber
from agentd.wire.topics import FRAME_TOPIC, read_subscription

READY_S = 120.0

Place = tuple[str, system.socket]
"""An address, and a socket that listens there, to be handed to whoever is measured."""


def bare_rounds_per_second(
    context: ForkServerContext, network: Network, places: Sequence[Place], frame_bytes: list[int], rounds: int
) -> float:
    """Rounds per second of the bare loop, as its first process saw them."""
    addresses = [address for address, _ in places]
    results: Queue[float] = context.Queue()
    start = context.Barrier(network.agents)
    processes = [
        context.Process(
            target=_bare,
            args=(own, network.neighbours[own], places[own][1], addresses, frame_bytes[own], rounds, start, results),
            daemon=True,
        )
        for own in range(network.agents)
    ]
    try:
        for process in processes:
            process.start()
        seconds = results.get(timeout=READY_S + 5.0 * rounds)
        for process in processes:
            process.join(30)
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
    return rounds / seconds


def _bare(  # noqa: PLR0917
    own: int,
    neighbours: tuple[int, ...],
    listener: system.socket,
    addresses: list[str],
    frame_bytes: int,
    rounds: int,
    start: Barrier,
    results: Queue[float],
) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    listeners.hand_over(addresses[own], listener)
    out = publisher(context, Door(addresses[own]))
    heard = [subscriber(context, own, addresses[peer]) for peer in neighbours]
    for socket in heard:
        socket.setsockopt(zmq.RCVTIMEO, int(READY_S * 1000))
    _wait_for_subscribers(out, len(neighbours))
    start.wait(READY_S)
    frame = FRAME_TOPIC + bytes(frame_bytes)
    began = time.perf_counter()
    for _ in range(rounds):
        out.send(frame)
        for socket in heard:
            socket.recv()
    if own == 0:
        results.put(time.perf_counter() - began)
    start.wait(READY_S)  # nobody leaves while another still waits for a frame
    for socket in [out, *heard]:
        socket.close(linger=0)
    context.term()


def _wait_for_subscribers(out: zmq.Socket[bytes], number: int) -> None:
    subscribed: set[int] = set()
    while len(subscribed) < number:
        subscription = read_subscription(out.recv())
        if subscription is not None and subscription.joined:
            subscribed.add(subscription.subscriber)
