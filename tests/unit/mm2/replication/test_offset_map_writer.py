from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import MapSegment, MapSegmentKey, OffsetRun
from mm2.replication import (
    batch_size_limits,
    offset_map_writer,
    outbound_batches,
    target_log_tail_matching,
)
from mm2.replication.offset_map_writer import MapWriter
from mm2.replication.recovery_outcomes import PartitionAcquired
from mm2.replication.target_log_tail_matching import SegmentSplitPoint
from tests.fakes import copying, taking
from tests.support import examples

RUNS = (OffsetRun(100, 20), OffsetRun(103, 25))


def taken(**changed: Any) -> PartitionAcquired:
    given: dict[str, Any] = {
        "producer": taking.US,
        "leader_epoch": 2,
        "era": 3,
        "ordinal": 4,
        "match_start": 100,
        "source": 110,
        "target": 140,
        "source_epoch": 9,
    }
    return PartitionAcquired(**(given | changed))


def written_of(**changed: Any) -> list[tuple[MapSegmentKey, MapSegment]]:
    """Keys and segments of what the map of this take writes first."""
    found = []
    for item in (
        offset_map_writer.create_map_writer(taking.context(), taken(**changed))
        .create_write_instruction(0.0)
        .items
    ):
        key = offset_map_records.decode_map_key(item.key)
        assert isinstance(key, MapSegmentKey)
        segment = offset_map_records.decode_map_value(key, item.value or b"")
        assert isinstance(segment, MapSegment)
        found.append((key, segment))
    return found


def first_of(**changed: Any) -> tuple[MapSegmentKey, MapSegment]:
    (only,) = written_of(**changed)
    return only


def test_the_first_anchor_says_who_took_the_partition_and_where_it_goes_on():
    key, segment = first_of()
    assert (key.topic, key.partition) == ("orders", 4)
    assert (key.era, key.ordinal, key.epoch) == (3, 4, taking.US.epoch)
    assert (segment.through, segment.target_next, segment.acquired_from) == (110, 140, 100)
    assert (segment.leader_epoch, segment.source_epoch, segment.owner) == (2, 9, taking.ME)


def test_what_pairing_learned_is_in_it():
    _, segment = first_of(runs=RUNS)
    assert segment.runs == RUNS


def test_a_take_that_paired_nothing_has_no_runs():
    _, segment = first_of()
    assert segment.runs == ()
    assert segment.last_crc is None


def test_without_news_nothing_more_is_written():
    written = offset_map_writer.create_map_writer(taking.context(), taken(runs=RUNS))
    written.on_segments_stored(written.create_write_instruction(0.0).token)
    assert not written.has_unwritten_progress
    assert written.is_all_progress_recorded


def test_at_a_seam_the_map_is_cut_into_segments_that_are_anchors_themselves():
    seam = SegmentSplitPoint(runs=1, source=103, target=126, source_epoch=8)
    (early_key, early), (late_key, late) = written_of(runs=RUNS, junctions=(seam,))
    assert (early_key.first_source, late_key.first_source) == (100, 103)
    assert (early.runs, late.runs) == (RUNS[:1], RUNS[1:])
    assert (early.through, early.target_next, early.source_epoch) == (103, 126, 8)
    assert (early.acquired_from, early.last_crc, early.closed) == (100, None, True)
    assert (late.through, late.target_next, late.source_epoch) == (110, 140, 9)
    assert (late.acquired_from, late.closed) == (100, False)


def test_the_runs_of_a_long_tail_fit_into_records_that_a_topic_takes():
    count = 150_000
    runs = tuple(OffsetRun(2 * at, 7 - at) for at in range(count))
    seams = tuple(
        SegmentSplitPoint(runs=at, source=2 * at, target=at + 7, source_epoch=1)
        for at in range(
            target_log_tail_matching.JUNCTION_RUNS, count, target_log_tail_matching.JUNCTION_RUNS
        )
    )
    whole = taken(runs=runs, junctions=seams, match_start=0, source=2 * count, target=count + 7)
    items = (
        offset_map_writer.create_map_writer(taking.context(), whole)
        .create_write_instruction(0.0)
        .items
    )
    assert sum(len(item.value or b"") for item in items) > 250_000
    assert max(len(item.value or b"") for item in items) < 200_000


OWNER = b"12345678"


def writer(*, match_start=100, target_next=201, epoch=4, ordinal=3, segment_bytes=2048):
    return MapWriter(
        topic="orders",
        partition=7,
        era=2,
        ordinal=ordinal,
        epoch=epoch,
        leader_epoch=9,
        owner=OWNER,
        take_start=match_start,
        through=match_start,
        target_next=target_next,
        segment_bytes=segment_bytes,
    )


def copy(written, *source, records=1, target=None, now_s=0.0):
    """Acknowledge one batch, behind the newest unless `target` says where.

    Of `records` source offsets from `source` on, or of exactly those.
    """
    at = written.target_next if target is None else target
    offsets = source if len(source) > 1 else tuple(range(source[0], source[0] + records))
    batch = copying.outgoing_of(*offsets, source_epoch=6)
    written.add_acknowledged_batch(batch, target=at, crc=source[0], now_s=now_s)
    written.check_invariants()


def decoded(record):
    found = []
    for item in record.items:
        assert not item.incident
        key = offset_map_records.decode_map_key(item.key)
        found.append((key, offset_map_records.decode_map_value(key, item.value)))
    return found


# Anchors


def test_the_first_anchor_says_who_took_the_partition_and_where():
    ((key, segment),) = decoded(writer().create_write_instruction(0.0))
    assert key == MapSegmentKey(
        topic="orders", partition=7, era=2, ordinal=3, epoch=4, first_source=100
    )
    assert segment == MapSegment(
        leader_epoch=9,
        source_epoch=-1,
        owner=OWNER,
        acquired_from=100,
        through=100,
        target_next=201,
        last_crc=None,
        runs=(),
    )


def test_an_acknowledged_batch_moves_the_anchor():
    written = writer()
    copy(written, 100, records=5)
    ((_, segment),) = decoded(written.create_write_instruction(0.0))
    assert (segment.through, segment.target_next) == (105, 206)
    assert (segment.last_crc, segment.source_epoch) == (100, 6)
    assert segment.runs == (OffsetRun(100, 101),)


def test_a_marker_of_ours_leaves_no_batch_to_compare():
    written = writer()
    copy(written, 100)
    written.record_transaction_marker(204, now_s=0.0)
    ((_, segment),) = decoded(written.create_write_instruction(0.0))
    assert (segment.target_next, segment.last_crc, segment.through) == (204, None, 101)


@pytest.mark.parametrize(("to", "through"), [(99, 101), (101, 101), (150, 150)])
def test_skipping_only_goes_forwards(to, through):
    written = writer()
    copy(written, 100)
    written.create_write_instruction(0.0)
    written.record_skipped_offsets(to, source_epoch=8, now_s=1.0)
    assert (written.through, written.source_epoch) == (through, 8 if through == to > 101 else 6)
    assert written.has_unwritten_progress == (to > 101)
    assert written.last_crc == 100


def test_batches_with_one_delta_are_one_run_and_a_marker_begins_another():
    written = writer()
    copy(written, 100, records=3)
    copy(written, 103)
    written.record_transaction_marker(206, now_s=0.0)
    copy(written, 104)
    copy(written, 107, target=209)  # three source offsets were skipped, two target ones were lost
    ((_, segment),) = decoded(written.create_write_instruction(0.0))
    assert segment.runs == ((100, 101), (104, 102))


def test_what_an_older_owner_copied_goes_into_the_runs_alone():
    written = writer(match_start=100, target_next=201)
    written.add_matched_batch(100, 150)
    written.add_matched_batch(103, 153)
    written.add_matched_batch(105, 160)
    ((_, segment),) = decoded(written.create_write_instruction(0.0))
    assert segment.runs == ((100, 50), (105, 55))
    assert (segment.through, segment.target_next) == (100, 201)
    assert not written.has_unwritten_progress


def test_a_batch_of_records_with_gaps_is_as_many_runs():
    written = writer()
    copy(written, 100, 101, 105, 109)
    copy(written, 110)
    ((_, segment),) = decoded(written.create_write_instruction(0.0))
    assert segment.runs == ((100, 101), (105, 98), (109, 95))
    assert (segment.through, segment.target_next) == (111, 206)


def test_a_batch_whose_first_gap_is_the_run_before_it_goes_on_with_that_run():
    written = writer()
    copy(written, 100, records=3)
    copy(written, 103, 104, 110)
    ((_, segment),) = decoded(written.create_write_instruction(0.0))
    assert segment.runs == ((100, 101), (110, 96))


def test_what_stands_for_more_than_it_holds_moves_the_map_behind_that():
    written = writer()
    batch = copying.outgoing_of(100, 103, ends=120)
    written.add_acknowledged_batch(batch, target=201, crc=1, now_s=0.0)
    assert (written.through, written.target_next) == (120, 203)


# Segments


def copied_with_markers(written, *, batches):
    """Each batch is a run: a marker stands between it and the next."""
    for _ in range(batches):
        copy(written, written.through)
        written.record_transaction_marker(written.target_next + 1, now_s=0.0)


# The head counts 64 bytes, the first run 4 here and each further one 2: 17 runs make 100 bytes.
@pytest.mark.parametrize(("runs", "closes"), [(16, False), (17, True), (30, True)])
def test_a_segment_closes_at_its_size(runs, closes):
    written = writer(segment_bytes=100)
    copied_with_markers(written, batches=runs)
    assert [segment.closed for _, segment in decoded(written.create_write_instruction(0.0))] == (
        [True, False] if closes else [False]
    )


def test_the_next_segment_begins_where_the_closed_one_ended():
    written = writer(segment_bytes=100)
    copied_with_markers(written, batches=17)
    (old_key, old), (new_key, new) = decoded(written.create_write_instruction(0.0))
    assert (old_key.first_source, new_key.first_source) == (100, 117)
    assert (len(old.runs), new.runs) == (17, ())
    assert (new.through, new.target_next) == (old.through, old.target_next) == (117, 235)
    copy(written, 117)
    ((key, segment),) = decoded(written.create_write_instruction(0.0))
    assert (key, segment.runs) == (new_key, ((117, 118),))


def test_a_new_segment_states_its_delta_even_when_it_is_the_old_one():
    written = writer(segment_bytes=100)
    copied_with_markers(written, batches=16)
    copy(written, 116)
    written.create_write_instruction(0.0)
    copy(written, 117)
    ((_, segment),) = decoded(written.create_write_instruction(0.0))
    assert segment.runs == ((117, 117),)


def test_what_a_long_transaction_keeps_from_being_written_is_cut_into_segments(monkeypatch):
    monkeypatch.setattr(offset_map_writer, "UNWRITTEN_BYTES_MAX", 30)
    written = writer()
    copied_with_markers(written, batches=45)
    found = decoded(written.create_write_instruction(0.0))
    assert [len(segment.runs) for _, segment in found] == [14, 14, 14, 3]
    assert [segment.closed for _, segment in found] == [True, True, True, False]
    for (_, one), (key, _) in itertools.pairwise(found):
        assert one.through == key.first_source
        assert one.last_crc == one.through - 1  # its last batch is what it anchors
    assert len(written.create_write_instruction(1.0).items) == 1


@settings(max_examples=examples.of(50), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(1, 5), st.booleans()),
        max_size=120,
    )
)
def test_no_segment_grows_far_beyond_its_size_and_together_they_hold_every_batch(steps):
    written, stored, copied = writer(segment_bytes=128), {}, []
    for skipped, markers, records, write in steps:
        source, target = written.through + skipped, written.target_next + markers
        copy(written, source, records=records, target=target)
        copied.append((source, target))
        if write:
            stored.update(decoded(written.create_write_instruction(0.0)))
    stored.update(decoded(written.create_write_instruction(0.0)))
    segments = sorted(stored.items(), key=lambda each: each[0].first_source)
    assert [segment.closed for _, segment in segments] == [True] * (len(segments) - 1) + [False]
    runs = [run for _, segment in segments for run in segment.runs]
    for source, target in copied:
        delta = [run.delta for run in runs if run.source <= source][-1]
        assert source + delta == target
    for (_, one), (key, _) in itertools.pairwise(segments):
        assert one.through == key.first_source


@settings(max_examples=examples.of(40), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([1, 1, 1, 2, 9]), min_size=1, max_size=8),
            st.integers(0, 2),
            st.booleans(),
        ),
        max_size=40,
    )
)
def test_runs_say_where_every_record_of_gapped_batches_stands(steps):
    written, stored = writer(segment_bytes=128), {}
    placed: dict[int, int] = {}
    for gaps, markers, write in steps:
        offsets = [written.through + gap for gap in itertools.accumulate(gaps)]
        target = written.target_next + markers
        if len(offsets) == 1:
            copy(written, offsets[0], target=target)
        else:
            copy(written, *offsets, target=target)
        placed.update(zip(offsets, itertools.count(target), strict=False))
        if write:
            stored.update(decoded(written.create_write_instruction(0.0)))
    stored.update(decoded(written.create_write_instruction(0.0)))
    segments = sorted(stored.items(), key=lambda each: each[0].first_source)
    runs = [run for _, segment in segments for run in segment.runs]
    for source, target in placed.items():
        assert source + [run.delta for run in runs if run.source <= source][-1] == target


# When to write, and when to wait


def test_there_is_nothing_to_write_without_news():
    written = writer()
    assert (
        written.has_unwritten_progress,
        written.is_write_due(99.0),
        written.is_all_progress_recorded,
    ) == (
        False,
        False,
        True,
    )


@pytest.mark.parametrize(("now_s", "due"), [(10.5, False), (11.0, True)])
def test_news_are_written_once_a_second(now_s, due):
    written = writer()
    written.create_write_instruction(10.0)
    copy(written, 100, now_s=10.1)
    assert written.is_write_due(now_s) == due


@pytest.mark.parametrize(
    "news",
    [
        lambda written: copy(written, 100),
        lambda written: written.record_skipped_offsets(150, source_epoch=1, now_s=0.0),
        lambda written: written.record_transaction_marker(300, now_s=0.0),
    ],
    ids=["a batch", "a skip", "a marker"],
)
def test_whatever_moves_is_news_until_it_is_stored(news):
    written = writer()
    news(written)
    assert written.has_unwritten_progress
    assert not written.is_all_progress_recorded
    token = written.create_write_instruction(0.0).token
    assert not written.has_unwritten_progress
    assert not written.is_all_progress_recorded
    written.on_segments_stored(token)
    assert written.is_all_progress_recorded


@pytest.mark.parametrize(("now_s", "waits"), [(34.9, False), (35.1, True)])
@pytest.mark.parametrize("written_too", [False, True])
def test_the_copy_waits_when_a_batch_is_unrecorded_for_long(now_s, waits, written_too):
    written = writer()
    copy(written, 100, now_s=5.0)
    copy(written, 101, now_s=20.0)
    if written_too:
        written.create_write_instruction(25.0)
        copy(written, 102, now_s=30.0)
    assert written.must_pause_sending(now_s) == waits


def test_storing_a_write_ends_the_wait_for_all_before_it():
    written = writer()
    tokens = []
    for at in range(3):
        copy(written, 100 + at, now_s=float(at))
        tokens.append(written.create_write_instruction(at + 0.5).token)
    assert written.oldest_unrecorded_time_s == 0.0
    written.on_segments_stored(tokens[1])
    assert written.oldest_unrecorded_time_s == 2.0
    assert not written.must_pause_sending(31.9)
    assert written.must_pause_sending(32.1)
    written.on_segments_stored(tokens[2])
    assert not written.must_pause_sending(1e9)
    assert written.oldest_unrecorded_time_s is None


def test_an_answer_to_an_older_take_speaks_of_nothing_written_here():
    older = writer(epoch=4).create_write_instruction(0.0).token
    for newer in (writer(epoch=5), writer(ordinal=4, epoch=0)):
        written = newer.create_write_instruction(0.0).token
        assert written > older
        newer.on_segments_stored(older)
        assert not newer.is_all_progress_recorded


def test_no_segment_has_more_runs_than_readers_accept():
    """The most runs: those of tail matching since the last junction, and those of two batches of
    the smallest records, each after a gap."""
    spans_max = batch_size_limits.ENCODED_BATCH_BYTES_MAX // 15 + 1
    count = target_log_tail_matching.JUNCTION_RUNS - 1 + spans_max
    written = writer()
    for at in range(count):
        written.add_matched_batch(100 + 2 * at, at)
    for first in (count, count + spans_max, count + 2 * spans_max):
        spans = tuple(
            outbound_batches.OffsetSpan(100 + 2 * (first + place), place)
            for place in range(spans_max)
        )
        batch = copying.outgoing_of(100 + 2 * first)._replace(records=spans_max, offset_spans=spans)
        written.add_acknowledged_batch(batch, target=first, crc=1, now_s=0.0)
    items = written.create_write_instruction(0.0).items
    assert len(items) > 2
    for item in items:
        key = offset_map_records.decode_map_key(item.key)
        assert item.value is not None
        assert isinstance(offset_map_records.decode_map_value(key, item.value), MapSegment)
