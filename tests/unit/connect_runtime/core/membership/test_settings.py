from __future__ import annotations

import pytest

from connect_runtime.core.membership import settings


def test_defaults_are_those_of_a_java_worker():
    made = settings.Settings(group_id="g")
    assert (made.session_timeout_s, made.rebalance_timeout_s) == (10.0, 60.0)
    assert made.heartbeat_interval_s == 3.0
    assert made.protocol_type == "connect"


@pytest.mark.parametrize(
    ("rebalance_s", "request_s", "expected"), [(60, 40, 65), (10, 40, 40), (300, 40, 305)]
)
def test_a_join_may_take_as_long_as_the_group_waits_for_members(rebalance_s, request_s, expected):
    made = settings.Settings(
        group_id="g", rebalance_timeout_s=rebalance_s, request_timeout_s=request_s
    )
    assert made.join_timeout_s == expected


def test_heartbeats_must_be_sent_within_a_session():
    with pytest.raises(ValueError, match=r"heartbeat.interval.ms \(10000\).*\(10000\)"):
        settings.Settings(group_id="g", heartbeat_interval_s=10.0)
