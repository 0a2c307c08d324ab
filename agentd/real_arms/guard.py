"""The parent of an arm's command: when its agent is gone, however it went, nothing of the command stays.

Run by its path, with `python -I -S` and nothing but the standard library, as

    guard.py LIFELINE COMMAND [ARGUMENT]…

where LIFELINE is a pipe whose other end the agent holds. When that is closed, or the command ends, all descendants are
killed. Those that were left behind by their parents become children of this process (a subreaper), so that no daemon
gets away. The command inherits standard input and output, and never the lifeline.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys

PR_SET_CHILD_SUBREAPER = 36
SWEEPS = 200
"""Whoever forks faster than it is killed is swept so often; between two sweeps nobody waits for long."""
SWEEP_S = 0.01
CANNOT_START = 127


def main() -> int:
    """Start the command, wait for its end or the agent's, kill what is left; its exit code."""
    lifeline, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = os.fork()
    if not child:
        _become(command, lifeline)
    for standard in (0, 1):  # the agent is to see the end of the command's, not of ours
        os.close(standard)
    code = None
    while code is None:
        ready, _, _ = select.select([lifeline, wake], [], [])
        if lifeline in ready:
            break
        os.read(wake, 512)
        code = _reap(child)
    _sweep()
    return 0 if code is None else code


def _become(command: "list[str]", lifeline: int) -> None:
    os.close(lifeline)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as fault:
        os.write(2, f"cannot run {command[0]}: {fault.strerror}\n".encode())
        os._exit(CANNOT_START)


def _reap(child: int) -> "int | None":
    """Bury whoever died; the exit code of the child, if it was among them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            found, status = os.waitpid(-1, os.WNOHANG)
            if not found:
                break
            if found == child:
                code = os.waitstatus_to_exitcode(status) & 0xFF
    return code


def _sweep() -> None:
    """Kill all descendants, and those that they made meanwhile."""
    for _ in range(SWEEPS):
        family = _descendants()
        for process in family:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        _reap(0)
        if not family:
            return
        select.select([], [], [], SWEEP_S)


def _descendants() -> "list[int]":
    """All processes that this one is an ancestor of, the dead that nobody has buried among them."""
    parents = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is a long import for so little
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    found, family = {os.getpid()}, []
    while more := [process for process, parent in parents.items() if parent in found and process not in found]:
        found.update(more)
        family += more
    return family


if __name__ == "__main__":
    sys.exit(main())
