from __future__ import annotations

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder import restart_plan
from connect_runtime.storage import status_records
from connect_runtime.storage.config_records import RestartRequest
from connect_runtime.storage.status_records import RunState, RunStatus
from connect_runtime.storage.status_topic import StatusTopicState

State = RunState
T0, T1, T2 = (ConnectorTaskId("c", number) for number in range(3))


def says(state):
    return RunStatus(state=state, worker_id="w:1", generation=3, trace="why")


def standing(connector, *tasks):
    log = StatusTopicState()
    subjects = {"c": connector} | {
        ConnectorTaskId("c", number): each for number, each in enumerate(tasks)
    }
    for subject, state in subjects.items():
        record = status_records.encode_status(subject, says(state))
        log.apply_record(record.key, record.value, offset=0)
    return log.snapshot()


def request(*, tasks, failed):
    return RestartRequest(connector="c", include_tasks=tasks, only_failed=failed)


@pytest.mark.parametrize(
    ("asked", "connector", "restarts", "tasks"),
    [
        (request(tasks=False, failed=True), State.RUNNING, False, ()),
        (request(tasks=False, failed=True), State.FAILED, True, ()),
        (request(tasks=True, failed=True), State.RUNNING, False, (T1,)),
        (request(tasks=True, failed=True), State.FAILED, True, (T1,)),
        (request(tasks=False, failed=False), State.PAUSED, True, ()),
        (request(tasks=True, failed=False), State.RUNNING, True, (T0, T1, T2)),
    ],
)
def test_what_is_restarted(asked, connector, restarts, tasks):
    """RestartPlanTest: what is restarted shows as RESTARTING, all else as it stands."""
    statuses = standing(connector, State.RUNNING, State.FAILED, State.UNASSIGNED)
    plan = restart_plan.plan_restart(asked, statuses)
    assert plan.restarts_connector is restarts
    assert plan.list_tasks_to_restart() == tasks
    assert plan.connector.state is (State.RESTARTING if restarts else connector)
    assert plan.connector.trace == "why"
    assert [each.state for task, each in plan.tasks.items() if task not in tasks] == [
        state
        for task, state in ((T0, State.RUNNING), (T1, State.FAILED), (T2, State.UNASSIGNED))
        if task not in tasks
    ]


def test_a_worker_restarts_its_own_part():
    plan = restart_plan.plan_restart(
        request(tasks=True, failed=False), standing(State.RUNNING, State.RUNNING, State.RUNNING)
    )
    ours = ConnectorsAndTasks(connectors=("d",), tasks=(T1, ConnectorTaskId("d", 0)))
    assert plan.select_assigned_connectors_and_tasks(ours) == ConnectorsAndTasks(tasks=(T1,))
    assert plan.select_assigned_connectors_and_tasks(
        ConnectorsAndTasks(connectors=("c",))
    ) == ConnectorsAndTasks(connectors=("c",))
    assert str(plan) == "restart the connector and 2 of 2 tasks of c"


def test_a_connector_that_need_not_restart_stays():
    plan = restart_plan.plan_restart(request(tasks=True, failed=True), standing(State.RUNNING))
    assert (
        plan.select_assigned_connectors_and_tasks(ConnectorsAndTasks(connectors=("c",)))
        == connectors_and_tasks.NO_WORK
    )


def test_without_a_status_there_is_no_plan():
    asked = request(tasks=True, failed=False)
    assert restart_plan.plan_restart(asked, StatusTopicState().snapshot()) is None


def test_the_request_that_restarts_more_is_kept():
    weak, strong = request(tasks=False, failed=False), request(tasks=True, failed=False)
    assert restart_plan.choose_broader_request(None, weak) is weak
    assert restart_plan.choose_broader_request(weak, strong) is strong
    assert restart_plan.choose_broader_request(strong, weak) is strong
    again = request(tasks=True, failed=False)
    assert restart_plan.choose_broader_request(strong, again) is strong
