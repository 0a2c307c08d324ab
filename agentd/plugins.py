"""Policies, bodies and runtimes of somebody else, loaded at the start of every process that needs to know them.

AGENTD_PLUGINS=module[,module] names modules that are importable here (PYTHONPATH says where else to look). Importing
one is to register what it brings:

    from agentd.core.bodies import Field, Kind, register
    from agentd.core.policy import Algorithm, register_policy
    from deploy.testbed.runtime import register_runtime

`agentd` imports them before it looks at a verb, and so does every agent that a testbed of this machine forks. They do
not travel: an agent in a container or on another machine needs them installed, and the variable set, there.

Who sets the environment of a process decides what code it runs, by PYTHONPATH alone, with or without this; so it is
read from there, and never from a flag, a file of settings or the wire. A variable and not installed entry points: to
look for those reads the metadata of every installed package, in every agent that starts.
"""

from __future__ import annotations

import importlib
import os

from agentd.errors import ConfigurationError

VARIABLE = "AGENTD_PLUGINS"


def load() -> None:
    """Import the modules that the environment names; once each, however often it is called."""
    for name in os.environ.get(VARIABLE, "").split(","):
        if not name.strip():
            continue
        try:
            importlib.import_module(name.strip())
        except Exception as fault:
            raise ConfigurationError(
                f"cannot load {name.strip()}, which {VARIABLE} names: {type(fault).__name__}: {fault}"
            ) from fault
