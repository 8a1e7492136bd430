"""Reads offsets and record batches from partition leaders over the runtime's own connections.

Partitions are grouped by leader. A leader has one group of partitions in flight at a time, and all
leaders are read concurrently, so that a slow leader does not delay the partitions of the others.
Errors that may be transient are retried until the caller's deadline, with fresh metadata. Every
byte of a response is validated, because a broker may be hostile.

Records are fetched in message format v2 and in the formats before it, which brokers before 4.0 may
return.
"""

from __future__ import annotations

import abc
import random
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka import client_errors
from connect_runtime.kafka.client_errors import AuthenticationError
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from connect_runtime.network import broker_connections
from connect_runtime.network.cluster_connections import ClusterConnections
from connect_runtime.network.transport import Poller
from connect_runtime.protocol import api_versions, fetch, request_builders, varints
from connect_runtime.protocol.fetch import FetchRequestPartition, FetchResponsePartition
from connect_runtime.protocol.request_builders import NodeTarget, OffsetQuery
from connect_runtime.protocol.request_errors import (
    AuthenticationFailed,
    TruncatedResponse,
    UnsupportedVersion,
)
from mm2.formats.compression import DecompressionError
from mm2.formats.records import BatchDecoder, BatchRecord, MalformedRecordsError
from mm2.kafka.client_interfaces import LogTruncatedError, PerPartitionResult
from mm2.replication import read_committed
from mm2.replication.read_committed import SourceBatch

_MAX_PARTITIONS_PER_REQUEST = 1000
_MAX_RESPONSE_BYTES = 8 * 1024 * 1024
"""Limit of a Fetch response. A leader exceeds the limit only if the first batch is larger."""
_MAX_DECODED_RECORDS = 10_000
_MAX_WAIT_MS = 10
_REQUEST_TIMEOUT_S = 15.0
_RETRY_DELAY_S = 0.05
_POLL_INTERVAL_S = 0.05
_METADATA_REFRESH_S = 1.0
"""Interval of metadata refreshes during a call, so that the partitions of a silent leader move to
their next leader soon after its election."""
_EMPTY_REPLIES_AT_END = 3
_MIN_TIMEOUT_S = 0.01
_NO_SESSION_EPOCH = -1
_NO_EPOCH = -1
_NO_OFFSET = -1
_NO_CONTENT = "the response does not contain the partition"
_OUT_OF_RANGE = "the log does not contain the next offset to read"
_OTHER_TOPIC = "another topic has the name now"


class OffsetSpec(NamedTuple):
    """An offset to look up: the first one at or after a timestamp in ms, or a special timestamp
    (KIP-79)."""

    timestamp: int
    read_committed: bool = True


LOG_START = OffsetSpec(-2)
LAST_STABLE_OFFSET = OffsetSpec(-1)
HIGH_WATERMARK = OffsetSpec(-1, read_committed=False)


@dataclass(slots=True)
class LogPosition:
    """The next offset to read from a partition, and the leader epoch of the last batch that was
    read (-1 without one)."""

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
    """Offset after the batches and after everything that was skipped."""
    end: int
    """The leader's high watermark, or its last stable offset with read_committed."""


AcceptBatches = Callable[[TopicPartition, FetchedBatches], bool]
"""Function that receives the batches of a partition in order. Returns True if the partition has
been read far enough. After a `FatalError`, the partition has failed."""


def iter_records(batch: SourceBatch, *, doing: str) -> Iterator[BatchRecord]:
    """Iterate over the records of a batch from offset `batch.first` on, decoding them in parts.

    Raises `FatalError` if the batch is malformed or decompresses to more than 256 MB. `doing`
    starts its message.
    """
    try:
        decoder = BatchDecoder(batch.header, batch.batch)
        while decoder.remaining:
            found = decoder.read(_MAX_DECODED_RECORDS)
            if found[0].offset < batch.first:
                found = [each for each in found if each.offset >= batch.first]
            yield from found
    except (DecompressionError, MalformedRecordsError) as error:
        raise FatalError(
            f"{doing}: the batch at offset {batch.header.base_offset} is malformed: {error}; find "
            "the program that wrote it"
        ) from error


def create_truncated_error(doing: str, problem: str) -> LogTruncatedError:
    """Create the error for records that no longer exist. `doing` includes the cluster."""
    return LogTruncatedError(
        f"{doing}: {problem}; the topic was truncated (unclean leader election) or recreated, and "
        "will be read again from the beginning"
    )


class LogClient:
    """Reads logs of one cluster. Connects on first use. Not thread-safe.

    A client that is dropped without `close` is closed.

    Methods return an error per partition that failed. With `all_required`, they raise the first
    error that no retry resolves instead, and wait for missing topics until the deadline. In either
    case they raise `AuthenticationError` as soon as credentials or certificates are rejected.
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
        """Look up the offsets of each partition, one after the other. An offset is -1 if no record
        has the timestamp.

        `reached` has positions that the logs are known to have reached. While the last offset is
        below, the lookup is repeated, because a deposed leader that does not know it yet may have
        responded. At the deadline, or if the topic was recreated, the error is `LogTruncatedError`.
        `doing` starts the error messages.
        """
        lookup = _OffsetLookup(
            where=self._access.where,
            clock=self._clock,
            end=end,
            doing=doing,
            all_required=all_required,
            specs=specs,
            reached=reached,
        )
        failed = self._run(lookup, specs)
        return PerPartitionResult(succeeded=lookup.found, failed=failed)

    def fetch(
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
            where=self._access.where,
            clock=self._clock,
            end=end,
            doing=doing,
            all_required=all_required,
            positions=positions,
            accept=accept,
            committed_only=committed_only,
            partition_bytes=partition_bytes,
        )
        return self._run(fetching, positions)

    def get_topic_id(self, topic: str) -> bytes:
        """Return the id of a topic in the last metadata (16 bytes); all zero if it is unknown or
        the brokers have no topic ids."""
        found = None if self._cluster is None else self._cluster.view.topic(topic)
        return varints.NO_TOPIC_ID if found is None else found.topic_id

    def close(self) -> None:
        """Close all connections. A later call opens them again."""
        if self._cluster is not None:
            self._poller = self._cluster = None
            self._close_connections()

    def _run(
        self, call: _LeaderCall, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ConnectError]:
        if not partitions:
            return {}
        try:
            return call.run(partitions, *self._connect())
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
            except ValueError as error:
                poller.close()
                raise FatalError(f"connecting to {self._access.where}: {error}") from error
            self._cluster, self._poller = cluster, poller
            self._close_connections = weakref.finalize(self, _close_all, cluster, poller)
        return self._cluster, self._poller


def _close_all(cluster: ClusterConnections, poller: Poller) -> None:
    cluster.close()
    poller.close()


@dataclass(slots=True, kw_only=True, eq=False)
class _RequestGroup:
    """Requests in flight to a leader for the same partitions. The leader answers them in order."""

    node_id: int
    partitions: Sequence[TopicPartition]
    size: int
    """Number of requests."""
    replies: dict[int, Any] = field(default_factory=dict)
    """Replies by the position of their request."""


@dataclass(slots=True, kw_only=True, eq=False)
class _LeaderCall(abc.ABC):
    """One call of `LogClient`: sends requests until each partition is done or has failed.

    Invariants: a partition is in `_waiting` until it is done or has failed. `_in_flight` contains
    the group whose reply a partition accepts; replies of other groups are ignored.
    """

    where: str
    clock: Clock
    end: Deadline
    doing: str
    all_required: bool
    _cluster: ClusterConnections = field(init=False)
    _poller: Poller = field(init=False)
    _waiting: dict[TopicPartition, None] = field(default_factory=dict)
    """In the order of the next requests."""
    _in_flight: dict[TopicPartition, _RequestGroup] = field(default_factory=dict)
    _busy: dict[int, _RequestGroup] = field(default_factory=dict)
    """The group in flight by node id of the leader."""
    _answered: deque[_RequestGroup] = field(default_factory=deque)
    _resume_at_s: dict[TopicPartition, float] = field(default_factory=dict)
    _errors: dict[TopicPartition, ConnectError] = field(default_factory=dict)
    """The last error of each waiting partition whose last request failed."""
    _failed: dict[TopicPartition, ConnectError] = field(default_factory=dict)

    @abc.abstractmethod
    def _send(self, group: _RequestGroup) -> bool:
        """Send the requests of a group. Each calls `_create_callback(group, its position)`.

        Returns False if the connection is not ready yet. Raises UnsupportedVersion.
        """

    @abc.abstractmethod
    def _read(self, group: _RequestGroup) -> Mapping[TopicPartition, tuple[int, Any]]:
        """Decode the replies to a group. Returns the error code and the content per partition.

        Raises TruncatedResponse.
        """

    @abc.abstractmethod
    def _handle(self, partition: TopicPartition, content: Any) -> None:
        """Process the content of a reply without error code. Ends with one of `_finish`, `_fail`,
        `_retry` and `_continue`."""

    def run(
        self, partitions: Collection[TopicPartition], cluster: ClusterConnections, poller: Poller
    ) -> dict[TopicPartition, ConnectError]:
        """Run the call and return the error of each partition that failed."""
        self._cluster, self._poller = cluster, poller
        self._waiting = dict.fromkeys(partitions)
        self._request_topics({each.topic for each in partitions})
        poller.poll(0.0)  # notices connections that brokers closed since the last call
        refresh_at_s = self.clock.now_s() + _METADATA_REFRESH_S
        while self._waiting:
            now_s = self.clock.now_s()
            if self.end.is_expired(now_s):
                self._fail_waiting()
                break
            if now_s >= refresh_at_s:
                refresh_at_s = now_s + _METADATA_REFRESH_S
                cluster.refresh_metadata()
            self._raise_refusal()
            self._send_groups(now_s)
            wait_s = cluster.tick(now_s)
            if not self._answered:
                poller.poll(min(wait_s, _POLL_INTERVAL_S, self.end.remaining_s(now_s)))
            while self._answered:
                self._handle_replies(self._answered.popleft())
        return self._failed

    # Requests

    def _request_topics(self, names: set[str]) -> None:
        """Request the metadata of these topics, again if a partition had no leader before."""
        view = self._cluster.view
        known = set(view.list_requested_topics())
        outdated = {
            each.topic for each in self._waiting if view.leader(each.topic, each.partition) is None
        }
        if outdated & known:
            self._cluster.request_topics(known - outdated)
        if not names <= known - outdated:
            self._cluster.request_topics(names)

    def _send_groups(self, now_s: float) -> None:
        """Send a group of requests to each leader that has partitions and no group in flight."""
        groups: dict[int, list[TopicPartition]] = defaultdict(list)
        for partition in list(self._waiting):
            leader = self._cluster.view.leader(partition.topic, partition.partition)
            group = self._in_flight.get(partition)
            if group is not None:
                if leader is None or leader.node_id == group.node_id:
                    continue
                del self._in_flight[partition]  # the leader has moved
            if now_s < self._resume_at_s.get(partition, now_s):
                continue
            if leader is None:
                self._handle_missing_leader(partition)
            else:
                groups[leader.node_id].append(partition)
        for node_id, partitions in groups.items():
            if node_id not in self._busy:
                self._send_group(node_id, partitions[:_MAX_PARTITIONS_PER_REQUEST])

    def _send_group(self, node_id: int, partitions: Sequence[TopicPartition]) -> None:
        group = _RequestGroup(node_id=node_id, partitions=partitions, size=1)
        try:
            is_sent = self._send(group)
        except UnsupportedVersion as failure:
            self._handle_failure(partitions, failure)
            return
        if is_sent:
            self._busy[node_id] = group
            self._in_flight |= dict.fromkeys(partitions, group)

    def _get_topic_id(self, topic: str) -> bytes:
        found = self._cluster.view.topic(topic)
        return varints.NO_TOPIC_ID if found is None else found.topic_id

    def _create_callback(self, group: _RequestGroup, position: int = 0) -> Callable[[Any], None]:
        def on_reply(reply: Any) -> None:
            group.replies[position] = reply
            if len(group.replies) == group.size:
                self._answered.append(group)

        return on_reply

    def _get_timeout_s(self) -> float:
        left_s = self.end.remaining_s(self.clock.now_s())
        return max(_MIN_TIMEOUT_S, min(_REQUEST_TIMEOUT_S, left_s))

    # Replies

    def _handle_replies(self, group: _RequestGroup) -> None:
        if self._busy.get(group.node_id) is group:
            del self._busy[group.node_id]
        partitions = [each for each in group.partitions if self._in_flight.get(each) is group]
        for partition in partitions:
            del self._in_flight[partition]
        failures = [each.failure for each in group.replies.values() if each.failure is not None]
        try:
            found = {} if failures else self._read(group)
        except TruncatedResponse as malformed:
            failures = [malformed]
        if failures:
            self._handle_failure(partitions, failures[0])
            return
        for partition in partitions:
            if partition not in found:
                self._retry(partition, RetriableError(self._explain(partition, _NO_CONTENT)))
            elif found[partition][0]:
                self._handle_error_code(partition, found[partition][0])
            else:
                self._errors.pop(partition, None)
                self._handle(partition, found[partition][1])

    def _handle_failure(self, partitions: Sequence[TopicPartition], failure: ConnectError) -> None:
        """Handle requests without a valid response."""
        self._cluster.refresh_metadata()
        for partition in partitions:
            error = self._translate_failure(partition, failure)
            if isinstance(error, AuthenticationError):
                raise error
            if isinstance(error, FatalError):
                self._fail(partition, error)
            else:
                self._retry(partition, error)

    def _handle_error_code(self, partition: TopicPartition, code: int) -> None:
        if code == client_errors.OFFSET_OUT_OF_RANGE:
            self._fail(partition, self._create_truncated_error(partition, _OUT_OF_RANGE))
            return
        self._cluster.refresh_metadata()
        error = client_errors.translate_error_code(
            code, f"{self.doing} {partition}", where=self.where
        )
        is_missing = client_errors.is_missing_topic_code(code)
        if client_errors.is_retriable_code(code) or (is_missing and self.all_required):
            self._retry(partition, error)
        else:
            self._fail(partition, error)

    def _handle_missing_leader(self, partition: TopicPartition) -> None:
        topic = self._cluster.view.topic(partition.topic)
        if topic is None:
            return  # the metadata has not been received yet
        if topic.error_code:
            self._handle_error_code(partition, topic.error_code)
        elif partition.partition not in topic.leaders:
            self._handle_error_code(partition, client_errors.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            self._handle_error_code(partition, client_errors.LEADER_NOT_AVAILABLE)

    # Results

    def _finish(self, partition: TopicPartition) -> None:
        del self._waiting[partition]

    def _fail(self, partition: TopicPartition, error: ConnectError) -> None:
        if self.all_required:
            raise error
        del self._waiting[partition]
        self._failed[partition] = error

    def _retry(self, partition: TopicPartition, error: ConnectError) -> None:
        """Send the next request for a partition after a pause."""
        self._errors[partition] = error
        self._resume_at_s[partition] = self.clock.now_s() + _RETRY_DELAY_S

    def _continue(self, partition: TopicPartition) -> None:
        """Send the next request for a partition, in which the other partitions precede it."""
        del self._waiting[partition]
        self._waiting[partition] = None

    def _raise_refusal(self) -> None:
        """Raise the error if credentials or certificates were rejected, even if another broker
        accepts them."""
        for failure in self._cluster.connection_errors().values():
            if isinstance(failure, AuthenticationFailed):
                raise self._translate_failure(next(iter(self._waiting)), failure)

    def _fail_waiting(self) -> None:
        for partition in list(self._waiting):
            error = self._errors.get(partition)
            if error is None or partition in self._in_flight:
                failure = self._find_connection_error(partition)
                if failure is not None or error is None:
                    failure = failure or RetriableError("no response")
                    error = self._translate_failure(partition, failure)
            self._fail(partition, error)

    def _find_connection_error(self, partition: TopicPartition) -> ConnectError | None:
        """Return why a partition got no response, or None if there is no connection error."""
        leader = self._cluster.view.leader(partition.topic, partition.partition)
        if leader is not None:
            return self._cluster.connection_error(leader.node_id)
        errors = self._cluster.connection_errors().values()
        return self._cluster.metadata_error() or next(iter(errors), None)

    def _translate_failure(self, partition: TopicPartition, failure: ConnectError) -> ConnectError:
        doing = f"{self.doing} {partition} on {self.where}"
        return client_errors.translate_request_failure(failure, doing)

    def _create_truncated_error(self, partition: TopicPartition, problem: str) -> LogTruncatedError:
        return create_truncated_error(f"{self.doing} {partition} on {self.where}", problem)

    def _explain(self, partition: TopicPartition, problem: str) -> str:
        return f"{self.doing} {partition} on {self.where}: {problem}"


@dataclass(slots=True, kw_only=True, eq=False)
class _OffsetLookup(_LeaderCall):
    """Looks up offsets with ListOffsets, which has one timestamp per partition and request."""

    specs: Mapping[TopicPartition, Sequence[OffsetSpec]]
    reached: Mapping[TopicPartition, LogPosition]
    found: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)

    def _send(self, group: _RequestGroup) -> bool:
        requests: dict[tuple[int, bool], dict[str, list[OffsetQuery]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for each in group.partitions:
            leader = self._cluster.view.leader(each.topic, each.partition)
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
                request_builders.list_offsets(topics, read_committed=key[1]),
                done=self._create_callback(group, position),
                timeout_s=self._get_timeout_s(),
            )
        return True

    def _read(self, group: _RequestGroup) -> Mapping[TopicPartition, tuple[int, Any]]:
        codes: dict[TopicPartition, int] = {}
        offsets: dict[TopicPartition, list[int]] = defaultdict(list)
        for _, reply in sorted(group.replies.items()):
            for topic in reply.body.topics:
                for each in topic.partitions:
                    partition = TopicPartition(str(topic.name), int(each.partition_index))
                    codes[partition] = codes.get(partition) or int(each.error_code)
                    offsets[partition].append(int(each.offset))
        return {each: (code, offsets[each]) for each, code in codes.items()}

    def _handle(self, partition: TopicPartition, content: Any) -> None:
        offsets: list[int] = content
        specs = self.specs[partition]
        if len(offsets) != len(specs) or not all(map(_is_possible_offset, specs, offsets)):
            self._retry(partition, RetriableError(self._explain(partition, _NO_CONTENT)))
            return
        if (reached := self.reached.get(partition)) is not None:
            if _is_other_topic(reached, self._get_topic_id(partition.topic)):
                self._fail(partition, self._create_truncated_error(partition, _OTHER_TOPIC))
                return
            if offsets[-1] < reached.offset:
                self._cluster.refresh_metadata()
                problem = f"the log ends at offset {offsets[-1]}, but {reached.offset} was known"
                self._retry(partition, self._create_truncated_error(partition, problem))
                return
        self.found[partition] = tuple(offsets)
        self._finish(partition)


@dataclass(slots=True, kw_only=True, eq=False)
class _BatchFetch(_LeaderCall):
    """Fetches batches without a fetch session."""

    positions: Mapping[TopicPartition, LogPosition]
    accept: AcceptBatches
    committed_only: bool
    partition_bytes: int
    _empty_replies: Counter[TopicPartition] = field(default_factory=Counter)
    """Number of replies in a row that had no records of a partition, although it came first."""

    def _send(self, group: _RequestGroup) -> bool:
        topic_ids = {each.topic: self._get_topic_id(each.topic) for each in group.partitions}
        version = self._cluster.choose_version(
            group.node_id,
            api_versions.FETCH_KEY,
            *fetch.choose_fetch_versions(topic_ids.values()),
        )
        if version is None:
            return False
        body = fetch.encode_fetch_request(
            version,
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=_MAX_RESPONSE_BYTES,
            isolation_level=int(self.committed_only),
            session_id=fetch.NO_SESSION_ID,
            session_epoch=_NO_SESSION_EPOCH,
            partitions=[
                self._build_partition(each, topic_ids[each.topic]) for each in group.partitions
            ],
            forgotten=(),
            rack_id="",
        )
        self._cluster.call_raw(
            group.node_id,
            lane=broker_connections.CONTROL_PURPOSE,
            api_key=api_versions.FETCH_KEY,
            version=version,
            chunks=[body],
            done=self._create_callback(group),
            timeout_s=self._get_timeout_s(),
        )
        return True

    def _build_partition(self, partition: TopicPartition, topic_id: bytes) -> FetchRequestPartition:
        position = self.positions[partition]
        leader = self._cluster.view.leader(partition.topic, partition.partition)
        return FetchRequestPartition(
            partition.topic,
            topic_id,
            partition.partition,
            _NO_EPOCH if leader is None else leader.epoch,
            position.offset,
            position.leader_epoch,
            self.partition_bytes,
        )

    def _read(self, group: _RequestGroup) -> Mapping[TopicPartition, tuple[int, Any]]:
        reply = group.replies[0]
        response = fetch.decode_fetch_response(reply.version, reply.body)
        if response.throttle_ms > 0:
            self._cluster.throttle(
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

    def _handle(self, partition: TopicPartition, content: Any) -> None:
        fetched: FetchResponsePartition
        fetched, is_first = content
        position = self.positions[partition]
        problem = _find_truncation(fetched, position)
        if problem is not None:
            self._fail(partition, self._create_truncated_error(partition, problem))
            return
        scan = read_committed.scan_batches(
            fetched.records,
            position=position.offset,
            aborted=fetched.aborted if self.committed_only else (),
        )
        if scan.obstacle is not None and not scan.batches:
            problem = f"{scan.obstacle.reason} at offset {scan.obstacle.offset}"
            advice = "see the brokers' log, and check the network and the disks"
            self._fail(partition, FatalError(self._explain(partition, f"{problem}; {advice}")))
            return
        end = fetched.last_stable_offset if self.committed_only else fetched.high_watermark
        next_offset = scan.position
        if is_first and self._is_rest_compacted(partition, fetched):
            next_offset = max(next_offset, end)
        try:
            is_done = self.accept(partition, FetchedBatches(scan.batches, next_offset, end))
        except FatalError as error:
            self._fail(partition, error)
            return
        if scan.leader_epoch >= 0:
            position.leader_epoch = scan.leader_epoch
        has_advanced = bool(scan.batches) or next_offset > position.offset
        position.offset = next_offset
        if is_done:
            self._finish(partition)
        elif has_advanced:
            self._continue(partition)
        else:
            self._cluster.refresh_metadata()
            problem = f"the leader returned no whole batch; its log ends at offset {end}"
            self._retry(partition, RetriableError(self._explain(partition, problem)))

    def _is_rest_compacted(
        self, partition: TopicPartition, fetched: FetchResponsePartition
    ) -> bool:
        """Return whether compaction has removed all batches from the position to the end.

        The first partition of a request gets a batch if there is any (KIP-74). Brokers also omit
        records that remote storage does not return in time, so the leader must repeat its answer.
        """
        if len(fetched.records) or fetched.preferred_read_replica >= 0:
            del self._empty_replies[partition]
            return False
        self._empty_replies[partition] += 1
        return self._empty_replies[partition] >= _EMPTY_REPLIES_AT_END


def _find_truncation(fetched: FetchResponsePartition, position: LogPosition) -> str | None:
    """Return why the records at the position are not those that follow the records before it; None
    if they are."""
    if fetched.diverging_end_offset >= 0:
        return (
            f"the log diverges at offset {fetched.diverging_end_offset}, but the next offset to "
            f"read is {position.offset}"
        )
    return _OTHER_TOPIC if _is_other_topic(position, fetched.topic_id) else None


def _is_other_topic(position: LogPosition, topic_id: bytes) -> bool:
    """Return whether the topic was recreated since the position was set. False if an id is
    unknown."""
    return topic_id != position.topic_id and varints.NO_TOPIC_ID not in (
        topic_id,
        position.topic_id,
    )


def _is_possible_offset(spec: OffsetSpec, offset: int) -> bool:
    return offset >= 0 or (offset == _NO_OFFSET and spec.timestamp >= 0)
