"""What Java's topics say of partitions, read anew with every question."""

from __future__ import annotations

import pytest

from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import NotAuthorizedError, TopicMissingError
from mm2.connectors.java_replication_progress import JavaProgressReader
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.kafka.kafka_client_interfaces import LogTruncatedError
from mm2.replication.recovery_instructions import JavaMirrorProgress
from tests.fakes.checkpoint_clients import FakeTail, Record
from tests.fakes.plugin_contexts import Clock, Offsets

T0, T1, OTHER = (TopicPartition("t", each) for each in (0, 1, 9))


class Kept:
    def __init__(self, *, syncs: bool = True) -> None:
        self.offsets = Offsets()
        self.log: list[Record] = []
        self.failures: list[ConnectError] = []
        self.tails: list[FakeTail] = []
        self.progress = JavaProgressReader(
            "A",
            [T0, T1],
            offsets=self.offsets,
            connect_syncs=self.tail if syncs else None,
            clock=Clock(),
        )

    def tail(self) -> FakeTail:
        made = FakeTail(topic="syncs", log=self.log, failures=self.failures)
        self.tails.append(made)
        return made

    def stored(self, partition: TopicPartition, offset: int) -> None:
        place = {"cluster": "A", "partition": partition.partition, "topic": partition.topic}
        self.offsets.stored.append((place, {"offset": offset}))

    def synced(self, partition: TopicPartition, upstream: int, downstream: int) -> None:
        sync = OffsetSync(partition=partition, upstream=upstream, downstream=downstream)
        self.log.append(mirrormaker2_records.encode_offset_sync(sync))

    def read(self) -> dict[TopicPartition, JavaMirrorProgress]:
        return dict(self.progress.read_progress([T1, T0]))


def test_what_nobody_stored_is_none():
    assert Kept().read() == {}


def test_the_newest_sync_below_what_was_stored():
    kept = Kept()
    kept.stored(T0, 99)
    kept.synced(T0, 50, 40)
    kept.synced(OTHER, 60, 1)
    assert kept.read() == {T0: JavaMirrorProgress(next_offset=100, sync=(50, 40))}
    kept.synced(T0, 100, 90)
    assert kept.read()[T0].sync == (50, 40)
    kept.stored(T0, 100)
    assert kept.read()[T0] == JavaMirrorProgress(next_offset=101, sync=(100, 90))


def test_syncs_alone_say_that_java_was_here():
    kept = Kept()
    kept.synced(T1, 5, 5)
    assert kept.read() == {T1: JavaMirrorProgress(next_offset=0)}
    key, _ = kept.log[0]
    kept.log.append((key, None))
    assert kept.read() == {}


def test_a_flow_without_syncs_has_what_was_stored():
    kept = Kept(syncs=False)
    kept.stored(T0, 9)
    assert kept.read() == {T0: JavaMirrorProgress(next_offset=10)}


@pytest.mark.parametrize(
    "failure",
    [TopicMissingError("no topic"), NotAuthorizedError("no right")],
)
def test_who_may_not_read_syncs_goes_on_without(failure, caplog):
    kept = Kept()
    kept.stored(T0, 9)
    kept.failures.append(failure)
    assert kept.read() == {T0: JavaMirrorProgress(next_offset=10)}
    assert str(failure) in caplog.text


def test_what_cannot_be_read_now_is_no_answer():
    kept = Kept()
    kept.failures.append(RetriableError("not in time"))
    with pytest.raises(RetriableError, match="not in time"):
        kept.read()
    kept.stored(T0, 9)
    assert kept.read()


def test_a_topic_that_was_made_again_is_read_from_its_beginning():
    kept = Kept()
    kept.stored(T0, 99)
    kept.synced(T0, 50, 40)
    kept.read()
    kept.log.clear()
    kept.synced(T0, 10, 9)
    kept.failures.append(LogTruncatedError("cut"))
    with pytest.raises(LogTruncatedError):
        kept.read()
    assert kept.read()[T0].sync == (10, 9)
    assert len(kept.tails) == 2
    kept.progress.close()
    assert all(each.closed for each in kept.tails)


def test_what_is_no_sync_is_passed_over(caplog):
    kept = Kept()
    kept.log.append((b"x", b"y"))
    kept.synced(T0, 1, 1)
    assert kept.read() == {T0: JavaMirrorProgress(next_offset=0)}
    assert "skipped" in caplog.text
