"""Finds unreplicated records on the clusters, and exports them to a file (`--export`).

The export has one JSON object per line. The first line is a header. `unreplicated_offset_ranges`
decides which offset ranges are searched.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pathlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.system import secure_file_access
from mm2.copier.blocking_client import BlockingClient
from mm2.copier.partition_fencer import PartitionFencer
from mm2.failover import foreign_record_scan
from mm2.failover.foreign_record_scan import ScanBudget
from mm2.failover.partition_thread_pool import ConnectClient, PartitionThreadPool
from mm2.failover.unreplicated_offset_ranges import (
    PartitionScanInputs,
    RecordsReplicatedBack,
    UnreplicatedTail,
)
from mm2.formats import record_codec
from mm2.formats.compression import DecompressionError
from mm2.formats.record_batch import BatchHeader
from mm2.formats.record_codec import BatchDecoder, BatchRecord, MalformedRecordsError
from mm2.formats.record_set_splitter import DamagedBatchError

EXPORT_VERSION = 1
FIND_TIMEOUT_S = 120.0
_MAX_HEADER_CHARS = 4_096
_MAX_DECODED_RECORDS = 10_000

FindUnreplicated = Callable[
    [Mapping[TopicPartition, PartitionScanInputs]], Mapping[TopicPartition, UnreplicatedTail]
]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreplicatedRecordFinder:
    """Finds unreplicated records of the destination by scanning the logs of both clusters."""

    destination_pool: PartitionThreadPool
    """Thread pool that scans the destination."""
    origin_pool: PartitionThreadPool
    """Thread pool that scans the origin."""

    def find_unreplicated_records(
        self, begins: Mapping[TopicPartition, PartitionScanInputs]
    ) -> Mapping[TopicPartition, UnreplicatedTail]:
        """Scan for unreplicated records of these partitions. Partitions that do not respond in time
        are not counted.

        Raises `ConnectError` if access is denied.
        """

        def find_records_replicated_back(
            questions: BlockingClient,
            each: TopicPartition,
            end: Deadline,
        ) -> RecordsReplicatedBack | None:
            return self._find_records_replicated_back(questions, begins[each], end)

        more = self.origin_pool.process_items(
            find_records_replicated_back, begins, timeout_s=FIND_TIMEOUT_S
        ).done

        def scan_partition(
            questions: BlockingClient,
            each: TopicPartition,
            end: Deadline,
        ) -> UnreplicatedTail:
            found, clock = begins[each].build_local_record_scan(), self.destination_pool.clock
            place = _create_partition_fencer(questions, each, clock)
            whole = foreign_record_scan.scan_log(place, found, clock=clock, end=end, budget=room)
            return begins[each].build_tail(each, found, more.get(each), whole=whole)

        room = ScanBudget()
        told = self.destination_pool.process_items(
            scan_partition, begins, timeout_s=FIND_TIMEOUT_S
        ).done
        unread = {
            each: begin.build_tail(
                each, begin.build_local_record_scan(), more.get(each), whole=False
            )
            for each, begin in begins.items()
            if each not in told
        }
        return {**told, **unread}

    def _find_records_replicated_back(
        self,
        questions: BlockingClient,
        begin: PartitionScanInputs,
        end: Deadline,
    ) -> RecordsReplicatedBack | None:
        """Find the records that the reverse flow has replicated but not yet stored in its offset
        map. Return None if this is unknown."""
        found, clock = begin.build_mirror_scan_after_map_end(), self.origin_pool.clock
        if found is None:
            return RecordsReplicatedBack(0, begin.mirror_next)
        place = _create_partition_fencer(questions, begin.mirror, clock)
        if not foreign_record_scan.scan_log(place, found, clock=clock, end=end):
            return None
        if found.flow_records:
            return RecordsReplicatedBack(found.flow_records, found.flow_end)
        before = begin.build_mirror_scan_before_map_end()
        if before is None or not foreign_record_scan.scan_log(place, before, clock=clock, end=end):
            return RecordsReplicatedBack(0, begin.mirror_next)
        return RecordsReplicatedBack(0, before.flow_end)


def export_records(
    path: pathlib.Path,
    found: Collection[UnreplicatedTail],
    *,
    cluster: str,
    move: str,
    connect: ConnectClient,
    clock: Clock,
) -> int:
    """Write the unreplicated records to a file, one JSON object per line; return the number of
    records.

    The first line is `{"v":1,"cluster":…,"move":…,"records":…}`. Key, value and header values are
    base64 or null. The file is created atomically and readable by its owner only. An existing file
    is replaced only if the same failover (`move`) wrote it. Raises `ConnectError`, also if the
    number of records differs from the count.
    """
    count = sum(each.counted for each in found)
    part = path.with_name(path.name + ".part")
    header = {"v": EXPORT_VERSION, "cluster": cluster, "move": move, "records": count}
    try:
        if os.path.lexists(path) and not _is_export_of_failover(path, move):
            raise FatalError(f"{path} already exists: move it away, or use another file")
        part.unlink(missing_ok=True)
        with connect() as questions:
            places = [
                (_create_partition_fencer(questions, tail.partition, clock), tail) for tail in found
            ]
            lines = (
                line for place, tail in places for line in _read_tail_lines(place, tail, clock)
            )
            _write_export(part, header, lines)
        written = _count_lines(part) - 1
        if written != count:
            raise RetriableError(
                f"{path}: {plurals.format_count(count, 'record', 'were')} counted, but "
                f"{written} "
                "found: the other records were deleted in the meantime. Nothing was exported; try "
                "again"
            )
        part.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        raise FatalError(f"writing {path}: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return written


def _write_export(path: pathlib.Path, header: object, lines: Iterator[dict[str, Any]]) -> None:
    """Write all lines of the export and make the file durable."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        print(json.dumps(header), file=file)
        for line in lines:
            print(json.dumps(line, separators=(",", ":")), file=file)
        file.flush()
        os.fsync(file.fileno())


def _count_lines(path: pathlib.Path) -> int:
    """Read the export file again and count the lines that were actually written."""
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _is_export_of_failover(path: pathlib.Path, move: str) -> bool:
    try:
        opened = secure_file_access.open_user_owned_file(
            path, os.O_RDONLY
        )  # a pipe of another user would block
    except OSError:
        return False
    with os.fdopen(opened, encoding="utf-8", errors="replace") as file:
        first = file.readline(_MAX_HEADER_CHARS)
    try:
        header = json.loads(first)
    except ValueError:
        return False
    return isinstance(header, dict) and header.get("move") == move


def _sync_directory(folder: pathlib.Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_tail_lines(
    place: PartitionFencer, tail: UnreplicatedTail, clock: Clock
) -> Iterator[dict[str, Any]]:
    """Read the unreplicated records at the end of a partition (its tail) in one pass, and yield a
    line of the export file for each record. The record ranges in `tail` begin and end at batch
    boundaries."""
    waiting = sorted(tail.ranges or (), reverse=True)
    at = waiting[-1].first if waiting else 0
    still_s = clock.now_s()
    while waiting and at < tail.end:
        before = at
        for header, batch in place.read_batches(at):
            at = max(at, header.last_offset + 1)
            while waiting and waiting[-1].last < header.base_offset:
                waiting.pop()
            if waiting and waiting[-1].first <= header.last_offset and not header.is_control:
                first, last, *_ = waiting[-1]
                yield from _read_batch_lines(place.partition, header, batch, first=first, last=last)
                if last <= header.last_offset:
                    waiting.pop()
        if at > before:
            still_s = clock.now_s()
        elif clock.now_s() - still_s > FIND_TIMEOUT_S:
            raise RetriableError(
                f"{place.partition}: no progress at offset {at} for {FIND_TIMEOUT_S:g} s"
            )


def _read_batch_lines(
    partition: TopicPartition,
    header: BatchHeader,
    batch: memoryview,
    *,
    first: int,
    last: int,
) -> Iterator[dict[str, Any]]:
    """Yield an export line for each record of a batch with an offset from `first` to `last`. The
    batch is decoded in parts."""
    try:
        for each in _decode_batch_in_parts(header, batch):
            if first <= each.offset <= last:
                fields = record_codec.decode_record_body(each.body)
                yield {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "offset": each.offset,
                    "timestamp_ms": each.timestamp,
                    "key": _encode_base64(fields.key),
                    "value": _encode_base64(fields.value),
                    "headers": [
                        [name.decode(errors="replace"), _encode_base64(value)]
                        for name, value in fields.headers
                    ],
                }
    except (
        MalformedRecordsError,
        DecompressionError,
        DamagedBatchError,
    ) as error:
        raise FatalError(
            f"{partition}: the batch at {header.base_offset} cannot be decoded: {error}"
        ) from error


def _decode_batch_in_parts(header: BatchHeader, batch: memoryview) -> Iterator[BatchRecord]:
    decoder = BatchDecoder(header, batch)
    while decoder.remaining:
        yield from decoder.decode_next_records(_MAX_DECODED_RECORDS)


def _encode_base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _create_partition_fencer(
    questions: BlockingClient,
    partition: TopicPartition,
    clock: Clock,
) -> PartitionFencer:
    return PartitionFencer(questions, partition, transactional_id="", clock=clock)
