"""A Java server process in a directory: start, stop, kill, freeze, and read its log.

`ProgramRunner` determines where a cluster's programs run: `LocalRunner` runs them on this machine
from the sandbox's jars, and `mm2.sandbox.containers` runs them in containers. `make_java_command`
builds the command line.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from connect_runtime.system import child_processes, java_installation
from mm2.sandbox import broker_settings
from mm2.sandbox.sandbox_errors import PortInUseError, SandboxError

TEST_JVM_FLAGS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""JVM flags for tests: fast start, small heap, first-tier compiler only."""
BENCH_JVM_FLAGS = ("-Xmx1g", "-XX:+UseG1GC")
"""JVM flags for benchmarks: like a production broker, but with a smaller heap."""


def make_java_command(
    main_class: str,
    *arguments: str,
    jars: Path,
    flags: tuple[str, ...] = TEST_JVM_FLAGS,
    classes: Sequence[Path] = (),
) -> list[str]:
    """Build the command that runs `main_class` with all jars of a directory on the class path. The
    program logs to stderr.

    `classes` are class directories, which are appended to the class path.
    """
    return [
        str(java_installation.find_java().program),
        *flags,
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        "-cp",
        os.pathsep.join([f"{jars}/*", *map(str, classes)]),
        main_class,
        *arguments,
    ]


class RunningProgram(Protocol):
    """A program started by a `ProgramRunner`. `ChildProcess` is one implementation."""

    @property
    def pid(self) -> int:
        """Process id of the program on this machine."""
        ...

    def poll(self) -> int | None:
        """Return the program's exit status, or None while it is running."""
        ...

    def wait(self, timeout_s: float) -> int | None:
        """Wait up to `timeout_s` for the program to end. Like `poll`, return the exit status, or
        None if the program is still running."""
        ...

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program. Does nothing if the program has ended."""
        ...

    def kill(self) -> int:
        """Send SIGKILL, wait until the program has ended, and return its exit status."""
        ...


class ProgramRunner(Protocol):
    """Runs brokers and the storage tool as child processes, which end when this process ends."""

    @property
    def features(self) -> Path | None:
        """Cache file for the feature levels that `kafka-storage` writes when it formats storage, or
        None if they are not cached."""
        ...

    def make_broker_command(self, settings: Path, *, flags: tuple[str, ...]) -> list[str]:
        """Return the command line of a broker; `flags` are JVM flags."""
        ...

    def make_storage_tool_command(self, *arguments: str, flags: tuple[str, ...]) -> list[str]:
        """Return the command line that runs `kafka-storage` with the given arguments."""
        ...

    def start(self, argv: Sequence[str], *, output: IO[bytes], cwd: Path) -> RunningProgram:
        """Run a command line, and redirect stdout and stderr to `output`.

        Raises `FatalError` if the program cannot be started.
        """
        ...


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """Runs programs on this machine; `archive` contains the JVM flags that load the class-data
    archive."""

    jars: Path
    archive: tuple[str, ...] = ()

    @property
    def features(self) -> Path | None:
        return self.jars.with_name(f"{self.jars.name}.features")

    def make_broker_command(self, settings: Path, *, flags: tuple[str, ...]) -> list[str]:
        return self._build_java_command("kafka.Kafka", str(settings), flags=flags)

    def make_storage_tool_command(self, *arguments: str, flags: tuple[str, ...]) -> list[str]:
        return self._build_java_command("kafka.tools.StorageTool", *arguments, flags=flags)

    def start(self, argv: Sequence[str], *, output: IO[bytes], cwd: Path) -> RunningProgram:
        return child_processes.start_process(argv, output=output, cwd=cwd)

    def _build_java_command(
        self, main_class: str, *arguments: str, flags: tuple[str, ...]
    ) -> list[str]:
        return make_java_command(
            main_class, *arguments, jars=self.jars, flags=(*flags, *self.archive)
        )


_PORT_IN_USE_TEXTS = ("Address already in use", "Socket server failed to bind")
_SERVER_LOG_TAIL_LINES = 25
_ERROR_MARK = " ERROR "
_SHOWN_ERROR_LINES = 3
_SERVER_POLL_INTERVAL_S = 0.05


class JavaServer:
    """A Java server with a settings file and a log. Not thread-safe. The server is down until
    `start` is called.

    `name` is used in messages. `started` is a function that returns True if the given log text
    (since the last start) shows that the server accepts requests. `runner` determines where the
    server runs.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        log_name: str,
        started: Callable[[str], bool],
        runner: ProgramRunner,
    ) -> None:
        self.folder = folder
        self.log_path = folder / log_name
        self.has_served = False
        self.name = name
        self.runner = runner
        self._started = started
        self._child: RunningProgram | None = None
        self._log_start = 0

    @property
    def log_text(self) -> str:
        """Log text of all starts of this server."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    @property
    def is_running(self) -> bool:
        """True if the process exists, even if it is frozen."""
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        return self._get_running_process().pid

    def start(self, *, timeout_s: float = 60.0) -> None:
        """Start the server and wait until it accepts requests."""
        self.launch()
        self.await_ready(timeout_s=timeout_s)

    def launch(self) -> None:
        """Start the server process without waiting until it accepts requests."""
        if self.is_running:
            raise SandboxError(f"{self.name} in {self.folder} is already running")
        self.write_startup_files()
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        self.log_path.touch(mode=0o600)  # invalid settings are logged with their values
        with self.log_path.open("ab") as log:
            self._child = self.runner.start(self.make_start_command(), output=log, cwd=self.folder)

    def write_startup_files(self) -> None:
        """Write the files that the server reads when it starts."""
        raise NotImplementedError

    def make_start_command(self) -> list[str]:
        """Return the command line that starts the server."""
        raise NotImplementedError

    def await_ready(self, *, timeout_s: float = 60.0) -> None:
        """Wait until the server accepts requests.

        Raises `SandboxError` with the end of the server's log if the server ends or does not become
        ready in time. Raises `PortInUseError` if its port was in use.
        """
        child = self._get_running_process()
        waited_s = 0.0
        while not self._started(self._read_log_since_start()):
            if child.wait(_SERVER_POLL_INTERVAL_S) is not None:
                raise self._create_start_error(f"ended with status {child.poll()} while starting")
            waited_s += _SERVER_POLL_INTERVAL_S
            if waited_s > timeout_s:
                child.kill()
                raise self._create_start_error(f"was not ready after {timeout_s:.0f} s")
        self.has_served = True

    def stop(self, *, timeout_s: float = 15.0) -> None:
        """Stop the server gracefully (controlled shutdown). Send SIGKILL if the server is still
        running after `timeout_s`."""
        self.request_stop()
        self.await_stopped(timeout_s=timeout_s)

    def request_stop(self) -> None:
        """Send SIGTERM to the server without waiting for it to end."""
        if self._child is not None:
            self._child.send_signal(signal.SIGCONT)
            self._child.send_signal(signal.SIGTERM)

    def await_stopped(self, *, timeout_s: float = 15.0) -> None:
        """Wait until the server has ended after `request_stop`. Send SIGKILL if the server is still
        running after `timeout_s`."""
        if self._child is not None and self._child.wait(timeout_s) is None:
            self._child.kill()

    def kill(self) -> None:
        """Send SIGKILL to the server, which loses data that it has not yet written to the page
        cache."""
        if self._child is not None:
            self._child.kill()

    def freeze(self) -> None:
        """Send SIGSTOP to the server: its connections stay open, but it does not respond."""
        self._get_running_process().send_signal(signal.SIGSTOP)

    def unfreeze(self) -> None:
        """Send SIGCONT to the server, so that it continues after `freeze`."""
        self._get_running_process().send_signal(signal.SIGCONT)

    def restart(self, *, timeout_s: float = 60.0) -> None:
        """Stop the server gracefully if it is running, then start it with the same ports and
        data."""
        self.stop()
        self.start(timeout_s=timeout_s)

    def _get_running_process(self) -> RunningProgram:
        if self._child is None:
            raise SandboxError(f"{self.name} in {self.folder} is not running")
        return self._child

    def _read_log_since_start(self) -> str:
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def _create_start_error(self, what: str) -> SandboxError:
        text = self._read_log_since_start()
        kind = SandboxError
        if any(phrase in text for phrase in _PORT_IN_USE_TEXTS):
            kind = PortInUseError
        lines = text.splitlines()
        first = next((at for at, line in enumerate(lines) if _ERROR_MARK in line), len(lines))
        end = max(len(lines) - _SERVER_LOG_TAIL_LINES, 0)
        shown = [*lines[first : first + _SHOWN_ERROR_LINES], "…"] if first < end else []
        excerpt = "\n  ".join([*shown, *lines[end:]])
        return kind(f"{self.name} {what}; its log, {self.log_path}, ends:\n  {excerpt}")


def write_settings_file(path: Path, settings: dict[str, str]) -> None:
    """Write a properties file that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(broker_settings.render_properties(settings))
