"""What was begun, with which configuration, is known at once, whatever the status topic says.

Connectors and tasks run, and what plugins do wrong ends in their own status."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from connect_runtime.api.errors import (
    ConfigError,
    ConnectError,
    FatalError,
    IllegalWorkerStateError,
    RetriableError,
)
from connect_runtime.api.plugin_context import (
    LastTaskRuns,
    LeaderlessPeriod,
    PipelineProgress,
    PipelineState,
    PublishedTaskConfig,
)
from connect_runtime.api.records import SourceOffset, SourceRecord
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.metrics import Metric, MetricFamily, MetricKind
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder.worker_interface import ConfiguredTask, TooManyTasksError
from connect_runtime.storage import config_records
from connect_runtime.storage.config_topic import ConfigTopicState
from connect_runtime.storage.status_records import RunState
from tests.fakes import task_clients
from tests.fakes.planned_plugins import CONFIG, SINK, TASK, WAIT_S, TargetState, boom
from tests.support.eventually import eventually

State = RunState


def test_a_task_that_ran_and_stopped(world, plan):
    world.start_task()
    world.wait_for(TASK, "RUNNING")
    found = world.worker.started_items.snapshot()[TASK]
    assert (found.config, found.times, found.state) == (CONFIG, 1, State.RUNNING)
    world.worker.stop_connectors_and_tasks(ConnectorsAndTasks(tasks=(TASK,)))
    assert world.worker.started_items.snapshot()[TASK].state is State.UNASSIGNED


def test_what_fails_is_known_with_its_trace_until_it_is_begun_again(world, plan):
    plan.does["start"] = boom
    world.start_task()
    world.wait_for(TASK, "FAILED")
    assert "out of paper" in world.worker.started_items.snapshot()[TASK].trace
    world.worker.stop_connectors_and_tasks(ConnectorsAndTasks(tasks=(TASK,)))
    world.start_task({**CONFIG, "other": "x"}, state=TargetState.PAUSED)
    world.wait_for(TASK, "PAUSED")
    found = world.worker.started_items.snapshot()[TASK]
    assert (found.config["other"], found.times, found.trace) == ("x", 2, None)


def test_what_could_not_even_be_begun_is_known(world):
    world.refuses = True
    with pytest.raises(ConnectError):
        world.worker.start_connector("c", CONFIG, TargetState.STARTED)
    found = world.worker.started_items.snapshot()["c"]
    assert (found.state, found.config) == (State.FAILED, CONFIG)
    assert "no such file" in found.trace


def test_a_configuration_that_was_taken_up_is_what_it_goes_on_with(world, plan):
    world.start_task()
    world.wait_for(TASK, "RUNNING")
    resolved_config = {**CONFIG, "secret": "resolved"}  # comes to the same
    assert not world.worker.try_reconfigure_tasks(
        {TASK: ConfiguredTask(connector=resolved_config, config=resolved_config)}
    )
    found = world.worker.started_items.snapshot()[TASK]
    assert (found.config, found.times) == (resolved_config, 1)
    refused = {**CONFIG, "secret": "other"}
    world.worker.try_reconfigure_tasks({TASK: ConfiguredTask(connector=refused, config=refused)})
    assert world.worker.started_items.snapshot()[TASK].config == resolved_config


def record(number, **more):
    return SourceRecord(
        topic="t",
        value=f"v{number}",
        source_partition={"f": "a"},
        source_offset={"n": number},
        **more,
    )


def once(*found):
    left = [list(found)]
    return lambda _task: left.pop() if left else None


def test_a_source_task_sends_commits_and_ends(world, plan, caplog):
    caplog.set_level("INFO", "connect_runtime.worker.worker")
    plan.does["poll"] = once(record(1), record(2))
    world.start_task()
    eventually(lambda: world.stored() == {"n": 2}, WAIT_S)
    assert [each.value for each in world.clients.one_producer.sent] == [b"v1", b"v2"]
    assert [each.topic for each in world.statuses.topics] == ["t"]
    world.worker.stop_connectors_and_tasks(ConnectorsAndTasks(tasks=(TASK,)))
    assert world.statuses.states(TASK) == ["RUNNING", "UNASSIGNED"]
    assert caplog.messages == ["task c-0 is RUNNING", "task c-0 is UNASSIGNED"]
    last = world.statuses.last(TASK)
    assert (last.worker_id, last.generation, last.version) == ("here:1", 3, "undefined")
    assert plan.calls[-1] == "stop"
    assert plan.calls.count("commit_record") == 2
    assert "commit" in plan.calls
    assert world.worker.list_started_connectors_and_tasks() == ConnectorsAndTasks()


def test_offsets_wait_for_acknowledgement_and_the_last_ones_go_with_the_stop(world, plan):
    world.clients.one_producer.held = True
    plan.does["poll"] = once(record(1), record(2))
    world.start_task()
    eventually(lambda: len(world.clients.one_producer.waiting) == 2, WAIT_S)
    world.clients.one_producer.release()
    world.worker.stop_connectors_and_tasks(ConnectorsAndTasks(tasks=(TASK,)))
    assert world.stored() == {"n": 1}


def test_a_full_producer_is_waited_for_and_keeps_the_order(world, plan):
    world.clients.one_producer.refusals.append(RetriableError("full"))
    plan.does["poll"] = once(record(1), record(2))
    world.start_task()
    eventually(lambda: world.stored() == {"n": 2}, WAIT_S)
    assert [each.value for each in world.clients.one_producer.sent] == [b"v1", b"v2"]


def test_a_record_that_cannot_be_written_fails_the_task_and_is_not_committed(world, plan):
    world.clients.one_producer.failures.append(FatalError("too large"))
    plan.does["poll"] = once(record(1), record(2))
    world.start_task()
    world.wait_for(TASK, "FAILED")
    assert "too large" in world.statuses.last(TASK).trace
    assert world.stored() is None


def test_a_retriable_poll_is_made_again(world, plan):
    def poll(_task):
        if plan.calls.count("poll") == 1:
            raise RetriableError("later")
        return [record(7)] if plan.calls.count("poll") == 2 else None

    plan.does["poll"] = poll
    world.start_task()
    eventually(lambda: world.stored() == {"n": 7}, WAIT_S)
    assert world.statuses.states(TASK) == ["RUNNING"]


@pytest.mark.parametrize("where", ["initialize", "start", "poll"])
def test_what_a_source_task_throws_is_its_status(world, plan, where):
    plan.does[where] = boom
    world.start_task()
    world.wait_for(TASK, "FAILED")
    assert "RuntimeError: out of paper" in world.statuses.last(TASK).trace
    assert ("stop" in plan.calls) is (where != "initialize")
    assert world.clients.one_producer.closed


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_even_what_ends_programs_fails_only_the_task(world, plan, error):
    def poll(_task):
        raise error

    plan.does["poll"] = poll
    world.start_task()
    world.wait_for(TASK, "FAILED")


@pytest.mark.parametrize("where", ["commit", "commit_record"])
def test_what_is_thrown_when_it_is_told_of_success_is_only_logged(world, plan, where):
    plan.does.update({"poll": once(record(1)), where: boom})
    world.start_task()
    eventually(lambda: world.stored() == {"n": 1}, WAIT_S)
    eventually(lambda: where in plan.calls, WAIT_S)
    assert world.statuses.states(TASK) == ["RUNNING"]


@pytest.mark.parametrize("rubbish", ["text", 7, [None], [{"a": 1}], {"a": 1}])
def test_what_poll_returns_amiss_fails_the_task(world, plan, rubbish):
    plan.does["poll"] = lambda _task: rubbish
    world.start_task()
    world.wait_for(TASK, "FAILED")
    assert "poll must return" in world.statuses.last(TASK).trace


def test_a_task_that_hangs_in_stop_is_left_and_heard_no_more(hasty, plan):
    plan.does["stop"] = lambda: plan.release.wait(10)
    hasty.start_task()
    hasty.wait_for(TASK, "RUNNING")
    hasty.worker.stop_connectors_and_tasks(ConnectorsAndTasks(tasks=(TASK,)))
    assert hasty.statuses.states(TASK) == ["RUNNING"]
    assert hasty.clients.one_producer.closed == [0.0]
    hasty.start_task()  # again, as another worker might
    plan.release.set()
    eventually(lambda: hasty.statuses.states(TASK) == ["RUNNING", "RUNNING"], WAIT_S)


def test_what_a_stop_throws_is_no_failure(world, plan):
    plan.does["stop"] = boom
    world.start_task()
    world.wait_for(TASK, "RUNNING")
    world.worker.stop_connectors_and_tasks(ConnectorsAndTasks(tasks=(TASK,)))
    assert world.statuses.states(TASK) == ["RUNNING", "UNASSIGNED"]


def test_a_task_is_paused_and_goes_on(world, plan):
    world.start_task(state=TargetState.PAUSED)
    world.wait_for(TASK, "PAUSED")
    assert "start" not in plan.calls
    world.worker.set_target_state("c", TargetState.STARTED)
    world.wait_for(TASK, "RUNNING")
    world.worker.set_target_state("c", TargetState.PAUSED)
    world.wait_for(TASK, "PAUSED")
    assert plan.calls.count("start") == 1


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"connector.class": "Nowhere"}, "Nowhere"),
        ({"transforms": "a"}, "does not support transforms"),
        ({"value.converter": "Nothing"}, "Nothing"),
        ({"tasks.max": "0"}, "tasks.max"),
    ],
)
def test_what_cannot_be_begun_is_failed_at_once(world, config, told):
    with pytest.raises(ConnectError, match=told):
        world.start_task({**CONFIG, **config})
    assert world.statuses.states(TASK) == ["FAILED"]
    with pytest.raises(ConnectError, match=told):
        world.worker.start_connector("c", {**CONFIG, **config}, TargetState.STARTED)
    assert world.statuses.states("c") == ["FAILED"]
    assert world.worker.list_started_connectors_and_tasks() == ConnectorsAndTasks()


def test_a_class_of_tasks_must_be_one(world, plan):
    plan.does["task_class"] = lambda: dict
    with pytest.raises(ConnectError, match="task_class"):
        world.start_task()


# Sinks


def assigned(world):
    consumer = world.clients.one_consumer
    place = TopicPartition("t", 0)
    consumer.script.append(lambda: consumer.listener.on_partitions_assigned([place]))
    consumer.revoked_at_close = [place]  # as the library does
    return consumer, place


def test_a_sink_task_puts_and_commits_what_it_put(world, plan):
    consumer, place = assigned(world)
    consumer.script.append([task_clients.consumed(4, b"x"), task_clients.consumed(5, b"y")])
    put: list[object] = []
    plan.does["put"] = lambda found: put.extend(each.value for each in found)
    world.start_task(SINK)
    eventually(lambda: {place: 6} in consumer.committed, WAIT_S)
    world.worker.stop_connectors_and_tasks(ConnectorsAndTasks(tasks=(TASK,)))
    assert put == ["x", "y"]
    assert consumer.committed == [{place: 6}]
    assert plan.calls[-2:] == ["close", "stop"]
    assert plan.calls.count("close") == 1
    assert consumer.closed
    assert world.statuses.states(TASK) == ["RUNNING", "UNASSIGNED"]
    assert world.clients.plans[0].properties["group.id"] == "connect-c"


def test_a_batch_that_is_refused_is_put_again_and_not_committed_before(world, plan):
    consumer, place = assigned(world)
    consumer.script.append([task_clients.consumed(4)])
    tried = []

    def put(found):
        tried.append([each.kafka_offset for each in found])
        if found and len([each for each in tried if each]) < 3:
            assert consumer.committed == []
            raise RetriableError("later")

    plan.does["put"] = put
    world.start_task(SINK)
    eventually(lambda: consumer.committed == [{place: 5}], WAIT_S)
    assert [each for each in tried if each] == [[4], [4], [4]]
    assert consumer.paused == set()


def test_what_a_sink_task_throws_is_its_status_and_nothing_is_committed(world, plan):
    consumer, _ = assigned(world)
    consumer.script.append([task_clients.consumed(4)])
    plan.does["put"] = lambda found: boom() if found else None
    world.start_task(SINK)
    world.wait_for(TASK, "FAILED")
    assert consumer.committed == []
    assert consumer.closed
    assert "out of paper" in world.statuses.last(TASK).trace


def test_when_pre_commit_throws_records_are_delivered_again(world, plan):
    consumer, place = assigned(world)
    consumer.begins[place] = 4
    consumer.script.append([task_clients.consumed(4)])
    plan.does["pre_commit"] = lambda given: boom() if given[place] > 4 else {}
    world.start_task(SINK)
    eventually(lambda: {place: 4} in consumer.sought, WAIT_S)
    assert consumer.committed == []
    assert world.statuses.states(TASK) == ["RUNNING"]


def test_what_is_taken_away_is_committed_and_closed_first(world, plan):
    consumer, place = assigned(world)
    consumer.script.append([task_clients.consumed(4)])
    consumer.script.append(lambda: consumer.listener.on_partitions_revoked([place]))
    world.start_task(SINK)
    eventually(lambda: "close" in plan.calls, WAIT_S)
    assert consumer.committed == [{place: 5}]
    assert [each for each in plan.calls if each in {"open", "close"}] == ["open", "close"]
    world.worker.stop_connectors_and_tasks(ConnectorsAndTasks(tasks=(TASK,)))
    assert plan.calls.count("close") == 1


def test_what_is_lost_is_closed_and_not_committed(world, plan):
    plan.does["pre_commit"] = lambda _given: {}
    consumer, place = assigned(world)
    consumer.script.append([task_clients.consumed(4)])
    consumer.script.append(lambda: consumer.listener.on_partitions_lost([place]))
    world.start_task(SINK)
    eventually(lambda: "close" in plan.calls, WAIT_S)
    assert consumer.committed == []


def test_a_sink_task_may_begin_elsewhere_and_pause_partitions(world, plan):
    consumer, place = assigned(world)
    seen = []

    def begin(plugin, _partitions):
        plugin.context.rewind({place: 2})
        plugin.context.pause(place)
        with pytest.raises(IllegalWorkerStateError):
            plugin.context.pause(TopicPartition("u", 0))
        seen.append(plugin.context.assignment())

    plan.does["open"] = begin
    world.start_task(SINK)
    eventually(lambda: consumer.sought == [{place: 2}], WAIT_S)
    assert consumer.paused == {place}
    assert seen == [{place}]


def test_a_paused_sink_task_keeps_its_place_and_puts_nothing(world, plan):
    consumer, place = assigned(world)
    world.start_task(SINK)
    eventually(lambda: "open" in plan.calls, WAIT_S)
    world.worker.set_target_state("c", TargetState.PAUSED)
    world.wait_for(TASK, "PAUSED")
    eventually(lambda: consumer.paused == {place}, WAIT_S)
    calls = plan.calls.count("put")
    world.worker.set_target_state("c", TargetState.STARTED)
    eventually(lambda: consumer.paused == set(), WAIT_S)
    eventually(lambda: plan.calls.count("put") > calls, WAIT_S)


# Pipelines


def test_a_pipeline_learns_who_ran_its_tasks_last_and_with_what(world, plan):
    runs: list[LastTaskRuns] = []
    plan.does["run_once"] = lambda given: runs.append(given.get_last_task_runs())
    world.given = {0: (PublishedTaskConfig(config={"a": "1"}, published_ms=5),)}
    world.quiet = LeaderlessPeriod(from_ms=1, to_ms=2)
    world.start_task({**CONFIG, "connector.class": "Pipes"})
    eventually(lambda: runs, WAIT_S)
    assert runs[0] == LastTaskRuns(configs=world.given, leaderless_period=world.quiet)


def test_a_pipeline_is_running_once_it_says_so(world, plan):
    progress: list[PipelineProgress] = []
    plan.does["run_once"] = lambda given: progress and given.report(progress.pop())
    world.start_task({**CONFIG, "connector.class": "Pipes"})
    world.wait_for(TASK, "UNASSIGNED")
    Pipe = PipelineState
    progress.append(PipelineProgress(state=Pipe.WAITING, reason="2 slots are missing"))
    eventually(lambda: world.statuses.last(TASK).trace == "2 slots are missing", WAIT_S)
    progress.append(PipelineProgress(offsets=[SourceOffset({"f": "a"}, {"n": 3})]))
    world.wait_for(TASK, "RUNNING")
    eventually(lambda: world.stored() == {"n": 3}, WAIT_S)
    world.worker.set_target_state("c", TargetState.PAUSED)
    world.wait_for(TASK, "PAUSED")
    world.worker.set_target_state("c", TargetState.STARTED)
    world.wait_for(TASK, "RUNNING")
    eventually(
        lambda: [each for each in plan.calls if each in {"pause", "resume"}] == ["pause", "resume"],
        WAIT_S,
    )


def test_a_pipeline_that_does_not_stop_is_abandoned(hasty, plan):
    plan.does["stop"] = lambda: plan.release.wait(10)
    hasty.start_task({**CONFIG, "connector.class": "Pipes"})
    eventually(lambda: "run_once" in plan.calls, WAIT_S)
    hasty.worker.stop_connectors_and_tasks(ConnectorsAndTasks(tasks=(TASK,)))
    assert plan.calls[-1] == "abandon"


# Connectors


def test_a_connector_sees_what_was_published_for_its_tasks(world, plan):
    held = []
    plan.does["connector.start"] = lambda plugin, _props: held.append(plugin.context)
    world.worker.start_connector("c", CONFIG, TargetState.STARTED)
    eventually(lambda: held, 5.0)
    assert held[0].task_configs() == []
    log = ConfigTopicState()
    records_ = (
        config_records.encode_connector_config("c", CONFIG),
        *config_records.encode_task_configs("c", [{"n": "0", "gone": None}, {"n": "${p:k}"}]),
        config_records.encode_task_config_commit("c", 2),
    )
    for offset, each in enumerate(records_):
        log.apply_record(each.key, each.value, offset=offset)
    log.finish_replay()
    world.view = log.snapshot()
    assert held[0].task_configs() == [{"n": "0"}, {"n": "${p:k}"}]


def test_a_connector_starts_plans_and_stops(world, plan):
    world.worker.start_connector("c", CONFIG, TargetState.STARTED)
    eventually(lambda: world.reached == [("c", "STARTED", None)], WAIT_S)
    assert world.worker.connector_task_configs("c", CONFIG) == [
        {"a": "1", "secret": "${p:k}", "task.class": "SourceTask"}
    ]
    assert world.worker.connector_task_configs("other", CONFIG) is None
    world.worker.set_target_state("c", TargetState.PAUSED)
    eventually(lambda: world.reached[-1] == ("c", "PAUSED", None), WAIT_S)
    assert world.worker.connector_task_configs("c", CONFIG) is None
    world.worker.stop_connectors_and_tasks(ConnectorsAndTasks(connectors=("c",)))
    assert world.statuses.states("c") == ["RUNNING", "PAUSED", "UNASSIGNED"]


def test_tasks_of_sinks_are_told_their_topics(world):
    world.worker.start_connector("c", SINK, TargetState.STARTED)
    eventually(lambda: world.reached, WAIT_S)
    [config] = world.worker.connector_task_configs("c", SINK)
    assert config["topics"] == "t"


@pytest.mark.parametrize("where", ["connector.initialize", "connector.start"])
def test_what_a_connector_throws_is_its_status(world, plan, where):
    plan.does[where] = boom
    world.worker.start_connector("c", CONFIG, TargetState.STARTED)
    world.wait_for("c", "FAILED")
    eventually(lambda: world.reached, WAIT_S)
    assert world.reached[0][2] is not None
    assert world.worker.connector_task_configs("c", CONFIG) is None


def test_a_connector_may_fail_later_and_want_other_tasks(world, plan):
    held = []
    plan.does["connector.start"] = lambda plugin, _props: held.append(plugin.context)
    world.worker.start_connector("c", CONFIG, TargetState.STARTED)
    eventually(lambda: world.reached, WAIT_S)
    held[0].request_task_reconfiguration()
    assert world.wanted == ["c"]
    held[0].raise_error(RuntimeError("no source"))
    world.wait_for("c", "FAILED")
    assert "no source" in world.statuses.last("c").trace
    world.worker.stop_connectors_and_tasks(ConnectorsAndTasks(connectors=("c",)))
    with pytest.raises(IllegalWorkerStateError):
        held[0].request_task_reconfiguration()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("text", "must return a sequence"),
        ([7], "mappings of strings to strings"),
        ([{"a": 1}], "mappings of strings to strings"),
        ([{}, {}], "has generated 2 tasks"),
    ],
)
def test_what_task_configs_returns_amiss_is_told(world, plan, answer, told):
    plan.does["task_configs"] = lambda _most: answer
    world.worker.start_connector("c", CONFIG, TargetState.STARTED)
    eventually(lambda: world.reached, WAIT_S)
    with pytest.raises(ConnectError, match=told):
        world.worker.connector_task_configs("c", CONFIG)


def test_who_wants_too_many_tasks_has_failed(world, plan):
    """KIP-1004; unless that is allowed."""
    plan.does["task_configs"] = lambda _most: [{}, {}]
    world.worker.start_connector("c", CONFIG, TargetState.STARTED)
    eventually(lambda: world.reached, WAIT_S)
    allowed = {**CONFIG, "tasks.max.enforce": "false"}
    assert len(world.worker.connector_task_configs("c", allowed)) == 2
    assert world.statuses.states("c") == ["RUNNING"]
    with pytest.raises(ConfigError, match="has generated 2 tasks"):
        world.worker.connector_task_configs("c", CONFIG)
    world.wait_for("c", "FAILED")
    assert "has generated 2 tasks, which is greater than 1" in world.statuses.last("c").trace
    assert world.worker.connector_task_configs("c", CONFIG) is None, "it runs no more"


def test_no_task_of_too_many_is_begun(world):
    """What an older worker, which allowed it, has left in the config topic."""
    with pytest.raises(ConfigError, match="has generated 2 tasks, which is greater than 1"):
        world.start_task(tasks=2)
    assert world.statuses.states(TASK) == ["FAILED"]
    assert "tasks.max" in world.statuses.last(TASK).trace
    assert world.worker.list_started_connectors_and_tasks() == ConnectorsAndTasks()
    world.start_task({**CONFIG, "tasks.max.enforce": "false"}, tasks=2)
    world.wait_for(TASK, "RUNNING")


@pytest.mark.parametrize("enforced", ["true", "false"])
def test_more_tasks_than_any_connector_may_have_are_refused_before_they_are_copied(
    world, plan, enforced
):
    generated = UnreadSequence()
    plan.does["task_configs"] = lambda _most: generated
    world.worker.start_connector("c", CONFIG, TargetState.STARTED)
    eventually(lambda: world.reached, WAIT_S)
    most = {**CONFIG, "tasks.max": "10000", "tasks.max.enforce": enforced}
    with pytest.raises(TooManyTasksError, match="may have at most 10000 tasks"):
        world.worker.connector_task_configs("c", most)
    world.wait_for("c", "FAILED")


class UnreadSequence(Sequence):
    """A plan with 5,000,000 tasks that must not be read."""

    def __len__(self) -> int:
        return 5_000_000

    def __getitem__(self, index):
        raise AssertionError("the plan is read")


def test_what_task_configs_throws_is_told(world, plan):
    plan.does["task_configs"] = boom
    world.worker.start_connector("c", CONFIG, TargetState.STARTED)
    eventually(lambda: world.reached, WAIT_S)
    with pytest.raises(ConnectError, match="out of paper"):
        world.worker.connector_task_configs("c", CONFIG)


def test_why_a_task_could_not_be_created_is_kept(world):
    with pytest.raises(ConnectError) as raised:
        world.start_task({**CONFIG, "value.converter": "json:JSONDecoder"})
    assert raised.value.__cause__ is not None


# Metrics of plugins

MOVED = Metric(name="mover_moved", kind=MetricKind.GAUGE, help="Moved.")


def shown(world):
    return {each.metric.name: dict(each.series) for each in world.metrics.all_families}


def test_what_plugins_measure_is_shown_while_they_run(world, plan, caplog):
    def start(plugin, _props):
        plugin.context.add_metrics(lambda: [MetricFamily(metric=MOVED, series={(): 3.0})])
        plugin.context.add_metrics(boom)

    plan.does["start"] = start
    world.start_task()
    eventually(lambda: shown(world).get("mover_moved") == {(): 3.0}, 5.0)
    assert shown(world)["mover_moved"] == {(): 3.0}
    assert caplog.text.count("out of paper") == 1, "once, not at every scrape"
    world.worker.stop_connectors_and_tasks(ConnectorsAndTasks(tasks=(TASK,)))
    assert "mover_moved" not in shown(world)


def test_what_a_failed_task_measured_is_shown_no_more(world, plan):
    plan.does["start"] = lambda plugin, _props: plugin.context.add_metrics(
        lambda: [MetricFamily(metric=MOVED, series={(): 3.0})]
    )
    plan.does["poll"] = lambda _task: boom() if plan.release.is_set() else None
    world.start_task()
    eventually(lambda: "mover_moved" in shown(world), 5.0)
    plan.release.set()
    world.wait_for(TASK, "FAILED")
    assert "mover_moved" not in shown(world)


def test_connectors_measure_too(world, plan):
    plan.does["connector.start"] = lambda plugin, _props: plugin.context.add_metrics(
        lambda: [MetricFamily(metric=MOVED, series={(): 1.0})]
    )
    world.worker.start_connector("c", CONFIG, TargetState.STARTED)
    eventually(lambda: "mover_moved" in shown(world), 5.0)
    world.worker.stop_connectors_and_tasks(ConnectorsAndTasks(connectors=("c",)))
    assert "mover_moved" not in shown(world)
