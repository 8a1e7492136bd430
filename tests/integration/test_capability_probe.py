"""What a probe finds on real brokers: old, new, and one that denies the transactional id."""

from __future__ import annotations

import json
import random

import pytest
from confluent_kafka import admin as kafka_admin

from connect_runtime.network.connection_settings import ConnectionSettings
from connect_runtime.system.system_clock import SystemClock
from mm2.copier.cluster_capability_probe import ClusterProbe
from mm2.replication import cluster_capabilities
from mm2.replication.cluster_capabilities import (
    CapabilityCheck,
    CheckOutcome,
    ClusterRole,
    DeliveryGuarantee,
)
from tests.support import kafka, mirror, wire

pytestmark = pytest.mark.integration

PREFIX = "mm2-a->b-"


def probe(alias, properties):
    options = ConnectionSettings(
        bootstrap=tuple(properties["bootstrap.servers"].split(",")),
        security=wire.security_of(properties),
        client_id="probe-test",
    )
    return ClusterProbe(alias, options, clock=SystemClock(), random=random.Random())


def observe(properties, topic):
    kafka.create_topic(properties, topic)
    return probe("b", properties).probe_target(topic, transactional_prefix=PREFIX)


def outcomes(observed):
    return {check.name: observed.get_check_result(check) for check in CapabilityCheck}


def test_everything_holds_on_the_newest(east, topic):
    observed = observe(east.client_properties(), topic())
    source = probe("a", east.client_properties()).probe_source()

    assert set(observed.checks.values()) == {cluster_capabilities.CHECK_HOLDS}, outcomes(observed)
    assert observed.has_topic_ids is True
    assert source.api_versions == {"metadata": 13, "fetch": 17, "list_offsets": 11}
    verdict = cluster_capabilities.assess_delivery(source, observed, transactional_prefix=PREFIX)
    assert (str(verdict), verdict.reasons, verdict.notes) == ("exactly once", (), ())


@pytest.mark.full
@pytest.mark.kafka_versions("2.8", "3.9")
@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_everything_holds_on_old_brokers(own_cluster, topic, version):
    old = own_cluster(kafka_version=version).client_properties()
    observed = observe(old, topic())

    assert set(observed.checks.values()) == {cluster_capabilities.CHECK_HOLDS}, outcomes(observed)
    expected = {"2.8": 12, "3.9": 17}
    assert observed.api_versions["fetch"] == expected[version]
    assert not observed.list_missing_apis(ClusterRole.TARGET)


@pytest.mark.kafka_versions("2.8")
@pytest.mark.parametrize("version", ["4.3", pytest.param("2.8", marks=pytest.mark.full)])
def test_a_cluster_that_denies_the_transactional_id_is_copied_to_at_least_once(
    own_cluster, topic, version
):
    fort = own_cluster(kafka_version=version, users=["alice"])
    name = kafka.create_topic(fort.client_properties(), topic())
    allow(fort.client_properties(), name)
    alice = probe("b", fort.client_properties("alice"))

    observed = alice.probe_target(name, transactional_prefix=PREFIX)
    verdict = cluster_capabilities.assess_delivery(
        alice.probe_source(name), observed, transactional_prefix=PREFIX
    )

    answer = observed.get_check_result(CapabilityCheck.TRANSACTIONAL_ID)
    assert answer.outcome is CheckOutcome.DENIED, outcomes(observed)
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in answer.detail
    assert observed.get_check_result(CapabilityCheck.OFFSET) == cluster_capabilities.CHECK_HOLDS
    assert observed.get_check_result(CapabilityCheck.SEQUENCE) == cluster_capabilities.CHECK_HOLDS
    assert observed.get_check_result(CapabilityCheck.FENCE) == cluster_capabilities.CHECK_NOT_TRIED
    assert verdict.guarantee is DeliveryGuarantee.AT_LEAST_ONCE
    assert not verdict.is_fenced
    assert f"transactional ids with the prefix {PREFIX}" in verdict.reasons[0]


def allow(properties, name):
    rules = [
        kafka_admin.AclBinding(
            kafka_admin.ResourceType.TOPIC,
            name,
            kafka_admin.ResourcePatternType.LITERAL,
            "User:alice",
            "*",
            operation,
            kafka_admin.AclPermissionType.ALLOW,
        )
        for operation in (
            kafka_admin.AclOperation.READ,
            kafka_admin.AclOperation.WRITE,
            kafka_admin.AclOperation.DESCRIBE,
        )
    ]
    kafka.create_acls(properties, rules)


@pytest.mark.system
def test_the_command_says_what_every_flow_will_do(tmp_path, east, west):
    given = mirror.settings(east.client_properties(), west.client_properties())
    file = tmp_path / "clusters.yaml"
    file.write_text(json.dumps(given))

    told = mirror.mm2("probe", file)
    as_json = mirror.mm2("probe", file, "--flow", "east->west", "--json")

    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines()[0] == "east->west: exactly once"
    assert "   holds: an older producer epoch is rejected" in told.stdout
    (flow,) = json.loads(as_json.stdout)["flows"]
    assert (flow["delivery"], flow["proven"]) == ("exactly once", True)
    assert flow["checks"]["fence"]["outcome"] == "holds"
