"""Runs from a program: in memory, or of real processes on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from agentd.api.policies import named, where_it_stands
from agentd.api.results import Run, load_run, run_of
from agentd.core.policy.knobs import flag_of
from agentd.errors import AgentdError, SettingsError
from agentd.experiment.played_beside import play_beside
from agentd.plugins import VARIABLE, entries
from agentd.runs.scenario import make_scenario
from agentd.runs.summary import manifest, summarise
from agentd.settings import TestbedSettings, as_typed
from agentd.simulation.either_engine import needs_agents
from agentd.simulation.engine import run_vector
from agentd.simulation.network import run_agents
from agentd.simulation.traffic import count_bytes

_LONGEST_COMPLAINT = 500


def simulate(
    *, algorithm: str | type = "sealed", engine: str | None = None, yardstick: bool = True, **settings: Any
) -> Run:
    """Run a testbed in memory: what `agentd simulate` does, without a directory.

    `settings` are those of the command, with underscores: agents, edge_probability, rounds, gamma, epsilon, arms,
    random_arms, seed and so on. `algorithm` is a name, `mine.py:MyPolicy`, or a class. `engine` is "vector" or
    "agents"; by default the first where it knows the algorithm. With a seed the same settings give the same pulls.
    `yardstick` simulates the references of `summary["yardstick"]`, too; without, a loop over many runs is faster.
    """
    scenario = make_scenario(_settings(algorithm, settings))
    spec = scenario.spec
    chosen = engine or ("agents" if needs_agents(spec) else "vector")
    if chosen not in ("vector", "agents"):
        raise SettingsError(f'engine must be "vector" or "agents", got {engine!r}')
    started = time.perf_counter()
    if chosen == "agents":
        outcome = run_agents(scenario.spec)
    else:
        outcome = run_vector([scenario.spec])[0]
        outcome.bytes = count_bytes(scenario.spec, outcome.sent)
    summary = summarise(scenario, outcome, time.perf_counter() - started, simulated=True)
    beside = play_beside(scenario.spec, outcome.arm) if yardstick else None
    if beside is not None:
        summary["yardstick"] = beside.to_json()
    return run_of(
        outcome.arm,
        outcome.reward,
        means=scenario.spec.arms.means,
        summary=summary,
        manifest=manifest(scenario, f"simulate/{chosen}"),
        references=beside.curves if beside is not None else None,
    )


def run(*, algorithm: str | type = "sealed", run_dir: str | Path | None = None, **settings: Any) -> Run:
    """Run a testbed of real processes on this machine, as `agentd up` does, and wait for its end.

    Settings as for `simulate`; the run directory is `run_dir`, or a temporary one that is gone afterwards. A class is
    loaded again in every agent, from the file that it stands in.
    """
    name = named(algorithm)
    chosen = _settings(name, settings)
    environment = os.environ | {VARIABLE: ",".join(dict.fromkeys([*entries(), *where_it_stands(algorithm)]))}
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(run_dir) if run_dir is not None else Path(temporary) / "run"
        words = [sys.executable, "-m", "agentd", "up", "--json", "--run-dir", str(place), *_flags(chosen)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        if done.returncode:
            raise AgentdError(done.stderr.strip()[-_LONGEST_COMPLAINT:] or f"agentd up ended with {done.returncode}")
        finished = load_run(place)
    summary = {**finished.summary, **json.loads(done.stdout)}
    kept = finished.path if run_dir is not None else None
    return Run(finished.arm, finished.reward, finished.means, summary, finished.manifest, kept)


def _settings(algorithm: str | type, settings: dict[str, Any]) -> TestbedSettings:
    known = {one.name for one in fields(TestbedSettings)}
    if unknown := sorted(set(settings) - known):
        raise SettingsError(f"there is no setting {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    typed: dict[str, Any] = {name: str(value) if name == "gamma" else value for name, value in settings.items()}
    if "arms" in typed:
        typed["arms"] = tuple(float(mean) for mean in typed["arms"])
    return TestbedSettings(algorithm=named(algorithm), **typed)


def _flags(settings: TestbedSettings) -> list[str]:
    """The settings as they are typed; what is as it always is goes without saying."""
    words: list[str] = []
    usual = TestbedSettings()
    for one in fields(TestbedSettings):
        value = getattr(settings, one.name)
        if value == getattr(usual, one.name) and one.name != "algorithm":
            continue
        if one.name == "policies":
            words += [word for agent, each in value.items() for word in (flag_of(one), f"{agent}={each}")]
        elif isinstance(value, bool):
            words.append(flag_of(one))
        else:
            words += [flag_of(one), as_typed(value)]
    return words
