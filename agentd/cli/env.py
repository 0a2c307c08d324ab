"""agentd env: serve the shared bandit."""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import numpy as np
from click.core import ParameterSource

from agentd.addresses import address_fault, is_loopback
from agentd.cli.configuration.explaining import ExplainingGroup
from agentd.cli.configuration.forms import Networks, Numbers, Range, joined
from agentd.cli.configuration.reading import config_option
from agentd.cli.env_release import release
from agentd.cli.options import FROM_ENVIRONMENT, in_order, option
from agentd.core.chance import Purpose, stream
from agentd.core.rewards import DISTRIBUTIONS
from agentd.core.terms import BEACON_BYTES, Terms
from agentd.environment.live_status import dropped_in_all, in_units
from agentd.environment.request_server import RunEnding
from agentd.environment.run_terms import RunTerms, completed, declared, term_faults
from agentd.environment.service import EnvironmentSettings, run_environment
from agentd.environment.shared_bandit import SharedBandit
from agentd.environment.store import read_terms
from agentd.errors import ConfigurationError, SettingsError
from agentd.keys.keying import Keying
from agentd.quantities import as_bytes, counted
from agentd.runs import blamed
from agentd.runs.arms import Arms
from agentd.runs.directory import RunDirectory, finite
from agentd.runs.versions import versions
from agentd.settings import TestbedSettings
from agentd.terms_file import read_terms_file, read_terms_text
from agentd.untrusted import read_json_in
from agentd.watching import Watching
from agentd.wire.environment_messages import MAX_COUNT
from agentd.wire.frame import RUN_BYTES
from agentd.wire.terms_digest import digest

DEFAULT_LISTEN = "tcp://127.0.0.1:7000"
LOG = "logs/environment.jsonl"
RUNTIME = "env"

_DEFAULT = TestbedSettings()
_ARM_FLAGS = ("arms", "random_arms", "arm_range", "reward", "bounds")


@click.group(cls=ExplainingGroup, context_settings=FROM_ENVIRONMENT, invoke_without_command=True)
@click.option("--arms", type=Numbers(), help="Means of the arms in [0, 1], as in 0.9,0.8,0.5.")
@click.option("--random-arms", type=int, help="Draw the means of this many arms instead.  [default: 5]")
@click.option("--arm-range", type=Range(), help="Where the means of random arms are drawn from.  [default: 0,1]")
@click.option(
    "--reward", type=click.Choice(list(DISTRIBUTIONS)), help="How rewards fall around the mean.  [default: bernoulli]"
)
@click.option("--bounds", type=Range(), help="The scale in which agents read rewards.  [default: 0,1]")
@click.option(
    "--exec",
    "command",
    envvar="AGENTD_EXEC",
    metavar="COMMAND",
    help="Pull real arms: a command that is asked line by line.",
)
@click.option("--endpoint", metavar="URL", help="The same: an endpoint, as in http://127.0.0.1:8080/pull.")
@click.option(
    "--python",
    "function",
    envvar="AGENTD_PYTHON",
    metavar="MODULE:MAKER",
    help="The same: a function that is made by another.",
)
@click.option(
    "--arm-timeout", "arm_timeout_s", type=float, default=10.0, show_default=True, help="Seconds a real arm has."
)
@click.option("--seed", type=int, help="Make the rewards reproducible.  [default: drawn, kept in environment.json]")
@click.option("--listen", metavar="ADDRESS", default=DEFAULT_LISTEN, show_default=True, help="Where agents connect.")
@click.option("--agents", type=int, help="Number of agents; their ids are 0 … M-1.  [default: whoever comes]")
@click.option("--rounds", type=int, help="Pulls of each agent, T.  [default: no end]")
@click.option("--terms", metavar="FILE", help="What the run is agreed on; see agentd terms make.")
@click.option("--run-dir", metavar="DIR", help="Keep every pull there, and take up the run that it holds.")
@click.option("--run", metavar="HEX", help="The run's identity, as in 0011223344556677.  [default: drawn]")
@click.option(
    "--seats", metavar="FILE", help="Who holds which seat from the beginning.  [default: whoever comes first]"
)
@click.option("--max-outstanding", type=int, help="Trials of an agent dealt and not committed.  [default: 1]")
@click.option("--together", is_flag=True, help="Deal the first rewards when every agent is there.")
@click.option("--until-done", is_flag=True, help="End when every agent has reported that it is done.")
@click.option(
    "--admit",
    type=Networks(),
    multiple=True,
    callback=joined,
    help="Who may connect over TCP, as in 10.0.0.0/8, beside this machine; may be repeated.  [default: everybody]",
)
@click.option("--insecure", is_flag=True, help="Listen beyond this machine although links are not encrypted.")
@click.option("--log-file", metavar="FILE", help=f"JSON lines.  [default: {LOG} in the run directory, else stderr]")
@click.option(
    "--health-file", metavar="FILE", help="Say there how it goes, for agentd health; best in /dev/shm or /run."
)
@in_order([option(one) for one in fields(Watching)])
@in_order([option(one) for one in fields(Keying)])
@click.option("--json", "as_json", is_flag=True, envvar="AGENTD_JSON", help="Print two JSON lines: ready, and summary.")
@config_option
@click.pass_context
def env(ctx: click.Context, /, as_json: bool, insecure: bool, **flags: Any) -> None:
    """Serve the shared bandit to agents until SIGTERM or Ctrl-C (a second one stops at once).

    \b
    agentd env --arms 0.9,0.8,0.5 --agents 2 --rounds 1000 --run-dir runs/pilot
    agentd env --random-arms 5 --reward beta --listen tcp://*:7000 --insecure

    With --run-dir every pull is on disk before its reward leaves: started again with the same directory, the
    environment goes on where it was. Only the environment knows the true means, so it alone can tell the regret.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    if ctx.invoked_subcommand is not None:
        return
    real = real_arms(ctx, flags.pop("command"), flags.pop("endpoint"), flags.pop("function"), flags)
    settings = environment_settings(**flags, real=real)
    _warn_beyond_loopback(settings.listen, settings.admit, insecure, settings.keying.has_keys)
    run_environment(
        settings,
        on_ready=partial(_say_ready, settings, as_json),
        on_end=partial(_say_ending, settings, flags["seed"], as_json),
    )


env.add_command(release)


def real_arms(
    ctx: click.Context, command: str | None, endpoint: str | None, function: str | None, flags: dict[str, Any]
) -> str | None:
    """The real arms that flags name, if any; a file of settings names no code."""
    named = {
        "command": command and f"exec:{command}",
        "endpoint": endpoint,
        "function": function and f"python:{function}",
    }
    given = {name: value for name, value in named.items() if value is not None}
    if not given:
        return None
    if len(given) > 1 or any(flags[name] is not None for name in ("arms", "arm_range", "reward")):
        raise SettingsError(
            "--exec, --endpoint and --python are arms that pay by themselves; give one of them, and no means"
        )
    ((name, real),) = given.items()
    if name != "endpoint" and ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP:
        raise ConfigurationError(
            "the file of --config names code to run as arms; give it as a flag: nothing in a file of settings is run"
        )
    if name == "endpoint" and not real.startswith("http"):
        raise SettingsError(f"--endpoint: {real!r} is not an address like http://127.0.0.1:8080/pull")
    if flags["terms"] is None and flags["random_arms"] is None:
        raise SettingsError("say how many real arms there are: --terms FILE, or --random-arms K")
    flags["arm_range"] = (0.5, 0.5)  # nobody knows better: nothing is dealt from them
    return str(real)


def environment_settings(
    *,
    seed: int | None,
    run: str | None = None,
    terms: str | None = None,
    run_dir: str | None,
    log_file: str | None,
    **flags: Any,
) -> EnvironmentSettings:
    """Settings from flags; what no flag says is taken from the run directory, if it holds a run already."""
    watching = Watching(**{one.name: flags.pop(one.name) for one in fields(Watching) if one.name in flags})
    keying = Keying(**{one.name: flags.pop(one.name) for one in fields(Keying) if one.name in flags})
    stored = read_terms(Path(run_dir)) if run_dir is not None else None
    given = _given(terms) if terms is not None else None
    if seed is None:
        seed = stored.seed if stored is not None else secrets.randbits(63)
    if log_file is None and run_dir is not None:
        log_file = str(Path(run_dir) / LOG)
    arms = _arms(stored, given, seed, **{name: flags.pop(name) for name in _ARM_FLAGS})
    identity = _run(run) if run is not None else None
    drawn = stored.agreed if stored is not None else _declared(identity, arms, flags["agents"], flags["rounds"], seed)
    if drawn is not None:
        given = drawn if given is None else completed(given, drawn)
        identity = identity or given.run
        flags |= {name: value for name, value in _said_by(given).items() if flags[name] is None}
    return EnvironmentSettings(
        arms=arms,
        seed=seed,
        run=identity,
        terms=given,
        run_dir=run_dir,
        log_file=log_file,
        watching=watching,
        keying=keying,
        **flags,
    )


def _given(terms: str) -> Terms:
    """What --terms says: the name of a file or, as launchers have it, what would be in it."""
    return read_terms_text(terms) if terms.startswith("{") else read_terms_file(terms, or_draft=True)


def _said_by(terms: Terms) -> dict[str, int | None]:
    """What terms say of what flags can say."""
    ids = list(terms.ids())
    numbered = bool(ids) and ids[-1] == len(ids) - 1
    return {"agents": len(ids) if numbered else None, "rounds": terms.horizon or None}


def _declared(run: bytes | None, arms: Arms, agents: int | None, rounds: int | None, seed: int) -> Terms | None:
    """The terms that these flags come to; None where they make no sense, which the settings will say."""
    if any(term_faults(arms, agents, rounds, seed, run)):
        return None
    run, beacon = run or secrets.token_bytes(RUN_BYTES), secrets.token_bytes(BEACON_BYTES)
    return declared(run, arms.count, agents, rounds, start_ms=time.time_ns() // 1_000_000, beacon=beacon)


def summarise_environment(ending: RunEnding) -> dict[str, Any]:
    """What an environment knows of `summary.json`; null is what only a launcher could know."""
    bandit = ending.bandit
    reports = [seat.report for seat in bandit.seats.values() if seat.report is not None]
    agents = len(bandit.rows)
    regret = ending.status.group_regret
    spent = [seat.spent for seat in bandit.seats.values() if seat.report is not None]
    return {
        "algorithm": None,
        "agents": agents,
        "rounds": bandit.terms.rounds or max((agent.trial for agent in ending.status.agents), default=0),
        "gamma": None,
        "diameter": None,
        "group_regret": regret,
        "regret_per_agent": regret / max(1, agents),
        "messages": sum(report.messages for report in reports),
        "bytes": sum(report.bytes for report in reports),
        "dropped": dropped_in_all(reports),
        "privacy": {
            "per_agent_epsilon": in_units(max((each.largest for each in spent), default=MAX_COUNT)),
            "epsilon_over_lives": in_units(max((each.total for each in spent), default=MAX_COUNT)),
            "lives": max((each.lives for each in spent), default=0),
            "epsilon_at_delta": None,
            "delta": 0.0,
            "mechanism": None,
            "transcript_private": None,
            "simulated": False,
            "note": "as the agents reported it",
        },
        "wall_s": round(ending.wall_s, 3),
        "run": bandit.terms.run.hex(),
        "terms": digest(bandit.terms.agreed),
        "pulls": bandit.pulls,
        "agents_done": sum(seat.done for seat in bandit.seats.values()),
        "refused": ending.status.refused,
        "malformed": ending.status.malformed,
        "blamed": blamed.to_json(ending.status.blamed()),
        **_favoured(ending.bandit),
    }


def _favoured(bandit: SharedBandit) -> dict[str, Any]:
    """What is told where nobody knows the regret: which arm was pulled most, and how often pulls failed."""
    if bandit.real is None:
        return {}
    counts = sum((seat.ledger.counts for seat in bandit.seats.values()), np.zeros(bandit.terms.arms.count, dtype=int))
    share = float(counts.max()) / max(1, int(counts.sum()))
    return {"favoured": int(counts.argmax()), "share": round(share, 3), "arm_faults": bandit.real.faults}


def _run(text: str) -> bytes:
    try:
        run = bytes.fromhex(text)
    except ValueError:
        run = b""
    if len(run) != RUN_BYTES:
        raise SettingsError(f"--run must be {2 * RUN_BYTES} hexadecimal digits, got {text!r}")
    return run


def _arms(
    stored: RunTerms | None,
    given: Terms | None,
    seed: int,
    *,
    arms: Sequence[float] | None,
    random_arms: int | None,
    arm_range: tuple[float, float] | None,
    reward: str | None,
    bounds: tuple[float, float] | None,
) -> Arms:
    """The arms that the flags name, else those of the run directory, else random ones."""
    if stored is not None and (arms, random_arms, arm_range, reward, bounds) == (None,) * len(_ARM_FLAGS):
        return stored.arms
    if arms is not None and (random_arms is not None or arm_range is not None):
        raise SettingsError("--arms gives the means; --random-arms and --arm-range draw them: choose one")
    kind, scale = reward or _DEFAULT.reward, bounds or (0.0, 1.0)
    try:
        if arms is not None:
            return Arms.fixed(arms, kind, bounds=scale)
        usual = given.arms if given is not None else _DEFAULT.random_arms
        count = usual if random_arms is None else random_arms
        low, high = arm_range or _DEFAULT.arm_range
        return Arms.random(count, stream(seed, Purpose.ARMS), low, high, kind, bounds=scale)
    except ValueError as fault:
        raise SettingsError(str(fault)) from None


def _warn_beyond_loopback(listen: str, admit: Sequence[str], insecure: bool, has_keys: bool) -> None:
    if fault := address_fault(listen, listening=True, any_port=True):
        raise SettingsError(f"--listen: {listen!r} {fault}")
    if is_loopback(listen) or has_keys:
        return
    if not insecure:
        raise SettingsError(
            f"--listen {listen} is reachable from other machines and links are not encrypted; give --keys and "
            "--roster, or add --insecure if that is what you want"
        )
    guests = f"to {', '.join(admit)}" if admit else "to the network: anybody may connect (see --admit)"
    click.echo(
        f"WARNING: {listen} is open {guests}; whoever is first can take a seat that nobody holds yet (see "
        "--seats), and whoever listens on the way reads tokens and rewards",
        err=True,
    )


def _say_ready(settings: EnvironmentSettings, as_json: bool, address: str) -> None:
    assert settings.terms is not None  # noqa: S101 - environment_settings has seen to it
    arms, terms = settings.arms, settings.terms
    agents, rounds, run = len(list(terms.ids())) or None, terms.horizon or None, terms.run.hex()
    if as_json:
        about = {"arms": arms.count, "agents": agents, "rounds": rounds, "terms": digest(terms)}
        click.echo(json.dumps({"address": address, "run": run, **about, "cannot_refuse": terms.left_open()}))
        return
    kind = "real" if settings.real is not None else arms.kind
    many = counted(agents, "agent") if agents is not None else "any agents"
    ends = f"{counted(rounds, 'round')} each" if rounds is not None else "no end"
    kept = f"kept in {settings.run_dir}" if settings.run_dir is not None else "kept in memory only; see --run-dir"
    click.echo(f"serving {counted(arms.count, f'{kind} arm')} on {address} to {many}, {ends}")
    click.echo(f"run {run}, {kept}")
    click.echo(
        f"agents join with: agentd --id 0 --peers 1=tcp://127.0.0.1:7002 --listen tcp://127.0.0.1:7001 "
        f"--environment {_as_seen_by_agents(address)}"
        f"{' --keys FILE --roster FILE --operator-fingerprint HEX' if settings.keying.has_keys else ''}"
    )
    if left_open := terms.left_open():
        click.echo(f"open run: agents cannot refuse {', '.join(left_open)}; agentd terms make agrees on them")


def _say_ending(settings: EnvironmentSettings, seed: int | None, as_json: bool, ending: RunEnding) -> None:
    summary = summarise_environment(ending)
    if settings.run_dir is not None:
        _write_run(Path(settings.run_dir), settings, seed, ending, summary)
    click.echo(json.dumps(finite(summary), ensure_ascii=False) if as_json else _table(summary, settings.run_dir))


def _write_run(
    place: Path, settings: EnvironmentSettings, seed: int | None, ending: RunEnding, summary: dict[str, Any]
) -> None:
    """Manifest and summary, where no launcher writes better ones."""
    if _has_launcher(place):
        return
    directory = RunDirectory(place)
    terms = ending.bandit.terms
    directory.write_json(
        "manifest.json",
        {
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "runtime": RUNTIME,
            "versions": versions(),
            "settings": {"listen": settings.listen, "agents": terms.agents, "rounds": terms.rounds},
            "seed": seed,
            "run": terms.run.hex(),
            "terms": digest(terms.agreed),
            "arms": terms.arms.to_json() if settings.real is None else {"kind": "real", "count": terms.arms.count},
            "rows": ending.bandit.rows,
            "topology": None,
            "liars": None,
        },
    )
    directory.write_json("summary.json", summary)


def _has_launcher(place: Path) -> bool:
    """Whether somebody else has described this run already."""
    try:
        return bool(read_json_in(place, "manifest.json")["runtime"] != RUNTIME)
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError):
        return True  # not ours to overwrite


def _table(summary: dict[str, Any], place: str | None) -> str:
    known = not math.isnan(summary["group_regret"])
    agents = counted(summary["agents"], "agent")
    lines = [
        f"group regret      {summary['group_regret']:,.1f} ({summary['regret_per_agent']:.2f} per agent)"
        if known
        else f"favoured arm      {summary['favoured']} ({summary['share']:.0%} of all pulls; nobody knows the regret)",
        f"pulls             {summary['pulls']:,} of {agents}, {summary['agents_done']} done",
    ]
    if summary["messages"]:
        lines.append(f"messages          {summary['messages']:,} ({as_bytes(summary['bytes'])})")
    for what in ("dropped", "refused", "malformed"):
        if summary[what]:
            lines.append(f"{what:17} " + ", ".join(f"{why} {times}" for why, times in summary[what].items()))
    said = blamed.blamed_lines(blamed.from_json(summary["blamed"]))
    lines += [f"{'' if number else 'blamed':17} {line}" for number, line in enumerate(said)]
    lines.append(f"took              {summary['wall_s']:.2f} s")
    if place is not None:
        lines.append(f"written to        {place}")
    return "\n".join(lines)


def _as_seen_by_agents(address: str) -> str:
    """The address with a name that works from elsewhere, where it says only "everywhere"."""
    parts = urlsplit(address)
    if parts.hostname in ("0.0.0.0", "::", "*"):  # noqa: S104
        return f"tcp://THIS-MACHINE:{parts.port}"
    return address
