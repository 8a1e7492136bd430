"""One contestant mirrors one workload, from its process's start to the last record's arrival."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from connect_runtime.system import system_clock
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.bench import log_counts, process_tree, producing
from tests.bench.contest import Running
from tests.bench.ends import Ends
from tests.bench.process_tree import ProcessTree
from tests.bench.workloads import Produced

MARKERS_MAX = 16
"""Offsets that markers of transactions may take at the beginning of a mirrored partition."""
RUN_TIMEOUT_S = 400.0
_POLL_S = 0.02
_WATCHED_S_MIN = 0.1
_MEMORY_EVERY_S = 0.5
_SETTLE_S = 10.0

_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """What was measured between the first look that saw records and the one that saw all.

    None where that went too quickly to be measured. CPU-seconds are those of the contestant's whole
    process tree, per 10^9 bytes of values; `others_cores` is what everybody but contestant, brokers
    and this benchmark used of the machine meanwhile.
    """

    bytes_s: float | None
    records_s: float | None
    cpu_steady_s_per_gb: float | None
    cpu_total_s_per_gb: float
    first_s: float
    others_cores: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The state of things at one moment.

    `offsets` is the sum over the partitions, `cpu_s` the contestant's, `others_s` everybody else's.
    """

    at_s: float
    offsets: int
    cpu_s: float
    others_s: float


def between(first: Look, last: Look, *, produced: Produced, started_s: float) -> Throughput:
    """The figures of a run that showed its first records at `first` and all of them at `last`."""
    took_s = last.at_s - first.at_s
    moved = produced.count - first.offsets
    steady_bytes = moved * produced.workload.record_bytes
    measured = took_s >= _WATCHED_S_MIN and moved > 0
    return Throughput(
        bytes_s=steady_bytes / took_s if measured else None,
        records_s=moved / took_s if measured else None,
        cpu_steady_s_per_gb=(last.cpu_s - first.cpu_s) / (steady_bytes / 1e9) if measured else None,
        cpu_total_s_per_gb=last.cpu_s / (produced.size / 1e9),
        first_s=first.at_s - started_s,
        others_cores=max(0.0, last.others_s - first.others_s) / took_s if measured else 0.0,
    )


class Watch:
    """Measures one run. `brokers` are those whose CPU time is nobody else's."""

    def __init__(
        self,
        running: Running,
        produced: Produced,
        *,
        target: SandboxCluster,
        brokers: Sequence[ProcessTree],
    ) -> None:
        self._running = running
        self._produced = produced
        self._mirrored = running.flow.mirrored(produced.workload.topic)
        self._partitions = produced.workload.partitions
        self._ends = Ends(target.bootstrap, self._mirrored, partitions=self._partitions)
        self._data = producing.data_folder(target)
        self._brokers = brokers
        self._memory_at_s = 0.0
        self._offsets: dict[int, int] = {}

    def measure(self) -> Throughput:
        """Wait for the first and the last record. Raises `FailedError`."""
        with contextlib.closing(self._ends):
            return self._measure()

    def counted(self) -> dict[int, int]:
        """Records that stand on the target now, by partition."""
        counts = log_counts.topic(self._data, self._mirrored, partitions=self._partitions)
        return {number: each.records for number, each in counts.items()}

    def _measure(self) -> Throughput:
        self._await(self._has_begun, "the first mirrored record", timeout_s=RUN_TIMEOUT_S)
        first = self._look()
        self._await(self._has_ended, "the last mirrored record", timeout_s=RUN_TIMEOUT_S)
        last = self._look()
        # Markers take offsets, too: when these suffice, a few records may still be on their way.
        self._await(self._is_whole, "as many records as there are", timeout_s=_SETTLE_S)
        self._running.note_memory()
        return between(first, last, produced=self._produced, started_s=self._running.started_s)

    def _has_begun(self) -> bool:
        self._offsets = self._ends.now()
        return any(end > MARKERS_MAX for end in self._offsets.values())

    def _has_ended(self) -> bool:
        self._offsets = self._ends.now()
        expected = self._produced.records
        return all(self._offsets[number] >= records for number, records in expected.items())

    def _is_whole(self) -> bool:
        there = self.counted()
        return all(there[number] >= records for number, records in self._produced.records.items())

    def _await(self, condition: Callable[[], bool], what: str, *, timeout_s: float) -> None:
        def holds() -> bool:
            self._running.check()
            self._note_memory()
            return condition()

        if not system_clock.wait_until(holds, timeout_s=timeout_s, interval_s=_POLL_S):
            raise self._running.failure(
                f"no sign of {what} within {timeout_s:.0f} s; on the target: {self.counted()}"
            )

    def _note_memory(self) -> None:
        now_s = _CLOCK.now_s()
        if now_s - self._memory_at_s >= _MEMORY_EVERY_S:
            self._memory_at_s = now_s
            self._running.note_memory()

    def _look(self) -> Look:
        cpu_s = self._running.tree.cpu_s()
        brokers_s = sum(each.cpu_s() for each in self._brokers)
        ours_s = cpu_s + brokers_s + process_tree.own_cpu_s()
        return Look(
            at_s=_CLOCK.now_s(),
            offsets=sum(self._offsets.values()),
            cpu_s=cpu_s,
            others_s=process_tree.machine_busy_s() - ours_s,
        )
