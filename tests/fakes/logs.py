"""A fake of `logs.Logs`: a partition is a list of times, `None` where no record is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import logs as port
from mm2.core.offsets import log_ends


@dataclass
class FakeLog:
    """Offsets from `start` on; `markers_ms` are times of some that are no records. The last
    `pending` of them stand behind a transaction that is open."""

    times_ms: list[int | None] = field(default_factory=list)
    start: int = 0
    pending: int = 0
    markers_ms: Mapping[int, int] = field(default_factory=dict)

    @property
    def ends(self) -> log_ends.Ends:
        end = self.start + len(self.times_ms) - self.pending
        return log_ends.Ends(start=self.start, end=end, pending=self.pending)

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

    def __init__(self, logs: Mapping[ids.TopicPartition, FakeLog]) -> None:
        self.logs = dict(logs)
        self.closed = False
        self.failure: errors.ConnectError | None = None
        self.unheard: set[ids.TopicPartition] = set()
        self.failures: dict[ids.TopicPartition, errors.ConnectError] = {}

    def ends(
        self, partitions: Collection[ids.TopicPartition], timeout_s: float
    ) -> port.PerPartition[log_ends.Ends]:
        self._answer()
        if self.unheard.intersection(partitions):
            raise kafka_errors.UnreachableError("its broker does not answer")
        return port.PerPartition(
            done={
                each: self.logs[each].ends
                for each in partitions
                if each in self.logs and each not in self.failures
            },
            failed={
                **self._missing(partitions),
                **{each: self.failures[each] for each in partitions if each in self.failures},
            },
        )

    def offsets_at(
        self, moments_ms: Mapping[ids.TopicPartition, int], timeout_s: float
    ) -> port.PerPartition[int | None]:
        self._answer()
        done = {
            each: self.logs[each].at(moment)
            for each, moment in moments_ms.items()
            if each in self.logs
        }
        return port.PerPartition(done=done, failed=self._missing(moments_ms))

    def times_ms(
        self, offsets: Mapping[ids.TopicPartition, int], timeout_s: float
    ) -> Mapping[ids.TopicPartition, int]:
        found = {
            each: self.logs[each].time_ms(offset)
            for each, offset in offsets.items()
            if each in self.logs
        }
        return {each: time_ms for each, time_ms in found.items() if time_ms is not None}

    def newest_ms(
        self, ends: Mapping[ids.TopicPartition, log_ends.Ends], timeout_s: float
    ) -> Mapping[ids.TopicPartition, int]:
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
        self, partitions: Collection[ids.TopicPartition]
    ) -> dict[ids.TopicPartition, kafka_errors.TopicMissingError]:
        return {
            each: kafka_errors.TopicMissingError(f"there is no {each}")
            for each in partitions
            if each not in self.logs
        }
