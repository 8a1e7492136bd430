"""The clusters of a benchmark, and how a run leaves no trace behind on them."""

from __future__ import annotations

from collections.abc import Callable

from connect_runtime.system import polling
from mm2.sandbox import cluster, jvm
from tests.bench import process_tree, workloads
from tests.support import kafka

_ANSWER_S = 10.0
_QUIET_CORES = 0.15
_QUIET_WINDOW_S = 0.5

BROKER_SETTINGS = {
    # Copies of earlier runs go at once; nobody may measure against their remains.
    "log.segment.delete.delay.ms": "500",
}


def make(name: str) -> cluster.Cluster:
    """One broker, as for production but for its heap. Not started."""
    return cluster.Cluster(name, settings=BROKER_SETTINGS, jvm=jvm.BENCH_FLAGS)


class Cleaner:
    """Deletes what a run has left on a cluster, and waits until the broker is done with it."""

    def __init__(self, running: cluster.Cluster) -> None:
        self._cluster = running
        self._keep: set[str] = set()
        self._tree = process_tree.ProcessTree(running.brokers[1].pid)

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
            data = workloads.data_folder(self._cluster)
            _insist(
                lambda: not any(_belongs(each.name, gone) for each in data.iterdir()),
                f"{self._cluster.name} to delete {', '.join(gone)}",
            )

    def settle(self, timeout_s: float = 15.0) -> bool:
        """Wait until the broker has nothing more to do; False when it stays busy."""
        return polling.until(
            lambda: self._busy_cores() < _QUIET_CORES, timeout_s=timeout_s, interval_s=0.01
        )

    def _busy_cores(self) -> float:
        before = self._tree.cpu_s()
        polling.until(lambda: False, timeout_s=_QUIET_WINDOW_S, interval_s=_QUIET_WINDOW_S)
        return (self._tree.cpu_s() - before) / _QUIET_WINDOW_S


def _belongs(folder: str, topics: list[str]) -> bool:
    """A partition's folder is `topic-0`, while it is being deleted `topic-0.<id>-delete`."""
    return any(folder.startswith(f"{topic}-") for topic in topics)


def _insist(condition: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    if not polling.until(condition, timeout_s=timeout_s):
        raise RuntimeError(f"waited {timeout_s:.0f} s for {what}")
