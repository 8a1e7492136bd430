"""Log offset client: fetches start and end offsets with ListOffsets, and reads record timestamps
from fetched batches."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import UnreachableError
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from mm2.formats.record_batch import NO_TIMESTAMP
from mm2.kafka import partition_log_client
from mm2.kafka.kafka_client_interfaces import LogTruncatedError, PerPartitionResult
from mm2.kafka.partition_log_client import (
    AcceptBatches,
    FetchedBatches,
    LogClient,
    LogPosition,
    OffsetSpec,
)
from mm2.offsets.log_start_and_end_offsets import LogBounds

_NO_OFFSET = -1
_PARTITION_BYTES = 16_384
_TAIL_RECORDS = 16
"""Number of offsets before the end of the log in which the first attempt searches for the last
record. Each further attempt multiplies the range by this number, because the last offsets may be
transaction markers."""
# The last stable offset comes last, so records written meanwhile do not count as an open
# transaction.
_BOUNDS = (
    partition_log_client.LOG_START,
    partition_log_client.HIGH_WATERMARK,
    partition_log_client.LAST_STABLE_OFFSET,
)


class KafkaLogOffsets:
    """Implements `LogOffsets`, where the methods are documented. Connects on first use."""

    def __init__(self, access: KafkaClusterAccess, *, client_id: str, clock: Clock) -> None:
        self._clock = clock
        self._where = access.name_and_addresses
        self._client = LogClient(access, client_id=client_id, clock=clock)

    def fetch_log_bounds(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> PerPartitionResult[LogBounds]:
        """Fetch the log start and end offsets of the partitions."""
        listed = self._list_offsets(
            dict.fromkeys(partitions, _BOUNDS), timeout_s, doing="reading the log bounds of"
        )
        found = {
            each: LogBounds(
                start=start, end=max(start, stable), pending=max(0, written - max(start, stable))
            )
            for each, (start, written, stable) in listed.succeeded.items()
        }
        return PerPartitionResult(succeeded=found, failed=listed.failed)

    def find_offsets_by_time(
        self, moments_ms: Mapping[TopicPartition, int], timeout_s: float
    ) -> PerPartitionResult[int | None]:
        listed = self._list_offsets(
            {each: (OffsetSpec(moment_ms),) for each, moment_ms in moments_ms.items()},
            timeout_s,
            doing="finding a timestamp in",
        )
        found = {
            each: None if offset == _NO_OFFSET else offset
            for each, (offset,) in listed.succeeded.items()
        }
        return PerPartitionResult(succeeded=found, failed=listed.failed)

    def read_timestamps(
        self, offsets: Mapping[TopicPartition, int], timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}

        def accept_first_record(partition: TopicPartition, fetched: FetchedBatches) -> bool:
            for batch in fetched.batches:
                for _, timestamp in partition_log_client.iter_timestamps(
                    batch, doing=self._describe_timestamp_read(partition)
                ):
                    if timestamp != NO_TIMESTAMP:
                        found[partition] = timestamp
                    return True
            return fetched.next_offset >= fetched.end

        self._fetch_committed_batches(
            offsets, Deadline.after(timeout_s, now_s=self._clock.now_s()), accept_first_record
        )
        return found

    def read_newest_timestamps(
        self, ends: Mapping[TopicPartition, LogBounds], timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        found: dict[TopicPartition, int] = {}

        def accept_last_record(partition: TopicPartition, fetched: FetchedBatches) -> bool:
            last = ends[partition].end
            for batch in fetched.batches:
                for offset, timestamp in partition_log_client.iter_timestamps(
                    batch, doing=self._describe_timestamp_read(partition)
                ):
                    if offset < last and timestamp != NO_TIMESTAMP:
                        found[partition] = timestamp
            return fetched.next_offset >= min(last, fetched.end)

        positions = {
            each: max(at.start, at.end - _TAIL_RECORDS)
            for each, at in ends.items()
            if at.start < at.end
        }
        while positions and not end.is_expired(self._clock.now_s()):
            self._fetch_committed_batches(positions, end, accept_last_record)
            positions = {  # further back if only markers were found
                each: max(ends[each].start, ends[each].end - _TAIL_RECORDS * (ends[each].end - at))
                for each, at in positions.items()
                if each not in found and at > ends[each].start
            }
        return found

    def close(self) -> None:
        self._client.close()

    def _list_offsets(
        self,
        specs: Mapping[TopicPartition, tuple[OffsetSpec, ...]],
        timeout_s: float,
        *,
        doing: str,
    ) -> PerPartitionResult[tuple[int, ...]]:
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        listed = self._client.list_offsets(specs, end, doing=doing)
        unreachable = [
            each for each in listed.failed.values() if isinstance(each, UnreachableError)
        ]
        if unreachable and len(unreachable) == len(specs):
            raise unreachable[0]
        return listed

    def _fetch_committed_batches(
        self, offsets: Mapping[TopicPartition, int], end: Deadline, accept: AcceptBatches
    ) -> None:
        """Read committed records of each partition from these offsets until `accept` returns True
        for the partition. Partitions that cannot be read are omitted."""
        failed = self._fetch_committed_batches_once(offsets, end, accept)
        gone = [each for each, error in failed.items() if isinstance(error, LogTruncatedError)]
        starts = self._client.list_offsets(
            dict.fromkeys(gone, (partition_log_client.LOG_START,)),
            end,
            doing="reading the log start of",
        )
        later = {  # retention may delete offsets meanwhile
            each: start for each, (start,) in starts.succeeded.items() if start > offsets[each]
        }
        self._fetch_committed_batches_once(later, end, accept)

    def _fetch_committed_batches_once(
        self, offsets: Mapping[TopicPartition, int], end: Deadline, accept: AcceptBatches
    ) -> Mapping[TopicPartition, ConnectError]:
        return self._client.fetch_batches(
            {each: LogPosition(offset) for each, offset in offsets.items()},
            end,
            accept=accept,
            doing="reading timestamps of",
            committed_only=True,
            partition_bytes=_PARTITION_BYTES,
        )

    def _describe_timestamp_read(self, partition: TopicPartition) -> str:
        return f"reading timestamps of {partition} on {self._where}"
