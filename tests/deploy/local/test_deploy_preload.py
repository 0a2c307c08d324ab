"""What agents need is loaded before they are forked: whatever is loaded later, every agent holds a copy of."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from agentd.core.policy import ALGORITHMS

SCRIPT = """
import json, secrets, sys
from deploy.local.local_processes import PRELOADED

for name in PRELOADED:
    __import__(name)
before = set(sys.modules)

from agentd.core.terms import Terms
from agentd.core.agent import Agent
from agentd.core.policy import make_policy
from agentd.core.policy import PolicySettings
from agentd.core.privacy.laplace import ExactLaplace, SeededLaplace
from agentd.wire.codec import decode_frames, encode_frame
from agentd.wire.frame import Frame, together

noises = [ExactLaplace(secrets.token_bytes), SeededLaplace(1, 1), SeededLaplace(1, 2)]
agents = [
    Agent(own, make_policy(sys.argv[1], PolicySettings(arms=3), own), terms=Terms(3, 2), noise=noise)
    for own, noise in enumerate(noises)
]
for round_ in range(1, 13):
    frames = []
    for agent in agents:
        agent.choose()
        turn = agent.advance(1 << 19)
        turn.committed()
        frames.append(encode_frame(Frame(bytes(8), agent.own, 0, round_, round_, 0, tuple(turn.outbox()), 3)))
    for agent in agents:
        agent.receive(together(decode_frames(frames, arms=3)))
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_agent_of_a_testbed_loads_nothing_after_the_fork(algorithm: str) -> None:
    """numpy.ma and numpy.random, loaded late, once made every agent five megabytes larger."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, algorithm], capture_output=True, text=True, check=True, timeout=200
    )
    assert json.loads(done.stdout) == []
