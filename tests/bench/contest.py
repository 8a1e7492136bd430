"""A contestant at work: its process, its log, its processor time and memory."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from connect_runtime.system import child_processes
from connect_runtime.system.system_clock import SystemClock
from tests.bench.contestants import Contestant, Flow
from tests.bench.process_tree import ProcessTree

_STOP_S = 20.0
_LOG_TAIL_CHARS = 3_000
# Set before the contestant begins: all of its threads and children inherit it.
_ON_ONE_CORE = (
    "import os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)

_CLOCK = SystemClock()


class FailedError(Exception):
    """A contestant did not do what it was asked; the message says what, `log` ends its log."""

    def __init__(self, what: str, log: str) -> None:
        super().__init__(what)
        self.log = log


class Running:
    """One contestant from its start to its end. Use it as a context manager.

    `one_core`: all of its processes run on the machine's first core.
    """

    def __init__(
        self,
        contestant: Contestant,
        flow: Flow,
        folder: Path,
        *,
        one_core: bool = False,
    ) -> None:
        self.flow = flow
        self.peak_bytes = 0
        self._title = contestant.title
        self._log_path = folder / f"{contestant.key}-{flow.source}.log"
        argv = contestant.command(flow, folder)
        if one_core:
            argv = [sys.executable, "-c", _ON_ONE_CORE, *argv]
        self.started_s = _CLOCK.now_s()
        with self._log_path.open("wb") as output:
            self._child = child_processes.start_process(argv, output=output, cwd=folder)
        self.tree = ProcessTree(self._child.pid)

    @property
    def log_tail(self) -> str:
        return self._log_path.read_text(errors="replace")[-_LOG_TAIL_CHARS:]

    def note_memory(self) -> None:
        """Look at how much memory the tree has now."""
        self.peak_bytes = max(self.peak_bytes, self.tree.pss_bytes())

    def check(self) -> None:
        """Raises `FailedError` when the process has ended."""
        status = self._child.poll()
        if status is not None:
            raise self.failure(f"{self._title} ended with status {status}")

    def failure(self, what: str) -> FailedError:
        return FailedError(what, self.log_tail)

    def kill(self) -> None:
        """SIGKILL to the process and all that it has started, as if its machine were lost."""
        family = [pid for pid in self.tree.pids() if pid != self._child.pid]
        self._child.send_signal(signal.SIGKILL)
        self._end(family)
        self._child.kill()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL to whatever of the tree is there after 20 s."""
        family = self.tree.pids()
        self._child.send_signal(signal.SIGTERM)
        if self._child.wait(_STOP_S) is None:
            self._child.kill()
        self._end([pid for pid in family if pid != self._child.pid])

    def _end(self, family: Sequence[int]) -> None:
        for pid in family:
            if child_processes.is_process_alive(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
