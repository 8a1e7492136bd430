from __future__ import annotations

import uuid

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.clusters import replication_progress
from mm2.clusters.cluster_pair_snapshot import MirroredPartition
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.offsets.offset_map import OffsetMap
from tests.fakes import copied_map

HERE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


def sync(upstream: int, downstream: int) -> OffsetSync:
    return OffsetSync(partition=HERE, upstream=upstream, downstream=downstream)


@pytest.mark.parametrize(
    ("syncs", "why"),
    [
        ({}, ""),
        ({HERE: ()}, ""),
        ({HERE: (sync(40, 45),)}, ""),
        ({HERE: (sync(40, 99), sync(50, 55))}, ""),  # the newest counts
        ({HERE: (sync(40, 45), sync(50, 56))}, replication_progress.SYNC_CONTRADICTS_MAP),
        ({HERE: (sync(500, 505),)}, ""),  # the map says nothing of it
    ],
)
def test_a_sync_that_says_other_than_the_map_is_of_somebody_else(syncs, why):
    known = OffsetMap()
    for key, value in copied_map.log(HERE, through=100, delta=5):
        known.apply_record(key or b"", value)
    mirrored = [MirroredPartition(partition=each, mirror=each) for each in (HERE, OTHER)]
    found = replication_progress.mark_partitions_contradicting_syncs(mirrored, known, syncs)
    assert [each.stop_reason for each in found] == [why, ""]


def test_what_stands_still_for_another_reason_keeps_it():
    known = OffsetMap()
    for key, value in copied_map.log(HERE, through=100, delta=5):
        known.apply_record(key or b"", value)
    mirrored = [MirroredPartition(partition=HERE, mirror=HERE, stop_reason="it was recreated")]
    (found,) = replication_progress.mark_partitions_contradicting_syncs(
        mirrored, known, {HERE: (sync(50, 56),)}
    )
    assert found.stop_reason == "it was recreated"


ANEW = uuid.uuid4()


@pytest.mark.parametrize(
    ("source", "target", "which"),
    [
        (None, None, ""),
        (uuid.UUID(bytes=b"s" * 16), uuid.UUID(bytes=b"t" * 16), ""),
        (ANEW, uuid.UUID(bytes=b"t" * 16), "the topic was recreated"),
        (None, ANEW, "its mirror was recreated"),
    ],
)
def test_a_map_is_of_the_topics_that_were_copied_last(source, target, which):
    known = OffsetMap()
    (key, era), *_ = copied_map.log(HERE, through=100, delta=5)
    assert (
        replication_progress.explain_topic_recreation(
            known.get_partition(HERE), source=source, target=target
        )
        == ""
    )
    known.apply_record(key or b"", (era or b"").replace(bytes(32), b"s" * 16 + b"t" * 16))
    found = replication_progress.explain_topic_recreation(
        known.get_partition(HERE), source=source, target=target
    )
    assert found.startswith(which)
    assert bool(found) is bool(which)
