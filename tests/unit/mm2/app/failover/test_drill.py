"""What the group of a drill may have lost, and what not."""

from __future__ import annotations

import pytest

from mm2.app.failover import drill
from mm2.core.failover import orders

ARRIVED = range(16)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (range(10), range(10, 16), set()),
        (range(10), range(4, 16), set()),  # read again
        (range(20), [], set()),  # further than what had arrived
        (range(10), range(14, 16), {10, 11, 12, 13}),
        (range(10), [10, 15, 11, 13, 14], {12}),
        (range(10), [], {10, 11, 12, 13, 14, 15}),
        ([], [], set(range(16))),
    ],
)
def test_what_had_arrived_and_nobody_processed_was_passed_over(before, after, found):
    assert drill.skipped(ARRIVED, before, after) == found


def test_what_is_written_on_the_other_cluster_had_not_arrived():
    assert drill.skipped([*ARRIVED, drill.LATER, drill.LATER + 1], ARRIVED, []) == set()


def result(kind: orders.Kind, bound: int | None = 5, **given: int) -> drill.Result:
    counts = {"lost": 0, "skipped": 0, "read_again": 0} | given
    return drill.Result(
        kind=kind,
        sent=20,
        before=10,
        after=10,
        rto_s=1.0,
        all_s=2.0,
        report={"read_again_max": bound},
        **counts,
    )


@pytest.mark.parametrize("name", ["lost", "skipped", "read_again"])
def test_it_is_good_when_nothing_that_arrived_is_missing(name: str):
    assert result(orders.Kind.EMERGENCY).good
    assert result(orders.Kind.EMERGENCY, **{name: 1}).good is (name != "skipped")
    assert result(orders.Kind.PLANNED).good
    assert not result(orders.Kind.PLANNED, **{name: 1}).good


@pytest.mark.parametrize(
    ("bound", "said"),
    [(8, ["9 records were read again, but the report says at most 8"]), (9, []), (None, [])],
)
def test_more_than_the_bound_of_the_report_is_a_failure_that_is_named(bound, said):
    found = result(orders.Kind.EMERGENCY, read_again=9, bound=bound)
    assert (found.failures, found.good) == (said, not said)
    assert found.as_json()["failures"] == said
    assert found.as_json()["read_again_max"] == bound
