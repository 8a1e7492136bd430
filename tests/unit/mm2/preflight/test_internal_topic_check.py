"""Which topics a flow keeps for itself, out of a file."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from mm2.config import config_loader, effective_config, flow_connector_configs
from mm2.preflight import internal_topic_check
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity
from mm2.preflight.internal_topic_check import (
    ExpectedInternalTopic,
    FlowConnectorConfigs,
    InternalTopicAccess,
    ObservedInternalTopic,
    ReplicationFactorCauses,
)
from mm2.preflight.required_acls import FlowClient
from mm2.suggested_commands import ClusterCommands

Client, Weight = FlowClient, CheckSeverity
BASE = """clusters=a,b
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
a->b.enabled=true
"""


def read(*lines: str, flow: int = 0) -> tuple[FlowConnectorConfigs, dict[str, InternalTopicAccess]]:
    settings = config_loader.parse_mm2_properties(
        BASE + "\n".join(lines), file="mm2", folder=pathlib.Path("/"), environment={}
    )
    plan = flow_connector_configs.plan_flows(
        settings, flow_connector_configs.ALL_FLOWS, environment={}
    )[flow]
    config = internal_topic_check.parse_connector_configs(settings, plan)
    return config, {
        each.expected.name: each for each in internal_topic_check.list_internal_topics(plan, config)
    }


def test_all_topics_of_a_flow_are_known_with_who_makes_and_who_uses_them():
    _, found = read()
    assert {name: (each.creator, each.user) for name, each in found.items()} == {
        "mm2-configs.a.internal": (Client.WORKER, Client.WORKER),
        "mm2-offsets.a.internal": (Client.WORKER, Client.WORKER),
        "mm2-status.a.internal": (Client.WORKER, Client.WORKER),
        "mm2-offset-map.a.internal": (Client.TARGET_ADMIN, Client.PRODUCER),
        "mm2-incidents.a.internal": (Client.TARGET_ADMIN, Client.PRODUCER),
        "mm2-offset-syncs.b.internal": (Client.SOURCE_ADMIN, Client.SOURCE_ADMIN),
        "a.checkpoints.internal": (Client.TARGET_ADMIN, Client.WORKER),
        "heartbeats": (Client.TARGET_ADMIN, Client.WORKER),
    }
    assert {each.expected.name for each in found.values() if each.is_on_source} == {
        "mm2-offset-syncs.b.internal"
    }


def test_a_flow_for_heartbeats_alone_keeps_them_and_what_its_worker_needs():
    _, found = read(flow=1)
    assert set(found) == {
        *("mm2-configs.b.internal", "mm2-offsets.b.internal", "mm2-status.b.internal"),
        "heartbeats",
    }


def test_heartbeats_that_nobody_writes_are_made_all_the_same():
    _, found = read("emit.heartbeats.enabled=false")
    assert not found["heartbeats"].is_written
    _, found = read()
    assert found["heartbeats"].is_written


def test_what_comes_of_missing_rights_is_told_of_each():
    _, found = read()
    syncs, checkpoints = found["mm2-offset-syncs.b.internal"], found["a.checkpoints.internal"]
    assert (syncs.required_acls.severity, checkpoints.required_acls.severity) == (
        Weight.WARNING,
        Weight.FAILED,
    )
    assert "no checkpoints" in checkpoints.required_acls.effect
    assert "does not start" in found["mm2-configs.a.internal"].required_acls.effect


def test_partitions_and_factors_are_as_the_file_says():
    _, found = read("a->b.replication.factor=2", "status.storage.replication.factor=1")
    status = found["mm2-status.a.internal"].expected
    assert (status.partitions, status.replication_factor) == (None, 1)
    assert status.factor_key == "status.storage.replication.factor"
    assert found["mm2-configs.a.internal"].expected.partitions == 1
    kept = found["mm2-offset-map.a.internal"].expected
    assert (kept.partitions, kept.replication_factor, kept.is_required) == (1, 2, True)
    assert not found["heartbeats"].expected.is_required


def test_offset_syncs_are_where_the_file_says_or_nowhere():
    _, found = read("a->b.offset-syncs.topic.location=target")
    assert found["mm2-offset-syncs.a.internal"].creator is Client.TARGET_ADMIN
    _, found = read("a->b.emit.offset-syncs.enabled=false", "a->b.emit.checkpoints.enabled=false")
    assert not [name for name in found if "syncs" in name or "checkpoints" in name]


def test_what_a_flow_back_keeps_is_read_only_where_names_are_kept():
    config, _ = read()
    assert internal_topic_check.list_reverse_flow_topics(config.source.flow) == ()
    policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    config, _ = read(f"replication.policy.class={policy}")
    assert {
        (each.client, each.name)
        for each in internal_topic_check.list_reverse_flow_topics(config.source.flow)
    } == {
        (Client.CONSUMER, "mm2-offset-map.b.internal"),
        (Client.TARGET_ADMIN, "mm2-offset-syncs.a.internal"),
    }


def test_where_replication_factors_come_from():
    text = BASE + "replication.factor=3\nb.status.storage.replication.factor=2\n"
    settings = config_loader.parse_mm2_properties(
        text, file="/etc/mm2.properties", folder=pathlib.Path("/"), environment={}
    )
    flow = effective_config.derive_effective_config(settings, environment={}).flows["a->b"]
    causes = ReplicationFactorCauses(flow, file=settings.file, target="b")
    found = causes.find_cause("replication.factor")
    assert (found.key, found.place) == (
        "replication.factor",
        "replication.factor (mm2.properties:5)",
    )
    found = causes.find_cause("status.storage.replication.factor")
    assert found.place == "b.status.storage.replication.factor (mm2.properties:6)"
    found = causes.find_cause("config.storage.replication.factor")
    assert (found.place, found.is_given) == ("b.config.storage.replication.factor", False)
    found = causes.find_cause("checkpoints.topic.replication.factor")
    assert (found.place, found.is_given) == ("checkpoints.topic.replication.factor", False)


TOOL = ClusterCommands(bootstrap="b:1")
TOPIC = ExpectedInternalTopic(
    name="mm2-offset-map.east.internal",
    content="places",
    partitions=1,
    replication_factor=3,
    factor_key="replication.factor",
)


def judge(
    partitions: int, policy: str | None, topic: ExpectedInternalTopic = TOPIC
) -> list[CheckFinding]:
    seen = ObservedInternalTopic(partitions=partitions, cleanup_policy=policy)
    return list(internal_topic_check.check_internal_topic("east->west", topic, seen, tool=TOOL))


@pytest.mark.parametrize("policy", ["compact", " compact ", None])
def test_a_topic_as_it_is_wanted_is_fine(policy):
    assert judge(1, policy) == []


def test_any_number_will_do_where_none_is_wanted():
    assert judge(25, "compact", dataclasses.replace(TOPIC, partitions=None)) == []


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_forgets_by_age_is_told_with_the_command_that_mends_it(policy):
    (found,) = judge(1, policy)
    assert (found.area, found.severity, found.code) == (
        CheckArea.TOPICS,
        CheckSeverity.FAILED,
        "state-topic-cleanup",
    )
    assert f"cleanup.policy={policy}" in found.text
    assert found.command == (
        "kafka-configs.sh --bootstrap-server b:1 --alter --entity-type topics --entity-name "
        "mm2-offset-map.east.internal --add-config cleanup.policy=compact"
    )


def test_too_many_partitions_are_told():
    (found,) = judge(2, "compact")
    assert (found.code, found.severity) == ("state-topic-partitions", CheckSeverity.FAILED)
    assert "--delete" in found.command


def test_a_topic_that_is_used_as_it_is_gets_a_warning():
    found = judge(2, "delete", dataclasses.replace(TOPIC, is_required=False))
    assert [each.severity for each in found] == [CheckSeverity.WARNING] * 2
    assert not any("does not begin" in each.effect for each in found)


def test_what_the_cluster_would_not_create_is_one_finding_for_one_reason():
    (found,) = internal_topic_check.report_refused_topics(
        "east->west", {"mm2-configs": "POLICY_VIOLATION"}
    )
    assert (found.code, found.severity) == ("state-topic-refused", CheckSeverity.FAILED)
    assert found.text == "the cluster refuses to create mm2-configs: POLICY_VIOLATION"
    names = ("mm2-configs", "mm2-status")
    alike = {name: f"creating topic {name}: POLICY_VIOLATION" for name in names}
    first, other = internal_topic_check.report_refused_topics(
        "east->west", {**alike, "z": "creating topic z: odd"}
    )
    assert first.text == (
        "the cluster refuses to create 2 internal topics: creating it: POLICY_VIOLATION"
    )
    assert first.affects == names
    assert other.affects == ()
