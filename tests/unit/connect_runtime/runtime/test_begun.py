"""What was begun, with which configuration, is known at once, whatever the status topic says."""

from __future__ import annotations

import pytest

from connect_runtime.api import errors
from connect_runtime.core.assignment import work
from connect_runtime.core.state import status_records
from connect_runtime.ports import worker as port
from tests.fakes.planned_plugins import CONFIG, TASK, TargetState, boom

State = status_records.State


def test_a_task_that_ran_and_stopped(world, plan):
    world.start_task()
    world.wait_for(TASK, "RUNNING")
    found = world.worker.begun.seen()[TASK]
    assert (found.config, found.times, found.state) == (CONFIG, 1, State.RUNNING)
    world.worker.stop(work.Work(tasks=(TASK,)))
    assert world.worker.begun.seen()[TASK].state is State.UNASSIGNED


def test_what_fails_is_known_with_its_trace_until_it_is_begun_again(world, plan):
    plan.does["start"] = boom
    world.start_task()
    world.wait_for(TASK, "FAILED")
    assert "out of paper" in world.worker.begun.seen()[TASK].trace
    world.worker.stop(work.Work(tasks=(TASK,)))
    world.start_task({**CONFIG, "other": "x"}, state=TargetState.PAUSED)
    world.wait_for(TASK, "PAUSED")
    found = world.worker.begun.seen()[TASK]
    assert (found.config["other"], found.times, found.trace) == ("x", 2, None)


def test_what_could_not_even_be_begun_is_known(world):
    world.refuses = True
    with pytest.raises(errors.ConnectError):
        world.worker.start_connector("c", CONFIG, TargetState.STARTED)
    found = world.worker.begun.seen()["c"]
    assert (found.state, found.config) == (State.FAILED, CONFIG)
    assert "no such file" in found.trace


def test_a_configuration_that_was_taken_up_is_what_it_goes_on_with(world, plan):
    world.start_task()
    world.wait_for(TASK, "RUNNING")
    anew = {**CONFIG, "secret": "resolved"}  # comes to the same
    assert not world.worker.renew_tasks({TASK: port.TaskConfigured(connector=anew, config=anew)})
    found = world.worker.begun.seen()[TASK]
    assert (found.config, found.times) == (anew, 1)
    refused = {**CONFIG, "secret": "other"}
    world.worker.renew_tasks({TASK: port.TaskConfigured(connector=refused, config=refused)})
    assert world.worker.begun.seen()[TASK].config == anew
