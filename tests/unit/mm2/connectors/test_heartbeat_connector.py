"""MirrorHeartbeatConnector. Java: MirrorHeartBeatConnectorTest."""

from __future__ import annotations

import pytest

from connect_runtime.api.errors import ConnectError
from connect_runtime.api.records import SourceOffset
from connect_runtime.base.errors import FatalError
from connect_runtime.plugins import plugin_discovery
from connect_runtime.plugins.plugin_aliases import Kind
from connect_runtime.worker import plugin_instantiation
from mm2.connectors.heartbeat_connector import MirrorHeartbeatConnector, MirrorHeartbeatTask
from tests.fakes.admin import FakeAdmin, FakeCluster
from tests.fakes.plugin_contexts import Context

JAVA = "org.apache.kafka.connect.mirror.MirrorHeartbeat"
PROPS = {
    "name": "beats",
    "connector.class": f"{JAVA}Connector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "target.cluster.bootstrap.servers": "b:1",
    "heartbeats.topic.replication.factor": "1",
}
PLACE = {"sourceClusterAlias": "A", "targetClusterAlias": "B"}


class Running:
    """A connector over a cluster in memory."""

    def __init__(self, cluster=None):
        self.cluster = cluster or FakeCluster()
        self.admin = FakeAdmin(self.cluster)
        self.made: list[tuple[str, str, str]] = []
        self.connector = MirrorHeartbeatConnector(self._make)
        self.context = Context()
        self.connector.initialize(self.context)

    def _make(self, common, role, *, use, clock):
        self.made.append((common.source, role.side, use))
        return self.admin

    def start(self, **more):
        named = {name.replace("_", "."): value for name, value in more.items()}
        self.connector.start({**PROPS, **named})
        return self.connector


@pytest.mark.parametrize(
    "name", [f"{JAVA}Connector", "MirrorHeartbeatConnector", "MirrorHeartbeat"]
)
def test_workers_know_it_by_javas_names(name):
    installed = plugin_discovery.discover_plugins()
    found = installed.find_plugin_class(name, Kind.SOURCE)
    assert found is MirrorHeartbeatConnector
    assert plugin_instantiation.get_task_class_name(found(), installed) == f"{JAVA}Task"


def test_one_task_with_all_that_is_configured():
    connector = Running().start(mine="7")
    assert connector.task_configs(8) == [{**PROPS, "mine": "7"}]
    assert connector.task_class() is MirrorHeartbeatTask


def test_no_task_where_none_are_written():
    assert Running().start(emit_heartbeats_enabled="false").task_configs(1) == []


def test_one_task_where_nothing_is_mirrored():
    """testReplicationDisabled."""
    assert len(Running().start(enabled="false").task_configs(1)) == 1


def test_its_topic_is_made_on_the_target_and_the_client_let_go():
    running = Running()
    connector = running.start()
    assert running.made == [("A", "target", "heartbeats-target-admin")]
    assert running.cluster.topics["heartbeats"].partitions == 1
    connector.stop()
    assert running.admin.calls == ["create_topics", "close"]
    connector.stop()


def test_the_default_factor_is_javas_and_told_where_it_cannot_be():
    running = Running()
    props = {name: value for name, value in PROPS.items() if "factor" not in name}
    with pytest.raises(FatalError, match=r"replication\.factor is 3"):
        running.connector.start(props)
    running.connector.stop()
    assert running.admin.calls[-1] == "close"


def test_a_stop_ends_the_waiting_for_the_target():
    running = Running(FakeCluster(away=True))
    running.context.stopping = True
    running.start()
    assert running.admin.calls == ["create_topics"]


def test_what_cannot_be_meant_is_told_by_key():
    connector = MirrorHeartbeatConnector()
    given = {**PROPS, "emit.heartbeats.interval.seconds": "often", "admin.timeout.ms": "x"}
    told = {each.name for each in connector.validate(given) if each.error_messages}
    assert told == {"emit.heartbeats.interval.seconds", "admin.timeout.ms"}
    wrapped = {**PROPS, "value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    told = {each.name for each in connector.validate(wrapped) if each.error_messages}
    assert told == {"value.converter"}, "Java would write what no client of its reads"
    assert not any(each.error_messages for each in connector.validate(PROPS))


def test_every_key_of_javas_is_known():
    keys = MirrorHeartbeatConnector().config().keys
    assert {name for name in keys if "heartbeats" in name} == {
        "emit.heartbeats.enabled",
        "emit.heartbeats.interval.seconds",
        "heartbeats.topic.replication.factor",
    }


@pytest.mark.parametrize(
    ("partition", "offset"),
    [(PLACE, {"offset": 0}), (PLACE, None), (None, None), ({"rubbish": 1}, None)],
)
def test_offsets_of_the_right_form_and_removals_are_taken(partition, offset):
    connector = MirrorHeartbeatConnector()
    assert connector.alter_offsets(PROPS, [SourceOffset(partition, offset)]) is True


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        (None, {"offset": 0}),
        ({"sourceClusterAlias": "A"}, {"offset": 0}),
        ({**PLACE, "targetClusterAlias": 2}, {"offset": 0}),
        (PLACE, {"offset": 1}),
        (PLACE, {"offset": "0"}),
        (PLACE, {"position": 0}),
    ],
)
def test_offsets_that_nobody_wrote_are_refused(partition, offset):
    connector = MirrorHeartbeatConnector()
    with pytest.raises(ConnectError):
        connector.alter_offsets(PROPS, [SourceOffset(partition, offset)])
