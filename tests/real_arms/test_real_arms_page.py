"""The page on real arms: every program on it runs, and every command, with ports that are free here."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from evidence import until
from loopback import events, free_address
from mirrors import block
from pages import blocks_of, surroundings

PAGE = "docs/real-arms.md"
COMMANDS = [re.sub(r" *\\\n *", " ", found.text).strip() for found in blocks_of(PAGE, "bash")]
PROGRAMS = [found.text.partition(":")[0].removeprefix("# ") for found in blocks_of(PAGE, "python")]
PORTS = ("7000", "7100", "7101", "7102", "8000", "8080")


class Mirror(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.system
@pytest.mark.slow
def test_every_program_and_every_command_of_the_page_works(tmp_path: Path) -> None:
    ports = {port: free_address().rpartition(":")[2] for port in PORTS}
    agree, *agents, serve = [re.sub("|".join(PORTS), lambda found: ports[found[0]], command) for command in COMMANDS]
    assert len(agents) == 3
    for name in PROGRAMS:
        (tmp_path / name).write_text(block(name), encoding="utf-8")
    where = surroundings(tmp_path)
    subprocess.run(["bash", "-c", agree], cwd=tmp_path, env=where, check=True, capture_output=True)
    mirror = ThreadingHTTPServer(("127.0.0.1", int(ports["8000"])), Mirror)
    threading.Thread(target=mirror.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    mirrors = [f"http://127.0.0.1:{ports['8000']}/{letter}" for letter in "abc"]
    commands = [[sys.executable, "mirror_endpoint.py", ports["8080"], "0.18", *mirrors]]
    commands += [["bash", "-c", f"{_exec(each)} --log-file log-{own}.jsonl"] for own, each in enumerate(agents)]
    processes = [subprocess.Popen(each, cwd=tmp_path, env=where) for each in commands]
    try:
        logs = [tmp_path / f"log-{own}.jsonl" for own in range(3)]
        until(lambda: all(events(log, "progress") for log in logs))
        for process in processes[1:]:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        for log in logs:
            (done,) = events(log, "done")
            assert done["favoured"] in (0, 1, 2)
            assert done["heard"] > 0
        with subprocess.Popen(
            ["bash", "-c", f"exec {serve}"], cwd=tmp_path, env=where, stdout=subprocess.PIPE
        ) as served:
            assert served.stdout is not None
            assert b"serving 3 real arms" in served.stdout.readline()
            served.terminate()
            assert served.wait(60) == 0
    finally:
        for process in processes:
            process.kill()
            process.wait()
        mirror.shutdown()
        mirror.server_close()


def _exec(command: str) -> str:
    """The command in place of its shell, so that a signal reaches it."""
    return command.strip().replace("agentd --id", "exec agentd --id", 1)
