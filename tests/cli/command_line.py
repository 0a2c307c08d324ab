"""The whole command line as text: every help page, every option with its variable, default and choices, every setting.

`python tests/cli/command_line.py DIRECTORY` writes the three texts there; those in `before/` were written so from the
sources of commit 49aef1d, before the settings became one table.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from agentd import __version__, errors
from agentd.cli import cli
from agentd.settings import AgentSettings, TestbedSettings

WIDTH = 110


def commands(command: click.Command = cli, path: str = "agentd") -> Iterator[tuple[str, click.Command]]:
    """Every verb and every verb of a verb, by what one types."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, f"{path} {name}")


def pages() -> str:
    """Every help page at one width."""
    shown = []
    for path, command in commands():
        context = click.Context(command, info_name=path, terminal_width=WIDTH, **_about(command))
        command._help_option = None  # click keeps that of the first context, which was another where it was run before
        shown.append(f"===== {path} --help\n{command.get_help(context)}\n")
    return "\n".join(shown).replace(__version__, "VERSION")


def options() -> str:
    """Every parameter of every command, one line each."""
    return "".join(f"{path} {line}\n" for path, command in commands() for line in _parameters(command))


def _parameters(command: click.Command) -> Iterator[str]:
    prefix = command.context_settings.get("auto_envvar_prefix")
    for one in command.params:
        words = [*one.opts, *one.secondary_opts]
        variable = one.envvar or (prefix and isinstance(one, click.Option) and f"{prefix}_{str(one.name).upper()}")
        words += [f"variable={variable}"] if variable else []
        words += [f"type={'|'.join(one.type.choices) if isinstance(one.type, click.Choice) else one.type.name}"]
        info = one.to_info_dict()
        for name in ("default", "flag_value"):
            value = info.get(name)
            shown = (
                ""
                if value is None or "Sentinel" in type(value).__name__
                else str(value).replace(__version__, "VERSION")
            )
            words += [f"{name}={shown}"] if shown else []
        words += [name for name in ("required", "multiple", "is_flag", "count") if info.get(name)]
        yield " ".join(words)


def _about(command: click.Command) -> dict[str, object]:
    return {name: value for name, value in command.context_settings.items() if name != "auto_envvar_prefix"}


def settings() -> str:
    """The defaults of testbeds and agents, and what each fault exits with."""
    agent = AgentSettings(id=0, listen="tcp://127.0.0.1:1", environment="tcp://127.0.0.1:2")
    faults = {name: fault.exit_code for name, fault in sorted(vars(errors).items()) if hasattr(fault, "exit_code")}
    defaults = {"testbed": TestbedSettings().to_json(), "agent": asdict(agent), "exit_codes": faults}
    return json.dumps(defaults, indent=1, ensure_ascii=False) + "\n"


TEXTS = {"help.txt": pages, "options.txt": options, "settings.json": settings}

if __name__ == "__main__":
    for file, text in TEXTS.items():
        (Path(sys.argv[1]) / file).write_text(text(), encoding="utf-8")
