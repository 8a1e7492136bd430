"""Starts child processes that never outlive this program.

A guard process (`child_process_guard.py`, about 8 MB) runs between the program and each child. The
child runs in its own session, so that Ctrl-C in the terminal reaches only the program, which
decides the order in which its children stop.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from connect_runtime.base.errors import FatalError
from connect_runtime.system import child_process_guard, system_clock

_REPORT_TIMEOUT_S = 10.0
_PAUSE_TIMEOUT_S = 5.0
_PAUSE_POLL_INTERVAL_S = 0.001


class ProcessStartError(FatalError):
    """Raised if a program could not be started."""


class ChildProcess:
    """A child process that is running or has exited. Thread-safe, but only one thread at a time may
    call `wait`."""

    def __init__(self, guard: subprocess.Popen[bytes], *, pid: int, life_fd: int) -> None:
        self._guard = guard
        self._life_fd: int | None = life_fd
        self.pid = pid

    def poll(self) -> int | None:
        """Return the child's exit status; None while it is running. The status is 128 + signal
        number if a signal ended the child."""
        status = self._guard.poll()
        if status is not None:
            self._close_liveness_pipe()
        return status

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the child to end, for at most `timeout_s`. Return the exit status like
        `poll`."""
        with suppress(subprocess.TimeoutExpired):
            self._guard.wait(timeout_s)
        return self.poll()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the child. Does nothing if the child has exited.

        After SIGSTOP, waits until all threads of the child have stopped. They stop one by one, and
        a thread that is still running could write output after this method has returned.
        """
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
            if number is signal.SIGSTOP:
                system_clock.wait_until(
                    lambda: self.poll() is not None or _is_process_stopped(self.pid),
                    timeout_s=_PAUSE_TIMEOUT_S,
                    interval_s=_PAUSE_POLL_INTERVAL_S,
                )

    def kill(self, *, timeout_s: float = 10.0) -> int:
        """Send SIGKILL to the child and wait for it to end. Raises `ProcessStartError` after the
        timeout."""
        self.send_signal(signal.SIGKILL)
        status = self.wait(timeout_s)
        if status is None:
            raise ProcessStartError(f"process {self.pid} still exists {timeout_s} s after SIGKILL")
        return status

    def _close_liveness_pipe(self) -> None:
        if self._life_fd is not None:
            os.close(self._life_fd)
            self._life_fd = None


def build_python_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs an installed module with this interpreter.

    With `-P`, Python does not search the working directory for modules, because other users may be
    able to write to it.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def start_process(
    argv: Sequence[str],
    *,
    output: IO[bytes] | None = None,
    stderr: IO[bytes] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> ChildProcess:
    """Start a program that cannot outlive this process.

    stdout and stderr are written to `output`; if `stderr` is given, stderr is written there
    instead. Without `output`, both are discarded. Raises `ProcessStartError` if the program cannot
    be run.
    """
    report_read, report_write = os.pipe()
    life_read, life_write = os.pipe()
    sink = subprocess.DEVNULL if output is None else output
    try:
        guard = subprocess.Popen(  # noqa: S603 - the caller's own program, no shell
            [
                *(sys.executable, "-I", "-S", child_process_guard.__file__),
                *(str(report_write), str(life_read), str(os.getpid()), *argv),
            ],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink if stderr is None else stderr,
            env=None if env is None else dict(env),
            cwd=cwd,
            pass_fds=(report_write, life_read),
            start_new_session=True,
        )
    except OSError as error:
        os.close(report_read)
        os.close(life_write)
        raise ProcessStartError(f"starting {argv[0]}: {error}") from error
    finally:
        os.close(report_write)
        os.close(life_read)
    return _wait_for_guard_report(guard, argv[0], report_fd=report_read, life_fd=life_write)


def is_process_alive(pid: int) -> bool:
    """Return whether a process with this id is running, regardless of the user that owns it. A
    zombie counts as ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def _wait_for_guard_report(
    guard: subprocess.Popen[bytes], program: str, *, report_fd: int, life_fd: int
) -> ChildProcess:
    try:
        lines = _read_guard_report(report_fd).splitlines()
    finally:
        os.close(report_fd)
    failures = [line[1:] for line in lines if line.startswith("!")]
    pids = [int(line) for line in lines if not line.startswith("!")]
    if failures or not pids:
        os.close(life_fd)
        with suppress(subprocess.TimeoutExpired):
            guard.wait(_REPORT_TIMEOUT_S)
        raise ProcessStartError(
            f"starting {failures[0] if failures else program + ': the process did not start'}"
        )
    return ChildProcess(guard, pid=pids[0], life_fd=life_fd)


def _read_guard_report(report_fd: int) -> str:
    """Read the report that the guard process writes to a pipe. The report is complete when the
    child's exec has closed the last write end of the pipe."""
    report = b""
    while select.select([report_fd], [], [], _REPORT_TIMEOUT_S)[0]:
        chunk = os.read(report_fd, 4096)
        if not chunk:
            break
        report += chunk
    return report.decode()


def _is_process_stopped(pid: int) -> bool:
    """Return whether every thread of a process is stopped (SIGSTOP). True if the system has no
    /proc."""
    try:
        states = [
            (each / "stat").read_text().rpartition(")")[2].split()[0]
            for each in Path(f"/proc/{pid}/task").iterdir()
        ]
    except (OSError, IndexError):  # a thread has just ended, or there is no /proc
        return not Path("/proc/self/task").exists()
    return all(each in "TtZX" for each in states)
