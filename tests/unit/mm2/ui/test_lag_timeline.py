from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.status.status_document import FlowReport, PartitionReport, ReportedFlowState
from mm2.ui import lag_timeline
from mm2.ui.lag_timeline import Timeline
from tests.support import statuses

FLOW = "east->west"


def report(*parts, flow=FLOW, at_ms=1_000):
    return FlowReport(
        flow=flow,
        seen_by=("process 1",),
        at_ms=at_ms,
        state=ReportedFlowState.RUNNING,
        partitions=parts,
    )


def part(number=0, *, copied_to=5, end=9, waiting_since_ms=None):
    return PartitionReport(
        topic="orders",
        partition=number,
        mirror="east.orders",
        state="copying",
        copied_to=copied_to,
        end=end,
        waiting_since_ms=waiting_since_ms,
    )


class Past:
    """A timeline that is told what was copied so far, ten seconds apart."""

    def __init__(self):
        self.fold = Timeline()
        self.now_s = 0.0

    def look(self, *shown, reported=None, after_s=10.0):
        self.now_s += after_s
        reported = report(part(), at_ms=int(self.now_s * 1000)) if reported is None else reported
        self.fold.add_snapshot(
            [statuses.flow(*shown)], [reported], now_s=self.now_s, wall_ms=int(self.now_s * 1000)
        )
        self.fold.check_invariants()
        return self.fold.get_points(FLOW)[-1]


def copied(records, number=0, *, size=0):
    return statuses.partition(number=number, records=records, bytes=size)


def test_rates_are_means_between_two_looks_and_unknown_at_the_first():
    past = Past()
    first = past.look(copied(1_000, size=50_000))
    assert (first.records_s, first.bytes_s) == (None, None)
    second = past.look(copied(1_300, size=80_000))
    assert (second.records_s, second.bytes_s) == (30.0, 3_000.0)


def test_what_comes_to_this_process_counts_and_what_leaves_it_does_not_count_backwards():
    past = Past()
    past.look(copied(500))
    assert past.look(copied(500), copied(70, 1)).records_s == 7.0
    assert past.look(copied(90, 1)).records_s == 2.0


def test_who_counts_anew_counts_from_nothing():
    past = Past()
    past.look(copied(500, size=9_000))
    again = past.look(copied(40, size=600))
    assert (again.records_s, again.bytes_s) == (4.0, 60.0)


def test_no_time_between_two_looks_is_no_rate():
    past = Past()
    past.look(copied(1))
    assert past.look(copied(2), after_s=0.0).records_s is None


def test_a_lag_is_told_only_where_it_is_known_of_every_partition():
    past = Past()
    known = part(waiting_since_ms=4_000)
    told = past.look(copied(1), reported=report(known, at_ms=9_000))
    assert (told.lag_records, told.lag_ms) == (4, 5_000)
    told = past.look(copied(1), reported=report(known, part(1, end=None), at_ms=9_000))
    assert (told.lag_records, told.lag_ms) == (None, None)
    told = past.look(copied(1), reported=report(known, part(1), at_ms=9_000))
    assert (told.lag_records, told.lag_ms) == (8, None), "of one the time is not known"


def test_of_a_flow_without_partitions_no_lag_is_known_rather_than_none():
    told = Past().look(reported=report())
    assert (told.lag_records, told.lag_ms) == (None, None)


def test_only_the_last_hour_is_kept():
    past = Past()
    for _ in range(lag_timeline.TIMELINE_POINTS_MAX + 5):
        past.look(copied(1))
    kept = past.fold.get_points(FLOW)
    assert len(kept) == lag_timeline.TIMELINE_POINTS_MAX == 360
    assert kept[-1].at_ms - kept[0].at_ms == (lag_timeline.TIMELINE_POINTS_MAX - 1) * 10_000


def test_a_flow_that_is_gone_is_forgotten_and_others_go_on():
    fold = Timeline()
    both = [statuses.flow(name="a->b"), statuses.flow(name="b->a")]
    reports = [report(flow=each.flow) for each in both]
    fold.add_snapshot(both, reports, now_s=1.0, wall_ms=1)
    fold.add_snapshot(both[1:], reports[1:], now_s=2.0, wall_ms=2)
    assert (len(fold.get_points("a->b")), len(fold.get_points("b->a"))) == (0, 2)
    fold.add_snapshot(both, reports[:1], now_s=3.0, wall_ms=3)
    assert (len(fold.get_points("a->b")), len(fold.get_points("b->a"))) == (1, 0), (
        "nobody has a report of it"
    )


@given(st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), min_size=1, max_size=30))
def test_a_counter_that_only_grows_is_never_counted_twice(steps):
    past, total, counted = Past(), 0, 0.0
    for step, here in steps:
        total += step
        shown = (copied(total),) if here or past.now_s == 0 else ()
        point = past.look(*shown)
        counted += (point.records_s or 0.0) * 10.0
    if all(here for _, here in steps):
        assert counted == pytest.approx(total - steps[0][0])
    past.fold.check_invariants()


def test_columns_are_of_one_length_and_holes_stay_holes():
    past = Past()
    past.look(copied(1), reported=report(part(end=None)))
    past.look(copied(4))
    told = lag_timeline.timeline_to_json(past.fold.get_points(FLOW))
    assert told == {
        "step_ms": 10_000,
        "kept_ms": 3_600_000,
        "at_ms": [10_000, 20_000],
        "lag_records": [None, 4],
        "lag_ms": [None, None],
        "records_s": [None, 0.3],
        "bytes_s": [None, 0.0],
    }
