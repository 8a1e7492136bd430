from __future__ import annotations

import pytest

from mm2.core.copy import ages, counters, crossing, outgoing, source_batches, window
from mm2.formats import record_batch

NOW_MS = 1_790_000_000_000


def sent(*, records=1, size=100, newest_ms=NOW_MS, why=""):
    batch = outgoing.Outgoing(
        batch=memoryview(b""),
        attributes=0,
        records=records,
        source=0,
        next_source=records,
        pieces=(),
        oldest_timestamp=newest_ms,
        max_timestamp=newest_ms,
        source_epoch=0,
        held=0,
        why=why,
    )
    return window.Sent(batch=batch, target=0, crc=0, size=size)


def test_nothing_was_copied_yet():
    begun = counters.Counters()
    assert (begun.records, begun.bytes, begun.batches, begun.age_ms) == (0, 0, 0, 0)
    assert begun.newest_ms == -1


def test_batches_add_up():
    copied = counters.Counters()
    copied.acknowledged(sent(records=3, size=100), now_s=70.0, wall_ms=NOW_MS)
    copied.acknowledged(sent(records=5, size=70), now_s=70.0, wall_ms=NOW_MS)
    assert (copied.records, copied.bytes, copied.batches) == (8, 170, 2)


@pytest.mark.parametrize(
    ("newest_ms", "age_ms"),
    [(NOW_MS - 250, 250), (NOW_MS, 0), (NOW_MS + 9000, 0)],
    ids=["old", "of now", "of a clock that runs ahead"],
)
def test_the_age_is_that_of_the_newest_record_when_it_was_acknowledged(newest_ms, age_ms):
    copied = counters.Counters()
    copied.acknowledged(sent(newest_ms=newest_ms), now_s=70.0, wall_ms=NOW_MS)
    assert (copied.age_ms, copied.newest_ms) == (age_ms, newest_ms)


def test_records_without_timestamps_leave_the_age_as_it_was():
    copied = counters.Counters()
    copied.acknowledged(sent(newest_ms=NOW_MS - 250), now_s=70.0, wall_ms=NOW_MS)
    copied.acknowledged(sent(newest_ms=-1), now_s=70.0, wall_ms=NOW_MS)
    assert (copied.age_ms, copied.newest_ms) == (250, -1)


def test_batches_that_were_made_are_counted_and_the_newest_says_why():
    copied = counters.Counters()
    found = []
    for why in ("", "small batches are merged", "compaction left gaps in it", ""):
        copied.acknowledged(sent(why=why), now_s=70.0, wall_ms=NOW_MS)
        found.append((copied.made, copied.why))
    assert found == [
        (0, ""),
        (1, "small batches are merged"),
        (2, "compaction left gaps in it"),
        (2, ""),
    ]


def fetched(*, newest_ms, records=1):
    header = record_batch.BatchHeader(*[0] * 13)._replace(
        base_timestamp=newest_ms, max_timestamp=newest_ms, record_count=records
    )
    return source_batches.Copyable(header, memoryview(b""), 0, "")


def test_ages_are_told_once_of_what_came_and_of_what_is_stored():
    copied = counters.Counters()
    two = [fetched(newest_ms=NOW_MS - 100, records=3), fetched(newest_ms=NOW_MS - 10)]
    copied.fetched(two, wall_ms=NOW_MS)
    copied.acknowledged(sent(records=3, newest_ms=NOW_MS - 100), now_s=70.0, wall_ms=NOW_MS + 50)
    assert copied.take_ages() == (ages.Ages(4, 310, 10, 100), ages.Ages(3, 450, 150, 150))
    assert copied.take_ages() == (ages.NONE, ages.NONE)
    copied.acknowledged(sent(newest_ms=NOW_MS), now_s=70.0, wall_ms=NOW_MS + 60)
    assert copied.take_ages() == (ages.NONE, ages.Ages(1, 60, 60, 60))


def test_what_crosses_is_told_of_all_partitions_together():
    whole = crossing.Crossing()
    one, other = counters.Counters(crossing=whole), counters.Counters(crossing=whole)
    one.fetched([fetched(newest_ms=NOW_MS - 3), fetched(newest_ms=NOW_MS + 40)], wall_ms=NOW_MS)
    one.acknowledged(sent(records=2, newest_ms=NOW_MS - 7), now_s=70.0, wall_ms=NOW_MS)
    other.acknowledged(sent(records=3, newest_ms=NOW_MS - 60), now_s=70.0, wall_ms=NOW_MS + 1)
    told = whole.take(idle_s=crossing.NEVER_S)
    assert (told.counts[1], told.counts[4], sum(told.counts)) == (2, 3, 5)
    assert (told.sum_ms, told.ahead_ms, told.crossed_s) == (14 + 183, 40, 70.0)


@pytest.mark.parametrize(("code", "spared"), [(46, 3), (47, 3), (90, 3), (45, 0), (6, 0), (10, 0)])
def test_what_is_there_already_or_is_a_newer_owners_was_not_copied_again(code, spared):
    copied = counters.Counters()
    copied.refused(code, sent(records=3))
    assert copied.spared == spared
