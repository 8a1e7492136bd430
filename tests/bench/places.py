"""The clusters of a benchmark, and how a run leaves no trace behind on them."""

from __future__ import annotations

import enum
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from connect_runtime.system import system_clock
from mm2.sandbox import java_server_process, port_reservation, sandbox_cluster
from mm2.sandbox.sandbox_cluster import ClusterListener, SandboxCluster
from tests.bench import producing
from tests.bench.process_tree import ProcessTree
from tests.bench.script import Script
from tests.support import kafka

_ANSWER_S = 10.0
_QUIET_CORES = 0.15
_QUIET_WINDOW_S = 0.5
_FAR = "FAR"

BROKER_SETTINGS = {
    # Copies of earlier runs go at once; nobody may measure against their remains.
    "log.segment.delete.delay.ms": "500",
    "log.cleaner.dedupe.buffer.size": "67108864",
}


class Far(enum.Enum):
    """Which cluster is at the other end of a line."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a row is measured: how the two clusters are made.

    `round_trip_ms`: contestants reach the `far` one, of one broker, over a line of this length,
    0 too; None: both directly.
    """

    target_brokers: int = 1
    round_trip_ms: float | None = None
    far: Far = Far.SOURCE

    @property
    def replication(self) -> int:
        """Replicas of mirrors, and of contestants' own topics."""
        return min(3, self.target_brokers)


class Clusters:
    """The two clusters of a place, running, as for production but for their heaps.

    `source_properties` and `target_properties` are for contestants. Use it in a `with`.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self._near, self._far = port_reservation.reserve_port(), port_reservation.reserve_port()
        listeners = {
            1: [
                ClusterListener(
                    name=_FAR, port=self._near.port, advertised=f"127.0.0.1:{self._far.port}"
                )
            ]
        }
        self.source = SandboxCluster(
            "bench-east",
            settings=BROKER_SETTINGS,
            listeners=listeners if self._is_far(Far.SOURCE) else {},
            jvm=java_server_process.BENCH_JVM_FLAGS,
        )
        self.target = SandboxCluster(
            "bench-west",
            brokers=place.target_brokers,
            settings=BROKER_SETTINGS,
            listeners=listeners if self._is_far(Far.TARGET) else {},
            jvm=java_server_process.BENCH_JVM_FLAGS,
        )
        self._folder = tempfile.TemporaryDirectory(prefix="mm2-bench-")
        self._line: Script | None = None

    @property
    def both(self) -> tuple[SandboxCluster, SandboxCluster]:
        return self.source, self.target

    @property
    def source_properties(self) -> Mapping[str, str]:
        return self._reached(self.source, Far.SOURCE)

    @property
    def target_properties(self) -> Mapping[str, str]:
        return self._reached(self.target, Far.TARGET)

    def _reached(self, running: SandboxCluster, end: Far) -> Mapping[str, str]:
        direct = running.client_properties()
        if not self._is_far(end):
            return direct
        return {**direct, "bootstrap.servers": running.get_listener_bootstrap(_FAR)}

    def _is_far(self, end: Far) -> bool:
        return self.place.round_trip_ms is not None and self.place.far is end

    @property
    def brokers(self) -> list[ProcessTree]:
        """All brokers' processes, and the line's: their work is no contestant's."""
        pids = [node.pid for each in self.both for node in each.brokers.values()]
        return [ProcessTree(pid) for pid in pids] + (
            [ProcessTree(self._line.pid)] if self._line else []
        )

    def __enter__(self) -> Self:
        sandbox_cluster.start_clusters(list(self.both))
        if self.place.round_trip_ms is not None:
            way = f"{self._far.port}:{self._near.port}"
            self._line = Script(
                "delay", "line", str(self.place.round_trip_ms), way, folder=Path(self._folder.name)
            )
            self._line.first_line()
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.kill()
        for each in self.both:
            each.close()
        for reservation in (self._near, self._far):
            reservation.release()
        self._folder.cleanup()


class Cleaner:
    """Deletes what a run has left on a cluster, and waits until its brokers are done with it."""

    def __init__(self, running: SandboxCluster) -> None:
        self._cluster = running
        self._keep: set[str] = set()
        self._trees = [ProcessTree(each.pid) for each in running.brokers.values()]

    def keep_what_is_there(self) -> None:
        self._keep = kafka.topics(self._cluster.client_properties())

    def clean(self) -> None:
        """Kafka's own topics stay. Raises when a topic cannot be deleted."""
        there = kafka.topics(self._cluster.client_properties()) - self._keep
        gone = sorted(name for name in there if not name.startswith("__"))
        if gone:
            client = kafka.admin_client(self._cluster.client_properties())
            for future in client.delete_topics(gone, operation_timeout=_ANSWER_S).values():
                future.result(2 * _ANSWER_S)
            data = producing.data_folder(self._cluster)
            _insist(
                lambda: not any(_belongs(each.name, gone) for each in data.iterdir()),
                f"{self._cluster.name} to delete {', '.join(gone)}",
            )

    def settle(self, timeout_s: float = 15.0) -> bool:
        """Wait until the brokers have nothing more to do; False when they stay busy."""
        quiet_cores = _QUIET_CORES * len(self._trees)
        return system_clock.wait_until(
            lambda: self._busy_cores() < quiet_cores, timeout_s=timeout_s, interval_s=0.01
        )

    def _busy_cores(self) -> float:
        before = self._cpu_s()
        system_clock.wait_until(
            lambda: False, timeout_s=_QUIET_WINDOW_S, interval_s=_QUIET_WINDOW_S
        )
        return (self._cpu_s() - before) / _QUIET_WINDOW_S

    def _cpu_s(self) -> float:
        return sum(each.cpu_s() for each in self._trees)


def _belongs(folder: str, topics: list[str]) -> bool:
    """A partition's folder is `topic-0`, while it is being deleted `topic-0.<id>-delete`."""
    return any(folder.startswith(f"{topic}-") for topic in topics)


def _insist(condition: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    if not system_clock.wait_until(condition, timeout_s=timeout_s):
        raise RuntimeError(f"waited {timeout_s:.0f} s for {what}")
