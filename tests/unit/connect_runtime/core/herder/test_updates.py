from __future__ import annotations

import pytest

from connect_runtime.core.assignment import protocol, work
from connect_runtime.core.herder import events, instructions, requests
from connect_runtime.core.state import cluster_config, config_log, config_records
from tests.fakes import herder_cluster

PAUSED = cluster_config.TargetState.PAUSED
NO_STOP = pytest.mark.parametrize(
    "world", [protocol.Protocol.COMPATIBLE, protocol.Protocol.SESSIONED], indirect=True
)
"""Under the eager protocol everything stops for every round."""


@pytest.fixture(params=list(protocol.Protocol))
def world(request):
    return herder_cluster.Cluster(speaks=request.param)


@pytest.fixture
def worker(world):
    first = world.join("a")
    world.create(first, "c", tasks=2)
    world.create(first, "d", tasks=1)
    return first


def test_a_connector_configured_anew_restarts_where_it_runs_without_a_round(world, worker):
    world.plans["c"] = []  # it would not change its tasks
    world.write(config_records.target_state("c", PAUSED))
    rounds, starts = world.rounds, len(worker.of(instructions.StartWork))
    world.write(config_records.connector("c", {"name": "c", "more": "1"}))
    assert world.rounds == rounds
    assert worker.runs["c"] == {"name": "c", "more": "1"}
    [start] = worker.of(instructions.StartWork)[starts:]
    assert start.work == work.Work(connectors=("c",))


@NO_STOP
def test_new_task_configs_restart_that_connectors_tasks_alone(world, worker):
    before = len(worker.said)
    world.write(
        *config_records.task_configs("c", [{"n": "x"}, {"n": "y"}]), config_records.commit("c", 2)
    )
    stopped = [
        each.work for each in worker.said[before:] if isinstance(each, instructions.StopWork)
    ]
    assert [str(task) for each in stopped for task in each.tasks] == ["c-0", "c-1"]
    assert [each.connectors for each in stopped] == [()]
    assert worker.runs[herder_cluster.task("c", 1)] == {"n": "y"}


@NO_STOP
def test_a_task_to_which_new_configs_make_no_difference_goes_on(world, worker):
    """The group meets all the same, as Java's would."""
    before, rounds = len(worker.said), world.rounds
    world.write(
        *config_records.task_configs("c", [{"n": "0"}, {"n": "y"}]), config_records.commit("c", 2)
    )
    said = worker.said[before:]
    assert [each for each in said if isinstance(each, instructions.StopWork)] == [
        instructions.StopWork(work.Work(tasks=(herder_cluster.task("c", 1),)))
    ]
    assert [each.work for each in said if isinstance(each, instructions.StartWork)] == [
        work.Work(tasks=(herder_cluster.task("c", 1),))
    ]
    assert world.rounds == rounds + 1


@NO_STOP
def test_a_task_that_takes_its_configuration_up_goes_on(world, worker):
    worker.outcomes[instructions.RenewTasks] = [events.Renewed(frozenset())]
    before = len(worker.said)
    world.write(
        *config_records.task_configs("c", [{"n": "x"}, {"n": "1"}]), config_records.commit("c", 2)
    )
    assert not [each for each in worker.said[before:] if isinstance(each, instructions.StopWork)]
    assert sorted(world.owners()) == ["c", "c-0", "c-1", "d", "d-0"]


@NO_STOP
def test_a_task_that_waits_to_be_started_is_not_asked_again(world, worker):
    """Two sets in a row: what the first has stopped is stopped once."""
    before = len(worker.said)
    sets = [[{"n": "x"}, {"n": "1"}], [{"n": "z"}, {"n": "1"}]]
    for each in sets:
        records = (*config_records.task_configs("c", each), config_records.commit("c", 2))
        world.topic += [(record.key, record.value) for record in records]
        world._read(worker)
    world.run()
    stopped = [each for each in worker.said[before:] if isinstance(each, instructions.StopWork)]
    assert [str(task) for each in stopped for task in each.work.tasks] == ["c-0"]
    assert worker.runs[herder_cluster.task("c", 0)] == {"n": "z"}


def test_a_target_state_is_handed_on(world, worker):
    world.write(config_records.target_state("c", PAUSED))
    assert worker.of(instructions.SetTargetState) == [
        instructions.SetTargetState(connector="c", state=PAUSED)
    ]


def test_a_resumed_connector_is_asked_for_its_tasks(world, worker):
    world.write(config_records.target_state("c", PAUSED))
    world.plans["c"] = [{"n": "other"}]
    world.write(config_records.target_state("c", cluster_config.TargetState.STARTED))
    assert worker.runs[herder_cluster.task("c", 0)] == {"n": "other"}


def test_a_connector_removed_and_made_again_at_once_runs_with_its_new_configuration(world, worker):
    world.plans["c"] = [{"n": "new"}]
    world.write(*config_records.removal("c"), config_records.connector("c", {"name": "new"}))
    assert worker.runs["c"] == {"name": "new"}
    assert worker.runs[herder_cluster.task("c", 0)] == {"n": "new"}
    assert sorted(world.owners()) == ["c", "c-0", "d", "d-0"]


def test_of_several_restarts_the_strongest_is_done_once(world, worker):
    weak = config_records.RestartRequest(connector="c", only_failed=True)
    strong = config_records.RestartRequest(connector="c", include_tasks=True)
    before = len(worker.said)
    world.write(*map(config_records.restart, (weak, strong, weak)))
    restarted = [
        each for each in worker.said[before:] if isinstance(each, instructions.SayRestarting)
    ]
    assert [str(item) for each in restarted for item in each.work.items] == ["c", "c-0", "c-1"]


def test_what_nobody_runs_here_is_not_restarted(world, worker):
    nobody = config_records.RestartRequest(connector="nobody")
    failed = config_records.RestartRequest(connector="c", only_failed=True)
    before = len(worker.said)
    world.write(config_records.restart(nobody), config_records.restart(failed))
    assert worker.said[before:] == []


def test_what_was_deleted_meanwhile_is_not_restarted(world, worker):
    request = config_records.RestartRequest(connector="c", include_tasks=True)
    world.write(config_records.restart(request), *config_records.removal("c"))
    assert worker.of(instructions.SayRestarting) == []
    assert sorted(world.owners()) == ["d", "d-0"]


def test_logger_levels_are_set_in_their_order_even_outside_a_round(world, worker):
    worker.in_group = False
    world.write(config_records.logger_level("a", "DEBUG"), config_records.logger_level("a", "INFO"))
    assert worker.of(instructions.SetLoggerLevel) == [
        instructions.SetLoggerLevel("a", "DEBUG"),
        instructions.SetLoggerLevel("a", "INFO"),
    ]


def test_between_a_change_and_its_round_owners_are_not_told(world, worker):
    """409, until the herder has asked for the round; after that it only waits."""
    herder = worker.herder
    change = config_log.ConnectorConfigured("new", created=True)
    put = requests.PutConnector(connector="c", config={})
    seen = world.seen(worker)
    [question] = herder.step(events.Submitted(ticket=90, request=put), seen)
    herder.step(events.ConfigChanged(change), seen)
    herder.step(events.Submitted(ticket=91, request=requests.Describe("c")), seen)
    said = herder.step(events.Answered(events.Done()), seen)
    assert isinstance(question, instructions.Write)
    [described] = [
        each for each in said if isinstance(each, instructions.Answer) and each.ticket == 91
    ]
    assert described.reply.status == 409
    assert isinstance(said[-1], instructions.Rejoin)
