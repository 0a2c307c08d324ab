"""agentd audit: try to refute the privacy that an algorithm claims."""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import click

from agentd.audit.case import Case, auditable
from agentd.audit.coupling.many_worlds import PORTION, couple, is_coupled, portions
from agentd.audit.examine import blocks, examine
from agentd.audit.matrix import REAL_DEATHS, Coupled, Entry, couplings, matrix, sources
from agentd.audit.planted_faults import FAULTS, SOURCE_FAULTS, source_of
from agentd.audit.sampler import sampler_faults, source_faults
from agentd.audit.workers import Workers, default_processes, workers
from agentd.cli.audit_report import (
    EXIT_CODES,
    HEAD,
    coupling_report,
    line,
    sampler_report,
    seen_by_coupling,
    seen_by_statistics,
    statistics_report,
)
from agentd.cli.options import FROM_ENVIRONMENT
from agentd.cli.progress import Advance, progress
from agentd.core.chance import SEED_LIMIT
from agentd.core.message import MAX_ARMS
from agentd.core.policy import ALGORITHMS
from agentd.errors import SettingsError
from agentd.runs.directory import finite
from agentd.runs.proofs import record_pass

RUNS = 20_000
WORLDS = 1_000
_LEAST_RUNS = 100


@click.command(context_settings=FROM_ENVIRONMENT)
@click.option("--algorithm", default="sealed", show_default=True, help="What to audit.")
@click.option(
    "--epsilon", type=float, default=1.0, show_default=True, help="The agent's --epsilon, and sealed's claim."
)
@click.option("--arms", type=int, default=2, show_default=True, help="Arms of the bandit.")
@click.option("--runs", type=int, help=f"Runs of each of the two inputs.  [default: {RUNS}; {REAL_DEATHS} with --kill]")
@click.option("--trials", type=int, help="Trials of a run.  [default: until releases and a choice from them are seen]")
@click.option(
    "--adversary/--no-adversary",
    default=True,
    show_default=True,
    help="A neighbour that chooses what it sends so as to steer the agent, or one that only listens.",
)
@click.option("--restart", is_flag=True, help="Let the agent die and come back from its journal in mid-run.")
@click.option(
    "--kill", is_flag=True, help="The same with processes, SIGKILL and a disk, which takes a tenth of a second per run."
)
@click.option(
    "--coupling",
    is_flag=True,
    help="The exact test: one reward is another, the noise of its release is shifted, nothing else may differ.",
)
@click.option("--worlds", type=int, help=f"Random worlds of --coupling.  [default: {WORLDS}]")
@click.option("--first-world", type=int, help="The number of the first one.  [default: 0]")
@click.option("--sampler", is_flag=True, help="Test the noise exactly: every probability, every draw from given bytes.")
@click.option("--fault", type=click.Choice(list(FAULTS)), help="Plant a fault into sealed, to see it found.")
@click.option("--all", "everything", is_flag=True, help="Every fault and every situation, against what must come out.")
@click.option("--processes", "--jobs", "processes", type=int, help="Processes that work.  [default: one per core]")
@click.option("--seed", type=int, help="Of inputs, coins, worlds and deaths. Noise has none: it is the agent's own.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def audit(**flags: Any) -> int:
    """Try to refute the privacy that an algorithm claims.

    Many runs of a real agent on two inputs that differ in one reward, 0 or 1; everything that it publishes, byte by
    byte, and every arm it pulls is looked at for an event that tells them apart better than e^ε allows. Which trial it
    is and what the other rewards are is drawn for each run. Events are chosen on one half of the runs and tested on the
    other, so a verdict of `violated` is a proof at the p-value given; `holds` means that nothing was found, and `cannot
    tell` that so many runs could not have refuted the claim. Anything that is noised twice is a violation.

    \b
    agentd audit                                  sealed, against a neighbour that steers
    agentd audit --algorithm private-ucb          the paper's algorithm: its counts give rewards away
    agentd audit --fault half-noise --runs 4000   what a mistake looks like
    agentd audit --coupling --worlds 10000        exactly, in random worlds; any policy that claims privacy
    agentd audit --sampler                        the noise itself, exactly
    agentd audit --all                            everything, some minutes

    Exit code 0: holds, identical, exact (with --all: everything as expected); 1: violated, differs, or not as expected;
    3: cannot tell.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    seed, processes, as_json = flags.pop("seed"), flags.pop("processes"), flags.pop("as_json")
    chosen = {name: flags.pop(name) for name in ("coupling", "sampler", "everything")}
    worlds, first_world, kill = flags.pop("worlds"), flags.pop("first_world"), flags.pop("kill")
    runs = flags.pop("runs")
    runs = runs if runs is not None else REAL_DEATHS if kill and not chosen["everything"] else RUNS
    case = _case(seed=secrets.randbits(63) if seed is None else seed, kill=kill, **flags)
    if not chosen["coupling"] and (worlds is not None or first_world is not None):
        raise SettingsError("--worlds and --first-world are about --coupling")
    worlds, first_world = WORLDS if worlds is None else worlds, first_world or 0
    _require(case, runs, processes, worlds, first_world, chosen)
    with workers(processes or default_processes()) as team:
        if chosen["everything"]:
            return _all(case, runs, team, as_json=as_json)
        if chosen["coupling"]:
            return _couple(case, worlds, first_world, team, as_json=as_json)
        if chosen["sampler"]:
            return _sampler(case.fault, as_json=as_json)
        with progress("audit", len(blocks(case, 1, runs, real=kill)), quiet=as_json) as advance:
            verdict = examine(case, runs, team, advance, real=kill)
    click.echo(_json(verdict.to_json()) if as_json else statistics_report(verdict))
    return EXIT_CODES[verdict.word]


def _case(*, trials: int | None, kill: bool, restart: bool, fault: str | None, **flags: Any) -> Case:
    """The case that the flags describe; a fault that shows in restarts only gets restarts."""
    return Case(trials=trials or 0, restart=restart or kill or fault == "redrawn-noise", fault=fault, **flags)


def _require(  # noqa: PLR0917
    case: Case, runs: int, processes: int | None, worlds: int, first_world: int, chosen: dict[str, bool]
) -> None:
    faults = []
    if not (case.epsilon > 0 and math.isfinite(case.epsilon)):
        faults.append(f"--epsilon must be positive and finite, got {case.epsilon:g}")
    if not 2 <= case.arms <= MAX_ARMS:
        faults.append(f"--arms must be in 2…{MAX_ARMS}, got {case.arms}")
    if runs < _LEAST_RUNS:
        faults.append(f"--runs must be at least {_LEAST_RUNS}, got {runs}: fewer prove nothing")
    if case.trials < 0 or (processes is not None and processes < 1):
        faults.append("--trials and --processes must be positive")
    if worlds < 1 or first_world < 0:
        faults.append("--worlds must be positive, and --first-world a number from 0 on")
    if not 0 <= case.seed < SEED_LIMIT:
        faults.append(f"--seed must be in [0, 2^64), got {case.seed}")
    if case.fault is not None and case.algorithm != "sealed":
        faults.append("--fault plants mistakes into sealed; leave --algorithm out")
    if sum(chosen.values()) > 1:
        faults.append("--all, --coupling and --sampler are three things to do; choose one")
    faults += _faults_of_algorithm(case, chosen)
    if faults:
        raise SettingsError("; ".join(faults))


def _faults_of_algorithm(case: Case, chosen: dict[str, bool]) -> list[str]:
    """Why an algorithm cannot be audited so, if it cannot."""
    algorithm = ALGORITHMS.get(case.algorithm)
    if algorithm is None:
        known = ", ".join(name for name, each in ALGORITHMS.items() if is_coupled(each))
        return [
            f"no algorithm {case.algorithm!r}; those that claim privacy are {known}, and AGENTD_PLUGINS brings more"
        ]
    if not is_coupled(algorithm):
        return [f"{case.algorithm} claims no privacy: there is nothing to refute"]
    if chosen["sampler"] and case.fault is not None and case.fault not in SOURCE_FAULTS:
        return [f"the source of noise has no {case.fault}; it has {', '.join(SOURCE_FAULTS)}"]
    if not any(chosen.values()) and case.algorithm not in auditable():
        return [f"no statistics can read what {case.algorithm} says; audit it with --coupling"]
    return []


def _couple(case: Case, worlds: int, first_world: int, team: Workers, *, as_json: bool) -> int:
    with progress(f"worlds, {PORTION} at a time", portions(worlds), quiet=as_json) as advance:
        equality = couple(
            case.algorithm, worlds, team, advance, seed=case.seed, first_world=first_world, fault=case.fault
        )
    passed = equality.verdict == "identical" and case.fault is None
    recorded = passed and record_pass(ALGORITHMS[case.algorithm], worlds)
    if as_json:
        click.echo(_json(equality.to_json() | {"recorded": recorded}))
    else:
        click.echo(coupling_report(equality))
        if recorded:
            click.echo(f"from now on your summaries call {case.algorithm}, as it is now, private by this test")
    return EXIT_CODES[equality.verdict]


def _sampler(fault: str | None, *, as_json: bool) -> int:
    faults = [*sampler_faults(), *source_faults(partial(source_of, fault))]
    word = "differs" if faults else "exact"
    click.echo(_json({"verdict": word, "fault": fault, "faults": faults}) if as_json else sampler_report(fault, faults))
    return EXIT_CODES[word]


class Line(NamedTuple):
    """One line of the matrix."""

    name: str
    expected: str
    word: str
    wall_s: float
    seen: str
    details: dict[str, Any]


def _all(case: Case, runs: int, team: Workers, *, as_json: bool) -> int:
    """The whole matrix; 1 if anything is other than expected."""
    entries, coupled = matrix(case.epsilon, case.seed), couplings()
    total = sum(len(blocks(entry.case, 1, entry.runs(runs), real=entry.real)) for entry in entries)
    total += sum(portions(each.worlds) for each in coupled)
    found: list[dict[str, Any]] = []
    with progress("audit", total, quiet=as_json) as advance:
        for title, lines in (
            ("the noise, exactly", _noise_lines()),
            ("statistics", _statistics_lines(entries, runs, team, advance)),
            ("coupling", _coupling_lines(coupled, case.seed, team, advance)),
        ):
            if not as_json:
                click.echo(f"{title:<28}{HEAD}")
            for told in lines:
                as_expected = told.word == told.expected
                found.append({"name": told.name, "by": title, "expected": told.expected, "as_expected": as_expected})
                found[-1] |= {"verdict": told.word, **told.details}
                if not as_json:
                    click.echo(line(*told[:-1]))
    if as_json:
        click.echo(_json({"entries": found}))
    return int(not all(entry["as_expected"] for entry in found))


def _noise_lines() -> Iterator[Line]:
    for fault, expected in sources():
        started = time.perf_counter()
        faults = [] if fault else sampler_faults()
        faults += source_faults(partial(source_of, fault))
        seen = faults[0] if faults else "every probability and every draw"
        word = "differs" if faults else "exact"
        yield Line(
            fault or "the noise as it is", expected, word, time.perf_counter() - started, seen, {"faults": faults}
        )


def _statistics_lines(entries: list[Entry], runs: int, team: Workers, advance: Advance) -> Iterator[Line]:
    for entry in entries:
        verdict = examine(entry.case, entry.runs(runs), team, advance, real=entry.real)
        seen = seen_by_statistics(verdict)
        yield Line(entry.name, entry.expected, verdict.word, verdict.wall_s, seen, verdict.to_json())


def _coupling_lines(coupled: list[Coupled], seed: int, team: Workers, advance: Advance) -> Iterator[Line]:
    for name, algorithm, fault, worlds, expected in coupled:
        enough = fault is not None
        told = couple(algorithm, worlds, team, advance, seed=seed, fault=fault, one_is_enough=enough)
        for _ in range(portions(worlds) - portions(told.worlds)):
            advance()
        yield Line(name, expected, told.verdict, told.wall_s, seen_by_coupling(told), told.to_json())


def _json(told: dict[str, Any]) -> str:
    return json.dumps(finite(told), ensure_ascii=False)
