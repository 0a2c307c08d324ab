"""agentd check: play worlds of faults, each from a seed, and look for what must not happen."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click

from agentd.check.drawing import draw
from agentd.check.oracle.violation import Violation
from agentd.check.planted_bugs import BUGS, planted
from agentd.check.replay import read_script, write_script
from agentd.check.seeds import Verdict, judge_all, play_once
from agentd.check.shrink import Shrunk, shrink
from agentd.cli.options import FROM_ENVIRONMENT
from agentd.cli.progress import jobs_option, progress
from agentd.errors import SettingsError

SEEDS = 300
MOST_SHRUNK = 3
"""Failing seeds that are made small; the others are named."""
LAST_LINES = 30
"""Of a story that are shown."""
MOST_SEEDS = 10_000_000


@click.command(context_settings=FROM_ENVIRONMENT)
@click.option("--seeds", type=int, default=SEEDS, show_default=True, help="How many worlds to play.")
@click.option("--first-seed", type=int, default=0, show_default=True, help="The seed of the first one.")
@jobs_option
@click.option("--replay", "script", metavar="FILE", help="Play the world of a script again instead.")
@click.option("--out", default=".", show_default=True, metavar="DIR", help="Where scripts of failing worlds go.")
@click.option("--plant", "bug", type=click.Choice(list(BUGS)), help="Plant a bug, to see it found.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def check(script: str | None, bug: str | None, *, as_json: bool, **flags: Any) -> int:
    """Play worlds of faults, and look for what must not happen.

    Each seed draws a small world: a graph, algorithms, liars, hostile neighbours, and what befalls them when: loss,
    duplication, reordering, delay, cuts, pauses, deaths at every place of the work with and without state, restored
    copies, slow and full disks, restarts of the environment, skewed clocks. The daemons and the environment in it are
    the real ones, but for sockets and clocks. At every step an oracle that sees everything compares what they do with
    what must be true.

    A seed that fails is made small and written to a file, which plays the same again, bit for bit.

    \b
    agentd check --seeds 10000           some minutes
    agentd check --replay check-17.json  what was wrong with seed 17
    agentd check --plant noise-again     what a bug looks like

    Exit code 0: everything held; 1: something did not.
    """  # noqa: D301 - click looks for the character \b, which a raw string does not have
    if script is not None:
        return _replay(Path(script), bug, as_json=as_json)
    seeds, first, jobs = flags["seeds"], flags["first_seed"], flags["jobs"] or os.cpu_count() or 1
    _require(seeds, first, Path(flags["out"]))
    began_s = time.monotonic()
    verdicts = []
    with progress("check", seeds, quiet=as_json) as advance:
        for verdict in judge_all(first, seeds, jobs, bug):
            verdicts.append(verdict)
            if verdict.invariant and not as_json:  # long before the end, which may be hours away
                click.echo(f"seed {verdict.seed} fails: {verdict.what}", err=True)
            advance()
    failed = sorted(verdict for verdict in verdicts if verdict.invariant)
    scripts = {}
    for verdict in failed[:MOST_SHRUNK]:
        shrunk = _shrink(verdict, bug, quiet=as_json)
        scripts[verdict.seed] = path = Path(flags["out"]) / f"check-{verdict.seed}.json"
        write_script(path, shrunk.world, shrunk.violation, bug)
        if not as_json:
            click.echo(_story(verdict, shrunk, path))
    _tell(verdicts, failed, scripts, time.monotonic() - began_s, as_json=as_json)
    return int(bool(failed))


def _require(seeds: int, first: int, out: Path) -> None:
    faults = []
    if not 1 <= seeds <= MOST_SEEDS:
        faults.append(f"--seeds must be in 1…{MOST_SEEDS}, got {seeds}")
    if not 0 <= first < 1 << 62:
        faults.append(f"--first-seed must be in [0, 2^62), got {first}")
    if not out.is_dir():
        faults.append(f"--out {out} is no directory; make it first")
    if faults:
        raise SettingsError("; ".join(faults))


def _shrink(verdict: Verdict, bug: str | None, *, quiet: bool) -> Shrunk:
    if not quiet:
        click.echo(f"making seed {verdict.seed} small", err=True)
    world = draw(verdict.seed)
    with planted(bug):
        violation = play_once(world)
        if violation is None:
            violation = Violation("the same seed comes out the same", f"it failed before: {verdict.what}", 0.0)
            return Shrunk(world, violation, 1)
        return shrink(world, violation)


def _story(verdict: Verdict, shrunk: Shrunk, path: Path) -> str:
    """For a person: what is wrong in the smallest world, and what led to it."""
    world = shrunk.world
    faults = ", ".join(sorted({fault.kind for fault in world.faults})) or "no fault"
    return "\n".join(
        [
            f"seed {verdict.seed}: {verdict.what}",
            f"  in the smallest world: {shrunk.violation}",
            f"  {world.agents} agents, {len(world.edges)} edges, γ = {world.gamma}, {world.rounds} rounds, {faults}",
            *(f"  {line}" for line in shrunk.violation.story[-LAST_LINES:]),
            f"  play it again: agentd check --replay {path}",
            "",
        ]
    )


def _tell(
    verdicts: list[Verdict], failed: list[Verdict], scripts: dict[int, Path], wall_s: float, *, as_json: bool
) -> None:
    there = Counter(name for verdict in verdicts for name in verdict.contents)
    if as_json:
        content = {
            "seeds": len(verdicts),
            "failed": [
                {"seed": v.seed, "invariant": v.invariant, "what": v.what, "script": _text(scripts.get(v.seed))}
                for v in failed
            ],
            "worlds_with": dict(sorted(there.items())),
            "wall_s": round(wall_s, 3),
        }
        click.echo(json.dumps(content, ensure_ascii=False))
        return
    click.echo(f"{len(verdicts)} worlds in {wall_s:.0f} s, {len(failed)} failed; how many had what:")
    columns = [f"{name} {count}" for name, count in there.most_common()]
    for start in range(0, len(columns), 4):
        click.echo("  " + "".join(f"{column:<30}" for column in columns[start : start + 4]).rstrip())
    for verdict in failed[MOST_SHRUNK:]:
        click.echo(f"seed {verdict.seed} fails, too: {verdict.what}")


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _replay(path: Path, bug: str | None, *, as_json: bool) -> int:
    world, fails = read_script(path)
    planted_then = fails.get("planted")
    if planted_then is not None and planted_then not in BUGS:
        raise SettingsError(f"{path} was made with a bug {planted_then!r} that nobody knows")
    with planted(bug or planted_then):
        violation = play_once(world)
    what = str(violation) if violation is not None else "everything holds"
    if as_json:
        found = {"invariant": violation.invariant, "what": what} if violation is not None else None
        click.echo(json.dumps({"script": str(path), "failed": found}, ensure_ascii=False))
    else:
        click.echo("\n".join([*(violation.story[-LAST_LINES:] if violation is not None else ()), what]))
    return int(violation is not None)
