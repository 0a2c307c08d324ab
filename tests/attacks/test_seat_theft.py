"""Nobody but its agent is told a reward: over real sockets, against a real environment, in every state of a seat."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from agentd_processes import EnvironmentProcess, Process, agent_arguments
from evidence import until
from loopback import events, free_address
from seat_thief import HELLO, PULL, REFUSED, REPORT, REWARD, WELCOME, Thief

VICTIM, OTHER, ARMS, TRIALS = 0, 1, 2, 1000
WRONG_TOKEN = 9

pytestmark = pytest.mark.system


class Stage:
    """An environment that can be killed and started again, and a victim with a state on disk."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.environment = self._started()

    def _started(self) -> EnvironmentProcess:
        arguments = ("--arms", "0.9,0.1", "--agents", "2", "--rounds", str(10 * TRIALS))
        return EnvironmentProcess(*arguments, "--run-dir", str(self.place / "run"))

    def restart(self) -> None:
        """As after a crash of the environment, at another address."""
        self.environment.kill()
        self.environment = self._started()

    def victim(self, rounds: int) -> Process:
        flags = {"rounds": rounds, "algorithm": "sealed", "log_file": self.log, "state": self.place / "state"}
        arguments = agent_arguments(VICTIM, free_address(), self.environment.address, {}, **flags)
        return Process("agent", *arguments)

    @property
    def log(self) -> Path:
        return self.place / "victim.jsonl"

    def played(self) -> None:
        """Let the victim pull all its trials, and leave."""
        with self.victim(TRIALS) as agent:
            assert agent.wait() == 0, agent.errors

    def stolen(self, *tokens: bytes | None) -> int:
        """How many of the victim's rewards a stranger is told, with any of these tokens."""
        with Thief(self.environment.address) as thief:
            told = sum(thief.stolen(VICTIM, range(1, TRIALS + 1), ARMS, token=token) for token in tokens)
            assert thief.codes == {WRONG_TOKEN}
            assert len(thief.texts) == 1  # whatever it asks for: nothing can be learnt from how it is refused
            return told


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.environment.kill()


GUESSES = (None, bytes(16))


def test_a_stranger_is_told_none_of_a_thousand_rewards_after_the_victim_left(stage: Stage) -> None:
    stage.played()
    assert stage.stolen(*GUESSES) == 0


def test_nor_after_the_environment_was_killed_and_started_again(stage: Stage) -> None:
    stage.played()
    stage.restart()
    assert stage.stolen(*GUESSES) == 0


def test_nor_during_the_run_and_after_the_victim_was_killed(stage: Stage) -> None:
    with stage.victim(10 * TRIALS) as agent:
        until(lambda: any(line["trial"] >= 100 for line in events(stage.log, "progress")))
        assert stage.stolen(*GUESSES) == 0
        agent.kill()
    assert stage.stolen(None) == 0


def test_another_agent_of_the_run_with_a_token_of_its_own_is_told_nothing_either(stage: Stage) -> None:
    own = secrets.token_bytes(16)
    with Thief(stage.environment.address) as thief:
        assert thief.ask(HELLO, OTHER, own, None)[0] == WELCOME
        stage.played()
        assert thief.ask(PULL, OTHER, own, 1, 0, 0)[0] == REWARD
        assert thief.stolen(VICTIM, range(1, TRIALS + 1), ARMS, token=own) == 0
        assert thief.ask(HELLO, VICTIM, own, None)[:2] == [REFUSED, WRONG_TOKEN]
        assert thief.ask(REPORT, VICTIM, own, TRIALS, 0, 0, [], 0, 1, 0, 0, [], [])[:2] == [REFUSED, WRONG_TOKEN]


def test_whoever_has_the_token_is_told_nothing_that_is_committed(stage: Stage) -> None:
    """A token that was stolen, or given up by the operator, opens the future of a seat and not its past."""
    token = secrets.token_bytes(16)
    with Thief(stage.environment.address) as holder:
        assert holder.ask(HELLO, VICTIM, token, None)[0] == WELCOME
        for trial in range(1, 101):
            assert holder.ask(PULL, VICTIM, token, trial, 0, trial - 1)[0] == REWARD
        assert holder.stolen(VICTIM, range(1, 100), ARMS, token=token) == 0
        assert holder.ask(HELLO, VICTIM, token, None)[0] == WELCOME  # a stateless return
        assert holder.stolen(VICTIM, range(1, 101), ARMS, token=token) == 0
