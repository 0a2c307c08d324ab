"""Faults on purpose: what can be done to the agents of a running testbed, and how it is written down.

What befalls a process (kill, pause, restart) is done by its runtime (`Runtime.control`): signals, or Docker.
What befalls the links (cuts, delay, loss) is the same everywhere: agents read it from a file in the run directory and
inject it into their own links (`agentd.shell.link_faults`). That needs no privileges and no support in the kernel.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentd.errors import ConfigurationError, SettingsError
from agentd.files import FILE, PUBLIC, replace_text
from agentd.runs import fault_log
from agentd.runs.fault_log import Fault
from agentd.runs.status import read_status
from agentd.shell.link_faults import MAX_CUTS, MAX_DELAY_MS, LinkFaults, Side, agents_text, read_faults, sides_text
from deploy.plan.names import ENVIRONMENT, agent_name, agent_of
from deploy.plan.plan import LINK_FAULTS
from deploy.testbed import registry
from deploy.testbed.registry import Testbed
from deploy.testbed.runtime import AgentControl, find_runtime

_LOOK_EVERY_S = 0.2


class Chaos:
    """Does things to one running testbed, and writes down each of them."""

    def __init__(self, testbed: Testbed, control: AgentControl | None = None) -> None:
        if not testbed.is_running():
            raise ConfigurationError(f"no testbed is running in {testbed.run_dir}; see agentd ps")
        self._testbed = testbed
        self._control = control if control is not None else find_runtime(testbed.runtime).control(testbed)

    def to_agents(self, verb: str, agents: Side) -> list[dict[str, Any]]:
        """Kill, restart, pause, resume, disconnect or reconnect agents, one after the other."""
        self.require(agents)
        done = []
        met: set[int] = set()
        for agent in sorted(agents):
            if agent in met:
                continue
            together = self._sharing(agent)
            met |= {*together}
            getattr(self._control, verb)(agent)
            also = f", with all {len(together)} agents of its process" if len(together) > 1 else ""
            fault = Fault(verb, f"{agent_name(agent)} {_PAST[verb]}{also}", together)
            done.append(self._recorded(fault) if verb in self._control.writes_down else self._record(fault))
        return done

    def _sharing(self, agent: int) -> tuple[int, ...]:
        """The agents that share a process with this one, and itself: what befalls one of them befalls all."""
        children = {name: mark for name, mark in self._testbed.children.items() if name != ENVIRONMENT}
        mark = children.get(agent_name(agent))
        together = [agent_of(name) for name, each in children.items() if mark is not None and each == mark]
        return tuple(sorted(together)) or (agent,)

    def partition(self, sides: tuple[Side, ...]) -> list[dict[str, Any]]:
        """Cut the links between the sides."""
        self.require(frozenset().union(*sides))
        self._change(lambda now: replace(now, cuts=(*now.cuts, sides)))
        everybody = tuple(sorted(frozenset().union(*sides)))
        text = sides_text(sides)
        return [self._record(Fault("partition", f"partition {text}", everybody, {"cut": text}))]

    def heal(self, sides: tuple[Side, ...] | None = None) -> list[dict[str, Any]]:
        """End one cut, or every fault of every link."""
        if sides is None:
            self._change(lambda now: LinkFaults(liars=now.liars))
            return [self._record(Fault("heal", "links healed"))]
        self._change(lambda now: replace(now, cuts=_without(now.cuts, sides)))
        return [self._record(Fault("heal", f"healed {sides_text(sides)}", parameters={"cut": sides_text(sides)}))]

    def delay(self, agents: Side, ms: float) -> list[dict[str, Any]]:
        """Hold back what these agents say and hear; 0 ends it."""
        self.require(agents)
        if not 0.0 <= ms <= MAX_DELAY_MS:  # which refuses NaN, too
            raise SettingsError(f"--ms must be a number of milliseconds in 0…{MAX_DELAY_MS:g}, got {ms}")
        self._change(lambda now: replace(now, delay_ms=_changed(now.delay_ms, agents, ms)))
        what = f"{_named(agents)}: {f'delay {ms:g} ms' if ms else 'no delay'}"
        return [self._record(Fault("delay", what, tuple(sorted(agents)), {"ms": ms}))]

    def loss(self, agents: Side, rate: float) -> list[dict[str, Any]]:
        """Lose this share of the frames these agents say and hear; 0 ends it."""
        self.require(agents)
        if not 0.0 <= rate <= 1.0:
            raise SettingsError(f"--rate must be a share of the frames in 0…1, got {rate}")
        self._change(lambda now: replace(now, loss=_changed(now.loss, agents, rate)))
        what = f"{_named(agents)}: {f'loss {rate:g}' if rate else 'no loss'}"
        return [self._record(Fault("loss", what, tuple(sorted(agents)), {"rate": rate}))]

    def lie(self, agents: Side, *, lies: bool) -> list[dict[str, Any]]:
        """Let these agents lie in everything that they tell, or be what they were before."""
        self.require(agents)
        self._change(lambda now: replace(now, liars=now.liars | agents if lies else now.liars - agents))
        what = f"{_named(agents)}: {'made to lie' if lies else 'honest again'}"
        return [self._record(Fault("lie" if lies else "honest", what, tuple(sorted(agents))))]

    def active(self) -> LinkFaults:
        """What is injected into the links now."""
        return read_faults(self._testbed.run_dir / LINK_FAULTS)

    def require(self, agents: Iterable[int]) -> None:
        """Refuse agents that the testbed does not have."""
        last = self._testbed.agents - 1
        if missing := [agent for agent in agents if agent > last]:
            raise SettingsError(f"there is no agent {min(missing)}: the agents of this testbed are numbered 0…{last}")

    def wait(self, seconds: float) -> None:
        """Let time pass, but not beyond the end of the testbed."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0 and self.is_running():
            time.sleep(min(left_s, _LOOK_EVERY_S))

    def is_running(self) -> bool:
        """Whether the testbed still runs."""
        return registry.read(self._testbed.run_dir).is_running()

    def _change(self, change: Callable[[LinkFaults], LinkFaults]) -> None:
        path = self._testbed.run_dir / LINK_FAULTS
        if not path.parent.is_dir():
            raise ConfigurationError(f"the agents in {self._testbed.run_dir} were started without faults in mind")
        lock = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two operators at once: one after the other
            _write(path, change(_read(path)))
        finally:
            os.close(lock)

    def _record(self, fault: Fault) -> dict[str, Any]:
        run_dir = self._testbed.run_dir
        return fault_log.append(run_dir, fault_log.current_round(read_status(run_dir)), fault)

    def _recorded(self, fault: Fault) -> dict[str, Any]:
        """What the supervisor wrote down of it."""
        found = [one for one in fault_log.read_faults(self._testbed.run_dir) if one.get("verb") == fault.verb]
        return found[-1] if found else {"verb": fault.verb, "what": fault.what, "agents": list(fault.agents)}


_PAST = {
    "kill": "killed",
    "restart": "restarted",
    "pause": "paused",
    "resume": "resumed",
    "disconnect": "disconnected",
    "reconnect": "reconnected",
}


def _read(path: Path) -> LinkFaults:
    try:
        return read_faults(path)
    except ValueError as fault:
        raise ConfigurationError(f"{path} is damaged: {fault}; remove it and say again what you want") from None


def _write(path: Path, wanted: LinkFaults) -> None:
    if len(wanted.cuts) > MAX_CUTS:
        raise SettingsError(f"there are {MAX_CUTS} cuts already; end them first: agentd chaos heal")
    try:
        # Agents in containers are another user; who made their testbed has opened the directory for them.
        shared = path.parent.stat().st_mode & stat.S_IROTH
        replace_text(path, json.dumps(wanted.to_json()) + "\n", mode=PUBLIC if shared else FILE)
    except OSError as fault:
        raise ConfigurationError(f"cannot write {path}: {fault.strerror}") from None


def _changed(values: Any, agents: Side, value: float) -> dict[int, float]:
    kept = {agent: old for agent, old in values.items() if agent not in agents}
    return kept | dict.fromkeys(sorted(agents), value) if value else kept


def _without(cuts: tuple[tuple[Side, ...], ...], sides: tuple[Side, ...]) -> tuple[tuple[Side, ...], ...]:
    """The cuts but for the last of its kind."""
    for place in reversed(range(len(cuts))):
        if cuts[place] == sides:
            return cuts[:place] + cuts[place + 1 :]
    return cuts


def _named(agents: Side) -> str:
    return agent_name(min(agents)) if len(agents) == 1 else f"agents {agents_text(agents)}"
