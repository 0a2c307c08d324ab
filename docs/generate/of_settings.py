"""The table of knobs: every field of the settings with its unit, range, default and who reads it."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any

from agentd.core.policy.knobs import PolicyKnobs, about, flag_of
from agentd.settings import AgentSettings, Pace, RunKnobs, Spending, TestbedSettings
from agentd.watching import Watching
from generate.text import code, plain, table

GROUPS = {
    "What algorithms read": PolicyKnobs,
    "What a testbed is told, and each of its agents": RunKnobs,
    "How agents keep time": Pace,
    "What an agent may spend": Spending,
    "Who may look on": Watching,
    "One agent": AgentSettings,
    "A testbed": TestbedSettings,
}


def page() -> str:
    """Each setting once, in the group that it belongs to."""
    intro = (
        "# The table of settings\n\nMade from the code. Every setting is a flag, a variable (`AGENTD_` and the flag's "
        "name in capitals, with underscores) and a key of a TOML file (the flag's name with underscores): a flag wins "
        "over a variable, that over the file, that over the default. [How to set them](settings.md) has the commands.\n"
    )
    told: set[str] = set()
    parts = [intro]
    for title, group in GROUPS.items():
        rows = [_row(one) for one in fields(group) if one.name not in told and _is_set_by_people(one)]
        told |= {one.name for one in fields(group)}
        parts.append(f"## {title}\n\n{table(['flag', 'default', 'allowed', 'what it does'], rows)}")
    return "\n".join(parts)


def _is_set_by_people(one: Field[Any]) -> bool:
    return "knob" in one.metadata and flag_of(one).startswith("--")


def _row(one: Field[Any]) -> list[str]:
    said = about(one)
    limits = said.must.removeprefix("be ").removeprefix("lie ")
    allowed = ", ".join(map(code, said.choices)) if said.choices else plain(limits)
    readers = f" (read by {', '.join(map(code, said.read_by))})" if said.read_by else ""
    return [code(flag_of(one)), code(_default(one)), allowed, plain(said.testbed_help or said.help or "") + readers]


def _default(one: Field[Any]) -> str:
    if one.default is MISSING:
        return "" if one.default_factory is not MISSING else "(needed)"
    unit = about(one).unit if isinstance(one.default, int | float) and not isinstance(one.default, bool) else ""
    if one.default is None or one.default is False or one.default == ():
        return ""
    shown = ",".join(f"{part:g}" for part in one.default) if isinstance(one.default, tuple) else str(one.default)
    return f"{shown} {unit}".strip()
