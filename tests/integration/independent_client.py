"""A neighbour of agent 1, written from PROTOCOL.md alone: agent 2, whose best arm pays in every one of its pulls.

Usage: independent_client.py LISTEN ADDRESS_OF_AGENT_1 BEST_ARM ARMS
"""

import struct
import sys

import msgpack
import zmq

TOTALS, UNIT, GOODBYE, GREETING = 2, 1 << 20, 1, 2
listen, address, best, arms = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
context = zmq.Context()
out, heard = context.socket(zmq.XPUB), context.socket(zmq.SUB)
out.setsockopt(zmq.XPUB_VERBOSE, 1)
out.bind(listen)
heard.subscribe(b"frame/")
heard.subscribe(b"sync/2/")
heard.connect(address)


def frame(sequence: int, round_: int, flags: int, batches: list) -> bytes:
    return msgpack.packb([1, run, 2, 0, sequence, round_, flags, batches])


def batch(trial: int) -> list:
    head = struct.pack("<HQIHH", 2, 0, trial, 1, 1)  # origin, incarnation, trial, lifetime, remaining life
    body = b"".join(struct.pack("<Iq", *((trial, trial * UNIT) if arm == best else (0, 0))) for arm in range(arms))
    return [TOTALS, arms, 1, head, body, b""]


run = msgpack.unpackb(heard.recv().removeprefix(b"sync/2/"))[1]  # agent 1 greets us: it hears us
while out.recv() != b"\x01sync/1/":
    pass
out.send(b"sync/1/" + frame(0, 0, GREETING, []))  # and we hear it
flags = 0
while not flags & GOODBYE:
    *_, round_, flags, _batches = msgpack.unpackb(heard.recv().removeprefix(b"frame/"))
    out.send(b"frame/" + frame(round_, round_, 0, [batch(round_)]))
