"""Settings: every fault has its sentence, all faults come together, and what is fine stays as it was given."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from agentd.addresses import is_loopback
from agentd.core.attacks import SCHEMES
from agentd.core.message import MAX_ARMS, MAX_LIFETIME, MAX_TRIAL
from agentd.core.policy import ALGORITHMS, PolicySettings
from agentd.core.policy.knobs import MIN_EPSILON
from agentd.errors import SettingsError
from agentd.settings import MAX_SIMULATED, AgentSettings, TestbedSettings

NAN, INF = float("nan"), float("inf")
KNOWN = ", ".join(ALGORITHMS)

TESTBED_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"agents": 0}, "--agents must be in 1…1048576, got 0"),
    ({"agents": MAX_SIMULATED + 1}, "--agents must be in 1…1048576, got 1048577"),
    ({"edge_probability": -0.1}, "--edge-probability must be in [0, 1], got -0.1"),
    ({"edge_probability": NAN}, "--edge-probability must be in [0, 1], got nan"),
    ({"rounds": 0}, f"--rounds must be in 1…{MAX_TRIAL}, got 0"),
    ({"rounds": MAX_TRIAL + 1}, f"--rounds must be in 1…{MAX_TRIAL}, got {MAX_TRIAL + 1}"),
    ({"gamma": "-1"}, "--gamma must be a number of hops ≥ 0, 'half' or 'full', got '-1'"),
    ({"gamma": "1.5"}, "--gamma must be a number of hops ≥ 0, 'half' or 'full', got '1.5'"),
    ({"gamma": "²"}, "--gamma must be a number of hops ≥ 0, 'half' or 'full', got '²'"),
    ({"gamma": ""}, "--gamma must be a number of hops ≥ 0, 'half' or 'full', got ''"),
    ({"gamma": "65536"}, "--gamma must be at most 65535, got 65536"),
    ({"gamma": "9" * 5000}, f"--gamma must be at most 65535, got {'9' * 5000}"),
    ({"random_arms": 0}, f"the number of arms must be in 1…{MAX_ARMS}, got 0"),
    ({"arms": (0.5,) * (MAX_ARMS + 1)}, f"the number of arms must be in 1…{MAX_ARMS}, got {MAX_ARMS + 1}"),
    ({"arms": (0.5, 1.5)}, "--arms: the mean of arm 1 must be in [0, 1], got 1.5"),
    ({"arms": (NAN, 0.5)}, "--arms: the mean of arm 0 must be in [0, 1], got nan"),
    ({"arm_range": (0.7, 0.3)}, "--arm-range must lie within [0, 1], low before high, got 0.7…0.3"),
    ({"arm_range": (0.5, 1.1)}, "--arm-range must lie within [0, 1], low before high, got 0.5…1.1"),
    ({"arm_range": (NAN, 1.0)}, "--arm-range must lie within [0, 1], low before high, got nan…1.0"),
    ({"reward": "coin"}, "--reward must be one of bernoulli, beta, uniform, normal, got 'coin'"),
    ({"algorithm": "ucb2"}, f"unknown algorithm 'ucb2'; choose one of {KNOWN}"),
    ({"policies": {1: "ucb2"}}, f"unknown algorithm 'ucb2'; choose one of {KNOWN}"),
    ({"policies": {20: "ucb1"}}, "--policy names agent 20, but agents are numbered 0…19"),
    ({"policies": {-1: "ucb1"}}, "--policy names agent -1, but agents are numbered 0…19"),
    ({"epsilon": 0.0}, "--epsilon must be positive (at least 1e-06) and finite, got 0.0"),
    ({"epsilon": -1.0}, "--epsilon must be positive (at least 1e-06) and finite, got -1.0"),
    ({"epsilon": INF}, "--epsilon must be positive (at least 1e-06) and finite, got inf"),
    ({"epsilon": NAN}, "--epsilon must be positive (at least 1e-06) and finite, got nan"),
    ({"v": 1.0}, "--v must lie strictly between 1 and 1.5, got 1.0"),
    ({"v": 1.5}, "--v must lie strictly between 1 and 1.5, got 1.5"),
    ({"sigma": 0.0}, "--sigma must be positive and finite, got 0.0"),
    ({"sigma": INF}, "--sigma must be positive and finite, got inf"),
    ({"rule": "greedy"}, "unknown rule 'greedy'; choose one of thompson, ucb"),
    ({"refresh": 0}, "--refresh must be in 1…1073741823 rounds, got 0"),
    ({"estimator": "median"}, "unknown estimator 'median'; choose one of trimmed, winsorised, clipped"),
    ({"byzantine": 21}, "--byzantine must be in 0…20 (the number of agents), got 21"),
    ({"byzantine": -1}, "--byzantine must be in 0…20 (the number of agents), got -1"),
    ({"contamination": 1.1}, "--contamination must be a probability in [0, 1], got 1.1"),
    ({"contamination": NAN}, "--contamination must be a probability in [0, 1], got nan"),
    ({"attack": "best"}, "unknown attack 'best'; known are worst, uniform, bernoulli[:p], point[:x], and each with "
                         "'relay-' before it, huber, " + ", ".join(SCHEMES)),
    ({"attack": "point:2"}, "the value in attack 'point:2' must be a number in [0, 1]"),
    ({"seed": -1}, "--seed must be in [0, 2^64), got -1"),
    ({"seed": 1 << 64}, f"--seed must be in [0, 2^64), got {1 << 64}"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "sentence"), TESTBED_FAULTS, ids=lambda value: str(value)[:40])
def test_a_fault_of_a_testbed_is_told_in_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError) as fault:
        TestbedSettings(**given)
    assert str(fault.value) == sentence
    assert fault.value.exit_code == 2


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"agents": 1, "rounds": 1, "random_arms": 1},
        {"agents": MAX_SIMULATED, "rounds": MAX_TRIAL, "arms": (0.0, 1.0), "seed": (1 << 64) - 1},
        {"gamma": "0", "edge_probability": 0.0, "contamination": 0.0, "epsilon": MIN_EPSILON},
        {"gamma": str(MAX_LIFETIME), "edge_probability": 1.0, "contamination": 1.0, "byzantine": 20, "seed": 0},
        {"arm_range": (0.5, 0.5), "policies": {0: "ucb1", 19: "coop-ucb"}, "attack": "relay-point:0.5"},
    ],
    ids=str,
)
def test_the_ends_of_every_range_are_inside(given: dict[str, Any]) -> None:
    settings = TestbedSettings(**given)
    assert {name: getattr(settings, name) for name in given} == given


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(SettingsError) as fault:
        TestbedSettings(agents=0, rounds=0, gamma="x", epsilon=0.0, v=2.0, attack="no", seed=-1, reward="no")
    flags = ["--agents", "--rounds", "--gamma", "--reward", "--epsilon", "--v", "unknown attack", "--seed"]
    assert all(flag in str(fault.value) for flag in flags)
    assert "\n" not in str(fault.value)


def test_settings_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        TestbedSettings().agents = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("gamma", "diameter", "hops"),
    [("half", 5, 3), ("half", 4, 2), ("half", 0, 0), ("full", 5, 5), ("0", 5, 0), ("07", 2, 7)],
)
def test_a_lifetime_may_follow_from_the_diameter(gamma: str, diameter: int, hops: int) -> None:
    assert TestbedSettings(gamma=gamma).lifetime(diameter) == hops


def test_given_arms_win_over_random_ones() -> None:
    assert TestbedSettings(arms=(0.1, 0.2), random_arms=7).arm_count == 2
    assert TestbedSettings(random_arms=7).arm_count == 7


def test_the_algorithms_get_their_knobs() -> None:
    knobs: dict[str, Any] = {"epsilon": 0.5, "v": 1.2, "sigma": 0.3, "estimator": "clipped", "contamination": 0.1}
    expected = PolicySettings(arms=5, **knobs)
    assert TestbedSettings(**knobs).policy == expected
    assert agent(**knobs).policy(5) == expected


def test_a_topology_file_decides_how_many_agents_there_are() -> None:
    many = TestbedSettings(topology="big.edges", byzantine=30, policies={40: "ucb1"})
    assert many.for_agents(50).agents == 50
    with pytest.raises(SettingsError, match=r"^big.edges has 35 agents: --policy names agent 40"):
        many.for_agents(35)
    with pytest.raises(SettingsError, match="numbered 0…9; --byzantine must be in 0…10"):
        many.for_agents(10)


def test_the_manifest_gets_plain_values() -> None:
    plain = TestbedSettings(policies={3: "ucb1"}, arms=(0.5,)).to_json()
    assert plain["policies"] == {"3": "ucb1"}
    assert plain["arms"] == (0.5,)
    assert plain["seed"] is None


def agent(**changed: Any) -> AgentSettings:
    given: dict[str, Any] = {"id": 3, "listen": "tcp://127.0.0.1:7003", "environment": "tcp://hub:7000"}
    return AgentSettings(**(given | changed))


HOST = "tcp://gate-1:7001"
LONG_PATH = "ipc:///" + "é" * 54
NO_ADDRESS = "is not an address like tcp://127.0.0.1:7003"

AGENT_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"id": -1}, "--id must be in 0…65535, got -1"),
    ({"id": 65536}, "--id must be in 0…65535, got 65536"),
    ({"peers": {65536: HOST}}, "--peers: an id must be in 0…65535, got 65536"),
    ({"peers": {3: HOST}}, "--peers names agent 3 itself; an agent is not its own neighbour"),
    ({"peers": {1: HOST, 2: HOST}}, "--peers gives the same address to two neighbours"),
    ({"peers": {1: "gate-1"}}, f"--peers: 'gate-1' {NO_ADDRESS}"),
    ({"algorithm": "ucb2"}, f"unknown algorithm 'ucb2'; choose one of {KNOWN}"),
    ({"gamma": -1}, "--gamma must be in 0…65535, got -1"),
    ({"rounds": 0}, f"--rounds must be in 1…{MAX_TRIAL}, got 0"),
    ({"seed": -1}, "--seed must be in [0, 2^64), got -1"),
    ({"listen": "tcp://127.0.0.1"}, f"--listen: 'tcp://127.0.0.1' {NO_ADDRESS}"),
    ({"listen": "tcp://127.0.0.1:0"}, f"--listen: 'tcp://127.0.0.1:0' {NO_ADDRESS}"),
    ({"listen": "tcp://127.0.0.1:70000"}, f"--listen: 'tcp://127.0.0.1:70000' {NO_ADDRESS}"),
    ({"listen": "tcp://[::1"}, f"--listen: 'tcp://[::1' {NO_ADDRESS}"),
    ({"listen": "udp://127.0.0.1:7"}, f"--listen: 'udp://127.0.0.1:7' {NO_ADDRESS}"),
    ({"listen": "ipc://"}, f"--listen: 'ipc://' {NO_ADDRESS}"),
    ({"listen": "ipc://run/3"}, "--listen: 'ipc://run/3' must be an absolute path, as in ipc:///run/agentd/3"),
    ({"listen": "ipc://@3"}, "--listen: 'ipc://@3' must be an absolute path, as in ipc:///run/agentd/3"),
    ({"listen": "ipc:///run/"}, "--listen: 'ipc:///run/' must be the path of a file, as in ipc:///run/agentd/3"),
    ({"environment": LONG_PATH}, f"--environment: '{LONG_PATH}' has a path of more than 107 bytes, which no socket can "
                                 "have; choose a shorter directory"),
    ({"listen": "tcp://::1:7003"}, "--listen: 'tcp://::1:7003' is an IPv6 address without brackets; "
                                   "write tcp://[::1]:7003"),
    ({"peers": {1: "tcp://fe80::1:7"}}, "--peers: 'tcp://fe80::1:7' is an IPv6 address without brackets; "
                                        "write tcp://[fe80::1]:7"),
    ({"peers": {1: "tcp://*:7001"}}, "--peers: 'tcp://*:7001' names no machine; say which one to connect to"),
    ({"environment": "tcp://[::]:7"}, "--environment: 'tcp://[::]:7' names no machine; say which one to connect to"),
    ({"admit": ("10.0.0.0/8", "hub")}, "--admit: 'hub' is not a network or an address like 10.0.0.0/8, 192.168.1.7 or "
                                       "fd00::/8"),
    ({"admit": ("10.1.2.3/8",)}, "--admit: '10.1.2.3/8' is an address within a network; write 10.0.0.0/8 for all of "
                                 "it"),
    ({"environment": "hub"}, f"--environment: 'hub' {NO_ADDRESS}"),
    ({"listen": "tcp://*:7003"}, "--listen tcp://*:7003 is reachable from other machines and links are not encrypted; "
                                 "give --keys and --roster, or add --insecure if that is what you want"),
    ({"clock": "sundial"}, "--clock must be one of lockstep, free, got 'sundial'"),
    ({"interval_s": 0.0}, "--interval must be a positive number of seconds, got 0.0"),
    ({"round_timeout_s": NAN}, "--round-timeout must be a positive number of seconds, got nan"),
    ({"ready_timeout_s": INF}, "--ready-timeout must be a number of seconds, or 0 to wait for ever, got inf"),
    ({"epsilon": 0.0}, "--epsilon must be positive (at least 1e-06) and finite, got 0.0"),
    ({"attack": "point:2"}, "the value in attack 'point:2' must be a number in [0, 1]"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "sentence"), AGENT_FAULTS, ids=lambda value: str(value)[:40])
def test_a_fault_of_an_agent_is_told_in_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError) as fault:
        agent(**given)
    assert str(fault.value) == sentence


def test_all_faults_of_an_agent_are_reported_together() -> None:
    with pytest.raises(SettingsError) as fault:
        agent(id=-1, gamma=-1, listen="x", clock="x", epsilon=0.0, v=9.0)
    assert all(flag in str(fault.value) for flag in ("--id", "--gamma", "--listen", "--clock", "--epsilon", "--v"))


@pytest.mark.parametrize(
    "given",
    [
        {"listen": "ipc:///run/agentd/3"},
        {"listen": "tcp://*:7003", "insecure": True},
        {"listen": "tcp://[::1]:7003"},
        {"peers": {1: "tcp://[fd00::1]:7003"}, "admit": ("10.0.0.0/8", "192.168.1.7", "fd00::/8")},
        {"environment": "ipc:///" + "x" * 106},
        {"peers": {1: HOST, 2: "tcp://gate-2:7001"}, "rounds": 1, "seed": 0},
    ],
    ids=str,
)
def test_what_an_agent_may_be_given_is_kept(given: dict[str, Any]) -> None:
    settings = agent(**given)
    assert {name: getattr(settings, name) for name in given} == given


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("tcp://127.0.0.1:7", True),
        ("tcp://127.9.9.9:7", True),
        ("tcp://localhost:7", True),
        ("tcp://[::1]:7", True),
        ("ipc:///tmp/x", True),
        ("inproc://x", True),
        ("tcp://127.example.org:7", False),
        ("tcp://localhost.example.org:7", False),
        ("tcp://0.0.0.0:7", False),
        ("tcp://*:7", False),
        ("tcp://[::]:7", False),
        ("tcp://[::1", False),
        ("", False),
    ],
)
def test_only_this_machine_reaches_loopback(address: str, near: bool) -> None:
    assert is_loopback(address) is near
