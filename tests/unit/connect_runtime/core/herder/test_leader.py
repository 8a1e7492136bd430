from __future__ import annotations

from connect_runtime.base import ids
from connect_runtime.core.assignment import protocol
from connect_runtime.core.herder import events, instructions, leader, requests
from connect_runtime.core.state import cluster_config, status_log, status_records
from tests.fakes import herder_cluster

RUNNING = status_records.Status(state=status_records.State.RUNNING, worker_id="w:1", generation=1)


def test_statuses_of_what_is_gone_are_stale():
    log = status_log.StatusLog()
    kept, gone = ids.ConnectorTaskId("kept", 0), ids.ConnectorTaskId("kept", 1)
    orphan = ids.ConnectorTaskId("orphan", 0)
    for subject in ("kept", "deleted", kept, gone, ids.ConnectorTaskId("deleted", 0), orphan):
        record = status_records.status(subject, RUNNING)
        log.apply(record.key, record.value, offset=0)
    entry = cluster_config.ConnectorEntry(config={}, task_count=1, task_configs={0: {}})
    view = cluster_config.ClusterConfig(entries={"kept": entry})
    assert leader.stale_statuses(view, log.snapshot()) == (
        "deleted",
        ids.ConnectorTaskId("deleted", 0),
        gone,
        orphan,
    )


def test_only_the_leader_tidies_up_after_a_deletion():
    world = herder_cluster.Cluster()
    first, second = world.join("a"), world.join("b")
    world.create(first, "c", tasks=2)
    world.ask(first, requests.DeleteConnector("c"))
    assert world.statuses.snapshot().connectors() == []
    assert first.of(instructions.ForgetStatuses)
    assert second.of(instructions.ForgetStatuses) == []


def test_a_leader_is_told_that_it_leads_when_its_work_is_begun():
    """MirrorHerder.rebalanceSuccess: not in every round, and again if it did not lead between."""
    world = herder_cluster.Cluster()
    first = world.join("a")
    world.create(first, "c", tasks=2)
    second = world.join("b")
    told = [each for each in first.said if isinstance(each, instructions.TellOfLeading)]
    assert len(told) == 1
    assert second.of(instructions.TellOfLeading) == []
    world.kill(first)
    starts = [
        type(each)
        for each in second.said
        if isinstance(each, instructions.TellOfLeading | instructions.StartWork)
    ]
    assert starts[-2:] == [instructions.StartWork, instructions.TellOfLeading]


def test_a_leader_writes_a_key_where_there_is_none_and_another_when_it_is_due():
    world = herder_cluster.Cluster()
    worker = world.join("a")
    assert world.view().session_key.created_ms == 1_000_000
    assert worker.herder.wake_at_s() == 1000 + 3600
    world.pass_time(3599)
    assert world.view().session_key.created_ms == 1_000_000
    world.pass_time(2)
    assert world.view().session_key.created_ms == 4_600_000


def test_a_key_that_is_there_is_used_and_followers_write_none():
    world = herder_cluster.Cluster()
    first = world.join("a")
    second = world.join("b")
    world.kill(first)
    writes = [each.write for each in second.of(instructions.Write)]
    assert not any(isinstance(each, instructions.WriteNewSessionKey) for each in writes)


def test_unsigned_protocols_need_no_key():
    world = herder_cluster.Cluster(speaks=protocol.Protocol.COMPATIBLE)
    worker = world.join("a")
    assert world.view().session_key is None
    assert worker.herder.wake_at_s() is None


def test_a_key_that_could_not_be_written_is_looked_for_before_the_next_try():
    world = herder_cluster.Cluster()
    worker = world.join("a")
    worker.outcomes[instructions.Write] = [events.Failed(reason="broken")]
    before = len(worker.said)
    world.pass_time(3600)
    world.pass_time(1)
    assert world.view().session_key.created_ms == 4_600_250
    kinds = [type(each).__name__ for each in worker.said[before:]]
    assert kinds == ["Write", "Note", "ReadConfigs", "Write"]


def test_a_fenced_leader_claims_its_right_again_before_it_goes_on():
    world = herder_cluster.Cluster()
    worker = world.join("a")
    worker.outcomes[instructions.Write] = [events.Failed(reason="fenced", fenced=True)]
    worker.outcomes[instructions.ClaimWrites] = [events.Failed(reason="not yet")]
    put = requests.PutConnector(connector="c", config={})
    first = world.ask(worker, put)
    assert worker.replies[first] == requests.Refused(500, "fenced")
    second = world.ask(worker, put)
    assert second not in worker.replies
    world.pass_time(0.3)
    assert worker.replies[second].created
    assert len(worker.of(instructions.ClaimWrites)) == world.rounds + 2


def test_a_fenced_worker_that_leads_no_more_lets_it_be():
    world = herder_cluster.Cluster()
    first = world.join("a")
    first.outcomes[instructions.Write] = [events.Failed(reason="fenced", fenced=True)]
    first.outcomes[instructions.ClaimWrites] = [events.Failed(reason="fenced")] * 3
    world.ask(first, requests.PutConnector(connector="c", config={}))
    world.leading = "b"
    world.join("b")
    claims = len(first.of(instructions.ClaimWrites))
    world.pass_time(10)
    assert len(first.of(instructions.ClaimWrites)) == claims
