"""`--config FILE`: a TOML file with one key per flag, every fault in it told at once, with its line."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from typing import Any

import click

from agentd.cli.configuration.forms import as_typed
from agentd.errors import ConfigurationError
from agentd.untrusted import read_named

LONGEST_CONFIG = 16 << 20
LINES = "agentd.lines"
"""Where a context keeps from which line of which file each parameter was taken."""


def read_config(ctx: click.Context, _param: click.Parameter, path: str | None) -> str | None:
    """Let a TOML file provide defaults: one key per long flag, dashes or underscores."""
    if path is None:
        return None
    text, content = _read(path)
    flags, lines = by_long_flag(ctx.command), _lines(text, content)
    defaults: dict[str, Any] = {}
    faults: list[str] = []
    for key, value in content.items():
        place, param = f"{path}, line {lines[key]}", flags.get(key.replace("-", "_"))
        if param is None:
            known = nearest(key.replace("_", "-"), (name.replace("_", "-") for name in flags))
            faults.append(f"{place}: {key} is nothing that {ctx.command_path} knows{known}")
            continue
        try:
            typed = as_typed(param, value)
            param.type_cast_value(ctx, typed)
        except (ValueError, click.UsageError) as fault:
            said = fault.message if isinstance(fault, click.UsageError) else fault
            faults.append(f"{place}: {key}: {said}")
            continue
        defaults[str(param.name)] = typed
        ctx.meta.setdefault(LINES, {})[str(param.name)] = place
    ctx.default_map = {**(ctx.default_map or {}), **defaults}
    if faults:
        raise ConfigurationError("\n".join(faults))
    return path


def by_long_flag(command: click.Command) -> dict[str, click.Parameter]:
    """The parameters that a file may set, by their flags as people type them, with underscores for dashes."""
    names = ((flag, param) for param in command.params for flag in param.opts if param.name != "config")
    return {flag.removeprefix("--").replace("-", "_"): param for flag, param in names if flag.startswith("--")}


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that names what was probably meant; empty where nothing comes near."""
    found = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {found[0]}?" if found else ""


def _read(path: str) -> tuple[str, dict[str, Any]]:
    try:
        text = read_named(path, LONGEST_CONFIG).decode("utf-8")
        return text, tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as fault:  # with errors of UTF-8 and of TOML among the second
        raise ConfigurationError(f"cannot read the configuration {path}: {fault}") from None


def _lines(text: str, content: dict[str, Any]) -> dict[str, int]:
    """On which line each key is set: the first that begins with it, or with the table of its name."""
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        begins = re.match(r"""\s*\[{0,2}\s*["']?([^\s"'=.\]\[]+)["']?\s*[=.\]]""", line)
        if begins and begins[1] in content:
            found.setdefault(begins[1], number)
    return {key: found.get(key, 1) for key in content}


config_option = click.option(
    "--config",
    metavar="FILE",
    callback=read_config,
    is_eager=True,
    expose_value=False,
    help="TOML file with one key per flag; flags and AGENTD_… variables win over it.",
)
