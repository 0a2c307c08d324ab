"""Which algorithms can be taken up again from a state: all of ours that add noise, and of others those that say how."""

from __future__ import annotations

import pytest

from agentd.core.policy import ALGORITHMS, Algorithm, PolicySettings, algorithm_of, make_policy
from agentd.core.policy.base import Restorable
from agentd.core.policy.private_ucb import PrivateUcb
from agentd.errors import SettingsError
from agentd.settings import AgentSettings


class Forgetful:
    """private-ucb without what it takes to be restored."""

    noised = True

    def __init__(self, settings, _own, _coins) -> None:  # type: ignore[no-untyped-def]
        inner = PrivateUcb(settings)
        self.ledger, self.choose, self.due, self.observe = inner.ledger, inner.choose, inner.due, inner.observe


@pytest.mark.parametrize("algorithm", [each for each in ALGORITHMS.values() if each.noised], ids=lambda each: each.name)
def test_what_adds_noise_here_can_be_restored(algorithm: Algorithm) -> None:
    made = make_policy(algorithm.name, PolicySettings(arms=2), 0)
    assert isinstance(made, Restorable)
    assert algorithm.restorable


def test_a_state_for_one_that_cannot_be_restored_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was an assertion in the running agent."""
    forgetful = algorithm_of(Forgetful)
    assert not forgetful.restorable
    monkeypatch.setitem(ALGORITHMS, forgetful.name, forgetful)
    flags = {
        "id": 0,
        "algorithm": forgetful.name,
        "environment": "tcp://127.0.0.1:7000",
        "rounds": 5,
        "listen": "tcp://127.0.0.1:7001",
    }
    assert AgentSettings(**flags).state is None
    with pytest.raises(SettingsError, match=r"no snapshot, restore and discard.*--no-state"):
        AgentSettings(**flags, state="here")
