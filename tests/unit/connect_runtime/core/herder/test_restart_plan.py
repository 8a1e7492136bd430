from __future__ import annotations

import pytest

from connect_runtime.base import ids
from connect_runtime.core.assignment import work
from connect_runtime.core.herder import restart_plan
from connect_runtime.core.state import config_records, status_log, status_records

State = status_records.State
T0, T1, T2 = (ids.ConnectorTaskId("c", number) for number in range(3))


def says(state):
    return status_records.Status(state=state, worker_id="w:1", generation=3, trace="why")


def standing(connector, *tasks):
    log = status_log.StatusLog()
    subjects = {"c": connector} | {
        ids.ConnectorTaskId("c", number): each for number, each in enumerate(tasks)
    }
    for subject, state in subjects.items():
        record = status_records.status(subject, says(state))
        log.apply(record.key, record.value, offset=0)
    return log.snapshot()


def request(*, tasks, failed):
    return config_records.RestartRequest(connector="c", include_tasks=tasks, only_failed=failed)


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
    plan = restart_plan.plan(asked, statuses)
    assert plan.restarts_connector is restarts
    assert plan.restarted_tasks() == tasks
    assert plan.connector.state is (State.RESTARTING if restarts else connector)
    assert plan.connector.trace == "why"
    assert [each.state for task, each in plan.tasks.items() if task not in tasks] == [
        state
        for task, state in ((T0, State.RUNNING), (T1, State.FAILED), (T2, State.UNASSIGNED))
        if task not in tasks
    ]


def test_a_worker_restarts_its_own_part():
    plan = restart_plan.plan(
        request(tasks=True, failed=False), standing(State.RUNNING, State.RUNNING, State.RUNNING)
    )
    ours = work.Work(connectors=("d",), tasks=(T1, ids.ConnectorTaskId("d", 0)))
    assert plan.own(ours) == work.Work(tasks=(T1,))
    assert plan.own(work.Work(connectors=("c",))) == work.Work(connectors=("c",))
    assert str(plan) == "restart the connector and 2 of 2 tasks of c"


def test_a_connector_that_need_not_restart_stays():
    plan = restart_plan.plan(request(tasks=True, failed=True), standing(State.RUNNING))
    assert plan.own(work.Work(connectors=("c",))) == work.NO_WORK


def test_without_a_status_there_is_no_plan():
    asked = request(tasks=True, failed=False)
    assert restart_plan.plan(asked, status_log.StatusLog().snapshot()) is None


def test_the_request_that_restarts_more_is_kept():
    weak, strong = request(tasks=False, failed=False), request(tasks=True, failed=False)
    assert restart_plan.stronger(None, weak) is weak
    assert restart_plan.stronger(weak, strong) is strong
    assert restart_plan.stronger(strong, weak) is strong
    again = request(tasks=True, failed=False)
    assert restart_plan.stronger(strong, again) is strong
