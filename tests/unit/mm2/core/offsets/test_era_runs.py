"""Places in one era's map: exact, between two bounds, or not known any more."""

from __future__ import annotations

import pytest

from mm2.core.offsets import era_runs, segment_store
from mm2.formats import map_record
from tests.fakes import copied_map

Between = era_runs.Between
ERA = copied_map.era_of(first_source=10, first_target=3)


def segment(first, *runs, through, target_next, epoch=0, take_start=10, below=0, above=0):
    key = map_record.SegmentKey(
        topic="orders", partition=7, era=1, ordinal=1, epoch=epoch, first_source=first
    )
    return key, map_record.Segment(
        leader_epoch=0,
        source_epoch=0,
        owner=b"12345678",
        take_start=take_start,
        through=through,
        target_next=target_next,
        last_crc=None,
        runs=tuple(map_record.Run(*run) for run in runs),
        below=below,
        above=above,
    )


def runs(*segments):
    return era_runs.EraRuns.of(segment_store.SegmentStore(dict(segments)), 1, ERA)


THINNED = segment(10, (12, -5), (30, -9), through=50, target_next=42, below=3, above=2)
NEXT = segment(50, (50, -7), through=60, target_next=53)


def test_nothing_was_copied_yet():
    found = runs()
    assert (found.through, found.target_next, found.floor) == (10, 3, 10)
    assert found.place(10) == (3, 3)
    assert found.place_back(5) == (10, 10)


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
    assert runs(THINNED, NEXT).place(upstream) == between


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
    assert found.place_back(downstream) == between
    assert found.sure_before(downstream) == sure


def test_what_was_deleted_is_not_known():
    found = runs(NEXT)
    assert found.floor == 50
    assert found.place_back(42) is None
    assert found.sure_before(42) is None
    assert found.place_back(43) == (50, 50)


def test_a_newer_owner_counts_from_its_take_on():
    newer = segment(45, (45, 5), through=70, target_next=75, epoch=1, take_start=45)
    found = runs(THINNED, NEXT, newer)
    assert found.ends == [45, 70]
    assert found.place(44) == Between(32, 37)
    assert found.place(55) == Between(60, 60)
    assert found.place_back(49) == Between(45, 45)


def test_what_lies_before_a_gap_between_owners_is_not_relied_on():
    newer = segment(65, (65, 5), through=70, target_next=75, epoch=1, take_start=65)
    found = runs(THINNED, NEXT, newer)
    assert found.floor == 65
    assert found.place_back(48) is None


def test_who_stored_late_hides_nothing_that_an_older_one_copied():
    """It took at 55 and was fenced; the newest had gone on from 60 when its anchor arrived."""
    late = segment(55, through=55, target_next=54, epoch=1, take_start=55)
    newest = segment(60, (60, -5), through=70, target_next=65, epoch=2, take_start=60)
    found = runs(THINNED, NEXT, late, newest)
    assert (found.floor, found.ends) == (10, [60, 70])
    assert found.place(57) == Between(50, 50)
    assert found.place_back(50) == Between(57, 57)
