"""MirrorCheckpointConnector. Java: MirrorCheckpointConnectorTest."""

from __future__ import annotations

import pytest

from connect_runtime.api.errors import ConnectError, RetriableError
from connect_runtime.api.records import SourceOffset
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
from connect_runtime.worker import plugin_instantiation
from mm2.connectors.checkpoint_connector import MirrorCheckpointConnector
from mm2.offsets import group_selection
from tests.fakes.checkpoint_clients import FakeClusters
from tests.fakes.groups import FakeGroup
from tests.fakes.plugin_contexts import Context

JAVA = "org.apache.kafka.connect.mirror.MirrorCheckpoint"
PROPS = {
    "name": "points",
    "connector.class": f"{JAVA}Connector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "checkpoints.topic.replication.factor": "1",
    "refresh.groups.interval.seconds": "1",
}
T0 = TopicPartition("orders", 0)
AWAY = UnreachableError("listing: nobody answers")
WAIT_S = 30.0


class Running:
    """A connector over two clusters in memory."""

    def __init__(self) -> None:
        self.clusters = FakeClusters()
        self.connector = MirrorCheckpointConnector(self.clusters)
        self.context = Context()
        self.connector.initialize(self.context)

    def start(self, **more):
        named = {name.replace("_", "."): value for name, value in more.items()}
        self.connector.start({**PROPS, **named})
        return self.connector

    def assigned(self, max_tasks: int = 10) -> list[str]:
        configs = self.connector.task_configs(max_tasks)
        assert [each["task.index"] for each in configs] == [str(n) for n in range(len(configs))]
        return [each["task.assigned.groups"] for each in configs]

    def reconfigured(self, times: int) -> bool:
        return system_clock.wait_until(
            lambda: self.context.reconfigurations >= times, timeout_s=WAIT_S
        )


@pytest.fixture
def running():
    made = Running()
    yield made
    made.connector.stop()
    assert made.clusters.all_closed()
    assert made.context.errors == []


@pytest.mark.parametrize(
    "name", [f"{JAVA}Connector", "MirrorCheckpointConnector", "MirrorCheckpoint"]
)
def test_workers_know_it_by_javas_names(name):
    installed = plugin_discovery.discover_plugins()
    found = installed.find_plugin_class(name, Kind.SOURCE)
    assert found is MirrorCheckpointConnector
    assert plugin_instantiation.get_task_class_name(found(), installed) == f"{JAVA}Task"
    assert found().version() == "4.3.1"


def test_groups_that_have_offsets_of_the_flows_topics_are_followed(running):
    source = running.clusters.source
    for group in ("a", "b", "c", "not-this"):
        source.commit(group, {T0: 1})
    source.commit("other", {TopicPartition("other", 0): 1})
    source.commit("nowhere", {T0: None})
    source.groups["workers"] = FakeGroup(protocol="connect")
    running.start(topics="ord.*", groups_exclude="not-.*", mine="7")
    assert running.assigned() == ["a", "b", "c"]
    assert running.assigned(2) in (["a", "b,c"], ["a,c", "b"])
    (first, *_) = running.connector.task_configs(1)
    expected = {"task.assigned.groups": "a,b,c", "task.index": "0", "mine": "7"}
    assert first.items() >= {**PROPS, **expected}.items()


def test_the_checkpoints_topic_is_made_compacted(running):
    running.start()
    found = running.clusters.target_topics.topics["A.checkpoints.internal"]
    assert found.partitions == 1
    assert found.overrides == {"cleanup.policy": "compact"}


def test_no_groups_no_tasks(running):
    running.start()
    assert running.assigned() == []


@pytest.mark.parametrize(
    "off",
    [
        {"enabled": "false"},
        {"emit_checkpoints_enabled": "false"},
        {"emit_checkpoints_interval_seconds": "-1"},
    ],
)
def test_what_is_switched_off_asks_nobody(running, off):
    running.clusters.source.commit("a", {T0: 1})
    running.start(**off)
    assert running.assigned() == []
    assert running.clusters.made == []


def test_groups_that_come_and_go_have_the_tasks_told(running):
    source = running.clusters.source
    source.commit("a", {T0: 1})
    source.commit("b", {T0: 1})
    running.start()
    assert running.assigned(2) == ["a", "b"]
    assert running.context.reconfigurations == 0
    source.commit("c", {T0: 1})
    assert running.reconfigured(1)
    assert running.assigned(2) == ["a,c", "b"]
    del source.groups["a"]
    assert running.reconfigured(2)
    assert running.assigned(2) == ["c", "b"]
    assert not system_clock.wait_until(lambda: running.context.reconfigurations > 2, timeout_s=1.5)


def test_who_was_stopped_starts_again(running):
    """As workers do with the same instance when a connector is resumed."""
    running.clusters.source.commit("a", {T0: 1})
    running.start()
    running.connector.stop()
    running.start()
    assert not running.clusters.gone()
    running.clusters.source.commit("b", {T0: 1})
    assert running.reconfigured(1)
    assert running.assigned() == ["a", "b"]


def test_groups_are_not_looked_for_again_where_that_is_off(running):
    running.start(refresh_groups_enabled="false")
    running.clusters.source.commit("c", {T0: 1})
    assert not system_clock.wait_until(lambda: running.context.reconfigurations > 0, timeout_s=1.5)


def test_before_groups_are_known_there_is_no_answer(running, caplog):
    running.clusters.source.failure = AWAY
    running.start()
    with pytest.raises(
        RetriableError, match="points: the consumer groups of A have not been listed"
    ):
        running.connector.task_configs(1)
    assert "listing consumer groups: listing: nobody answers; retrying" in caplog.text
    running.clusters.source.commit("a", {T0: 1})
    running.clusters.source.failure = None
    assert running.reconfigured(1)
    assert running.assigned() == ["a"]


def test_a_source_that_goes_away_takes_no_group_with_it(running, caplog):
    source = running.clusters.source
    for group in ("a", "b"):
        source.commit(group, {T0: 1})
    running.start()
    source.failures["positions", "b"] = NotAuthorizedError("not allowed")
    assert system_clock.wait_until(
        lambda: "b cannot be replicated" in caplog.text, timeout_s=WAIT_S
    )
    source.failure = AWAY
    assert system_clock.wait_until(
        lambda: "keeping the known groups" in caplog.text, timeout_s=WAIT_S
    )
    assert running.assigned() == ["a", "b"]
    assert running.context.reconfigurations == 0
    assert caplog.text.count("cannot be replicated") == 1


def test_a_name_that_no_list_holds_is_told(running, caplog):
    running.clusters.source.commit("a,b", {T0: 1})
    running.start()
    assert running.assigned() == []
    assert "group a,b is not replicated" in caplog.text


def test_who_is_refused_by_the_source_fails_at_start(running):
    running.clusters.source.failure = AuthenticationError("wrong password")
    with pytest.raises(FatalError, match="wrong password"):
        running.start()


def test_a_topic_that_the_target_refuses_fails_the_start(running):
    with pytest.raises(FatalError, match=r"checkpoints\.topic\.replication\.factor is 3"):
        running.start(checkpoints_topic_replication_factor="3")


def test_offsets_are_altered_in_their_one_form(running):
    place = {"group": "g", "topic": "A.orders", "partition": 0}
    alter = running.connector.alter_offsets
    assert alter(PROPS, [SourceOffset(place, {"offset": 0})])
    assert alter(PROPS, [SourceOffset({"x": 1}, None)])
    with pytest.raises(ConnectError, match="the only accepted value is 0"):
        alter(PROPS, [SourceOffset(place, {"offset": 1})])


def test_java_s_mistakes_are_found(running):
    found = running.connector.validate({**PROPS, "emit.checkpoints.enabled": "false"})
    wrong = {each.name: each.error_messages for each in found if each.error_messages}
    assert list(wrong) == ["emit.checkpoints.enabled"]
    assert "emit.checkpoints.enabled" in running.connector.config().keys


def test_a_name_that_takes_too_long_to_match_is_told_and_the_others_are_followed(running, caplog):
    long = "x" * 2_000
    for group in (long, "a"):
        running.clusters.source.commit(group, {T0: 1})
    running.start(groups="(?:(?>.*a.*b)|x)*(?:a+)+|a")
    assert running.assigned() == ["a"]
    assert f"group {'x' * 80} is not replicated: groups: matching the regular" in caplog.text


def test_groups_beyond_the_limit_are_logged_once(running, caplog, monkeypatch):
    monkeypatch.setattr(group_selection, "GROUPS_MAX", 2)
    for group in ("a", "b", "c", "dd"):
        running.clusters.source.commit(group, {T0: 1})
    running.start(refresh_groups_interval_seconds="1")
    assert running.assigned(1) == ["a,b"]
    running.clusters.source.commit("e", {T0: 1})
    assert system_clock.wait_until(lambda: "3 groups are" in caplog.text, timeout_s=WAIT_S)
    (line, _) = [each.getMessage() for each in caplog.records if "at most" in each.getMessage()]
    assert line.startswith("2 groups are not replicated, because a flow replicates at most 2 ")
    assert "groups.exclude; among them c" in line
