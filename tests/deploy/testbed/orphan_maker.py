"""A supervisor to be killed by a test: starts a testbed of stand-ins and says when it runs."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import standins

from agentd.runs.scenario import make_scenario
from agentd.settings import TestbedSettings
from deploy.local.local_processes import LocalProcesses
from deploy.local.local_runtime import LOCAL
from deploy.testbed.display import Nothing
from deploy.testbed.launch import carry_out
from deploy.testbed.runtime import Wanted

if __name__ == "__main__":
    place, behaviour = Path(sys.argv[1]), sys.argv[2]
    scenario = make_scenario(TestbedSettings(agents=3, edge_probability=1.0, rounds=10))
    prepared = LOCAL.prepare(scenario, Wanted(run_dir=place))
    processes = LocalProcesses(
        prepared.directory.path,
        agent=partial(standins.agent, dict.fromkeys(range(3), behaviour)),
        environment=partial(standins.environment, "serve"),
    )
    result = carry_out(prepared, Nothing(), processes=processes, on_ready=lambda: print("runs", flush=True))
    sys.exit(result.ending.exit_code)
