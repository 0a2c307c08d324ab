"""agentd: a networked agent daemon for private and byzantine-proof cooperative bandits.

What a program of your own builds on, each loaded when it is first asked for, so that a daemon pays for none of it:

    simulate, run, sweep        a testbed in memory, one of real processes, a grid of settings
    load_run, Run, Table        what came of them, as numpy arrays and rows
    report, Chart               what there is to see of them: one HTML page, and plain charts
    Agent                       one agent inside a program of your own: arms out, rewards in, frames out, frames in
    Policy, Noiseless, Silent, register_policy, PolicySettings, Intent
                                an algorithm of your own
    Body, Cumulative, Field, register_body, UNIT
                                what it tells
    Ledger, Release, Released, release_of, computed, NOTHING
                                how it releases
    AgentdError, SettingsError  what is raised
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_LIBRARY = {
    "simulate": "agentd.api.testbeds",
    "run": "agentd.api.testbeds",
    "sweep": "agentd.api.tables",
    "Table": "agentd.api.tables",
    "load_run": "agentd.api.results",
    "Run": "agentd.api.results",
    "report": "agentd.api.reports",
    "Chart": "agentd.api.reports",
    "Agent": "agentd.api.embedded",
    "Policy": "agentd.api.policies",
    "Noiseless": "agentd.api.policies",
    "Silent": "agentd.api.policies",
    "register_policy": "agentd.api.policies",
    "PolicySettings": "agentd.api.policies",
    "Intent": "agentd.api.policies",
    "Released": "agentd.api.policies",
    "Release": "agentd.api.policies",
    "Body": "agentd.api.policies",
    "Cumulative": "agentd.api.policies",
    "Field": "agentd.api.policies",
    "register_body": "agentd.api.policies",
    "UNIT": "agentd.api.policies",
    "Ledger": "agentd.api.policies",
    "NOTHING": "agentd.api.policies",
    "release_of": "agentd.api.policies",
    "computed": "agentd.api.policies",
    "AgentdError": "agentd.errors",
    "SettingsError": "agentd.errors",
}

__all__ = ["__version__", *_LIBRARY]  # noqa: PLE0604 - names, as __init__.pyi types them


def __getattr__(name: str) -> Any:
    """A name of the library, loaded now."""
    if name not in _LIBRARY:
        raise AttributeError(f"module 'agentd' has no attribute {name!r}")
    value = getattr(import_module(_LIBRARY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LIBRARY})
