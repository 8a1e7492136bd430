from __future__ import annotations

import pytest

from mm2.core.copy import setup, stops

WHERE = setup.PartitionSetup(
    flow="a->b", topic="orders", remote_topic="a.orders", partition=7, transactional_id="mm2-x"
)
WAY_ON = "mm2 resume 'a->b' --topic orders --partition 7 --new-era"
REFUSED = stops.refused(WHERE, "no room", retry_after_s=30.0)
DIVERGED = stops.source_diverged(WHERE, end=40, copied=50)

# Each: the stop, its cause, what its message must name.
TABLE = [
    (REFUSED, stops.Cause.REFUSED, ["a.orders-7: no room", "every 30 s"]),
    (
        stops.timestamps_rewritten(WHERE, offset=50),
        stops.Cause.TIMESTAMPS_REWRITTEN,
        ["a.orders-7", "offset 50", "message.timestamp.type=CreateTime on a.orders", WAY_ON],
    ),
    (DIVERGED, stops.Cause.SOURCE_TRUNCATED, ["orders-7", "offset 40", "up to 50", WAY_ON]),
    (
        stops.needs_opening(WHERE, offset=50, why="too old"),
        stops.Cause.NEEDS_OPENING,
        ["orders-7 at source offset 50: too old", WAY_ON],
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
