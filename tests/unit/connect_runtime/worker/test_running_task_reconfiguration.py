"""Other configurations for tasks that run: who goes on, who takes them up, who starts anew."""

from __future__ import annotations

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.herder.worker_interface import ConfiguredTask
from tests.fakes.planned_plugins import CONFIG, TASK, TargetState, boom
from tests.support.eventually import eventually

PIPES = {**CONFIG, "connector.class": "Pipes"}


def renewed(world, config, *, of=None):
    found = ConfiguredTask(connector=config if of is None else of, config=config)
    return world.worker.try_reconfigure_tasks({TASK: found})


def test_a_task_that_is_configured_as_before_goes_on(world, plan):
    world.start_task()
    world.wait_for(TASK, "RUNNING")
    assert renewed(world, {**CONFIG, "secret": "resolved"}) == frozenset(), "it comes to the same"
    assert renewed(world, {**CONFIG, "secret": "other"}) == {TASK}
    assert renewed(world, CONFIG, of={**CONFIG, "value.converter": "Json"}) == {TASK}
    assert world.worker.try_reconfigure_tasks(
        {ConnectorTaskId("c", 1): ConfiguredTask(connector=CONFIG, config=CONFIG)}
    ) == {ConnectorTaskId("c", 1)}, "it does not run here"
    assert plan.calls.count("start") == 1


def test_a_task_that_failed_is_to_be_started_anew_whatever_is_configured(world, plan):
    plan.does["poll"] = boom
    world.start_task()
    world.wait_for(TASK, "FAILED")
    eventually(lambda: renewed(world, CONFIG) == {TASK}, 5.0)


def test_what_cannot_be_resolved_any_more_is_to_be_started_anew(world, plan):
    world.start_task()
    world.refuses = True
    assert renewed(world, CONFIG) == {TASK}


def test_a_pipeline_may_take_its_configuration_up(world, plan):
    seen = []

    def reconfigure(props):
        seen.append(dict(props))
        return props["rate"] == "2"

    plan.does["reconfigure"] = reconfigure
    plan.does["run_once"] = lambda given: plan.contexts.append(given)
    world.start_task(PIPES)
    eventually(lambda: plan.contexts, 5.0)
    assert renewed(world, {**PIPES, "rate": "2"}) == frozenset()
    assert seen == [{**PIPES, "rate": "2", "secret": "resolved"}]
    assert plan.contexts[-1].configs()["rate"] == "2"
    assert renewed(world, {**PIPES, "rate": "2"}) == frozenset(), "nothing is offered twice"
    assert len(seen) == 1
    assert renewed(world, {**PIPES, "rate": "3"}) == {TASK}
    assert plan.contexts[-1].configs()["rate"] == "2", "it was not taken up"
    assert plan.calls.count("start") == 1


def test_a_paused_pipeline_takes_its_configuration_up_where_it_rests(world, plan):
    plan.does["reconfigure"] = lambda _props: True
    world.start_task(PIPES, state=TargetState.PAUSED)
    world.wait_for(TASK, "PAUSED")
    assert renewed(world, {**PIPES, "rate": "2"}) == frozenset(), "it was not even started"
    assert "reconfigure" not in plan.calls
    started = []
    plan.does["start"] = lambda _task, props: started.append(props["rate"])
    world.worker.set_target_state("c", TargetState.STARTED)
    eventually(lambda: started == ["2"], 5.0)
    world.worker.set_target_state("c", TargetState.PAUSED)
    eventually(lambda: "pause" in plan.calls, 5.0)
    assert renewed(world, {**PIPES, "rate": "3"}) == frozenset()
    assert plan.calls.count("reconfigure") == 1


def test_a_pipeline_that_fails_over_its_configuration_is_to_be_started_anew(world, plan, caplog):
    plan.does["reconfigure"] = boom
    world.start_task(PIPES)
    eventually(lambda: "run_once" in plan.calls, 5.0)
    assert renewed(world, {**PIPES, "rate": "2"}) == {TASK}
    assert "out of paper" in caplog.text
    assert "FAILED" not in world.statuses.states(TASK)


def test_a_pipeline_that_is_too_busy_to_consider_is_to_be_started_anew(world, plan, monkeypatch):
    monkeypatch.setattr(
        "connect_runtime.worker.running_task_reconfiguration.RECONFIGURE_TIMEOUT_S", 0.05
    )
    plan.does["run_once"] = lambda _context: plan.release.wait(10)
    world.start_task(PIPES)
    eventually(lambda: "run_once" in plan.calls, 5.0)
    assert renewed(world, {**PIPES, "rate": "2"}) == {TASK}
    plan.release.set()


def test_who_stops_meanwhile_takes_nothing_up(hasty, plan):
    plan.does["run_once"] = lambda _context: plan.release.wait(10)
    hasty.start_task(PIPES)
    eventually(lambda: "run_once" in plan.calls, 5.0)
    running = hasty.worker._tasks[TASK].worker_task
    answer = running.request_reconfiguration(lambda: True)
    running.request_stop()
    plan.release.set()
    assert running.join(5.0)
    assert answer.result(0) is False
    assert running.request_reconfiguration(lambda: True).result(0) is False


def test_a_pipeline_is_told_whether_its_group_counts_it_in(world, plan):
    plan.does["run_once"] = lambda given: plan.contexts.append(given)
    world.start_task(PIPES)
    eventually(lambda: plan.contexts, 5.0)
    [given] = plan.contexts[:1]
    world.membership.confirmed_s = 7.5
    given.request_heartbeat()
    assert (given.get_last_heartbeat_s(), given.session_timeout_s) == (7.5, 10.0)
    assert world.membership.asked == 1


def test_a_pipeline_reads_properties_of_its_worker_by_their_prefix(world, plan):
    plan.does["run_once"] = lambda given: plan.contexts.append(given)
    world.start_task(PIPES)
    eventually(lambda: plan.contexts, 5.0)
    [given] = plan.contexts[:1]
    found = given.get_worker_properties("key.")
    assert found
    assert all(key.startswith("key.") for key in found)
