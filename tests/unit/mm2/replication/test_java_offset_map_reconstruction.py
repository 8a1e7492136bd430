from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.formats import record_batch
from mm2.formats.offset_map_records import OffsetRun
from mm2.replication import java_offset_map_reconstruction, target_log_tail_matching
from mm2.replication.java_offset_map_reconstruction import JavaOffsetSyncs, MapReconstruction
from mm2.replication.target_log_tail_matching import RequiredMatchingInput, SegmentSplitPoint
from tests.fakes import batches, scripts
from tests.fakes.transforms import Filter

JAVA = (-1, -1)
Need = RequiredMatchingInput


def source(*values, start=0, end=None, epoch=3):
    """One batch, and the log's end behind it."""
    held = scripts.data(start, *values, leader_epoch=epoch)
    return scripts.records(held, end=start + len(values) if end is None else end)


def traced(**changed):
    given = {"source": 0, "target": 10, "require_exact_start": True, "likely_step_back": 0}
    return MapReconstruction(**(given | changed))


def write(found, at, *values, producer=JAVA, **more):
    batch = memoryview(scripts.data(at, *values, producer=producer, **more))
    return found.add_target_batch(record_batch.read_batch_header(batch), batch)


def over(*values, **changed):
    """The source holds these from 0 on, and is read."""
    found = traced(**changed)
    assert found.match_available_records() is Need.SOURCE
    assert found.add_source_records(source(*values)) is Need.TARGET
    return found


LETTERS = (b"a", b"b", b"c", b"d", b"e")


def test_what_stands_once_and_in_order_is_whole():
    found = over(*LETTERS)
    assert write(found, 10, b"a", b"b") is Need.TARGET
    assert write(found, 12, b"c") is Need.TARGET
    assert (found.position, found.source_epoch) == (3, 3)
    assert (found.is_complete, found.mismatch, found.duplicate_ranges) == (True, "", [])
    assert found.runs == [OffsetRun(0, 10)]


def test_a_batch_that_is_too_large_to_be_opened_says_nothing_of_the_stretch():
    found = traced(max_decoded_bytes=1000)
    batch = scripts.data(0, bytes(2000), codec=4)
    assert found.add_source_records(scripts.records(batch, end=1)) is Need.NOTHING
    assert (found.too_large.offset, found.too_large.next_offset, found.mismatch) == (0, 1, "")
    found = over(b"a", b"b", max_decoded_bytes=1000)
    assert write(found, 10, b"a") is Need.TARGET
    assert write(found, 11, bytes(2000), b"b", codec=4) is Need.NOTHING
    assert (found.too_large.offset, found.too_large.next_offset, found.mismatch) == (1, 3, "")
    assert "the mirror's batch at offset 11" in found.too_large.reason


def test_without_a_record_nothing_is_found():
    found = over(*LETTERS, source=2)
    assert (found.position, found.source_epoch) == (2, -1)
    assert not found.is_complete


def test_the_batch_in_which_the_stretch_begins_is_read_from_there():
    found = over(*LETTERS, source=1, target=12, likely_step_back=0)
    write(found, 10, b"x", b"y", b"b", b"c")
    assert (found.position, found.mismatch) == (3, "")


def test_another_record_than_the_sync_says_is_no_beginning():
    found = over(*LETTERS)
    assert write(found, 10, b"b") is Need.NOTHING
    assert found.mismatch == "target offset 10 does not match source offset 0"
    assert (found.position, found.mismatch_offset, found.has_match) == (0, 10, False)


def test_the_record_of_a_sync_stands_exactly_there():
    found = over(*LETTERS)
    assert write(found, 11, b"a") is Need.NOTHING
    found = traced(source=7)
    found.add_source_records(scripts.records(scripts.data(8, b"z"), end=9))
    assert write(found, 10, b"z") is Need.NOTHING


def test_behind_an_anchor_markers_and_gaps_may_come_first():
    found = over(*LETTERS, require_exact_start=False)
    write(found, 15, b"a")
    assert (found.position, found.runs) == (1, [OffsetRun(0, 15)])


def test_what_is_missing_does_not_pair():
    found = over(*LETTERS)
    write(found, 10, b"a", b"c")
    assert found.mismatch == (
        "target offset 11 does not match the record at source offset 1 or an earlier one"
    )
    assert (found.position, found.mismatch_offset, found.is_past_source) == (1, 11, False)


def test_a_stranger_is_named():
    found = over(*LETTERS)
    write(found, 10, b"a")
    write(found, 11, b"nobody's", producer=(99, 0))
    assert (found.producer_id, found.mismatch_offset) == (99, 11)


# Stepping back


def test_what_java_wrote_again_is_found_and_counted():
    found = over(*LETTERS)
    write(found, 10, b"a", b"b", b"c")
    write(found, 13, b"b", b"c", b"d")
    assert (found.position, found.mismatch, found.is_complete) == (4, "", False)
    assert (found.duplicate_ranges, found.duplicate_count) == ([(13, 15)], 2)
    assert found.runs == [OffsetRun(0, 10)]


def test_how_far_it_had_been_counts_however_far_it_was_last():
    found = over(*LETTERS, b"f", b"g")
    write(found, 10, *LETTERS)
    write(found, 15, b"a")
    write(found, 16, b"a", b"b")
    assert (found.position, found.duplicate_ranges, found.duplicate_count) == (5, [(15, 18)], 3)


def test_records_before_the_anchor_may_be_written_again():
    found = traced(source=2, copied_from=0, require_exact_start=False, likely_step_back=0)
    assert found.read_to == 0
    found.add_source_records(source(*LETTERS))
    write(found, 10, b"a", b"b", b"c", b"d")
    assert (found.position, found.duplicate_ranges, found.duplicate_count) == (4, [(10, 12)], 2)


def test_records_before_the_stretch_are_not_known_unless_they_are_read():
    found = traced(source=2, require_exact_start=False)
    found.add_source_records(source(*LETTERS))
    write(found, 10, b"c", b"a")
    assert found.mismatch


def test_two_that_write_side_by_side_are_followed_both():
    found = over(*LETTERS)
    for at, value in enumerate([b"a", b"b", b"a", b"c", b"b", b"d", b"c"]):
        write(found, 10 + at, value)
    assert (found.position, found.mismatch) == (4, "")
    assert found.duplicate_ranges == [(12, 13), (14, 15), (16, 17)]


def test_of_equal_records_the_right_one_is_found_by_what_follows():
    found = over(b"a", b"a", b"b", b"a", b"c", b"d", likely_step_back=3)
    write(found, 10, b"a", b"a", b"b", b"a", b"c")
    write(found, 15, b"a", b"b", b"a")
    assert (found.mismatch, found.duplicate_count) == ("", 3)


def test_where_all_is_equal_numbers_decide():
    found = over(b"a", b"a", b"a")
    write(found, 10, b"a", b"a")
    assert (found.position, found.duplicate_ranges) == (2, [])


def test_too_many_stretches_are_not_told_apart(monkeypatch):
    monkeypatch.setattr(java_offset_map_reconstruction, "DUPLICATE_RANGES_MAX", 1)
    found = over(*LETTERS)
    for at, value in enumerate([b"a", b"b", b"a", b"c"]):
        write(found, 10 + at, value)
    assert found.mismatch == ""
    write(found, 14, b"b")
    assert found.mismatch == "too many ranges of records are duplicated"
    assert (found.mismatch_offset, found.position) == (14, 3)


def test_what_was_forgotten_is_not_found_again(monkeypatch):
    monkeypatch.setattr(java_offset_map_reconstruction, "REMEMBERED_RECORDS_MAX", 3)
    found = over(*LETTERS, b"f")
    write(found, 10, *LETTERS)
    assert (found.position, found.source_epoch) == (5, 3)
    write(found, 15, b"d", b"e")
    assert (found.mismatch, found.duplicate_count, found.position) == ("", 2, 5)
    write(found, 17, b"a")
    assert found.mismatch


# What the source says


def test_more_of_the_source_is_read_as_it_is_needed():
    found = over(b"a", b"b")
    assert write(found, 10, b"a", b"b", b"c") is Need.SOURCE
    assert found.read_to == 2
    assert found.add_source_records(source(b"c", b"d", start=2, epoch=5)) is Need.TARGET
    assert (found.position, found.source_epoch) == (3, 5)


def test_before_it_is_read_nothing_counts_as_written_again():
    found = over(b"a", b"b")
    write(found, 10, b"a", b"b")
    assert write(found, 12, b"a") is Need.SOURCE
    found.add_source_records(source(b"a", start=2))
    assert (found.position, found.duplicate_ranges) == (3, [])


def test_at_the_sources_end_it_does():
    found = over(b"a", b"b")
    write(found, 10, b"a", b"b")
    assert write(found, 12, b"a") is Need.SOURCE
    assert found.mark_source_ended() is Need.TARGET
    assert (found.position, found.duplicate_ranges) == (2, [(12, 13)])


def test_what_the_source_does_not_have_yet_is_beyond_it():
    found = over(b"a", b"b")
    write(found, 10, b"a", b"b", b"c")
    assert found.mark_source_ended() is Need.NOTHING
    assert found.is_past_source
    assert "any record of the source, which ends at 2" in found.mismatch


ABORTED = scripts.data(1, b"x", producer=(7, 0), transactional=True)


def aborting():
    held = [scripts.data(0, b"a"), ABORTED, scripts.marker(2, (7, 0), commit=False)]
    behind = scripts.data(3, b"b", leader_epoch=4)
    return scripts.records(*held, behind, end=4, aborted=((7, 1),))


@pytest.mark.parametrize("values", [(b"a", b"x", b"b"), (b"a", b"b"), (b"a", b"x", b"a", b"b")])
def test_what_was_aborted_may_have_been_copied(values):
    found = traced()
    found.add_source_records(aborting())
    write(found, 10, *values)
    assert (found.position, found.source_epoch, found.mismatch) == (4, 4, "")


def test_what_was_aborted_need_not_be_copied_behind_the_last():
    found = traced()
    found.add_source_records(aborting())
    write(found, 10, b"a")
    assert (found.position, found.source_epoch) == (1, 0)


def test_what_was_aborted_and_comes_late_stands_there_once():
    found = traced()
    found.add_source_records(aborting())
    write(found, 10, b"a", b"b")
    write(found, 12, b"x")
    found.mark_source_ended()
    assert (found.position, found.duplicate_ranges) == (4, [])
    write(found, 13, b"x", b"b")
    assert (found.position, found.duplicate_ranges, found.mismatch) == (4, [], "")
    found.mark_source_ended()
    assert found.duplicate_ranges == [(13, 15)]


def test_behind_all_that_is_there_comes_what_was_read():
    held = scripts.data(0, b"a"), scripts.marker(1, (7, 0), leader_epoch=6)
    found = traced()
    found.add_source_records(scripts.records(*held, end=2))
    write(found, 10, b"a")
    assert (found.position, found.source_epoch) == (2, 6)


def test_a_source_without_what_is_only_a_help_goes_on_at_its_start():
    found = traced(source=5, copied_from=0)
    found.skip_deleted_source_records(3)
    assert (found.read_to, found.mismatch) == (3, "")
    found.skip_deleted_source_records(-1)
    assert (found.read_to, found.mismatch) == (5, "")
    found.skip_deleted_source_records(9)
    assert found.mismatch == "the source does not have offset 5"


def test_damage_on_the_source_is_told():
    bad = bytearray(scripts.data(0, b"a"))
    bad[-1] ^= 1
    found = traced()
    assert found.add_source_records(scripts.records(bytes(bad), end=1)) is Need.SOURCE
    assert found.obstacle is not None
    assert found.obstacle.offset == 0


@pytest.mark.parametrize("side", ["source", "target"])
def test_what_cannot_be_opened_does_not_pair(side):
    garbled = bytearray(scripts.data(0, b"a"))
    garbled[60] = 9  # so many records, it says
    garbled = bytearray(batches.rechecked(garbled))
    found = over(*LETTERS) if side == "target" else traced()
    if side == "source":
        found.add_source_records(scripts.records(bytes(garbled), end=1))
        assert found.mismatch.startswith("source offset 0: ")
    else:
        view = memoryview(garbled)
        found.add_target_batch(record_batch.read_batch_header(view), view)
        assert found.mismatch.startswith("target offset 0: ")


def test_the_transform_is_done_to_what_the_source_holds():
    found = over(b"a", b"b", b"c", transform=Filter(b"b", change=b"!"))
    write(found, 10, b"!a", b"!c")
    assert (found.is_complete, found.position) == (True, 3)


def test_a_stretch_that_is_gone_does_not_pair():
    found = traced()
    found.abort_matching("it is gone")
    assert (found.match_available_records(), found.mismatch, found.position) == (
        Need.NOTHING,
        "it is gone",
        0,
    )


# The map


def test_gaps_begin_runs():
    held = [scripts.data(0, b"a"), scripts.data(5, b"b", b"c")]
    found = traced()
    found.add_source_records(scripts.records(*held, end=7))
    write(found, 10, b"a", b"b", b"c")
    assert found.runs == [OffsetRun(0, 10), OffsetRun(5, 6)]


def test_a_long_map_may_be_cut(monkeypatch):
    monkeypatch.setattr(target_log_tail_matching, "JUNCTION_RUNS", 2)
    found = traced()
    held = [scripts.data(3 * at, value, leader_epoch=at) for at, value in enumerate(LETTERS)]
    found.add_source_records(scripts.records(*held, end=13))
    write(found, 10, *LETTERS)
    assert len(found.runs) == 5
    assert found.junctions == [SegmentSplitPoint(2, 4, 12, 1), SegmentSplitPoint(4, 10, 14, 3)]


@given(
    steps=st.lists(st.tuples(st.integers(0, 19), st.integers(1, 8)), min_size=1, max_size=8),
)
def test_whatever_java_writes_again_all_before_the_position_is_there(steps):
    values = [b"%d" % at for at in range(30)]
    found = over(*values)
    reached, at, twice = 0, 10, 0
    for start, length in steps:
        begin = min(start, reached)
        piece = range(begin, min(begin + length, 30))
        twice += sum(each < reached for each in piece)
        reached = max(reached, piece.stop)
        if piece:
            write(found, at, *(values[each] for each in piece))
        at += len(piece)
    assert (found.mismatch, found.position, found.duplicate_count) == ("", reached, twice)
    assert sum(end - start for start, end in found.duplicate_ranges) == twice


def known(*syncs):
    found = JavaOffsetSyncs()
    for sync in syncs:
        found.add_sync(*sync)
    return found


def test_of_a_partition_that_java_never_told_of_none_is_known():
    assert not known()
    assert known().find_sync_below(100) is None


@pytest.mark.parametrize(
    ("next_offset", "sync"), [(0, None), (1, (0, 5)), (10, (0, 5)), (11, (10, 15)), (99, (20, 25))]
)
def test_the_newest_below_what_was_stored_is_chosen(next_offset, sync):
    assert known((0, 5), (10, 15), (20, 25)).find_sync_below(next_offset) == sync


def test_it_lies_before_the_place_from_where_java_stepped_back():
    # Copied up to 30, then killed with nothing stored, and begun again at the start.
    found = known((0, 0), (30, 30), (0, 31), (10, 41), (20, 51))
    assert found.find_sync_below(21) == (0, 0)


def test_what_had_room_between_two_of_them_may_have_been_copied():
    # 50 records behind the first one, and none of them told of.
    assert known((0, 0), (0, 51), (20, 71)).find_sync_below(21) == (0, 0)
    assert known((0, 0), (20, 20), (40, 40)).find_sync_below(41) == (40, 40)


def test_once_java_is_farther_than_it_ever_was_nothing_older_is_needed():
    found = known((0, 0), (30, 30), (0, 31), (30, 61), (70, 101))
    assert found.find_sync_below(71) == (70, 101)


def test_nothing_lower_stands_behind_it():
    assert known((0, 0), (20, 20), (10, 30)).find_sync_below(25) == (0, 0)


def test_gaps_of_the_source_leave_no_doubt():
    assert known((0, 0), (50, 20), (90, 30)).find_sync_below(91) == (90, 30)


def test_where_exactness_reaches_too_far_back_the_newest_does():
    far = java_offset_map_reconstruction.EXACT_RETRACE_MAX
    found = known((0, 0), (far, far), (0, far + 1), (20, far + 21))
    assert found.find_sync_below(30) == (20, far + 21)
    nearer = known((0, 0), (far, far), (0, far - 21), (20, far - 1))
    assert nearer.find_sync_below(30) == (0, 0)


def test_a_target_that_was_cut_or_made_again_begins_anew():
    found = known((0, 0), (100, 100), (200, 200))
    found.add_sync(110, 90)
    assert found.find_sync_below(111) == (110, 90)
    assert found.find_sync_below(110) == (0, 0)
    found.add_sync(120, 0)
    assert found.find_sync_below(300) == (120, 0)


def test_only_so_many_are_kept():
    found = known(*((each, each) for each in range(java_offset_map_reconstruction.SYNCS_MAX + 10)))
    assert found.find_sync_below(9) is None
    assert found.find_sync_below(12) == (11, 11)
