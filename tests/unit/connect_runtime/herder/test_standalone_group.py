"""A group of one says at once what a group would, and wakes who listens."""

from __future__ import annotations

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks
from connect_runtime.herder.herder_actions import (
    ConfirmJoinPrepared,
    LeaveGroup,
    LeaveGroupPermanently,
    RejoinGroup,
    RevokeAssignment,
    WriteLogLine,
)
from connect_runtime.herder.herder_events import AssignmentReceived, JoinRequested
from connect_runtime.herder.standalone_group import StandaloneGroup, StandaloneGroupStateMachine
from connect_runtime.storage import cluster_config_state
from connect_runtime.storage.cluster_config_state import ClusterConfigState, ConnectorConfigEntry
from tests.fakes.plugin_contexts import Clock

NO_CONFIG = cluster_config_state.EMPTY_CONFIG_STATE


@pytest.fixture
def wakes():
    return []


@pytest.fixture
def group(wakes):
    made = StandaloneGroup("http://me/", lambda: NO_CONFIG, clock=Clock(5.0))
    made.start(lambda: wakes.append(1), ConfiguredWork)
    return made


def test_asks_to_join_then_leads_alone(group, wakes):
    assert group.pop_events() == [JoinRequested(connectors_and_tasks.NO_WORK)]
    assert group.pop_events() == []
    group.confirm_join_prepared()
    (first,) = group.pop_events()
    assert (first.is_leader, first.generation, first.assignment.leader_url) == (
        True,
        1,
        "http://me/",
    )
    group.rejoin_group("changed")
    assert group.pop_events() == [JoinRequested(connectors_and_tasks.NO_WORK)]


def test_everything_new_wakes_the_herder(group, wakes):
    for count, act in enumerate(
        (group.report_herder_loop_alive, group.confirm_join_prepared, group.revoke_all_work), 1
    ):
        act()
        assert len(wakes) == min(count, 2), act
    group.rejoin_group("changed")
    assert len(wakes) == 3


def test_nobody_is_ever_in_doubt_whether_it_is_still_a_member(group):
    group.request_heartbeat()
    assert group.get_last_heartbeat_s() == 5.0
    assert group.session_timeout_s > 0


def test_is_nothing_before_it_is_started_and_after_it_is_closed(group, wakes):
    unborn = StandaloneGroup("http://me/", lambda: NO_CONFIG, clock=Clock())
    unborn.rejoin_group("early")
    assert unborn.pop_events() == []
    group.close(1.0)
    group.rejoin_group("late")
    assert group.pop_events() == []
    assert len(wakes) == 1


T0, T1 = ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)


def view(offset, **tasks):
    entries = {
        name: ConnectorConfigEntry(
            config={}, task_count=count, task_configs={number: {} for number in range(count)}
        )
        for name, count in tasks.items()
    }
    return ClusterConfigState(offset=offset, entries=entries)


def completed(group, config):
    [event] = group.execute_group_action(ConfirmJoinPrepared(), config)
    assert isinstance(event, AssignmentReceived)
    return event


def test_everything_is_for_the_one_who_is_there():
    group = StandaloneGroupStateMachine(url="http://me/")
    assert group.create_initial_events() == [JoinRequested(connectors_and_tasks.NO_WORK)]
    event = completed(group, view(5, c=2, d=0))
    assert event.assignment.assigned == ConnectorsAndTasks(connectors=("c", "d"), tasks=(T0, T1))
    assert event.assignment.config_offset == 5
    assert (event.is_leader, event.generation, event.items_to_stop) == (
        True,
        1,
        connectors_and_tasks.NO_WORK,
    )
    assert event.owners.get_owner_url("c") == event.owners.get_owner_url(T1) == "http://me/"


def test_what_is_configured_no_more_is_to_stop():
    group = StandaloneGroupStateMachine(url="http://me/")
    completed(group, view(5, c=2, d=0))
    assert group.execute_group_action(RejoinGroup("why"), view(9, c=1)) == [
        JoinRequested(connectors_and_tasks.NO_WORK)
    ]
    event = completed(group, view(9, c=1))
    assert event.items_to_stop == ConnectorsAndTasks(connectors=("d",), tasks=(T1,))
    assert event.assignment.assigned == ConnectorsAndTasks(connectors=("c",), tasks=(T0,))


def test_what_was_given_up_is_assigned_again():
    group = StandaloneGroupStateMachine(url="http://me/")
    completed(group, view(5, c=2))
    assert group.execute_group_action(RevokeAssignment(), view(5)) == []
    assert completed(group, view(5, c=0)).items_to_stop == connectors_and_tasks.NO_WORK


def test_other_orders_are_not_for_a_group_and_after_the_end_nothing_is():
    group = StandaloneGroupStateMachine(url="http://me/")
    for order in (WriteLogLine("x"), LeaveGroup("x"), LeaveGroupPermanently()):
        assert group.execute_group_action(order, view(0)) == []
    assert group.execute_group_action(ConfirmJoinPrepared(), view(0)) == []
