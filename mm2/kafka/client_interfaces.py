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
    """As many records as allowed wait for their acknowledgement: poll, then append again."""


class LogTruncatedError(RetriableError):
    """Records that were read are gone from the log: forget them, open again, read again."""


class FlowLogBrokenError(FatalError):
    """A record could not be recorded, so none behind it may be: open the log again."""


class GroupInUseError(FatalError):
    """The consumer group has members: its offsets are theirs alone."""


class NoAuthorizerError(FatalError):
    """The brokers have no authorizer, so there are no ACLs."""


T = TypeVar("T")

TopicConfigs = Mapping[str, ConfigEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class PerTopicResult(Generic[T]):
    """What became of each topic asked about: every one is in exactly one of the two.

    `failed` holds `TopicMissingError`, `TopicExistsError`, `NotAuthorizedError`, or a plain
    `FatalError` or `RetriableError` whose message has the cluster's own words.
    """

    done: Mapping[str, T]
    failed: Mapping[str, ConnectError]

    def first_failure(self) -> ConnectError | None:
        """The failure of the first topic by name, for callers that need all of them."""
        return self.failed[min(self.failed)] if self.failed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """`leaders[p]` is the node that leads partition p, None while nobody does.

    `topic_id` is None on brokers before 2.8.
    """

    name: str
    topic_id: uuid.UUID | None
    leaders: tuple[int | None, ...]

    @property
    def partitions(self) -> int:
        return len(self.leaders)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. `replication_factor` None leaves it to the brokers' default."""

    name: str
    partitions: int
    replication_factor: int | None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """Settings of one topic to set, and overrides to take away; all others stay as they are."""

    set: Mapping[str, str] = field(default_factory=dict)
    delete: Collection[str] = ()


class Admin(Protocol):
    """One cluster's administration.

    Besides what each call says, all raise `UnreachableError` when time is up without an answer
    and `AuthenticationError` as soon as credentials or certificates are refused.
    """

    def cluster_id(self, timeout_s: float) -> str:
        """The id that the cluster gave itself."""

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        """Names of all topics that we may DESCRIBE, Kafka's own included."""

    def describe_topics(
        self, names: Collection[str], timeout_s: float
    ) -> PerTopicResult[TopicDescription]:
        """Ids, partitions and leaders."""

    def topic_configs(
        self, names: Collection[str], timeout_s: float
    ) -> PerTopicResult[TopicConfigs]:
        """All settings in force, each with where it comes from. Needs DESCRIBE_CONFIGS."""

    def broker_configs(
        self, names: Collection[str], timeout_s: float
    ) -> Mapping[str, str | None] | None:
        """These settings of one live broker, None for what it does not know or hides.

        None as a whole: we have no DESCRIBE_CONFIGS on the cluster.
        """

    def create_topics(
        self, topics: Collection[NewTopic], timeout_s: float, *, only_try: bool = False
    ) -> PerTopicResult[None]:
        """Create topics; `done` once the cluster has recorded them. Brokers learn of it later.

        `only_try`: nothing is made, but what the cluster would refuse has failed.
        """

    def grow_topics(self, partitions: Mapping[str, int], timeout_s: float) -> PerTopicResult[None]:
        """Bring topics to at least so many partitions; one that has as many already is done."""

    def alter_configs(
        self, changes: Mapping[str, ConfigChange], timeout_s: float
    ) -> PerTopicResult[None]:
        """Change settings one by one (KIP-339, brokers from 2.3): what is not named stays."""

    def close(self) -> None:
        """Let go of the connections."""


def observe_topics(
    admin: Admin, names: Collection[str], timeout_s: float, *, clock: Clock
) -> PerTopicResult[ObservedTopic]:
    """Descriptions and settings together, as planners want them.

    `Topic.configs` is None where we may not read them; other failures of either call are the
    topic's failure.
    """
    end = Deadline.after(timeout_s, now_s=clock.now_s())
    described = admin.describe_topics(names, timeout_s)
    configs = admin.topic_configs(list(described.done), end.left_s(clock.now_s()))
    done: dict[str, ObservedTopic] = {}
    failed = dict(described.failed)
    for name, topic in described.done.items():
        failure = configs.failed.get(name)
        if failure is not None and not isinstance(failure, NotAuthorizedError):
            failed[name] = failure
            continue
        done[name] = ObservedTopic(
            name=name,
            partitions=topic.partitions,
            topic_id=topic.topic_id,
            configs=configs.done.get(name),
        )
    return PerTopicResult(done=done, failed=failed)


OffsetsToWrite = Mapping[TopicPartition, OffsetAndMetadata]
ReportedPositions = dict[str, bytes]
"""What groups had, for `ConsumerGroups.news` alone to read and write. Take out whoever is to be
told of again; an empty one is the beginning."""
RefusedOffsets = Mapping[TopicPartition, ConnectError]
"""Partitions whose offset stayed as it was, and why; usually none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerGroupResult(Generic[T]):
    """What became of each group asked about: every one is in exactly one of the two."""

    done: Mapping[str, T]
    failed: Mapping[str, ConnectError]

    def first_failure(self) -> ConnectError | None:
        """The failure of the first group by name; None where there is none."""
        return self.failed[min(self.failed)] if self.failed else None


class ConsumerGroups(Protocol):
    """One cluster's. All raise `RetriableError` when time is up without an answer, or when nobody
    waits for it any more, and `FatalError` as soon as we are refused as a whole."""

    def list_groups(self, timeout_s: float) -> list[ListedGroup]:
        """All that we may DESCRIBE, in whatever state. Every broker is asked, and has to answer."""

    def states(self, groups: Collection[str], timeout_s: float) -> PerGroupResult[GroupState]:
        """How each stands now; never `UNKNOWN` but where the cluster's word for it is."""

    def members(self, groups: Collection[str], timeout_s: float) -> PerGroupResult[tuple[str, ...]]:
        """Where the members of each are: a host for each member, also of Connect workers. Those of
        groups of the new protocol (KIP-848) are not told."""

    def assignors(self, groups: Collection[str], timeout_s: float) -> PerGroupResult[str]:
        """The assignor that the members of each classic group have agreed on, as `range`; of Kafka
        Streams it is `stream`. "" where there are no members, and of other groups."""

    def positions(
        self, groups: Collection[str], timeout_s: float, *, stable: bool = False
    ) -> PerGroupResult[CommittedPositions]:
        """All that each has committed; a group that does not exist has nothing.

        `stable`: groups are failed of which a transaction that is still open has offsets, where
        brokers can tell (2.5).
        """

    def share_partitions(
        self, groups: Collection[str], timeout_s: float
    ) -> PerGroupResult[frozenset[TopicPartition]]:
        """What share groups (KIP-932) read: partitions that they have a start offset in, or wait
        for one. Empty for a group that has never had members; a group is failed as soon as one
        of its partitions cannot be read."""

    def news(
        self, groups: Collection[str], timeout_s: float, *, seen: ReportedPositions
    ) -> PerGroupResult[CommittedPositions]:
        """As `positions`, without the groups that have what they had when `seen` was told, as far
        as brokers can be asked for many at once (3.0): those are in neither of the two."""

    def write(
        self, offsets: Mapping[str, OffsetsToWrite], timeout_s: float
    ) -> PerGroupResult[RefusedOffsets]:
        """Give groups these offsets, which makes those that do not exist.

        Of groups with members brokers refuse it: `failed` has `GroupInUseError`. Asked once: what
        may not have been heard is failed, since later it may be wrong.
        """

    def close(self) -> None:
        """Let go of the connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerPartitionResult(Generic[T]):
    """What became of each partition asked about: every one is in exactly one of the two."""

    done: Mapping[TopicPartition, T]
    failed: Mapping[TopicPartition, ConnectError]


class LogOffsets(Protocol):
    """One cluster's. All raise `UnreachableError` when time is up without an answer, and
    `AuthenticationError` as soon as credentials or certificates are refused. Needs DESCRIBE; for
    times READ."""

    def ends(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> PerPartitionResult[LogBounds]:
        """As they are now."""

    def offsets_at(
        self, moments_ms: Mapping[TopicPartition, int], timeout_s: float
    ) -> PerPartitionResult[int | None]:
        """The first offset whose timestamp is not before that time; None: there is none.

        It may be that of a transaction's marker, which bears the time of the transaction's end.
        """

    def times_ms(
        self, offsets: Mapping[TopicPartition, int], timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        """Timestamps of the first committed records at or behind these offsets.

        Left out is whatever has none, may not be read, or was not read when time was up.
        """

    def newest_ms(
        self, ends: Mapping[TopicPartition, LogBounds], timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        """Timestamps of the last committed records before these ends; markers, which bear the times
        of brokers, are none. Left out is whatever has none, or was not found in time; where time
        was up it may be that of one before."""

    def close(self) -> None:
        """Let go of the connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedOperations:
    """What brokers told; `operations` None: nothing. `exists`: of topics."""

    operations: frozenset[str] | None
    exists: bool = True


class AclAdmin(Protocol):
    """One cluster's. One thread at a time calls; every call takes the seconds it may last.

    Besides what each says, all raise as `admin.Admin`.
    """

    def of_topics(self, timeout_s: float) -> list[TopicAcl]:
        """All of topics, whatever their pattern. Needs DESCRIBE on the cluster.

        Raises `NoAuthorizerError` where brokers keep none, and `NotAuthorizedError`.
        """

    def create(
        self, wanted: Collection[TopicAcl], timeout_s: float
    ) -> Mapping[TopicAcl, ConnectError]:
        """Add these; one that is there already is fine. What is refused, with the answer.

        Needs ALTER on the cluster.
        """

    def close(self) -> None:
        """Let go of the connections."""


OnWritten = Callable[[ConnectError | None], None]
"""Told once per record: None when it is in the topic, else why it is not, or may not be."""


class RecordWriter(Protocol):
    """Whoever writes bounds what is under way."""

    def write(self, key: bytes, value: bytes, *, on_written: OnWritten) -> None:
        """Hand one over; never waits."""

    def poll(self, timeout_s: float) -> None:
        """Run due callbacks; wait up to `timeout_s` for the first. Must be called regularly: it
        carries the library's log."""

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for what is under way, then give it up and let go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """One record as it was read. `value` None is a tombstone; `time_ms` is its timestamp, -1 where
    it has none."""

    topic: str
    offset: int
    key: bytes | None
    value: bytes | None
    time_ms: int = -1


RecordHandler = Callable[[TopicRecord], object]


class StateTopics(Protocol):
    """Both questions raise `UnreachableError` when time is up without an answer, and
    `AuthenticationError` as soon as credentials or certificates are refused."""

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        """Names of all topics that we may DESCRIBE, Kafka's own included."""

    def read_topic(self, topic: str, timeout_s: float, *, partitions: int = 1) -> list[TopicRecord]:
        """Everything in the topic, which has so many partitions, up to where it ends when asked; in
        order per partition.

        All or nothing: what could not be read to its end in time is raised, not left out. Raises
        `NotAuthorizedError`, and `TopicMissingError` when it stays missing.
        """

    def close(self) -> None:
        """Let go of the connections."""


class TopicTail(Protocol):
    """One such topic, read again and again; raises as `StateTopics` does."""

    def read_to_end(self, timeout_s: float) -> list[TopicRecord]:
        """Everything that was not read yet, up to where the topic ends when asked.

        Raises `LogTruncatedError` when records that were read are gone: begin anew with another
        tail. What else is raised leaves nothing out: the next call gives what was read so far, too.
        """

    def feed_to_end(self, timeout_s: float, take: RecordHandler) -> None:
        """The same, for who need not hold it all: `take` is given each record as it is read, and
        none again."""

    def close(self) -> None:
        """Let go of the connections."""


OnRecorded = Callable[[ConnectError | None], None]
"""Told once per appended record: None when it is on the target (acknowledged by all in-sync
replicas), else why not. After an error it may or may not be there: read to know."""


class FlowLogTopic(enum.Enum):
    """Which of the two topics."""

    MAP = "map"
    INCIDENTS = "incidents"


def name_flow_log_topics(source_alias: str) -> Mapping[FlowLogTopic, str]:
    """The topics' names on the target."""
    return {
        FlowLogTopic.MAP: naming.offset_map_topic(source_alias),
        FlowLogTopic.INCIDENTS: naming.incidents_topic(source_alias),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLogRecord:
    """One record as it was read. `value` None is a tombstone: it deletes its key."""

    topic: FlowLogTopic
    offset: int
    key: bytes
    value: bytes | None


class FlowLog(Protocol):
    """Appends in order, tells when appended is recorded, reads to the end as seen when asked."""

    def open(self, timeout_s: float) -> None:
        """Create what is missing, check what is there, connect.

        Opening again after a failure starts over: still pending callbacks are told an error by
        this call, and the next `read_to_end` begins at the beginning.

        Raises `FatalError` when a topic has other than one partition or is not compacted, when
        rights are missing or credentials refused; `RetriableError` when time is up.
        """

    def append(
        self, topic: FlowLogTopic, key: bytes, value: bytes | None, *, on_recorded: OnRecorded
    ) -> None:
        """Hand over one record; never waits. It is sent by a later `poll`, or by `close`, and
        `on_recorded` comes from a later one.

        Per topic, the order of calls is the order in the log. No record overtakes a failed one
        unnoticed: the first failure breaks the log, all that was handed over behind it fails
        too, and `append` raises until `open` is called again. There is no time limit: while the
        target is away the record waits, and its callback with it.

        Raises `FlowLogFullError` (nothing was taken; `poll` and try again) when the bound of
        unacknowledged records or bytes is reached, `FlowLogBrokenError` after a failure.
        """

    def poll(self, timeout_s: float) -> int:
        """Send what was appended, run due callbacks; wait up to `timeout_s` for the first. Returns
        how many ran.

        Must be called regularly, also while nothing is pending: it carries the library's log.
        """

    @property
    def pending(self) -> int:
        """Records handed over whose callback has not run yet."""

    def read_to_end(self, timeout_s: float) -> list[StoredLogRecord]:
        """Everything that anybody appended since the last read, in log order per topic.

        The ends are asked of the leaders now: whatever was acknowledged to anybody before this
        call is included. Records superseded within their topic may have been compacted away.
        The first call after `open` starts at the beginning.

        Raises `RetriableError` when time is up; what was read so far comes with the next call.
        `LogTruncatedError` when the log lost records that were read: forget them and `open`.
        """

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for pending records, then let go; runs every callback left."""


class ClusterClients(Protocol):
    """What all ask. One thread at a time."""

    @property
    def groups(self) -> ConsumerGroups: ...

    @property
    def logs(self) -> LogOffsets: ...

    @property
    def topics(self) -> StateTopics: ...
