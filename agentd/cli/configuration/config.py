"""agentd config: what a command would go by, whether a file is right, and what one looks like."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import click

from agentd.cli.configuration.origins import Looked, look, origin, unknown_variables, with_origins
from agentd.cli.configuration.variables import WITH_SETTINGS, command_with_settings, variables_of_verbs
from agentd.errors import ConfigurationError, SettingsError
from agentd.settings import AgentSettings, Hosting, Pace, Spending, TestbedSettings, as_typed

DEFAULT_VERB = "agent"
_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_PLACEHOLDERS = {"id": 0, "listen": "tcp://127.0.0.1:7001", "environment": "tcp://127.0.0.1:7000"}
"""What a file of an agent may leave to flags."""
_NOT_IN_FILES = {"config", "as_json"}


@click.group(context_settings=_HELP)
def config() -> None:
    """Tell where settings come from, check a file of them, or print one to begin with.

    \b
    agentd config show --origin --config agent.toml --id 3
    agentd config check agent.toml
    agentd config example up > testbed.toml

    A flag wins over an AGENTD_… variable, that over the file of --config, that over the default.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have


@config.command(
    context_settings={**_HELP, "ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[--origin] [--json]",
)
@click.option("--origin", "origins", is_flag=True, help="Beside each value, where it comes from.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[VERB] [FLAGS]...")
def show(origins: bool, as_json: bool, words: tuple[str, ...]) -> None:
    """Show every setting that a command would go by: VERB with these FLAGS (agent, if none is named), not run.

    Exit codes: 0, or 78 where something is wrong, with all faults.
    """
    name, command, rest = _command(words)
    looked = look(command, rest, name)
    for complaint in unknown_variables(looked.ctx, variables_of_verbs):
        click.echo(f"warning: {complaint}", err=True)
    rows = list(_rows(looked))
    if as_json:
        click.echo(json.dumps([{"setting": s, "value": v, "origin": o} for s, v, o in rows], ensure_ascii=False))
    else:
        click.echo(_table(rows, origins=origins))
    _refuse(_faults(name, looked))


@config.command()
@click.argument("file")
@click.argument("verb", nargs=-1)
def check(file: str, verb: tuple[str, ...]) -> None:
    """Check FILE as --config of VERB (agent, if none is named): all faults at once, with their lines.

    What is missing may still come as a flag. Exit codes: 0 nothing is wrong, 78 something is.
    """
    name, command, rest = _command(verb)
    if rest:
        raise SettingsError(f"name one verb, not {' '.join(verb)}")
    with _no_variables():
        looked = look(command, ["--config", file], name)
    _refuse(_faults(name, looked))
    click.echo(f"{file}: nothing is wrong with it, as --config of agentd {name}")


@config.command()
@click.argument("verb", nargs=-1)
def example(verb: tuple[str, ...]) -> None:
    """Print a file for --config of VERB (agent, if none is named): every setting, with what it means."""
    name, command, rest = _command(verb)
    if rest:
        raise SettingsError(f"name one verb, not {' '.join(verb)}")
    click.echo(f"# Settings of agentd {name}, for --config FILE. What is commented out is the default, or an example.")
    click.echo("# Check it with: agentd config check FILE" + ("" if name == DEFAULT_VERB else f" {name}"))
    for param in command.params:
        if isinstance(param, click.Option) and param.name not in _NOT_IN_FILES and not param.hidden:
            click.echo("\n" + "\n".join(_example_of(param)))


def _command(words: Sequence[str]) -> tuple[str, click.Command, list[str]]:
    """The command that words begin with, its name, and the rest of the words."""
    for length in (2, 1):
        name = " ".join(words[:length])
        if len(words) >= length and name in WITH_SETTINGS:
            return name, command_with_settings(name), list(words[length:])
    if words and not words[0].startswith("-"):
        raise SettingsError(f"{words[0]} has no settings to show; choose from {', '.join(WITH_SETTINGS)}")
    return DEFAULT_VERB, command_with_settings(DEFAULT_VERB), list(words)


def _rows(looked: Looked) -> Iterator[tuple[str, Any, str]]:
    for param in looked.ctx.command.params:
        if not isinstance(param, click.Option) or param.name == "config":
            continue
        name = param.opts[0].removeprefix("--")
        if param.opts[0] in looked.missing:
            yield name, None, "missing"
        elif param.name in looked.values:
            yield name, _told(looked.values[param.name]), origin(looked.ctx, param)


def _told(value: Any) -> Any:
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return ",".join(f"{key}={each}" for key, each in value)
    return value if isinstance(value, bool | int | float | None) else as_typed(value)


def _table(rows: Sequence[tuple[str, Any, str]], *, origins: bool) -> str:
    shown = [(name, _text(value), place) for name, value, place in rows]
    wide, wider = (max(len(row[column]) for row in shown) for column in (0, 1))
    lines = [f"{name:{wide}}  {value:{wider}}  {place if origins else ''}".rstrip() for name, value, place in shown]
    return "\n".join(lines)


def _text(value: Any) -> str:
    if value is None or value == "":
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _faults(name: str, looked: Looked) -> list[str]:
    """All that is wrong: with single values, and with all of them together."""
    try:
        _settle(name, looked.values)
    except SettingsError as fault:
        together = with_origins(looked.ctx, str(fault)) or str(fault).replace("; ", "\n")
        return [*looked.faults, *together.splitlines()]
    return looked.faults


def _settle(name: str, values: Mapping[str, Any]) -> None:
    """Make the settings that a command would make of these values; what is missing may still be said."""
    if name == DEFAULT_VERB:
        said = {key: value for key, value in values.items() if value is not None or key not in _PLACEHOLDERS}
        AgentSettings(**{**_PLACEHOLDERS, **said})
        return
    from agentd.cli.options import parameter_of, taken, testbed_settings

    flags = dict(values)
    for group in (Pace, Hosting, Spending, TestbedSettings):
        own = {parameter_of(one) for one in fields(group)}
        if own <= set(flags) and name != "sweep":  # where several values stand for one, the grid is looked at later
            said = {key: flags.pop(key) for key in own}
            group(**taken(group, said)) if group is not TestbedSettings else testbed_settings(**said)


def _refuse(faults: Sequence[str]) -> None:
    if faults:
        raise ConfigurationError("\n".join(faults))


class _no_variables:  # noqa: N801 - used as a word
    """Without the AGENTD_… variables of this shell: they say nothing about a file."""

    def __enter__(self) -> None:
        self._kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("AGENTD_")}

    def __exit__(self, *_: object) -> None:
        os.environ.update(self._kept)


def _example_of(param: click.Option) -> Iterator[str]:
    """The lines about one setting."""
    said = (param.help or "").strip()
    choices = f" One of: {', '.join(param.type.choices)}." if isinstance(param.type, click.Choice) else ""
    yield from (f"# {line}" for line in textwrap.wrap((said + choices).strip(), 100))
    key = param.opts[0].removeprefix("--")
    yield f"{key} = {_toml(param)}" if param.required else f"# {key} = {_toml(param)}"


def _toml(param: click.Option) -> str:
    default = _PLACEHOLDERS.get(str(param.name)) if param.required else param.default
    if param.is_flag:
        return "true" if default is True else "false"
    if isinstance(default, int | float):
        return f"{default:g}" if isinstance(default, float) else str(default)
    if isinstance(default, str) and default:
        return f"[{default}]" if param.type.name == "LOW,HIGH" else json.dumps(default, ensure_ascii=False)
    one = getattr(param.type, "inner", param.type)
    if isinstance(one, click.Choice):
        return json.dumps(next(iter(one.choices)))
    return _EXAMPLES.get(str(param.metavar), _EXAMPLES.get(param.type.name, '"…"'))


_EXAMPLES = {
    "ID=ADDRESS,…": '["1=tcp://gate-1:7001", "2=tcp://gate-2:7002"]',
    "AGENT=NAME": '["3=ucb1"]',
    "NUMBERS": "[0.9, 0.8, 0.5]",
    "LOW,HIGH": "[0.0, 1.0]",
    "CIDR,…": '["10.0.0.0/8"]',
    "ADDRESS": '"tcp://127.0.0.1:7000"',
    "integer": "1",
    "integer range": "1",
    "float": "1.0",
    "TIME": '"5s"',
    "ROUNDS": "60",
    "HOST:PORT": '"127.0.0.1:9100"',
    "NAME,…": '["gate-1"]',
    "URL": '"mqtt://127.0.0.1"',
    "FILE": '"/path/of/a/file"',
    "DIR": '"/path/of/a/directory"',
    "FINGERPRINT": f'"{64 * "0"}"',
}
"""What a setting without a default may look like."""
