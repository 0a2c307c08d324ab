"""Arms that are a command: what it may do, and that nothing it does costs more than a counted fault."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from evidence import PATIENCE_S, in_s, until

from agentd.real_arms.command import LONGEST_LINE, MOST_UNANSWERED, PASSED_ON, Command, environment_of
from agentd.real_arms.worker import ArmFault, Reason

pytestmark = pytest.mark.system

MakeCommand = Callable[[str], Command]
SOON_S = 0.2


@pytest.fixture
def command(tmp_path: Path) -> Iterator[MakeCommand]:
    """Makes commands of a few lines of Python, in which `ask()` is the next arm and trial."""
    made: list[Command] = []
    ask = "import os, sys, signal\ndef ask():\n    return sys.stdin.readline().split()\n"

    def make(program: str) -> Command:
        place = tmp_path / f"arm-{len(made)}.py"
        place.write_text(ask + program, encoding="utf-8")
        made.append(Command([sys.executable, "-S", str(place)]))
        return made[-1]

    yield make
    for each in made:
        each.close()


def fault_of(command: Command, within_s: float = PATIENCE_S, trial: int = 1) -> Reason:
    with pytest.raises(ArmFault) as caught:
        command.pull(0, trial, in_s(within_s))
    return caught.value.reason


def is_gone(process: int) -> bool:
    """Whether a process has ended; what nobody has buried yet has."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_every_pull_is_one_line_there_and_one_back(command: MakeCommand) -> None:
    arms = command("while True:\n    arm, trial = ask()\n    print(int(arm) / 10 + int(trial), flush=True)\n")
    assert [arms.pull(arm, trial, in_s(PATIENCE_S)) for arm, trial in ((3, 1), (4, 2))] == [1.3, 2.4]


def test_an_answer_may_name_its_trial_and_then_must_name_the_right_one(command: MakeCommand) -> None:
    assert command("arm, trial = ask()\nprint(0.5, trial, flush=True)\nask()\n").pull(0, 7, in_s(PATIENCE_S)) == 0.5
    assert fault_of(command("ask()\nprint(0.5, 8, flush=True)\nask()\n"), trial=7) is Reason.UNREADABLE


@pytest.mark.parametrize("answer", ["", "much", "1e", "0x10", "1_0", "½", "0.5 1 2", "9" * 65])
def test_what_is_no_number_is_unreadable(command: MakeCommand, answer: str) -> None:
    assert fault_of(command(f"ask()\nprint({answer!r}, flush=True)\nask()\n")) is Reason.UNREADABLE


def test_a_line_without_end_is_cut_short_and_the_command_ended(command: MakeCommand) -> None:
    arms = command("ask()\nwhile True:\n    os.write(1, b'7' * 65536)\n")
    assert fault_of(arms) is Reason.TOO_LONG
    assert fault_of(arms) is Reason.ENDED  # and it is not started again at once


def test_a_line_that_is_just_too_long_is_too_long(command: MakeCommand) -> None:
    assert fault_of(command(f"ask()\nprint('0' * {LONGEST_LINE + 1}, flush=True)\nask()\n")) is Reason.TOO_LONG


def test_a_command_that_hangs_is_late_and_its_late_answers_belong_to_nobody(
    command: MakeCommand, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    os.mkfifo(go_on)
    arms = command(
        f"ask()\nopen({str(go_on)!r}).read()\nprint(0.1, flush=True)\nask()\nprint(0.2, flush=True)\nask()\n"
    )
    assert fault_of(arms, SOON_S) is Reason.LATE
    with go_on.open("w", encoding="ascii"):
        pass
    assert arms.pull(0, 2, in_s(PATIENCE_S)) == 0.2


def test_one_that_takes_lines_and_never_answers_is_ended(command: MakeCommand) -> None:
    arms = command("while True:\n    ask()\n")
    assert fault_of(arms, SOON_S) is Reason.LATE
    assert [fault_of(arms, 0.0) for _ in range(MOST_UNANSWERED)] == [Reason.LATE] * MOST_UNANSWERED
    assert fault_of(arms) is Reason.ENDED


def test_one_that_speaks_unasked_is_not_believed_any_more(command: MakeCommand) -> None:
    arms = command("ask()\nos.write(1, b'0.5\\n0.9\\n')\nask()\nask()\n")
    assert arms.pull(0, 1, in_s(PATIENCE_S)) == 0.5
    assert fault_of(arms) is Reason.UNREADABLE


def test_one_that_ends_is_started_again(command: MakeCommand) -> None:
    arms = command("ask()\nprint(0.5, flush=True)\n")
    assert arms.pull(0, 1, in_s(PATIENCE_S)) == 0.5
    assert fault_of(arms) is Reason.ENDED

    def again() -> float | None:
        try:
            return arms.pull(0, 2, in_s(PATIENCE_S))
        except ArmFault:
            return None

    assert until(again) == 0.5


def test_the_end_of_its_errors_is_told_when_it_ends(command: MakeCommand) -> None:
    arms = command("os.write(2, b'x' * 300000 + b'no such mirror')\nask()\n")
    with pytest.raises(ArmFault, match=r"no such mirror") as caught:
        arms.pull(0, 1, in_s(PATIENCE_S))
    assert caught.value.reason is Reason.ENDED
    assert len(str(caught.value)) < 600


def test_a_command_that_is_not_there_is_a_fault_like_others() -> None:
    arms = Command(["/nowhere/at/all"])
    with pytest.raises(ArmFault, match="No such file") as caught:
        arms.pull(0, 1, in_s(PATIENCE_S))
    assert caught.value.reason is Reason.ENDED
    arms.close()


@pytest.mark.parametrize("how", ["fork", "daemon"])
def test_what_it_leaves_behind_ends_with_it(command: MakeCommand, how: str) -> None:
    """An orphan in a session of its own, which hears no signal to the group, among them."""
    leave = "os.setsid()\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    if os.fork(): os._exit(0)\n    "
    arms = command(
        f"r, w = os.pipe()\nif not os.fork():\n    {leave if how == 'daemon' else ''}"
        "os.write(w, str(os.getpid()).encode())\n"
        "    while True: signal.pause()\nask()\nprint(os.read(r, 20).decode(), flush=True)\nask()\n"
    )
    orphan = int(arms.pull(0, 1, in_s(PATIENCE_S)))
    assert not is_gone(orphan)
    arms.close()
    assert is_gone(orphan)


def test_it_ends_with_an_agent_that_was_killed(tmp_path: Path) -> None:
    """Nobody closes anything then: the pipe that the guard watches is closed by the system."""
    agent = (
        "import sys; from agentd.real_arms.command import Command; from evidence import in_s\n"
        "arms = Command([sys.executable, '-S', '-c', 'import os, signal; input(); print(os.getpid(), flush=True); "
        "os.fork(); signal.pause()'])\n"
        "print(int(arms.pull(0, 1, in_s(60))), flush=True); sys.stdin.read()"
    )
    where = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    with subprocess.Popen(
        [sys.executable, "-c", agent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=where, text=True
    ) as process:
        assert process.stdout is not None
        arm = int(process.stdout.readline())
        assert not is_gone(arm)
        process.kill()
        until(lambda: is_gone(arm))


def test_no_secret_is_in_its_environment(command: MakeCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTD_SEAT", "0" * 32)
    monkeypatch.setenv("SOME_TOKEN", "secret")
    monkeypatch.setenv("TZ", "UTC")
    known = {*PASSED_ON, "LC_CTYPE"}  # which Python itself sets where there is no locale
    arms = command(f"ask()\nprint(len(set(os.environ) - {known!r}) + 10 * ('TZ' in os.environ), flush=True)\nask()\n")
    assert arms.pull(0, 1, in_s(PATIENCE_S)) == 10
    assert environment_of({"PATH": "/bin", "AGENTD_ID": "3", "LD_PRELOAD": "x"}) == {"PATH": "/bin"}


def test_it_holds_no_file_of_its_agent(command: MakeCommand) -> None:
    arms = command("ask()\nprint(len(os.listdir('/proc/self/fd')) - 1, flush=True)\nask()\n")
    assert arms.pull(0, 1, in_s(PATIENCE_S)) == 3
