"""Offset syncs, asked for below an offset."""

from __future__ import annotations

import pytest

from connect_runtime.base import ids
from mm2.core.offsets import java_syncs
from mm2.formats import offset_sync, schema_fields

T0, T1 = ids.TopicPartition("t", 0), ids.TopicPartition("t", 1)


def folded(*syncs: tuple[ids.TopicPartition, int, int]) -> java_syncs.JavaSyncs:
    found = java_syncs.JavaSyncs({T0})
    for partition, upstream, downstream in syncs:
        found.apply(
            *offset_sync.encode(
                offset_sync.OffsetSync(
                    partition=partition, upstream=upstream, downstream=downstream
                )
            )
        )
    return found


def test_the_newest_below_counts():
    found = folded((T0, 5, 3), (T0, 9, 6), (T0, 20, 15))
    assert found.below(T0, 20) == (9, 6)
    assert found.below(T0, 21) == (20, 15)
    assert found.below(T0, 5) is None


def test_the_order_is_the_topics_not_the_offsets():
    """The source was made again, or Java read it anew."""
    found = folded((T0, 9, 6), (T0, 2, 30))
    assert found.below(T0, 10) == (2, 30)


def test_other_partitions_are_not_kept():
    found = folded((T1, 5, 3))
    assert not found.any(T1)
    assert not found.any(T0)


def test_a_tombstone_forgets():
    found = folded((T0, 5, 3))
    assert found.any(T0)
    key, _ = offset_sync.encode(offset_sync.OffsetSync(partition=T0, upstream=0, downstream=0))
    found.apply(key, None)
    assert not found.any(T0)
    assert found.below(T0, 100) is None


def test_what_is_kept_is_bounded():
    found = folded(*((T0, at, at) for at in range(java_syncs.KEPT + 5)))
    assert found.below(T0, 5) is None
    assert found.below(T0, 6) == (5, 5)


def test_what_is_no_sync_is_refused():
    with pytest.raises(schema_fields.MalformedRecordError):
        folded().apply(b"x", b"y")
