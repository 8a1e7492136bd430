"""Verifies that mirror topics equal their source topics: a consumer reads both, record by record.

    result = replication_proof.compare_topics(
        east.client_properties(), west.client_properties(), {"orders": "east.orders"}
    )
    assert result.is_equal, str(result)

The source is read with read_committed because a mirror must contain exactly the committed records.
Both topics are read up to their current ends, so traffic and replication must be idle. The demo,
the system tests and the chaos tests rely on this module. The tests of this module inject each kind
of difference.

`compare_topics_allowing_incidents` is for logs that were cleaned or truncated during replication:

    snapshot = replication_proof.take_snapshot(east…, ["orders"])  # then the log is cleaned
    result = replication_proof.compare_topics_allowing_incidents(
        east…,
        west…,
        {"orders": "east.orders"},
        snapshot=snapshot,
        incidents=replication_proof.read_incidents(west…, …),
    )

The mirror must contain the records of the snapshot and the records that the source contains now: in
order, exactly once and unaltered. Only these differences are allowed:

- Records inside the target offsets of an incident record are ignored.
- Records inside the source offsets of an incident record may be missing. If the incident
  record reports that the source deleted them, they may be missing only if the source no
  longer has them.
- Records that the source's cleaner removed may be missing: tombstones, and records
  superseded by a later record with the same key.

In compacted topics, the last value of each key must be the same on both sides, regardless of
incident records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from connect_runtime.base.ids import TopicPartition
from mm2.formats import incident_records
from mm2.formats.incident_records import Incident, IncidentKind, OffsetRange
from mm2.sandbox import compared_records, log_comparison, partition_reader
from mm2.sandbox.compared_records import CondensedLog, RecordChunk
from mm2.sandbox.log_comparison import (
    DifferenceKind,
    LogComparison,
    PartitionComparison,
    RecordDifference,
    TopicsComparison,
)
from mm2.sandbox.partition_reader import ConsumerLogReader
from mm2.sandbox.sandbox_clients import ClientProperties
from mm2.sandbox.sandbox_errors import SandboxError
from mm2.topics import replication_policy

ReportPartition = Callable[[PartitionComparison], None]


class NothingToCompareError(SandboxError):
    """A topic to be compared does not exist, so a comparison would be meaningless."""


def compare_topics(
    source: ClientProperties,
    target: ClientProperties,
    topics: Mapping[str, str],
    *,
    isolation: str = partition_reader.READ_COMMITTED,
    restamped: Collection[str] = (),
    report: ReportPartition | None = None,
) -> TopicsComparison:
    """Compare topics, given as {source topic: target topic}, partition by partition.

    `isolation` is the isolation level for the target. `report` is called after each partition.
    `restamped` lists source topics whose timestamps are set by the brokers (LogAppendTime) or that
    have no timestamps (message format v0): their mirror topics preserve the timestamps that
    consumers see, but not the timestamp type. Raises `NothingToCompareError` if a source topic does
    not exist. A missing target topic counts as empty.
    """
    if not topics:
        raise NothingToCompareError("cannot compare two clusters: no topics given")
    with (
        ConsumerLogReader(source, alias="source") as left,
        ConsumerLogReader(target, alias="target", isolation=isolation) as right,
    ):
        judge = _TopicComparer(left, right, restamped=restamped, report=report or _ignore_partition)
        found = [
            part
            for name, remote in sorted(topics.items())
            for part in judge.compare_topic(name, remote)
        ]
    return TopicsComparison(partitions=tuple(found))


class _TopicComparer:
    def __init__(
        self,
        source: ConsumerLogReader,
        target: ConsumerLogReader,
        *,
        restamped: Collection[str],
        report: ReportPartition,
    ) -> None:
        self._source = source
        self._target = target
        self._restamped = restamped
        self._report = report

    def compare_topic(self, name: str, remote: str) -> list[PartitionComparison]:
        here, there = self._source.count_partitions(name), self._target.count_partitions(remote)
        if here == 0:
            raise NothingToCompareError(f"cannot compare {name}: the source topic does not exist")
        return [
            self._compare_partition(
                TopicPartition(name, number),
                TopicPartition(remote, number),
                exists=(number < here, number < there),
            )
            for number in range(max(here, there))
        ]

    def _compare_partition(
        self, source: TopicPartition, target: TopicPartition, *, exists: tuple[bool, bool]
    ) -> PartitionComparison:
        here, there = exists
        restamped = source.topic in self._restamped

        def read_original_chunks() -> Iterable[RecordChunk]:
            return _read_record_chunks(self._source, source, restamped=restamped) if here else ()

        outcome = log_comparison.compare_logs(
            read_original_chunks(),
            _read_record_chunks(self._target, target, restamped=restamped) if there else (),
            find_originals=lambda wanted: log_comparison.find_original_offsets(
                read_original_chunks(), wanted
            ),
        )
        found = PartitionComparison(
            source=source,
            target=target,
            source_records=outcome.source_records,
            target_records=outcome.target_records,
            size=outcome.size,
            differences=outcome.differences,
            is_truncated=outcome.is_truncated,
        )
        self._report(found)
        return found


def _read_record_chunks(
    reader: ConsumerLogReader, partition: TopicPartition, *, restamped: bool
) -> Iterable[RecordChunk]:
    chunks = reader.iterate_record_chunks(partition)
    return map(compared_records.drop_timestamp_types, chunks) if restamped else chunks


def _ignore_partition(_: PartitionComparison) -> None:
    """Do nothing with the comparison result of a partition. Default value of `report`."""


SourceSnapshot = Mapping[TopicPartition, CondensedLog]
_OffsetRanges = Sequence[OffsetRange]
_CondensedLog = CondensedLog


def take_snapshot(properties: ClientProperties, topics: Collection[str]) -> SourceSnapshot:
    """Read the records that are currently committed in the given topics.

    Raises `NothingToCompareError` if a topic does not exist.
    """
    with ConsumerLogReader(properties, alias="source") as reader:
        return {
            partition: _read_condensed_log(reader, partition)
            for topic in topics
            for partition in _list_source_partitions(reader, topic)
        }


def read_incidents(target: ClientProperties, alias: str) -> list[Incident]:
    """Read all incident records of flows whose source is the cluster `alias`, except kinds that
    never explain a difference: operator actions and skipped offset map records."""
    topic = replication_policy.format_incidents_topic(alias)
    found: dict[bytes, Incident] = {}
    with ConsumerLogReader(target, alias="target") as reader:
        for partition in _list_partitions(reader, topic):
            for chunk in reader.iterate_record_chunks(partition):
                for key, value, *_ in chunk.contents:
                    assert key is not None
                    if value is None:
                        found.pop(key, None)
                    else:
                        found[key] = incident_records.decode_incident(key, value)
    actions = {IncidentKind.OPERATOR_ACTION, IncidentKind.MAP_RECORD_SKIPPED}
    return [each for each in found.values() if each.kind not in actions]


def compare_topics_allowing_incidents(
    source: ClientProperties,
    target: ClientProperties,
    topics: Mapping[str, str],
    *,
    snapshot: SourceSnapshot,
    incidents: Collection[Incident],
    compacted: bool = True,
    target_cleaned: bool = False,
) -> TopicsComparison:
    """Compare topics, given as {source topic: target topic}, allowing differences that incident
    records explain. Both sides must be idle.

    `snapshot` contains the source's records before its log was cleaned or truncated. Set
    `target_cleaned` if the log cleaner has also compacted the mirror topic: the mirror topic may
    then lack tombstones, and records that a later record with the same key supersedes.

    Needs about 200 bytes of memory per record of the largest partition. Raises
    `NothingToCompareError` if a source topic does not exist.
    """
    if not topics:
        raise NothingToCompareError("cannot compare two clusters: no topics given")
    found = []
    with (
        ConsumerLogReader(source, alias="source") as left,
        ConsumerLogReader(target, alias="target") as right,
    ):
        for name, remote in sorted(topics.items()):
            for here in _list_source_partitions(left, name):
                there = TopicPartition(remote, here.partition)
                sides = ComparedLogs.from_incidents(
                    [each for each in incidents if _is_incident_of_partition(each, here)],
                    before=snapshot.get(here, _CondensedLog()),
                    source=_read_condensed_log(left, here),
                    target=_read_condensed_log(right, there),
                )
                outcome = compare_partition_logs(
                    sides, compacted=compacted, target_cleaned=target_cleaned
                )
                found.append(_make_partition_comparison(here, there, outcome=outcome))
    return TopicsComparison(partitions=tuple(found))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLogs:
    """The logs of one partition, and the offset ranges in which incident records explain
    differences.

    `before` is an earlier snapshot of the source's log, `source` is the source's current log, and
    `target` is the mirror topic's log. Offset ranges are [from, to).
    """

    before: _CondensedLog
    source: _CondensedLog
    target: _CondensedLog
    may_be_missing: _OffsetRanges = ()
    """Source offset ranges that the mirror may lack."""
    deleted_at_source: _OffsetRanges = ()
    """Source offset ranges that the source deleted. Records that the source still has must be on
    the mirror."""
    ignored: _OffsetRanges = ()
    """Target offset ranges to ignore."""

    @classmethod
    def from_incidents(
        cls,
        incidents: Collection[Incident],
        *,
        before: _CondensedLog,
        source: _CondensedLog,
        target: _CondensedLog,
    ) -> ComparedLogs:
        """Build the `ComparedLogs` of a partition, including all offset ranges in which its
        incident records explain differences."""
        deleted = IncidentKind.SOURCE_GONE
        return cls(
            before=before,
            source=source,
            target=target,
            may_be_missing=[
                each.source for each in incidents if each.source and each.kind is not deleted
            ],
            deleted_at_source=[
                each.source for each in incidents if each.source and each.kind is deleted
            ],
            ignored=[each.target for each in incidents if each.target],
        )


def compare_partition_logs(
    sides: ComparedLogs, *, compacted: bool, target_cleaned: bool = False
) -> LogComparison:
    """Compare the logs of one partition. Pure."""
    held = sides.before.merge(sides.source)
    last = held.find_last_index_per_key()

    def may_target_lack_offset(offset: int) -> bool:
        if _is_offset_in_ranges(offset, sides.may_be_missing):
            return True
        index = held.find_index(offset)
        assert index is not None, offset
        is_gone = sides.source.find_index(offset) is None
        if is_gone and _is_offset_in_ranges(offset, sides.deleted_at_source):
            return True
        if not target_cleaned and not is_gone:
            return False
        key = held.get_key_hash(index)
        return bool(key) and (last[key] > index or held.is_tombstone(index))

    outcome = log_comparison.compare_logs(
        held.iterate_record_chunks(),
        sides.target.exclude_ranges(sides.ignored).iterate_record_chunks(),
        find_originals=lambda wanted: log_comparison.find_original_offsets(
            held.iterate_record_chunks(), wanted
        ),
        is_allowed_to_lack=may_target_lack_offset,
    )
    # Contents are hashes, so the altered field is unknown.
    differences = [dataclasses.replace(each, fields=()) for each in outcome.differences]
    if compacted:
        differences += _find_stale_keys(sides.source, sides.target)
    return dataclasses.replace(
        outcome,
        source_records=len(held),
        target_records=len(sides.target),
        size=sides.source.size,
        differences=tuple(differences),
    )


def _find_stale_keys(source: _CondensedLog, target: _CondensedLog) -> list[RecordDifference]:
    """Return one difference that counts all keys whose last values differ between source and mirror
    topic, or an empty list if there are none. A tombstone is equivalent to a missing key."""
    ours, theirs = _find_last_values(source), _find_last_values(target)
    wrong = sorted(
        (
            (ours.get(key, (None, None))[0], theirs.get(key, (None, None))[0])
            for key in ours.keys() | theirs.keys()
            if ours.get(key, (0, None))[1] != theirs.get(key, (0, None))[1]
        ),
        key=lambda places: tuple(-1 if place is None else place for place in places),
    )
    if not wrong:
        return []
    return [
        RecordDifference(
            kind=DifferenceKind.STALE,
            count=len(wrong),
            source_offset=wrong[0][0],
            target_offset=wrong[0][1],
        )
    ]


def _find_last_values(log: _CondensedLog) -> dict[bytes, tuple[int, bytes]]:
    """Return the offset and content of each key's last record. Tombstones are omitted."""
    return {
        key: (log.offsets[index], log.get_content_hash(index))
        for key, index in log.find_last_index_per_key().items()
        if not log.is_tombstone(index)
    }


def _is_offset_in_ranges(offset: int, ranges: _OffsetRanges) -> bool:
    return any(start <= offset < end for start, end in ranges)


def _read_condensed_log(reader: ConsumerLogReader, partition: TopicPartition) -> _CondensedLog:
    if partition.partition >= reader.count_partitions(partition.topic):
        return _CondensedLog()
    return _CondensedLog.from_chunks(
        map(compared_records.drop_timestamp_types, reader.iterate_record_chunks(partition))
    )


def _list_partitions(reader: ConsumerLogReader, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(reader.count_partitions(topic))]


def _list_source_partitions(reader: ConsumerLogReader, topic: str) -> list[TopicPartition]:
    found = _list_partitions(reader, topic)
    if not found:
        raise NothingToCompareError(f"cannot compare {topic}: the source topic does not exist")
    return found


def _is_incident_of_partition(one: Incident, partition: TopicPartition) -> bool:
    return (one.topic, one.partition) == (partition.topic, partition.partition)


def _make_partition_comparison(
    source: TopicPartition, target: TopicPartition, *, outcome: LogComparison
) -> PartitionComparison:
    return PartitionComparison(
        source=source,
        target=target,
        source_records=outcome.source_records,
        target_records=outcome.target_records,
        size=outcome.size,
        differences=outcome.differences,
        is_truncated=outcome.is_truncated,
    )
