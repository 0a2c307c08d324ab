"""A runtime of somebody else: processes of this machine whose agents give way to all others."""

from __future__ import annotations

import os
from dataclasses import replace

from agentd.run.scenario import Scenario
from agentd.settings import AgentSettings
from deploy.local.children import agent_target
from deploy.local.local_processes import LocalProcesses
from deploy.local.local_runtime import LocalRuntime
from deploy.testbed.runtime import Prepared, Wanted, register_runtime

NICENESS = 7


def nice_agent(settings: AgentSettings) -> int:
    os.nice(NICENESS)
    return agent_target(settings)


class NiceRuntime(LocalRuntime):
    def prepare(self, scenario: Scenario, wanted: Wanted) -> Prepared:
        prepared = super().prepare(scenario, wanted)
        return replace(prepared, processes=lambda: LocalProcesses(prepared.directory.path, agent=nice_agent))


NICE = NiceRuntime("nice")
register_runtime("nice", "nice_runtime:NICE")
