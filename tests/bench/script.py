"""One role of a module of this folder as a process of its own, its output in a file."""

from __future__ import annotations

import sys
from pathlib import Path

from connect_runtime.system import child_processes, system_clock

_ROOT = Path(__file__).parents[2]
_TOLD_S = 30.0
_TAIL_CHARS = 1_500


class Script:
    """Runs `python -m tests.bench.MODULE ROLE ARGUMENT…`. Failures are `RuntimeError`."""

    def __init__(self, module: str, role: str, *arguments: str, folder: Path) -> None:
        self._title = f"{module} {role}"
        self._output = folder / f"{role}.out"
        argv = [sys.executable, "-m", f"tests.bench.{module}", role, *arguments]
        with self._output.open("wb") as stream:
            self._child = child_processes.start_process(argv, output=stream, cwd=_ROOT)

    @property
    def pid(self) -> int:
        return self._child.pid

    def kill(self) -> None:
        """For one that never ends by itself."""
        self._child.kill()

    def first_line(self) -> str:
        """What it says first, once it has said so; it must run on."""

        def told() -> bool:
            return "\n" in self._output.read_text() or self._child.poll() is not None

        if not system_clock.wait_until(told, timeout_s=_TOLD_S) or self._child.poll() is not None:
            raise self._failure("did not get ready")
        return self._output.read_text().splitlines()[0]

    def finish(self, timeout_s: float) -> str:
        """What it printed, once it has ended by itself."""
        status = self._child.wait(timeout_s)
        if status is None:
            self._child.kill()
        if status != 0:
            raise self._failure(f"ended with status {status}")
        return self._output.read_text()

    def _failure(self, what: str) -> RuntimeError:
        said = self._output.read_text(errors="replace")[-_TAIL_CHARS:]
        return RuntimeError(f"{self._title} {what}\n{said}")
