from __future__ import annotations

from typing import Any

from mm2.core.copy import first_anchor, outcomes
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


def first_of(**changed: Any) -> tuple[map_record.SegmentKey, map_record.Segment]:
    """Key and segment of the first record that the map of this take writes."""
    (item,) = first_anchor.map_of(taking.context(), taken(**changed)).write(0.0).items
    key = map_record.decode_key(item.key)
    assert isinstance(key, map_record.SegmentKey)
    segment = map_record.decode_value(key, item.value or b"")
    assert isinstance(segment, map_record.Segment)
    return key, segment


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
