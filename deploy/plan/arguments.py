"""Settings as the words of a command line, for processes that another program starts. Pure.

What equals its default is left out, so that a person reads only what matters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field
from typing import Any

from agentd.core.policy.knobs import flag_of
from agentd.settings import AgentSettings, as_typed, ordered
from deploy.plan.environment import EnvironmentPlan


def agent_arguments(settings: AgentSettings) -> list[str]:
    """The words after `agentd` that run this agent."""
    return ["agent", *(word for one in ordered(AgentSettings) for word in _words(one, getattr(settings, one.name)))]


def environment_arguments(
    environment: EnvironmentPlan, *, admit: Sequence[str], listen: str, run_dir: str, seed: int | None
) -> list[str]:
    """The words after `agentd` that serve this bandit to agents that begin together.

    Without a seed the environment draws one of its own and keeps it in the run directory: a secret does not belong on
    a command line, which everybody may read. It draws the run's id, too, where nobody has.
    """
    words = [
        "env",
        f"--listen={listen}",
        f"--admit={','.join(admit)}",
        *keying_words(environment.keying),
        f"--arms={','.join(repr(float(mean)) for mean in environment.arms['requested'])}",
        f"--reward={environment.arms['kind']}",
        f"--agents={environment.agents}",
        f"--rounds={environment.rounds}",
        f"--terms={json.dumps(environment.terms, separators=(',', ':'))}",
        f"--run-dir={run_dir}",
        "--together",
        "--until-done",
    ]
    if environment.seats is not None:
        words.append(f"--seats={environment.seats}")
    if any(environment.run):
        words.append(f"--run={environment.run.hex()}")
    return [*words, f"--seed={seed}"] if seed is not None else words


def keying_words(keying: Mapping[str, str | None]) -> list[str]:
    """What an environment is told of its keys; without any it has to be told that links are not encrypted."""
    if not keying:
        return ["--insecure"]
    return [f"--{name.replace('_', '-')}={value}" for name, value in keying.items()]


def _words(one: Field[Any], value: Any) -> Iterator[str]:
    if value is True:
        yield flag_of(one)
    elif value is not None and value is not False and value not in ({}, one.default):
        yield f"{flag_of(one)}={as_typed(value)}"
