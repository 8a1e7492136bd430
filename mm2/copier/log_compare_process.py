"""Process that compares the logs of source and target partitions to rebuild their offset maps.

Runs where copies run: in the Python process of a Spark task, or in a thread (`inline`).
Credentials come over the control channel only. One partition is compared at a time with all of
its digests in memory; a partition that would exceed the memory limit is skipped and reported.

Both logs are read as a read_committed consumer sees them. Aborted records of the source are kept
apart: Java's MirrorMaker may have copied them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from connect_runtime.api import config_types
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.network.transport import Poller
from connect_runtime.protocol import request_builders, request_errors
from connect_runtime.protocol.request_builders import NodeTarget, OffsetQuery
from connect_runtime.system.clock import SystemClock
from mm2.copier import client_properties, control_messages, log_compare_messages
from mm2.copier.blocking_client import BlockingClient
from mm2.copier.control_client import ControlClient
from mm2.copier.control_messages import ConfigureCopy
from mm2.copier.log_compare_messages import LogCompareRange, LogCompareRequest, LogCompareResult
from mm2.formats.record_batch import BatchHeader
from mm2.formats.record_sets import DamagedBatchError
from mm2.offsets import log_alignment
from mm2.offsets.log_alignment import LogDigests
from mm2.replication import outbound_batches, read_committed, record_transforms, tail_reader
from mm2.replication.outbound_batches import (
    BatchUnreadableError,
    RecordTransform,
    RecordTransformError,
)
from mm2.replication.read_committed import SourceBatch
from mm2.replication.setup import PartitionSetup


class LogTooLargeError(FatalError):
    """A log has more records than can be compared."""


@dataclass(slots=True, kw_only=True)
class ComparedLog:
    """One log from offset `start` on up to, not including, `upto`, fed in order.

    `optional_aborted`: what was aborted counts as optional, else as nothing. What the producers of
    `opposite` wrote is nobody's to copy. `transform` is what the copies did to the records. Of more
    than `records_max` none is kept.
    """

    start: int
    upto: int
    records_max: int
    optional_aborted: bool = False
    opposite: frozenset[int] = frozenset()
    transform: RecordTransform | None = None
    items: LogDigests = field(init=False)

    def __post_init__(self) -> None:
        self.items = LogDigests(start=self.start)

    @property
    def at(self) -> int:
        """Where to read on."""
        return self.items.end

    @property
    def complete(self) -> bool:
        return self.at >= self.upto

    def add(self, held: memoryview, aborted: Sequence[tuple[int, int]]) -> None:
        """One fetch from `at` on. Raises `DamagedBatchError`, `UnreadableError`, `TransformError`
        and `LogTooLargeError`: what cannot be read or held cannot be compared."""
        found = read_committed.scan_batches(held, position=self.at, aborted=aborted)
        kept = {each.header.base_offset for each in found.batches}
        for header, batch in tail_reader.iter_valid_batches(held, start=self.at):
            if header.base_offset >= self.upto:
                self.items.skip_to(self.upto)
                return
            if header.last_offset < self.at:
                continue
            self.items.skip_to(header.base_offset, hole=True)
            self._add(header, batch, committed=header.base_offset in kept)
            if len(self.items) > self.records_max:
                raise LogTooLargeError(
                    f"more than {self.records_max:,} records, which is all that the memory for "
                    "comparing one partition holds (--memory-gb)"
                )

    def _add(self, header: BatchHeader, batch: memoryview, *, committed: bool) -> None:
        behind = min(header.last_offset + 1, self.upto)
        skipped = header.is_control or header.producer_id in self.opposite
        if skipped or not (committed or self.optional_aborted):
            self.items.skip_to(behind)
            return
        entry = SourceBatch(header, batch, max(header.base_offset, self.at), "")
        for offset, digest in self._digests(entry):
            if offset >= self.upto:
                break
            if digest is None:
                self.items.skip_to(offset, hole=True)
                self.items.skip_to(offset + 1)
            else:
                self.items.add(offset, digest, optional=not committed, writer=header.producer_id)
        self.items.skip_to(behind, hole=header.record_count <= header.last_offset_delta)

    def _digests(self, entry: SourceBatch) -> list[tuple[int, int | None]]:
        """By offset; None for what the transform leaves out."""
        opened = outbound_batches.decode_source_batch(entry)
        if self.transform is None:
            return [(each.offset, hash(each[1:])) for each in opened]
        became: Mapping[int, int] = {
            each.offset: hash(each[1:])
            for each in outbound_batches.decode_source_batch(entry, self.transform)
        }
        return [(each.offset, became.get(each.offset)) for each in opened]


UNREADABLE_LOG_ERRORS = (
    DamagedBatchError,
    BatchUnreadableError,
    RecordTransformError,
    LogTooLargeError,
)
"""What `ComparedLog.add` raises."""


_LATEST_TIMESTAMP = -1
_EARLIEST_TIMESTAMP = -2
NO_PROGRESS_TIMEOUT_S = 60.0
"""So long nothing may come, where there should be something."""
_READ_RETRY_DELAY_S = 0.2


class PartitionLogReader:
    """Every call waits, and raises `ConnectError` when nobody answers. `turn` is called between
    questions with the seconds that it may take, and may raise."""

    def __init__(
        self,
        questions: BlockingClient,
        partition: TopicPartition,
        *,
        clock: Clock,
        turn: Callable[[float], None],
    ) -> None:
        self._questions = questions
        self._partition = partition
        self._clock = clock
        self._turn = turn

    def start(self) -> int:
        """The offset of the first record that is still there."""
        return self._listed(_EARLIEST_TIMESTAMP, "start")

    def end(self) -> int:
        """The last stable offset."""
        return self._listed(_LATEST_TIMESTAMP, "end")

    def stable_to(self, offset: int) -> None:
        """Wait until all before it is decided, and can be read. Raises `RetriableError` when it is
        not within `NO_PROGRESS_TIMEOUT_S`."""
        until = Deadline.after(NO_PROGRESS_TIMEOUT_S, now_s=self._clock.now_s())
        while (end := self.end()) < offset:
            if until.passed(self._clock.now_s()):
                raise RetriableError(
                    f"{self._partition} can be read up to offset {end} only, not {offset}: a "
                    "transaction is open there, or the log was cut"
                )
            self._turn(_READ_RETRY_DELAY_S)

    def read(self, into: ComparedLog) -> None:
        """Up to where it is to end. What does not come is not passed over: who can tell whether it
        was there?

        Raises `FatalError` for what cannot be read, `RetriableError` when nothing came for
        `NO_PROGRESS_TIMEOUT_S`.
        """
        while not into.complete:
            self._read_on(into)

    def _read_on(self, into: ComparedLog) -> None:
        """At least one batch."""
        place, before = self._partition, into.at
        until = Deadline.after(NO_PROGRESS_TIMEOUT_S, now_s=self._clock.now_s())
        why = "nothing came"
        while not until.passed(self._clock.now_s()):
            try:
                fetched = self._questions.fetch(
                    place.topic, before, partition=place.partition, committed=True
                )
                into.add(memoryview(fetched.records), tuple(fetched.aborted))
            except UNREADABLE_LOG_ERRORS as error:
                raise FatalError(f"reading {place} at offset {into.at}: {error}") from error
            except RetriableError as error:
                why = str(error)
            self._turn(0.0 if into.at > before else _READ_RETRY_DELAY_S)
            if into.at > before:
                return
        raise RetriableError(f"reading {place} at offset {before}: {why}")

    def _listed(self, timestamp: int, what: str) -> int:
        place = self._partition
        node = NodeTarget(self._questions.leader(place.topic, place.partition))
        query = OffsetQuery(partition=place.partition, timestamp=timestamp)
        message = request_builders.list_offsets({place.topic: [query]}, read_committed=True)
        ((found,),) = (each.partitions for each in self._questions.ask(node, message).topics)
        if int(found.error_code):
            raise RetriableError(
                f"asking for the {what} of {place}: "
                f"{request_errors.format_error_code(found.error_code)}"
            )
        return int(found.offset)


LOG_COMPARE_ENTRY = "mm2.copier.log_compare_process:run"
CONNECT_TIMEOUT_S = 15.0
CONFIGURE_TIMEOUT_S = 30.0
_POLL_INTERVAL_S = 0.25
_DRAIN_TIMEOUT_S = 60.0


class DriverGoneError(FatalError):
    """Who asked is gone: nobody wants to know any more."""


class LogCompareProcess:
    """Ends when all is told, or who asked is gone."""

    def __init__(self, address: str, token: bytes) -> None:
        self._clock = SystemClock()
        self._poller = Poller()
        self._channel = ControlClient(
            address,
            token,
            self._poller,
            now=self._clock,
            on_message=self._on_message,
            on_closed=self._on_closed,
        )
        self._settings: ConfigureCopy | None = None
        self._asked: LogCompareRequest | None = None
        self._gone = ""

    def run(self) -> None:
        """Raises `ConnectFailedError`, and `DriverGoneError`."""
        self._channel.connect(CONNECT_TIMEOUT_S)
        try:
            until_s = self._clock.now_s() + CONFIGURE_TIMEOUT_S
            while self._asked is None:
                if self._clock.now_s() > until_s:
                    raise DriverGoneError("nobody said what to compare")
                self._turn(_POLL_INTERVAL_S)
            self._compare_all(self._asked)
            self._channel.send({"type": "ended"})
            self._channel.drain(_DRAIN_TIMEOUT_S)
        finally:
            self._channel.close()
            self._poller.close()

    def _compare_all(self, asked: LogCompareRequest) -> None:
        settings = self._settings
        assert settings is not None, "configure comes first"
        random = Random()  # noqa: S311 - jitter, not secrets
        chain = record_transforms.create_chain(settings.transforms, load=config_types.load_class)
        wheres = {TopicPartition(each.topic, each.partition): each for each in settings.partitions}
        try:
            with (
                BlockingClient(
                    client_properties.read_connection_settings(settings.source),
                    clock=self._clock,
                    random=random,
                ) as source,
                BlockingClient(
                    client_properties.read_connection_settings(settings.target),
                    clock=self._clock,
                    random=random,
                ) as target,
            ):
                for each in asked.bounds:
                    where = wheres[each.partition]
                    transform = None if chain is None else chain.of(where)
                    found = self._compared(
                        each, where, transform, sides=(source, target), asked=asked
                    )
                    for message in log_compare_messages.encode_result(found):
                        self._channel.send(message)
                    self._channel.drain(_DRAIN_TIMEOUT_S)
        finally:
            if chain is not None:
                chain.close()

    def _compared(
        self,
        bounds: LogCompareRange,
        where: PartitionSetup,
        transform: RecordTransform | None,
        *,
        sides: tuple[BlockingClient, BlockingClient],
        asked: LogCompareRequest,
    ) -> LogCompareResult:
        mirror = TopicPartition(where.remote_topic, where.partition)
        try:
            target = self._read(
                sides[1],
                mirror,
                upto=bounds.target_to,
                records_max=log_alignment.estimate_max_records(asked.memory_bytes),
            )
            source = self._read(
                sides[0],
                bounds.partition,
                upto=bounds.source_to,
                records_max=log_alignment.estimate_max_records(
                    asked.memory_bytes, target=len(target.items)
                ),
                optional_aborted=True,
                opposite=bounds.opposite,
                transform=transform,
            )
        except DriverGoneError:
            raise
        except ConnectError as error:
            return LogCompareResult(partition=bounds.partition, why=str(error))
        return LogCompareResult(
            partition=bounds.partition,
            matched=log_alignment.align_logs(
                source.items, target.items, all_differ=asked.all_differ
            ),
            source=len(source.items),
            target=len(target.items),
        )

    def _read(
        self,
        questions: BlockingClient,
        partition: TopicPartition,
        *,
        upto: int,
        **more: Any,
    ) -> ComparedLog:
        """What is to be read is waited for: a mirror that was read in part is nobody's to go on
        from."""
        log = PartitionLogReader(questions, partition, clock=self._clock, turn=self._turn)
        log.stable_to(upto)
        found = ComparedLog(start=log.start(), upto=log.end() if upto < 0 else upto, **more)
        log.read(found)
        return found

    def _turn(self, wait_s: float) -> None:
        self._poller.poll(wait_s)
        if self._gone:
            raise DriverGoneError(self._gone)

    def _on_closed(self, reason: str) -> None:
        self._gone = self._gone or f"who asked is gone: {reason}"

    def _on_message(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "configure":
                self._settings = control_messages.decode_configure(message)
            case "match":
                self._asked = log_compare_messages.decode_request(message)


def run(address: str, token: bytes, _attempt: int) -> None:
    """Entry of an engine (`LOG_COMPARE_ENTRY`)."""
    LogCompareProcess(address, token).run()
