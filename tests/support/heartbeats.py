"""Heartbeats of one flow on a cluster, as they lie there, and a connector that writes them."""

from __future__ import annotations

from collections.abc import Mapping

from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Heartbeat
from tests.support import eventually, kafka
from tests.support.kafka import Record

CLASS = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
TOPIC = "heartbeats"
TARGET = "here"
WAIT_S = 90.0


def config(client: Mapping[str, str], source: str, **more: str) -> dict[str, str]:
    """A connector's, but for its name; one per second. `more`: `_` for `.`."""
    return {
        "connector.class": CLASS,
        "tasks.max": "1",
        "source.cluster.alias": source,
        "target.cluster.alias": TARGET,
        **{f"target.cluster.{name}": value for name, value in client.items()},
        "heartbeats.topic.replication.factor": "1",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def read(client: Mapping[str, str], source: str) -> list[Record]:
    """Those of this flow; AssertionError before there is a topic. All are checked to be Java's:
    by their key, by a value that says the record's own time, by having no headers."""
    assert TOPIC in kafka.topics(client)
    key, _ = mirrormaker2_records.encode_heartbeat(Heartbeat(source=source, target=TARGET, at_ms=0))
    found = [each for each in kafka.read_partition(client, TOPIC) if each.key == key]
    for each in found:
        assert each.key is not None
        assert each.value is not None
        said = mirrormaker2_records.decode_heartbeat(each.key, each.value)
        assert said == Heartbeat(source=source, target=TARGET, at_ms=each.timestamp)
        assert (each.timestamp_type, each.headers) == (kafka.CREATE_TIME, ())
    return found


def more_come(client: Mapping[str, str], source: str, count: int = 2) -> list[Record]:
    """Waits until so many were written that were not there; returns all."""
    before = len(read(client, source)) if TOPIC in kafka.topics(client) else 0

    def come() -> list[Record]:
        found = read(client, source)
        return found if len(found) >= before + count else []

    return eventually.eventually(come, WAIT_S, f"heartbeats of {source} come", interval_s=0.5)
