"""A runtime of somebody else: processes of this machine whose agents give way to all others."""

from __future__ import annotations

import os

from agentd.settings import AgentSettings
from deploy.local.children import agent_target
from deploy.local.local_runtime import LocalRuntime
from deploy.testbed.runtime import register_runtime

NICENESS = 7


def nice_agent(settings: AgentSettings) -> int:
    os.nice(NICENESS)
    return agent_target(settings)


NICE = LocalRuntime("nice", agent=nice_agent)
register_runtime("nice", "nice_runtime:NICE")
