from __future__ import annotations

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.herder import leader_duties
from connect_runtime.herder.herder_actions import (
    DeleteStatuses,
    FenceConfigWriters,
    RunLeadershipCallback,
    StartConnectorsAndTasks,
    WriteConfigTopic,
    WriteSessionKey,
)
from connect_runtime.herder.herder_events import ActionFailed
from connect_runtime.herder.herder_requests import DeleteConnector, PutConnector, RequestRefused
from connect_runtime.storage import status_records
from connect_runtime.storage.cluster_config_state import ClusterConfigState, ConnectorConfigEntry
from connect_runtime.storage.status_records import RunState, RunStatus
from connect_runtime.storage.status_topic import StatusTopicState
from tests.fakes.herder_cluster import Cluster

RUNNING = RunStatus(state=RunState.RUNNING, worker_id="w:1", generation=1)


def test_statuses_of_what_is_gone_are_stale():
    log = StatusTopicState()
    kept, gone = ConnectorTaskId("kept", 0), ConnectorTaskId("kept", 1)
    orphan = ConnectorTaskId("orphan", 0)
    for subject in ("kept", "deleted", kept, gone, ConnectorTaskId("deleted", 0), orphan):
        record = status_records.encode_status(subject, RUNNING)
        log.apply_record(record.key, record.value, offset=0)
    entry = ConnectorConfigEntry(config={}, task_count=1, task_configs={0: {}})
    view = ClusterConfigState(entries={"kept": entry})
    assert leader_duties.find_stale_statuses(view, log.snapshot()) == (
        "deleted",
        ConnectorTaskId("deleted", 0),
        gone,
        orphan,
    )


def test_only_the_leader_tidies_up_after_a_deletion():
    world = Cluster()
    first, second = world.join("a"), world.join("b")
    world.create(first, "c", tasks=2)
    world.ask(first, DeleteConnector("c"))
    assert world.statuses.snapshot().connectors() == []
    assert first.of(DeleteStatuses)
    assert second.of(DeleteStatuses) == []


def test_a_leader_is_told_that_it_leads_when_its_work_is_begun():
    """MirrorHerder.rebalanceSuccess: not in every round, and again if it did not lead between."""
    world = Cluster()
    first = world.join("a")
    world.create(first, "c", tasks=2)
    second = world.join("b")
    told = [each for each in first.said if isinstance(each, RunLeadershipCallback)]
    assert len(told) == 1
    assert second.of(RunLeadershipCallback) == []
    world.kill(first)
    starts = [
        type(each)
        for each in second.said
        if isinstance(each, RunLeadershipCallback | StartConnectorsAndTasks)
    ]
    assert starts[-2:] == [StartConnectorsAndTasks, RunLeadershipCallback]


def test_a_leader_writes_a_key_where_there_is_none_and_another_when_it_is_due():
    world = Cluster()
    worker = world.join("a")
    assert world.view().session_key.created_ms == 1_000_000
    assert worker.herder.get_next_tick_s() == 1000 + 3600
    world.pass_time(3599)
    assert world.view().session_key.created_ms == 1_000_000
    world.pass_time(2)
    assert world.view().session_key.created_ms == 4_600_000


def test_a_key_that_is_there_is_used_and_followers_write_none():
    world = Cluster()
    first = world.join("a")
    second = world.join("b")
    world.kill(first)
    writes = [each.write for each in second.of(WriteConfigTopic)]
    assert not any(isinstance(each, WriteSessionKey) for each in writes)


def test_unsigned_protocols_need_no_key():
    world = Cluster(speaks=ConnectProtocol.COMPATIBLE)
    worker = world.join("a")
    assert world.view().session_key is None
    assert worker.herder.get_next_tick_s() is None


def test_a_key_that_could_not_be_written_is_looked_for_before_the_next_try():
    world = Cluster()
    worker = world.join("a")
    worker.outcomes[WriteConfigTopic] = [ActionFailed(reason="broken")]
    before = len(worker.said)
    world.pass_time(3600)
    world.pass_time(1)
    assert world.view().session_key.created_ms == 4_600_250
    kinds = [type(each).__name__ for each in worker.said[before:]]
    assert kinds == ["WriteConfigTopic", "WriteLogLine", "ReadConfigTopic", "WriteConfigTopic"]


def test_a_fenced_leader_claims_its_right_again_before_it_goes_on():
    world = Cluster()
    worker = world.join("a")
    worker.outcomes[WriteConfigTopic] = [ActionFailed(reason="fenced", is_fenced=True)]
    worker.outcomes[FenceConfigWriters] = [ActionFailed(reason="not yet")]
    put = PutConnector(connector="c", config={})
    first = world.ask(worker, put)
    assert worker.replies[first] == RequestRefused(500, "fenced")
    second = world.ask(worker, put)
    assert second not in worker.replies
    world.pass_time(0.3)
    assert worker.replies[second].created
    assert len(worker.of(FenceConfigWriters)) == world.rounds + 2


def test_a_fenced_worker_that_leads_no_more_lets_it_be():
    world = Cluster()
    first = world.join("a")
    first.outcomes[WriteConfigTopic] = [ActionFailed(reason="fenced", is_fenced=True)]
    first.outcomes[FenceConfigWriters] = [ActionFailed(reason="fenced")] * 3
    world.ask(first, PutConnector(connector="c", config={}))
    world.leading = "b"
    world.join("b")
    claims = len(first.of(FenceConfigWriters))
    world.pass_time(10)
    assert len(first.of(FenceConfigWriters)) == claims
