from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given, settings

from connect_runtime.base import ids
from mm2.core.offsets import offset_map, segment_store
from mm2.formats import map_record
from tests.fakes import copied_map
from tests.fakes.copied_map import T7, era_key, era_of
from tests.support import examples, map_runs

FIRST = map_record.Producer(ordinal=1, era=1)


def segment_key(first_source, *, era=1, ordinal=1, epoch=0):
    owner = dataclasses.asdict(era_key(era, ordinal, epoch))
    return map_record.SegmentKey(**owner, first_source=first_source)


def segment_of(*runs, take_start=0, through, target_next=None):
    if target_next is None:
        target_next = through + runs[-1][1] if runs else 0
    return map_record.Segment(
        leader_epoch=0,
        source_epoch=0,
        owner=b"12345678",
        take_start=take_start,
        through=through,
        target_next=target_next,
        last_crc=None,
        runs=tuple(map_record.Run(*run) for run in runs),
    )


def request_record(request):
    value = map_record.Request(request=request, position="latest")
    return map_record.RequestKey(topic="orders", partition=7), value


def fold(*records):
    known = offset_map.OffsetMap()
    for key, value in records:
        encoded = map_record.encode_value(value) if value is not None else None
        known.apply(map_record.encode_key(key), encoded)
    known.check_invariants()
    return known.partition(T7)


def test_a_partition_that_was_never_recorded_is_empty():
    empty = offset_map.OffsetMap().partition(T7)
    assert (empty.newest_era, empty.eras, empty.anchor) == (0, {}, None)
    assert (empty.open_request, empty.source_position(5)) == (None, None)


def test_partitions_are_kept_apart_and_listed_in_order():
    known = offset_map.OffsetMap()
    for topic, partition in (("b", 1), ("a", 10), ("a", 2)):
        key = map_record.ProducerKey(topic=topic, partition=partition, producer_id=partition)
        known.apply(map_record.encode_key(key), map_record.encode_value(FIRST))
    assert [str(each) for each in known.partitions()] == ["a-2", "a-10", "b-1"]
    assert list(known.partition(ids.TopicPartition("a", 2)).producers) == [2]


@pytest.mark.parametrize(
    ("key", "value", "table"),
    [
        (era_key(1), era_of(), "begun"),
        (
            map_record.ProducerKey(topic="orders", partition=7, producer_id=4711),
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
    key = map_record.encode_key(era_key(1))
    with pytest.raises(map_record.UnknownVersionError):
        offset_map.OffsetMap().apply(b"\x02" + key[1:], None)
    with pytest.raises(map_record.UnknownVersionError):
        offset_map.OffsetMap().apply(key, b"\x02")


# Eras and anchors


def test_the_newest_owners_newest_segment_is_the_anchor():
    found = fold(
        (segment_key(0), segment_of(through=10)),
        (segment_key(20, epoch=1), segment_of(through=30)),
        (segment_key(10, epoch=1), segment_of(through=20)),
        (segment_key(90, epoch=0), segment_of(through=99)),
    )
    assert found.anchor == offset_map.Anchor(
        key=segment_key(20, epoch=1), segment=segment_of(through=30)
    )


def test_a_new_producer_id_is_newer_than_any_epoch_of_the_one_before():
    found = fold(
        (segment_key(0, ordinal=1, epoch=900), segment_of(through=10)),
        (segment_key(0, ordinal=2, epoch=0), segment_of(through=5)),
    )
    assert found.anchor.key.ordinal == 2


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
    assert fold(*stored).untaken == untaken


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
    found = fold(*records).open_request
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
    assert found.source_position(target) == (source, target)


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
    assert found.source_position(target) == (source, target)


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
    assert sorted(key.first_source for key in found.superseded(by)) == superseded


# Against an oracle that writes every record's place down


@settings(max_examples=examples.of(80), deadline=None)
@given(copied_map.owners)
def test_runs_say_where_every_copied_record_stands(owners):
    copied = copied_map.history(owners)
    runs = map_runs.runs(copied.known.partition(T7), 1)
    assert all(one.source < two.source for one, two in itertools.pairwise(runs))
    for source, target in copied.places.items():
        delta = [run.delta for run in runs if run.source <= source][-1]
        assert source + delta == target, (source, runs)


@settings(max_examples=examples.of(80), deadline=None)
@given(copied_map.owners)
def test_a_position_lies_behind_all_that_is_below_the_target_and_before_all_else(owners):
    copied = copied_map.history(owners)
    found = copied.known.partition(T7)
    for target in range(copied.target + 3):
        below = [source for source, at in copied.places.items() if at < target]
        above = [source for source, at in copied.places.items() if at >= target]
        position = found.source_position(target)
        assert position.target == target
        assert max(below, default=9) < position.source, target
        assert position.source <= min(above, default=copied.source), target


@settings(max_examples=examples.of(50), deadline=None)
@given(copied_map.owners)
def test_superseded_segments_change_nothing_when_they_go(owners):
    copied = copied_map.history(owners)
    found = copied.known.partition(T7)
    gone = found.superseded(found.anchor.key)
    kept = {key: each for key, each in found.segments.items() if key not in gone}
    left = dataclasses.replace(found, segments=segment_store.SegmentStore(kept))
    assert map_runs.runs(left, 1) == map_runs.runs(found, 1)
    assert left.anchor == found.anchor
    for target in range(copied.target):
        assert left.source_position(target) == found.source_position(target)


def test_how_far_was_copied():
    assert offset_map.OffsetMap().partition(T7).copied_to is None
    assert fold((era_key(1), era_of(first_source=10))).copied_to == 10
    segment = segment_of((10, -5), through=30)
    begun = ((era_key(1), era_of(first_source=10)), (segment_key(10), segment))
    assert fold(*begun).copied_to == 30


def test_an_unreadable_record_counts_until_another_one_or_a_tombstone_replaces_it():
    known = offset_map.OffsetMap()
    key = map_record.encode_key(segment_key(0))
    known.fold(b"\x01\x03garbage", b"x", offset=3)
    known.fold(b"", b"x", offset=4)
    known.fold(key, b"\x09", offset=5)
    assert [each.offset for each in known.unreadable()] == [3, 4, 5]
    assert [each.offset for each in known.unreadable(T7)] == [3, 4, 5]
    sibling = ids.TopicPartition("orders", 8)
    assert [each.offset for each in known.unreadable(sibling)] == [3, 4, 5]
    other = ids.TopicPartition("users", 7)
    assert [each.offset for each in known.unreadable(other)] == [3, 4]
    known.fold(key, map_record.encode_value(segment_of((0, 5), through=9)), offset=6)
    known.fold(b"\x01\x03garbage", None, offset=7)
    known.fold(b"", None, offset=8)
    assert known.unreadable() == []
    assert known.partition(T7).anchor is not None


def test_a_kind_of_record_that_is_not_known_yet_concerns_the_partition_it_names():
    known = offset_map.OffsetMap()
    key = bytearray(map_record.encode_key(segment_key(0)))
    key[1] = 77
    known.fold(bytes(key), b"x", offset=0)
    assert [each.partition for each in known.unreadable()] == [T7]
    key[0] = 9
    known.fold(bytes(key), b"x", offset=1)
    assert [each.partition for each in known.unreadable()] == [T7, None]
