"""The server of the page, asked over a socket: what it tells of runs, to whom, and what nobody can make it do."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from dashboards import TOKEN, served

from agentd.cli.in_memory.simulate import simulate
from agentd.cli.watching.dashboard import dashboard
from agentd.dashboard.afflictions import Afflictions, cut_edges
from agentd.dashboard.changes import changes
from agentd.dashboard.favoured_arms import NOBODY, favoured
from agentd.dashboard.past_traffic import Traffic
from agentd.dashboard.static_files import static_files
from agentd.dashboard.surroundings import Action
from agentd.dashboard.tamed import tamed
from agentd.errors import AgentdError
from agentd.runs.history.look_back import LookBack
from agentd.runs.regret import NOT_PULLED

EVIL = "<img src=x onerror=alert(1)>\x1b]0;owned\x07\u202e<script>alert(2)</script>"


def simulated(place: Path, *words: str) -> Path:
    told = CliRunner().invoke(simulate, ["--agents", "6", "--rounds", "60", "--run-dir", str(place), *words])
    assert told.exit_code == 0, told.output
    return place


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("runs")
    return [simulated(place / name, "--seed", seed) for name, seed in (("one", "1"), ("two", "2"))]


def test_the_page_tells_of_its_runs(runs: list[Path]) -> None:
    with served(runs) as page:
        told = page.ask("/api/runs").told
        assert [run["name"] for run in told["runs"]] == ["one", "two"]
        assert told["runs"][0]["agents"] == 6
        assert not told["runs"][0]["live"]
        graph = page.ask("/api/runs/0/graph").told
        drawn = json.loads((runs[0] / "topology.json").read_text())
        assert len(graph["places"]) == 6
        assert len(graph["edges"]) == len(drawn.get("links", drawn.get("edges")))
        assert {chart["name"] for chart in page.ask("/api/runs/0/charts").told["charts"]} >= {"regret", "share"}
        compared = page.ask("/api/compare").told
        assert len(compared["charts"][0]["series"]) == 2
        assert {row["name"] for row in compared["rows"]} >= {"seed"}


def test_a_story_ends_where_the_run_ended(runs: list[Path]) -> None:
    with served(runs) as page:
        moments = page.ask("/api/runs/0/story").told["moments"]
    arm = np.load(runs[0] / "pulls.npz")["arm"]
    state: dict[str, dict[str, object]] = {}
    for moment in moments:
        for agent, told in moment.get("agents", {}).items():
            state.setdefault(agent, {}).update(told)
    arms = len(json.loads((runs[0] / "manifest.json").read_text())["arms"]["means"])
    assert [state[str(agent)]["arm"] for agent in range(6)] == favoured(arm[:, -20:], arms).tolist()
    assert moments[-1]["round"] == 60
    last = float((runs[0] / "regret.csv").read_text().splitlines()[-1].split(",")[1])
    assert [moment["regret"] for moment in moments if "regret" in moment][-1] == pytest.approx(last, abs=0.001)


def test_a_story_tells_who_was_sending_and_how_much_was_said_by_then(runs: list[Path]) -> None:
    with served(runs) as page:
        moments = page.ask("/api/runs/0/story").told["moments"]
    summary = json.loads((runs[0] / "summary.json").read_text())
    messages = [moment["messages"] for moment in moments if "messages" in moment]
    assert messages == sorted(messages)
    assert messages[-1] == summary["messages"]
    senders = [moment["sent"] for moment in moments if "sent" in moment]
    assert set().union(*senders) <= set(range(6))
    assert any(senders)
    quiet = Traffic((LookBack(round=9, messages=4, sent=(4, 0)), LookBack(round=20, messages=4, sent=(4, 0))), [9, 20])
    assert [quiet.at(place)["sent"] for place in (0, 1)] == [[0], []]
    assert Traffic((), [1, 2]).at(0) == {}
    doubts = Traffic((LookBack(round=5), LookBack(round=9, distrusted=(2,))), [3, 8, 9, 30])
    assert [doubts.distrusted(place) for place in range(4)] == [set(), set(), {2}, {2}]


def test_the_stream_of_a_run_that_is_over_says_so_and_ends(runs: list[Path]) -> None:
    with served(runs) as page:
        said = page.ask("/api/runs/0/stream")
    assert said.headers["Content-Type"].startswith("text/event-stream")
    assert b'"over":true' in said.body
    assert said.body.endswith(b"event: over\ndata: {}\n\n")


def test_every_answer_carries_the_policy(runs: list[Path]) -> None:
    with served(runs) as page:
        for path in ("/", "/static/main.js", "/api/runs", "/nothing", "/api/runs/9/graph", "/api/runs/0/agents/77"):
            said = page.ask(path)
            assert said.headers["Content-Security-Policy"].startswith("default-src 'none'"), path
            assert said.headers["X-Content-Type-Options"] == "nosniff"
            assert "Access-Control-Allow-Origin" not in said.headers
            assert (said.status == 404) == (path[-1] not in "/s")


def test_no_path_leads_out_of_the_page(runs: list[Path]) -> None:
    with served(runs) as page:
        for path in (
            "/static/../page_server.py",
            "/static/%2e%2e/page_server.py",
            "/static/..%2fpage_server.py",
            "//etc/passwd",
        ):
            assert page.ask(path).status == 404


def test_a_stranger_changes_nothing(runs: list[Path]) -> None:
    kill = json.dumps({"do": "kill", "agents": [0]})
    with served(runs) as page:
        for headers in (
            {},
            {"Origin": page.origin},
            {"Origin": page.origin, "X_Agentd_Token": TOKEN[:-1]},
            {"Origin": "http://evil.example", "X_Agentd_Token": TOKEN},
            {"X_Agentd_Token": TOKEN},
            {"Origin": page.origin, "X_Agentd_Token": TOKEN, "Sec_Fetch_Site": "cross-site"},
            {"Origin": "http://evil.example:1", "X_Agentd_Token": TOKEN, "Host": "evil.example:1"},
        ):
            assert page.ask("/api/runs/0/chaos", "POST", kill, **headers).status in (403, 421), headers
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
            assert page.ask("/api/runs/0/chaos", method).status == 405
    with served(runs, token=None) as page:
        assert page.act({"do": "kill", "agents": [0]}).status == 403


def test_who_has_the_token_is_told_why_nothing_happens_to_a_run_that_is_over(runs: list[Path]) -> None:
    with served(runs) as page:
        said = page.act({"do": "kill", "agents": [0]})
        assert said.status == 409
        assert "no testbed is running" in said.told["error"]
        assert page.act({"do": "erase"}).status == 400
        assert page.ask("/api/runs/0/chaos", "POST", "[" * 9999, Origin=page.origin, X_Agentd_Token=TOKEN).status == 400


def hostile(place: Path, runs: list[Path]) -> Path:
    """A run directory in which every text is markup, and files are pipes and links."""
    place.mkdir(mode=0o700)
    manifest = json.loads((runs[0] / "manifest.json").read_text())
    manifest["settings"] |= {"algorithm": EVIL, EVIL: EVIL}
    manifest |= {"created": EVIL, "runtime": EVIL, "liars": [EVIL, 1, -5, 10**40]}
    (place / "manifest.json").write_text(json.dumps(manifest))
    (place / "summary.json").write_text(
        json.dumps({"failure": EVIL, "privacy": {"covers": EVIL}, "dropped": {EVIL: 3}})
    )
    (place / "topology.json").write_bytes((runs[0] / "topology.json").read_bytes())
    (place / "pulls.npz").write_bytes((runs[0] / "pulls.npz").read_bytes())
    faults = [{"round": 3, "what": EVIL, "verb": EVIL, "agents": [EVIL, 2], "parameters": {"cut": EVIL}}]
    faults += [{"round": 4, "what": "x", "verb": "partition", "agents": [], "parameters": {"cut": "0|0"}}]
    (place / "faults.jsonl").write_text("".join(json.dumps(fault) + "\n" for fault in faults))
    (place / "logs").mkdir()
    (place / "logs" / "agent-0.jsonl").write_text(json.dumps({"event": EVIL, EVIL: EVIL}) + "\n" + EVIL + "\n")
    (place / "logs" / "agent-1.jsonl").symlink_to("/etc/passwd")
    os.mkfifo(place / "logs" / "agent-2.jsonl")
    os.mkfifo(place / "status.json")
    (place / "state" / "agent-0").mkdir(parents=True)
    (place / "state" / "agent-0" / "ledger.db").write_bytes(b"\x00rubbish" * 99)
    return place


def test_a_hostile_run_directory_is_told_as_short_printable_text(tmp_path: Path, runs: list[Path]) -> None:
    with served([hostile(tmp_path / "evil", runs)]) as page:
        for path in ("/api/runs", "/api/runs/0/story", "/api/runs/0/charts", "/api/compare", "/api/runs/0/stream"):
            said = page.ask(path)
            assert said.status == 200, (path, said.body)
            assert b"\x1b" not in said.body
            assert b"\\u001b" not in said.body
            assert not said.headers["Content-Type"].startswith("text/html")
        log = page.ask("/api/runs/0/agents/0").told["log"]
        assert len(log) == 2
        assert all(line.isprintable() for line in log)
        assert page.ask("/api/runs/0/agents/1").told["log"] == []
        assert page.ask("/api/runs/0/agents/2").told["log"] == []


def test_no_reward_is_ever_told(runs: list[Path]) -> None:
    """The page sees the pulls as arms; nothing that it serves has the rewards."""
    paths = ("/api/runs", "/api/runs/0/story", "/api/runs/0/agents/0", "/api/runs/0/stream")
    with served(runs) as page:
        assert not [
            path for path in paths if b'"reward":[' in page.ask(path).body or b'"rewards":[' in page.ask(path).body
        ]


def test_the_page_weighs_little() -> None:
    files = static_files()
    assert sum(len(file.packed) for file in files.values()) < 100_000
    assert all(gzip.decompress(file.packed) == file.content for file in files.values())
    for name, file in files.items():
        text = file.content.decode()
        assert "innerHTML" not in text
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), name
        assert "https://" not in text


def test_only_what_changed_is_sent() -> None:
    before = {"round": 1, "agents": {"0": {"arm": 1, "marks": []}, "1": {"arm": 2, "marks": []}}}
    after = {"round": 2, "agents": {"0": {"arm": 1, "marks": ["dead"]}, "1": {"arm": 2, "marks": []}}}
    assert changes(before, after) == {"round": 2, "agents": {"0": {"marks": ["dead"]}}}
    assert changes({}, after) == after
    assert changes(after, after) == {}


def test_an_agent_favours_the_arm_that_it_pulled_most_lately() -> None:
    pulls = np.array([[1, 1, 0], [2, 0, NOT_PULLED], [NOT_PULLED] * 3], dtype=np.uint16)
    assert favoured(pulls, 3).tolist() == [1, 0, NOBODY]


def test_faults_are_understood_as_long_as_they_last() -> None:
    suffering = Afflictions.none()
    edges = [(0, 1), (1, 2), (2, 3)]
    for verb, agents, parameters in (
        ("kill", [1], {}),
        ("pause", [2], {}),
        ("partition", [0, 1, 2, 3], {"cut": "0-1|2-3"}),
        ("delay", [3], {"ms": 50}),
        ("no such thing", "nobody", None),
    ):
        suffering.befall({"verb": verb, "agents": agents, "parameters": parameters})
    assert suffering.marks == {1: {"dead"}, 2: {"paused"}, 3: {"disturbed"}}
    assert suffering.cut_edges(edges) == [1] == cut_edges(["0-1|2-3"], edges)
    for verb, agents in (("restart", [1]), ("resume", [2]), ("heal", [])):
        suffering.befall({"verb": verb, "agents": agents, "parameters": {}})
    assert not any(suffering.marks.values())
    assert not suffering.cut_edges(edges)


@pytest.mark.parametrize(
    "wanted",
    [
        *(
            None,
            [],
            {},
            {"do": "explode"},
            {"do": "kill"},
            {"do": "kill", "agents": []},
            {"do": "kill", "agents": ["0"]},
        ),
        *({"do": "kill", "agents": [-1]}, {"do": "kill", "agents": [True]}, {"do": "kill", "agents": [0], "force": 1}),
        *({"do": "loss", "agents": [0], "rate": 2}, {"do": "loss", "agents": [0]}, {"do": "heal", "agents": [0]}),
        {"do": "delay", "agents": [0], "ms": float("nan")},
    ],
)
def test_a_request_that_is_none_is_refused(wanted: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Action.parse(wanted)


def test_text_is_cut_and_cannot_drive_a_terminal() -> None:
    assert tamed("\x1b[2J<b>") == "?[2J<b>"
    assert len(tamed("x" * 10_000)) == 301
    assert tamed({"a": [float("nan"), 2**60, True, None]}) == {"a": [None, str(2**60), True, None]}
    assert tamed([[[[[["deep"]]]]]]) == [[[["…"]]]]


def refusal_of(*words: str) -> str:
    told = CliRunner().invoke(dashboard, list(words))
    assert isinstance(told.exception, AgentdError), told.output
    return str(told.exception)


def test_the_verb_refuses_what_it_cannot_show_or_should_not(tmp_path: Path, runs: list[Path]) -> None:
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    assert "holds no run" in refusal_of(str(own))
    assert "no directory" in refusal_of(str(tmp_path / "gone"))
    assert "loopback only" in refusal_of(str(runs[0]), "--listen", "0.0.0.0:9999", "--allow-chaos")
    assert "--listen-insecure" in refusal_of(str(runs[0]), "--listen", "0.0.0.0:9999")
    assert "HOST:PORT" in refusal_of(str(runs[0]), "--listen", "nonsense")


def test_a_page_that_asks_again_is_told_that_nothing_is_new(runs: list[Path]) -> None:
    with served(runs) as page:
        first = page.ask("/static/page.css", Accept_Encoding="gzip")
        assert gzip.decompress(first.body)
        assert page.ask("/static/page.css", If_None_Match=first.headers["ETag"]).status == 304
