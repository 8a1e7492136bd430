"""Apache's own Connect workers, from the sandbox's jars, and how to talk to them."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from connect_runtime.system import processes
from mm2.sandbox import artefacts, class_archive, jvm, ports, properties
from tests.support import eventually

DISTRIBUTED = "org.apache.kafka.connect.cli.ConnectDistributed"
STANDALONE = "org.apache.kafka.connect.cli.ConnectStandalone"
START_S = 90.0
STOP_S = 60.0

_WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.flush.interval.ms": "500",
    "plugin.discovery": "service_load",  # looking through all classes takes seconds
}
_DISTRIBUTED = {
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
}
_NUMBERS = itertools.count()


def storage(name: str) -> dict[str, str]:
    """The three topics and the group of one cluster, in a worker's words."""
    return {
        "group.id": name,
        "config.storage.topic": f"{name}-configs",
        "offset.storage.topic": f"{name}-offsets",
        "status.storage.topic": f"{name}-statuses",
    }


class JavaWorker:
    """One process, from `with` on; killed at the end if it was not stopped.

    `settings` win over what a test's worker has. Standalone, `connectors` are started with it.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        *,
        folder: Path,
        main: str = DISTRIBUTED,
        connectors: tuple[Mapping[str, str], ...] = (),
    ) -> None:
        self._port = ports.reserve()
        self.address = f"127.0.0.1:{self._port.port}"
        self._settings = {
            **_WORKER,
            **(_DISTRIBUTED if main == DISTRIBUTED else {}),
            "listeners": f"HTTP://{self.address}",
            "rest.advertised.host.name": "127.0.0.1",
            **settings,
        }
        self._main = main
        self._connectors = connectors
        self._name = f"java-worker-{next(_NUMBERS)}"
        self._folder = folder
        self._log = folder / f"{self._name}.log"
        self._child: processes.Child | None = None
        self._client = httpx.Client(base_url=f"http://{self.address}", timeout=60.0)

    def __enter__(self) -> JavaWorker:
        files = [self._file(self._name, self._settings)]
        for number, each in enumerate(self._connectors):
            files.append(self._file(f"{self._name}-connector-{number}", each))
        jars = artefacts.jars()
        flags = (*jvm.TEST_FLAGS, *class_archive.flags(jars))
        argv = jvm.command(self._main, *map(str, files), jars=jars, flags=flags)
        with self._log.open("wb") as log:
            self._child = processes.start(argv, output=log)
        try:
            eventually.eventually(self._serves, deadline_s=START_S, what=self.log_text)
        except BaseException:
            self._child.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()
        assert self._child is not None
        self._child.kill()
        self._port.release()

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def stop(self) -> None:
        """As an operator does: it leaves its group and commits what it has."""
        assert self._child is not None
        self._child.signal(signal.SIGTERM)
        assert self._child.wait(STOP_S) is not None, self.log_text()

    def kill(self) -> None:
        assert self._child is not None
        self._child.kill()

    def log_text(self) -> str:
        """The end of what it logged."""
        return self._log.read_text(errors="replace")[-6_000:]

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return self._client.request(method, path, json=body, **more)

    def get(self, path: str) -> Any:
        """The answer, which must be 200."""
        answer = self.ask("GET", path)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.json()

    def runs(self, connector: str, *, tasks: int = 1) -> bool:
        """Whether the connector and so many tasks of it are said to be running."""
        answer = self.ask("GET", f"/connectors/{connector}/status")
        if answer.status_code != httpx.codes.OK:
            return False
        status = answer.json()
        states = [status["connector"]["state"], *(each["state"] for each in status["tasks"])]
        return states == ["RUNNING"] * (tasks + 1)

    def _serves(self) -> bool:
        assert self._child is not None
        assert self._child.poll() is None, self.log_text()
        try:
            return self.ask("GET", "/connectors").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def _file(self, name: str, settings: Mapping[str, str]) -> Path:
        path = self._folder / f"{name}.properties"
        path.write_text(properties.render(settings))
        return path
