"""Multi-agent runs as text: a script above the line, what came of it below.

A script is one setting per line; `graph` takes edges (0-1), `crash` an agent, the round it goes down and the round it
is back, if ever (2@5-9, with `lost-state` where it comes back without), `partition` one side and its rounds (0,1@5-9).
Below the line stand, round by round, the arms (- for an agent that is down), how many messages each agent counted,
what it dropped and what happened; then for every agent what it knows: N per arm, its own pulls included, and how many
messages of which origin it counted.

`pytest tests/scenarios --record-scenarios` writes the lower parts anew. Read the diff before keeping it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from small_runs import Overheard, network, spec

from agentd.core.agent import Agent
from agentd.core.policy.byzantine_ucb import ByzantineUcb
from agentd.core.policy.sealed import Sealed
from agentd.runs.regret import group_regret
from agentd.runs.spec import RunSpec
from agentd.simulation import network as in_memory
from agentd.simulation.network import InMemoryNetwork
from agentd.simulation.network_faults import Crash, Faults, Partition

HERE = Path(__file__).parent
LINE = "----\n"
SCRIPTS = sorted(HERE.glob("*.txt"))

_NUMBERS = {"rounds": int, "gamma": int, "seed": int, "epsilon": float, "contamination": float, "refresh": int}
_FAULTS = {"loss": float, "duplication": float, "delay": int}


@dataclass
class Script:
    """A run and its faults, as read."""

    edges: list[tuple[int, int]] = field(default_factory=list)
    run: dict[str, Any] = field(default_factory=lambda: {"overrides": {}})
    faults: dict[str, Any] = field(default_factory=lambda: {"crashes": (), "partitions": ()})

    @classmethod
    def read(cls, text: str) -> Script:
        script = cls()
        for row in text.splitlines():
            setting, _, value = row.partition(" ")
            if setting and not row.startswith("#"):
                script._take(setting, value)
        return script

    def _take(self, setting: str, value: str) -> None:
        if setting == "graph":
            self.edges = [(int(one), int(other)) for one, other in (edge.split("-") for edge in value.split())]
        elif setting in ("algorithm", "attack", "reward"):
            self.run[setting] = value
        elif setting in _NUMBERS:
            self.run[setting] = _NUMBERS[setting](value)
        elif setting == "arms":
            self.run["means"] = tuple(float(mean) for mean in value.split())
        elif setting == "liars":
            self.run["liars"] = [int(agent) for agent in value.split()]
        elif setting == "policy":
            agent, name = value.split("=")
            self.run["overrides"][int(agent)] = name
        else:
            self._take_fault(setting, value)

    def _take_fault(self, setting: str, value: str) -> None:
        if setting in _FAULTS:
            self.faults["max_delay" if setting == "delay" else setting] = _FAULTS[setting](value)
        elif setting == "reorder":
            self.faults["reorder"] = True
        elif setting == "crash":
            when, _, how = value.partition(" ")
            agent, at, back = _when(when)
            self.faults["crashes"] += (Crash(int(agent), at, back, keeps_state=how != "lost-state"),)
        elif setting == "partition":
            side, at, heals = _when(value)
            self.faults["partitions"] += (Partition(frozenset(int(one) for one in side.split(",")), at, heals),)
        else:
            raise ValueError(f"no scenario has a setting {setting!r}")

    @property
    def spec(self) -> RunSpec:
        nodes = 1 + max(max(edge) for edge in self.edges)
        return spec(network(nodes, self.edges), **self.run)


def _when(text: str) -> tuple[str, int, int]:
    """Read who@from-until."""
    who, _, rounds = text.partition("@")
    first, _, last = rounds.partition("-")
    return who, int(first), int(last or 0)


class Recorder:
    """Runs a script and writes down what happens."""

    def __init__(self, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
        self.overheard: dict[int, Overheard] = {}
        make_agent = in_memory.make_agent

        def listening(run: RunSpec, own: int, **state: int) -> Agent:
            agent = make_agent(run, own, **state)
            self.overheard[own] = Overheard(agent)
            return agent

        monkeypatch.setattr(in_memory, "make_agent", listening)
        self.net = InMemoryNetwork(script.spec, Faults(**script.faults))

    def record(self) -> str:
        rows = [self._round() for _ in range(self.net.spec.rounds)]
        rows += [self._agent(agent) for agent in self.net.agents]
        return "\n".join([*rows, self._sums()]) + "\n"

    def _round(self) -> str:
        before = [(agent, agent.trial, agent.heard, agent.dropped) for agent in self.net.agents]
        self.net.step()
        arms, heard, dropped = [], [], []
        for now, (agent, trial, known, lost) in zip(self.net.agents, before, strict=True):
            same = now is agent
            arms.append(str(self.net.outcome.arm[now.own, now.trial - 1]) if now.trial > trial else "-")
            heard.append(f"{now.heard - (known if same else 0)}")
            dropped += [f"{now.own}:{_counted(more)}" for more in [now.dropped - (lost if same else Counter())] if more]
        row = f"round {self.net.round:2}  arms {' '.join(arms)}  heard {' '.join(heard)}"
        row += f"  dropped {' '.join(dropped)}" if dropped else ""
        return row + "".join(f"  | {event}" for at, event in self.net.outcome.events if at == self.net.round)

    def _agent(self, agent: Agent) -> str:
        per_origin = Counter(origin for origin, _ in self.overheard[agent.own].counted.elements())
        told = " ".join(f"{origin}×{number}" for origin, number in sorted(per_origin.items())) or "nobody"
        row = f"agent {agent.own}  N {' '.join(map(str, known_pulls(agent)))}  from {told}"
        row += f"  redundant {_counted(agent.redundant)}" if agent.redundant else ""
        return row + (f"  dropped {_counted(agent.dropped)}" if agent.dropped else "")

    def _sums(self) -> str:
        outcome, means = self.net.finish(), self.net.spec.arms.means
        pulls = [int((outcome.arm == arm).sum()) for arm in range(len(means))]
        regret = group_regret(outcome.arm, means)
        return f"group  regret {regret:.2f}  pulls {' '.join(map(str, pulls))}  messages {outcome.messages}"


def _counted(reasons: Counter[str]) -> str:
    return ",".join(f"{reason}×{number}" for reason, number in sorted(reasons.items()))


def known_pulls(agent: Agent) -> list[int]:
    """N per arm: the pulls an agent's index stands on, its own and the others'."""
    policy: Any = agent.policy
    if isinstance(policy, ByzantineUcb):
        return [halves.size for halves in policy._samples]
    if isinstance(policy, Sealed):  # what was released, by itself and by others
        return [own.pulls + int(policy._pool.held[:, arm, 0].sum()) for arm, own in enumerate(policy._own)]
    others = policy._pool.counts if hasattr(policy, "_pool") else [0] * len(policy._counts)
    return [own + heard for own, heard in zip(policy._counts, others, strict=True)]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_scenario_comes_out_as_recorded(
    path: Path, record_scenarios: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = path.read_text(encoding="utf-8")
    script, _, recorded = text.partition(LINE)
    found = Recorder(Script.read(script), monkeypatch).record()
    if record_scenarios:
        path.write_text(script + LINE + found, encoding="utf-8")
    else:
        assert found == recorded


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_in_no_scenario_is_anything_counted_twice_or_beyond_its_ball(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script.read(path.read_text(encoding="utf-8").partition(LINE)[0])
    recorder = Recorder(script, monkeypatch)
    recorder.record()
    run = recorder.net.spec
    for receiver, overheard in recorder.overheard.items():
        assert set(overheard.counted.values()) <= {1}
        assert all(1 <= run.network.distances[origin, receiver] <= run.gamma for origin, _ in overheard.counted)


def test_the_scenarios_are_found() -> None:
    assert len(SCRIPTS) >= 12


def test_a_setting_that_no_scenario_has_is_refused() -> None:
    with pytest.raises(ValueError, match="no scenario has a setting 'los'"):
        Script.read("los 0.5\n")


def test_a_script_is_read_as_it_is_written() -> None:
    script = Script.read(
        "# what\n\ngraph 0-1 1-2\nloss 0.5\nreorder\ncrash 2@5\ncrash 1@3-4 lost-state\npartition 0,1@2-9\n"
    )
    assert script.edges == [(0, 1), (1, 2)]
    assert Faults(**script.faults) == Faults(
        loss=0.5,
        reorder=True,
        crashes=(Crash(2, 5), Crash(1, 3, 4, keeps_state=False)),
        partitions=(Partition(frozenset({0, 1}), 2, 9),),
    )
    assert script.spec.network.agents == 3
