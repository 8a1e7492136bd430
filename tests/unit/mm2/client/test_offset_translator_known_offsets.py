"""The map and the offset syncs together: the better of both, and neither against the other."""

from __future__ import annotations

from mm2.client.offset_translator import OffsetMapWithSyncs
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.offsets.offset_map import OffsetMap
from mm2.offsets.offset_syncs import OffsetSyncStore
from mm2.offsets.offset_translation import EarlierOffset, ExactOffset, UntranslatedReason
from tests.fakes import copied_map

T7 = copied_map.T7


def known(*syncs, through=30):
    """Copied from 10 to `through`, each record 5 before; `syncs` are pairs of offsets."""
    made = OffsetMap()
    for key, value in copied_map.log(T7, through=through, delta=-5, start=10):
        assert key is not None
        made.apply_record(key, value)
    table = OffsetSyncStore(keep_history=True)
    for upstream, downstream in syncs:
        table.add_sync(OffsetSync(partition=T7, upstream=upstream, downstream=downstream))
    table.mark_ready()
    return OffsetMapWithSyncs(offset_map=made, syncs=table if syncs else None)


def test_where_we_copied_the_map_tells_and_where_java_did_its_syncs():
    both = known((3, 1), (20, 15))
    assert both.translate(T7, 12) == ExactOffset(downstream=7)
    assert both.translate(T7, 4) == ExactOffset(downstream=2)
    assert both.translate(T7, 8) == EarlierOffset(downstream=2, reread_max=4)
    assert both.translate(T7, 2) is UntranslatedReason.TOO_OLD
    assert known().translate(T7, 4) is UntranslatedReason.TOO_OLD


def test_what_java_copied_behind_the_map_is_told_by_its_syncs():
    later = known((40, 36))
    assert later.translate(T7, 40) == ExactOffset(downstream=36)
    assert later.count_unreplicated_offsets(T7, 40) == 10


def test_a_map_that_the_newest_sync_contradicts_counts_for_nothing():
    other = known((20, 3))
    assert other.translate(T7, 20) == ExactOffset(downstream=3)
    assert other.translate(T7, 12) is UntranslatedReason.TOO_OLD
    assert other.translate_back(T7, 7) is UntranslatedReason.UNKNOWN


def test_the_way_back_is_the_map_s():
    assert known((3, 1), (20, 15)).translate_back(T7, 7) == ExactOffset(downstream=12)
    assert known().translate_back(T7, 7) == ExactOffset(downstream=12)


def test_how_far_beyond_what_was_copied():
    assert [known().count_unreplicated_offsets(T7, at) for at in (0, 30, 33)] == [0, 0, 3]
    nothing = OffsetMapWithSyncs(offset_map=OffsetMap())
    assert nothing.count_unreplicated_offsets(T7, 33) == 0
    assert nothing.translate(T7, 3) is UntranslatedReason.UNKNOWN
