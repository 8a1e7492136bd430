from __future__ import annotations

from typing import Any

from mm2.core.copy import first_anchor, outcomes, pairing
from mm2.formats import map_record
from tests.fakes import taking

RUNS = (map_record.Run(100, 20), map_record.Run(103, 25))


def taken(**changed: Any) -> outcomes.Taken:
    given: dict[str, Any] = {
        "producer": taking.US,
        "leader_epoch": 2,
        "era": 3,
        "ordinal": 4,
        "take_start": 100,
        "source": 110,
        "target": 140,
        "source_epoch": 9,
    }
    return outcomes.Taken(**(given | changed))


def written_of(**changed: Any) -> list[tuple[map_record.SegmentKey, map_record.Segment]]:
    """Keys and segments of what the map of this take writes first."""
    found = []
    for item in first_anchor.map_of(taking.context(), taken(**changed)).write(0.0).items:
        key = map_record.decode_key(item.key)
        assert isinstance(key, map_record.SegmentKey)
        segment = map_record.decode_value(key, item.value or b"")
        assert isinstance(segment, map_record.Segment)
        found.append((key, segment))
    return found


def first_of(**changed: Any) -> tuple[map_record.SegmentKey, map_record.Segment]:
    (only,) = written_of(**changed)
    return only


def test_the_first_anchor_says_who_took_the_partition_and_where_it_goes_on():
    key, segment = first_of()
    assert (key.topic, key.partition) == ("orders", 4)
    assert (key.era, key.ordinal, key.epoch) == (3, 4, taking.US.epoch)
    assert (segment.through, segment.target_next, segment.take_start) == (110, 140, 100)
    assert (segment.leader_epoch, segment.source_epoch, segment.owner) == (2, 9, taking.ME)


def test_what_pairing_learned_is_in_it():
    _, segment = first_of(runs=RUNS)
    assert segment.runs == RUNS


def test_a_take_that_paired_nothing_has_no_runs():
    _, segment = first_of()
    assert segment.runs == ()
    assert segment.last_crc is None


def test_without_news_nothing_more_is_written():
    written = first_anchor.map_of(taking.context(), taken(runs=RUNS))
    written.recorded(written.write(0.0).token)
    assert not written.has_news
    assert written.fully_recorded


def test_at_a_seam_the_map_is_cut_into_segments_that_are_anchors_themselves():
    seam = pairing.Seam(runs=1, source=103, target=126, source_epoch=8)
    (early_key, early), (late_key, late) = written_of(runs=RUNS, seams=(seam,))
    assert (early_key.first_source, late_key.first_source) == (100, 103)
    assert (early.runs, late.runs) == (RUNS[:1], RUNS[1:])
    assert (early.through, early.target_next, early.source_epoch) == (103, 126, 8)
    assert (early.take_start, early.last_crc, early.closed) == (100, None, True)
    assert (late.through, late.target_next, late.source_epoch) == (110, 140, 9)
    assert (late.take_start, late.closed) == (100, False)


def test_the_runs_of_a_long_tail_fit_into_records_that_a_topic_takes():
    count = 150_000
    runs = tuple(map_record.Run(2 * at, 7 - at) for at in range(count))
    seams = tuple(
        pairing.Seam(runs=at, source=2 * at, target=at + 7, source_epoch=1)
        for at in range(pairing.SEGMENT_RUNS, count, pairing.SEGMENT_RUNS)
    )
    whole = taken(runs=runs, seams=seams, take_start=0, source=2 * count, target=count + 7)
    items = first_anchor.map_of(taking.context(), whole).write(0.0).items
    assert sum(len(item.value or b"") for item in items) > 250_000
    assert max(len(item.value or b"") for item in items) < 200_000
