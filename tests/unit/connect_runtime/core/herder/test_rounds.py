from __future__ import annotations

import pytest

from connect_runtime.core.assignment import protocol, work
from connect_runtime.core.herder import events, instructions, memory, requests
from connect_runtime.core.state import cluster_config, config_records
from tests.fakes import herder_cluster

DELAY = memory.HerderSettings(rebalance_delay_max_s=300.0)


def kinds(worker, since=0):
    return [type(each).__name__ for each in worker.said[since:]]


def behind(world, worker):
    """Something is written that this worker cannot read, and the others can."""
    worker.reads_to = worker.position
    world.write(config_records.fencing_count("x", 1))


def in_group(world):
    return [each.name for each in world.workers if each.in_group]


def test_what_is_revoked_stops_and_is_said_before_another_round_is_asked_for():
    world = herder_cluster.Cluster()
    first = world.join("a")
    world.create(first, "c", tasks=2)
    before = len(first.said)
    world.join("b")
    said = [name for name in kinds(first, before) if name not in ("ClaimWrites", "Note")]
    assert said[:5] == ["Prepared", "StopWork", "FlushStatuses", "Rejoin", "Prepared"]
    assert "StartWork" not in said


def test_under_the_eager_protocol_everything_stops_before_joining():
    world = herder_cluster.Cluster(speaks=protocol.Protocol.EAGER)
    first = world.join("a")
    world.create(first, "c", tasks=2)
    before = len(first.said)
    world.join("b")
    said = kinds(first, before)
    assert said[:3] == ["StopWork", "FlushStatuses", "Prepared"]
    assert len(world.owners()) == 3


def test_topics_of_a_deleted_connector_are_forgotten_where_its_work_stops():
    world = herder_cluster.Cluster()
    worker = world.join("a")
    world.create(worker, "c", tasks=1)
    world.create(worker, "d", tasks=1)
    world.ask(worker, requests.DeleteConnector("c"))
    assert worker.of(instructions.ForgetTopics) == [instructions.ForgetTopics("c")]


def test_topics_are_kept_where_nobody_tracks_them():
    world = herder_cluster.Cluster(settings=memory.HerderSettings(topics_tracked=False))
    worker = world.join("a")
    world.create(worker, "c", tasks=1)
    world.ask(worker, requests.DeleteConnector("c"))
    assert worker.of(instructions.ForgetTopics) == []


def test_a_lost_workers_work_waits_for_it_and_then_goes_to_others():
    world = herder_cluster.Cluster(delay_ms=300_000)
    first, second = world.join("a"), world.join("b")
    world.create(first, "c", tasks=3)
    lost = set(map(str, second.runs))
    assert lost
    world.kill(second)
    assert lost.isdisjoint(world.owners())
    rounds = world.rounds
    assert first.herder.wake_at_s() == world.now_s + 300
    world.pass_time(299)
    assert world.rounds == rounds
    world.pass_time(1)
    assert sorted(world.owners()) == ["c", "c-0", "c-1", "c-2"]


def test_a_worker_that_comes_back_in_time_gets_its_work_when_the_delay_ends():
    world = herder_cluster.Cluster(delay_ms=300_000)
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
    world = herder_cluster.Cluster(delay_ms=300_000)
    first, second = world.join("a"), world.join("b")
    world.create(first, "c", tasks=2)
    world.kill(second)
    rounds = world.rounds
    world.write(config_records.target_state("c", cluster_config.TargetState.PAUSED))
    world.pass_time(5)
    assert world.rounds == rounds


def test_a_leader_that_is_behind_reads_on_and_the_next_round_holds():
    """CONFIG_MISMATCH."""
    world = herder_cluster.Cluster()
    first, _ = world.join("a"), world.join("b")
    world.create(first, "c", tasks=2)
    behind(world, first)
    rounds = world.rounds

    def catch_up():
        first.reads_to = None
        return events.Done()

    first.outcomes[instructions.ReadConfigs] = [catch_up]
    world.join("b2")
    assert world.rounds > rounds + 1
    assert first.of(instructions.Leave) == []
    assert sorted(world.owners()) == ["c", "c-0", "c-1"]
    assert world.doubles == []


@pytest.mark.parametrize("speaks", list(protocol.Protocol))
def test_a_worker_that_cannot_catch_up_leaves_and_comes_back_when_it_can(speaks):
    world = herder_cluster.Cluster(speaks=speaks, settings=DELAY)
    first = world.join("a")
    world.create(first, "c", tasks=2)
    late = world.join("b")
    behind(world, late)
    world.round_wanted = True
    world.run()
    assert late.of(instructions.Leave) == [
        instructions.Leave("reading the config topic to its end takes too long")
    ]
    assert in_group(world) == ["a"]
    late.reads_to = None
    world.pass_time(301)
    assert in_group(world) == ["a", "b"]
    assert sorted(world.owners()) == ["c", "c-0", "c-1"]


def test_between_tries_it_waits_ever_longer_and_then_gives_its_work_up():
    world = herder_cluster.Cluster(settings=DELAY)
    first = world.join("a")
    world.create(first, "c", tasks=2)
    late = world.join("b")
    assert late.runs
    behind(world, late)
    world.round_wanted = True
    world.run()
    start_s, reads = world.now_s, []
    for _ in range(5):
        due_s = late.herder.wake_at_s()
        assert due_s is not None
        reads.append(due_s - world.now_s)
        world.pass_time(due_s - world.now_s)
    assert reads == pytest.approx([6.0, 7.5, 10.0, 15.0, 30.0])
    assert world.now_s - start_s == pytest.approx(68.5)
    assert late.of(instructions.GiveUpWork) == [instructions.GiveUpWork()]
    assert late.runs == {}
    assert late.member.assignment is None


def test_a_worker_ahead_of_the_round_starts_nothing_and_asks_for_another():
    world = herder_cluster.Cluster()
    worker = world.join("a")
    world.create(worker, "c", tasks=1)
    herder, seen = worker.herder, world.seen(worker)
    assignment = protocol.Assignment(
        leader="other", leader_url="http://other/", config_offset=seen.config.offset - 1
    )
    said = herder.step(
        events.RoundCompleted(
            generation=9,
            speaks=protocol.Protocol.SESSIONED,
            assignment=assignment,
            stop=work.NO_WORK,
            leads=False,
        ),
        seen,
    )
    told, rejoin = said
    assert told == instructions.Note(
        "in generation 9, led from http://other/: to run 0 connector(s) and 0 task(s)"
    )
    assert isinstance(rejoin, instructions.Rejoin)


def test_what_a_round_brings_is_told():
    world = herder_cluster.Cluster(delay_ms=2000)
    first, second = world.join("a"), world.join("b")
    world.create(first, "c", tasks=3)
    world.kill(second)
    notes = first.of(instructions.Note)
    assert (
        instructions.Note("in generation 1, leading: to run 0 connector(s) and 0 task(s)") in notes
    )
    assert notes[-1].text.endswith("; in 2 s the group meets again for lost work")
    assert notes[-1].warns
