"""Records in the internal topics that nobody can read: told with their place, and passed over."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support import connect_workers, eventually, idle_source, kafka
from tests.support.connect_workers import Kind, Worker
from tests.support.kafka import Outgoing

pytestmark = pytest.mark.integration

OURS = Kind.OURS
WAIT_S = 60.0
COMPACT = {"cleanup.policy": "compact"}
RUBBISH: Mapping[str, list[tuple[bytes, bytes | None]]] = {
    "config": [
        (b"connector-c", b"\x00\xff{"),
        (b"connector-c", b"[1]"),
        (b"connector-c", b'{"properties": {"a": {}}}'),
        (b"task-c-zero", b"{}"),
        (b"task-c-0", b'{"properties": "no"}'),
        (b"commit-c", b'{"tasks": "many"}'),
        (b"commit-c", b"{"),
        (b"target-state-c", b'{"state.v2": "FLYING", "state": "ALOFT"}'),
        (b"session-key", b'{"key": "\xc3\xa4"}'),
        (b"logger-cluster-x", b'{"level": 7}'),
        (b"restart-connector-c", b"[]"),
        (b"unheard-of", b"{}"),
        (b"\xff\xfe", b"{}"),
        (b"", b""),
        (b"connector-", b"{}"),
    ],
    "offset": [
        (b"{", b"{}"),
        (b"[]", b"{}"),
        (b'["c", 1]', b"{}"),
    ],
    "status": [
        (b"status-connector-c", b"\x00"),
        (b"status-connector-c", b'{"state": "ASLEEP", "worker_id": "w", "generation": 1}'),
        (b"status-connector-c", b'{"state": "RUNNING"}'),
        (b"status-task-c-x", b"{}"),
        (b"status-topic-:connector-c", b"{}"),
        (b"status-topic-t:connector-c", b"[]"),
        (b"unheard-of", b"{}"),
        (b"\xff", None),
    ],
}


def told(worker: Worker, topic: str, offsets: range) -> None:
    log = worker.log_path.read_text()
    missing = [each for each in offsets if f"{topic}-0 at offset {each}:" not in log]
    assert missing == [], log


def test_what_cannot_be_read_is_told_and_passed_over(east, connect_group):
    client = east.client_properties()
    group = connect_group(
        settings={"offset.storage.partitions": "1", "status.storage.partitions": "1"}
    )
    topics = {
        purpose: connect_workers.storage(group.group_id)[f"{purpose}.storage.topic"]
        for purpose in RUBBISH
    }

    def spoil() -> None:
        for purpose, topic in topics.items():
            sent = [Outgoing(key=key, value=value) for key, value in RUBBISH[purpose]]
            kafka.produce(client, topic, sent)

    for topic in topics.values():
        kafka.create_topic(client, topic, config=COMPACT)
    spoil()
    worker = group.start("one", OURS)
    for purpose, topic in topics.items():
        told(worker, topic, range(len(RUBBISH[purpose])))
    assert worker.get("/connectors") == []
    worker.configure("c", idle_source.config(tasks=2))
    eventually.eventually(lambda: worker.runs("c", tasks=2), WAIT_S, worker.log_text)
    spoil()
    for value in (b"[1]", b"\xff"):
        sent = Outgoing(key=b'["c",{"p":1}]', value=value)
        kafka.produce(client, topics["offset"], [sent])
        assert worker.get("/connectors/c/offsets") == {"offsets": []}
        assert "a stored offset of 'c' is" in worker.log_text()
    worker.configure("after", idle_source.config(tasks=1))
    eventually.eventually(lambda: worker.runs("after"), WAIT_S, worker.log_text)
    assert worker.runs("c", tasks=2)
    assert "Traceback" not in worker.log_path.read_text()
    assert worker.stop() == 143
