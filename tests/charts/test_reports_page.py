"""Every command of docs/reports.md is run, in order, in one directory; and the page names every chart."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from run_directories import as_of_a_testbed, simulated

from agentd.charts import charts_of, compared

PAGE = (Path(__file__).parents[2] / "docs" / "reports.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (.*)$", PAGE, flags=re.MULTILINE)


@pytest.mark.system
def test_every_command_works(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    assert len(COMMANDS) == 7
    done = subprocess.run(
        ["bash", "-ec", "\n".join(COMMANDS)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert {"mine.html", "compared.html", "figures"} <= {file.name for file in tmp_path.iterdir()}
    assert (tmp_path / "figures" / "both" / "2-more-private-regret.csv").is_file()


def test_the_page_names_every_chart(tmp_path: Path) -> None:
    one, other = as_of_a_testbed(tmp_path / "a"), simulated(tmp_path / "b", agents=5)
    for chart in (*charts_of(one), *compared([one, other])):
        assert f"`{chart.name}`" in PAGE
