"""Whole workers: connectors that come, change, rest and go. Java: ConnectWorkerIntegrationTest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import eventually, kafka, watched
from tests.support.connect_workers import Group, Kind, Worker
from tests.support.kafka import Outgoing
from tests.support.watched import Make

pytestmark = pytest.mark.integration

OURS = Kind.OURS
WAIT_S = watched.WAIT_S
SETTINGS = {
    "scheduled.rebalance.max.delay.ms": "0",
    "offset.flush.interval.ms": "300",
    "heartbeat.interval.ms": "500",
    "connector.client.config.override.policy": "All",
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}


@pytest.fixture(scope="module")
def group(east: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """Two workers, for all tests of this module."""
    folder = tmp_path_factory.mktemp("workers")
    with Group(
        east.client_properties(), "worker-lifecycle", folder=folder, settings=SETTINGS
    ) as made:
        made.start_all({"one": OURS, "two": OURS})
        yield made


def values(east: SandboxCluster, name: str) -> list[str]:
    found = kafka.read_topic(east.client_properties(), name)
    return [(each.value or b"").decode() for each in found[0]]


def test_the_number_of_tasks_follows_its_configuration(worker: Worker, make: Make) -> None:
    """testTaskStatuses."""
    one = make()
    for count in (1, 5, 3):
        worker.configure(one.name, one.config(tasks_max=str(count)))
        watched.reaches(worker, one.name, "RUNNING", count)
        assert len(worker.get(f"/connectors/{one.name}/tasks")) == count


def test_a_connector_is_paused_stopped_and_resumed(
    group: Group, worker: Worker, make: Make
) -> None:
    """testPauseStopResume; each wish twice, and at either worker."""
    one = make(tasks_max="4")
    worker.configure(one.name, one.config())
    watched.reaches(worker, one.name, "RUNNING", 4)
    watched.tell(worker, one, "stop", times=2)
    watched.reaches(worker, one.name, "STOPPED")
    watched.has_no_tasks(worker, one.name)
    watched.tell(group["two"], one, "resume", times=2)
    watched.reaches(worker, one.name, "RUNNING", 4)
    watched.tell(worker, one, "pause", times=2)
    watched.reaches(worker, one.name, "PAUSED", 4)
    watched.tell(group["two"], one, "stop")
    watched.reaches(worker, one.name, "STOPPED")
    watched.has_no_tasks(worker, one.name)
    watched.tell(worker, one, "pause")
    watched.reaches(worker, one.name, "PAUSED")
    watched.tell(worker, one, "resume")
    watched.reaches(worker, one.name, "RUNNING", 4)
    watched.delete(worker, one)


def test_what_fails_as_it_begins_or_ends_can_be_stopped(worker: Worker, make: Make) -> None:
    """testStoppedState."""
    one = make(tasks_max="2")
    worker.configure(one.name, one.config(fail="connector.start"))
    watched.reaches(worker, one.name, "FAILED")
    watched.tell(worker, one, "stop")
    watched.reaches(worker, one.name, "STOPPED")
    watched.has_no_tasks(worker, one.name)
    worker.configure(one.name, one.config(fail="connector.stop"))
    watched.tell(worker, one, "resume")
    watched.reaches(worker, one.name, "RUNNING", 2)
    watched.tell(worker, one, "stop")
    watched.reaches(worker, one.name, "STOPPED")
    watched.has_no_tasks(worker, one.name)
    watched.tell(worker, one, "resume")
    watched.reaches(worker, one.name, "RUNNING", 2)
    watched.delete(worker, one)


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED"])
def test_a_connector_made_at_rest_has_no_tasks_before_it_is_resumed(
    worker: Worker, make: Make, state: str
) -> None:
    """testCreateConnectorWithPausedInitialState, testDeleteConnectorCreatedWith…InitialState."""
    one = make(tasks_max="2")
    watched.create(worker, one, state)
    watched.reaches(worker, one.name, state)
    watched.has_no_tasks(worker, one.name)
    watched.delete(worker, one)
    watched.create(worker, one, state)
    watched.reaches(worker, one.name, state)
    watched.tell(worker, one, "resume")
    watched.reaches(worker, one.name, "RUNNING", 2)


def test_a_source_made_stopped_begins_where_it_is_told(
    east: SandboxCluster, worker: Worker, make: Make
) -> None:
    """testCreateSourceConnectorWithStoppedInitialStateAndModifyOffsets."""
    one = make(messages="10", every_ms="1")
    watched.create(worker, one, "STOPPED")
    watched.reaches(worker, one.name, "STOPPED")
    offset = {"partition": {"task.id": f"{one.name}-0"}, "offset": {"saved": 5}}
    answer = worker.ask("PATCH", f"/connectors/{one.name}/offsets", {"offsets": [offset]})
    assert answer.status_code == 200, answer.text
    watched.tell(worker, one, "resume")
    watched.reaches(worker, one.name, "RUNNING", 1)
    expected = [f"{one.name}-0:{number}" for number in range(5, 10)]
    eventually.eventually(lambda: values(east, one.name) == expected, WAIT_S)
    committed = {"partition": offset["partition"], "offset": {"saved": 10}}
    eventually.eventually(
        lambda: worker.get(f"/connectors/{one.name}/offsets") == {"offsets": [committed]}, WAIT_S
    )
    assert values(east, one.name) == expected


def test_a_sink_made_stopped_begins_where_it_is_told(
    east: SandboxCluster, worker: Worker, make: Make
) -> None:
    """testCreateSinkConnectorWithStoppedInitialStateAndModifyOffsets."""
    one = make()
    sent = [Outgoing(value=b"Message %d" % number) for number in range(10)]
    kafka.produce(east.client_properties(), one.name, sent)
    watched.create(
        worker, one, "STOPPED", connector_class=watched.SINK, topics=one.name, topic=None
    )
    watched.reaches(worker, one.name, "STOPPED")
    entry = {
        "partition": {"kafka_topic": one.name, "kafka_partition": 0},
        "offset": {"kafka_offset": 5},
    }
    answer = worker.ask("PATCH", f"/connectors/{one.name}/offsets", {"offsets": [entry]})
    assert answer.status_code == 200, answer.text
    watched.tell(worker, one, "resume")
    watched.reaches(worker, one.name, "RUNNING", 1)
    eventually.eventually(lambda: one.count("put") >= 5, WAIT_S)
    assert [each["offset"] for each in one.notes("put")] == [5, 6, 7, 8, 9]
    assert watched.status(worker, one.name) == ("RUNNING", ["RUNNING"])


def test_a_configuration_is_patched(worker: Worker, make: Make) -> None:
    """testPatchConnectorConfig."""
    one = make(tasks_max="2", unaffected="value", gone="value")
    worker.configure(one.name, one.config())
    watched.reaches(worker, one.name, "RUNNING", 2)
    patch = {"tasks.max": "3", "added": "value", "gone": None}
    answer = worker.ask("PATCH", f"/connectors/{one.name}/config", patch)
    assert answer.status_code == 200, answer.text
    watched.reaches(worker, one.name, "RUNNING", 3)
    expected = one.config(tasks_max="3", added="value", gone=None) | {"name": one.name}
    assert worker.get(f"/connectors/{one.name}")["config"] == expected
    assert answer.json()["config"] == expected


def test_a_task_that_failed_is_restarted(worker: Worker, make: Make) -> None:
    """testRestartFailedTask."""
    one = make()
    nobody = {"producer.override.bootstrap.servers": "nobrokerrunningatthisaddress"}
    worker.configure(one.name, one.config() | nobody)
    watched.reaches(worker, one.name, "RUNNING", 1, "FAILED")
    told = worker.get(f"/connectors/{one.name}/tasks/0/status")
    assert "bootstrap.servers" in told["trace"], told
    worker.configure(one.name, one.config())
    worker.ask("POST", f"/connectors/{one.name}/tasks/0/restart")
    watched.reaches(worker, one.name, "RUNNING", 1)


def test_a_topic_that_is_not_there_does_not_hold_up_a_deletion(worker: Worker, make: Make) -> None:
    """testSourceTaskNotBlockedOnShutdownWithNonExistentTopic."""
    one = make(tasks_max="2")
    worker.configure(one.name, one.config(topic=f"{one.name}-nowhere", every_ms="1"))
    watched.reaches(worker, one.name, "RUNNING", 2)
    eventually.eventually(lambda: one.count("task.poll") == 2, WAIT_S)
    watched.delete(worker, one)
    eventually.eventually(
        lambda: (one.count("connector.stop"), one.count("task.stop")) == (1, 2), WAIT_S
    )


def test_task_configs_that_cannot_be_resolved_any_more_are_replaced(
    east: SandboxCluster, worker: Worker, make: Make, tmp_path: Path
) -> None:
    """testReconfigureConnectorWithFailingTaskConfigs."""
    one = make(tasks_max="2")
    other = kafka.create_topic(east.client_properties(), f"{one.name}-other", partitions=1)
    secrets = tmp_path / "secrets"
    secrets.write_text("rate=10\n")
    worker.configure(one.name, one.config(every_ms=f"${{file:{secrets}:rate}}"))
    watched.reaches(worker, one.name, "RUNNING", 2)
    assert "${file:" in json.dumps(worker.get(f"/connectors/{one.name}/tasks"))
    secrets.unlink()
    starts = one.count("task.start")
    worker.configure(one.name, one.config(every_ms="10", topic=other))
    eventually.eventually(lambda: one.count("task.start") >= starts + 2, WAIT_S)
    eventually.eventually(lambda: kafka.offsets(east.client_properties(), other)[1] > 0, WAIT_S)


def test_what_task_configs_do_not_show_restarts_tasks_too(
    east: SandboxCluster, worker: Worker, make: Make
) -> None:
    """testRuntimePropertyReconfiguration (KAFKA-9228)."""
    one = make(connector_class=watched.SINK, same="yes")
    kafka.produce(east.client_properties(), one.name, [Outgoing(value=b"no json")])
    config: dict[str, str | None] = {"topics": one.name, "topic": None}
    worker.configure(
        one.name,
        one.config(
            value_converter="org.apache.kafka.connect.json.JsonConverter",
            value_converter_schemas_enable="false",
            **config,
        ),
    )
    watched.reaches(worker, one.name, "RUNNING", 1, "FAILED")
    assert worker.get(f"/connectors/{one.name}/offsets") == {"offsets": []}
    worker.configure(
        one.name,
        one.config(value_converter="org.apache.kafka.connect.storage.StringConverter", **config),
    )
    watched.reaches(worker, one.name, "RUNNING", 1)
    expected = {
        "partition": {"kafka_topic": one.name, "kafka_partition": 0},
        "offset": {"kafka_offset": 1},
    }
    eventually.eventually(
        lambda: worker.get(f"/connectors/{one.name}/offsets") == {"offsets": [expected]}, WAIT_S
    )


@pytest.mark.parametrize("kind", ["SOURCE", "SINK"])
def test_plugins_go_by_their_short_names(worker: Worker, make: Make, kind: str) -> None:
    """testPluginAliases."""
    one = make()
    more: dict[str, str | None] = {}
    if kind == "SINK":
        more = {"topics": one.name, "topic": None}
    config = one.config(connector_class=f"Watched{kind.title()}", **more)
    config |= dict.fromkeys(
        ["key.converter", "value.converter", "header.converter"], "StringConverter"
    )
    worker.configure(one.name, config)
    watched.reaches(worker, one.name, "RUNNING", 1)


def test_a_connector_that_wants_too_many_tasks_fails(worker: Worker, make: Make) -> None:
    """testTasksMaxEnforcement; what is there already fails when it is started again."""
    one = make()
    worker.configure(one.name, one.config(num_tasks="2"))
    watched.reaches(worker, one.name, "FAILED")
    trace = worker.get(f"/connectors/{one.name}/status")["connector"]["trace"]
    assert (
        f"The connector {one.name} has generated 2 tasks, which is greater than 1, the maximum"
        " number of tasks it is configured to create." in trace
    )
    worker.configure(one.name, one.config(num_tasks="2", tasks_max_enforce="false"))
    watched.reaches(worker, one.name, "RUNNING", 2)
    worker.configure(one.name, one.config(num_tasks="2"))
    watched.reaches(worker, one.name, "FAILED", 2, "RUNNING")
    for number in range(2):
        answer = worker.ask("POST", f"/connectors/{one.name}/tasks/{number}/restart")
        assert (answer.status_code, "2 tasks" in answer.json()["message"]) == (500, True)
    watched.reaches(worker, one.name, "FAILED", 2)
    worker.configure(one.name, one.config(num_tasks="1"))
    watched.reaches(worker, one.name, "RUNNING", 1)
    worker.configure(one.name, one.config(num_tasks="2"))
    watched.reaches(worker, one.name, "FAILED", 1, "RUNNING")
    answer = worker.ask("POST", f"/connectors/{one.name}/tasks/0/restart")
    assert answer.is_success, answer.text
    watched.reaches(worker, one.name, "FAILED", 1, "RUNNING")
