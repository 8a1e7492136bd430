"""Interfaces of the Kafka clients that mm2 uses, with their result types and errors.

Every call has a timeout in seconds and waits for the cluster's response. Results are per topic,
group or partition, so one failure does not affect the others. Failures of the whole cluster
(unreachable, authentication failed) are raised. Unless stated otherwise, clients are not
thread-safe.

`FlowStateLog` is the durable log of one flow on its target: the offset map in
`mm2-offset-map.<source>.internal` and incident records in `mm2-incidents.<source>.internal`. Both
topics are compacted and have one partition. A log is owned by one thread. Callbacks run only inside
`poll` and `close`.

Errors that a cluster returns for a request are defined in `connect_runtime.kafka.client_errors`.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import NotAuthorizedError
from connect_runtime.protocol.topic_requests import ConfigChange, NewTopic
from mm2.offsets.checkpoint_rules import CommittedPositions, OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupState
from mm2.offsets.group_selection import ListedGroup
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.topics import replication_policy
from mm2.topics.acl_sync_plan import TopicAcl
from mm2.topics.mirror_topic_plan import ConfigEntry, ObservedTopic


class FlowStateLogFullError(RetriableError):
    """The flow state log has too many unacknowledged records: call `poll`, then append again."""


class LogTruncatedError(RetriableError):
    """Records that were already read no longer exist in the log: discard them, reopen the log and
    read again."""


class FlowStateLogBrokenError(FatalError):
    """A record could not be stored, so the flow state log rejects all later records to keep their
    order: reopen the log."""


class GroupInUseError(FatalError):
    """The consumer group has members, so its offsets must not be changed."""


class NoAuthorizerError(FatalError):
    """The brokers have no authorizer, so no ACLs exist."""


T = TypeVar("T")

TopicConfigs = Mapping[str, ConfigEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class PerTopicResult(Generic[T]):
    """Result of a request per topic. Every requested topic is in exactly one of the maps
    `succeeded` and `failed`.

    `failed` contains `TopicMissingError`, `TopicExistsError`, `NotAuthorizedError`, or a plain
    `FatalError` or `RetriableError` with the broker's message.
    """

    succeeded: Mapping[str, T]
    failed: Mapping[str, ConnectError]

    def get_first_failure(self) -> ConnectError | None:
        """Return the error of the first failed topic by name, for callers that need all topics.
        Returns None if no topic failed."""
        return self.failed[min(self.failed)] if self.failed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """Metadata of a topic."""

    name: str
    topic_id: uuid.UUID | None
    """Topic id; None on brokers before 2.8."""
    leaders: tuple[int | None, ...]
    """Node id of each partition's leader; None if the partition has no leader."""

    @property
    def partition_count(self) -> int:
        return len(self.leaders)


class Admin(Protocol):
    """Administrative operations of one cluster.

    All methods also raise `UnreachableError` after a timeout, and `AuthenticationError` as soon as
    credentials or certificates are rejected.
    """

    def read_cluster_id(self, timeout_s: float) -> str:
        """Return the Kafka cluster id."""

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        """Return the names of all topics for which DESCRIBE is authorized, including internal
        topics."""

    def describe_topics(
        self, names: Collection[str], timeout_s: float
    ) -> PerTopicResult[TopicDescription]:
        """Return the topic ids, partitions and leaders of topics."""

    def read_topic_configs(
        self, names: Collection[str], timeout_s: float
    ) -> PerTopicResult[TopicConfigs]:
        """Return effective topic configs with their sources. Needs DESCRIBE_CONFIGS."""

    def read_broker_configs(
        self, names: Collection[str], timeout_s: float
    ) -> Mapping[str, str | None] | None:
        """Return the named configs of one live broker; the value is None for unknown and sensitive
        configs.

        Returns None if DESCRIBE_CONFIGS on the cluster is not authorized.
        """

    def create_topics(
        self, topics: Collection[NewTopic], timeout_s: float, *, validate_only: bool = False
    ) -> PerTopicResult[None]:
        """Create topics. A topic counts as created once the controller has stored it. Some brokers
        may not know the topic yet.

        With `validate_only`, topics are only validated.
        """

    def add_partitions(
        self, partitions: Mapping[str, int], timeout_s: float
    ) -> PerTopicResult[None]:
        """Increase the number of partitions of topics to at least the given counts."""

    def alter_configs(
        self, changes: Mapping[str, ConfigChange], timeout_s: float
    ) -> PerTopicResult[None]:
        """Change individual topic configs (KIP-339, brokers since 2.3). All other configs remain
        unchanged."""

    def close(self) -> None:
        """Close the connections."""


def describe_topics_with_configs(
    admin: Admin, names: Collection[str], timeout_s: float, *, clock: Clock
) -> PerTopicResult[ObservedTopic]:
    """Describe topics together with their configs.

    `configs` is None for topics whose configs the client is not authorized to read. A topic fails
    if either request fails for another reason.
    """
    end = Deadline.after(timeout_s, now_s=clock.now_s())
    described = admin.describe_topics(names, timeout_s)
    configs = admin.read_topic_configs(list(described.succeeded), end.remaining_s(clock.now_s()))
    done: dict[str, ObservedTopic] = {}
    failed = dict(described.failed)
    for name, topic in described.succeeded.items():
        failure = configs.failed.get(name)
        if failure is not None and not isinstance(failure, NotAuthorizedError):
            failed[name] = failure
            continue
        done[name] = ObservedTopic(
            name=name,
            partitions=topic.partition_count,
            topic_id=topic.topic_id,
            configs=configs.succeeded.get(name),
        )
    return PerTopicResult(succeeded=done, failed=failed)


OffsetsToWrite = Mapping[TopicPartition, OffsetAndMetadata]
ReportedPositions = dict[str, bytes]
"""Encoded positions per group, opaque to callers of
`ConsumerGroups.fetch_changed_committed_offsets`. Start with an empty dictionary. Remove a group to
have it returned again."""
RefusedOffsets = Mapping[TopicPartition, ConnectError]
"""Partitions whose offsets were not changed, with the error. Usually empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerGroupResult(Generic[T]):
    """Result of a request per consumer group. Every requested group is in exactly one of the maps
    `succeeded` and `failed`."""

    succeeded: Mapping[str, T]
    failed: Mapping[str, ConnectError]

    def get_first_failure(self) -> ConnectError | None:
        """Return the error of the first failed group by name, or None if no group failed."""
        return self.failed[min(self.failed)] if self.failed else None


class ConsumerGroups(Protocol):
    """Consumer groups of one cluster.

    All methods raise `RetriableError` after a timeout or when the client is shutting down, and
    `FatalError` if authentication fails.
    """

    def list_groups(self, timeout_s: float) -> list[ListedGroup]:
        """List all groups for which DESCRIBE is authorized, in any state. Queries every broker, and
        all must respond."""

    def describe_group_states(
        self, groups: Collection[str], timeout_s: float
    ) -> PerGroupResult[GroupState]:
        """Return the current state of each group. `UNKNOWN` is returned only for states that mm2
        does not know."""

    def list_member_hosts(
        self, groups: Collection[str], timeout_s: float
    ) -> PerGroupResult[tuple[str, ...]]:
        """List the host of each member of each group, including Connect workers. The list is empty
        for groups of the consumer protocol of KIP-848."""

    def list_assignors(self, groups: Collection[str], timeout_s: float) -> PerGroupResult[str]:
        """Return the assignor of each classic group, such as `range`, or `stream` for Kafka
        Streams. Returns "" for groups without members and for groups of other types."""

    def fetch_committed_offsets(
        self, groups: Collection[str], timeout_s: float, *, stable: bool = False
    ) -> PerGroupResult[CommittedPositions]:
        """Fetch all committed offsets of each group. A group that does not exist has no offsets.

        With `stable`, groups that have offsets in an open transaction fail, if brokers support this
        check (2.5).
        """

    def list_share_partitions(
        self, groups: Collection[str], timeout_s: float
    ) -> PerGroupResult[frozenset[TopicPartition]]:
        """List the partitions that share groups (KIP-932) read, including partitions whose start
        offset is not initialized yet.

        The set is empty for a group that never had members. A group fails if any of its partitions
        cannot be read.
        """

    def fetch_changed_committed_offsets(
        self, groups: Collection[str], timeout_s: float, *, seen: ReportedPositions
    ) -> PerGroupResult[CommittedPositions]:
        """Fetch committed offsets like `fetch_committed_offsets`, but skip groups whose offsets
        have not changed since the previous call. `seen` contains the offsets that earlier calls
        returned, and is updated.

        If brokers support batched requests (3.0), unchanged groups are in neither map of the
        result.
        """

    def commit_offsets(
        self, offsets: Mapping[str, OffsetsToWrite], timeout_s: float
    ) -> PerGroupResult[RefusedOffsets]:
        """Commit offsets for groups. Groups that do not exist are created.

        Brokers reject commits for groups with members: such a group is in `failed` with a
        `GroupInUseError`. Commits are not retried: a commit with an unknown outcome counts as
        failed, because a later retry could commit outdated offsets.
        """

    def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerPartitionResult(Generic[T]):
    """Result of a request per partition. Every requested partition is in exactly one of the maps
    `succeeded` and `failed`."""

    succeeded: Mapping[TopicPartition, T]
    failed: Mapping[TopicPartition, ConnectError]


class LogOffsets(Protocol):
    """Log offsets and timestamps of one cluster.

    All methods raise `AuthenticationError` as soon as credentials or certificates are rejected.
    Offset lookups raise `UnreachableError` if no leader responds in time; if some leaders respond,
    only the partitions of the others fail. Offset lookups need DESCRIBE, timestamps need READ.
    """

    def fetch_log_bounds(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> PerPartitionResult[LogBounds]:
        """Fetch the current log start and end offsets."""

    def find_offsets_by_time(
        self, moments_ms: Mapping[TopicPartition, int], timeout_s: float
    ) -> PerPartitionResult[int | None]:
        """Find the first offset with a timestamp at or after the given timestamp, or None if no
        such offset exists.

        The offset may be that of a transaction marker, whose timestamp is the end of the
        transaction.
        """

    def read_timestamps(
        self, offsets: Mapping[TopicPartition, int], timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        """Read the timestamps of the first committed records at or after these offsets.

        Partitions that have no such record, are not authorized, or are not read in time are
        omitted.
        """

    def read_newest_timestamps(
        self, ends: Mapping[TopicPartition, LogBounds], timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        """Read the timestamps of the last committed records before these end offsets, ignoring
        transaction markers.

        Partitions without a record and partitions that are not read in time are omitted. After a
        timeout, the timestamp may belong to an earlier record.
        """

    def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedOperations:
    """Operations for which a client is authorized. `operations` is None if the broker does not
    report them. `exists` applies only to topics."""

    operations: frozenset[str] | None
    exists: bool = True


class AclAdmin(Protocol):
    """ACLs of one cluster. Not thread-safe. Raises the same errors as `Admin`."""

    def list_topic_acls(self, timeout_s: float) -> list[TopicAcl]:
        """List all topic ACLs of any pattern type. Needs DESCRIBE on the cluster.

        Raises `NoAuthorizerError` if the brokers have no authorizer, or `NotAuthorizedError`.
        """

    def create_acls(
        self, wanted: Collection[TopicAcl], timeout_s: float
    ) -> Mapping[TopicAcl, ConnectError]:
        """Create ACLs. ACLs that already exist are not an error. Returns the rejected ACLs with the
        error.

        Needs ALTER on the cluster.
        """

    def close(self) -> None:
        """Close the connections."""


OnWritten = Callable[[ConnectError | None], None]
"""Callback that is called once per record: with None if the record is stored, otherwise with the
error. After some errors the record may still be stored."""


class RecordWriter(Protocol):
    """Writes records to one topic. The caller limits the number of records in flight."""

    def write(self, key: bytes, value: bytes, *, on_written: OnWritten) -> None:
        """Queue a record to be sent by `poll` or `close`. Never blocks."""

    def poll(self, timeout_s: float) -> None:
        """Send queued records and run due callbacks, waiting up to `timeout_s` for the first
        callback. Must be called regularly, because records are sent only during this call."""

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for records in flight, then discard the remaining records and
        close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A record that was read from a topic. A `value` of None is a tombstone. `time_ms` is the
    record's timestamp, or -1 if it has none."""

    topic: str
    offset: int
    key: bytes | None
    value: bytes | None
    time_ms: int = -1


RecordHandler = Callable[[TopicRecord], object]
"""Function that is called with each record of a state topic. If it raises an error, reading ends
with that error."""


class StateTopics(Protocol):
    """Reads entire state topics.

    `list_topics` and `read_topic` raise `UnreachableError` after a timeout, and
    `AuthenticationError` as soon as credentials or certificates are rejected.
    """

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        """Return the names of all topics for which DESCRIBE is authorized, including internal
        topics."""

    def read_topic(
        self, topic: str, timeout_s: float, take: RecordHandler, *, partitions: int = 1
    ) -> None:
        """Read a topic with `partitions` partitions from the start to its current end, and pass
        each record to `take` as soon as it is read, in order per partition.

        Raises an error if the topic was not read to its end: `take` has received only some of the
        records, and the next call starts at the beginning. Raises `NotAuthorizedError`, or
        `TopicMissingError` if the topic is still missing at the timeout.
        """

    def close(self) -> None:
        """Close the connections."""


class TopicTail(Protocol):
    """Follows one state topic: each call reads the records that were added since the previous call.
    Raises the same errors as `StateTopics`."""

    def read_to_end(self, timeout_s: float, take: RecordHandler) -> None:
        """Read all records since the last call, up to the topic's current end. Pass each record to
        `take` once, as soon as it is read, in order per partition.

        Raises `LogTruncatedError` if records that were already read no longer exist: discard them
        and create a new `TopicTail`. No records are lost or repeated after other errors, because
        the next call continues after the last record that was passed to `take`. If `take` raised
        the error, the next call passes the same record again.
        """

    def close(self) -> None:
        """Close the connections."""


OnRecorded = Callable[[ConnectError | None], None]
"""Callback that is called once per appended record: with None if all in-sync replicas have the
record, otherwise with the error. After an error the record may still be stored. Read the log to
find out."""


class FlowStateTopic(enum.Enum):
    """One of the two topics of a flow's log: offset map or incidents."""

    MAP = "map"
    INCIDENTS = "incidents"


def build_flow_state_topic_names(source_alias: str) -> Mapping[FlowStateTopic, str]:
    """Return the names of the flow's offset map and incident topics on the target."""
    return {
        FlowStateTopic.MAP: replication_policy.format_offset_map_topic(source_alias),
        FlowStateTopic.INCIDENTS: replication_policy.format_incidents_topic(source_alias),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLogRecord:
    """A record that was read from a flow's log (offset map and incident topics). A `value` of None
    is a tombstone, which deletes its key."""

    topic: FlowStateTopic
    offset: int
    key: bytes
    value: bytes | None


StoredRecordHandler = Callable[[StoredLogRecord], object]
"""Function that is called with each record of a flow's log. If it raises an error, it receives the
record again at the next call."""


class FlowStateLog(Protocol):
    """Durable log of one flow: appends records in order, reports when they are stored, and reads
    them up to the current end."""

    def open(self, timeout_s: float) -> None:
        """Create missing topics, validate existing topics, and connect.

        Calling this method again after a failure resets the log: pending callbacks receive an error
        during the call, and the next `read_to_end` starts at the beginning.

        Raises `FatalError` if a topic has more than one partition or is not compacted, if an ACL is
        missing or if credentials are rejected. Raises `RetriableError` after a timeout.
        """

    def append(
        self, topic: FlowStateTopic, key: bytes, value: bytes | None, *, on_recorded: OnRecorded
    ) -> None:
        """Queue one record. Never blocks. A later call of `poll` or `close` sends the record and
        runs `on_recorded`.

        Records of a topic are stored in the order of calls. After the first failure all later
        records fail, and `append` raises until `open` is called again. There is no time limit:
        while the target is unreachable, the record remains queued.

        Raises `FlowStateLogFullError` at the limit of unacknowledged records or bytes (the record
        was not queued; poll and retry), or `FlowStateLogBrokenError` after a failure.
        """

    def poll(self, timeout_s: float) -> int:
        """Send queued records and run due callbacks, waiting up to `timeout_s` for the first
        callback. Returns the number of callbacks that were run.

        Must be called regularly, even if no records are pending, because it also serves
        librdkafka's log events.
        """

    @property
    def pending_record_count(self) -> int:
        """Number of appended records whose callback has not run yet."""

    def read_to_end(self, timeout_s: float, take: StoredRecordHandler) -> None:
        """Read all records since the last call, by any writer. Pass each record to `take` once, as
        soon as it is read, in log order per topic.

        The end offsets are queried from the leaders first, so every record that was acknowledged
        before this call is read. Superseded records may have been compacted away. The first call
        after `open` starts at the beginning.

        Raises `RetriableError` after a timeout, and `FatalError` if a record has no key. Raises
        `LogTruncatedError` if records that were already read no longer exist: discard them and call
        `open`. No records are lost or repeated after other errors, because the next call continues
        after the last record that was passed to `take`. If `take` raised the error, the next call
        passes the same record again.
        """

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for pending records, run all remaining callbacks and close."""


class ClusterClients(Protocol):
    """Clients that read one cluster's groups, logs and state topics. Not thread-safe."""

    @property
    def groups(self) -> ConsumerGroups:
        """Client for consumer groups."""
        ...

    @property
    def logs(self) -> LogOffsets:
        """Client for log offsets and timestamps."""
        ...

    @property
    def topics(self) -> StateTopics:
        """Client for state topics."""
        ...
