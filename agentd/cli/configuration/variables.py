"""The AGENTD_… variables that verbs read, known without loading the verbs."""

from __future__ import annotations

import importlib
from dataclasses import fields

import click

from agentd.core.policy.knobs import flag_of
from agentd.settings import AgentSettings, Hosting, Pace, Spending, TestbedSettings

WITH_SETTINGS = {
    "agent": "agentd.cli.agent:agent",
    "compose": "agentd.cli.testbed.compose:compose",
    "env": "agentd.cli.env:env",
    "experiment": "agentd.cli.in_memory.experiment:experiment",
    "manifests kubernetes": "agentd.cli.testbed.manifests:kubernetes",
    "simulate": "agentd.cli.in_memory.simulate:simulate",
    "soak": "agentd.cli.testbed.soak:soak",
    "sweep": "agentd.cli.in_memory.sweep:sweep",
    "up": "agentd.cli.testbed.up:up",
}
"""The commands that take a --config, by what one types."""

_OF_VERBS = """
ADVERSARY AGENT_STORAGE ALGORITHMS ALLOW_CHAOS ARM_TIMEOUT ARM_TIMEOUT_S AS_JSON ATTACKS AXIS BASELINE BASE_PORT BOUNDS
BUG CHURN CLUSTER CLUSTER_TLS_CA CLUSTER_TLS_CERT CLUSTER_TLS_KEY
CONFIG COUPLING DASHBOARD DETACH ENDPOINT ENGINE EVERYTHING EXEC FAULT FAULTS FAULTS_PER_MINUTE FIRST_SEED FIRST_WORLD
FOR_S IMAGE JOBS JSON KEYS_DIR KILL MAX_OUTSTANDING NAME NAMESPACE NETWORK_POLICY OUT PROCESSES PYTHON REPETITIONS
RESTART RESUME RUN RUNS RUNTIME RUN_DIR SAMPLER SCRIPT SEATS SECRETS SEEDS STACK STORAGE STUCK_AFTER SUBNET TOGETHER
TRANSPORT TRIALS UNTIL_DONE USER WORKLOAD WORLDS WORSE_THAN
"""
"""What single verbs read beside the settings; `tests/cli/test_config_command.py` holds it to them."""


def variables_of_verbs() -> list[str]:
    """Every AGENTD_… variable that some verb reads."""
    knobs = [one for settings in (AgentSettings, TestbedSettings, Pace, Hosting, Spending) for one in fields(settings)]
    names = {text for one in knobs for text in (one.name, flag_of(one).removeprefix("--").replace("-", "_"))}
    return sorted(f"AGENTD_{name.upper()}" for name in {*names, *_OF_VERBS.lower().split()})


def command_with_settings(name: str) -> click.Command:
    """One of those commands, loaded."""
    module, _, attribute = WITH_SETTINGS[name].partition(":")
    command: click.Command = getattr(importlib.import_module(module), attribute)
    return command
