"""What there is to say about a testbed, for people and for programs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from agentd.runs.blamed import Neighbours, blamed_lines
from agentd.runs.status import Status, read_status
from agentd.untrusted import printable, read_in, read_json_in, require_few
from deploy.plan.names import agent_name
from deploy.testbed.display import clock
from deploy.testbed.registry import State, Testbed
from topology.node_link import parse
from topology.validation import TopologyError

_IN_COLUMNS = ("name", "pid", "running")


def processes(testbed: Testbed) -> list[dict[str, Any]]:
    """Every process of a testbed, the supervisor first."""
    running = testbed.running()
    marks = {"supervisor": testbed.supervisor, **testbed.children}
    return [
        {
            "name": name,
            "pid": mark.pid,
            "running": testbed.is_supervised() if name == "supervisor" else name in running,
            **mark.more(),
        }
        for name, mark in marks.items()
    ]


def describe(testbed: Testbed) -> dict[str, Any]:
    """How a testbed is doing."""
    status = read_status(testbed.run_dir)
    down = who_is_down(testbed, status)
    return {
        "run": testbed.run,
        "run_dir": str(testbed.run_dir),
        "state": state_of(testbed),
        "agents": testbed.agents,
        "down": down,
        "silent": status.silent() if status and testbed.is_running() else {},
        "round": status.round(but=down) if status else 0,
        "rounds": status.rounds if status else None,
        "group_regret": status.group_regret if status else 0.0,
        "messages": status.messages if status else 0,
        "dropped": status.dropped if status else 0,
        "blamed": status.blamed() if status else {},
        "pulls": status.pulls if status else 0,
        "pulls_per_s": status.pulls_per_s if status and testbed.is_running() else 0.0,
        "age_s": round(time.time() - testbed.created, 3),
        "summary": _summary(testbed),
    }


def state_of(testbed: Testbed) -> str:
    """Its state, as it is and not only as it was written down last."""
    if testbed.state is State.ENDED or testbed.is_supervised():
        return str(testbed.state)
    return "without supervisor" if testbed.running() else "crashed"


def who_is_down(testbed: Testbed, status: Status | None) -> list[int]:
    """Agents of a running testbed that do not run and were not done."""
    if not testbed.is_running():
        return []
    running = testbed.running()
    done = {agent.id for agent in status.agents if agent.done} if status else set()
    started = (agent for agent in range(testbed.agents) if agent_name(agent) in testbed.children)
    return [agent for agent in started if agent_name(agent) not in running and agent not in done]


def status_text(about: dict[str, Any]) -> str:
    """A description for people."""
    rounds = f" of {about['rounds']:,}" if about["rounds"] else ""
    lines = [
        f"run directory   {about['run_dir']}",
        f"state           {about['state']}, {clock(about['age_s'])} old",
        f"agents          {about['agents']}, down: {', '.join(map(str, about['down'])) or 'nobody'}",
        *([f"silent          {_silent(about['silent'])}"] if about["silent"] else []),
        f"round           {about['round']:,}{rounds}",
        f"group regret    {about['group_regret']:,.1f}",
        f"messages        {about['messages']:,}, dropped {about['dropped']:,}",
        f"pulls           {about['pulls']:,}, {about['pulls_per_s']:,.0f} per second",
    ]
    if about["blamed"]:
        said = blamed_lines(about["blamed"], _neighbours(Path(about["run_dir"])))
        lines += [f"{'' if number else 'blamed':15} {line}" for number, line in enumerate(said)]
    if (summary := about["summary"]) is not None and summary.get("failure"):
        lines.append(f"failed          {summary['failure']!s:.1000}")
    return "\n".join(map(printable, lines))


def _silent(silent: dict[int, float]) -> str:
    return ", ".join(f"agent {number} for {seconds:.0f} s" for number, seconds in silent.items())


def _neighbours(run_dir: Path) -> Neighbours | None:
    """Who is whose neighbour, if the run directory tells."""
    try:
        content = read_in(run_dir, "topology.json")
        require_few(content)
        graph = parse(content)
    except (OSError, ValueError, TopologyError):
        return None
    return {agent: graph.neighbours(agent) for agent in range(graph.nodes)}


def processes_text(testbed: Testbed) -> str:
    """The processes of a testbed for people."""
    rows = [f"{printable(str(testbed.run_dir))}  ({state_of(testbed)})", "     PID  NAME"]
    for entry in processes(testbed):
        more = "".join(f"  {name} {value[:12]}" for name, value in entry.items() if name not in _IN_COLUMNS)
        rows.append(f"{entry['pid']:8}  {entry['name']}{more}{'' if entry['running'] else '  (ended)'}")
    return "\n".join(rows)


def _summary(testbed: Testbed) -> dict[str, Any] | None:
    try:
        content = read_json_in(testbed.run_dir, "summary.json")
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
