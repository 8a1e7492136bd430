from __future__ import annotations

import uuid

import pytest

from connect_runtime.base import ids
from mm2.core.failover import doubts, seen
from mm2.core.offsets import offset_map
from mm2.formats import offset_sync
from tests.fakes import copied_map

HERE, OTHER = ids.TopicPartition("orders", 0), ids.TopicPartition("orders", 1)


def sync(upstream: int, downstream: int) -> offset_sync.OffsetSync:
    return offset_sync.OffsetSync(partition=HERE, upstream=upstream, downstream=downstream)


@pytest.mark.parametrize(
    ("syncs", "why"),
    [
        ({}, ""),
        ({HERE: ()}, ""),
        ({HERE: (sync(40, 45),)}, ""),
        ({HERE: (sync(40, 99), sync(50, 55))}, ""),  # the newest counts
        ({HERE: (sync(40, 45), sync(50, 56))}, doubts.OTHERS_SINCE),
        ({HERE: (sync(500, 505),)}, ""),  # the map says nothing of it
    ],
)
def test_a_sync_that_says_other_than_the_map_is_of_somebody_else(syncs, why):
    known = offset_map.OffsetMap()
    for key, value in copied_map.log(HERE, through=100, delta=5):
        known.apply(key or b"", value)
    mirrored = [seen.Mirrored(partition=each, mirror=each) for each in (HERE, OTHER)]
    found = doubts.doubted(mirrored, known, syncs)
    assert [each.stopped for each in found] == [why, ""]


def test_what_stands_still_for_another_reason_keeps_it():
    known = offset_map.OffsetMap()
    for key, value in copied_map.log(HERE, through=100, delta=5):
        known.apply(key or b"", value)
    mirrored = [seen.Mirrored(partition=HERE, mirror=HERE, stopped="it was made anew")]
    (found,) = doubts.doubted(mirrored, known, {HERE: (sync(50, 56),)})
    assert found.stopped == "it was made anew"


ANEW = uuid.uuid4()


@pytest.mark.parametrize(
    ("source", "target", "which"),
    [
        (None, None, ""),
        (uuid.UUID(bytes=b"s" * 16), uuid.UUID(bytes=b"t" * 16), ""),
        (ANEW, uuid.UUID(bytes=b"t" * 16), "the topic was made anew"),
        (None, ANEW, "its mirror was made anew"),
    ],
)
def test_a_map_is_of_the_topics_that_were_copied_last(source, target, which):
    known = offset_map.OffsetMap()
    (key, era), *_ = copied_map.log(HERE, through=100, delta=5)
    assert doubts.made_anew(known.partition(HERE), source=source, target=target) == ""
    known.apply(key or b"", (era or b"").replace(bytes(32), b"s" * 16 + b"t" * 16))
    found = doubts.made_anew(known.partition(HERE), source=source, target=target)
    assert found.startswith(which)
    assert bool(found) is bool(which)
