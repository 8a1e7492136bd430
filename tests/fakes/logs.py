"""A fake of `logs.Logs`: a partition is a list of times, `None` where no record is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError, UnreachableError
from mm2.kafka.kafka_client_interfaces import PerPartitionResult
from mm2.offsets.log_start_and_end_offsets import LogBounds


@dataclass
class FakeLog:
    """Offsets from `start` on; `markers_ms` are times of some that are no records. The last
    `pending` of them stand behind a transaction that is open."""

    times_ms: list[int | None] = field(default_factory=list)
    start: int = 0
    pending: int = 0
    markers_ms: Mapping[int, int] = field(default_factory=dict)

    @property
    def ends(self) -> LogBounds:
        end = self.start + len(self.times_ms) - self.pending
        return LogBounds(start=self.start, end=end, pending=self.pending)

    def at(self, moment_ms: int) -> int | None:
        """The first offset that is not older."""
        for offset, time_ms in enumerate(self.times_ms, start=self.start):
            found = self.markers_ms.get(offset, time_ms)
            if found is not None and found >= moment_ms:
                return offset
        return None

    def time_ms(self, offset: int) -> int | None:
        """Of the first record there or behind."""
        left = self.times_ms[max(0, offset - self.start) :]
        return next((each for each in left if each is not None), None)

    def last_ms(self, *, before: int) -> int | None:
        """Of the last record before that offset."""
        found = self.times_ms[: max(0, before - self.start)]
        return next((each for each in reversed(found) if each is not None), None)


class FakeLogs:
    """`failure`: what every question about offsets answers, `failures` for one partition.
    `unheard`: who asks about one of these hears nothing in time, of whatever else was asked."""

    def __init__(self, logs: Mapping[TopicPartition, FakeLog]) -> None:
        self.logs = dict(logs)
        self.closed = False
        self.failure: ConnectError | None = None
        self.unheard: set[TopicPartition] = set()
        self.failures: dict[TopicPartition, ConnectError] = {}

    def fetch_log_bounds(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> PerPartitionResult[LogBounds]:
        self._answer()
        if self.unheard.intersection(partitions):
            raise UnreachableError("its broker does not respond")
        return PerPartitionResult(
            succeeded={
                each: self.logs[each].ends
                for each in partitions
                if each in self.logs and each not in self.failures
            },
            failed={
                **self._missing(partitions),
                **{each: self.failures[each] for each in partitions if each in self.failures},
            },
        )

    def find_offsets_by_time(
        self, moments_ms: Mapping[TopicPartition, int], timeout_s: float
    ) -> PerPartitionResult[int | None]:
        self._answer()
        done = {
            each: self.logs[each].at(moment)
            for each, moment in moments_ms.items()
            if each in self.logs
        }
        return PerPartitionResult(succeeded=done, failed=self._missing(moments_ms))

    def read_timestamps(
        self, offsets: Mapping[TopicPartition, int], timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        found = {
            each: self.logs[each].time_ms(offset)
            for each, offset in offsets.items()
            if each in self.logs
        }
        return {each: time_ms for each, time_ms in found.items() if time_ms is not None}

    def read_newest_timestamps(
        self, ends: Mapping[TopicPartition, LogBounds], timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        found = {
            each: self.logs[each].last_ms(before=at.end)
            for each, at in ends.items()
            if each in self.logs
        }
        return {each: time_ms for each, time_ms in found.items() if time_ms is not None}

    def close(self) -> None:
        self.closed = True

    def _answer(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _missing(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, TopicMissingError]:
        return {
            each: TopicMissingError(f"there is no {each}")
            for each in partitions
            if each not in self.logs
        }
