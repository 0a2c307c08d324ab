"""Nothing that could be typed at commit 49aef1d is lost or changed, but by name and with a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import click
import command_line
import pytest

BEFORE = Path(__file__).parent / "before"

CHANGED_PAGES: dict[str, str] = {
    "agentd agent": "sealed is the default; arms may be an agent's own: a command, an endpoint, a function",
    "agentd audit": "it draws the reward in question, may not be able to tell, and has exact tests, too",
    "agentd bench": "it measures both ways in which local testbeds speak",
    "agentd compose": "sealed is the default",
    "agentd demo": "it shows three runs: alone, the paper's way, and sealed",
    "agentd env": "its usage tells that it has a verb of its own, release",
    "agentd experiment": "a trial is one pull; the rest are repetitions; fig2 shows what privacy costs",
    "agentd image build": "it needs no checkout, and says which one it takes where there are some",
    "agentd ledger": "values at δ are told of the schedule, not of a number of releases that followed from rewards",
    "agentd manifests kubernetes": "agents keep their state on volumes of their own unless the operator says none",
    "agentd simulate": "sealed is the default, Ctrl-C leaves what was made, and results stand beside others",
    **dict.fromkeys(("agentd agent", "agentd compose", "agentd up"), "durations have units; sealed is the default"),
    **dict.fromkeys(
        (
            *("agentd down", "agentd logs", "agentd status", "agentd chaos history"),
            *(f"agentd chaos {verb}" for verb in ("delay", "disconnect", "heal", "kill", "loss", "partition")),
            *(f"agentd chaos {verb}" for verb in ("pause", "reconnect", "restart", "resume")),
        ),
        "the testbed of this directory comes first",
    ),
}
"""Help pages that read otherwise today, by the command, and why."""
CHANGED_OPTIONS: dict[str, str] = {
    **{
        f"agentd {verb} --algorithm": "sealed, not private-ucb: all that leaves an agent is private, and less is lost"
        for verb in ("agent", "compose", "manifests kubernetes", "simulate", "up")
    },
    "agentd demo --rounds": "400, not 500: three runs take no longer than two did",
    "agentd audit --algorithm": "any that claims privacy, also of a plug-in: no list can name them",
    "agentd audit --fault": "there are more",
    "agentd experiment figure": "there are more: fig3 and fig4 are about liars",
    "agentd experiment --trials": "it is called --repetitions, and known by both names",
    "agentd audit --processes": "it is --jobs, too, as everywhere",
    "agentd manifests kubernetes --agent-storage": "64Mi, not none: what may not be noised twice survives a pod",
    **{
        f"agentd {verb} --{flag}": "durations have units; a variable is named like its flag, as well"
        for verb in ("agent", "compose", "manifests kubernetes", "up")
        for flag in ("interval", "ready-timeout", "round-timeout")
    },
    "agentd demo --out": "it is --run-dir, too",
    "agentd image build --extras": "keys, not none: containers of a testbed with --keys need them",
    "agentd experiment --jobs": "a wrong number is refused as everywhere",
}
"""Options that are gone or otherwise today, by command and flag as in "agentd up --seed", and why."""
CHANGED_SETTINGS: dict[str, str] = {
    "agent.algorithm": "sealed, as for all testbeds",
    "testbed.algorithm": "sealed: everything that leaves an agent is private, and less is lost",
}
"""Defaults and exit codes that are others today, as in "agent.gamma", and why."""


NEW_CHOICES = {"coop-thompson": "an algorithm", "shielded": "an algorithm"}
"""What there is to choose since; a choice that has company is no other."""


def without_new(text: str) -> str:
    return re.sub(rf"\|({'|'.join(NEW_CHOICES)})\b", "", text)


def before(name: str) -> str:
    return (BEFORE / name).read_text(encoding="utf-8")


def by_command(pages: str, only: str | None = None) -> dict[str, list[str]]:
    """Each page as its entries, without how they are laid out; of those in `only`, whose options may have company."""
    parts = re.split(r"^===== (.*) --help\n", pages, flags=re.MULTILINE)
    entries = {name: entries_of(page) for name, page in zip(parts[1::2], parts[2::2], strict=True)}
    if only is None:
        return entries
    known = by_command(only)
    return {name: [entry for entry in page if entry in known.get(name, ())] for name, page in entries.items()}


def entries_of(page: str) -> list[str]:
    """What begins at the second column goes on in the lines that begin further right."""
    return [" ".join(entry.split()) for entry in re.split(r"\n(?=\S|  \S|\n)", page) if entry.strip()]


def by_flag(options: str) -> dict[str, str]:
    return {" ".join(line.split(" variable=")[0].split(" type=")[0].split()): line for line in options.splitlines()}


def by_name(settings: str) -> dict[str, object]:
    return {f"{of}.{name}": value for of, values in json.loads(settings).items() for name, value in values.items()}


def lost(then: Mapping[str, object], now: Mapping[str, object]) -> set[str]:
    """What is not there any more as it was."""
    return {name for name, said in then.items() if now.get(name) != said}


def test_every_help_page_reads_as_before() -> None:
    then = by_command(before("help.txt"))
    assert sum(map(len, then.values())) > 500
    assert lost(then, by_command(without_new(command_line.pages()), before("help.txt"))) == set(CHANGED_PAGES)


def test_every_flag_variable_default_and_choice_is_as_before() -> None:
    then, now = by_flag(before("options.txt")), by_flag(without_new(command_line.options()))
    assert len(then) > 300
    assert lost(then, now) == set(CHANGED_OPTIONS)


def test_every_default_and_every_exit_code_is_as_before() -> None:
    then, now = by_name(before("settings.json")), by_name(command_line.settings())
    assert lost(then, now) == set(CHANGED_SETTINGS)


def test_a_changed_default_a_lost_flag_and_another_variable_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = dict(command_line.commands())
    simulate, agent = commands["agentd simulate"], commands["agentd agent"]
    parameters = {str(one.name): one for one in simulate.params}
    monkeypatch.setattr(parameters["epsilon"], "default", 2.0)
    monkeypatch.setattr(simulate, "params", [one for one in simulate.params if one.name != "seed"])
    (listen,) = [one for one in agent.params if one.name == "listen"]
    monkeypatch.setattr(listen, "envvar", "AGENTD_PAUSE")
    monkeypatch.setattr(commands["agentd topology measure"], "help", "Something else.")
    found = lost(by_flag(before("options.txt")), by_flag(without_new(command_line.options())))
    assert found - set(CHANGED_OPTIONS) == {
        "agentd simulate --epsilon",
        "agentd simulate --seed",
        "agentd agent --listen",
    }
    then = by_command(before("help.txt"))
    assert lost(then, by_command(without_new(command_line.pages()), before("help.txt"))) - set(CHANGED_PAGES) == {
        "agentd topology measure"
    }


def test_every_verb_of_every_verb_is_looked_at() -> None:
    groups = [path for path, command in command_line.commands() if isinstance(command, click.Group)]
    assert {"agentd", "agentd topology", "agentd chaos", "agentd manifests", "agentd image"} <= set(groups)
