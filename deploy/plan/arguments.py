"""Settings as the words of a command line, for processes that another program starts. Pure.

What equals its default is left out, so that a person reads only what matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from agentd.settings import AgentSettings
from deploy.local.children import EnvironmentPart

_DEFAULTS = {field.name: field.default for field in fields(AgentSettings)}


def agent_arguments(settings: AgentSettings) -> list[str]:
    """The words after `agentd` that run this agent."""
    return ["agent", *(word for name in _DEFAULTS for word in _words(name, getattr(settings, name)))]


def environment_arguments(part: EnvironmentPart, *, listen: str, run_dir: str, seed: int | None) -> list[str]:
    """The words after `agentd` that serve this bandit to agents that begin together.

    Without a seed the environment draws one of its own and keeps it in the run directory: a secret does not belong on
    a command line, which everybody may read.
    """
    words = [
        "env",
        f"--listen={listen}",
        "--insecure",
        f"--arms={','.join(repr(float(mean)) for mean in part.arms['requested'])}",
        f"--reward={part.arms['kind']}",
        f"--agents={part.agents}",
        f"--rounds={part.rounds}",
        f"--run={part.run.hex()}",
        f"--run-dir={run_dir}",
        "--together",
        "--until-done",
    ]
    return [*words, f"--seed={seed}"] if seed is not None else words


def _words(name: str, value: Any) -> Iterator[str]:
    if name == "peers":
        if value:
            yield f"--peers={','.join(f'{peer}={address}' for peer, address in value.items())}"
    elif value is True:
        yield _flag(name)
    elif value is not None and value is not False and value != _DEFAULTS[name]:
        yield f"{_flag(name)}={value}"


def _flag(name: str) -> str:
    """The flag of a field; units are in the names of fields and not in those of flags."""
    return f"--{name.removesuffix('_s').replace('_', '-')}"
