"""What plugins measure is shown beside the worker's own, while they run."""

from __future__ import annotations

from connect_runtime.base import metrics as base_metrics
from connect_runtime.core.assignment import work
from tests.fakes.planned_plugins import (
    CONFIG,
    TASK,
    TargetState,
    boom,
)
from tests.support.eventually import eventually

MOVED = base_metrics.Metric(name="mover_moved", kind=base_metrics.Kind.GAUGE, help="Moved.")


def shown(world):
    return {each.metric.name: dict(each.series) for each in world.metrics.published}


def test_what_plugins_measure_is_shown_while_they_run(world, plan, caplog):
    def start(plugin, _props):
        plugin.context.add_metrics(lambda: [base_metrics.Family(metric=MOVED, series={(): 3.0})])
        plugin.context.add_metrics(boom)

    plan.does["start"] = start
    world.start_task()
    eventually(lambda: shown(world).get("mover_moved") == {(): 3.0}, 5.0)
    assert shown(world)["mover_moved"] == {(): 3.0}
    assert caplog.text.count("out of paper") == 1, "once, not at every scrape"
    world.worker.stop(work.Work(tasks=(TASK,)))
    assert "mover_moved" not in shown(world)


def test_what_a_failed_task_measured_is_shown_no_more(world, plan):
    plan.does["start"] = lambda plugin, _props: plugin.context.add_metrics(
        lambda: [base_metrics.Family(metric=MOVED, series={(): 3.0})]
    )
    plan.does["poll"] = lambda _task: boom() if plan.release.is_set() else None
    world.start_task()
    eventually(lambda: "mover_moved" in shown(world), 5.0)
    plan.release.set()
    world.wait_for(TASK, "FAILED")
    assert "mover_moved" not in shown(world)


def test_connectors_measure_too(world, plan):
    plan.does["connector.start"] = lambda plugin, _props: plugin.context.add_metrics(
        lambda: [base_metrics.Family(metric=MOVED, series={(): 1.0})]
    )
    world.worker.start_connector("c", CONFIG, TargetState.STARTED)
    eventually(lambda: "mover_moved" in shown(world), 5.0)
    world.worker.stop(work.Work(connectors=("c",)))
    assert "mover_moved" not in shown(world)
