from __future__ import annotations

import pytest

from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connect_protocol import ConnectAssignment, ConnectProtocol
from connect_runtime.herder.herder_actions import (
    LeaveGroup,
    ReadConfigTopic,
    RejoinGroup,
    ResetActiveTopics,
    RevokeAssignment,
    WriteLogLine,
)
from connect_runtime.herder.herder_events import ActionSucceeded, AssignmentReceived
from connect_runtime.herder.herder_requests import DeleteConnector
from connect_runtime.herder.herder_state import HerderSettings
from connect_runtime.storage import config_records
from connect_runtime.storage.cluster_config_state import TargetState
from tests.fakes.herder_cluster import Cluster

DELAY = HerderSettings(rebalance_delay_max_s=300.0)


def kinds(worker, since=0):
    return [type(each).__name__ for each in worker.said[since:]]


def behind(world, worker):
    """Something is written that this worker cannot read, and the others can."""
    worker.reads_to = worker.position
    world.write(config_records.encode_fencing_count("x", 1))


def in_group(world):
    return [each.name for each in world.workers if each.in_group]


def test_what_is_revoked_stops_and_is_said_before_another_round_is_asked_for():
    world = Cluster()
    first = world.join("a")
    world.create(first, "c", tasks=2)
    before = len(first.said)
    world.join("b")
    said = [
        name for name in kinds(first, before) if name not in ("FenceConfigWriters", "WriteLogLine")
    ]
    assert said[:5] == [
        "ConfirmJoinPrepared",
        "StopConnectorsAndTasks",
        "FlushStatuses",
        "RejoinGroup",
        "ConfirmJoinPrepared",
    ]
    assert "StartConnectorsAndTasks" not in said


def test_under_the_eager_protocol_everything_stops_before_joining():
    world = Cluster(speaks=ConnectProtocol.EAGER)
    first = world.join("a")
    world.create(first, "c", tasks=2)
    before = len(first.said)
    world.join("b")
    said = kinds(first, before)
    assert said[:3] == ["StopConnectorsAndTasks", "FlushStatuses", "ConfirmJoinPrepared"]
    assert len(world.owners()) == 3


def test_topics_of_a_deleted_connector_are_forgotten_where_its_work_stops():
    world = Cluster()
    worker = world.join("a")
    world.create(worker, "c", tasks=1)
    world.create(worker, "d", tasks=1)
    world.ask(worker, DeleteConnector("c"))
    assert worker.of(ResetActiveTopics) == [ResetActiveTopics("c")]


def test_topics_are_kept_where_nobody_tracks_them():
    world = Cluster(settings=HerderSettings(topics_tracked=False))
    worker = world.join("a")
    world.create(worker, "c", tasks=1)
    world.ask(worker, DeleteConnector("c"))
    assert worker.of(ResetActiveTopics) == []


def test_a_lost_workers_work_waits_for_it_and_then_goes_to_others():
    world = Cluster(delay_ms=300_000)
    first, second = world.join("a"), world.join("b")
    world.create(first, "c", tasks=3)
    lost = set(map(str, second.runs))
    assert lost
    world.kill(second)
    assert lost.isdisjoint(world.owners())
    rounds = world.rounds
    assert first.herder.get_next_tick_s() == world.now_s + 300
    world.pass_time(299)
    assert world.rounds == rounds
    world.pass_time(1)
    assert sorted(world.owners()) == ["c", "c-0", "c-1", "c-2"]


def test_a_worker_that_comes_back_in_time_gets_its_work_when_the_delay_ends():
    world = Cluster(delay_ms=300_000)
    first, second = world.join("a"), world.join("b")
    world.create(first, "c", tasks=3)
    lost = set(map(str, second.runs))
    world.kill(second)
    world.pass_time(100)
    world.join("b2")
    world.pass_time(200)
    assert {item for item, owner in world.owners().items() if owner == "b2"} == lost
    assert world.doubles == []


def test_what_is_written_while_a_lost_worker_is_waited_for_makes_no_round():
    """Java's workers meet for each record then."""
    world = Cluster(delay_ms=300_000)
    first, second = world.join("a"), world.join("b")
    world.create(first, "c", tasks=2)
    world.kill(second)
    rounds = world.rounds
    world.write(config_records.encode_target_state("c", TargetState.PAUSED))
    world.pass_time(5)
    assert world.rounds == rounds


def test_a_leader_that_is_behind_reads_on_and_the_next_round_holds():
    """CONFIG_MISMATCH."""
    world = Cluster()
    first, _ = world.join("a"), world.join("b")
    world.create(first, "c", tasks=2)
    behind(world, first)
    rounds = world.rounds

    def catch_up():
        first.reads_to = None
        return ActionSucceeded()

    first.outcomes[ReadConfigTopic] = [catch_up]
    world.join("b2")
    assert world.rounds > rounds + 1
    assert first.of(LeaveGroup) == []
    assert sorted(world.owners()) == ["c", "c-0", "c-1"]
    assert world.doubles == []


@pytest.mark.parametrize("speaks", list(ConnectProtocol))
def test_a_worker_that_cannot_catch_up_leaves_and_comes_back_when_it_can(speaks):
    world = Cluster(speaks=speaks, settings=DELAY)
    first = world.join("a")
    world.create(first, "c", tasks=2)
    late = world.join("b")
    behind(world, late)
    world.round_wanted = True
    world.run()
    assert late.of(LeaveGroup) == [LeaveGroup("timed out reading the config topic to its end")]
    assert in_group(world) == ["a"]
    late.reads_to = None
    world.pass_time(301)
    assert in_group(world) == ["a", "b"]
    assert sorted(world.owners()) == ["c", "c-0", "c-1"]


def test_between_tries_it_waits_ever_longer_and_then_gives_its_work_up():
    world = Cluster(settings=DELAY)
    first = world.join("a")
    world.create(first, "c", tasks=2)
    late = world.join("b")
    assert late.runs
    behind(world, late)
    world.round_wanted = True
    world.run()
    start_s, reads = world.now_s, []
    for _ in range(5):
        due_s = late.herder.get_next_tick_s()
        assert due_s is not None
        reads.append(due_s - world.now_s)
        world.pass_time(due_s - world.now_s)
    assert reads == pytest.approx([6.0, 7.5, 10.0, 15.0, 30.0])
    assert world.now_s - start_s == pytest.approx(68.5)
    assert late.of(RevokeAssignment) == [RevokeAssignment()]
    assert late.runs == {}
    assert late.member.assignment is None


def test_a_worker_ahead_of_the_round_starts_nothing_and_asks_for_another():
    world = Cluster()
    worker = world.join("a")
    world.create(worker, "c", tasks=1)
    herder, seen = worker.herder, world.seen(worker)
    assignment = ConnectAssignment(
        leader="other", leader_url="http://other/", config_offset=seen.config.offset - 1
    )
    said = herder.process_event(
        AssignmentReceived(
            generation=9,
            protocol=ConnectProtocol.SESSIONED,
            assignment=assignment,
            items_to_stop=connectors_and_tasks.NO_WORK,
            is_leader=False,
        ),
        seen,
    )
    told, rejoin = said
    assert told == WriteLogLine(
        "joined generation 9 as follower of http://other/: assigned 0 connector(s) and 0 task(s)"
    )
    assert isinstance(rejoin, RejoinGroup)


def test_what_a_round_brings_is_told():
    world = Cluster(delay_ms=2000)
    first, second = world.join("a"), world.join("b")
    world.create(first, "c", tasks=3)
    world.kill(second)
    notes = first.of(WriteLogLine)
    assert (
        WriteLogLine("joined generation 1 as leader: assigned 0 connector(s) and 0 task(s)")
        in notes
    )
    assert notes[-1].text.endswith("; the next rebalance reassigns lost work in 2 s")
    assert notes[-1].is_warning
