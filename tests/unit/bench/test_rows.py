from __future__ import annotations

import pytest

from tests.bench import rows
from tests.bench.places import Far
from tests.bench.workloads import Shape

ROWS = rows.of_size(1_000)


def keys(*chosen: str) -> list[str]:
    return [row.key for row in rows.chosen(ROWS, chosen)]


def test_every_row_is_there_without_a_choice():
    assert keys() == [row.key for row in ROWS]
    assert len(set(keys())) == len(keys()) == 10


def test_one_row_alone_and_all_of_a_family():
    assert keys("tiny") == ["tiny"]
    assert keys("rtt") == ["rtt-0", "rtt-50", "rtt-200", "rtt-target-50", "rtt-target-200"]
    assert keys("rtt-target") == ["rtt-target-50", "rtt-target-200"]
    assert keys("rtt-50", "rf3") == ["rf3", "rtt-50"]


def test_a_row_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(ValueError, match="'rt'; there are main, tiny"):
        keys("rt")


def test_topics_are_those_of_one_workload_alone():
    topics = [workload.topic for row in ROWS for workload in row.workloads]
    assert len(set(topics)) == len(topics)


def test_sizes_are_in_proportion():
    tiny, half = ROWS[1].workloads[0], rows.of_size(500)[1].workloads[0]
    assert (tiny.records, half.records) == (300_000, 150_000)
    assert tiny.shape is Shape.SINGLE


def test_partitions_grow_and_records_stay():
    (row,) = rows.chosen(ROWS, ["partitions"])
    assert [each.partitions for each in row.workloads] == [1, 10, 100, 1_000]
    assert len({each.records for each in row.workloads}) == 1


def test_distance_and_replicas_are_the_place_s():
    places = {row.key: row.place for row in ROWS}
    assert places["main"].round_trip_ms is None
    assert [places[f"rtt-{ms}"].round_trip_ms for ms in (0, 50, 200)] == [0, 50, 200]
    assert {key for key, place in places.items() if place.far is Far.TARGET} == {
        "rtt-target-50",
        "rtt-target-200",
    }
    assert (places["rf3"].replication, places["main"].replication) == (3, 1)


def test_a_row_of_another_kind_is_chosen_like_the_others():
    assert [row.key for row in rows.chosen(rows.every(1), ["rebalance", "tiny"])] == [
        "tiny",
        "rebalance",
    ]


def test_a_full_group_is_three_times_as_large_and_waits_as_by_default():
    some, all_of_it = rows.rebalancing(full=False), rows.rebalancing(full=True)
    assert (some.connectors, some.tasks, some.default_delay_ms) == (30, 300, 10_000)
    assert (all_of_it.connectors, all_of_it.tasks, all_of_it.default_delay_ms) == (90, 900, 300_000)
