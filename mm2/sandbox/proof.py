"""Proof that a mirror equals its source: an ordinary consumer reads both, record by record.

    result = proof.compare(east.client_properties(), west.client_properties(),
                           {"orders": "east.orders"})
    assert result.equal, str(result)

The source is read committed: what a mirror has to show. Both sides are read up to the ends seen
when their partition's turn comes, so traffic and mirror have to rest. The judge of the demo, the
system tests and the chaos tests: each fault it knows is planted in its own tests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from connect_runtime.base import ids
from mm2.sandbox import clients, comparison, failures, log_reader, log_walk, record, unmatched

Report = Callable[[comparison.PartitionComparison], None]


class NothingToCompareError(failures.SandboxError):
    """A topic to compare is not there: equality would mean nothing."""


def compare(
    source: clients.Properties,
    target: clients.Properties,
    topics: Mapping[str, str],
    *,
    isolation: str = log_reader.READ_COMMITTED,
    restamped: Collection[str] = (),
    report: Report | None = None,
) -> comparison.Comparison:
    """Compare topics, given as {source topic: target topic}, partition by partition.

    `isolation` is the target's; `report` hears of each partition as it is done. Of source topics
    that are `restamped` (their brokers date records, or know no dates) a mirror keeps the time that
    readers see, but not its type. Raises `NothingToCompareError` for a topic that the source does
    not have; one that the target does not have counts as empty there.
    """
    if not topics:
        raise NothingToCompareError("comparing two clusters: no topics were named")
    with (
        log_reader.LogReader(source, alias="source") as left,
        log_reader.LogReader(target, alias="target", isolation=isolation) as right,
    ):
        judge = _Judge(left, right, restamped=restamped, report=report or _silent)
        found = [
            part for name, remote in sorted(topics.items()) for part in judge.topic(name, remote)
        ]
    return comparison.Comparison(partitions=tuple(found))


class _Judge:
    def __init__(
        self,
        source: log_reader.LogReader,
        target: log_reader.LogReader,
        *,
        restamped: Collection[str],
        report: Report,
    ) -> None:
        self._source = source
        self._target = target
        self._restamped = restamped
        self._report = report

    def topic(self, name: str, remote: str) -> list[comparison.PartitionComparison]:
        here, there = self._source.partitions(name), self._target.partitions(remote)
        if here == 0:
            raise NothingToCompareError(f"comparing {name}: the source has no such topic")
        return [
            self._partition(
                ids.TopicPartition(name, number),
                ids.TopicPartition(remote, number),
                exists=(number < here, number < there),
            )
            for number in range(max(here, there))
        ]

    def _partition(
        self, source: ids.TopicPartition, target: ids.TopicPartition, *, exists: tuple[bool, bool]
    ) -> comparison.PartitionComparison:
        here, there = exists
        restamped = source.topic in self._restamped

        def originals() -> Iterable[record.Chunk]:
            return _read(self._source, source, restamped=restamped) if here else ()

        outcome = log_walk.walk(
            originals(),
            _read(self._target, target, restamped=restamped) if there else (),
            find_originals=lambda wanted: unmatched.originals(originals(), wanted),
        )
        found = comparison.PartitionComparison(
            source=source,
            target=target,
            source_records=outcome.source_records,
            target_records=outcome.target_records,
            size=outcome.size,
            differences=outcome.differences,
            cut_short=outcome.cut_short,
        )
        self._report(found)
        return found


def _read(
    reader: log_reader.LogReader, partition: ids.TopicPartition, *, restamped: bool
) -> Iterable[record.Chunk]:
    chunks = reader.read(partition)
    return map(record.with_time_alone, chunks) if restamped else chunks


def _silent(_: comparison.PartitionComparison) -> None:
    """For callers who only want the result."""
