"""Topics that connectors use, and partitions that sinks get and lose.

Java: ConnectorTopicsIntegrationTest, SinkConnectorsIntegrationTest, ExampleConnectIntegrationTest.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import eventually, kafka, watched
from tests.support.connect_workers import Group, Kind, Worker
from tests.support.kafka import Outgoing
from tests.support.watched import Make, Watched

pytestmark = pytest.mark.integration

OURS = Kind.OURS
TASKS = 3


@pytest.fixture(scope="module")
def group(east: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """One worker that keeps track of topics, and one in another group that does not."""
    folder = tmp_path_factory.mktemp("workers")
    settings = {
        "offset.flush.interval.ms": "300",
        "connector.client.config.override.policy": "All",
    }
    with Group(east.client_properties(), "worker-topics", folder=folder, settings=settings) as made:
        made.start("one", OURS)
        yield made


def uses(worker: Worker, name: str, *topics: str) -> None:
    expected = {name: {"topics": sorted(topics)}}

    def found() -> object:
        told = worker.get(f"/connectors/{name}/topics")
        told[name]["topics"].sort()
        return told

    eventually.eventually(lambda: found() == expected, watched.WAIT_S, lambda: f"{found()}")


def as_sink(one: Watched, *topics: str, **more: str | None) -> dict[str, str]:
    return one.config(connector_class=watched.SINK, topic=None, topics=",".join(topics), **more)


def test_topics_in_use_are_told_and_forgotten(
    east: SandboxCluster, worker: Worker, make: Make
) -> None:
    """testGetActiveTopics."""
    foo, bar, sink = make(), make(), make()
    uses(worker, foo.name)
    for one in (foo, bar):
        worker.configure(one.name, one.config())
        uses(worker, one.name, one.name)
    worker.configure(sink.name, as_sink(sink, foo.name, bar.name))
    uses(worker, sink.name, foo.name, bar.name)
    watched.delete(worker, bar)
    uses(worker, bar.name)
    _, end = kafka.offsets(east.client_properties(), bar.name)
    eventually.eventually(
        lambda: len([each for each in sink.notes("put") if each["at"] == f"{bar.name}-0"]) >= end,
        watched.WAIT_S,
    )
    answer = worker.ask("PUT", f"/connectors/{sink.name}/topics/reset")
    assert (answer.status_code, answer.content) == (202, b"")
    uses(worker, sink.name, foo.name)


@pytest.mark.parametrize("tracks", [True, False], ids=["no-reset", "no-tracking"])
def test_tracking_may_be_switched_off(
    east: SandboxCluster,
    connect_group: Callable[..., Group],
    topic: Callable[..., str],
    tmp_path: Path,
    *,
    tracks: bool,
) -> None:
    """testTopicTrackingResetIsDisabled, testTopicTrackingIsDisabled."""
    setting = "topic.tracking.allow.reset" if tracks else "topic.tracking.enable"
    group = connect_group(settings={setting: "false"})
    worker = group.start("one", OURS)
    told = "Topic tracking reset is disabled." if tracks else "Topic tracking is disabled."
    with watched.connectors(east, topic, worker=worker, folder=tmp_path) as make:
        one = make(messages="5", every_ms="1")
        worker.configure(one.name, one.config())
        properties = east.client_properties()
        eventually.eventually(lambda: kafka.offsets(properties, one.name)[1] == 5, watched.WAIT_S)
        if tracks:
            uses(worker, one.name, one.name)
        else:
            answer = worker.ask("GET", f"/connectors/{one.name}/topics")
            assert (answer.status_code, answer.json()["message"]) == (403, told)
        answer = worker.ask("PUT", f"/connectors/{one.name}/topics/reset")
        assert (answer.status_code, answer.json()["message"]) == (403, told)
        statuses = kafka.read_topic(properties, f"{group.group_id}-statuses")
        keys = [each.key or b"" for records in statuses.values() for each in records]
        assert any(key.startswith(b"status-task-") for key in keys)
        assert any(key.startswith(b"status-topic-") for key in keys) is tracks


def moves(one: Watched) -> dict[str, tuple[int, int]]:
    """How often each partition was given to a task and taken from it."""
    opened, closed = (
        collections.Counter(name for each in one.notes(place) for name in each["partitions"])
        for place in ("open", "close")
    )
    return {name: (opened[name], closed[name]) for name in opened}


@pytest.mark.full
@pytest.mark.parametrize(
    ("strategy", "before", "after"),
    [
        ("RoundRobinAssignor", [(3, 2), (2, 1), (1, 0)], [(3, 3), (3, 2), (2, 1)]),
        ("CooperativeStickyAssignor", [(1, 0), (1, 0), (1, 0)], [(1, 1), (1, 0), (1, 0)]),
    ],
)
def test_partitions_come_and_go_as_the_consumer_says(
    east: SandboxCluster,
    worker: Worker,
    make: Make,
    *,
    strategy: str,
    before: list[tuple[int, int]],
    after: list[tuple[int, int]],
) -> None:
    """testEagerConsumerPartitionAssignment, testCooperativeConsumerPartitionAssignment."""
    one, properties = make(), east.client_properties()
    names = [f"{one.name}-{number}" for number in range(3)]
    overrides = {
        "consumer.override.partition.assignment.strategy": (
            f"org.apache.kafka.clients.consumer.{strategy}"
        ),
        "consumer.override.metadata.max.age.ms": "500",
    }
    worker.configure(one.name, as_sink(one, *names) | overrides)
    watched.reaches(worker, one.name, "RUNNING", 1)
    assert moves(one) == {}
    for sent, name in enumerate(names, start=1):
        kafka.create_topic(properties, name)
        kafka.produce(properties, name, [Outgoing(value=b"v")])
        eventually.eventually(
            lambda sent=sent: one.count("put") == sent,  # type: ignore[misc]
            watched.WAIT_S,
        )
    assert moves(one) == {f"{name}-0": each for name, each in zip(names, before, strict=True)}
    kafka.delete_topic(properties, names[0])
    expected = {f"{name}-0": each for name, each in zip(names, after, strict=True)}
    eventually.eventually(lambda: moves(one) == expected, watched.WAIT_S, lambda: f"{moves(one)}")
    for name in names[1:]:
        kafka.produce(properties, name, [Outgoing(value=b"w")])
    eventually.eventually(lambda: one.count("put") == 5, watched.WAIT_S)
    put = [(each["at"], each["offset"]) for each in one.notes("put")]
    assert len(set(put)) == 5, "each record once"


def test_a_sink_of_several_tasks_puts_and_commits_all(
    east: SandboxCluster, worker: Worker, make: Make
) -> None:
    """ExampleConnectIntegrationTest.testSinkConnector."""
    one, properties = make(tasks_max=str(TASKS)), east.client_properties()
    name = kafka.create_topic(properties, f"{one.name}-in", partitions=TASKS)
    config = as_sink(one, name)
    path = f"/connector-plugins/{watched.SINK}/config/validate"
    answer = worker.ask("PUT", path, config)
    assert (answer.status_code, answer.json()["error_count"]) == (200, 1)
    answer = worker.ask("PUT", path, config | {"name": one.name})
    assert (answer.status_code, answer.json()["error_count"]) == (200, 0)
    worker.configure(one.name, config)
    partitions = {f"{name}-{number}" for number in range(TASKS)}
    eventually.eventually(lambda: set(moves(one)) == partitions, watched.WAIT_S)
    sent = [Outgoing(value=b"%d" % each, partition=each % TASKS) for each in range(600)]
    kafka.produce(properties, name, sent)
    eventually.eventually(lambda: one.count("put") >= 600, watched.WAIT_S)
    assert sorted(int(each["value"]) for each in one.notes("put")) == list(range(600))
    expected = [
        {
            "partition": {"kafka_topic": name, "kafka_partition": number},
            "offset": {"kafka_offset": 200},
        }
        for number in range(TASKS)
    ]

    def committed() -> bool:
        told = worker.get(f"/connectors/{one.name}/offsets")["offsets"]
        return sorted(told, key=lambda each: each["partition"]["kafka_partition"]) == expected

    eventually.eventually(committed, watched.WAIT_S, interval_s=0.3)


def test_a_source_of_several_tasks_writes_and_commits_all(
    east: SandboxCluster, worker: Worker, make: Make
) -> None:
    """ExampleConnectIntegrationTest.testSourceConnector."""
    one = make(tasks_max=str(TASKS), messages="100", every_ms="1")
    worker.configure(one.name, one.config())
    properties = east.client_properties()
    eventually.eventually(
        lambda: kafka.offsets(properties, one.name)[1] == 100 * TASKS, watched.WAIT_S
    )
    values = {each.value for each in kafka.read_topic(properties, one.name)[0]}
    assert values == {
        f"{one.name}-{task}:{number}".encode() for task in range(TASKS) for number in range(100)
    }

    def committed() -> bool:
        told = worker.get(f"/connectors/{one.name}/offsets")["offsets"]
        return [each["offset"] for each in told] == [{"saved": 100}] * TASKS

    eventually.eventually(committed, watched.WAIT_S, interval_s=0.3)
