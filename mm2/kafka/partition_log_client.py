"""Reads offsets and record batches from partition leaders, without librdkafka.

`partition_leader_requests` groups and retries the requests. Every byte of a response is validated,
because a broker may be hostile. Message formats before v2, which brokers before 4.0 may return, are
converted.
"""

from __future__ import annotations

import random
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import AuthenticationError
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.network import broker_connections
from connect_runtime.network.cluster_connections import ClusterConnections
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.protocol import api_versions, fetch_requests, request_builders, varints
from connect_runtime.protocol.fetch_requests import FetchRequestPartition, FetchResponsePartition
from connect_runtime.protocol.request_builders import NodeTarget, OffsetQuery
from mm2.formats import compression, record_batch
from mm2.formats.compression import DecompressedTooLargeError, DecompressionError
from mm2.formats.record_codec import BatchDecoder, BatchRecord, MalformedRecordsError
from mm2.kafka.kafka_client_interfaces import PerPartitionResult
from mm2.kafka.partition_leader_requests import NO_CONTENT, LeaderCall, RequestGroup
from mm2.replication import read_committed_batch_filter
from mm2.replication.read_committed_batch_filter import SourceBatch

_MAX_RESPONSE_BYTES = 8 * 1024 * 1024
"""Maximum size of a Fetch response. A leader exceeds it only if the first batch is larger."""
_MAX_DECODED_RECORDS = 10_000
_TIMESTAMP_BATCH_BYTES_MAX = 1024 * 1024
_MAX_WAIT_MS = 10
_EMPTY_TIME_AT_END_S = 0.5
_NO_SESSION_EPOCH = -1
_NO_EPOCH = -1
_NO_OFFSET = -1
_OTHER_TOPIC = "the topic id has changed"


class OffsetSpec(NamedTuple):
    """An offset to look up: the first offset at or after a timestamp in ms, or a special timestamp
    such as latest (KIP-79)."""

    timestamp: int
    read_committed: bool = True


LOG_START = OffsetSpec(-2)
LAST_STABLE_OFFSET = OffsetSpec(-1)
HIGH_WATERMARK = OffsetSpec(-1, read_committed=False)


@dataclass(slots=True)
class LogPosition:
    """The next offset to read from a partition, and the leader epoch of the last batch that was
    read (-1 if none was read or the batch has no epoch)."""

    offset: int
    leader_epoch: int = _NO_EPOCH
    topic_id: bytes = varints.NO_TOPIC_ID
    """Id of the topic in which `offset` is valid; all zero if unknown."""


_NO_POSITIONS: Mapping[TopicPartition, LogPosition] = {}


class FetchedBatches(NamedTuple):
    """The visible batches of one partition in a Fetch response: no transaction markers, and with
    read_committed no aborted records."""

    batches: Sequence[SourceBatch]
    next_offset: int
    """Next offset to read: after the batches and after everything that was skipped."""
    end: int
    """The leader's high watermark, or its last stable offset with read_committed."""


AcceptBatches = Callable[[TopicPartition, FetchedBatches], bool]
"""Function that receives the batches of a partition in order. Returns True if no more batches of
the partition are needed. If it raises `FatalError`, the partition fails with this error."""


def iter_records(
    batch: SourceBatch, *, doing: str, max_bytes: int = compression.DECOMPRESSED_BYTES_MAX
) -> Iterator[BatchRecord]:
    """Iterate over the records of a batch from offset `batch.first` on, decoding them in parts.

    Raises `FatalError` if the batch is malformed or decompresses to more than `max_bytes`. `doing`
    starts the error message.
    """
    try:
        decoder = BatchDecoder(batch.header, batch.batch, max_bytes=max_bytes)
        while decoder.remaining:
            found = decoder.decode_next_records(_MAX_DECODED_RECORDS)
            if found[0].offset < batch.first:
                found = [each for each in found if each.offset >= batch.first]
            yield from found
    except (DecompressionError, MalformedRecordsError) as error:
        raise FatalError(
            f"{doing}: the batch at offset {batch.header.base_offset} is malformed: {error}; find "
            "the program that wrote it"
        ) from error


def iter_timestamps(batch: SourceBatch, *, doing: str) -> Iterator[tuple[int, int]]:
    """Iterate over the offsets and timestamps of a batch's records from offset `batch.first` on.

    If the batch decompresses to more than 1 MB, yields only its first and last offset, with the
    approximate timestamps in its header. Raises `FatalError` if the batch is malformed.
    """
    try:
        for record in iter_records(batch, doing=doing, max_bytes=_TIMESTAMP_BATCH_BYTES_MAX):
            yield record.offset, record.timestamp
    except FatalError as error:
        if not isinstance(error.__cause__, DecompressedTooLargeError):
            raise
        header = batch.header
        is_append_time = header.attributes & record_batch.LOG_APPEND_TIME
        oldest = header.max_timestamp if is_append_time else header.oldest_timestamp
        yield max(batch.first, header.base_offset), oldest
        yield header.last_offset, header.max_timestamp


class LogClient:
    """Reads logs of one cluster. Connects on first use. Not thread-safe.

    If `close` is not called, the connections are closed when the client is garbage-collected.

    Methods return an error for each partition that failed. With `all_required`, they instead raise
    the first error that a retry cannot resolve, and wait for missing topics until the deadline. In
    either case they raise `AuthenticationError` as soon as credentials or certificates are
    rejected.
    """

    def __init__(self, access: KafkaClusterAccess, *, client_id: str, clock: Clock) -> None:
        self._access = access
        self._client_id = client_id
        self._clock = clock
        self._poller: Poller | None = None
        self._cluster: ClusterConnections | None = None

    def list_offsets(
        self,
        specs: Mapping[TopicPartition, Sequence[OffsetSpec]],
        end: Deadline,
        *,
        doing: str,
        reached: Mapping[TopicPartition, LogPosition] = _NO_POSITIONS,
        all_required: bool = False,
    ) -> PerPartitionResult[tuple[int, ...]]:
        """Look up offsets of each partition, in the order of its `specs`. An offset is -1 if no
        record has a timestamp at or after the requested one.

        `reached` contains positions that the logs are known to have reached. If the offset for the
        last spec is lower than the reached position, a former leader may have responded, and the
        lookup is repeated until the deadline. If the offset is still lower then, or if the topic
        was recreated, the partition fails with `LogTruncatedError`. `doing` starts the error
        messages.
        """
        lookup = _OffsetLookup(
            where=self._access.name_and_addresses,
            clock=self._clock,
            end=end,
            doing=doing,
            all_required=all_required,
            specs=specs,
            reached=reached,
        )
        failed = self._run_leader_call(lookup, specs)
        return PerPartitionResult(succeeded=lookup.found, failed=failed)

    def fetch_batches(
        self,
        positions: Mapping[TopicPartition, LogPosition],
        end: Deadline,
        *,
        accept: AcceptBatches,
        doing: str,
        committed_only: bool = False,
        partition_bytes: int = _MAX_RESPONSE_BYTES,
        all_required: bool = False,
    ) -> Mapping[TopicPartition, ConnectError]:
        """Fetch batches from these positions until `accept` returns True for each partition.

        Advances a position after `accept` has returned. A partition fails with `LogTruncatedError`
        if the leader's log does not contain the position (any more), and with `FatalError` at a
        damaged batch.
        """
        fetching = _BatchFetch(
            where=self._access.name_and_addresses,
            clock=self._clock,
            end=end,
            doing=doing,
            all_required=all_required,
            positions=positions,
            accept=accept,
            committed_only=committed_only,
            partition_bytes=partition_bytes,
        )
        return self._run_leader_call(fetching, positions)

    def get_topic_id(self, topic: str) -> bytes:
        """Return a topic's 16-byte id from the latest metadata; all zeros if the id is unknown or
        the brokers have no topic ids."""
        found = None if self._cluster is None else self._cluster.view.get_topic(topic)
        return varints.NO_TOPIC_ID if found is None else found.topic_id

    def close(self) -> None:
        """Close all connections. A later call opens them again."""
        if self._cluster is not None:
            self._poller = self._cluster = None
            self._close_connections()

    def _run_leader_call(
        self, call: LeaderCall, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ConnectError]:
        if not partitions:
            return {}
        try:
            return call.request_all_partitions(partitions, *self._connect())
        except AuthenticationError:
            self.close()  # the next call tries again, instead of reporting the same failure
            raise

    def _connect(self) -> tuple[ClusterConnections, Poller]:
        if self._cluster is None or self._poller is None:
            poller = Poller()
            try:
                cluster = ClusterConnections(
                    self._access.to_connection_settings(self._client_id),
                    poller=poller,
                    clock=self._clock,
                    random=random.Random(),  # noqa: S311  # spreads waits, no secret
                )
            except BaseException as error:
                poller.close()
                if isinstance(error, ValueError):
                    raise FatalError(
                        f"connecting to {self._access.name_and_addresses}: {error}"
                    ) from error
                raise
            self._cluster, self._poller = cluster, poller
            self._close_connections = weakref.finalize(
                self, _close_cluster_and_poller, cluster, poller
            )
        return self._cluster, self._poller


def _close_cluster_and_poller(cluster: ClusterConnections, poller: Poller) -> None:
    cluster.close()
    poller.close()


@dataclass(slots=True, kw_only=True, eq=False)
class _OffsetLookup(LeaderCall):
    """Looks up offsets with ListOffsets requests, each of which has one timestamp per partition."""

    specs: Mapping[TopicPartition, Sequence[OffsetSpec]]
    reached: Mapping[TopicPartition, LogPosition]
    found: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)

    def _send_group_requests(self, group: RequestGroup) -> bool:
        requests: dict[tuple[int, bool], dict[str, list[OffsetQuery]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for each in group.partitions:
            leader = self._cluster.view.get_leader(each.topic, each.partition)
            for place, spec in enumerate(self.specs[each]):
                query = OffsetQuery(
                    partition=each.partition,
                    timestamp=spec.timestamp,
                    leader_epoch=_NO_EPOCH if leader is None else leader.epoch,
                )
                requests[place, spec.read_committed][each.topic].append(query)
        group.size = len(requests)
        for position, (key, topics) in enumerate(sorted(requests.items())):
            self._cluster.call(
                NodeTarget(group.node_id),
                request_builders.build_list_offsets_request(topics, read_committed=key[1]),
                done=self._create_callback(group, position),
                timeout_s=self._get_timeout_s(),
            )
        return True

    def _decode_group_replies(
        self, group: RequestGroup
    ) -> Mapping[TopicPartition, tuple[int, Any]]:
        codes: dict[TopicPartition, int] = {}
        offsets: dict[TopicPartition, list[int]] = defaultdict(list)
        for _, reply in sorted(group.replies.items()):
            for topic in reply.body.topics:
                for each in topic.partitions:
                    partition = TopicPartition(str(topic.name), int(each.partition_index))
                    codes[partition] = codes.get(partition) or int(each.error_code)
                    offsets[partition].append(int(each.offset))
        return {each: (code, offsets[each]) for each, code in codes.items()}

    def _handle_partition_data(self, partition: TopicPartition, content: Any) -> None:
        offsets: list[int] = content
        specs = self.specs[partition]
        if len(offsets) != len(specs) or not all(map(_is_possible_offset, specs, offsets)):
            self._retry_partition(
                partition, RetriableError(self._format_partition_problem(partition, NO_CONTENT))
            )
            return
        if (reached := self.reached.get(partition)) is not None:
            if _is_topic_recreated(reached, self._get_topic_id(partition.topic)):
                self._mark_partition_failed(
                    partition, self._create_log_truncated_error(partition, _OTHER_TOPIC)
                )
                return
            if offsets[-1] < reached.offset:
                self._cluster.refresh_metadata()
                problem = f"the log ends at offset {offsets[-1]}, but had reached {reached.offset}"
                self._retry_partition(
                    partition, self._create_log_truncated_error(partition, problem)
                )
                return
        self.found[partition] = tuple(offsets)
        self._mark_partition_done(partition)


@dataclass(slots=True, kw_only=True, eq=False)
class _BatchFetch(LeaderCall):
    """Fetches record batches from leaders without a fetch session."""

    positions: Mapping[TopicPartition, LogPosition]
    accept: AcceptBatches
    committed_only: bool
    partition_bytes: int
    _empty_since_s: dict[TopicPartition, float] = field(default_factory=dict)
    """Monotonic time in seconds since which responses have contained no records of a partition,
    although the partition was first in the request."""

    def _send_group_requests(self, group: RequestGroup) -> bool:
        topic_ids = {each.topic: self._get_topic_id(each.topic) for each in group.partitions}
        version = self._cluster.choose_version(
            group.node_id,
            api_versions.FETCH_KEY,
            *fetch_requests.choose_fetch_versions(topic_ids.values()),
        )
        if version is None:
            return False
        body = fetch_requests.encode_fetch_request(
            version,
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=_MAX_RESPONSE_BYTES,
            isolation_level=int(self.committed_only),
            session_id=fetch_requests.NO_SESSION_ID,
            session_epoch=_NO_SESSION_EPOCH,
            partitions=[
                self._build_fetch_partition(each, topic_ids[each.topic])
                for each in group.partitions
            ],
            forgotten=(),
            rack_id="",
        )
        self._cluster.call_with_encoded_body(
            group.node_id,
            lane=broker_connections.CONTROL_PURPOSE,
            api_key=api_versions.FETCH_KEY,
            version=version,
            chunks=[body],
            done=self._create_callback(group),
            timeout_s=self._get_timeout_s(),
        )
        return True

    def _build_fetch_partition(
        self, partition: TopicPartition, topic_id: bytes
    ) -> FetchRequestPartition:
        position = self.positions[partition]
        leader = self._cluster.view.get_leader(partition.topic, partition.partition)
        return FetchRequestPartition(
            partition.topic,
            topic_id,
            partition.partition,
            _NO_EPOCH if leader is None else leader.epoch,
            position.offset,
            position.leader_epoch,
            self.partition_bytes,
        )

    def _decode_group_replies(
        self, group: RequestGroup
    ) -> Mapping[TopicPartition, tuple[int, Any]]:
        reply = group.replies[0]
        response = fetch_requests.decode_fetch_response(
            reply.version, reply.body, max_partitions=len(group.partitions)
        )
        if response.throttle_ms > 0:
            self._cluster.apply_throttle_time(
                group.node_id, broker_connections.CONTROL_PURPOSE, response.throttle_ms
            )
        if response.error_code:
            return dict.fromkeys(group.partitions, (response.error_code, None))
        names = {self._get_topic_id(each.topic): each.topic for each in group.partitions}
        found: dict[TopicPartition, tuple[int, Any]] = {}
        for each in response.partitions:
            partition = TopicPartition(each.topic or names.get(each.topic_id, ""), each.partition)
            found[partition] = (each.error_code, (each, partition == group.partitions[0]))
            if each.current_leader is not None:
                self._cluster.view.update_leader(
                    partition.topic, partition.partition, *each.current_leader
                )
        return found

    def _handle_partition_data(self, partition: TopicPartition, content: Any) -> None:
        fetched: FetchResponsePartition
        fetched, is_first = content
        position = self.positions[partition]
        problem = _explain_truncation(fetched, position)
        if problem is not None:
            self._mark_partition_failed(
                partition, self._create_log_truncated_error(partition, problem)
            )
            return
        scan = read_committed_batch_filter.scan_batches(
            fetched.records,
            position=position.offset,
            aborted=fetched.aborted if self.committed_only else (),
        )
        if scan.obstacle is not None and not scan.batches:
            problem = f"{scan.obstacle.reason} at offset {scan.obstacle.offset}"
            advice = "see the brokers' log, and check the network and the disks"
            self._mark_partition_failed(
                partition,
                FatalError(self._format_partition_problem(partition, f"{problem}; {advice}")),
            )
            return
        end = fetched.last_stable_offset if self.committed_only else fetched.high_watermark
        next_offset = scan.position
        if is_first and self._is_rest_of_log_compacted(partition, fetched) and next_offset < end:
            next_offset, position.leader_epoch = end, _NO_EPOCH
        try:
            is_done = self.accept(partition, FetchedBatches(scan.batches, next_offset, end))
        except FatalError as error:
            self._mark_partition_failed(partition, error)
            return
        if scan.leader_epoch >= 0:
            position.leader_epoch = scan.leader_epoch
        has_advanced = bool(scan.batches) or next_offset > position.offset
        position.offset = next_offset
        if is_done:
            self._mark_partition_done(partition)
        elif has_advanced or not (is_first or len(fetched.records)):
            self._request_more_data(
                partition
            )  # only the first partition gets a batch of any size (KIP-74)
        else:
            self._cluster.refresh_metadata()
            problem = f"the leader returned no complete batch; its log ends at offset {end}"
            self._retry_partition(
                partition, RetriableError(self._format_partition_problem(partition, problem))
            )

    def _is_rest_of_log_compacted(
        self, partition: TopicPartition, fetched: FetchResponsePartition
    ) -> bool:
        """Return whether compaction has removed all batches from the position to the end.

        The first partition of a request gets a batch if there is any (KIP-74). Brokers also omit
        records that remote storage does not return in time, so only repeated empty responses count.
        """
        if len(fetched.records) or fetched.preferred_read_replica >= 0:
            self._empty_since_s.pop(partition, None)
            return False
        since_s = self._empty_since_s.setdefault(partition, self.clock.now_s())
        return self.clock.now_s() - since_s >= _EMPTY_TIME_AT_END_S


def _explain_truncation(fetched: FetchResponsePartition, position: LogPosition) -> str | None:
    """Return why the log no longer continues the records read before this position (truncated or
    recreated topic); None if it does."""
    if fetched.diverging_end_offset >= 0:
        return (
            f"the log diverges at offset {fetched.diverging_end_offset}, but the next offset to "
            f"read is {position.offset}"
        )
    return _OTHER_TOPIC if _is_topic_recreated(position, fetched.topic_id) else None


def _is_topic_recreated(position: LogPosition, topic_id: bytes) -> bool:
    """Return whether the topic was recreated since the position was set. False if an id is
    unknown."""
    return topic_id != position.topic_id and varints.NO_TOPIC_ID not in (
        topic_id,
        position.topic_id,
    )


def _is_possible_offset(spec: OffsetSpec, offset: int) -> bool:
    return offset >= 0 or (offset == _NO_OFFSET and spec.timestamp >= 0)
