from __future__ import annotations

import pytest

from connect_runtime.group import member_state
from connect_runtime.group.member_state import GroupGeneration, GroupRebalanceConfig, MemberState


def test_states_in_the_group_and_in_a_round_are_states_at_work():
    assert member_state.IN_GROUP_STATES < member_state.ACTIVE_STATES
    assert member_state.REBALANCING_STATES < member_state.ACTIVE_STATES
    assert MemberState.UNJOINED in member_state.ACTIVE_STATES
    assert MemberState.CLOSED not in member_state.ACTIVE_STATES


def test_a_new_member_is_of_no_generation():
    assert GroupGeneration() == GroupGeneration(number=-1, member_id="", protocol="")


def test_every_state_is_described():
    assert member_state.__doc__ is not None
    for state in MemberState:
        assert f"\n    {state.name} " in member_state.__doc__


def test_defaults_are_those_of_a_java_worker():
    made = GroupRebalanceConfig(group_id="g")
    assert (made.session_timeout_s, made.rebalance_timeout_s) == (10.0, 60.0)
    assert made.heartbeat_interval_s == 3.0
    assert made.protocol_type == "connect"


@pytest.mark.parametrize(
    ("rebalance_s", "request_s", "expected"), [(60, 40, 65), (10, 40, 40), (300, 40, 305)]
)
def test_a_join_may_take_as_long_as_the_group_waits_for_members(rebalance_s, request_s, expected):
    made = GroupRebalanceConfig(
        group_id="g", rebalance_timeout_s=rebalance_s, request_timeout_s=request_s
    )
    assert made.join_timeout_s == expected


def test_heartbeats_must_be_sent_within_a_session():
    with pytest.raises(ValueError, match=r"heartbeat.interval.ms \(10000\).*\(10000\)"):
        GroupRebalanceConfig(group_id="g", heartbeat_interval_s=10.0)
