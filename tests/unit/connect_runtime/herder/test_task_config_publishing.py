from __future__ import annotations

import pytest

from connect_runtime.herder import task_config_publishing
from connect_runtime.herder.herder_actions import (
    GenerateTaskConfigs,
    WriteConfigTopic,
    WriteLogLine,
)
from connect_runtime.herder.herder_events import (
    ActionCompleted,
    ActionFailed,
    ConnectorNotRunning,
    TaskConfigsForwarded,
    TaskConfigsGenerated,
    TaskReconfigurationRequested,
)
from connect_runtime.herder.herder_requests import RequestSucceeded, RestartConnector
from connect_runtime.storage import config_records
from connect_runtime.storage.cluster_config_state import (
    ClusterConfigState,
    ConnectorConfigEntry,
    TargetState,
)
from tests.fakes import herder_cluster
from tests.fakes.herder_cluster import Cluster

WANTED = TaskReconfigurationRequested("c")


@pytest.fixture
def world():
    return Cluster()


@pytest.fixture
def worker(world):
    first = world.join("a")
    world.create(first, "c", tasks=2)
    return first


def generations(worker):
    return len(worker.of(GenerateTaskConfigs))


def test_unchanged_task_configs_are_not_written(world, worker):
    rounds, offset = world.rounds, world.view().offset
    world.tell(worker, WANTED)
    assert (world.rounds, world.view().offset) == (rounds, offset)


def test_changed_task_configs_are_written_and_run(world, worker):
    world.plans["c"] = [{"n": "x"}]
    world.tell(worker, WANTED)
    assert worker.runs[herder_cluster.task("c", 0)] == {"n": "x"}
    assert sorted(world.owners()) == ["c", "c-0"]


def test_failures_are_tried_again_ever_more_slowly(world, worker):
    world.plans["c"] = ActionFailed(reason="source is down")
    start_s, times = world.now_s, []
    world.tell(worker, WANTED)
    for _ in range(4):
        due_s = worker.herder.get_next_tick_s()
        times.append(due_s - start_s)
        world.pass_time(due_s - world.now_s)
    assert times == pytest.approx([0.25, 0.75, 1.75, 3.75])
    notes = [each.text for each in worker.of(WriteLogLine)]
    why = "failed to publish task configs of c, retrying in 0.25 s: source is down"
    assert why in notes
    world.plans["c"] = [{"n": "at last"}]
    world.pass_time(10)
    assert worker.runs[herder_cluster.task("c", 0)] == {"n": "at last"}


def test_a_connector_with_too_many_tasks_is_not_asked_again(world, worker):
    world.plans["c"] = ActionFailed(reason="too many tasks", is_permanent=True)
    before = generations(worker)
    world.tell(worker, WANTED)
    world.pass_time(1000)
    assert generations(worker) == before + 1


def test_a_new_wish_replaces_what_waits_to_be_tried_again(world, worker):
    world.plans["c"] = ActionFailed(reason="down")
    for _ in range(5):
        world.tell(worker, WANTED)
    before = generations(worker)
    world.pass_time(0.3)
    assert generations(worker) == before + 1


def test_only_started_connectors_that_run_here_are_asked(world, worker):
    before = generations(worker)
    world.tell(worker, TaskReconfigurationRequested("elsewhere"))
    world.write(config_records.encode_target_state("c", TargetState.PAUSED))
    world.tell(worker, WANTED)
    assert generations(worker) == before
    world.plans["c"] = ConnectorNotRunning()
    world.write(config_records.encode_target_state("c", TargetState.STARTED))
    assert generations(worker) == before + 1


def test_a_failed_write_is_tried_again(world, worker):
    world.plans["c"] = [{"n": "x"}]
    worker.outcomes[WriteConfigTopic] = [ActionFailed(reason="timed out")]
    world.tell(worker, WANTED)
    assert sorted(world.owners()) == ["c", "c-0", "c-1"]
    world.pass_time(0.3)
    assert sorted(world.owners()) == ["c", "c-0"]


def follower(world, worker):
    """A second worker that runs a connector of its own."""
    other = world.join("b")
    world.create(worker, "d", tasks=1)
    [name] = [each for each in other.runs if isinstance(each, str)]
    return other, name


def unanswered(world, other, name, **answer):
    """The follower sends, and the leader says this."""
    herder, seen = other.herder, world.seen(other)
    [ask] = herder.process_event(TaskReconfigurationRequested(name), seen)
    assert ask == GenerateTaskConfigs(name)
    generated = TaskConfigsGenerated(configs=[{"n": "new"}], config_applied=True)
    [order] = herder.process_event(ActionCompleted(generated), seen)
    assert order.connector == name
    return herder.process_event(TaskConfigsForwarded(token=order.token, **answer), seen), herder


def test_what_the_leader_did_not_take_is_sent_again(world, worker):
    other, name = follower(world, worker)
    said, herder = unanswered(world, other, name, error="409 rebalance", status=409)
    assert [type(each) for each in said] == [WriteLogLine]
    assert herder.get_next_tick_s() == pytest.approx(world.now_s + 0.25)


def test_a_signature_refused_soon_after_is_no_news(world, worker):
    """The session key was renewed in between."""
    other, name = follower(world, worker)
    said, herder = unanswered(world, other, name, error="403", status=403)
    assert said == []
    assert herder.get_next_tick_s() == pytest.approx(world.now_s + 0.25)


def test_what_the_leader_took_is_done_with_and_nobody_else_is_heard(world, worker):
    other, name = follower(world, worker)
    said, herder = unanswered(world, other, name)
    assert said == []
    assert herder.get_next_tick_s() is None
    seen = world.seen(other)
    assert herder.process_event(TaskConfigsForwarded(token=77, error="?"), seen) == []
    assert herder.get_next_tick_s() is None


def test_without_a_leader_to_send_to_it_waits(world, worker):
    ticket = world.ask(worker, RestartConnector("c"))
    assert worker.replies[ticket] == RequestSucceeded()
    world.plans["c"] = ActionFailed(reason="down")
    ticket = world.ask(worker, RestartConnector("c"))
    assert worker.replies[ticket] == RequestSucceeded()  # it is started, and asked again later
    assert worker.herder.get_next_tick_s() == pytest.approx(world.now_s + 0.25)


VIEW = ClusterConfigState(
    entries={
        "c": ConnectorConfigEntry(
            config={}, task_count=2, task_configs={0: {"a": "${f:x}"}, 1: {"a": "2"}}
        ),
        "half": ConnectorConfigEntry(config={}, task_count=1, task_configs={}, inconsistent=True),
        "none": ConnectorConfigEntry(config={}),
    }
)


@pytest.mark.parametrize(
    ("connector", "configs", "applied", "changed"),
    [
        ("c", [{"a": "${f:x}"}, {"a": "2"}], True, False),
        ("c", [{"a": "${f:x}"}, {"a": "2"}], False, True),
        ("c", [{"a": "1"}, {"a": "2"}], True, True),
        ("c", [{"a": "2"}, {"a": "${f:x}"}], True, True),
        ("c", [{"a": "${f:x}"}, {"a": "2", "b": None}], True, True),
        ("c", [{"a": "${f:x}"}], True, True),
        ("c", [], True, True),
        ("half", [{}], True, True),
        ("none", [], True, False),
        ("none", [], False, True),
    ],
)
def test_only_what_changes_something_is_published(connector, configs, applied, changed):
    """AbstractHerderTest.testTaskConfigsChanged*"""
    assert (
        task_config_publishing.have_task_configs_changed(
            VIEW, connector, configs, config_applied=applied
        )
        is changed
    )


def test_tries_come_ever_more_slowly_up_to_a_minute():
    delays = [task_config_publishing.compute_retry_delay_s(each) for each in range(1, 12)]
    assert delays == [0.25, 0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert task_config_publishing.compute_retry_delay_s(10**6) == 60


@pytest.mark.parametrize(
    ("value", "refers"),
    [
        ('"${::}"', True),
        ("${::}", True),
        ('"${:/a:somevar}"', True),
        ('"${file::somevar}"', True),
        ("${file:/a/b/c:}", True),
        ("${env:HOME}", True),
        ("plain.Module required username=${file:/tmp/x:a} password=${file:/tmp/x:b}", True),
        ("plain.PlainLoginModule required username", False),
        ("${name}", False),
        ("$${", False),
        ("", False),
        (None, False),
    ],
)
def test_which_values_refer_to_providers(value, refers):
    """AbstractHerderTest.testConfigProviderRegex."""
    assert bool(task_config_publishing.find_provider_references({"key": value})) is refers


def test_references_of_the_connector_stand_in_its_task_configs():
    """testReverseTransformConfigs: by name, whatever the value is by now."""
    config = {"a": "${file:/x:a}", "b": "${file:/x:b}", "c": "${file:/x:c}", "d": "plain"}
    written = task_config_publishing.restore_provider_references(
        [{"a": "secret", "d": "other"}, {"b": None}], config
    )
    assert written == [{"a": "${file:/x:a}", "d": "other"}, {"b": "${file:/x:b}"}]
