from __future__ import annotations

import pytest

from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder import herder_requests
from connect_runtime.herder.distributed_herder import DistributedHerder
from connect_runtime.herder.herder_actions import (
    ApplyTargetState,
    ConfirmJoinPrepared,
    FlushStatuses,
    ForwardTaskConfigs,
    LeaveGroupPermanently,
    PublishRestartingStatuses,
    ReconfigureRunningTasks,
    RejoinGroup,
    SendReply,
    SetLoggerLevel,
    StartConnectorsAndTasks,
    StopConnectorsAndTasks,
    WriteConfigTopic,
)
from connect_runtime.herder.herder_events import (
    ActionCompleted,
    ActionSucceeded,
    ConfigRecordRead,
    CoordinatorLost,
    HerderShutdownRequested,
    HerderTick,
    JoinRequested,
    RequestSubmitted,
    RunningTasksReconfigured,
    StoresLoaded,
    StoreSnapshot,
)
from connect_runtime.herder.herder_requests import (
    CheckHealth,
    DescribeConnector,
    PutConnector,
    PutConnectorResult,
    RequestRefused,
    RequestSucceeded,
    RestartConnector,
)
from connect_runtime.herder.herder_state import HerderSettings
from connect_runtime.storage import cluster_config_state, config_records
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.config_records import RestartRequest
from connect_runtime.storage.config_topic import ConnectorConfigured
from connect_runtime.storage.status_topic import StatusSnapshot
from tests.fakes import herder_cluster
from tests.fakes.herder_cluster import Cluster

PAUSED = TargetState.PAUSED
NO_STOP = pytest.mark.parametrize(
    "world", [ConnectProtocol.COMPATIBLE, ConnectProtocol.SESSIONED], indirect=True
)
"""Under the eager protocol everything stops for every round."""


@pytest.fixture(params=list(ConnectProtocol))
def world(request):
    return Cluster(speaks=request.param)


@pytest.fixture
def worker(world):
    first = world.join("a")
    world.create(first, "c", tasks=2)
    world.create(first, "d", tasks=1)
    return first


def test_a_connector_configured_anew_restarts_where_it_runs_without_a_round(world, worker):
    world.plans["c"] = []  # it would not change its tasks
    world.write(config_records.encode_target_state("c", PAUSED))
    rounds, starts = world.rounds, len(worker.of(StartConnectorsAndTasks))
    world.write(config_records.encode_connector_config("c", {"name": "c", "more": "1"}))
    assert world.rounds == rounds
    assert worker.runs["c"] == {"name": "c", "more": "1"}
    [start] = worker.of(StartConnectorsAndTasks)[starts:]
    assert start.work == ConnectorsAndTasks(connectors=("c",))


@NO_STOP
def test_new_task_configs_restart_that_connectors_tasks_alone(world, worker):
    before = len(worker.said)
    world.write(
        *config_records.encode_task_configs("c", [{"n": "x"}, {"n": "y"}]),
        config_records.encode_task_config_commit("c", 2),
    )
    stopped = [
        each.work for each in worker.said[before:] if isinstance(each, StopConnectorsAndTasks)
    ]
    assert [str(task) for each in stopped for task in each.tasks] == ["c-0", "c-1"]
    assert [each.connectors for each in stopped] == [()]
    assert worker.runs[herder_cluster.task("c", 1)] == {"n": "y"}


@NO_STOP
def test_a_task_to_which_new_configs_make_no_difference_goes_on(world, worker):
    """The group meets all the same, as Java's would."""
    before, rounds = len(worker.said), world.rounds
    world.write(
        *config_records.encode_task_configs("c", [{"n": "0"}, {"n": "y"}]),
        config_records.encode_task_config_commit("c", 2),
    )
    said = worker.said[before:]
    assert [each for each in said if isinstance(each, StopConnectorsAndTasks)] == [
        StopConnectorsAndTasks(ConnectorsAndTasks(tasks=(herder_cluster.task("c", 1),)))
    ]
    assert [each.work for each in said if isinstance(each, StartConnectorsAndTasks)] == [
        ConnectorsAndTasks(tasks=(herder_cluster.task("c", 1),))
    ]
    assert world.rounds == rounds + 1


@NO_STOP
def test_a_task_that_takes_its_configuration_up_goes_on(world, worker):
    worker.outcomes[ReconfigureRunningTasks] = [RunningTasksReconfigured(frozenset())]
    before = len(worker.said)
    world.write(
        *config_records.encode_task_configs("c", [{"n": "x"}, {"n": "1"}]),
        config_records.encode_task_config_commit("c", 2),
    )
    assert not [each for each in worker.said[before:] if isinstance(each, StopConnectorsAndTasks)]
    assert sorted(world.owners()) == ["c", "c-0", "c-1", "d", "d-0"]


@NO_STOP
def test_a_task_that_waits_to_be_started_is_not_asked_again(world, worker):
    """Two sets in a row: what the first has stopped is stopped once."""
    before = len(worker.said)
    sets = [[{"n": "x"}, {"n": "1"}], [{"n": "z"}, {"n": "1"}]]
    for each in sets:
        records = (
            *config_records.encode_task_configs("c", each),
            config_records.encode_task_config_commit("c", 2),
        )
        world.topic += [(record.key, record.value) for record in records]
        world._read(worker)
    world.run()
    stopped = [each for each in worker.said[before:] if isinstance(each, StopConnectorsAndTasks)]
    assert [str(task) for each in stopped for task in each.work.tasks] == ["c-0"]
    assert worker.runs[herder_cluster.task("c", 0)] == {"n": "z"}


def test_a_target_state_is_handed_on(world, worker):
    world.write(config_records.encode_target_state("c", PAUSED))
    assert worker.of(ApplyTargetState) == [ApplyTargetState(connector="c", state=PAUSED)]


def test_a_resumed_connector_is_asked_for_its_tasks(world, worker):
    world.write(config_records.encode_target_state("c", PAUSED))
    world.plans["c"] = [{"n": "other"}]
    world.write(config_records.encode_target_state("c", TargetState.STARTED))
    assert worker.runs[herder_cluster.task("c", 0)] == {"n": "other"}


def test_a_connector_removed_and_made_again_at_once_runs_with_its_new_configuration(world, worker):
    world.plans["c"] = [{"n": "new"}]
    world.write(
        *config_records.encode_connector_deletion("c"),
        config_records.encode_connector_config("c", {"name": "new"}),
    )
    assert worker.runs["c"] == {"name": "new"}
    assert worker.runs[herder_cluster.task("c", 0)] == {"n": "new"}
    assert sorted(world.owners()) == ["c", "c-0", "d", "d-0"]


def test_of_several_restarts_the_strongest_is_done_once(world, worker):
    weak = RestartRequest(connector="c", only_failed=True)
    strong = RestartRequest(connector="c", include_tasks=True)
    before = len(worker.said)
    world.write(*map(config_records.encode_restart_request, (weak, strong, weak)))
    restarted = [
        each for each in worker.said[before:] if isinstance(each, PublishRestartingStatuses)
    ]
    assert [str(item) for each in restarted for item in each.work.items] == ["c", "c-0", "c-1"]


def test_what_nobody_runs_here_is_not_restarted(world, worker):
    nobody = RestartRequest(connector="nobody")
    failed = RestartRequest(connector="c", only_failed=True)
    before = len(worker.said)
    world.write(
        config_records.encode_restart_request(nobody), config_records.encode_restart_request(failed)
    )
    assert worker.said[before:] == []


def test_what_was_deleted_meanwhile_is_not_restarted(world, worker):
    request = RestartRequest(connector="c", include_tasks=True)
    world.write(
        config_records.encode_restart_request(request),
        *config_records.encode_connector_deletion("c"),
    )
    assert worker.of(PublishRestartingStatuses) == []
    assert sorted(world.owners()) == ["d", "d-0"]


def test_logger_levels_are_set_in_their_order_even_outside_a_round(world, worker):
    worker.in_group = False
    world.write(
        config_records.encode_logger_level("a", "DEBUG"),
        config_records.encode_logger_level("a", "INFO"),
    )
    assert worker.of(SetLoggerLevel) == [
        SetLoggerLevel("a", "DEBUG"),
        SetLoggerLevel("a", "INFO"),
    ]


def test_between_a_change_and_its_round_owners_are_not_told(world, worker):
    """409, until the herder has asked for the round; after that it only waits."""
    herder = worker.herder
    change = ConnectorConfigured("new", created=True)
    put = PutConnector(connector="c", config={})
    seen = world.seen(worker)
    [question] = herder.process_event(RequestSubmitted(ticket=90, request=put), seen)
    herder.process_event(ConfigRecordRead(change), seen)
    herder.process_event(RequestSubmitted(ticket=91, request=DescribeConnector("c")), seen)
    said = herder.process_event(ActionCompleted(ActionSucceeded()), seen)
    assert isinstance(question, WriteConfigTopic)
    [described] = [each for each in said if isinstance(each, SendReply) and each.ticket == 91]
    assert described.reply.status == 409
    assert isinstance(said[-1], RejoinGroup)


PROTOCOLS = list(ConnectProtocol)


def cluster(speaks=ConnectProtocol.SESSIONED, **more):
    return Cluster(speaks=speaks, **more)


@pytest.mark.parametrize("speaks", PROTOCOLS)
def test_one_worker_runs_what_is_created(speaks):
    world = cluster(speaks)
    worker = world.join("a")
    reply = world.create(worker, "c", tasks=3)
    assert reply == PutConnectorResult(connector="c", config={"name": "c"}, tasks=(), created=True)
    assert world.owners() == dict.fromkeys(["c", "c-0", "c-1", "c-2"], "a")
    assert world.doubles == []


@pytest.mark.parametrize("speaks", PROTOCOLS)
def test_work_is_shared_taken_over_and_given_back(speaks):
    world = cluster(speaks)
    first = world.join("a")
    world.create(first, "c", tasks=4)
    second = world.join("b")
    owners = world.owners()
    assert sorted(owners) == ["c", "c-0", "c-1", "c-2", "c-3"]
    assert set(owners.values()) == {"a", "b"}
    world.kill(first)
    assert world.owners() == dict.fromkeys(["c", "c-0", "c-1", "c-2", "c-3"], "b")
    world.join("a2")
    assert set(world.owners().values()) == {"a2", "b"}
    assert second.herder.pending_blocking_action is None
    assert world.doubles == []


def test_a_follower_sends_task_configs_to_the_leader():
    world = cluster()
    leading = world.join("a")
    follower = world.join("b")
    world.create(leading, "x", tasks=1)
    world.create(leading, "y", tasks=1)
    assert any(isinstance(each, str) for each in follower.runs), world.owners()
    assert len(follower.of(ForwardTaskConfigs)) == 1
    assert follower.of(ForwardTaskConfigs)[0].leader_url == leading.url
    assert sorted(world.owners()) == ["x", "x-0", "y", "y-0"]


def test_a_worker_that_ends_stops_its_work_answers_everybody_and_leaves_last():
    world = cluster()
    worker = world.join("a")
    world.create(worker, "c", tasks=2)
    later = world.ask(worker, RestartConnector("c"), delay_s=60)
    world.tell(worker, HerderShutdownRequested())
    assert worker.runs == {}
    assert worker.replies[later] == RequestRefused(500, "Worker is shutting down")
    assert worker.said[-1] == LeaveGroupPermanently()
    assert worker.herder.is_closed
    assert worker.herder.get_next_tick_s() is None
    seen = StoreSnapshot(
        now_s=0,
        wall_ms=0,
        config=cluster_config_state.EMPTY_CONFIG_STATE,
        statuses=StatusSnapshot(),
    )
    assert worker.herder.process_event(HerderTick(), seen) == []


def test_what_is_asked_while_it_ends_is_refused():
    herder = DistributedHerder(HerderSettings(), SEEN)
    assert herder.process_event(StoresLoaded(), SEEN) == []
    [flush] = herder.process_event(HerderShutdownRequested(), SEEN)
    assert flush == FlushStatuses()
    asked = RequestSubmitted(ticket=4, request=CheckHealth())
    [answer] = herder.process_event(asked, SEEN)
    assert answer == SendReply(4, RequestRefused(500, "Worker is shutting down"))
    assert herder.process_event(ActionCompleted(ActionSucceeded()), SEEN) == [
        LeaveGroupPermanently()
    ]


SEEN = StoreSnapshot(
    now_s=10,
    wall_ms=10_000,
    config=cluster_config_state.EMPTY_CONFIG_STATE,
    statuses=StatusSnapshot(),
)


def test_before_it_has_begun_nothing_is_decided():
    herder = DistributedHerder(HerderSettings(), SEEN)
    asked = RequestSubmitted(ticket=1, request=CheckHealth())
    assert herder.process_event(asked, SEEN) == []
    assert herder.get_next_tick_s() is None
    assert herder.process_event(HerderShutdownRequested(), SEEN)[-1] == FlushStatuses()


def test_requests_wait_for_a_round():
    world = cluster()
    worker = world.join("a")
    herder = worker.herder
    [prepared] = herder.process_event(
        JoinRequested(worker.member.find_work_to_stop_before_join()), SEEN
    )
    assert prepared == ConfirmJoinPrepared()
    assert herder.process_event(RequestSubmitted(ticket=99, request=CheckHealth()), SEEN) == []
    assert herder.get_next_tick_s() is None


def test_what_happens_while_a_question_is_open_is_only_noted():
    world = cluster()
    worker = world.join("a")
    herder, seen = worker.herder, world.seen(worker)
    put = PutConnector(connector="c", config={})
    [question] = herder.process_event(RequestSubmitted(ticket=50, request=put), seen)
    assert isinstance(question, WriteConfigTopic)
    assert herder.pending_blocking_action is question
    asked = RequestSubmitted(ticket=51, request=CheckHealth())
    assert herder.process_event(asked, seen) == []
    assert herder.get_next_tick_s() is None
    answers = herder.process_event(ActionCompleted(ActionSucceeded()), seen)
    assert [each.ticket for each in answers] == [50, 51]


def test_an_answer_to_nothing_is_a_mistake_of_the_driver():
    herder = DistributedHerder(HerderSettings(), SEEN)
    with pytest.raises(AssertionError):
        herder.process_event(ActionCompleted(ActionSucceeded()), SEEN)


def test_the_loss_of_the_coordinator_stops_everything_until_the_next_round():
    """KAFKA-9184."""
    world = cluster()
    worker = world.join("a")
    world.create(worker, "c", tasks=2)
    worker.member, _ = worker.member.abandon_work()
    world.tell(worker, CoordinatorLost("no coordinator for 3 s"))
    assert worker.runs == {}
    ticket = world.ask(worker, CheckHealth())
    assert ticket not in worker.replies
    world.round_wanted = True
    world.run()
    assert world.owners() == dict.fromkeys(["c", "c-0", "c-1"], "a")
    assert worker.replies[ticket] == RequestSucceeded()


def test_too_many_requests_are_refused(monkeypatch):
    monkeypatch.setattr(herder_requests, "MAX_QUEUED_REQUESTS", 2)
    herder = DistributedHerder(HerderSettings(), SEEN)
    said = [
        herder.process_event(RequestSubmitted(ticket=each, request=CheckHealth()), SEEN)
        for each in range(3)
    ]
    assert said[:2] == [[], []]
    [refused] = said[2]
    assert (refused.ticket, refused.reply.status) == (2, 503)
