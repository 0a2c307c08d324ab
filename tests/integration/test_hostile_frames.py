"""A live agent with a malicious neighbour: it drops, counts by reason, stays small, and finishes its rounds.

AGENTD_HOSTILE_FRAMES sets how many frames it has to stand; the acceptance figure for decoder and agent is a million.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from hostile_neighbour import HostileNeighbour
from loopback import Peer, events, free_address, rss_mb
from loopback_fixtures import Context

from agentd.wire.environment_messages import MAX_COUNT
from agentd.wire.frame import MAX_ROUND, Reason
from agentd.wire.topics import FRAME_TOPIC

FRAMES = int(os.environ.get("AGENTD_HOSTILE_FRAMES", "30000"))
PER_ROUND = 100
GROWTH_MB = 20.0


@pytest.mark.system
@pytest.mark.timeout(3600)
def test_a_live_agent_stands_every_frame_that_a_malicious_neighbour_sends(context: Context, log_file: Path) -> None:
    rounds = FRAMES // PER_ROUND + 2
    own, other = free_address(), free_address()
    with EnvironmentProcess("--arms", "0.9,0.1", "--rounds", str(rounds), "--seed", "7") as environment:
        flags = {"algorithm": "coop-ucb", "log_file": log_file, "round_timeout": 60}
        with Process(*agent_arguments(1, own, environment.address, {2: other}, **flags)) as agent:
            peer = Peer(context, 2, 1, listen=other, hears=own)
            peer.run = environment.run
            hostile = HostileNeighbour(environment.run, seed=20261116)
            peer.join()
            peer.hear_round(1)
            peer.say(FRAME_TOPIC + hostile.large_bomb())  # reading 4 MiB costs room for them once, whoever sends them
            peer.publish(1)
            peer.hear_round(2)
            before = rss_mb(agent.id)
            for round_ in range(2, rounds):
                for data in hostile.parts(round_, PER_ROUND):
                    peer.say(FRAME_TOPIC + data)
                if round_ % 50 == 0:
                    peer.say(FRAME_TOPIC + hostile.large_bomb())
                peer.publish(round_)
                peer.hear_round(round_ + 1)
                if round_ == rounds - 2:
                    growth = rss_mb(agent.id) - before
            assert agent.wait() == 0, agent.errors
            peer.close()
        summary = environment.end()
    (done,) = events(log_file, "done")
    assert done["trial"] == rounds
    counted = {reason: done["dropped"].get(reason, 0) for reason in hostile.dropped}
    assert counted == dict(hostile.dropped)
    assert set(hostile.dropped) == {*Reason, "run", "sender"} - {Reason.TOPIC}  # nobody subscribed other topics
    assert set(done["dropped"]) >= {"lost-frames", "future", "body"}  # sound frames that say what cannot be
    assert hostile.accepted > FRAMES // 10
    assert growth < GROWTH_MB
    assert not events(log_file, "neighbour down")
    assert summary["dropped"] == {reason: min(count, MAX_COUNT) for reason, count in done["dropped"].items()}


@pytest.mark.system
def test_a_neighbour_that_claims_to_be_at_the_end_already_is_not_believed(context: Context, log_file: Path) -> None:
    """Its claim is dropped; and as it says nothing else, it costs one timeout and is down."""
    own, other = free_address(), free_address()
    with EnvironmentProcess("--arms", "0.9,0.1", "--rounds", "300") as environment:
        flags = {"algorithm": "coop-ucb", "log_file": log_file, "round_timeout": 1}
        with Process(*agent_arguments(1, own, environment.address, {2: other}, **flags)) as agent:
            peer = Peer(context, 2, 1, listen=other, hears=own)
            peer.run = environment.run
            peer.join()
            peer.hear_round(1)
            peer.publish(MAX_ROUND)
            assert agent.wait() == 0, agent.errors
            peer.close()
        assert environment.end()["pulls"] == 300
    (done,) = events(log_file, "done")
    assert done["dropped"]["ahead"] == 1
