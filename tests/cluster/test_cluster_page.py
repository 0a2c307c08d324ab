"""docs/cluster.md: its commands are run, on ports of their own, and give what a single machine gives."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner
from pages import blocks_of, run

from agentd.cli import cli

ON_LOOPBACK, WITH_CERTIFICATES = blocks_of("docs/cluster.md", "console")


def on_a_free_port(commands: list[str]) -> list[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    return [command.replace("8786", port) for command in commands]


@pytest.mark.system
def test_the_sweep_of_the_page_is_the_local_one(tmp_path: Path) -> None:
    run(on_a_free_port(ON_LOOPBACK.commands), tmp_path)
    (words,) = [command.split()[1:] for command in ON_LOOPBACK.commands if command.startswith("agentd sweep")]
    local = CliRunner().invoke(
        cli, [*words[: words.index("--cluster")], "--jobs", "1", "--out", str(tmp_path / "here")]
    )
    assert local.exit_code == 0, local.output
    assert (tmp_path / "sweep/sweep.csv").read_bytes() == (tmp_path / "here/sweep.csv").read_bytes()


@pytest.mark.system
@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl here")
def test_the_figure_of_the_page_is_made_over_tls(tmp_path: Path) -> None:
    said = run(on_a_free_port(WITH_CERTIFICATES.commands), tmp_path)
    assert "on tls://127.0.0.1:" in said
    assert (tmp_path / "figures/fig1a/fig1a.csv").is_file()
