from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from topology import cli
from topology import generate as families
from topology.cli import topology
from topology.generate import FAMILIES, topology_stream
from topology.graph import Graph
from topology.graph_files import SUFFIXES, read, write
from topology.measure import measure


def run(*arguments: object) -> Result:
    return CliRunner().invoke(topology, [str(argument) for argument in arguments])


def refusal(code: int, *arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize("arguments", [(), ("generate",), ("measure",)])
def test_every_command_explains_itself(arguments: tuple[str, ...]) -> None:
    result = run(*arguments, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_the_help_names_every_family_and_option() -> None:
    text = run("generate", "--help").output
    options = (
        "agents",
        "edge-probability",
        "degree",
        "rewire",
        "attach",
        "rows",
        "columns",
        "seed",
        "out",
        "svg",
        "json",
    )
    assert all(f"--{option}" in text for option in options)
    assert all(family in text for family in FAMILIES)


def test_generate_prints_what_came_out() -> None:
    result = run("generate", "--agents", 12, "--edge-probability", 0.4, "--seed", 7)
    graph = families.erdos_renyi(12, 0.4, topology_stream(7))
    assert result.exit_code == 0
    rows = dict(line.rsplit(maxsplit=1) for line in result.stdout.splitlines())
    assert rows["family"] == "erdos-renyi"
    assert rows["edge probability"] == "0.4"
    assert rows["nodes"] == "12"
    assert rows["edges"] == str(len(graph.edges))
    assert rows["diameter"] == str(measure(graph).diameter)
    assert rows["redraws"] == str(graph.redraws)
    assert rows["seed"] == "7"
    assert len({len(line) - len(line.rsplit(maxsplit=1)[1]) for line in result.stdout.splitlines()}) == 1  # aligned


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_drawn_by_position_and_by_option(family: str, tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    result = run("generate", family, "--agents", 9, "--seed", 3, "--out", path, "--json")
    assert result.exit_code == 0
    graph = families.generate(family, 9, topology_stream(3))
    assert read(path) == graph
    summary = json.loads(result.stdout)
    assert (summary["family"], summary["nodes"], summary["edges"]) == (family, 9, len(graph.edges))
    assert run("generate", "--family", family, "--agents", 9, "--seed", 3, "--json").stdout == result.stdout
    assert run("generate", family, "--family", family, "--agents", 9, "--seed", 3, "--json").stdout == result.stdout


def test_parameters_reach_their_family(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    for arguments, parameters in (
        (("watts-strogatz", "--degree", 2, "--rewire", 0.5), (("degree", 2), ("rewire", 0.5))),
        (("random-regular", "--degree", 3), (("degree", 3),)),
        (("barabasi-albert", "--attach", 1), (("attach", 1),)),
        (("grid", "--rows", 2), (("rows", 2), ("columns", 10))),
        (("grid", "--rows", 3, "--columns", 5), (("rows", 3), ("columns", 5))),
    ):
        assert run("generate", *arguments, "--out", path).exit_code == 0
        assert read(path).parameters == parameters


def test_a_drawn_seed_repeats_the_draw(tmp_path: Path) -> None:
    first, second, again = (tmp_path / f"{name}.json" for name in ("first", "second", "again"))
    seeds = [json.loads(run("generate", "--json", "--out", path).stdout)["seed"] for path in (first, second)]
    assert seeds[0] != seeds[1]
    run("generate", "--seed", seeds[0], "--out", again)
    assert again.read_bytes() == first.read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_suffix_decides_the_format(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"graph{suffix}"
    assert run("generate", "ring", "--agents", 5, "--out", path).exit_code == 0
    assert read(path).edges == families.ring(5).edges


def test_pictures_are_written_by_both_commands(tmp_path: Path) -> None:
    graph, drawn, measured = tmp_path / "graph.edges", tmp_path / "drawn.svg", tmp_path / "measured.svg"
    assert run("generate", "ring", "--agents", 5, "--out", graph, "--svg", drawn).exit_code == 0
    assert run("measure", graph, "--svg", measured).exit_code == 0
    titles = [ET.parse(path).getroot()[0].text for path in (drawn, measured)]  # noqa: S314 -- our own files
    assert titles == ["ring: 5 nodes, 5 edges", "5 nodes, 5 edges"]


def test_a_graph_too_large_to_measure_is_still_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "MAX_MEASURED_NODES", 5)
    assert "diameter     not measured\n" in run("generate", "ring", "--agents", 6).stdout
    assert json.loads(run("generate", "ring", "--agents", 6, "--json").stdout)["diameter"] is None
    assert json.loads(run("generate", "ring", "--agents", 5, "--json").stdout)["diameter"] == 2


def test_measure_prints_a_table(tmp_path: Path) -> None:
    write(families.line(4), tmp_path / "line.edges")
    result = run("measure", tmp_path / "line.edges")
    assert result.exit_code == 0
    assert result.stdout == (
        "nodes          4\n"
        "edges          3\n"
        "min degree     1\n"
        "mean degree    1.5\n"
        "max degree     2\n"
        "connected      yes\n"
        "diameter       3\n"
        "radius         2\n"
        "mean distance  1.667\n"
        "\n"
        "gamma  mean ball  cliques at most\n"
        "    1       2.50                2\n"
        "    2       3.50                2\n"
        "    3       4.00                1\n"
    )


def test_measure_of_a_single_node_has_no_table(tmp_path: Path) -> None:
    write(families.line(1), tmp_path / "one.edges")
    result = run("measure", tmp_path / "one.edges")
    assert result.exit_code == 0
    assert "gamma" not in result.stdout


def test_measure_gives_json_for_one_lifetime(tmp_path: Path) -> None:
    graph = families.erdos_renyi(20, 0.3, topology_stream(5))
    write(graph, tmp_path / "graph.json")
    result = run("measure", tmp_path / "graph.json", "--gamma", 2, "--json")
    assert json.loads(result.stdout) == measure(graph, 2).as_json()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("ring", "--degree", 3), "the family ring takes no degree"),
        (("--agents", 0), "between 1 and 1048576 nodes"),
        (("--edge-probability", 1.5), "between 0 and 1"),
        (("--edge-probability", "nan"), "between 0 and 1"),
        (("--agents", 100, "--edge-probability", 0.001), "is a sensible minimum"),
        (("grid", "--rows", 3, "--columns", 3, "--agents", 8), "3 rows of 3 are 9 nodes, not 8"),
    ],
)
def test_bad_parameters_exit_with_2_and_one_line(arguments: tuple[object, ...], reason: str) -> None:
    assert reason in refusal(2, "generate", *arguments)


@pytest.mark.parametrize(
    "arguments", [("torus",), ("ring", "--family", "star"), ("--agents", "many"), ("--seed", -1), ("--seed", 2**64)]
)
def test_misused_options_exit_with_2(arguments: tuple[object, ...]) -> None:
    result = run("generate", *arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_files_that_cannot_be_used_exit_with_78_and_one_line(tmp_path: Path) -> None:
    assert "No such file" in refusal(78, "measure", tmp_path / "missing.json")
    assert "known are .edges" in refusal(78, "measure", tmp_path / "graph.png")
    assert "known are .edges" in refusal(78, "generate", "ring", "--out", tmp_path / "graph.png")
    assert "cannot write" in refusal(78, "generate", "ring", "--out", tmp_path / "nowhere" / "graph.json")
    assert "cannot write" in refusal(78, "generate", "ring", "--svg", tmp_path)
    write(Graph.of(3, [(0, 1)]), tmp_path / "apart.json")
    assert "2 components (0 1; 2)" in refusal(78, "measure", tmp_path / "apart.json")


def test_an_impossible_lifetime_exits_with_2(tmp_path: Path) -> None:
    write(families.ring(3), tmp_path / "ring.json")
    assert "gamma must be an integer of at least 0" in refusal(2, "measure", tmp_path / "ring.json", "--gamma", -1)
