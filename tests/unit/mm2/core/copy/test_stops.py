from __future__ import annotations

import pytest

from mm2.core.copy import setup, stops
from mm2.formats import map_record

WHERE = setup.PartitionSetup(
    flow="a->b", topic="orders", remote_topic="a.orders", partition=7, transactional_id="mm2-x"
)
WAY_ON = "mm2 resume 'a->b' --topic orders --partition 7 --new-era"
REFUSED = stops.refused(WHERE, "no room", retry_after_s=30.0)
DIVERGED = stops.source_diverged(WHERE, end=40, copied=50)

# Each: the stop, its cause, what its message must name.
TABLE = [
    (REFUSED, stops.Cause.REFUSED, ["a.orders-7: no room"]),
    (
        stops.timestamps_rewritten(WHERE, offset=50),
        stops.Cause.TIMESTAMPS_REWRITTEN,
        ["a.orders-7", "offset 50", "message.timestamp.type=CreateTime on a.orders", WAY_ON],
    ),
    (DIVERGED, stops.Cause.SOURCE_TRUNCATED, ["orders-7", "offset 40", "up to 50", WAY_ON]),
    (
        stops.mirror_unreadable(WHERE, offset=50, why="it is damaged"),
        stops.Cause.NOT_PAIRED,
        ["a.orders-7 at offset 50: it is damaged", WAY_ON],
    ),
    (
        stops.corrupt(WHERE, offset=50, why="bad checksum"),
        stops.Cause.CORRUPT,
        ["orders-7 at source offset 50: bad checksum", "replicas", WAY_ON],
    ),
]


@pytest.mark.parametrize(("stop", "cause", "names"), TABLE, ids=lambda each: str(each)[:20])
def test_a_stop_says_where_what_and_how_to_go_on(stop, cause, names):
    assert stop.cause is cause
    for name in names:
        assert name in stop.message


@pytest.mark.parametrize(("stop", "cause", "_"), TABLE, ids=lambda each: str(each)[:20])
def test_only_what_others_can_repair_is_tried_again(stop, cause, _):
    assert stop.retry_after_s == (30.0 if cause is stops.Cause.REFUSED else None)


def test_the_way_on_stops_the_flow_first():
    assert stops.way_on(WHERE).startswith(f"stop the flow, then: {WAY_ON} ")


def test_causes_are_told_apart_by_their_names():
    names = [cause.value for cause in stops.Cause]
    assert len(names) == len(set(names)) == len(stops.Cause.__members__)


OLD_ID, NEW_ID = b"1" * 16, b"2" * 16


@pytest.mark.parametrize(
    ("on_target", "side"), [(True, "mirror topic a.orders"), (False, "source topic orders")]
)
def test_a_recreated_topic_is_told_with_both_ids(on_target, side):
    stop = stops.recreated(WHERE, on_target=on_target, was=OLD_ID, now=NEW_ID)
    assert stop is not None
    assert (stop.cause, stop.retry_after_s) == (stops.Cause.RECREATED, None)
    for name in (side, OLD_ID.hex(), NEW_ID.hex(), WAY_ON):
        assert name in stop.message


@pytest.mark.parametrize(
    ("was", "now"),
    [(OLD_ID, OLD_ID), (OLD_ID, map_record.NO_TOPIC_ID), (map_record.NO_TOPIC_ID, NEW_ID)],
    ids=["the same", "not known now", "not known then"],
)
def test_topic_ids_that_agree_or_are_unknown_stop_nothing(was, now):
    assert stops.recreated(WHERE, on_target=True, was=was, now=now) is None
