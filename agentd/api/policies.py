"""What an algorithm of somebody else is made of, under the names that `agentd` offers them by."""

from __future__ import annotations

import inspect
from pathlib import Path

from agentd.core.bodies import Cumulative, Field
from agentd.core.bodies import Kind as Body
from agentd.core.bodies import register as register_body
from agentd.core.grid import UNIT
from agentd.core.policy import Intent, Policy, PolicySettings, register_policy
from agentd.core.policy.base import Noiseless, Released, Silent
from agentd.core.privacy.ledger import Ledger, Release
from agentd.core.privacy.release import NOTHING, computed, release_of
from agentd.errors import SettingsError

__all__ = [
    "NOTHING",
    "UNIT",
    "Body",
    "Cumulative",
    "Field",
    "Intent",
    "Ledger",
    "Noiseless",
    "Policy",
    "PolicySettings",
    "Release",
    "Released",
    "Silent",
    "computed",
    "named",
    "register_body",
    "register_policy",
    "release_of",
    "where_it_stands",
]


def named(algorithm: str | type) -> str:
    """The name of an algorithm: as it is known, as in `mine.py:MyPolicy`, or of a class, which is registered."""
    from agentd import plugins

    return plugins.bring(algorithm) if isinstance(algorithm, str) else register_policy(algorithm).name


def where_it_stands(algorithm: str | type) -> list[str]:
    """The entry of AGENTD_PLUGINS by which other processes find a class; none is needed for a name."""
    if isinstance(algorithm, str):
        return []
    try:
        source = inspect.getsourcefile(algorithm)
    except TypeError:
        source = None
    if source is None or not Path(source).is_file():
        raise SettingsError(f"{algorithm.__name__} stands in no file, so that no other process can load it")
    return [f"{Path(source).resolve()}:{algorithm.__name__}"]
