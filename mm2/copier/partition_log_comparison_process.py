"""Process that compares the logs of source and target partitions to rebuild their offset maps.

The process runs like a copy process: in the Python process of a Spark task, or in a thread
(`inline`). Credentials arrive only over the control channel. One partition is compared at a time,
with the digests of all its records in memory. A partition that would exceed the memory limit is
skipped and reported.

Both logs are read as a read_committed consumer sees them. Aborted records of the source are also
compared, because Java's MirrorMaker may have copied them, but they need no match on the target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from connect_runtime.api import config_types
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.protocol import request_builders, request_errors
from connect_runtime.protocol.request_builders import NodeTarget, OffsetQuery
from connect_runtime.system.system_clock import SystemClock
from mm2.copier import (
    client_properties,
    control_channel_messages,
    partition_log_comparison_messages,
)
from mm2.copier.blocking_client import BlockingClient
from mm2.copier.control_channel_client import ControlClient
from mm2.copier.control_channel_messages import CopyConfiguration
from mm2.copier.partition_log_comparison_messages import (
    LogCompareRange,
    LogCompareRequest,
    LogCompareResult,
)
from mm2.formats.record_batch import BatchHeader
from mm2.formats.record_set_splitter import DamagedBatchError
from mm2.offsets import partition_log_alignment
from mm2.offsets.partition_log_alignment import LogDigests
from mm2.replication import (
    outbound_batches,
    read_committed_batch_filter,
    record_transforms,
    target_log_tail_reader,
)
from mm2.replication.outbound_batches import (
    BatchUnreadableError,
    RecordTransform,
    RecordTransformError,
)
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.read_committed_batch_filter import SourceBatch


class LogTooLargeError(FatalError):
    """A log has too many records to be compared within the memory limit."""


@dataclass(slots=True, kw_only=True)
class ComparedLog:
    """Record digests of one log for the offset range [start, end), added in offset order."""

    start: int
    end: int
    """Exclusive end offset of the compared range."""
    max_records: int
    """Maximum number of records. `LogTooLargeError` is raised if the log has more."""
    optional_aborted: bool = False
    """True to include the records of aborted transactions as optional records, which need no match
    in the other log; False to skip them."""
    reverse_producers: frozenset[int] = frozenset()
    """Producer ids of the reverse flow. Records of these producers are skipped."""
    transform: RecordTransform | None = None
    """The transform that was applied to the replicated records."""
    digests: LogDigests = field(init=False)

    def __post_init__(self) -> None:
        self.digests = LogDigests(start=self.start)

    @property
    def next_offset(self) -> int:
        """Next offset to read from the log."""
        return self.digests.end

    @property
    def is_complete(self) -> bool:
        """True once all batches of the offset range have been added."""
        return self.next_offset >= self.end

    def add_batches(self, batches: memoryview, aborted: Sequence[tuple[int, int]]) -> None:
        """Add the batches of one fetch that starts at `next_offset`.

        Raises `DamagedBatchError`, `BatchUnreadableError`, `RecordTransformError` or
        `LogTooLargeError` if the partition cannot be compared.
        """
        scanned = read_committed_batch_filter.scan_batches(
            batches, position=self.next_offset, aborted=aborted
        )
        committed_offsets = {each.header.base_offset for each in scanned.batches}
        for header, batch in target_log_tail_reader.iter_valid_batches(
            batches, start=self.next_offset
        ):
            if header.base_offset >= self.end:
                self.digests.skip_to_offset(self.end)
                return
            if header.last_offset < self.next_offset:
                continue
            self.digests.skip_to_offset(header.base_offset, hole=True)
            self._add_batch(header, batch, committed=header.base_offset in committed_offsets)
            if len(self.digests) > self.max_records:
                raise LogTooLargeError(
                    f"more than {self.max_records:,} records, the maximum for the memory limit of "
                    "one partition: raise --memory-gb"
                )

    def _add_batch(self, header: BatchHeader, batch: memoryview, *, committed: bool) -> None:
        end = min(header.last_offset + 1, self.end)
        is_skipped = header.is_control or header.producer_id in self.reverse_producers
        if is_skipped or not (committed or self.optional_aborted):
            self.digests.skip_to_offset(end)
            return
        entry = SourceBatch(header, batch, max(header.base_offset, self.next_offset), "")
        for offset, digest in self._compute_digests(entry):
            if offset >= self.end:
                break
            if digest is None:
                self.digests.skip_to_offset(offset, hole=True)
                self.digests.skip_to_offset(offset + 1)
            else:
                self.digests.add_item_digest(
                    offset, digest, optional=not committed, producer_id=header.producer_id
                )
        self.digests.skip_to_offset(end, hole=header.record_count <= header.last_offset_delta)

    def _compute_digests(self, entry: SourceBatch) -> list[tuple[int, int | None]]:
        """Compute (offset, digest) of each record. The digest is None if the transform drops the
        record."""
        records = outbound_batches.decode_source_batch(entry)
        if self.transform is None:
            return [(each.offset, hash(each[1:])) for each in records]
        transformed: Mapping[int, int] = {
            each.offset: hash(each[1:])
            for each in outbound_batches.decode_source_batch(entry, self.transform)
        }
        return [(each.offset, transformed.get(each.offset)) for each in records]


UNREADABLE_LOG_ERRORS = (
    DamagedBatchError,
    BatchUnreadableError,
    RecordTransformError,
    LogTooLargeError,
)
"""Errors raised by `ComparedLog.add_batches` if a log cannot be read."""


_LATEST_TIMESTAMP = -1
_EARLIEST_TIMESTAMP = -2
NO_PROGRESS_TIMEOUT_S = 60.0
"""Time in seconds without new records after which reading fails."""
_READ_RETRY_DELAY_S = 0.2


class PartitionLogReader:
    """Reads one partition with blocking calls, which raise `ConnectError` if the broker does not
    respond.

    `wait(seconds)` is called between requests. It may block for up to `seconds`, and may raise an
    exception to abort the reading.
    """

    def __init__(
        self,
        client: BlockingClient,
        partition: TopicPartition,
        *,
        clock: Clock,
        wait: Callable[[float], None],
    ) -> None:
        self._client = client
        self._partition = partition
        self._clock = clock
        self._poll_channel = wait

    def find_start_offset(self) -> int:
        """Return the log start offset."""
        return self._look_up_offset(_EARLIEST_TIMESTAMP, "start")

    def find_end_offset(self) -> int:
        """Return the last stable offset."""
        return self._look_up_offset(_LATEST_TIMESTAMP, "end")

    def wait_until_stable(self, offset: int) -> None:
        """Wait until the last stable offset reaches `offset`.

        Raises `RetriableError` after `NO_PROGRESS_TIMEOUT_S`.
        """
        until = Deadline.after(NO_PROGRESS_TIMEOUT_S, now_s=self._clock.now_s())
        while (end := self.find_end_offset()) < offset:
            if until.is_expired(self._clock.now_s()):
                raise RetriableError(
                    f"{self._partition} can be read only up to offset {end}, not {offset}: a "
                    "transaction is open, or the log was truncated"
                )
            self._poll_channel(_READ_RETRY_DELAY_S)

    def read_range(self, into: ComparedLog) -> None:
        """Read the log into `into` until its offset range is complete. Committed records are never
        skipped.

        Raises `FatalError` if records cannot be decoded, and `RetriableError` if no records arrived
        for `NO_PROGRESS_TIMEOUT_S`.
        """
        while not into.is_complete:
            self._read_batches(into)

    def _read_batches(self, into: ComparedLog) -> None:
        """Read at least one batch from the log and add the batches that were read to `into`."""
        partition, offset = self._partition, into.next_offset
        until = Deadline.after(NO_PROGRESS_TIMEOUT_S, now_s=self._clock.now_s())
        reason = "no records arrived"
        while not until.is_expired(self._clock.now_s()):
            try:
                fetched = self._client.fetch(
                    partition.topic, offset, partition=partition.partition, committed=True
                )
                into.add_batches(memoryview(fetched.records), tuple(fetched.aborted))
            except UNREADABLE_LOG_ERRORS as error:
                raise FatalError(
                    f"reading {partition} at offset {into.next_offset}: {error}"
                ) from error
            except RetriableError as error:
                reason = str(error)
            self._poll_channel(0.0 if into.next_offset > offset else _READ_RETRY_DELAY_S)
            if into.next_offset > offset:
                return
        raise RetriableError(f"reading {partition} at offset {offset}: {reason}")

    def _look_up_offset(self, timestamp: int, what: str) -> int:
        partition = self._partition
        node = NodeTarget(self._client.find_leader(partition.topic, partition.partition))
        query = OffsetQuery(partition=partition.partition, timestamp=timestamp)
        message = request_builders.build_list_offsets_request(
            {partition.topic: [query]}, read_committed=True
        )
        ((result,),) = (each.partitions for each in self._client.send_request(node, message).topics)
        if int(result.error_code):
            raise RetriableError(
                f"looking up the {what} offset of {partition}: "
                f"{request_errors.format_error_code(result.error_code)}"
            )
        return int(result.offset)


LOG_COMPARE_ENTRY = "mm2.copier.partition_log_comparison_process:run"
CONNECT_TIMEOUT_S = 15.0
CONFIGURE_TIMEOUT_S = 30.0
_POLL_INTERVAL_S = 0.25
_DRAIN_TIMEOUT_S = 60.0


class DriverGoneError(FatalError):
    """The driver that requested the comparison has disconnected."""


class LogCompareProcess:
    """Compares the requested partitions, reports the results, and exits."""

    def __init__(self, address: str, token: bytes) -> None:
        self._clock = SystemClock()
        self._poller = Poller()
        self._channel = ControlClient(
            address,
            token,
            self._poller,
            clock=self._clock,
            on_message=self._on_message,
            on_closed=self._on_channel_closed,
        )
        self._settings: CopyConfiguration | None = None
        self._request: LogCompareRequest | None = None
        self._end_reason = ""

    def run(self) -> None:
        """Compare all requested partitions. Raises `DriverConnectError` and `DriverGoneError`."""
        self._channel.connect(CONNECT_TIMEOUT_S)
        try:
            until_s = self._clock.now_s() + CONFIGURE_TIMEOUT_S
            while self._request is None:
                if self._clock.now_s() > until_s:
                    raise DriverGoneError("the driver sent no request")
                self._poll_channel(_POLL_INTERVAL_S)
            self._compare_all_partitions(self._request)
            self._channel.send({"type": "ended"})
            self._channel.flush_send_queue(_DRAIN_TIMEOUT_S)
        finally:
            self._channel.close()
            self._poller.close()

    def _compare_all_partitions(self, request: LogCompareRequest) -> None:
        settings = self._settings
        assert settings is not None, "configure must precede match"
        random = Random()  # noqa: S311 - jitter, not secrets
        chain = record_transforms.create_chain(settings.transforms, load=config_types.load_class)
        setups = {TopicPartition(each.topic, each.partition): each for each in settings.partitions}
        try:
            with (
                BlockingClient(
                    client_properties.parse_connection_settings(settings.source),
                    clock=self._clock,
                    random=random,
                ) as source,
                BlockingClient(
                    client_properties.parse_connection_settings(settings.target),
                    clock=self._clock,
                    random=random,
                ) as target,
            ):
                for each in request.ranges:
                    setup = setups[each.partition]
                    transform = None if chain is None else chain.bind_partition(setup)
                    result = self._compare_partition(
                        each, setup, transform, sides=(source, target), request=request
                    )
                    for message in partition_log_comparison_messages.encode_compare_result(result):
                        self._channel.send(message)
                    self._channel.flush_send_queue(_DRAIN_TIMEOUT_S)
        finally:
            if chain is not None:
                chain.close()

    def _compare_partition(
        self,
        bounds: LogCompareRange,
        setup: PartitionSetup,
        transform: RecordTransform | None,
        *,
        sides: tuple[BlockingClient, BlockingClient],
        request: LogCompareRequest,
    ) -> LogCompareResult:
        mirror = TopicPartition(setup.remote_topic, setup.partition)
        try:
            target = self._read_log(
                sides[1],
                mirror,
                upto=bounds.target_end,
                max_records=partition_log_alignment.estimate_max_records(request.memory_bytes),
            )
            source = self._read_log(
                sides[0],
                bounds.partition,
                upto=bounds.source_end,
                max_records=partition_log_alignment.estimate_max_records(
                    request.memory_bytes, target=len(target.digests)
                ),
                optional_aborted=True,
                reverse_producers=bounds.reverse_producers,
                transform=transform,
            )
        except DriverGoneError:
            raise
        except ConnectError as error:
            return LogCompareResult(partition=bounds.partition, failure=str(error))
        return LogCompareResult(
            partition=bounds.partition,
            alignment=partition_log_alignment.align_logs(
                source.digests, target.digests, assume_unique=request.all_differ
            ),
            source_records=len(source.digests),
            target_records=len(target.digests),
        )

    def _read_log(
        self,
        client: BlockingClient,
        partition: TopicPartition,
        *,
        upto: int,
        **more: Any,
    ) -> ComparedLog:
        """Read the whole range of a log, and wait for open transactions.

        A partially read mirror must not be used, because the resulting map would end too early.
        """
        log = PartitionLogReader(client, partition, clock=self._clock, wait=self._poll_channel)
        log.wait_until_stable(upto)
        compared = ComparedLog(
            start=log.find_start_offset(), end=log.find_end_offset() if upto < 0 else upto, **more
        )
        log.read_range(compared)
        return compared

    def _poll_channel(self, wait_s: float) -> None:
        self._poller.poll(wait_s)
        if self._end_reason:
            raise DriverGoneError(self._end_reason)

    def _on_channel_closed(self, reason: str) -> None:
        self._end_reason = self._end_reason or f"lost the connection to the driver: {reason}"

    def _on_message(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "configure":
                self._settings = control_channel_messages.decode_copy_configuration(message)
            case "match":
                self._request = partition_log_comparison_messages.decode_compare_request(message)


def run(address: str, token: bytes, _attempt: int) -> None:
    """Run a log comparison. This is the entry point for engines (`LOG_COMPARE_ENTRY`)."""
    LogCompareProcess(address, token).run()
