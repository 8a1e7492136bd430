from __future__ import annotations

import pytest

from connect_runtime.core.herder import events, instructions, requests
from connect_runtime.core.state import cluster_config, config_records
from tests.fakes import herder_cluster

WANTED = events.ReconfigurationWanted("c")


@pytest.fixture
def world():
    return herder_cluster.Cluster()


@pytest.fixture
def worker(world):
    first = world.join("a")
    world.create(first, "c", tasks=2)
    return first


def generations(worker):
    return len(worker.of(instructions.GenerateTaskConfigs))


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
    world.plans["c"] = events.Failed(reason="source is down")
    start_s, times = world.now_s, []
    world.tell(worker, WANTED)
    for _ in range(4):
        due_s = worker.herder.wake_at_s()
        times.append(due_s - start_s)
        world.pass_time(due_s - world.now_s)
    assert times == pytest.approx([0.25, 0.75, 1.75, 3.75])
    notes = [each.text for each in worker.of(instructions.Note)]
    why = "the task configs of c were not published, trying again in 0.25 s: source is down"
    assert why in notes
    world.plans["c"] = [{"n": "at last"}]
    world.pass_time(10)
    assert worker.runs[herder_cluster.task("c", 0)] == {"n": "at last"}


def test_a_connector_with_too_many_tasks_is_not_asked_again(world, worker):
    world.plans["c"] = events.Failed(reason="too many tasks", lasting=True)
    before = generations(worker)
    world.tell(worker, WANTED)
    world.pass_time(1000)
    assert generations(worker) == before + 1


def test_a_new_wish_replaces_what_waits_to_be_tried_again(world, worker):
    world.plans["c"] = events.Failed(reason="down")
    for _ in range(5):
        world.tell(worker, WANTED)
    before = generations(worker)
    world.pass_time(0.3)
    assert generations(worker) == before + 1


def test_only_started_connectors_that_run_here_are_asked(world, worker):
    before = generations(worker)
    world.tell(worker, events.ReconfigurationWanted("elsewhere"))
    world.write(config_records.target_state("c", cluster_config.TargetState.PAUSED))
    world.tell(worker, WANTED)
    assert generations(worker) == before
    world.plans["c"] = events.NotRunning()
    world.write(config_records.target_state("c", cluster_config.TargetState.STARTED))
    assert generations(worker) == before + 1


def test_a_failed_write_is_tried_again(world, worker):
    world.plans["c"] = [{"n": "x"}]
    worker.outcomes[instructions.Write] = [events.Failed(reason="timed out")]
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
    [ask] = herder.step(events.ReconfigurationWanted(name), seen)
    assert ask == instructions.GenerateTaskConfigs(name)
    generated = events.Generated(configs=[{"n": "new"}], config_applied=True)
    [order] = herder.step(events.Answered(generated), seen)
    assert order.connector == name
    return herder.step(events.TaskConfigsForwarded(token=order.token, **answer), seen), herder


def test_what_the_leader_did_not_take_is_sent_again(world, worker):
    other, name = follower(world, worker)
    said, herder = unanswered(world, other, name, error="409 rebalance", status=409)
    assert [type(each) for each in said] == [instructions.Note]
    assert herder.wake_at_s() == pytest.approx(world.now_s + 0.25)


def test_a_signature_refused_soon_after_is_no_news(world, worker):
    """The session key was renewed in between."""
    other, name = follower(world, worker)
    said, herder = unanswered(world, other, name, error="403", status=403)
    assert said == []
    assert herder.wake_at_s() == pytest.approx(world.now_s + 0.25)


def test_what_the_leader_took_is_done_with_and_nobody_else_is_heard(world, worker):
    other, name = follower(world, worker)
    said, herder = unanswered(world, other, name)
    assert said == []
    assert herder.wake_at_s() is None
    seen = world.seen(other)
    assert herder.step(events.TaskConfigsForwarded(token=77, error="?"), seen) == []
    assert herder.wake_at_s() is None


def test_without_a_leader_to_send_to_it_waits(world, worker):
    ticket = world.ask(worker, requests.RestartConnector("c"))
    assert worker.replies[ticket] == requests.Accepted()
    world.plans["c"] = events.Failed(reason="down")
    ticket = world.ask(worker, requests.RestartConnector("c"))
    assert worker.replies[ticket] == requests.Accepted()  # it is started, and asked again later
    assert worker.herder.wake_at_s() == pytest.approx(world.now_s + 0.25)
