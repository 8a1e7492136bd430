"""One Kafka broker process: start, stop, kill, freeze, and what its log says."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.system import processes
from mm2.sandbox import failures, jvm, properties

_STARTED = "Kafka Server started"
_PORT_TAKEN = ("Address already in use", "Socket server failed to bind")
_LOG_TAIL_LINES = 25
_POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """What a broker needs to run. `settings` are complete; `folder` is its own."""

    node_id: int
    folder: Path
    jars: Path
    settings: Mapping[str, str]
    jvm: tuple[str, ...] = jvm.TEST_FLAGS


class Broker:
    """A broker with its folder. Not thread-safe; it is down until `start`."""

    def __init__(self, spec: BrokerSpec) -> None:
        self.node_id = spec.node_id
        self.folder = spec.folder
        self.jars = spec.jars
        self._spec = spec
        self._settings = dict(spec.settings)
        self._child: processes.Child | None = None
        self._log_start = 0
        self.has_served = False

    @property
    def log_path(self) -> Path:
        return self.folder / "broker.log"

    @property
    def properties_path(self) -> Path:
        return self.folder / "server.properties"

    @property
    def log_text(self) -> str:
        """Everything that this broker has logged, over all its starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    @property
    def running(self) -> bool:
        """Whether the process exists (a frozen one does)."""
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        return self._running_child().pid

    def prepare(self) -> None:
        """Write the settings file into the folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.properties_path
        path.touch(mode=0o600)
        path.write_text(properties.render(self._settings))

    def start(self, *, timeout_s: float = 60.0) -> None:
        """Start the process and wait until it serves; see `launch` and `await_ready`."""
        self.launch()
        self.await_ready(timeout_s=timeout_s)

    def launch(self) -> None:
        """Start the process without waiting for it."""
        if self.running:
            raise failures.SandboxError(
                f"broker {self.node_id} in {self.folder} is already running"
            )
        self.prepare()
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        argv = jvm.command(
            "kafka.Kafka", str(self.properties_path), jars=self.jars, flags=self._spec.jvm
        )
        with self.log_path.open("ab") as log:
            self._child = processes.start(argv, output=log, cwd=self.folder)

    def await_ready(self, *, timeout_s: float = 60.0) -> None:
        """Wait until the broker is registered, unfenced and accepts requests.

        Raises `SandboxError` with the end of its log when it ends instead or is too slow;
        `PortInUseError` when its port was taken.
        """
        child = self._running_child()
        waited_s = 0.0
        while _STARTED not in self._log_since_start():
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
        """SIGKILL: the broker loses whatever it had not given to the operating system."""
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

    def change_settings(self, changes: Mapping[str, str | None]) -> None:
        """Other settings for the next start; None removes one."""
        merged = {**self._settings, **changes}
        self._settings = {key: value for key, value in merged.items() if value is not None}

    def _running_child(self) -> processes.Child:
        if self._child is None:
            raise failures.SandboxError(f"broker {self.node_id} in {self.folder} is not running")
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
        tail = "\n  ".join(text.splitlines()[-_LOG_TAIL_LINES:])
        return kind(f"broker {self.node_id} {what}; its log, {self.log_path}, ends:\n  {tail}")
