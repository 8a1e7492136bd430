from __future__ import annotations

import pytest

from connect_runtime.herder import herder_request_handler
from connect_runtime.herder.herder_actions import (
    FenceZombieProducers,
    GenerateTaskConfigs,
    HandleOffsetsRequest,
    ReadConfigTopic,
    StartConnectorsAndTasks,
    ValidateAndPutConnector,
    WriteConfigTopic,
    WriteTargetState,
    WriteTaskConfigs,
)
from connect_runtime.herder.herder_events import (
    ActionFailed,
    ActionTimedOut,
    ConnectorsAndTasksStarted,
    ConnectorStateReached,
    RequestSubmitted,
    TaskReconfigurationRequested,
)
from connect_runtime.herder.herder_requests import (
    CheckHealth,
    ConnectorDescription,
    DeleteConnector,
    DescribeConnector,
    FenceZombieTasks,
    HerderRequest,
    ModifyConnectorOffsets,
    PatchConnector,
    PutConnector,
    PutTaskConfigs,
    ReadConnectorOffsets,
    ReconfigureConnectorTasks,
    RequestRefused,
    RequestSucceeded,
    RestartAccepted,
    RestartConnector,
    RestartConnectorAndTasks,
    RestartTask,
    StopConnector,
)
from connect_runtime.herder.herder_state import HerderSettings, HerderState
from connect_runtime.storage import config_records
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.config_records import RestartRequest
from connect_runtime.storage.status_records import RunState
from tests.fakes import herder_cluster
from tests.fakes.herder_cluster import Cluster

TASK = herder_cluster.task("c", 0)


@pytest.fixture
def world():
    return Cluster()


@pytest.fixture
def worker(world):
    """The only one, with a connector of two tasks."""
    first = world.join("a")
    world.create(first, "c", tasks=2, password="x")
    return first


def ask(world, worker, request):
    return worker.replies.get(world.ask(worker, request))


def all_of(name, **more):
    return RestartConnectorAndTasks(RestartRequest(connector=name, **more))


def test_a_connector_is_described_as_it_was_written(world, worker):
    assert ask(world, worker, DescribeConnector("c")) == ConnectorDescription(
        connector="c",
        config={"name": "c", "password": "x"},
        task_configs=({"n": "0"}, {"n": "1"}),
    )


def test_health_is_that_the_herder_comes_round(world, worker):
    assert ask(world, worker, CheckHealth()) == RequestSucceeded()


def test_a_connector_may_be_created_in_another_state(world, worker):
    stopped = TargetState.STOPPED
    put = PutConnector(connector="d", config={}, target_state=stopped)
    assert ask(world, worker, put).created
    assert world.view().target_state("d") is stopped
    assert "d" in world.owners()


def test_a_connector_configured_anew_is_not_created_and_its_tasks_are_told(world, worker):
    put = PutConnector(connector="c", config={"name": "c"})
    reply = ask(world, worker, put)
    assert (reply.created, [str(each) for each in reply.tasks]) == (False, ["c-0", "c-1"])
    assert worker.runs["c"] == {"name": "c"}


def test_of_two_who_create_the_same_connector_at_once_one_is_too_late(world, worker):
    """Java lets both."""
    create = PutConnector(connector="new", config={}, replace=False)
    for ticket in (70, 71):
        worker.inbox.append(RequestSubmitted(ticket=ticket, request=create))
    world.run()
    assert worker.replies[70].created
    assert worker.replies[71] == RequestRefused(409, "Connector new already exists")


def test_a_patch_is_merged_and_validated_before_it_is_written(world, worker):
    patch = PatchConnector(connector="c", patch={"password": None, "new": "1"})
    ticket = world.ask(worker, patch)
    [order] = worker.of(ValidateAndPutConnector)
    assert order.ticket == ticket
    assert dict(order.config) == {"name": "c", "new": "1"}
    assert ticket not in worker.replies
    put = PutConnector(connector="c", config=order.config)
    world.tell(worker, RequestSubmitted(ticket=ticket, request=put))
    assert not worker.replies[ticket].created


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        ({f"k{at}": "" for at in range(10_000)}, "the configuration has 10,002 keys; allowed: at"),
        ({"name": "d"}, "Connector name configuration (d) doesn't match connector name in the URL"),
    ],
    ids=["many keys", "another name"],
)
def test_a_patch_obeys_the_rules_for_whole_configurations(world, worker, patch, told):
    refused = ask(world, worker, PatchConnector(connector="c", patch=patch))
    assert isinstance(refused, RequestRefused)
    assert refused.status == 400
    assert refused.message.startswith(told)
    assert worker.of(ValidateAndPutConnector) == []


def test_a_patch_cannot_remove_the_name(world, worker):
    world.ask(worker, PatchConnector(connector="c", patch={"name": None}))
    [order] = worker.of(ValidateAndPutConnector)
    assert order.config["name"] == "c"


def test_a_deleted_connector_is_gone_with_its_tasks(world, worker):
    assert ask(world, worker, DeleteConnector("c")) == RequestSucceeded()
    assert world.owners() == {}
    assert world.view().target_state("c") is None


def test_stopping_gives_up_the_tasks_first(world, worker):
    assert ask(world, worker, StopConnector("c")) == RequestSucceeded()
    writes = [each.write for each in worker.of(WriteConfigTopic)]
    [empty] = [each for each in writes if isinstance(each, WriteTaskConfigs) and not each.configs]
    stopped = TargetState.STOPPED
    assert writes[writes.index(empty) + 1] == WriteTargetState(connector="c", state=stopped)
    assert world.owners() == {"c": "a"}
    assert world.view().task_count("c") == 0


def test_what_could_not_be_written_is_told(world, worker):
    for request in (
        PutConnector(connector="c", config={}),
        DeleteConnector("c"),
        StopConnector("c"),
        all_of("c"),
        PutTaskConfigs(connector="c", configs=[{}]),
    ):
        worker.outcomes[WriteConfigTopic] = [ActionFailed(reason="timed out after 30 s")]
        assert ask(world, worker, request) == RequestRefused(500, "timed out after 30 s")
    assert sorted(world.owners()) == ["c", "c-0", "c-1"]


def test_restarting_a_connector_is_answered_when_it_was_asked_for_its_tasks(world, worker):
    before = len(worker.said)
    assert ask(world, worker, RestartConnector("c")) == RequestSucceeded()
    kinds = [type(each).__name__ for each in worker.said[before:]]
    assert kinds == [
        "StopConnectorsAndTasks",
        "StartConnectorsAndTasks",
        "GenerateTaskConfigs",
        "SendReply",
    ]


def test_a_connector_that_does_not_start_again_is_told(world, worker):
    worker.outcomes[StartConnectorsAndTasks] = [ConnectorsAndTasksStarted()]
    ticket = world.ask(worker, RestartConnector("c"))
    assert ticket not in worker.replies
    state = TargetState.STARTED
    world.tell(worker, ConnectorStateReached(connector="c", state=state, error="ouch"))
    assert worker.replies[ticket] == RequestRefused(500, "Failed to start connector: c: ouch")


def test_a_connector_that_cannot_even_be_begun_is_told_at_once(world, worker):
    worker.outcomes[StartConnectorsAndTasks] = [
        ConnectorsAndTasksStarted((("c", "no such class"),))
    ]
    ticket = world.ask(worker, RestartConnector("c"))
    assert worker.replies[ticket].message == "Failed to start connector: c: no such class"
    state = TargetState.STARTED
    world.tell(worker, ConnectorStateReached(connector="c", state=state))


def test_a_paused_connector_is_restarted_without_its_tasks(world, worker):
    world.write(config_records.encode_target_state("c", TargetState.PAUSED))
    before = len(worker.of(GenerateTaskConfigs))
    assert ask(world, worker, RestartConnector("c")) == RequestSucceeded()
    assert len(worker.of(GenerateTaskConfigs)) == before


def test_a_task_is_restarted_or_why_not(world, worker):
    request = RestartTask(TASK)
    assert ask(world, worker, request) == RequestSucceeded()
    worker.outcomes[StartConnectorsAndTasks] = [ConnectorsAndTasksStarted(((TASK, "no plugin"),))]
    assert ask(world, worker, request) == RequestRefused(
        500, "Failed to start task: c-0: no plugin"
    )


def test_a_restart_of_everything_is_written_planned_and_done(world, worker):
    before = len(worker.said)
    reply = ask(world, worker, all_of("c", include_tasks=True))
    assert isinstance(reply, RestartAccepted)
    assert reply.plan.restarts_connector
    assert [str(each) for each in reply.plan.list_tasks_to_restart()] == ["c-0", "c-1"]
    kinds = [type(each).__name__ for each in worker.said[before:]]
    assert [
        each
        for each in kinds
        if each
        in ("StopConnectorsAndTasks", "PublishRestartingStatuses", "StartConnectorsAndTasks")
    ] == [
        "StopConnectorsAndTasks",
        "PublishRestartingStatuses",
        "StartConnectorsAndTasks",
    ]
    assert sorted(world.owners()) == ["c", "c-0", "c-1"]


def test_a_connector_without_a_status_has_nothing_to_restart(world, worker):
    world.say(worker, "c", RunState.DESTROYED)
    reply = ask(world, worker, all_of("c"))
    assert reply == RequestRefused(404, "Status for connector c not found")


def test_offsets_are_modified_after_a_last_look(world, worker):
    modify = ModifyConnectorOffsets("c", None)
    assert ask(world, worker, modify).status == 400
    ask(world, worker, StopConnector("c"))
    ticket = world.ask(worker, modify)
    [order] = worker.of(HandleOffsetsRequest)
    assert order == HandleOffsetsRequest(ticket=ticket, request=modify)
    worker.outcomes[ReadConfigTopic] = [ActionTimedOut()]
    refused = ask(world, worker, modify)
    assert (refused.status, "read to end of config topic" in refused.message) == (500, True)


def test_offsets_are_read_by_the_worker(world, worker):
    ticket = world.ask(worker, ReadConnectorOffsets("c"))
    assert worker.of(HandleOffsetsRequest)[0].ticket == ticket


def test_who_is_to_be_fenced_is_fenced_once(world, worker):
    fence = FenceZombieTasks(connector="c", is_source=True)
    assert ask(world, worker, fence) == RequestSucceeded()
    assert world.view().fencing_count("c") == 2
    assert ask(world, worker, fence) == RequestSucceeded()
    world.plans["c"] = [{"n": "9"}]
    world.tell(worker, TaskReconfigurationRequested("c"))
    ticket = world.ask(worker, fence)
    [order] = worker.of(FenceZombieProducers)
    assert (order.ticket, order.producers, order.tasks) == (ticket, 2, 1)
    assert ticket not in worker.replies


def test_the_owner_is_asked_to_restart_what_runs_elsewhere(world, worker):
    other = world.join("b")
    item = next(iter(other.runs))
    request: HerderRequest = RestartTask(item)
    if isinstance(item, str):
        request = RestartConnector(item)
    assert ask(world, worker, request).url == other.url
    assert ask(world, other, DeleteConnector("c")).url == worker.url


def test_a_scheduled_restart_that_nobody_asked_for_is_answered_to_nobody(world, worker):
    event = RequestSubmitted(ticket=None, request=RestartConnector("c"), delay_s=30)
    world.tell(worker, event)
    world.pass_time(10)
    world.tell(worker, event)  # in place of the one before
    before = len(worker.of(StartConnectorsAndTasks))
    world.pass_time(20)
    assert len(worker.of(StartConnectorsAndTasks)) == before
    replies = dict(worker.replies)
    world.pass_time(100)
    assert len(worker.of(StartConnectorsAndTasks)) == before + 1
    assert worker.replies == replies


def test_at_the_end_everybody_is_answered():
    seen = Cluster().seen(Cluster().join("a"))
    m = HerderState(settings=HerderSettings(), snapshot=seen)
    m.queue.add_request(CheckHealth(), ticket=1, due_s=0)
    waiting = ReconfigureConnectorTasks(connector="c", first_due_s=0, tickets=(2, 3))
    m.queue.add_request(waiting, ticket=None, due_s=0)
    m.restart_tickets["d"] = [4]
    answers = list(herder_request_handler.refuse_all_requests(m))
    assert [each.ticket for each in answers] == [1, 2, 3, 4]
    assert {each.reply for each in answers} == {
        RequestRefused(500, herder_request_handler.SHUTTING_DOWN_MESSAGE)
    }
    assert list(herder_request_handler.refuse_all_requests(m)) == []
