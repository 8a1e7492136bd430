"""The Java producer, as Kafka's own performance tool drives it, from the sandbox's jars."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

from connect_runtime.system import processes
from mm2.sandbox import artefacts, clients, failures, jvm, properties

DESCRIBE = "Kafka's own Java producer"

_MAIN = "org.apache.kafka.tools.ProducerPerformance"
_TAIL_CHARS = 1_500
_STOP_S = 5.0


class PerfProducer:
    """One run of the tool in a process of its own, which dies with this one."""

    def __init__(
        self,
        to: clients.Properties,
        topic: str,
        *,
        records: int,
        record_bytes: int = 1_000,
        per_second: int = -1,
        codec: str = "lz4",
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mm2-perf-")
        self._topic = topic
        self._log = Path(self._folder.name) / "perf.log"
        config = Path(self._folder.name) / "client.properties"
        config.touch(mode=0o600)
        config.write_text(properties.render({**to, "compression.type": codec, "acks": "all"}))
        argv = jvm.command(
            _MAIN,
            *("--topic", topic, "--num-records", str(records)),
            *("--record-size", str(record_bytes), "--throughput", str(per_second)),
            *("--command-config", str(config)),
            jars=artefacts.jars(),
        )
        with self._log.open("wb") as output:
            self._child = processes.start(argv, output=output)

    def finish(self, *, timeout_s: float = 120.0) -> None:
        """Wait for the end of the run; `SandboxError` with what the tool said if it failed."""
        status = self._child.wait(timeout_s)
        said = self._log.read_text(errors="replace")[-_TAIL_CHARS:]
        self.stop()
        if status != 0:
            what = f"ended with status {status}" if status else f"still ran after {timeout_s:.0f} s"
            raise failures.SandboxError(
                f"the Java producer for topic {self._topic} {what}; it said:\n{said}"
            )

    def stop(self) -> None:
        """End the run wherever it is."""
        self._child.signal(signal.SIGTERM)
        if self._child.wait(_STOP_S) is None:
            self._child.kill()
        self._folder.cleanup()
