"""Rounds under faults as text: a script above the line, what the rounds decided below; no clock is read.

A script is one setting per line (`graph` takes edges; `timeout`, `latency`, `work`, `rounds`, `until`, `algorithm`),
and `at SECONDS COMMAND`:

    kill A, leave A, pause A, go-on A             what happens to an agent
    back A [without-state]                        it is started again
    cut 0,1|2,3 and heal                          nothing crosses between the sides, until everything does again
    mute A B                                      what A says does not reach B, until `heal`
    slow A SECONDS                                what it says takes so much longer from now on
    loss P, duplication P, jitter SECONDS, reorder
    say A B round R [sequence S] [greeting] [goodbye] [times N]      a frame made by hand on the line from A to B

Below the line stand the decisions of each agent's rounds with their times, then for every agent how far it is, how
often it went on without somebody, its longest round, what it dropped and counted, and how its neighbours stand to it.

`pytest tests/scenarios --record-scenarios` writes the lower parts anew. Read the diff before keeping it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from small_runs import network, spec
from timed_network import Node, TimedNetwork, Timing

from agentd.wire.frame import GOODBYE, GREETING, Frame

HERE = Path(__file__).parent / "rounds"
LINE = "----\n"
SCRIPTS = sorted(HERE.glob("*.txt"))
FLAGS = {"greeting": GREETING, "goodbye": GOODBYE}


class Script:
    """A testbed and what will happen to it, as read."""

    def __init__(self, text: str) -> None:
        self.settings: dict[str, str] = {}
        self.events: list[tuple[float, list[str]]] = []
        for row in text.splitlines():
            setting, _, value = row.partition(" ")
            if setting == "at":
                when, *command = value.split()
                self.events.append((float(when), command))
            elif setting and not row.startswith("#"):
                self.settings[setting] = value

    @property
    def until_s(self) -> float:
        return float(self.settings["until"])

    def build(self) -> TimedNetwork:
        edges = [(int(one), int(other)) for one, other in (edge.split("-") for edge in self.settings["graph"].split())]
        graph = network(1 + max(max(edge) for edge in edges), edges)
        run = spec(graph, self.settings.get("algorithm", "coop-ucb"), rounds=int(self.settings["rounds"]), gamma=2)
        times = {
            f"{name}_s": float(self.settings[name]) for name in ("timeout", "latency", "work") if name in self.settings
        }
        net = TimedNetwork(run, Timing(**times))
        for when, command in self.events:
            net.at(when, lambda command=command: carry_out(net, *command))  # type: ignore[misc]
        return net


def carry_out(net: TimedNetwork, command: str, *words: str) -> None:
    """Do what a line of a script says."""
    simple = {"kill": net.kill, "leave": net.leave, "pause": net.pause, "go-on": net.resume}
    if command in simple:
        simple[command](int(words[0]))
    elif command == "back":
        net.bring_back(int(words[0]), keeps_state=words[1:] != ("without-state",))
    elif command == "cut":
        sides = [[int(one) for one in side.split(",")] for side in words[0].split("|")]
        net.cuts |= {(a, b) for one in sides for other in sides if one is not other for a in one for b in other}
    elif command == "mute":
        net.cuts.add((int(words[0]), int(words[1])))
    elif command == "heal":
        net.cuts.clear()
    elif command == "slow":
        net.slow_s[int(words[0])] = float(words[1])
    elif command in ("loss", "duplication"):
        setattr(net.weather, command, float(words[0]))
    elif command == "jitter":
        net.weather.jitter_s = float(words[0])
    elif command == "reorder":
        net.weather.reorder = True
    elif command == "say":
        say(net, *words)
    else:
        raise ValueError(f"no script has a command {command!r}")


def say(net: TimedNetwork, sender: str, receiver: str, *words: str) -> None:
    numbers = dict(pairwise(words))
    flags = sum(flag for word, flag in FLAGS.items() if word in words)
    node = net.nodes[int(sender)]
    sequence = int(numbers.get("sequence", node.sequence))
    frame = Frame(b"", int(sender), node.agent.incarnation, sequence, int(numbers["round"]), flags, (), 2)
    for _ in range(int(numbers.get("times", 1))):
        net.say(int(sender), int(receiver), frame)


def record(text: str) -> str:
    script = Script(text)
    net = script.build()
    net.run(script.until_s)
    return "".join(f"{row}\n" for row in [*decisions(net), *map(state, net.nodes)])


def decisions(net: TimedNetwork) -> Iterator[str]:
    for when, own, what in net.log:
        yield f"{when:8.3f}  {own}  {what}"


def state(node: Node) -> str:
    rounds: Any = node.rounds
    stands = " ".join(f"{n.id}:{n.standing.name.lower()}@{n.round}" for n in rounds.everybody)
    row = f"agent {node.agent.own}  round {node.agent.trial}  longest {node.longest_s:.3f}  heard {node.agent.heard}"
    row += f"  missed {rounds.dropped['missed-rounds']}  sees {stands}"
    return row + (f"  dropped {dict(sorted(rounds.dropped.items()))}" if rounds.dropped else "")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_rounds_come_out_as_recorded(path: Path, record_scenarios: bool) -> None:
    script, _, recorded = path.read_text(encoding="utf-8").partition(LINE)
    found = record(script)
    if record_scenarios:
        path.write_text(script + LINE + found, encoding="utf-8")
    else:
        assert found == recorded


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_same_script_comes_out_the_same_twice(path: Path) -> None:
    script = path.read_text(encoding="utf-8").partition(LINE)[0]
    assert record(script) == record(script)


def test_there_are_scripts_for_every_kind_of_fault() -> None:
    assert len(SCRIPTS) >= 20


def test_a_command_that_no_script_has_is_refused() -> None:
    net = Script("graph 0-1\nrounds 1\nuntil 1\nat 0 kil 1\n").build()
    with pytest.raises(ValueError, match="no script has a command 'kil'"):
        net.run(1.0)
