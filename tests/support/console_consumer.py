"""Kafka's own console consumer as a member of a group: what it prints, it has processed."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Self

from connect_runtime.system import child_processes
from connect_runtime.system.child_processes import ChildProcess
from mm2.sandbox import java_server_process, kafka_jars
from tests.support.kafka import Properties

_CLASS = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_END_S = 60.0


class ConsoleConsumer:
    """Reads these topics from where the group stands, or not at all, until `stop`."""

    def __init__(self, folder: Path, properties: Properties, group: str, *topics: str) -> None:
        self._printed = folder / f"console-{group}-{topics[0]}.txt"
        self._command = java_server_process.make_java_command(
            _CLASS,
            *("--bootstrap-server", properties["bootstrap.servers"], "--group", group),
            *("--include", "|".join(map(re.escape, topics))),
            *("--command-property", "auto.offset.reset=none"),
            *("--command-property", "auto.commit.interval.ms=500"),
            jars=kafka_jars.ensure_jars(),
            flags=(
                *java_server_process.TEST_JVM_FLAGS,
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
            ),
        )
        self._child: ChildProcess | None = None

    def start(self) -> Self:
        with self._printed.open("wb") as output:
            self._child = child_processes.start_process(self._command, output=output)
        return self

    @property
    def processed(self) -> list[int]:
        """Numbers, in the order of reading; what it says besides is passed over."""
        if not self._printed.exists():
            return []
        whole, _, _ = self._printed.read_text(errors="replace").rpartition("\n")
        return [int(line) for line in whole.splitlines() if line.isdecimal()]

    @property
    def said(self) -> str:
        return self._printed.read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        """It commits what it has printed, and ends."""
        assert self._child is not None, "it was not started"
        self._child.send_signal(signal.SIGTERM)
        assert self._child.wait(_END_S) is not None, self.said

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()
