"""Guard process between a program and its child, so that the child never outlives the program.

Uses only the standard library. `processes.start_process` starts it by path, as
`child_process_guard.py REPORT_FD LIFE_FD PARENT_PID PROGRAM [ARGUMENT…]`.

- `LIFE_FD` is the read end of a pipe. Only the program has the write end, so end of file means that
  the program has exited or released the child. A fork of the program without exec also keeps the
  pipe open. The guard therefore also watches the process `PARENT_PID` (pidfd).
- The guard sets SIGKILL as the child's parent-death signal. The kernel sends it when the *thread*
  that started the child ends. The guard has only one thread, whereas a thread of the program may
  be short-lived.
- The guard writes one line to `REPORT_FD`: the child's process id, or `!` and the error. The guard
  exits with the child's exit status, or with 128 + the number of the signal that ended the child.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

_PR_SET_PDEATHSIG = 1
_NOT_STARTED_EXIT_CODE = 127


def _set_parent_death_signal(guard_pid: int) -> None:
    """Make the kernel send SIGKILL to this process when its parent, the guard, ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != guard_pid:
        os._exit(_NOT_STARTED_EXIT_CODE)  # the parent died before the signal was set


def _spawn_child(argv: list[str], report_fd: int) -> int:
    """Start the child process and return its process id. If the start fails, the child reports the
    error to the program."""
    guard_pid = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        _set_parent_death_signal(guard_pid)
        os.execvp(argv[0], argv)  # noqa: S606 - started without a shell on purpose
    except OSError as error:
        os.write(report_fd, f"!{argv[0]}: {error.strerror}\n".encode())
    os._exit(_NOT_STARTED_EXIT_CODE)


def _watch_parent(life_fd: int, parent_pid: int) -> list[int]:
    """Return file descriptors that become readable when the parent process exits; empty if it has
    already exited."""
    watched = [life_fd]
    try:
        watched.append(os.pidfd_open(parent_pid))
    except ProcessLookupError:
        return []
    except (OSError, AttributeError):
        pass  # kernels before 5.3 have no pidfd: watch the pipe only
    return watched if os.getppid() == parent_pid else []


def _wait_for_child(child_pid: int, watched: list[int], wakeup_fd: int) -> int:
    """Wait for the child process to exit and return its wait status. If a file descriptor in
    `watched` becomes readable, kill the child."""
    while watched:
        pid, status = os.waitpid(child_pid, os.WNOHANG)
        if pid:
            return status
        readable, _, _ = select.select([wakeup_fd, *watched], [], [])
        if readable != [wakeup_fd]:
            break
        os.read(wakeup_fd, 4096)
    os.kill(child_pid, signal.SIGKILL)
    return os.waitpid(child_pid, 0)[1]


def main(arguments: list[str]) -> int:
    """Run the guard process and return its exit status."""
    report_fd, life_fd, parent_pid = (int(word) for word in arguments[:3])
    for descriptor in (report_fd, life_fd):
        os.set_inheritable(descriptor, False)
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    watched = _watch_parent(life_fd, parent_pid)
    child_pid = _spawn_child(arguments[3:], report_fd)
    os.write(report_fd, f"{child_pid}\n".encode())
    os.close(report_fd)
    status = _wait_for_child(child_pid, watched, wakeup_read)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
