"""Whatever the config topic holds, a node connects and loads classes as its own file says."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import pytest

from connect_runtime.api.errors import ConfigError
from mm2.config import config_loader, dedicated_mode, flow_connector_configs
from mm2.config.flow_connector_configs import FlowPlan
from mm2.node.stored_config_resolver import StoredConfigResolver

NAME = flow_connector_configs.SOURCE_CONNECTOR
CHECKPOINTS = flow_connector_configs.CHECKPOINT_CONNECTOR
FILE = """clusters=a,b
config.providers=file,env
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
a.bootstrap.servers=a:1
a.security.protocol=SASL_SSL
a.sasl.mechanism=PLAIN
a.sasl.jaas.config=${file:/FOLDER/secrets:jaas}
b.bootstrap.servers=b:1
a->b.enabled=true
a->b.topics=${env:TOPICS}
a->b.transforms=stamp
a->b.transforms.stamp.type=tests.support.own_classes:Stamp
a->b.transforms.stamp.stamp=ours
a->b.transforms.stamp.predicate=keyed
a->b.predicates=keyed
a->b.predicates.keyed.type=tests.support.own_classes:HasKey
"""
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="u" password="of-the-source";'
)


@pytest.fixture
def plan(tmp_path: pathlib.Path) -> FlowPlan:
    (tmp_path / "secrets").write_text(f"jaas={JAAS}\nother=not-for-them\n")
    environment = {"TOPICS": "x.*", "OTHER": "not-for-them"}
    found = config_loader.parse_mm2_properties(
        FILE.replace("/FOLDER", str(tmp_path)),
        file="mm2",
        folder=tmp_path,
        environment=environment,
    )
    plans = flow_connector_configs.plan_flows(
        found, flow_connector_configs.ALL_FLOWS, environment=environment
    )
    return next(each for each in plans if each.name == "a->b")


def resolved(plan: FlowPlan, **changed: str | None) -> Mapping[str, str | None]:
    found = StoredConfigResolver(plan)({**plan.connectors[NAME], **changed})
    assert not any("not-for-them" in (value or "") for value in found.values())
    return found


@pytest.mark.parametrize("name", dedicated_mode.CONNECTORS)
def test_what_the_plan_says_is_resolved(plan, name):
    found = StoredConfigResolver(plan)(plan.connectors[name])
    assert found["source.cluster.sasl.jaas.config"] == JAAS
    assert found["topics"] == "x.*"


def test_tasks_and_what_operators_set_are_resolved(plan):
    more = {
        "task.assigned.partitions": "x-0",
        "task.class": "x",
        "live.throttle": "1MB",
        "tasks.max": None,
    }
    found = StoredConfigResolver(plan)({**plan.connectors[NAME], **more})
    assert {key: found[key] for key in more} == more


def test_what_a_leader_with_another_file_replicates_is_followed(plan):
    found = StoredConfigResolver(plan)({**plan.connectors[NAME], "topics": "y", "groups": "z"})
    assert (found["topics"], found["groups"]) == ("y", "z")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("source.cluster.bootstrap.servers", "attacker:1"),
        ("source.admin.bootstrap.servers", "attacker:1"),
        ("source.cluster.security.protocol", "SASL_PLAINTEXT"),
        ("source.cluster.security.protocol", None),
        ("source.consumer.ssl.truststore.location", "/etc/passwd"),
        ("target.producer.bootstrap.servers", "attacker:1"),
        ("target.cluster.sasl.jaas.config", "${file:/FOLDER/secrets:other}"),
        ("producer.override.bootstrap.servers", "attacker:1"),
        ("consumer.override.bootstrap.servers", "attacker:1"),
        ("admin.override.bootstrap.servers", "attacker:1"),
        ("consumer.bootstrap.servers", "attacker:1"),
        ("connector.class", "org.apache.kafka.connect.file.FileStreamSourceConnector"),
        ("replication.policy.class", "antigravity.Policy"),
        ("transforms", "theirs"),
        ("transforms", None),
        ("transforms.stamp.type", "tests.support.own_classes:Text"),
        ("transforms.stamp.stamp", "theirs"),
        ("transforms.theirs.type", "tests.support.own_classes:Text"),
        ("predicates", None),
        ("predicates.keyed.type", "tests.support.own_classes:Sometimes"),
        ("topics", "${file:secrets:other}"),
        ("topics", "${env:TOPICS},${env:OTHER}"),
        ("groups", "${env:TOPICS}"),
        ("live.throttle", "${env:OTHER}"),
    ],
)
def test_connections_classes_and_references_are_those_of_the_file(plan, key, value):
    assert resolved(plan, **{key: value}) == resolved(plan)


@pytest.mark.parametrize("name", ["other", None])
def test_connectors_that_are_not_the_flows_are_rejected(plan, name):
    with pytest.raises(ConfigError, match="is not started: the flow a->b runs only "):
        resolved(plan, name=name)


def test_groups_of_the_source_are_no_references(plan):
    stored = {**plan.connectors[CHECKPOINTS], "task.assigned.groups": "g,${env:OTHER}"}
    found = StoredConfigResolver(plan)(stored)
    assert found["task.assigned.groups"] == "g,${env:OTHER}"
    assert found["source.cluster.sasl.jaas.config"] == JAAS
