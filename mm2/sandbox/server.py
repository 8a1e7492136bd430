"""One Java server process in a folder: start, stop, kill, freeze, and what its log says."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

from mm2.sandbox import failures, properties, runners

_PORT_TAKEN = ("Address already in use", "Socket server failed to bind")
_LOG_TAIL_LINES = 25
_ERROR = " ERROR "
_ERROR_LINES = 3
_POLL_S = 0.05


class Server:
    """A program with a settings file and a log. Not thread-safe; it is down until `start`.

    `name` is what messages call it; `started` says, of the log since the last start, whether it
    serves; `runner` is where it runs.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        log_name: str,
        started: Callable[[str], bool],
        runner: runners.Runner,
    ) -> None:
        self.folder = folder
        self.log_path = folder / log_name
        self.has_served = False
        self.name = name
        self.runner = runner
        self._started = started
        self._child: runners.Program | None = None
        self._log_start = 0

    @property
    def log_text(self) -> str:
        """Everything that this server has logged, over all its starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    @property
    def running(self) -> bool:
        """Whether the process exists (a frozen one does)."""
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        return self._running_child().pid

    def start(self, *, timeout_s: float = 60.0) -> None:
        """Start the process and wait until it serves; see `launch` and `await_ready`."""
        self.launch()
        self.await_ready(timeout_s=timeout_s)

    def launch(self) -> None:
        """Start the process without waiting for it."""
        if self.running:
            raise failures.SandboxError(f"{self.name} in {self.folder} is already running")
        self.prepare()
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self._child = self.runner.start(self.command(), output=log, cwd=self.folder)

    def prepare(self) -> None:
        """Write what the process reads when it starts."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """The command line."""
        raise NotImplementedError

    def await_ready(self, *, timeout_s: float = 60.0) -> None:
        """Wait until the server accepts requests.

        Raises `SandboxError` with the end of its log when it ends instead or is too slow;
        `PortInUseError` when its port was taken.
        """
        child = self._running_child()
        waited_s = 0.0
        while not self._started(self._log_since_start()):
            if child.wait(_POLL_S) is not None:
                raise self._start_failure(f"ended with status {child.poll()} while starting")
            waited_s += _POLL_S
            if waited_s > timeout_s:
                child.kill()
                raise self._start_failure(f"was not ready after {timeout_s:.0f} s")
        self.has_served = True

    def stop(self, *, timeout_s: float = 15.0) -> None:
        """Stop gracefully (controlled shutdown); SIGKILL when that takes over `timeout_s`."""
        self.request_stop()
        self.await_stopped(timeout_s=timeout_s)

    def request_stop(self) -> None:
        """SIGTERM, without waiting."""
        if self._child is not None:
            self._child.signal(signal.SIGCONT)
            self._child.signal(signal.SIGTERM)

    def await_stopped(self, *, timeout_s: float = 15.0) -> None:
        """Wait for the end after `request_stop`; SIGKILL when it takes longer than `timeout_s`."""
        if self._child is not None and self._child.wait(timeout_s) is None:
            self._child.kill()

    def kill(self) -> None:
        """SIGKILL: the server loses whatever it had not given to the operating system."""
        if self._child is not None:
            self._child.kill()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        self._running_child().signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT, after `freeze`."""
        self._running_child().signal(signal.SIGCONT)

    def restart(self, *, timeout_s: float = 60.0) -> None:
        """Stop gracefully if it runs, then start on the same ports and data."""
        self.stop()
        self.start(timeout_s=timeout_s)

    def _running_child(self) -> runners.Program:
        if self._child is None:
            raise failures.SandboxError(f"{self.name} in {self.folder} is not running")
        return self._child

    def _log_since_start(self) -> str:
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def _start_failure(self, what: str) -> failures.SandboxError:
        text = self._log_since_start()
        kind = failures.SandboxError
        if any(phrase in text for phrase in _PORT_TAKEN):
            kind = failures.PortInUseError
        lines = text.splitlines()
        first = next((at for at, line in enumerate(lines) if _ERROR in line), len(lines))
        end = max(len(lines) - _LOG_TAIL_LINES, 0)
        shown = [*lines[first : first + _ERROR_LINES], "…"] if first < end else []
        excerpt = "\n  ".join([*shown, *lines[end:]])
        return kind(f"{self.name} {what}; its log, {self.log_path}, ends:\n  {excerpt}")


def write_settings(path: Path, settings: dict[str, str]) -> None:
    """Write a properties file that only its owner may read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(properties.render(settings))
