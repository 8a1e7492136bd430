from __future__ import annotations

import pytest

from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connect_protocol import ConnectAssignment, ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder import herder_state
from connect_runtime.herder.herder_actions import (
    ReadConfigTopic,
    RejoinGroup,
    RemoveConnectorConfig,
    StartConnectorsAndTasks,
    WriteConfigTopic,
)
from connect_runtime.herder.herder_events import (
    ActionFailed,
    ActionSucceeded,
    ActionTimedOut,
    AssignmentReceived,
    ConnectorsAndTasksStarted,
    StoreSnapshot,
)
from connect_runtime.herder.herder_state import HerderSettings, HerderState
from connect_runtime.storage.cluster_config_state import ClusterConfigState
from connect_runtime.storage.status_topic import StatusSnapshot
from tests.fakes import herder_cluster

TASK = herder_cluster.task("c", 0)
WORK = ConnectorsAndTasks(connectors=("c",), tasks=(TASK,))
SEEN = StoreSnapshot(
    now_s=1.0,
    wall_ms=1,
    config=ClusterConfigState(offset=8),
    statuses=StatusSnapshot(),
)


@pytest.fixture
def m():
    return HerderState(settings=HerderSettings(), snapshot=SEEN)


def run(script, *outcomes):
    """What the script says, and what it returns."""
    said, given = [], [None, *outcomes]
    while True:
        try:
            said.append(script.send(given.pop(0) if given else None))
        except StopIteration as ended:
            return said, ended.value


def test_work_is_remembered_from_its_start_to_its_stop(m):
    assert run(herder_state.start_connectors_and_tasks(m, WORK), ConnectorsAndTasksStarted())[
        0
    ] == [StartConnectorsAndTasks(WORK)]
    assert m.running == WORK
    tasks = ConnectorsAndTasks(tasks=(TASK,))
    run(herder_state.stop_connectors_and_tasks(m, tasks, for_good=False), ActionSucceeded())
    assert m.running == WORK
    m.tasks_to_restart.add(TASK)
    m.check_invariants()
    run(herder_state.stop_connectors_and_tasks(m, tasks), ActionSucceeded())
    assert m.running == ConnectorsAndTasks(connectors=("c",))
    assert m.tasks_to_restart == set()


def test_nothing_is_asked_about_no_work(m):
    assert run(herder_state.start_connectors_and_tasks(m, connectors_and_tasks.NO_WORK)) == (
        [],
        ConnectorsAndTasksStarted(),
    )
    assert run(herder_state.stop_connectors_and_tasks(m, connectors_and_tasks.NO_WORK)) == (
        [],
        None,
    )


def test_reading_configs_takes_up_what_was_read(m):
    said, ok = run(herder_state.read_config_topic(m), ActionSucceeded())
    assert (said, ok) == ([ReadConfigTopic(3.0)], True)
    assert m.applied_config.offset == 8
    _, ok = run(herder_state.read_config_topic(m), ActionTimedOut())
    assert (ok, m.is_config_topic_readable) == (False, False)


def test_a_write_says_why_it_failed_and_whether_the_right_is_lost(m):
    write = RemoveConnectorConfig("c")
    assert run(herder_state.write_to_config_topic(m, write), ActionSucceeded()) == (
        [WriteConfigTopic(write)],
        None,
    )
    assert (
        run(herder_state.write_to_config_topic(m, write), ActionFailed(reason="slow"))[1] == "slow"
    )
    assert not m.lost_write_privilege
    run(herder_state.write_to_config_topic(m, write), ActionFailed(reason="fenced", is_fenced=True))
    run(herder_state.write_to_config_topic(m, write), ActionFailed(reason="slow"))
    assert m.lost_write_privilege


def test_asking_for_another_round_ends_this_one(m):
    m.is_joined, m.has_left = True, True
    assert run(herder_state.request_group_rejoin(m, "why"))[0] == [RejoinGroup("why")]
    assert (m.is_joined, m.has_left) == (False, False)


def test_outside_a_round_nobody_leads_and_nothing_is_assigned(m):
    assert (
        m.is_leader,
        m.leader_url,
        m.assigned_work,
        m.uses_eager_protocol,
        m.signs_requests,
    ) == (
        False,
        None,
        connectors_and_tasks.NO_WORK,
        False,
        False,
    )
    standing = m.build_routing_state()
    assert (standing.owners, standing.rebalance_pending) == (None, False)


def test_a_round_says_who_leads_and_how_they_speak(m):
    assignment = ConnectAssignment(
        leader="m", leader_url="http://m/", config_offset=8, assigned=WORK
    )
    m.last_rebalance = AssignmentReceived(
        generation=1,
        protocol=ConnectProtocol.SESSIONED,
        assignment=assignment,
        items_to_stop=connectors_and_tasks.NO_WORK,
        is_leader=True,
    )
    m.changes.needs_rebalance = True
    assert (m.is_leader, m.leader_url, m.assigned_work, m.signs_requests) == (
        True,
        "http://m/",
        WORK,
        True,
    )
    assert m.build_routing_state().rebalance_pending
    assert m.changes.has_config_changes()


@pytest.mark.parametrize("broken", ["joined", "both", "restart"])
def test_what_cannot_be_is_noticed(m, broken):
    if broken == "restart":
        m.tasks_to_restart.add(TASK)
    else:
        m.is_joined, m.has_left = True, broken == "both"
    with pytest.raises(AssertionError):
        m.check_invariants()
