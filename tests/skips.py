"""How many tests were skipped and why: said at the end of every run, and where they must be excused, checked.

A pytest plugin; conftest.py loads it. With SKIPS_MUST_BE_EXCUSED set, as in CI, a run fails unless every reason for a
skip is one of EXCUSES and what the excuse says is found to be true here, now: the machine could not have run the test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from agentd.shell.resolve import has_ipv6
from deploy.containers.docker import find_composes, find_docker

MUST_BE_EXCUSED = "SKIPS_MUST_BE_EXCUSED"


def nobody_special() -> bool:
    return os.geteuid() != 0


def nothing_can_be_installed() -> bool:
    """Where it can, .ci/prepare has done so."""
    return nobody_special() or shutil.which("apt-get") is None


def no_docker() -> bool:
    return find_docker() is None


def no_compose(generation: str) -> bool:
    return all(" ".join(compose.command) != generation for compose in find_composes())


def no_mounts() -> bool:
    with tempfile.TemporaryDirectory() as place:
        refused = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=False, capture_output=True).returncode
        if not refused:
            subprocess.run(["umount", place], check=True)
    return bool(refused)


def no_namespaces() -> bool:
    """Whether no network namespace can be made, or no wire laid in one."""
    name = f"agentd-look-{os.getpid()}"
    words = ["ip", "-n", name, "link", "add", "name", "one", "type", "veth", "peer", "name", "other"]
    if (
        shutil.which("ip") is None
        or subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True).returncode
    ):
        return True
    refused = subprocess.run(words, check=False, capture_output=True).returncode
    subprocess.run(["ip", "netns", "del", name], check=True)
    return bool(refused)


EXCUSES: dict[str, Callable[[], bool]] = {
    "Docker is needed": no_docker,
    "there is no compose:": lambda: not find_composes() and nothing_can_be_installed(),
    "there is no docker compose here": lambda: no_compose("docker compose"),
    "there is no docker-compose here": lambda: no_compose("docker-compose") and nothing_can_be_installed(),
    "install debootstrap": nothing_can_be_installed,
    "there is no systemd-analyze here": nothing_can_be_installed,
    "there is no curl here": nothing_can_be_installed,
    "there is no chromium here": nothing_can_be_installed,  # with LONG_TESTS=1 .ci/prepare installs it
    "making a base image from Debian packages needs root": nobody_special,
    "only root can become another user": nobody_special,
    "only root can give files away": nobody_special,
    "this machine has no IPv6": lambda: not has_ipv6(),
    "only root may kill the process inside a container": nobody_special,
    "signals to processes of containers need root": nobody_special,
    "only root may mount a small file system": no_mounts,
    "root without the right to mount": no_mounts,
    "making network namespaces needs root": no_namespaces,
    "raw sockets are for root": nobody_special,
    "there is no qemu-aarch64-static": lambda: not Path("/usr/bin/qemu-aarch64-static").exists() or no_namespaces(),
}
"""What a reason says, and whether it is so on this machine."""


def is_excused(reason: str, excuses: dict[str, Callable[[], bool]] = EXCUSES) -> bool:
    """Whether the machine could not have run what was skipped for this reason."""
    return any(phrase in reason and holds() for phrase, holds in excuses.items())


def counted(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> Counter[str]:
    """The reasons for skips, and how many tests each kept from running."""
    return Counter(
        report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for report in reports
    )


def _skipped(config: pytest.Config) -> Counter[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return counted(reporter.stats.get("skipped", ())) if reporter is not None else Counter()


def _inexcusable(config: pytest.Config) -> list[str]:
    return [reason for reason in _skipped(config) if not is_excused(reason)] if MUST_BE_EXCUSED in os.environ else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run that is otherwise green fails if something was skipped without an excuse; workers of xdist know of none."""
    if session.exitstatus == pytest.ExitCode.OK and _inexcusable(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = _skipped(config)
    terminalreporter.section(f"{skipped.total()} skipped")
    for reason, number in skipped.most_common():
        terminalreporter.line(f"{number:4} {reason}")
    for reason in _inexcusable(config):
        terminalreporter.line(f"ERROR: this machine could run what was skipped, or nobody said when not: {reason}")
