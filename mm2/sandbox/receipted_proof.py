"""Proof for logs that were cleaned or cut while they were mirrored: what may differ, and where.

    before = receipted_proof.snapshot(east…, ["orders"])      # then the cleaner runs, a copy dies…
    result = receipted_proof.compare(east…, west…, {"orders": "east.orders"},
                                     before=before, receipts=receipted_proof.receipts(west…, …))

The mirror must hold, in order, once, and unaltered, what the source held before and holds now,
with these exceptions alone:

- what stands on the target inside the target offsets of a receipt does not count;
- what lies inside the source offsets of a receipt may be lacking; where the receipt says that the
  source deleted it, only if the source has not got it;
- what the source's cleaner has taken may be lacking: records of keys with a later one, tombstones.

And in compacted topics the last value of each key is the same on both sides, whatever receipts say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from connect_runtime.base import ids
from mm2.core import naming
from mm2.formats import receipt
from mm2.sandbox import (
    clients,
    comparison,
    condensed_log,
    log_reader,
    log_walk,
    proof,
    record,
    unmatched,
)

Snapshot = Mapping[ids.TopicPartition, condensed_log.CondensedLog]
_Ranges = Sequence[receipt.Range]
_Log = condensed_log.CondensedLog


def snapshot(of: clients.Properties, topics: Collection[str]) -> Snapshot:
    """What these topics hold now, for readers of committed data.

    Raises `NothingToCompareError` for a topic that is not there.
    """
    with log_reader.LogReader(of, alias="source") as reader:
        return {
            partition: _read(reader, partition)
            for topic in topics
            for partition in _of_source(reader, topic)
        }


def receipts(target: clients.Properties, alias: str) -> list[receipt.Receipt]:
    """All receipts about flows from `alias`, read from their topic; without what operators did,
    which excuses nothing."""
    topic = naming.receipts_topic(alias)
    found: dict[bytes, receipt.Receipt] = {}
    with log_reader.LogReader(target, alias="target") as reader:
        for partition in _partitions(reader, topic):
            for chunk in reader.read(partition):
                for key, value, *_ in chunk.contents:
                    assert key is not None
                    if value is None:
                        found.pop(key, None)
                    else:
                        found[key] = receipt.decode(key, value)
    actions = {receipt.ReceiptKind.OPERATOR_ACTION, receipt.ReceiptKind.MAP_RECORD_SKIPPED}
    return [each for each in found.values() if each.kind not in actions]


def compare(
    source: clients.Properties,
    target: clients.Properties,
    topics: Mapping[str, str],
    *,
    before: Snapshot,
    receipts: Collection[receipt.Receipt],
    compacted: bool = True,
    target_cleaned: bool = False,
) -> comparison.Comparison:
    """Compare topics, given as {source topic: target topic}; both have to rest.

    `target_cleaned`: the mirror's own cleaner ran, so it may lack what has a later record.
    Memory: some 200 bytes for each record of the largest partition. Raises `NothingToCompareError`
    as `proof.compare` does.
    """
    if not topics:
        raise proof.NothingToCompareError("comparing two clusters: no topics were named")
    found = []
    with (
        log_reader.LogReader(source, alias="source") as left,
        log_reader.LogReader(target, alias="target") as right,
    ):
        for name, remote in sorted(topics.items()):
            for here in _of_source(left, name):
                there = ids.TopicPartition(remote, here.partition)
                sides = Sides.of(
                    [each for each in receipts if _is_about(each, here)],
                    before=before.get(here, _Log()),
                    source=_read(left, here),
                    target=_read(right, there),
                )
                outcome = judge(sides, compacted=compacted, target_cleaned=target_cleaned)
                found.append(_comparison(here, there, outcome=outcome))
    return comparison.Comparison(partitions=tuple(found))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """One partition: what the source held and holds, the mirror, and the receipts' offsets.

    `lacking` and `gone` are ranges of source offsets, `ignored` ranges of target offsets, each
    [from, to). What is `gone` the source deleted: it excuses nothing that the source holds.
    """

    before: _Log
    source: _Log
    target: _Log
    lacking: _Ranges = ()
    gone: _Ranges = ()
    ignored: _Ranges = ()

    @classmethod
    def of(
        cls, receipts: Collection[receipt.Receipt], *, before: _Log, source: _Log, target: _Log
    ) -> Sides:
        """With all that these receipts, which are about this partition, excuse."""
        deleted = receipt.ReceiptKind.SOURCE_GONE
        return cls(
            before=before,
            source=source,
            target=target,
            lacking=[each.source for each in receipts if each.source and each.kind is not deleted],
            gone=[each.source for each in receipts if each.source and each.kind is deleted],
            ignored=[each.target for each in receipts if each.target],
        )


def judge(sides: Sides, *, compacted: bool, target_cleaned: bool = False) -> log_walk.Outcome:
    """The verdict on one partition. Pure."""
    held = sides.before.joined(sides.source)
    last = held.last_indices()

    def may_lack(offset: int) -> bool:
        if _within(offset, sides.lacking):
            return True
        index = held.index_of(offset)
        assert index is not None, offset
        is_gone = sides.source.index_of(offset) is None
        if is_gone and _within(offset, sides.gone):
            return True
        if not target_cleaned and not is_gone:
            return False
        key = held.key(index)
        return bool(key) and (last[key] > index or held.is_tombstone(index))

    outcome = log_walk.walk(
        held.chunks(),
        sides.target.without(sides.ignored).chunks(),
        find_originals=lambda wanted: unmatched.originals(held.chunks(), wanted),
        may_lack=may_lack,
    )
    # Contents are hashes: what exactly was altered is not known.
    differences = [dataclasses.replace(each, fields=()) for each in outcome.differences]
    if compacted:
        differences += _stale(sides.source, sides.target)
    return dataclasses.replace(
        outcome,
        source_records=len(held),
        target_records=len(sides.target),
        size=sides.source.size,
        differences=tuple(differences),
    )


def _stale(source: _Log, target: _Log) -> list[comparison.Difference]:
    """Keys whose last values differ; a tombstone is as good as nothing."""
    ours, theirs = _values(source), _values(target)
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
        comparison.Difference(
            kind=comparison.Kind.STALE,
            count=len(wrong),
            source_offset=wrong[0][0],
            target_offset=wrong[0][1],
        )
    ]


def _values(log: _Log) -> dict[bytes, tuple[int, bytes]]:
    """By key: offset and content of its last record, tombstones left out."""
    return {
        key: (log.offsets[index], log.sum(index))
        for key, index in log.last_indices().items()
        if not log.is_tombstone(index)
    }


def _within(offset: int, ranges: _Ranges) -> bool:
    return any(start <= offset < end for start, end in ranges)


def _read(reader: log_reader.LogReader, partition: ids.TopicPartition) -> _Log:
    if partition.partition >= reader.partitions(partition.topic):
        return _Log()
    return _Log.of(map(record.with_time_alone, reader.read(partition)))


def _partitions(reader: log_reader.LogReader, topic: str) -> list[ids.TopicPartition]:
    return [ids.TopicPartition(topic, number) for number in range(reader.partitions(topic))]


def _of_source(reader: log_reader.LogReader, topic: str) -> list[ids.TopicPartition]:
    found = _partitions(reader, topic)
    if not found:
        raise proof.NothingToCompareError(f"comparing {topic}: the source has no such topic")
    return found


def _is_about(one: receipt.Receipt, partition: ids.TopicPartition) -> bool:
    return (one.topic, one.partition) == (partition.topic, partition.partition)


def _comparison(
    source: ids.TopicPartition, target: ids.TopicPartition, *, outcome: log_walk.Outcome
) -> comparison.PartitionComparison:
    return comparison.PartitionComparison(
        source=source,
        target=target,
        source_records=outcome.source_records,
        target_records=outcome.target_records,
        size=outcome.size,
        differences=outcome.differences,
        cut_short=outcome.cut_short,
    )
