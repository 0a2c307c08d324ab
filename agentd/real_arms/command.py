"""exec:COMMAND: a command that is started once and asked line by line.

For every pull it gets one line on its standard input, `ARM TRIAL` (arms from 0, trials from 1, both decimal), and
answers with one line on its standard output: the reward, or `REWARD TRIAL`. Answers come in the order of the lines;
with the trial beside it one that belongs to another pull is noticed. Where agents share the arms their number is in the
line, too: `ARM TRIAL AGENT`. Standard error is for people: the end of it is told in the log when the command ends.

The command is no shell's: it is split as a shell would (`shlex`) and run as it is. Its environment has `PASSED_ON` and
nothing else, so that no secret of this process is in it. A command that ended is started again, with growing patience.
`guard.py` stands between: whatever the command leaves behind ends with it, and it ends with this process.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from agentd.real_arms.worker import ArmFault, Reason, number

LONGEST_LINE = 256
"""Bytes of an answer."""
LONGEST_ERROR = 400
"""Bytes of standard error that are kept, the last ones."""
FIRST_PATIENCE_S = 0.5
MOST_PATIENCE_S = 30.0
"""How long to wait before a command that ended is started again."""
MOST_UNANSWERED = 16
"""Answers that a command may owe: one that takes in lines and answers none is ended."""
ENDS_WITHIN_S = 5.0
PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""Names of variables that a command finds in its environment."""

_GUARD = Path(__file__).with_name("guard.py")


def environment_of(variables: Mapping[str, str]) -> dict[str, str]:
    """What a command is told of ours."""
    return {name: variables[name] for name in PASSED_ON if name in variables}


class Command:
    """One running copy of the command."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._child: _Child | None = None
        self._closed = False
        self._starting = threading.Lock()
        self._asking = threading.Lock()
        self._start_at_s = 0.0
        self._patience_s = FIRST_PATIENCE_S

    def begin(self) -> None:
        """Start the command: the first pull is not to wait for it."""
        with contextlib.suppress(ArmFault):
            self._running()

    def pull(self, arm: int, trial: int, deadline_s: float, agent: int | None = None) -> float:
        """Ask the command; see `Worker`."""
        with self._asking:
            child = self._running()
            try:
                whose = "" if agent is None else f" {agent}"
                child.tell(f"{arm} {trial}{whose}\n".encode(), deadline_s)
                reward = self._answer(child, trial, deadline_s)
            except _Broken as fault:
                self._end(child)
                raise ArmFault(fault.reason, f"{fault}{child.last_words}") from None
            self._patience_s = FIRST_PATIENCE_S
            return reward

    def close(self) -> None:
        """End the command and all that it left behind."""
        with self._starting:  # nothing is started from now on
            self._closed, child = True, self._child
        if child is not None:
            child.end()
            if self._asking.acquire(timeout=ENDS_WITHIN_S):  # a pull that is under way sees the end of the command
                child.let_go()
                self._asking.release()

    def _answer(self, child: _Child, trial: int, deadline_s: float) -> float:
        while True:
            line = child.line(deadline_s)
            if child.unanswered:  # this was about a pull that was given up
                continue
            words = line.decode("ascii", "replace").split()
            if len(words) not in (1, 2) or (len(words) == 2 and words[1] != str(trial)):
                raise _Broken(Reason.UNREADABLE, "the answer is not a reward, or one of another trial")
            return number(words[0])

    def _running(self) -> _Child:
        with self._starting:
            if self._child is not None and not self._child.ended:
                return self._child
            now_s = time.monotonic()
            if self._closed or now_s < self._start_at_s:
                raise ArmFault(Reason.ENDED, "the command has ended and is started again soon")
            self._start_at_s = now_s + self._patience_s
            self._patience_s = min(2 * self._patience_s, MOST_PATIENCE_S)
            try:
                self._child = _Child(self._words)
            except OSError as fault:
                raise ArmFault(Reason.ENDED, f"the command cannot be started: {fault.strerror}") from None
            return self._child

    def _end(self, child: _Child) -> None:
        child.end()
        child.let_go()
        self._start_at_s = time.monotonic() + self._patience_s


class _Broken(ArmFault):
    """What a command cannot be asked anything after."""


class _Child:
    """The command under its guard, and the pipes to it."""

    def __init__(self, words: list[str]) -> None:
        reading, self._lifeline = os.pipe2(os.O_CLOEXEC)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GUARD), str(reading), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment_of(os.environ),
                pass_fds=(reading,),
                start_new_session=True,
                bufsize=0,
            )
        except OSError:
            os.close(self._lifeline)
            raise
        finally:
            os.close(reading)
        pipes = self._process.stdin, self._process.stdout, self._process.stderr
        self._in, self._out, self._errors = (pipe.fileno() for pipe in pipes if pipe is not None)
        for pipe in (self._in, self._out, self._errors):
            os.set_blocking(pipe, False)
        self._unread = self._error = b""
        self._deaf = False  # it has closed standard error
        self._ending = threading.Lock()
        self.unanswered = 0
        """Pulls that it was told of and has not answered; answers come in the same order."""
        self.ended = False

    @property
    def last_words(self) -> str:
        """The end of what it wrote to standard error, for the log."""
        return f"; it wrote {self._error.decode('utf-8', 'replace')!r}" if self._error else ""

    def tell(self, line: bytes, deadline_s: float) -> None:
        """Write a line; after one that was written in part only the command is of no use."""
        self._require_nothing_unasked()
        if self.unanswered >= MOST_UNANSWERED:
            raise _Broken(Reason.LATE, f"the command has not answered {self.unanswered} pulls")
        while line:
            try:
                line = line[os.write(self._in, line) :]
            except BlockingIOError:
                if not self._ready(self._in, selectors.EVENT_WRITE, deadline_s):
                    raise _Broken(Reason.LATE, "the command reads no lines") from None
            except OSError:
                raise self._gone() from None
        self.unanswered += 1

    def line(self, deadline_s: float) -> bytes:
        """The next line that it says: the answer to the latest pull if then none is unanswered."""
        while b"\n" not in self._unread:
            if len(self._unread) > LONGEST_LINE:
                raise _Broken(Reason.TOO_LONG, f"a line of more than {LONGEST_LINE} bytes")
            if not self._ready(self._out, selectors.EVENT_READ, deadline_s):
                raise ArmFault(Reason.LATE, "the command did not answer in time")
            self._read_some()
        line, _, self._unread = self._unread.partition(b"\n")
        if len(line) > LONGEST_LINE:
            raise _Broken(Reason.TOO_LONG, f"a line of more than {LONGEST_LINE} bytes")
        self.unanswered -= 1
        return line

    def end(self) -> None:
        """Let the guard kill everything, and wait until it has; whoever reads from the command sees its end."""
        with self._ending:
            if self.ended:
                return
            self.ended = True
            os.close(self._lifeline)
            try:
                self._process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def let_go(self) -> None:
        """Close the pipes; only who reads them may do that."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _require_nothing_unasked(self) -> None:
        """After an answer that nobody asked for, nobody knows which pull an answer is about."""
        if self.unanswered:
            return
        if not self._unread and self._ready(self._out, selectors.EVENT_READ, 0.0):
            self._read_some()
        if self._unread:
            raise _Broken(Reason.UNREADABLE, "the command said something unasked")

    def _read_some(self) -> None:
        with contextlib.suppress(BlockingIOError):
            part = os.read(self._out, LONGEST_LINE + 1)
            if not part:
                raise self._gone()
            self._unread += part

    def _gone(self) -> _Broken:
        self._read_errors()
        return _Broken(Reason.ENDED, "the command has ended")

    def _ready(self, pipe: int, event: int, deadline_s: float) -> bool:
        """Wait until a pipe can be used; what it tells people is taken up meanwhile, so that it can go on."""
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, event)
            if not self._deaf:
                selector.register(self._errors, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select(max(0.0, deadline_s - time.monotonic()))}
                if self._errors in ready and not self._read_errors():
                    selector.unregister(self._errors)
                if pipe in ready:
                    return True
                if time.monotonic() >= deadline_s:
                    return False

    def _read_errors(self) -> bool:
        """Keep the end of what lies ready; whether more may come."""
        try:
            part = os.read(self._errors, 1 << 16)
        except BlockingIOError:
            return True
        self._error = (self._error + part)[-LONGEST_ERROR:]
        self._deaf = not part
        return not self._deaf
