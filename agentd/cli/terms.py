"""agentd terms: what a run is agreed on, as a file."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any

import click

from agentd.cli.configuration.forms import Assignments
from agentd.cli.options import FROM_ENVIRONMENT, in_order, option
from agentd.core.chance import SEED_LIMIT
from agentd.core.message import MAX_AGENT_ID, MAX_ARMS
from agentd.core.policy import ALGORITHMS
from agentd.core.policy.knobs import about, flag_of
from agentd.core.privacy.sealing import share_of
from agentd.core.terms import BEACON_BYTES, RUN_BYTES, Clock, Terms
from agentd.errors import SettingsError
from agentd.runs.agreed_terms import beacon_of_seed, policy_terms
from agentd.settings import AgentSettings, RunKnobs, ordered, person_faults
from agentd.terms_file import read_terms_file, terms_text, terms_to_json, write_terms_file
from agentd.untrusted import printable
from agentd.wire.terms import write_terms
from agentd.wire.terms_digest import digest, ranges_text

_AS_AGENTS = {
    one.name: one
    for one in ordered(AgentSettings)
    if one.name in {"rounds", "gamma", "clock", "interval_s", "algorithm", "epsilon", "rewards_per_person", "v"}
}
"""What terms say and agents are told by the same flags."""
_HELP: dict[str, dict[str, Any]] = {
    "rounds": {"help": "Pulls of each agent, T.  [default: no end]"},
    "gamma": {"help": "Hops that every message lives."},
    "interval_s": {"help": "The fewest seconds between two pulls of an agent, with --clock free."},
    "algorithm": {"help": "What the agents run."},
    "epsilon": {"help": "The ε that their noise is made for; with --rewards-per-person that of a person."},
    "rewards_per_person": {"help": "sealed: how many rewards a person may be behind; terms tell ε over this."},
}
_MICROSECONDS = 1_000_000


class Ids(click.ParamType):  # type: ignore[type-arg]
    """`0-4,7`: who takes part."""

    name = "RANGES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[int]:
        if isinstance(value, frozenset):
            return value
        found: set[int] = set()
        for item in str(value).split(","):
            first, _, last = item.partition("-")
            ends = [end for end in (first, last or first) if end.isascii() and end.isdigit() and len(end) <= 5]
            if len(ends) != 2 or not int(ends[0]) <= int(ends[1]) <= MAX_AGENT_ID:
                self.fail(f"{item!r} is not an id or a range of ids up to {MAX_AGENT_ID}, as in 0-4,7", param, ctx)
            found.update(range(int(ends[0]), int(ends[1]) + 1))
        return frozenset(found)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def terms() -> None:
    """Make and show what a run is agreed on: who takes part with what, and what is therefore refused."""


@terms.command(context_settings={**FROM_ENVIRONMENT, "auto_envvar_prefix": None})
@click.option("--agents", type=int, help="Number of agents; their ids are 0 … M-1.")
@click.option("--ids", type=Ids(), help="The ids of the agents instead, as in 0-4,7.")
@click.option("--arms", type=int, required=True, help="Number of arms, K.")
@in_order([option(one, **_HELP.get(name, {})) for name, one in _AS_AGENTS.items()])
@click.option(
    "--policy", "policies", type=Assignments(), multiple=True, help="Another algorithm for one agent, as in 3=ucb1."
)
@click.option("--seed", type=int, help="Make the beacon reproducible.  [default: drawn]")
@click.option("--out", metavar="FILE", help="Where to write them.  [default: standard output]")
def make(out: str | None, **flags: Any) -> None:
    """Agree on a run: write a file for `agentd env --terms` and for every agent's `--terms`.

    \b
    agentd terms make --agents 3 --arms 5 --rounds 1000 --gamma 1 --epsilon 1 --out terms.json

    The run's id is a fresh one each time. Terms are public: there is no secret in them.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    made = made_terms(**flags)
    if out is None:
        click.echo(terms_text(made), nl=False)
        return
    write_terms_file(out, made)
    click.echo(f"run {made.run.hex()}, digest {digest(made)}, written to {out}", err=True)


@terms.command()
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON, with their digest.")
def show(file: str, as_json: bool) -> None:
    """Show the terms in a file, their digest, and what cannot be refused under them."""
    found = read_terms_file(file)
    left_open = found.left_open()
    if as_json:
        click.echo(json.dumps({**terms_to_json(found), "digest": digest(found), "cannot_refuse": left_open}))
        return
    for name, value in _lines(found):
        click.echo(printable(f"{name:10} {value}"))
    if left_open:
        click.echo(f"open run: agents cannot refuse {', '.join(left_open)}")


def made_terms(
    *,
    agents: int | None,
    ids: frozenset[int] | None,
    arms: int,
    policies: tuple[tuple[int, str], ...],
    seed: int | None,
    **said: Any,
) -> Terms:
    """New terms from flags."""
    if faults := list(_faults(agents=agents, ids=ids, arms=arms, policies=dict(policies), seed=seed, said=said)):
        raise SettingsError("; ".join(faults))
    members = sorted(ids) if ids is not None else list(range(agents or 0))
    clock = Clock[said["clock"].upper()]
    made = Terms(
        run=secrets.token_bytes(RUN_BYTES),
        arms=arms,
        horizon=said["rounds"] or 0,
        lifetime=said["gamma"],
        clock=clock,
        interval_us=round(said["interval_s"] * _MICROSECONDS) if clock is Clock.FREE else 0,
        start_ms=time.time_ns() // 1_000_000,  # nobody pulls before there are terms to pull under
        beacon=beacon_of_seed(seed) if seed is not None else secrets.token_bytes(BEACON_BYTES),
        policies=policy_terms(
            {agent: dict(policies).get(agent, said["algorithm"]) for agent in members},
            share_of(said["epsilon"], said["rewards_per_person"]),
            said["v"],
        ),
    )
    try:
        write_terms(made)
    except ValueError as fault:  # ids in more pieces than there is room for
        raise SettingsError(str(fault)) from None
    return made


def _faults(
    *,
    agents: int | None,
    ids: frozenset[int] | None,
    arms: int,
    policies: Mapping[int, str],
    seed: int | None,
    said: Mapping[str, Any],
) -> Iterator[str]:
    if (agents is None) == (ids is None):
        yield "say who takes part: either --agents or --ids"
    if agents is not None and not 1 <= agents <= MAX_AGENT_ID + 1:
        yield f"--agents must be in 1…{MAX_AGENT_ID + 1}, got {agents}"
    if not 1 <= arms <= MAX_ARMS:
        yield f"--arms must be in 1…{MAX_ARMS}, got {arms}"
    if seed is not None and not 0 <= seed < SEED_LIMIT:
        yield f"--seed must be in [0, 2^64), got {seed}"
    for name, one in _AS_AGENTS.items():
        if fault := about(one).fault(flag_of(one), said[name]):
            yield fault
    members = ids if ids is not None else range(agents or 0)
    for agent, name in policies.items():
        if agent not in members:
            yield f"--policy names agent {agent}, who does not take part"
        if name not in ALGORITHMS:
            yield f"unknown algorithm {name!r}; choose one of {', '.join(ALGORITHMS)}"
    knobs = RunKnobs(**{name: said[name] for name in ("epsilon", "rewards_per_person")})
    yield from person_faults(knobs, {said["algorithm"], *policies.values()})


def _lines(found: Terms) -> Iterator[tuple[str, str]]:
    yield "digest", digest(found)
    yield "run", found.run.hex()
    yield "arms", str(found.arms)
    yield "rounds", str(found.horizon or "no end")
    yield "gamma", "open" if found.lifetime is None else str(found.lifetime)
    yield "clock", _clock_text(found)
    if found.start_ms:
        yield "start", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(found.start_ms / 1000))
    yield "beacon", found.beacon.hex()
    for policy in found.policies:
        noise = ", ".join(f"{name} {value:g}" for name, value in (("ε", policy.epsilon), ("v", policy.v)) if value)
        does = f"{policy.algorithm or 'any algorithm'}{noise and f', {noise}'}"
        yield "agents", f"{ranges_text(policy.ids)}: {does}"
    if not found.closed:
        yield "agents", "whoever comes"


def _clock_text(found: Terms) -> str:
    if found.clock is Clock.OPEN:
        return "open"
    if found.clock is Clock.LOCKSTEP:
        return "lockstep"
    return f"free, at least {found.interval_us / _MICROSECONDS:g} s between pulls" if found.interval_us else "free"
