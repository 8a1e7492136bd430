"""Whole Connect workers as processes: Java's, from the sandbox's jars, and ours; groups of both.

Every worker has the connector of `idle_source`.
"""

from __future__ import annotations

import contextlib
import enum
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from connect_runtime.system import child_processes
from connect_runtime.system.child_processes import ChildProcess
from mm2.sandbox import (
    broker_settings,
    java_class_archive,
    java_server_process,
    kafka_jars,
    port_reservation,
)
from tests.support import eventually, idle_source
from tests.support import processes as support_processes

START_S = 240.0
STOP_S = 60.0
_ANSWER_S = 90.0
_HEALTH_S = 5.0
_LOG_TAIL_CHARS = 6_000
_JETTY_HUNG = "Unable to destroy"
_WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.flush.interval.ms": "500",
    "plugin.discovery": "service_load",  # looking through all classes takes Java seconds
}
_DISTRIBUTED = {
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
}


class Mode(enum.Enum):
    """The value is how our command is spelled."""

    DISTRIBUTED = "distributed"
    STANDALONE = "standalone"


class Kind(enum.Enum):
    """Whose worker it is. The value is for names of tests and files."""

    JAVA = "java"
    JAVA_3_9 = "java-3.9"
    OURS = "ours"

    def command(self, mode: Mode, files: Sequence[Path], *, flags: Sequence[str]) -> list[str]:
        """Run a worker with its settings' file and its connectors' files; `flags` of a JVM."""
        if self is Kind.OURS:
            module = f"connect_runtime.app.connect_{mode.value}"
            return [sys.executable, "-m", module, *map(str, files)]
        jars = kafka_jars.ensure_jars(_JARS[self])
        main = f"org.apache.kafka.connect.cli.Connect{mode.value.title()}"
        every = (*flags, *java_class_archive.ensure_class_archive(jars))
        classes = [idle_source.java_classes()]
        return java_server_process.make_java_command(
            main, *map(str, files), jars=jars, flags=every, classes=classes
        )

    @property
    def settings(self) -> Mapping[str, str]:
        """What lets a worker find `idle_source` and FileStream; Java's has them on its class path.
        Connectors may override what they like, as Java's may by default."""
        if self is not Kind.OURS:
            return {}
        return {
            "plugin.path": str(idle_source.PLUGIN_PATH),
            "file.stream.allowed.paths": "/",
            "connector.client.config.override.policy": "All",
        }


_JARS = {Kind.JAVA: kafka_jars.KAFKA_JARS, Kind.JAVA_3_9: kafka_jars.CONNECT_3_9_JARS}


def storage(name: str) -> dict[str, str]:
    """The three topics and the group of one cluster, in a worker's words."""
    return {
        "group.id": name,
        "config.storage.topic": f"{name}-configs",
        "offset.storage.topic": f"{name}-offsets",
        "status.storage.topic": f"{name}-statuses",
    }


class Worker:
    """One worker; as a context manager it serves from the first line to SIGKILL at the end.

    It keeps its address and its log over restarts. `settings` win over what a test's worker has.
    Standalone, `connectors` are started with it. `flags` are those of a Java worker's JVM.
    """

    def __init__(
        self,
        kind: Kind,
        settings: Mapping[str, str],
        *,
        folder: Path,
        name: str = "worker",
        mode: Mode = Mode.DISTRIBUTED,
        connectors: Sequence[Mapping[str, str]] = (),
        flags: Sequence[str] = java_server_process.TEST_JVM_FLAGS,
    ) -> None:
        self.kind = kind
        self.name = name
        self._port = port_reservation.reserve_port()
        self.address = f"127.0.0.1:{self._port.port}"
        """Its `worker_id` in statuses, too."""
        self.url = f"http://{self.address}"
        self.log_path = folder / f"{name}.log"
        self._folder = folder
        self._mode = mode
        self._flags = flags
        self._connectors = connectors
        self._settings = {
            **_WORKER,
            **kind.settings,
            **(_DISTRIBUTED if mode is Mode.DISTRIBUTED else {}),
            "listeners": self.url,
            "rest.advertised.host.name": "127.0.0.1",
            **settings,
        }
        self._child: ChildProcess | None = None
        self._client = httpx.Client(base_url=self.url, timeout=_ANSWER_S, trust_env=False)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    # Its process

    @property
    def pid(self) -> int:
        return self._started.pid

    @property
    def runs_process(self) -> bool:
        """Stopped by SIGSTOP it does, too."""
        return self._child is not None and self._child.poll() is None

    def launch(self) -> Self:
        """Start the process, for the first time or again, and do not wait."""
        assert not self.runs_process, f"{self.name} runs already"
        files = [self._file(self.name, self._settings)]
        for number, each in enumerate(self._connectors):
            files.append(self._file(f"{self.name}-connector-{number}", each))
        argv = self.kind.command(self._mode, files, flags=self._flags)
        with self.log_path.open("ab") as log:
            self._child = child_processes.start_process(
                argv, output=log, cwd=support_processes.ROOT
            )
        return self

    def await_ready(self, deadline_s: float = START_S) -> Self:
        """Until `/health` says so. `AssertionError` with the log's end if it never does."""
        eventually.eventually(
            lambda: self.healthy() or not self.runs_process,
            deadline_s,
            lambda: f"{self.name} is ready: {self.log_text()}",
            interval_s=0.3,
        )
        assert self.runs_process, f"{self.name} ended: {self.log_text()}"
        return self

    def start(self) -> Self:
        return self.launch().await_ready()

    def sigstop(self) -> None:
        """It stands still and says nothing, until `sigcont`."""
        self._started.send_signal(signal.SIGSTOP)

    def sigcont(self) -> None:
        self._started.send_signal(signal.SIGCONT)

    def sigterm(self) -> None:
        """Ask it to leave its group and to end; `ended` waits for that."""
        self._started.send_signal(signal.SIGTERM)

    def ended(self, deadline_s: float = STOP_S) -> int:
        """Its exit status, as soon as it has ended; `AssertionError` if it does not."""
        status = self._started.wait(deadline_s)
        assert status is not None, f"{self.name} has not ended: {self.log_text()}"
        return status

    def stop(self) -> int:
        """As an operator does: it leaves its group and commits what it has.

        Two shutdown hooks of a Java worker stop its REST server at the same time; now and then
        they block each other for good. Such a worker is killed, and counts as stopped.
        """
        self.sigterm()
        if self.kind is not Kind.OURS and self._started.wait(STOP_S) is None:
            assert _JETTY_HUNG in self.log_text(), self.log_text()
            self.sigkill()
            return 128 + signal.SIGTERM
        return self.ended()

    def sigkill(self) -> None:
        """Returns when it has gone; one that has ended is left in peace."""
        self._started.kill()

    def close(self) -> None:
        """SIGKILL, whatever state it is in; it cannot be started again."""
        self._client.close()
        if self._child is not None:
            self._child.kill()
        self._port.release()

    # What it says

    def log_text(self) -> str:
        """The end of what it logged; "" before it was ever started."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_text(errors="replace")[-_LOG_TAIL_CHARS:]

    def healthy(self) -> bool:
        try:
            return self.ask("GET", "/health", timeout=_HEALTH_S).is_success
        except httpx.HTTPError:
            return False

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return self._client.request(method, path, json=body, **more)

    def get(self, path: str) -> Any:
        """The answer, which must be 200."""
        answer = self.ask("GET", path)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.json()

    def configure(self, connector: str, config: Mapping[str, str]) -> None:
        """Create or change a connector; asks again while the group rebalances."""

        def put() -> bool:
            answer = self.ask("PUT", f"/connectors/{connector}/config", dict(config))
            assert answer.is_success, answer.text
            return True

        eventually.eventually(put, START_S, f"{connector} is configured", interval_s=0.3)

    def runs(self, connector: str, *, tasks: int = 1) -> bool:
        """Whether the connector and so many tasks of it are said to be running."""
        answer = self.ask("GET", f"/connectors/{connector}/status")
        if answer.status_code != httpx.codes.OK:
            return False
        status = answer.json()
        states = [status["connector"]["state"], *(each["state"] for each in status["tasks"])]
        return states == ["RUNNING"] * (tasks + 1)

    @property
    def _started(self) -> ChildProcess:
        assert self._child is not None, f"{self.name} was never started"
        return self._child

    def _file(self, name: str, settings: Mapping[str, str]) -> Path:
        path = self._folder / f"{name}.properties"
        path.write_text(broker_settings.render_properties(settings))
        return path


class Group:
    """Named workers of either kind on one broker, in one group with topics of its own.

    `client` are the broker's client properties; `settings` are those of every worker. All are
    killed when the `with` ends. Files and logs are `<name>.properties` and `<name>.log`.
    """

    def __init__(
        self,
        client: Mapping[str, str],
        group_id: str,
        *,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        flags: Sequence[str] = java_server_process.TEST_JVM_FLAGS,
    ) -> None:
        self.group_id = group_id
        self.client = client
        self.workers: dict[str, Worker] = {}
        self._folder = folder
        self._settings = {**client, **storage(group_id), **(settings or {})}
        self._flags = flags

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.ExitStack() as closing:  # one that cannot be closed leaves none running
            for each in self.workers.values():
                closing.callback(each.close)

    def __getitem__(self, name: str) -> Worker:
        return self.workers[name]

    def add(self, name: str, kind: Kind, settings: Mapping[str, str] | None = None) -> Worker:
        """One more, not yet started; `settings` win over those of the group."""
        assert name not in self.workers, f"there is a worker {name} already"
        self.workers[name] = Worker(
            kind,
            {**self._settings, **(settings or {})},
            folder=self._folder,
            name=name,
            flags=self._flags,
        )
        return self.workers[name]

    def start(self, name: str, kind: Kind, settings: Mapping[str, str] | None = None) -> Worker:
        """One more, that serves."""
        return self.add(name, kind, settings).start()

    def start_all(self, kinds: Mapping[str, Kind]) -> None:
        """Several at once, by name."""
        added = [self.add(name, kind).launch() for name, kind in kinds.items()]
        for each in added:
            each.await_ready()

    def log_texts(self) -> str:
        """The end of every worker's log: for what an assertion says."""
        return "\n".join(f"{name}: {one.log_text()}" for name, one in self.workers.items())
