"""The logs of a testbed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.errors import SettingsError
from deploy.testbed.merged_logs import Line, last_lines, log_files, new_lines
from deploy.testbed.registry import Testbed, new_testbed


@pytest.fixture
def testbed(tmp_path: Path) -> Testbed:
    (tmp_path / "logs").mkdir()
    return new_testbed(b"12345678", tmp_path, 3)


def entry(second: int, **fields: object) -> str:
    return json.dumps({"timestamp": f"2026-11-16T10:00:{second:02}.000000Z", **fields}) + "\n"


def test_logs_are_merged_by_time_and_cut_to_the_newest(testbed: Testbed) -> None:
    for agent in range(3):
        lines = [entry(second, agent=agent) for second in range(agent, 12, 3)]
        (testbed.run_dir / f"logs/agent-{agent}.jsonl").write_text("".join(lines), encoding="utf-8")
    lines = last_lines(log_files(testbed, []), 5)
    assert [(line.time[17:19], line.fields["agent"]) for line in lines] == [
        ("07", 1), ("08", 2), ("09", 0), ("10", 1), ("11", 2),
    ]  # fmt: skip
    assert last_lines(log_files(testbed, []), 0) == []


def test_single_agents_and_the_environment_can_be_named(testbed: Testbed) -> None:
    assert [path.name for path in log_files(testbed, ["2", "agent-0", "environment"])] == [
        "agent-2.jsonl",
        "agent-0.jsonl",
        "environment.jsonl",
    ]


@pytest.mark.parametrize("name", ["3", "-1", "agent-9", "x", "../0", "٣", ""])
def test_whoever_does_not_exist_is_refused(name: str, testbed: Testbed) -> None:
    with pytest.raises(SettingsError, match=r"agents are numbered 0…2, and there is the environment"):
        log_files(testbed, [name])


def test_only_the_end_of_a_long_log_is_read(testbed: Testbed) -> None:
    path = testbed.run_dir / "logs/agent-0.jsonl"
    path.write_text("".join(entry(0, number=number, filler="x" * 100) for number in range(5000)), encoding="utf-8")
    assert [line.fields["number"] for line in last_lines([path], 3)] == [4997, 4998, 4999]
    assert len(last_lines([path], 10_000)) == 5000


def test_a_log_that_is_not_there_yet_is_empty(testbed: Testbed) -> None:
    assert last_lines(log_files(testbed, ["1"]), 10) == []


def test_a_line_reads_as_a_sentence_for_people() -> None:
    line = Line(entry(7, agent=12, level="info", event="ready", neighbours=4, run="ab").strip())
    assert line.readable() == "10:00:07.000 agent 12     info    ready neighbours=4"
    spoken = Line(entry(7, role="environment", agent=3, level="info", event="hello").strip())
    assert spoken.readable() == "10:00:07.000 environment  info    hello agent=3"


@pytest.mark.parametrize("text", ["no json", "[1]", "\x1b[2Jgone", '{"event": "\\u001b[2J", "level": "info"}'])
def test_what_a_peer_made_an_agent_log_does_not_drive_the_terminal(text: str) -> None:
    assert Line(text).readable().isprintable()


def test_following_shows_whole_lines_until_the_testbed_has_ended(testbed: Testbed) -> None:
    paths = log_files(testbed, ["0", "1"])
    paths[0].write_text(entry(1, event="before"), encoding="utf-8")
    paths[1].write_text("", encoding="utf-8")

    def runs() -> Iterator[bool]:
        """What happens between looks: nothing, one and a half lines, the other half, the end."""
        yield True
        with paths[0].open("a", encoding="utf-8") as first, paths[1].open("a", encoding="utf-8") as second:
            first.write(entry(3, event="second") + entry(4, event="third")[:20])
            second.write(entry(2, event="first"))
            first.flush()
            second.flush()
            yield True
            first.write(entry(4, event="third")[20:])
        yield False

    assert [line.fields["event"] for line in new_lines(paths, runs())] == ["first", "second", "third"]
