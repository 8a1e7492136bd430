"""MirrorSourceConnector. Java: MirrorSourceConnectorTest."""

from __future__ import annotations

import dataclasses
import json
import logging
from typing import Any

import pytest

from connect_runtime.api.connector import ExactlyOnceSupport
from connect_runtime.api.errors import ConnectError, RetriableError
from connect_runtime.api.records import SourceOffset
from connect_runtime.base import errors
from connect_runtime.base.errors import FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import (
    AuthenticationError,
    NotAuthorizedError,
    UnreachableError,
)
from connect_runtime.plugins import plugin_discovery
from connect_runtime.plugins.plugin_aliases import Kind
from connect_runtime.system import system_clock
from connect_runtime.system.supervised_threads import StoppableThread
from connect_runtime.system.system_clock import SystemClock
from connect_runtime.worker import plugin_instantiation
from mm2 import suggested_commands
from mm2.connectors import (
    mirror_topic_writer,
    source_connector,
    status_registry,
    task_status_builder,
)
from mm2.connectors.partition_setup_builder import PartitionFinding
from mm2.connectors.source_connector import MirrorSourceConnector
from mm2.connectors.status_registry import (
    ConnectorSnapshot,
    SnapshotPublisher,
    TaskSnapshot,
    TaskState,
    TaskStatus,
)
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import Era, EraKey
from mm2.offsets.offset_map import OffsetMap
from mm2.topics import task_assignment
from mm2.topics.acl_sync_plan import TopicAcl
from mm2.topics.replication_policy import DefaultReplicationPolicy
from tests.fakes.plugin_contexts import Context
from tests.fakes.source_clients import FakeClusters

JAVA = "org.apache.kafka.connect.mirror.MirrorSource"
PROPS = {
    "name": "copies",
    "connector.class": f"{JAVA}Connector",
    "tasks.max": "2",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "refresh.topics.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "sync.topic.acls.interval.seconds": "1",
}
AWAY = UnreachableError("describing: nobody answers")
WAIT_S = 30.0
BRIEFLY_S = 1.5
FLOW = "A->B"


class Running:
    """A connector over two clusters in memory; what it answers is published when asked to be."""

    def __init__(self) -> None:
        self.clusters = FakeClusters()
        self.source, self.target = self.clusters.source, self.clusters.target
        self.again()

    def again(self, **context):
        """Another instance, as after a restart."""
        self.connector = MirrorSourceConnector(self.clusters)
        time: Any = SystemClock()
        self.context = Context(clock=time, **context)
        self.connector.initialize(self.context)

    def start(self, **more):
        named = {name.replace("_", "."): value for name, value in more.items()}
        named = {name: value for name, value in {**PROPS, **named}.items() if value}
        self.connector.start(named)
        return self.connector

    def tasks(self, max_tasks: int = 2) -> list[str]:
        """Shares as they are written; what came later has a star."""
        configs = self.connector.task_configs(max_tasks)
        self.context.published = list(configs)
        assert [each["task.index"] for each in configs] == [str(n) for n in range(len(configs))]
        found = []
        for each in configs:
            late = each.get("mm2.task.added.partitions", "").split(",")
            share = each["task.assigned.partitions"].split(",")
            found.append(" ".join(f"{one}*" if one in late else one for one in share))
        return found

    def reconfigured(self, times: int) -> bool:
        return system_clock.wait_until(
            lambda: self.context.reconfigurations >= times, timeout_s=WAIT_S
        )

    def stays_quiet(self) -> bool:
        before = self.context.reconfigurations
        return not system_clock.wait_until(
            lambda: self.context.reconfigurations > before, timeout_s=BRIEFLY_S
        )

    def shown(self) -> ConnectorSnapshot | None:
        return status_registry.REGISTRY.get_snapshot().connectors.get(FLOW)


@pytest.fixture
def running():
    made = Running()
    made.source.create("orders", partitions=2)
    yield made
    made.connector.stop()
    assert made.clusters.all_closed()
    assert made.context.errors == []
    assert made.shown() is None


@pytest.mark.parametrize("name", [f"{JAVA}Connector", "MirrorSourceConnector", "MirrorSource"])
def test_workers_know_it_by_javas_names(name):
    installed = plugin_discovery.discover_plugins()
    found = installed.find_plugin_class(name, Kind.SOURCE)
    assert found is MirrorSourceConnector
    assert plugin_instantiation.get_task_class_name(found(), installed) == f"{JAVA}Task"
    assert found().version() == "4.3.1"


# What it makes at the start


def test_mirrors_are_made_and_partitions_go_round(running):
    running.source.create("users", partitions=3)
    running.source.create("__secret")
    running.source.create("B.back")
    running.start(mine="7", throttle="1MB")
    assert running.tasks() == ["orders-0 users-0 users-2", "orders-1 users-1"]
    assert {name for name in running.target.topics if name.startswith("A.")} == {
        "A.orders",
        "A.users",
    }
    (first, _) = running.connector.task_configs(2)
    assert first.items() >= {**PROPS, "mine": "7", "mm2.task.throttle": "500000"}.items()


def test_internal_topics_are_made_compacted(running):
    running.start()
    assert running.source.topics["mm2-offset-syncs.B.internal"].overrides == {
        "cleanup.policy": "compact"
    }
    for name in ("mm2-offset-map.A.internal", "mm2-incidents.A.internal"):
        assert running.target.topics[name].overrides["cleanup.policy"] == "compact"
    assert not any("offset-syncs" in name for name in running.target.topics)


def test_offset_syncs_are_kept_where_they_are_asked_for_or_nowhere(running):
    running.start(**{"offset-syncs_topic_location": "target"})
    assert "mm2-offset-syncs.A.internal" in running.target.topics
    running.connector.stop()
    running.again()
    del running.target.topics["mm2-offset-syncs.A.internal"]
    running.start(
        emit_offset__syncs_enabled="",
        **{
            "emit_offset-syncs_enabled": "false",
            "offset-syncs_topic_replication_factor": "",
        },
    )
    every = {*running.source.topics, *running.target.topics}
    assert not any("offset-syncs" in name for name in every)


def test_what_is_switched_off_asks_nobody(running):
    running.start(enabled="false")
    assert running.connector.task_configs(2) == []
    assert running.clusters.made == []


def test_no_topics_no_tasks(running):
    running.start(topics="nothing")
    assert running.connector.task_configs(2) == []


def test_an_internal_topic_that_would_lose_facts_is_waited_for(running):
    running.target.create("mm2-offset-map.A.internal", cleanup_policy="delete")
    starting = StoppableThread(
        "start", lambda _: running.start(), on_unexpected_end=lambda end: None
    )

    def waits() -> bool:
        shown = running.shown()
        return shown is not None and "must be compact" in shown.reason

    assert system_clock.wait_until(waits, timeout_s=WAIT_S)
    topic = running.target.topics["mm2-offset-map.A.internal"]
    assert suggested_commands.extract_remedy_from_message(running.shown().reason).endswith(
        "--entity-name mm2-offset-map.A.internal --add-config cleanup.policy=compact"
    )
    topic.overrides["cleanup.policy"] = "compact"
    starting.join(WAIT_S)
    assert running.tasks() == ["orders-0", "orders-1"]


def test_who_is_refused_fails_at_start(running):
    refused = AuthenticationError("wrong password")
    running.source.failures["create_topics", "mm2-offset-syncs.B.internal"] = refused
    with pytest.raises(FatalError, match="wrong password"):
        running.start()


# What it finds later


def test_topics_and_partitions_that_come_and_go_have_the_tasks_told(running):
    running.start()
    assert running.tasks() == ["orders-0", "orders-1"]
    assert running.stays_quiet()
    running.source.create("users")
    assert running.reconfigured(1)
    assert running.tasks() == ["orders-0 users-0", "orders-1"]
    running.source.topics["orders"].partitions = 3
    assert running.reconfigured(2)
    assert running.tasks() == ["orders-0 users-0", "orders-1 orders-2"]
    assert running.target.topics["A.orders"].partitions == 3
    del running.source.topics["users"]
    assert running.reconfigured(3)
    assert running.tasks() == ["orders-0", "orders-1 orders-2"]
    assert "A.users" in running.target.topics
    assert running.stays_quiet()


def test_nothing_is_looked_for_again_where_that_is_off(running):
    running.start(refresh_topics_enabled="false")
    running.tasks()
    running.source.create("users")
    assert running.stays_quiet()
    assert "A.users" not in running.target.topics


def test_settings_follow_by_themselves(running):
    running.start(refresh_topics_enabled="false")
    overrides = running.target.topics["A.orders"].overrides
    running.source.topics["orders"].overrides["retention.ms"] = "77"
    assert system_clock.wait_until(lambda: overrides.get("retention.ms") == "77", timeout_s=WAIT_S)
    running.source.topics["orders"].partitions = 5
    running.source.topics["orders"].overrides["retention.ms"] = "78"
    assert system_clock.wait_until(lambda: overrides.get("retention.ms") == "78", timeout_s=WAIT_S)
    assert running.target.topics["A.orders"].partitions == 2


@pytest.mark.parametrize("off", [{"sync_topic_configs_enabled": "false"}, {}])
def test_settings_that_are_excluded_or_all_of_them_stay_where_that_is_asked(running, off):
    running.start(config_properties_exclude="retention\\..*", **off)
    running.source.topics["orders"].overrides |= {
        "retention.ms": "77",
        "compression.type": "zstd",
    }
    overrides = running.target.topics["A.orders"].overrides
    followed = not off
    assert (
        system_clock.wait_until(lambda: "compression.type" in overrides, timeout_s=3.0) is followed
    )
    assert "retention.ms" not in overrides


def test_acls_follow_unless_that_is_off(running):
    right = TopicAcl(
        name="orders", principal="User:x", host="*", operation="READ", permission="ALLOW"
    )
    running.clusters.source_rights.bindings = {right}
    created = running.clusters.target_rights.created
    running.start()
    assert system_clock.wait_until(lambda: bool(created), timeout_s=WAIT_S)
    assert [each.name for each in created] == ["A.orders"]
    running.connector.stop()
    running.again()
    running.clusters.target_rights.bindings.clear()
    running.start(sync_topic_acls_enabled="false")
    assert not system_clock.wait_until(lambda: len(created) > 1, timeout_s=BRIEFLY_S)


def test_acls_wait_until_it_is_known_which_topics_are_mirrored(running):
    right = TopicAcl(
        name="orders", principal="User:x", host="*", operation="READ", permission="ALLOW"
    )
    running.clusters.source_rights.bindings = {
        right,
        dataclasses.replace(right, name="not-on-the-source"),
        dataclasses.replace(right, name="*"),
    }
    running.clusters.create_source_admin = _away_at_first(running.clusters)
    created = running.clusters.target_rights.created
    running.start(
        refresh_topics_interval_seconds="2",
        replication_policy_class="org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    )
    assert system_clock.wait_until(lambda: bool(created), timeout_s=WAIT_S)
    assert created == [right]


# What stays with whom


def test_after_a_restart_partitions_are_where_they_were_published(running):
    running.source.create("users", partitions=2)
    given = [
        {"task.assigned.partitions": "users-1,orders-0,gone-3", "task.index": "0"},
        {"task.assigned.partitions": "orders-1", "task.index": "1"},
    ]
    running.again(published=given)
    running.start()
    assert running.tasks() == ["orders-0 users-1", "orders-1 users-0"]


def test_no_answer_while_others_are_written_is_no_reason_to_begin_anew(running):
    running.again(published=[{"task.assigned.partitions": "orders-1,orders-0"}])
    running.start()
    assert running.tasks() == ["orders-1,orders-0".replace(",", " ")]
    running.context.published = []
    assert running.tasks(1) == ["orders-1 orders-0"]


def test_what_cannot_be_seen_for_a_while_stays_with_its_task(running, caplog, monkeypatch):
    monkeypatch.setattr(mirror_topic_writer, "TOPIC_RETRY_TIMEOUT_S", 1.0)
    running.source.create("users")
    running.start()
    assert running.tasks() == ["orders-0 users-0", "orders-1"]
    running.source.failures["describe_topics", "users"] = NotAuthorizedError("no")
    running.source.failures["describe_topics", "orders"] = AWAY
    assert system_clock.wait_until(lambda: "A->B users: no" in caplog.text, timeout_s=WAIT_S)
    assert running.tasks() == ["orders-0 users-0", "orders-1"]
    running.source.away = True
    assert system_clock.wait_until(lambda: "refreshing topics" in caplog.text, timeout_s=WAIT_S)
    assert running.tasks() == ["orders-0 users-0", "orders-1"]
    assert running.context.reconfigurations == 0
    assert caplog.text.count("A->B users: no") == 1


def test_what_must_not_be_copied_is_taken_from_its_task_and_shown(running, caplog):
    running.start(sync_topic_configs_enabled="false")
    assert running.tasks() == ["orders-0", "orders-1"]
    running.source.create("users")
    running.target.create("A.users", message_timestamp_type="LogAppendTime")
    assert system_clock.wait_until(lambda: "LogAppendTime" in caplog.text, timeout_s=WAIT_S)
    assert running.context.reconfigurations == 0
    shown = running.shown()
    assert shown is not None
    assert [str(each.partition) for each in shown.findings] == ["users-0"]
    running.target.topics["A.orders"].overrides["message.timestamp.type"] = "LogAppendTime"
    assert running.reconfigured(1)
    assert running.tasks() == []


def test_a_topic_that_cannot_be_made_restarts_no_task(running):
    """Java has all tasks restarted at every look while one topic cannot be made."""
    running.start()
    assert running.tasks() == ["orders-0", "orders-1"]
    forbidden = NotAuthorizedError("creating A.users: not allowed")
    running.target.failures["create_topics", "A.users"] = forbidden
    running.source.create("users")
    running.source.create("zebras")
    assert running.reconfigured(1)
    assert running.tasks() == ["orders-0 zebras-0", "orders-1"]
    assert running.stays_quiet()
    assert "A.users" not in running.target.topics
    running.target.failures.clear()
    assert running.reconfigured(2)
    assert running.tasks() == ["orders-0 zebras-0", "orders-1 users-0"]


def test_a_topic_without_room_in_the_task_configurations_does_not_hold_up_others(
    running, caplog, monkeypatch
):
    """One request of a client of the source makes a topic of thousands of partitions."""
    running.start(sync_topic_configs_enabled="false")
    assert running.tasks() == ["orders-0", "orders-1"]
    size = max(len(json.dumps(each)) for each in running.connector.task_configs(2))
    monkeypatch.setattr(task_assignment, "TASK_CONFIG_BYTES_MAX", size + 100)
    running.source.create("huge", partitions=60)
    running.source.create("users")
    assert running.reconfigured(1)
    assert running.tasks() == ["orders-0 users-0", "orders-1"]
    shown = running.shown()
    assert shown is not None
    assert (len(shown.findings), shown.copyable) == (60, 3)
    assert "topic-refused" in shown.findings[0].reason
    assert "Increase tasks.max, or exclude the topic" in caplog.text
    assert running.stays_quiet()


def test_two_topics_of_one_mirror_are_told_and_neither_is_copied(running, caplog):
    running.source.create("ORDERS")
    running.start(replication_policy_class=f"{__name__}.Shouting")
    assert running.tasks() == []
    assert "topics ORDERS and orders would all be mirrored to ORDERS on B" in caplog.text


def test_a_topic_whose_mirror_would_be_the_checkpoints_topic_is_reported_and_not_copied(
    running, caplog
):
    running.source.create("checkpoints.internal")
    running.start()
    assert running.tasks() == ["orders-0", "orders-1"]
    said = (
        "topic checkpoints.internal of A is not mirrored: its mirror would be "
        "A.checkpoints.internal"
    )
    assert system_clock.wait_until(lambda: said in caplog.text, timeout_s=WAIT_S)
    assert running.stays_quiet()
    assert caplog.text.count(said) == 1
    assert "A.checkpoints.internal" not in running.target.topics


class Shouting(DefaultReplicationPolicy):
    """A policy of a user's own."""

    def format_remote_topic(self, source_alias, topic):
        return topic.upper()


# Where what comes later starts


LATEST = {"start": "latest"}


def test_what_comes_after_the_beginning_starts_at_its_first_record(running):
    running.start(**LATEST)
    assert running.tasks() == ["orders-0", "orders-1"]
    running.source.create("users")
    running.source.topics["orders"].partitions = 3
    assert running.reconfigured(1)
    assert running.tasks() == ["orders-0 orders-2*", "orders-1 users-0*"]
    published = running.context.published
    running.connector.stop()
    running.again(published=published)
    running.source.create("carts")
    running.start(**LATEST)
    assert running.tasks() == ["carts-0* orders-0 orders-2*", "orders-1 users-0*"]


def test_a_topic_that_gets_room_later_starts_at_its_first_record(running, monkeypatch):
    """Where it was left out since the flow's start, its records are not skipped."""
    room = task_assignment.TASK_CONFIG_BYTES_MAX
    running.source.create("huge", partitions=60)
    monkeypatch.setattr(task_assignment, "TASK_CONFIG_BYTES_MAX", 0)
    running.start(**LATEST)
    assert running.tasks() == []
    monkeypatch.setattr(task_assignment, "TASK_CONFIG_BYTES_MAX", room)
    assert running.reconfigured(1)
    (tasks,) = running.tasks(1)
    assert set(tasks.split()) >= {"huge-0*", "huge-59*", "orders-0*"}


def test_what_another_configuration_wants_starts_as_it_says(running):
    """`topics` names more from now on: that begins anew, as the flow did."""
    running.source.create("users")
    running.start(topics="orders", **LATEST)
    assert running.tasks() == ["orders-0", "orders-1"]
    published = running.context.published
    running.connector.stop()
    running.again(published=published)
    running.start(topics="orders,users", **LATEST)
    assert running.tasks() == ["orders-0 users-0", "orders-1"]


@pytest.mark.parametrize("topics", ["${env:TOPICS}", "(["])
def test_where_the_old_configuration_cannot_be_read_all_that_is_new_starts_at_its_first_record(
    running, topics
):
    running.source.create("users")
    given = {**PROPS, "topics": topics, "task.assigned.partitions": "orders-0,orders-1"}
    running.again(published=[given])
    running.start(**LATEST)
    assert running.tasks() == ["orders-0 orders-1", "users-0*"]


# A cluster that does not respond


def test_before_topics_are_known_there_is_no_answer(running, caplog):
    running.source.failures["describe_topics", "orders"] = AWAY
    running.clusters.create_source_admin = _away_at_first(running.clusters)
    running.start()
    with pytest.raises(RetriableError, match="copies: the topics of A have not been listed"):
        running.connector.task_configs(1)
    assert "refreshing topics: list_topics: nobody answers; retrying" in caplog.text
    shown = running.shown()
    assert shown is not None
    assert (shown.is_planned, shown.reason) == (False, "list_topics: nobody answers")
    running.source.failures.clear()
    assert running.reconfigured(1)
    assert running.tasks() == ["orders-0", "orders-1"]
    shown = running.shown()
    assert shown is not None
    assert shown.is_planned


def _away_at_first(clusters):
    made = type(clusters).create_source_admin(clusters)
    listing, failures = made.list_topics, [None]

    def list_topics(timeout_s):
        if failures:
            failures.pop()
            raise UnreachableError("list_topics: nobody answers")
        return listing(timeout_s)

    made.list_topics = list_topics
    return lambda: made


def test_who_is_told_to_stop_while_it_starts_does_not_wait(running):
    running.target.away = True
    running.context.stopping = True
    running.start()
    assert running.context.waited_s <= 2.0


def test_a_broken_thread_fails_the_connector(running):
    running.start()
    running.source.failures["describe_topics", "orders"] = AWAY
    running.connector._refresh_thread._refresher.refresh_topics = lambda *_, **__: 1 // 0
    assert system_clock.wait_until(lambda: bool(running.context.errors), timeout_s=WAIT_S)
    assert isinstance(running.context.errors.pop(), ZeroDivisionError)


def test_who_was_stopped_starts_again(running):
    """As workers do with the same instance when a connector is resumed."""
    running.start()
    assert running.tasks() == ["orders-0", "orders-1"]
    running.connector.stop()
    assert running.connector.task_configs(2) == []
    running.source.create("users")
    running.start()
    assert running.tasks() == ["orders-0 users-0", "orders-1"]
    running.source.create("carts")
    assert running.reconfigured(1)


def test_what_is_mirrored_is_logged_and_not_again_when_it_starts_again(
    running, caplog, monkeypatch
):
    monkeypatch.setattr(source_connector, "_LOGGED_TOPIC_COUNTS", {})
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            running.start()
            running.connector.stop()
    assert caplog.text.count("A->B: 2 partitions of 1 topic are mirrored") == 1


# Its configuration


@pytest.mark.parametrize(
    ("isolation", "expected"),
    [("read_committed", "SUPPORTED"), ("read_uncommitted", "UNSUPPORTED"), ("", "UNSUPPORTED")],
)
def test_exactly_once_is_answered_as_by_java(running, isolation, expected):
    props = {**PROPS, "consumer.isolation.level": isolation}
    found = running.connector.exactly_once_support(props)
    assert found is ExactlyOnceSupport[expected]


def test_java_s_mistakes_are_found(running):
    wrong = {"emit.offset-syncs.enabled": "false", "exactly.once.support": "required"}
    found = running.connector.validate({**PROPS, **wrong})
    assert {each.name for each in found if each.error_messages} == set(wrong)
    assert "sync.topic.acls.enabled" in running.connector.config().keys


def test_keys_that_act_on_nothing_are_told_and_no_others(running, caplog):
    running.start(errors_tolerance="all", topicz="orders", throttle="1MB", mm2_engine="inline")
    told = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert told == [
        "errors.tolerance has no effect: mm2 copies whole batches without converting records",
        "topicz has no effect: unknown key",
    ]


def test_offsets_are_altered_in_their_form(running):
    place = {"cluster": "A", "topic": "orders", "partition": 0}
    alter = running.connector.alter_offsets
    assert alter(PROPS, [])
    assert alter(PROPS, [SourceOffset({"x": 1}, None)])
    assert running.clusters.made == []
    with pytest.raises(ConnectError, match="must be an integer"):
        alter(PROPS, [SourceOffset(place, {"offset": "7"})])


def test_partitions_that_we_have_copied_begin_anew_where_offsets_are_altered_to(running):
    log = running.target.create("mm2-offset-map.A.internal", cleanup_policy="compact").log
    for number in range(3):
        key = EraKey(topic="orders", partition=number, era=1, ordinal=1, epoch=0)
        era = Era(
            source_cluster="s",
            target_cluster="t",
            source_topic_id=bytes(16),
            target_topic_id=bytes(16),
            first_source=0,
            first_target=0,
        )
        log.append(
            (offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(era))
        )

    def place(number: int, **more: Any) -> dict[str, Any]:
        return {"cluster": "A", "topic": "orders", "partition": number, **more}

    altered = [
        SourceOffset(place(0), {"offset": 7}),
        SourceOffset(place(1), None),
        SourceOffset(place(2, cluster="elsewhere"), None),
        SourceOffset(place(9), {"offset": 7}),
        SourceOffset({"x": 1}, None),
        SourceOffset(None, None),
    ]
    assert running.connector.alter_offsets({**PROPS, "start": "latest"}, altered)
    known = OffsetMap()
    for key, value in log:
        known.apply_record(key, value)
    asked = {
        number: request and request.position
        for number in (0, 1, 2, 9)
        for request in [known.get_partition(TopicPartition("orders", number)).request]
    }
    assert asked == {0: "offset:8", 1: "latest", 2: None, 9: None}


def test_a_target_that_does_not_answer_refuses_altered_offsets(running):
    running.target.away = True
    place = {"cluster": "A", "topic": "orders", "partition": 0}
    with pytest.raises(errors.RetriableError, match="nobody answers"):
        running.connector.alter_offsets(PROPS, [SourceOffset(place, None)])


# Loads


class Ahead(SystemClock):
    """A hundred seconds pass in one."""

    def now_s(self) -> float:
        return super().now_s() * 100.0


def _carries(place: SnapshotPublisher[TaskSnapshot], number: int, **counts: int) -> None:
    """`p3=7`: partition 3 of `orders` has moved 7 bytes."""
    shown = []
    for key, count in counts.items():
        name = TopicPartition("orders", int(key[1:]))
        nothing = PartitionFinding(partition=name, cause="", message="")
        status = task_status_builder.build_finding_status(nothing, task=number)
        shown.append(dataclasses.replace(status, bytes=count))
    running = TaskStatus(index=number, state=TaskState.RUNNING, reason="", restarts=0)
    place.publish(TaskSnapshot(status=running, partitions=tuple(shown)))


def test_a_task_that_carries_too_much_for_long_gives_something_away(running):
    running.source.topics["orders"].partitions = 6
    given = [{"task.assigned.partitions": "orders-0,orders-1,orders-2"}]
    given += [{"task.assigned.partitions": f"orders-{number}"} for number in (3, 4, 5)]
    running.again(published=given)
    running.context.clock = Ahead()
    running.start(
        tasks_max="4",
        sync_topic_configs_enabled="false",
        sync_topic_acls_enabled="false",
    )
    places = [status_registry.REGISTRY.create_task_publisher(FLOW, number) for number in range(4)]
    count = 0

    def asked() -> bool:
        nonlocal count
        count += 1000
        _carries(places[0], 0, p0=count, p1=count, p2=count)
        for number in (1, 2, 3):
            _carries(places[number], number, **{f"p{number + 2}": count // 10})
        return bool(running.context.reconfigurations)

    try:
        assert system_clock.wait_until(asked, timeout_s=WAIT_S, interval_s=0.05)
        evened = ["orders-2", "orders-0 orders-3", "orders-1 orders-4", "orders-5"]
        assert running.tasks(4) == evened
        assert running.tasks(4) == evened, "what was published stands"
    finally:
        for each in places:
            each.remove()
