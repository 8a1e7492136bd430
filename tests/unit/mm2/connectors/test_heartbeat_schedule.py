"""When heartbeats are written."""

from __future__ import annotations

from mm2.connectors import heartbeat_schedule
from mm2.connectors.heartbeat_schedule import HeartbeatSchedule

PLAN = HeartbeatSchedule(source="A", target="B", interval_s=5)


def test_the_first_comes_after_one_interval_and_none_is_made_up_for():
    assert PLAN.compute_next_heartbeat_s(None, 100) == 105
    assert PLAN.compute_next_heartbeat_s(105, 105.2) == 110
    assert PLAN.compute_next_heartbeat_s(105, 150) == 150


def test_its_place_is_javas():
    assert list(PLAN.source_partition.items()) == [
        ("sourceClusterAlias", "A"),
        ("targetClusterAlias", "B"),
    ]
    assert (
        PLAN.topic,
        heartbeat_schedule.HEARTBEATS_PARTITION,
        heartbeat_schedule.HEARTBEAT_OFFSET,
    ) == ("heartbeats", 0, {"offset": 0})


def test_one_task_whether_the_flow_is_enabled_or_not():
    props = {"enabled": "false"}
    assert heartbeat_schedule.build_task_configs(props, 1) == [props]
    assert heartbeat_schedule.build_task_configs(props, None) == []
