"""What MirrorMaker 2 is known to do wrong, on our worker: a topic made again is not mistaken for
the old one, a deleted one is not called back to life, and altered offsets are stated."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from connect_runtime.system import polling
from tests.support import connect_workers, eventually, kafka, scraped

if TYPE_CHECKING:
    from mm2.sandbox import cluster

pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(900)]

WAIT_S = 120.0
WATCH_S = 10.0
NAME = "mirror"
OFFSETS = f"/connectors/{NAME}/offsets"
ALIASES = ("careless", "careful")
KEPT, GONE, AGAIN = "kept", "gone", "again"
COUNT = "kafka_connect_mirror_mirrorsourceconnector_record_count"


def mirroring(source: Mapping[str, str], target: Mapping[str, str]) -> dict[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": ALIASES[0],
        "target.cluster.alias": ALIASES[1],
        **{f"source.cluster.{name}": value for name, value in source.items()},
        **{f"target.cluster.{name}": value for name, value in target.items()},
        "topics": ",".join((KEPT, GONE, AGAIN)),
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "refresh.topics.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
        "mm2.engine": "inline",
    }


class World:
    def __init__(self, source: dict[str, str], target: dict[str, str]) -> None:
        self.source, self.target = source, target

    def write(self, topic: str, *values: str) -> None:
        kafka.produce(self.source, topic, [kafka.Outgoing(value=each.encode()) for each in values])

    def mirrored(self, topic: str) -> list[str]:
        found = kafka.read_partition(self.target, f"{ALIASES[0]}.{topic}")
        return [(each.value or b"").decode() for each in found]

    def arrives(self, topic: str, *values: str, log: Callable[[], str]) -> None:
        """These, once, and in this order."""
        eventually.eventually(
            lambda: self.mirrored(topic) == list(values),
            WAIT_S,
            lambda: f"{self.mirrored(topic)}, {log()}",
            interval_s=0.5,
        )


def delete(client: Mapping[str, str], topic: str) -> None:
    """Returns when it is gone."""
    admin = kafka.admin_client(client)
    admin.delete_topics([topic])[topic].result(WAIT_S)
    eventually.eventually(
        lambda: topic not in kafka.topics(client), WAIT_S, f"{topic} is gone", interval_s=0.2
    )


def settle(worker: connect_workers.Worker, path: str, *, tasks: int, state: str) -> None:
    def settled() -> bool:
        status: Any = worker.get(f"/connectors/{NAME}/status")
        return len(status["tasks"]) == tasks and status["connector"]["state"] == state

    worker.ask("PUT", f"/connectors/{NAME}/{path}")
    eventually.eventually(settled, WAIT_S, worker.log_text, interval_s=0.3)


def test_what_people_do_to_topics_is_seen(
    own_cluster: Callable[..., cluster.Cluster],
    east: cluster.Cluster,
    connect_group: Callable[..., connect_workers.Group],
) -> None:
    west = own_cluster("careless", settings={"auto.create.topics.enable": "true"})
    world = World(dict(west.client_properties()), dict(east.client_properties()))
    for topic in (KEPT, GONE, AGAIN):
        kafka.create_topic(world.source, topic)
        world.write(topic, "one", "two", "three")
    metrics = scraped.Listener()
    worker = connect_group(settings=metrics.settings).start("one", connect_workers.Kind.OURS)
    worker.configure(NAME, mirroring(world.source, world.target))
    for topic in (KEPT, GONE, AGAIN):
        world.arrives(topic, "one", "two", "three", log=worker.log_text)

    # A topic that is deleted stays deleted, though its broker makes any that is asked for
    # (KAFKA-16561), and takes no other with it.
    delete(world.source, GONE)
    assert not polling.until(
        lambda: GONE in kafka.topics(world.source), timeout_s=WATCH_S, interval_s=0.5
    )
    world.write(KEPT, "four")
    world.arrives(KEPT, "one", "two", "three", "four", log=worker.log_text)

    # One that is made again is another topic: Java jumps, or goes on in its middle.
    delete(world.source, AGAIN)
    kafka.create_topic(world.source, AGAIN)
    world.write(AGAIN, "other one", "other two", "other three", "other four")
    stopped = functools.partial(
        metrics.total, "mm2_partition_stopped", topic=f"{ALIASES[0]}.{AGAIN}"
    )
    eventually.eventually(lambda: stopped() == 1, WAIT_S, worker.log_text, interval_s=0.5)
    assert worker.runs(NAME)
    assert AGAIN in worker.log_text()
    assert world.mirrored(AGAIN) == ["one", "two", "three"]

    # Altered offsets begin anew, by word of an operator, and a receipt says what stands twice.
    settle(worker, "stop", tasks=0, state="STOPPED")
    place = {"cluster": ALIASES[0], "partition": 0, "topic": KEPT}
    body = {"offsets": [{"partition": place, "offset": {"offset": 1}}]}
    answer = worker.ask("PATCH", OFFSETS, body)
    assert answer.is_success, answer.text
    settle(worker, "resume", tasks=1, state="RUNNING")
    every = ("one", "two", "three", "four", "three", "four")
    world.arrives(KEPT, *every, log=worker.log_text)
    receipts = kafka.read_partition(world.target, f"mm2-receipts.{ALIASES[0]}.internal")
    assert any(KEPT.encode() in (each.key or b"") for each in receipts)
    metrics.close()
