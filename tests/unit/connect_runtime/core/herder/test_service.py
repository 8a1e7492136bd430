from __future__ import annotations

import pytest

from connect_runtime.core.herder import events, instructions, memory, requests, service
from connect_runtime.core.state import cluster_config, config_records, status_records
from tests.fakes import herder_cluster

TASK = herder_cluster.task("c", 0)


@pytest.fixture
def world():
    return herder_cluster.Cluster()


@pytest.fixture
def worker(world):
    """The only one, with a connector of two tasks."""
    first = world.join("a")
    world.create(first, "c", tasks=2, password="x")
    return first


def ask(world, worker, request):
    return worker.replies.get(world.ask(worker, request))


def all_of(name, **more):
    return requests.RestartAll(config_records.RestartRequest(connector=name, **more))


def test_a_connector_is_described_as_it_was_written(world, worker):
    assert ask(world, worker, requests.Describe("c")) == requests.Description(
        connector="c",
        config={"name": "c", "password": "x"},
        task_configs=({"n": "0"}, {"n": "1"}),
    )


def test_health_is_that_the_herder_comes_round(world, worker):
    assert ask(world, worker, requests.CheckHealth()) == requests.Accepted()


def test_a_connector_may_be_created_in_another_state(world, worker):
    stopped = cluster_config.TargetState.STOPPED
    put = requests.PutConnector(connector="d", config={}, target_state=stopped)
    assert ask(world, worker, put).created
    assert world.view().target_state("d") is stopped
    assert "d" in world.owners()


def test_a_connector_configured_anew_is_not_created_and_its_tasks_are_told(world, worker):
    put = requests.PutConnector(connector="c", config={"name": "c"})
    reply = ask(world, worker, put)
    assert (reply.created, [str(each) for each in reply.tasks]) == (False, ["c-0", "c-1"])
    assert worker.runs["c"] == {"name": "c"}


def test_of_two_who_create_the_same_connector_at_once_one_is_too_late(world, worker):
    """Java lets both."""
    create = requests.PutConnector(connector="new", config={}, replace=False)
    for ticket in (70, 71):
        worker.inbox.append(events.Submitted(ticket=ticket, request=create))
    world.run()
    assert worker.replies[70].created
    assert worker.replies[71] == requests.Refused(409, "Connector new already exists")


def test_a_patch_is_merged_and_validated_before_it_is_written(world, worker):
    patch = requests.PatchConnector(connector="c", patch={"password": None, "new": "1"})
    ticket = world.ask(worker, patch)
    [order] = worker.of(instructions.ValidateAndPut)
    assert order.ticket == ticket
    assert dict(order.config) == {"name": "c", "new": "1"}
    assert ticket not in worker.replies
    put = requests.PutConnector(connector="c", config=order.config)
    world.tell(worker, events.Submitted(ticket=ticket, request=put))
    assert not worker.replies[ticket].created


def test_a_deleted_connector_is_gone_with_its_tasks(world, worker):
    assert ask(world, worker, requests.DeleteConnector("c")) == requests.Accepted()
    assert world.owners() == {}
    assert world.view().target_state("c") is None


def test_stopping_gives_up_the_tasks_first(world, worker):
    assert ask(world, worker, requests.StopConnector("c")) == requests.Accepted()
    writes = [each.write for each in worker.of(instructions.Write)]
    [empty] = [
        each
        for each in writes
        if isinstance(each, instructions.WriteTaskConfigs) and not each.configs
    ]
    stopped = cluster_config.TargetState.STOPPED
    assert writes[writes.index(empty) + 1] == instructions.WriteTargetState(
        connector="c", state=stopped
    )
    assert world.owners() == {"c": "a"}
    assert world.view().task_count("c") == 0


def test_what_could_not_be_written_is_told(world, worker):
    for request in (
        requests.PutConnector(connector="c", config={}),
        requests.DeleteConnector("c"),
        requests.StopConnector("c"),
        all_of("c"),
        requests.PutTaskConfigs(connector="c", configs=[{}]),
    ):
        worker.outcomes[instructions.Write] = [events.Failed(reason="timed out after 30 s")]
        assert ask(world, worker, request) == requests.Refused(500, "timed out after 30 s")
    assert sorted(world.owners()) == ["c", "c-0", "c-1"]


def test_restarting_a_connector_is_answered_when_it_was_asked_for_its_tasks(world, worker):
    before = len(worker.said)
    assert ask(world, worker, requests.RestartConnector("c")) == requests.Accepted()
    kinds = [type(each).__name__ for each in worker.said[before:]]
    assert kinds == ["StopWork", "StartWork", "GenerateTaskConfigs", "Answer"]


def test_a_connector_that_does_not_start_again_is_told(world, worker):
    worker.outcomes[instructions.StartWork] = [events.Started()]
    ticket = world.ask(worker, requests.RestartConnector("c"))
    assert ticket not in worker.replies
    state = cluster_config.TargetState.STARTED
    world.tell(worker, events.ConnectorReached(connector="c", state=state, error="ouch"))
    assert worker.replies[ticket] == requests.Refused(500, "Failed to start connector: c: ouch")


def test_a_connector_that_cannot_even_be_begun_is_told_at_once(world, worker):
    worker.outcomes[instructions.StartWork] = [events.Started((("c", "no such class"),))]
    ticket = world.ask(worker, requests.RestartConnector("c"))
    assert worker.replies[ticket].message == "Failed to start connector: c: no such class"
    state = cluster_config.TargetState.STARTED
    world.tell(worker, events.ConnectorReached(connector="c", state=state))


def test_a_paused_connector_is_restarted_without_its_tasks(world, worker):
    world.write(config_records.target_state("c", cluster_config.TargetState.PAUSED))
    before = len(worker.of(instructions.GenerateTaskConfigs))
    assert ask(world, worker, requests.RestartConnector("c")) == requests.Accepted()
    assert len(worker.of(instructions.GenerateTaskConfigs)) == before


def test_a_task_is_restarted_or_why_not(world, worker):
    request = requests.RestartTask(TASK)
    assert ask(world, worker, request) == requests.Accepted()
    worker.outcomes[instructions.StartWork] = [events.Started(((TASK, "no plugin"),))]
    assert ask(world, worker, request) == requests.Refused(
        500, "Failed to start task: c-0: no plugin"
    )


def test_a_restart_of_everything_is_written_planned_and_done(world, worker):
    before = len(worker.said)
    reply = ask(world, worker, all_of("c", include_tasks=True))
    assert isinstance(reply, requests.Restarting)
    assert reply.plan.restarts_connector
    assert [str(each) for each in reply.plan.restarted_tasks()] == ["c-0", "c-1"]
    kinds = [type(each).__name__ for each in worker.said[before:]]
    assert [each for each in kinds if each in ("StopWork", "SayRestarting", "StartWork")] == [
        "StopWork",
        "SayRestarting",
        "StartWork",
    ]
    assert sorted(world.owners()) == ["c", "c-0", "c-1"]


def test_a_connector_without_a_status_has_nothing_to_restart(world, worker):
    world.say(worker, "c", status_records.State.DESTROYED)
    reply = ask(world, worker, all_of("c"))
    assert reply == requests.Refused(404, "Status for connector c not found")


def test_offsets_are_modified_after_a_last_look(world, worker):
    modify = requests.ModifyOffsets("c", None)
    assert ask(world, worker, modify).status == 400
    ask(world, worker, requests.StopConnector("c"))
    ticket = world.ask(worker, modify)
    [order] = worker.of(instructions.AnswerByWorker)
    assert order == instructions.AnswerByWorker(ticket=ticket, request=modify)
    worker.outcomes[instructions.ReadConfigs] = [events.TimedOut()]
    refused = ask(world, worker, modify)
    assert (refused.status, "read to end of config topic" in refused.message) == (500, True)


def test_offsets_are_read_by_the_worker(world, worker):
    ticket = world.ask(worker, requests.ReadOffsets("c"))
    assert worker.of(instructions.AnswerByWorker)[0].ticket == ticket


def test_who_is_to_be_fenced_is_fenced_once(world, worker):
    fence = requests.FenceTasks(connector="c", is_source=True)
    assert ask(world, worker, fence) == requests.Accepted()
    assert world.view().fencing_count("c") == 2
    assert ask(world, worker, fence) == requests.Accepted()
    world.plans["c"] = [{"n": "9"}]
    world.tell(worker, events.ReconfigurationWanted("c"))
    ticket = world.ask(worker, fence)
    [order] = worker.of(instructions.FenceProducers)
    assert (order.ticket, order.producers, order.tasks) == (ticket, 2, 1)
    assert ticket not in worker.replies


def test_the_owner_is_asked_to_restart_what_runs_elsewhere(world, worker):
    other = world.join("b")
    item = next(iter(other.runs))
    request: requests.Request = requests.RestartTask(item)
    if isinstance(item, str):
        request = requests.RestartConnector(item)
    assert ask(world, worker, request).url == other.url
    assert ask(world, other, requests.DeleteConnector("c")).url == worker.url


def test_a_scheduled_restart_that_nobody_asked_for_is_answered_to_nobody(world, worker):
    event = events.Submitted(ticket=None, request=requests.RestartConnector("c"), delay_s=30)
    world.tell(worker, event)
    world.pass_time(10)
    world.tell(worker, event)  # in place of the one before
    before = len(worker.of(instructions.StartWork))
    world.pass_time(20)
    assert len(worker.of(instructions.StartWork)) == before
    replies = dict(worker.replies)
    world.pass_time(100)
    assert len(worker.of(instructions.StartWork)) == before + 1
    assert worker.replies == replies


def test_at_the_end_everybody_is_answered():
    seen = herder_cluster.Cluster().seen(herder_cluster.Cluster().join("a"))
    m = memory.Memory(settings=memory.HerderSettings(), seen=seen)
    m.queue.add(requests.CheckHealth(), ticket=1, at_s=0)
    waiting = requests.Reconfigure(connector="c", asked_s=0, waiting=(2, 3))
    m.queue.add(waiting, ticket=None, at_s=0)
    m.restarting["d"] = [4]
    answers = list(service.refuse_all(m))
    assert [each.ticket for each in answers] == [1, 2, 3, 4]
    assert {each.reply for each in answers} == {requests.Refused(500, service.CLOSING)}
    assert list(service.refuse_all(m)) == []
