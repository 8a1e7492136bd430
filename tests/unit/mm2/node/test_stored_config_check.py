"""What the config topic holds is used only where it agrees with this node's file."""

from __future__ import annotations

import pathlib

import pytest

from connect_runtime.api.errors import ConfigError
from mm2.config import config_loader, dedicated_mode, flow_plan
from mm2.config.flow_plan import FlowPlan
from mm2.node.stored_config_check import StoredConfigResolver

NAME = flow_plan.SOURCE_CONNECTOR
CHECKPOINTS = flow_plan.CHECKPOINT_CONNECTOR
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
    plans = flow_plan.plan_flows(found, flow_plan.ALL_FLOWS, environment=environment)
    return next(each for each in plans if each.name == "a->b")


def rejection(plan: FlowPlan, **changed: str | None) -> str:
    stored = {**plan.connectors[NAME], **changed}
    with pytest.raises(ConfigError) as caught:
        StoredConfigResolver(plan)(stored)
    assert "not-for-them" not in str(caught.value)
    assert "of-the-source" not in str(caught.value)
    return str(caught.value)


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
    ],
)
def test_other_connections_are_rejected_by_key(plan, key, value):
    told = rejection(plan, **{key: value})
    assert f": {key}. " in told
    assert "connection settings differ" in told
    assert "mm2 reload" in told
    assert "attacker" not in told


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topics", "${file:secrets:other}"),
        ("topics", "${env:TOPICS},${env:OTHER}"),
        ("groups", "${env:TOPICS}"),
        ("live.throttle", "${env:OTHER}"),
    ],
)
def test_references_that_are_not_in_the_file_are_rejected_by_key(plan, key, value):
    told = rejection(plan, **{key: value})
    assert f"does not contain: {key}. " in told
    assert "OTHER" not in told


@pytest.mark.parametrize("name", ["other", None])
def test_connectors_that_are_not_the_flows_are_rejected(plan, name):
    told = rejection(plan, name=name)
    assert "it is not a connector of the flow a->b" in told


def test_groups_of_the_source_are_no_references(plan):
    stored = {**plan.connectors[CHECKPOINTS], "task.assigned.groups": "g,${env:OTHER}"}
    found = StoredConfigResolver(plan)(stored)
    assert found["task.assigned.groups"] == "g,${env:OTHER}"
    assert found["source.cluster.sasl.jaas.config"] == JAAS


def test_long_and_many_keys_are_not_listed_whole(plan):
    told = rejection(plan, **{f"source.x{number}{'y' * 1000}": "1" for number in range(5_000)})
    assert "and 4,990 more" in told
    assert len(told) < 4_000
