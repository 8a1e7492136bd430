"""The segments of one partition's map, kept as they were stored.

Places in one era's map: exact, between two bounds, or not known any more."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given, settings

from connect_runtime.base.ids import TopicPartition
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import (
    MapProducer,
    MapProducerKey,
    MapSegment,
    MapSegmentKey,
    NewEraRequest,
    NewEraRequestKey,
    OffsetRun,
    UnknownMapVersionError,
)
from mm2.offsets.offset_map import (
    EraRuns,
    OffsetBounds,
    OffsetMap,
    PartitionMap,
    ResumePoint,
    SegmentStore,
)
from tests.fakes import copied_map
from tests.fakes.copied_map import T7, era_key, era_of
from tests.support import examples, map_runs

KEY = MapSegmentKey(topic="t", partition=1, era=1, ordinal=1, epoch=0, first_source=0)
SEGMENT = MapSegment(
    leader_epoch=1,
    source_epoch=0,
    owner=bytes(8),
    acquired_from=0,
    through=9,
    target_next=8,
    last_crc=None,
    runs=(OffsetRun(0, 0), OffsetRun(5, -2)),
    closed=False,
)
LATER = dataclasses.replace(SEGMENT, through=11, target_next=10)


def test_a_segment_is_what_was_stored_last():
    store = SegmentStore({KEY: SEGMENT})
    assert dict(store) == {KEY: SEGMENT}
    store.store_segment(KEY, offset_map_records.encode_map_value(LATER))
    assert (len(store), store[KEY]) == (1, LATER)


def test_a_tombstone_takes_it_away():
    store = SegmentStore({KEY: SEGMENT})
    for _ in range(2):
        store.store_segment(KEY, None)
    assert (len(store), list(store)) == (0, [])
    with pytest.raises(KeyError):
        store[KEY]


def stored(first, through, **more):
    key = dataclasses.replace(KEY, first_source=first)
    changed = {"through": through, "runs": (OffsetRun(first, 0),), **more}
    return key, offset_map_records.encode_map_value(dataclasses.replace(SEGMENT, **changed))


def firsts(store):
    (mine,) = store.owners
    return list(mine.select_valid_segments().firsts), [
        key.first_source for key in mine.list_obsolete_keys()
    ]


def test_what_goes_on_where_the_one_before_ended_is_whole():
    store = SegmentStore()
    for first in (0, 10, 20):
        store.store_segment(*stored(first, first + 5))
        store.store_segment(*stored(first, first + 10))
        assert firsts(store) == (list(range(0, first + 1, 10)), [])


def test_what_another_has_taken_in_does_not_count():
    store = SegmentStore()
    for first in (0, 10, 20):
        store.store_segment(*stored(first, first + 10))
    assert firsts(store) == ([0, 10, 20], [])
    store.store_segment(*stored(0, 20, below=1))
    assert firsts(store) == ([0, 20], [10])
    store.store_segment(stored(10, 20)[0], None)
    assert firsts(store) == ([0, 20], [])


def test_before_a_gap_nothing_counts():
    store = SegmentStore()
    for first in (0, 10, 20, 30):
        store.store_segment(*stored(first, first + 10))
    store.store_segment(stored(10, 20)[0], None)
    assert firsts(store) == ([20, 30], [0])
    store.store_segment(*stored(40, 50))
    assert firsts(store) == ([20, 30, 40], [0])
    store.store_segment(*stored(55, 60))
    assert firsts(store) == ([55], [0, 20, 30, 40])


def test_owners_are_told_in_their_order_and_the_newest_has_the_anchor():
    assert SegmentStore().newest_segment_key is None
    store = SegmentStore()
    for epoch, era in ((2, 1), (0, 1), (1, 2)):
        key, value = stored(0, 9)
        store.store_segment(dataclasses.replace(key, epoch=epoch, era=era), value)
    assert [each.owner for each in store.owners] == [(1, 0, 1), (1, 1, 2), (1, 2, 1)]
    assert [each.owner for each in store.list_owners_of_era(1)] == [(1, 0, 1), (1, 2, 1)]
    newest = store.newest_segment_key
    assert newest is not None
    assert newest.epoch == 2


Between = OffsetBounds
ERA = era_of(first_source=10, first_target=3)


def segment(first, *runs, through, target_next, epoch=0, take_start=10, below=0, above=0):
    key = MapSegmentKey(
        topic="orders", partition=7, era=1, ordinal=1, epoch=epoch, first_source=first
    )
    return key, MapSegment(
        leader_epoch=0,
        source_epoch=0,
        owner=b"12345678",
        acquired_from=take_start,
        through=through,
        target_next=target_next,
        last_crc=None,
        runs=tuple(OffsetRun(*run) for run in runs),
        below=below,
        above=above,
    )


def runs(*segments):
    return EraRuns.from_segments(SegmentStore(dict(segments)), 1, ERA)


THINNED = segment(10, (12, -5), (30, -9), through=50, target_next=42, below=3, above=2)
NEXT = segment(50, (50, -7), through=60, target_next=53)


def test_nothing_was_copied_yet():
    found = runs()
    assert (found.through, found.target_next, found.floor) == (10, 3, 10)
    assert found.translate_to_target(10) == (3, 3)
    assert found.translate_to_source(5) == (10, 10)


@pytest.mark.parametrize(
    ("upstream", "between"),
    [
        (11, Between(7, 7)),
        (12, Between(7, 7)),
        (13, Between(8, 10)),
        (20, Between(12, 17)),
        (25, Between(17, 21)),
        (30, Between(21, 21)),
        (49, Between(37, 42)),
        (50, Between(43, 43)),
        (55, Between(48, 48)),
    ],
)
def test_where_runs_were_left_out_a_place_lies_between_two_bounds(upstream, between):
    """The run kept before and the one kept behind hold it, too."""
    assert runs(THINNED, NEXT).translate_to_target(upstream) == between


@pytest.mark.parametrize(
    ("downstream", "between", "sure"),
    [
        (7, Between(12, 12), (12, 7)),
        (8, Between(13, 16), (12, 7)),
        (20, Between(23, 28), (12, 7)),
        (21, Between(30, 30), (30, 21)),
        (40, Between(47, 50), (30, 21)),
        (43, Between(50, 50), (50, 43)),
        (48, Between(55, 55), (55, 48)),
    ],
)
def test_so_it_is_the_other_way_and_a_sure_place_is_before_it(downstream, between, sure):
    found = runs(THINNED, NEXT)
    assert found.translate_to_source(downstream) == between
    assert found.find_exact_pair_before(downstream) == sure


def test_what_was_deleted_is_not_known():
    found = runs(NEXT)
    assert found.floor == 50
    assert found.translate_to_source(42) is None
    assert found.find_exact_pair_before(42) is None
    assert found.translate_to_source(43) == (50, 50)


def test_a_newer_owner_counts_from_its_take_on():
    newer = segment(45, (45, 5), through=70, target_next=75, epoch=1, take_start=45)
    found = runs(THINNED, NEXT, newer)
    assert found.ends == [45, 70]
    assert found.translate_to_target(44) == Between(32, 37)
    assert found.translate_to_target(55) == Between(60, 60)
    assert found.translate_to_source(49) == Between(45, 45)


def test_what_lies_before_a_gap_between_owners_is_not_relied_on():
    newer = segment(65, (65, 5), through=70, target_next=75, epoch=1, take_start=65)
    found = runs(THINNED, NEXT, newer)
    assert found.floor == 65
    assert found.translate_to_source(48) is None


def test_who_stored_late_hides_nothing_that_an_older_one_copied():
    """It took at 55 and was fenced; the newest had gone on from 60 when its anchor arrived."""
    late = segment(55, through=55, target_next=54, epoch=1, take_start=55)
    newest = segment(60, (60, -5), through=70, target_next=65, epoch=2, take_start=60)
    found = runs(THINNED, NEXT, late, newest)
    assert (found.floor, found.ends) == (10, [60, 70])
    assert found.translate_to_target(57) == Between(50, 50)
    assert found.translate_to_source(50) == Between(57, 57)


FIRST = MapProducer(ordinal=1, era=1)


def segment_key(first_source, *, era=1, ordinal=1, epoch=0):
    owner = dataclasses.asdict(era_key(era, ordinal, epoch))
    return MapSegmentKey(**owner, first_source=first_source)


def segment_of(*runs, take_start=0, through, target_next=None):
    if target_next is None:
        target_next = through + runs[-1][1] if runs else 0
    return MapSegment(
        leader_epoch=0,
        source_epoch=0,
        owner=b"12345678",
        acquired_from=take_start,
        through=through,
        target_next=target_next,
        last_crc=None,
        runs=tuple(OffsetRun(*run) for run in runs),
    )


def request_record(request):
    value = NewEraRequest(request=request, position="latest")
    return NewEraRequestKey(topic="orders", partition=7), value


def fold(*records):
    known = OffsetMap()
    for key, value in records:
        encoded = offset_map_records.encode_map_value(value) if value is not None else None
        known.apply_record(offset_map_records.encode_map_key(key), encoded)
    known.check_invariants()
    return known.get_partition(T7)


def test_a_partition_that_was_never_recorded_is_empty():
    empty = OffsetMap().get_partition(T7)
    assert (empty.newest_era, empty.eras, empty.resume_point) == (0, {}, None)
    assert (empty.pending_era_request, empty.find_resume_position(5)) == (None, None)


def test_partitions_are_kept_apart_and_listed_in_order():
    known = OffsetMap()
    for topic, partition in (("b", 1), ("a", 10), ("a", 2)):
        key = MapProducerKey(topic=topic, partition=partition, producer_id=partition)
        known.apply_record(
            offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(FIRST)
        )
    assert [str(each) for each in known.list_partitions()] == ["a-2", "a-10", "b-1"]
    assert list(known.get_partition(TopicPartition("a", 2)).producers) == [2]


@pytest.mark.parametrize(
    ("key", "value", "table"),
    [
        (era_key(1), era_of(), "era_records"),
        (
            MapProducerKey(topic="orders", partition=7, producer_id=4711),
            FIRST,
            "producers",
        ),
        (segment_key(0), segment_of(through=5), "segments"),
        (*request_record("r"), "request"),
    ],
    ids=["era", "producer", "segment", "request"],
)
def test_a_tombstone_takes_a_record_back_and_may_come_twice(key, value, table):
    assert getattr(fold((key, value)), table)
    assert not getattr(fold((key, value), (key, None), (key, None)), table)


def test_a_record_of_another_version_is_refused():
    key = offset_map_records.encode_map_key(era_key(1))
    with pytest.raises(UnknownMapVersionError):
        OffsetMap().apply_record(b"\x02" + key[1:], None)
    with pytest.raises(UnknownMapVersionError):
        OffsetMap().apply_record(key, b"\x02")


# Eras and anchors


def test_the_newest_owners_newest_segment_is_the_anchor():
    found = fold(
        (segment_key(0), segment_of(through=10)),
        (segment_key(20, epoch=1), segment_of(through=30)),
        (segment_key(10, epoch=1), segment_of(through=20)),
        (segment_key(90, epoch=0), segment_of(through=99)),
    )
    assert found.resume_point == ResumePoint(
        key=segment_key(20, epoch=1), segment=segment_of(through=30)
    )


def test_a_new_producer_id_is_newer_than_any_epoch_of_the_one_before():
    found = fold(
        (segment_key(0, ordinal=1, epoch=900), segment_of(through=10)),
        (segment_key(0, ordinal=2, epoch=0), segment_of(through=5)),
    )
    assert found.resume_point.key.ordinal == 2


@pytest.mark.parametrize(
    ("era", "anchor", "untaken"),
    [
        (era_key(1), None, False),
        (None, segment_key(0), False),
        (era_key(1), segment_key(0), False),
        (era_key(1), segment_key(0, epoch=4), False),
        (era_key(2, epoch=5), segment_key(0, epoch=4), True),
        (era_key(1, epoch=5), segment_key(0, epoch=4), True),
        (era_key(2, epoch=3), segment_key(0, epoch=4), False),
    ],
    ids=[
        "no anchor yet",
        "no era",
        "of one owner",
        "a newer owner went on in it",
        "a new era",
        "the same era, begun by a newer owner too",
        "a late owner's era",
    ],
)
def test_an_era_of_a_newer_owner_than_the_anchors_holds_nothing_yet(era, anchor, untaken):
    stored = [(era, era_of())] if era else []
    stored += [(anchor, segment_of(through=3))] if anchor else []
    assert fold(*stored).is_newest_era_empty == untaken


# Each line: owners' (era, ordinal, epoch) in order of storing, whether they only began the era
# ("e"), or also or only wrote segments ("es", "s"); the eras that stand; the newest.
ERA_TABLE = [
    ([("es", 1, 1, 0)], [1], 1),
    ([("es", 1, 1, 0), ("s", 1, 1, 1)], [1], 1),
    ([("es", 1, 1, 0), ("es", 2, 1, 1)], [1, 2], 2),
    ([("es", 1, 1, 0), ("e", 2, 1, 1)], [1, 2], 2),
    # A late owner (epoch 1) began era 2 when the newer one (epoch 2) had read the map already.
    ([("es", 1, 1, 0), ("s", 1, 1, 2), ("e", 2, 1, 1)], [1], 1),
    ([("es", 1, 1, 0), ("s", 1, 1, 2), ("es", 2, 1, 1)], [1], 1),
    # Both began era 2: the newer owner's stands, in whatever order they were stored.
    ([("es", 1, 1, 0), ("e", 2, 1, 1), ("es", 2, 1, 2)], [1, 2], 2),
    ([("es", 1, 1, 0), ("es", 2, 1, 2), ("e", 2, 1, 1)], [1, 2], 2),
    # The newer owner went on in the late one's era.
    ([("es", 1, 1, 0), ("e", 2, 1, 1), ("s", 2, 1, 2)], [1, 2], 2),
]


@pytest.mark.parametrize(("stored", "standing", "newest"), ERA_TABLE)
def test_eras_that_nobody_went_on_in_do_not_stand(stored, standing, newest):
    records = []
    for what, era, ordinal, epoch in stored:
        if "e" in what:
            records.append((era_key(era, ordinal, epoch), era_of(first_source=100 * epoch)))
        if "s" in what:
            key = segment_key(0, era=era, ordinal=ordinal, epoch=epoch)
            records.append((key, segment_of(through=1)))
    found = fold(*records)
    assert (sorted(found.eras), found.newest_era) == (standing, newest)
    # Of two with one number the newest owner's.
    epochs = [epoch for what, era, _, epoch in stored if "e" in what and era == standing[-1]]
    assert found.eras[standing[-1]].first_source == 100 * max(epochs)


# Requests


@pytest.mark.parametrize(
    ("requests", "answers", "still_open"),
    [
        ([], [], None),
        (["r1"], [], "r1"),
        (["r1"], [""], "r1"),
        (["r1"], ["r1"], None),
        (["r1", "r2"], ["r1"], "r2"),
        (["r1", "r2"], [], "r2"),
    ],
)
def test_a_request_is_open_until_an_era_answers_it(requests, answers, still_open):
    records = [request_record(each) for each in requests]
    records += [(era_key(at), era_of(request=each)) for at, each in enumerate(answers, 1)]
    found = fold(*records).pending_era_request
    assert (found.request if found is not None else None) == still_open


# Runs and positions


def test_a_newer_owner_cuts_what_older_ones_say_from_its_start_on():
    found = fold(
        (segment_key(0), segment_of((0, 1), (50, 3), through=80)),
        (segment_key(80), segment_of((80, 5), through=100)),
        (segment_key(60, epoch=1), segment_of((60, 40), take_start=60, through=90)),
    )
    assert map_runs.runs(found, 1) == [(0, 1), (50, 3), (60, 40)]


def test_neighbouring_runs_with_one_delta_are_one():
    found = fold(
        (segment_key(0), segment_of((0, 1), through=50)),
        (segment_key(50), segment_of((50, 1), (70, 2), through=80)),
    )
    assert map_runs.runs(found, 1) == [(0, 1), (70, 2)]


@pytest.mark.parametrize(
    ("target", "source"),
    [(0, 0), (1, 0), (5, 4), (10, 9), (11, 10), (12, 10), (13, 11), (22, 20), (23, 20), (99, 20)],
)
def test_a_position_never_passes_what_is_not_below_the_target_offset(target, source):
    # Sources 0..9 at targets 1..10, a marker at 11, sources 10..19 at 12..21.
    found = fold(
        (era_key(1), era_of(first_source=0, first_target=1)),
        (segment_key(0), segment_of((0, 1), (10, 2), through=20)),
    )
    assert found.find_resume_position(target) == (source, target)


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (0, 0),
        (1, 0),
        (30, 29),
        (50, 40),  # era 1 is at 49, but era 2 copied 40 and on again behind it
        (150, 40),
        (200, 40),
        (230, 70),
        (999, 80),
    ],
)
def test_a_later_era_that_began_lower_holds_the_position_down(target, source):
    found = fold(
        (era_key(1), era_of(first_source=0, first_target=1)),
        (segment_key(0), segment_of((0, 1), through=100)),
        (era_key(2, epoch=1), era_of(first_source=40, first_target=200)),
        (segment_key(40, era=2, epoch=1), segment_of((40, 160), take_start=40, through=80)),
    )
    assert found.find_resume_position(target) == (source, target)


@pytest.mark.parametrize(
    ("by_start", "superseded"), [(0, [0, 50, 90]), (50, [50, 90]), (51, [90]), (91, [])]
)
def test_older_segments_at_or_above_the_new_start_are_superseded(by_start, superseded):
    older = [(segment_key(at), segment_of(through=at + 40)) for at in (0, 50, 90)]
    by = segment_key(by_start, epoch=1)
    others = [
        (segment_key(95, epoch=2), segment_of(through=99)),
        (segment_key(95, era=2), segment_of(through=99)),
    ]
    ours = segment_of(take_start=by_start, through=by_start)
    found = fold(*older, *others, (by, ours))
    assert sorted(key.first_source for key in found.list_superseded_keys(by)) == superseded


# Against an oracle that writes every record's place down


@settings(max_examples=examples.of(80), deadline=None)
@given(copied_map.owners)
def test_runs_say_where_every_copied_record_stands(owners):
    copied = copied_map.history(owners)
    runs = map_runs.runs(copied.known.get_partition(T7), 1)
    assert all(one.source < two.source for one, two in itertools.pairwise(runs))
    for source, target in copied.places.items():
        delta = [run.delta for run in runs if run.source <= source][-1]
        assert source + delta == target, (source, runs)


@settings(max_examples=examples.of(80), deadline=None)
@given(copied_map.owners)
def test_a_position_lies_behind_all_that_is_below_the_target_and_before_all_else(owners):
    copied = copied_map.history(owners)
    found = copied.known.get_partition(T7)
    for target in range(copied.target + 3):
        below = [source for source, at in copied.places.items() if at < target]
        above = [source for source, at in copied.places.items() if at >= target]
        position = found.find_resume_position(target)
        assert position.target == target
        assert max(below, default=9) < position.source, target
        assert position.source <= min(above, default=copied.source), target


@settings(max_examples=examples.of(50), deadline=None)
@given(copied_map.owners)
def test_superseded_segments_change_nothing_when_they_go(owners):
    copied = copied_map.history(owners)
    found = copied.known.get_partition(T7)
    gone = found.list_superseded_keys(found.resume_point.key)
    kept = {key: each for key, each in found.segments.items() if key not in gone}
    left = dataclasses.replace(found, segments=SegmentStore(kept))
    assert map_runs.runs(left, 1) == map_runs.runs(found, 1)
    assert left.resume_point == found.resume_point
    for target in range(copied.target):
        assert left.find_resume_position(target) == found.find_resume_position(target)


def test_nothing_is_resumed_from_the_era_of_a_rebuilt_map_alone():
    """Its number is 0."""
    rebuilt = dataclasses.replace(KEY, era=0, ordinal=0)
    segments = SegmentStore({rebuilt: SEGMENT})
    begun = {dataclasses.replace(era_key(1), era=0, ordinal=0): era_of(first_source=0)}
    alone = PartitionMap(era_records=begun, segments=segments)
    assert alone.find_resume_position(6) is None
    with_another = dataclasses.replace(alone, era_records={**begun, era_key(1): era_of(20, 50)})
    assert with_another.find_resume_position(6) == (20, 6)


def test_how_far_was_copied():
    assert OffsetMap().get_partition(T7).next_source_offset is None
    assert fold((era_key(1), era_of(first_source=10))).next_source_offset == 10
    segment = segment_of((10, -5), through=30)
    begun = ((era_key(1), era_of(first_source=10)), (segment_key(10), segment))
    assert fold(*begun).next_source_offset == 30


def test_an_unreadable_record_counts_until_another_one_or_a_tombstone_replaces_it():
    known = OffsetMap()
    key = offset_map_records.encode_map_key(segment_key(0))
    known.apply_record_or_keep_unreadable(b"\x01\x03garbage", b"x", offset=3)
    known.apply_record_or_keep_unreadable(b"", b"x", offset=4)
    known.apply_record_or_keep_unreadable(key, b"\x09", offset=5)
    assert [each.offset for each in known.list_unreadable_records()] == [3, 4, 5]
    assert [each.offset for each in known.list_unreadable_records(T7)] == [3, 4, 5]
    sibling = TopicPartition("orders", 8)
    assert [each.offset for each in known.list_unreadable_records(sibling)] == [3, 4, 5]
    other = TopicPartition("users", 7)
    assert [each.offset for each in known.list_unreadable_records(other)] == [3, 4]
    known.apply_record_or_keep_unreadable(
        key, offset_map_records.encode_map_value(segment_of((0, 5), through=9)), offset=6
    )
    known.apply_record_or_keep_unreadable(b"\x01\x03garbage", None, offset=7)
    known.apply_record_or_keep_unreadable(b"", None, offset=8)
    assert known.list_unreadable_records() == []
    assert known.get_partition(T7).resume_point is not None


def test_a_kind_of_record_that_is_not_known_yet_concerns_the_partition_it_names():
    known = OffsetMap()
    key = bytearray(offset_map_records.encode_map_key(segment_key(0)))
    key[1] = 77
    known.apply_record_or_keep_unreadable(bytes(key), b"x", offset=0)
    assert [each.partition for each in known.list_unreadable_records()] == [T7]
    key[0] = 9
    known.apply_record_or_keep_unreadable(bytes(key), b"x", offset=1)
    assert [each.partition for each in known.list_unreadable_records()] == [T7, None]


def test_segments_are_applied_without_decoding_their_runs(monkeypatch):
    """Otherwise a few hundred kilobytes of the topic, decompressed, take hours to read."""
    runs = tuple((at, at) for at in range(1, 100))
    value = offset_map_records.encode_map_value(segment_of(*runs, through=200))
    monkeypatch.setattr(
        offset_map_records, "read_offset_runs", lambda *_, **__: pytest.fail("decoded")
    )
    known = OffsetMap()
    key = offset_map_records.encode_map_key(segment_key(0))
    known.apply_record_or_keep_unreadable(key, value, offset=1)
    assert known.list_unreadable_records() == []
    monkeypatch.setattr(offset_map_records, "SEGMENT_RUNS_MAX", 98)
    known.apply_record_or_keep_unreadable(key, value, offset=2)
    (unreadable,) = known.list_unreadable_records(T7)
    assert "99 runs, but at most 98" in unreadable.why
