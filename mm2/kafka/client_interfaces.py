"""Interfaces of the Kafka clients that mm2 uses, with their result types and errors.

Every call takes a timeout in seconds and waits for the cluster's response. Results are per
topic, group or partition: one failure does not affect the others. Failures of the whole cluster
(unreachable, authentication failed) are raised. Unless stated otherwise, one thread at a time
may call a client.

`FlowLog` is the durable log of one flow on its target: the offset map in
`mm2-offset-map.<source>.internal` and incident records in `mm2-incidents.<source>.internal`.
Both topics are compacted and have one partition. One thread owns a log; callbacks run inside
`poll` and `close` only.

Errors that a cluster returns for a request are in `connect_runtime.kafka.client_errors`.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka.client_errors import NotAuthorizedError
from mm2.offsets.checkpoint_rules import CommittedPositions, OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupState
from mm2.offsets.group_selection import ListedGroup
from mm2.offsets.log_bounds import LogBounds
from mm2.topics import naming
from mm2.topics.acl_plan import TopicAcl
from mm2.topics.mirror_plan import ConfigEntry, ObservedTopic


class FlowLogFullError(RetriableError):
    """Too many unacknowledged records: poll, then append again."""


class LogTruncatedError(RetriableError):
    """Records that were read are gone from the log: discard them, reopen and read again."""


class FlowLogBrokenError(FatalError):
    """A record could not be stored, so no later record may be: reopen the log."""


class GroupInUseError(FatalError):
    """The consumer group has members, so its offsets must not be changed."""


class NoAuthorizerError(FatalError):
    """The brokers have no authorizer, so there are no ACLs."""


T = TypeVar("T")

TopicConfigs = Mapping[str, ConfigEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class PerTopicResult(Generic[T]):
    """Result per topic: every requested topic is in exactly one of the two maps.

    `failed` holds `TopicMissingError`, `TopicExistsError`, `NotAuthorizedError`, or a plain
    `FatalError` or `RetriableError` with the broker's message.
    """

    succeeded: Mapping[str, T]
    failed: Mapping[str, ConnectError]

    def first_failure(self) -> ConnectError | None:
        """Error of the first failed topic by name, for callers that need all topics; None if
        none failed."""
        return self.failed[min(self.failed)] if self.failed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """Description of a topic."""

    name: str
    topic_id: uuid.UUID | None
    """None on brokers before 2.8."""
    leaders: tuple[int | None, ...]
    """Leader's node id per partition; None without a leader."""

    @property
    def partitions(self) -> int:
        return len(self.leaders)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; `replication_factor` None uses the brokers' default."""

    name: str
    partitions: int
    replication_factor: int | None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """Configs of a topic to set and overrides to remove; all others stay unchanged."""

    set: Mapping[str, str] = field(default_factory=dict)
    delete: Collection[str] = ()


class Admin(Protocol):
    """Administration of one cluster.

    All methods also raise `UnreachableError` after a timeout and `AuthenticationError` as soon as
    credentials or certificates are rejected.
    """

    def cluster_id(self, timeout_s: float) -> str:
        """The cluster id."""

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        """Names of all topics for which DESCRIBE is authorized, including internal ones."""

    def describe_topics(
        self, names: Collection[str], timeout_s: float
    ) -> PerTopicResult[TopicDescription]:
        """Topic ids, partitions and leaders."""

    def topic_configs(
        self, names: Collection[str], timeout_s: float
    ) -> PerTopicResult[TopicConfigs]:
        """Effective configs with their sources. Needs DESCRIBE_CONFIGS."""

    def broker_configs(
        self, names: Collection[str], timeout_s: float
    ) -> Mapping[str, str | None] | None:
        """The named configs of one live broker; None for unknown or sensitive ones.

        Returns None if DESCRIBE_CONFIGS on the cluster is not authorized.
        """

    def create_topics(
        self, topics: Collection[NewTopic], timeout_s: float, *, validate_only: bool = False
    ) -> PerTopicResult[None]:
        """Create topics; a topic is `done` once the controller has stored it, before all brokers
        know it.

        With `validate_only`, topics are validated only.
        """

    def add_partitions(
        self, partitions: Mapping[str, int], timeout_s: float
    ) -> PerTopicResult[None]:
        """Increase topics to at least the given partition counts."""

    def alter_configs(
        self, changes: Mapping[str, ConfigChange], timeout_s: float
    ) -> PerTopicResult[None]:
        """Change single configs (KIP-339, brokers since 2.3); all others stay unchanged."""

    def close(self) -> None:
        """Close the connections."""


def observe_topics(
    admin: Admin, names: Collection[str], timeout_s: float, *, clock: Clock
) -> PerTopicResult[ObservedTopic]:
    """Describe topics with their configs.

    `configs` is None for topics whose configs may not be read; other failures of either request are
    the topic's failure.
    """
    end = Deadline.after(timeout_s, now_s=clock.now_s())
    described = admin.describe_topics(names, timeout_s)
    configs = admin.topic_configs(list(described.succeeded), end.remaining_s(clock.now_s()))
    done: dict[str, ObservedTopic] = {}
    failed = dict(described.failed)
    for name, topic in described.succeeded.items():
        failure = configs.failed.get(name)
        if failure is not None and not isinstance(failure, NotAuthorizedError):
            failed[name] = failure
            continue
        done[name] = ObservedTopic(
            name=name,
            partitions=topic.partitions,
            topic_id=topic.topic_id,
            configs=configs.succeeded.get(name),
        )
    return PerTopicResult(succeeded=done, failed=failed)


OffsetsToWrite = Mapping[TopicPartition, OffsetAndMetadata]
ReportedPositions = dict[str, bytes]
"""Encoded positions per group, opaque to callers of `ConsumerGroups.fetch_changed_positions`.
Start with an empty one; remove a group to have it returned again."""
RefusedOffsets = Mapping[TopicPartition, ConnectError]
"""Partitions whose offset was not changed, with the error; usually none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerGroupResult(Generic[T]):
    """Result per group: every requested group is in exactly one of the two maps."""

    succeeded: Mapping[str, T]
    failed: Mapping[str, ConnectError]

    def first_failure(self) -> ConnectError | None:
        """Error of the first failed group by name; None if none failed."""
        return self.failed[min(self.failed)] if self.failed else None


class ConsumerGroups(Protocol):
    """Consumer groups of one cluster.

    All methods raise `RetriableError` after a timeout or when the client is shutting down, and
    `FatalError` if authentication fails.
    """

    def list_groups(self, timeout_s: float) -> list[ListedGroup]:
        """All groups for which DESCRIBE is authorized, in any state. Queries every broker, and
        all must respond."""

    def describe_states(
        self, groups: Collection[str], timeout_s: float
    ) -> PerGroupResult[GroupState]:
        """Current state of each group; `UNKNOWN` only for states that mm2 does not know."""

    def list_member_hosts(
        self, groups: Collection[str], timeout_s: float
    ) -> PerGroupResult[tuple[str, ...]]:
        """Hosts of each group's members, one per member, also for Connect workers; none for
        groups of the new protocol (KIP-848)."""

    def list_assignors(self, groups: Collection[str], timeout_s: float) -> PerGroupResult[str]:
        """Assignor of each classic group, such as `range`, or `stream` for Kafka Streams; ""
        without members and for other groups."""

    def fetch_positions(
        self, groups: Collection[str], timeout_s: float, *, stable: bool = False
    ) -> PerGroupResult[CommittedPositions]:
        """All committed offsets of each group; none for a group that does not exist.

        With `stable`, groups with offsets in an open transaction fail, on brokers that support it
        (2.5).
        """

    def list_share_partitions(
        self, groups: Collection[str], timeout_s: float
    ) -> PerGroupResult[frozenset[TopicPartition]]:
        """Partitions that share groups (KIP-932) read: those with a start offset, or waiting for
        one.

        Empty for a group that never had members. A group fails if any of its partitions cannot be
        read.
        """

    def fetch_changed_positions(
        self, groups: Collection[str], timeout_s: float, *, seen: ReportedPositions
    ) -> PerGroupResult[CommittedPositions]:
        """Like `fetch_positions`, but without groups whose offsets have not changed since `seen`
        was updated.

        Unchanged groups are in neither map, if brokers support batched requests (3.0).
        """

    def commit_offsets(
        self, offsets: Mapping[str, OffsetsToWrite], timeout_s: float
    ) -> PerGroupResult[RefusedOffsets]:
        """Commit offsets for groups; groups that do not exist are created.

        Brokers refuse this for groups with members: `failed` has `GroupInUseError`. Not retried: a
        commit with an unknown outcome counts as failed, because a later retry could be outdated.
        """

    def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerPartitionResult(Generic[T]):
    """Result per partition: every requested partition is in exactly one of the two maps."""

    succeeded: Mapping[TopicPartition, T]
    failed: Mapping[TopicPartition, ConnectError]


class LogOffsets(Protocol):
    """Log offsets and timestamps of one cluster.

    All methods raise `UnreachableError` after a timeout and `AuthenticationError` as soon as
    credentials or certificates are rejected. Needs DESCRIBE; timestamps need READ.
    """

    def fetch_bounds(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> PerPartitionResult[LogBounds]:
        """Current log start and end offsets."""

    def find_offsets_by_time(
        self, moments_ms: Mapping[TopicPartition, int], timeout_s: float
    ) -> PerPartitionResult[int | None]:
        """First offset with a timestamp at or after the given one; None if there is none.

        It may be a transaction marker's, whose timestamp is the transaction's end.
        """

    def read_timestamps(
        self, offsets: Mapping[TopicPartition, int], timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        """Timestamps of the first committed records at or after these offsets.

        Partitions without such a record, not authorized, or not read in time are left out.
        """

    def read_newest_timestamps(
        self, ends: Mapping[TopicPartition, LogBounds], timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        """Timestamps of the last committed records before these ends, ignoring transaction markers.

        Partitions without a record or not read in time are left out; after a timeout the timestamp
        may be that of an earlier record.
        """

    def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedOperations:
    """Operations that a client is authorized for; `operations` is None if the broker does not
    report them. `exists` applies to topics."""

    operations: frozenset[str] | None
    exists: bool = True


class AclAdmin(Protocol):
    """ACLs of one cluster. One thread at a time; raises the errors of `Admin`."""

    def list_topic_acls(self, timeout_s: float) -> list[TopicAcl]:
        """All ACLs of topics, whatever their pattern type. Needs DESCRIBE on the cluster.

        Raises `NoAuthorizerError` if the brokers have no authorizer, and `NotAuthorizedError`.
        """

    def create_acls(
        self, wanted: Collection[TopicAcl], timeout_s: float
    ) -> Mapping[TopicAcl, ConnectError]:
        """Create ACLs; existing ones are fine. Returns the refused ones with the error.

        Needs ALTER on the cluster.
        """

    def close(self) -> None:
        """Close the connections."""


OnWritten = Callable[[ConnectError | None], None]
"""Called once per record: with None if it is stored, else with the error; after some errors it
may be stored nevertheless."""


class RecordWriter(Protocol):
    """Writes records to one topic. The caller limits the records in flight."""

    def write(self, key: bytes, value: bytes, *, on_written: OnWritten) -> None:
        """Queue a record for sending; never blocks."""

    def poll(self, timeout_s: float) -> None:
        """Run due callbacks, waiting up to `timeout_s` for the first. Must be called regularly,
        because it also serves librdkafka's log."""

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for records in flight, then discard them and close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """One record as read. `value` None is a tombstone; `time_ms` is its timestamp, -1 if it has
    none."""

    topic: str
    offset: int
    key: bytes | None
    value: bytes | None
    time_ms: int = -1


RecordHandler = Callable[[TopicRecord], object]


class StateTopics(Protocol):
    """Reads whole state topics.

    Both requests raise `UnreachableError` after a timeout and `AuthenticationError` as soon as
    credentials or certificates are rejected.
    """

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        """Names of all topics for which DESCRIBE is authorized, including internal ones."""

    def read_topic(self, topic: str, timeout_s: float, *, partitions: int = 1) -> list[TopicRecord]:
        """Read a topic with `partitions` partitions from start to its current end, in order per
        partition.

        Raises an error rather than return an incomplete result; `NotAuthorizedError`, and
        `TopicMissingError` if the topic stays missing.
        """

    def close(self) -> None:
        """Close the connections."""


class TopicTail(Protocol):
    """Reads one state topic repeatedly as it grows; raises the errors of `StateTopics`."""

    def read_to_end(self, timeout_s: float) -> list[TopicRecord]:
        """Read all records since the last call, up to the topic's current end.

        Raises `LogTruncatedError` if records that were read are gone: continue with a new tail.
        After other errors nothing is lost: the next call returns what was read so far.
        """

    def read_each_to_end(self, timeout_s: float, take: RecordHandler) -> None:
        """Like `read_to_end`, but passes each record to `take` once, as it is read."""

    def close(self) -> None:
        """Close the connections."""


OnRecorded = Callable[[ConnectError | None], None]
"""Called once per appended record: with None if all in-sync replicas have it, else with the error.

After an error it may be stored nevertheless: read the log to find out.
"""


class FlowLogTopic(enum.Enum):
    """One of the two topics of a flow's log."""

    MAP = "map"
    INCIDENTS = "incidents"


def name_flow_log_topics(source_alias: str) -> Mapping[FlowLogTopic, str]:
    """Names of the flow's log topics on the target."""
    return {
        FlowLogTopic.MAP: naming.offset_map_topic(source_alias),
        FlowLogTopic.INCIDENTS: naming.incidents_topic(source_alias),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLogRecord:
    """One record as read. `value` None is a tombstone, which deletes its key."""

    topic: FlowLogTopic
    offset: int
    key: bytes
    value: bytes | None


class FlowLog(Protocol):
    """Durable log of one flow: appends in order, reports when records are stored, and reads to
    the current end."""

    def open(self, timeout_s: float) -> None:
        """Create missing topics, validate existing ones, and connect.

        Opening again after a failure starts over: pending callbacks get an error during this call,
        and the next `read_to_end` starts at the beginning.

        Raises `FatalError` if a topic has more than one partition or is not compacted, if an ACL is
        missing or credentials are rejected; `RetriableError` after a timeout.
        """

    def append(
        self, topic: FlowLogTopic, key: bytes, value: bytes | None, *, on_recorded: OnRecorded
    ) -> None:
        """Queue one record; never blocks. A later `poll`, or `close`, sends it and runs
        `on_recorded`.

        Records of a topic are stored in the order of calls. After the first failure all later
        records fail, and `append` raises until `open` is called again. There is no time limit:
        while the target is unreachable, the record waits.

        Raises `FlowLogFullError` (the record was not queued; poll and retry) at the limit of
        unacknowledged records or bytes, `FlowLogBrokenError` after a failure.
        """

    def poll(self, timeout_s: float) -> int:
        """Send queued records and run due callbacks, waiting up to `timeout_s` for the first;
        returns how many ran.

        Must be called regularly, even if nothing is pending, because it also serves librdkafka's
        log.
        """

    @property
    def pending(self) -> int:
        """Number of records whose callback has not run yet."""

    def read_to_end(self, timeout_s: float) -> list[StoredLogRecord]:
        """Read all records since the last call, by any writer, in log order per topic.

        The end is queried from the leaders first, so everything that was acknowledged before this
        call is included. Superseded records may have been compacted away. The first call after
        `open` starts at the beginning.

        Raises `RetriableError` after a timeout; what was read so far is returned by the next call.
        Raises `LogTruncatedError` if records that were read are gone: discard them and call `open`.
        """

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for pending records, then close; runs all remaining callbacks."""


class ClusterClients(Protocol):
    """The read clients of one cluster. One thread at a time."""

    @property
    def groups(self) -> ConsumerGroups:
        """Consumer groups."""
        ...

    @property
    def logs(self) -> LogOffsets:
        """Log offsets and timestamps."""
        ...

    @property
    def topics(self) -> StateTopics:
        """State topics."""
        ...
