"""agentd chaos on testbeds that are only written down: what it understands, does and writes."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from evidence import until
from held_logs import working_for
from hypothesis import given
from hypothesis import strategies as st

from agentd.cli import cli
from agentd.cli.configuration.forms import LASTING
from agentd.errors import AgentdError, ConfigurationError, SettingsError
from agentd.runs import fault_log
from agentd.runs.status import AgentStatus, Status
from agentd.shell.link_faults import LinkFaults, parse_sides, read_faults
from deploy.chaos.chaos import Chaos
from deploy.plan.names import STDERR
from deploy.plan.plan import LINK_FAULTS
from deploy.testbed.process_marks import ProcessMark
from deploy.testbed.registry import State, Testbed, announce, new_testbed, record

AGENTS = 8


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Works for the testbed, as this process does: prints to its log."""
    words = [sys.executable, "-c", "import signal; signal.pause()"]
    with (
        working_for(tmp_path / "run"),
        (tmp_path / "run" / STDERR).open("ab") as log,
        subprocess.Popen(words, stderr=log) as process,
    ):
        yield process
        process.kill()


@pytest.fixture
def testbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sleeper: subprocess.Popen[bytes]) -> Testbed:
    """A running testbed whose supervisor is this test and whose agent 3 sleeps."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = tmp_path / "run"
    (place / LINK_FAULTS).parent.mkdir(parents=True)
    mark = ProcessMark.of(sleeper.pid)
    assert mark is not None
    made = new_testbed(b"12345678", place.resolve(), AGENTS)
    made = Testbed(**{**_fields(made), "state": State.RUNNING, "children": {"agent-3": mark}})
    record(made)
    announce(made)
    (place / "status.json").write_text(
        json.dumps(
            {
                "rounds": 100,
                "group_regret": 0.0,
                "pulls": 1,
                "pulls_per_s": 1.0,
                "agents": [
                    {"id": own, "trial": 1 if own == 3 else 40 + own % 2, "messages": 0, "dropped": 0, "done": False}
                    for own in range(AGENTS)
                ],
            }
        ),
        encoding="utf-8",
    )
    return made


def _fields(testbed: Testbed) -> dict[str, Any]:
    return {name: getattr(testbed, name) for name in testbed.__dataclass_fields__}


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["chaos", *args])


def told(*args: str) -> list[dict[str, Any]]:
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def links(testbed: Testbed) -> LinkFaults:
    return read_faults(testbed.run_dir / LINK_FAULTS)


def process_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["partition", "0-3"], "has 1 sides"),
        (["partition", "0-3|3-7"], "agent 3 is on two sides"),
        (["partition", "0-3|4-9"], "there is no agent 8"),
        (["partition", "a|b"], "does not name agents"),
        (["kill", "x"], "does not name agents"),
        (["kill", "8"], "there is no agent 8: the agents of this testbed are numbered 0…7"),
        (["pause", "3", "--for", "soon"], "not a time like 10s"),
        (["pause", "3", "--for", "-1s"], "not a time like 10s"),
        (["pause", "3", "--for", "0"], "not a time like 10s"),
        (["pause", "4"], "agent 4 is not running"),
        (["delay", "3", "--ms", "-5"], "-5"),
        (["delay", "3", "--ms", "nan"], "nan"),
        (["delay", "3"], "--ms"),
        (["loss", "3", "--rate", "1.5"], "1.5"),
        (["loss", "3", "--rate", "nan"], "nan"),
        (["loss", "3", "--rate", "much"], "much"),
        (["disconnect", "3"], "without a network of its own"),
        (["reconnect", "3"], "without a network of its own"),
    ],
)
def test_what_makes_no_sense_is_one_clear_line_and_changes_nothing(
    args: list[str], complaint: str, testbed: Testbed
) -> None:
    result = run(*args)
    said = str(result.exception) if isinstance(result.exception, AgentdError) else result.output
    assert result.exit_code != 0
    assert complaint in said
    assert "Traceback" not in said
    assert not (testbed.run_dir / LINK_FAULTS).exists()
    assert fault_log.read_faults(testbed.run_dir) == []


def test_a_partition_is_cut_healed_and_written_down(testbed: Testbed) -> None:
    (cut,) = told("partition", "0-3|4-7")
    assert (cut["verb"], cut["parameters"], cut["what"]) == ("partition", {"cut": "0-3|4-7"}, "partition 0-3|4-7")
    assert links(testbed).between(0, 7).cut
    (healed,) = told("heal")
    assert links(testbed) == LinkFaults()
    assert fault_log.read_faults(testbed.run_dir) == [cut, healed]


def test_faults_of_links_add_up_until_they_are_healed(testbed: Testbed) -> None:
    told("partition", "0|1")
    told("delay", "2,3", "--ms", "50")
    told("loss", "3", "--rate", "0.1")
    told("delay", "2", "--ms", "0")
    assert links(testbed) == LinkFaults(cuts=(parse_sides("0|1"),), delay_ms={3: 50.0}, loss={3: 0.1})
    told("heal")
    assert links(testbed) == LinkFaults()


def test_liars_lie_until_they_are_made_honest_whatever_heals(testbed: Testbed) -> None:
    assert told("lie", "2,3")[0]["what"] == "agents 2-3: made to lie"
    told("loss", "3", "--rate", "0.1")
    told("heal")
    assert links(testbed) == LinkFaults(liars=frozenset({2, 3}))
    told("honest", "3")
    assert links(testbed) == LinkFaults(liars=frozenset({2}))


def test_agents_of_another_user_can_read_the_faults_where_they_may_enter_and_nobody_else(testbed: Testbed) -> None:
    for directory, file in ((0o700, 0o600), (0o755, 0o644)):
        (testbed.run_dir / LINK_FAULTS).parent.chmod(directory)
        told("partition", "0|1")
        assert stat.S_IMODE((testbed.run_dir / LINK_FAULTS).stat().st_mode) == file


def test_for_a_while_means_that_it_is_undone(testbed: Testbed) -> None:
    told("loss", "5", "--rate", "0.5")
    first, second = told("partition", "0-3|4-7", "--for", "10ms")
    assert (first["verb"], second["verb"]) == ("partition", "heal")
    assert links(testbed) == LinkFaults(loss={5: 0.5}), "what others asked for stays"
    told("loss", "5", "--rate", "0.2", "--for", "10ms")
    assert links(testbed) == LinkFaults()


def test_a_paused_process_stands_still_until_it_is_resumed(testbed: Testbed, sleeper: subprocess.Popen[bytes]) -> None:
    (paused,) = told("pause", "3")
    until(lambda: process_state(sleeper.pid) == "T")
    assert (paused["round"], paused["agents"], paused["what"]) == (40, [3], "agent-3 paused")
    told("resume", "3")
    until(lambda: process_state(sleeper.pid) != "T")
    assert [one["verb"] for one in told("pause", "3", "--for", "10ms")] == ["pause", "resume"]


def test_what_was_done_can_be_listed(testbed: Testbed) -> None:
    told("delay", "1", "--ms", "5")
    assert "agent-1: delay 5 ms" in run("history").stdout
    assert json.loads(run("history", "--json").stdout)[0]["parameters"] == {"ms": 5.0}


def test_nothing_is_done_to_a_testbed_that_does_not_run(testbed: Testbed) -> None:
    record(Testbed(**{**_fields(testbed), "state": State.ENDED}))
    with pytest.raises(ConfigurationError, match="no testbed is running"):
        Chaos(Testbed(**{**_fields(testbed), "state": State.ENDED}))
    assert isinstance(run("heal").exception, ConfigurationError)


def test_a_damaged_file_is_not_taken_for_no_faults(testbed: Testbed) -> None:
    (testbed.run_dir / LINK_FAULTS).write_text("{", encoding="utf-8")
    result = run("loss", "1", "--rate", "0.1")
    assert isinstance(result.exception, ConfigurationError)
    assert "is damaged" in str(result.exception)


def test_cuts_do_not_pile_up_without_end(testbed: Testbed) -> None:
    for _ in range(16):
        told("partition", "0|1")
    result = run("partition", "0|1")
    assert isinstance(result.exception, SettingsError)
    assert "agentd chaos heal" in str(result.exception)


def test_lines_that_are_no_faults_are_passed_over(tmp_path: Path) -> None:
    fault = fault_log.append(tmp_path, 7, fault_log.Fault("kill", "agent-1 killed", (1,)))
    with (tmp_path / "faults.jsonl").open("a", encoding="utf-8") as file:
        file.write('nonsense\n[]\n{"round": 1}\n' + "[" * 100_000 + "\n")
    assert fault_log.read_faults(tmp_path) == [fault]
    assert fault_log.read_faults(tmp_path / "elsewhere") == []


def test_the_round_of_a_fault_is_where_most_agents_are() -> None:
    agents = tuple(AgentStatus(id=own, trial=trial) for own, trial in enumerate((3, 50, 51, 52, 900)))
    assert fault_log.current_round(Status(rounds=100, group_regret=0.0, pulls=0, pulls_per_s=0.0, agents=agents)) == 51
    assert fault_log.current_round(None) == 0


@given(st.integers(1, 10_000), st.sampled_from(["ms", "s", "m", ""]))
def test_times_are_read_as_seconds(number: int, unit: str) -> None:
    seconds = LASTING.convert(f"{number}{unit}", None, None)
    assert seconds == pytest.approx(number * {"ms": 0.001, "s": 1, "m": 60, "": 1}[unit])
