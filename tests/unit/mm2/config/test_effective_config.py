"""What `mm2 config show` prints is what workers and connectors are given, with its origin."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import yaml

from mm2.config import config_loader, effective_config, flow_connector_configs
from mm2.config.mm2_settings import Mm2Settings

YAML = r"""clusters:
  a: {bootstrap.servers: "a:1, a:2"}
  b: {bootstrap.servers: "b:1"}
defaults:
  tasks.max: 3
flows:
- {from: a, to: b, topics: 'x, y.*', sync.topic.configs.enabled: false}
- {from: b, to: a, replication.factor: 3}
spark: {conf: {spark.cores.max: 2}}
metrics: {port: 0}
"""
PROPERTIES = """clusters = a, b
a.bootstrap.servers = a:1
b.bootstrap.servers = b:1
a->b.enabled = true
a->b.topics = orders
b.status.storage.replication.factor = 1
listeners = http://localhost:8083
"""


def read_yaml(text: str, environment: Mapping[str, str] | None = None) -> Mm2Settings:
    return config_loader.parse_clusters_yaml(
        text, file="c.yaml", folder=pathlib.Path("/"), environment=environment or {}
    )


def read_properties(text: str) -> Mm2Settings:
    return config_loader.parse_mm2_properties(
        text, file="mm2.properties", folder=pathlib.Path("/"), environment={}
    )


def shown(found: Mm2Settings) -> str:
    return "\n".join(
        effective_config.render_yaml(
            effective_config.derive_effective_config(found, environment={})
        )
    )


def as_json(found: Mm2Settings) -> dict[str, Any]:
    return effective_config.render_json(
        effective_config.derive_effective_config(found, environment={})
    )


def connector(document: Mapping[str, Any], flow: str, name: str) -> dict[str, Any]:
    of_flow = document["flows"][flow]
    return {**of_flow["connectors"][name], **of_flow["clients"]}


def origin(value: Mapping[str, Any]) -> tuple[object, ...]:
    return (value["value"], value["origin"], value.get("line"), value.get("key"))


def test_every_key_that_is_given_has_the_value_that_is_given():
    for found in (read_yaml(YAML), read_properties(PROPERTIES)):
        document = as_json(found)
        plans = flow_connector_configs.plan_flows(
            found, flow_connector_configs.ALL_FLOWS, environment={}
        )
        assert list(document["flows"]) == [plan.name for plan in plans]
        for plan in plans:
            worker = document["flows"][plan.name]["worker"]
            assert {key: text_of(worker[key]) for key in plan.worker_props} == plan.worker_props
            for name, config in plan.connectors.items():
                section = connector(document, plan.name, name)
                assert {key: text_of(section[key]) for key in config} == config


def text_of(value: Mapping[str, Any]) -> str:
    found = value["value"]
    return str(found).lower() if isinstance(found, bool) else str(found)


def test_origins_of_yaml():
    document = as_json(read_yaml(YAML))
    there = connector(document, "a->b", flow_connector_configs.SOURCE_CONNECTOR)
    assert origin(there["tasks.max"]) == (3, "file", 5, "defaults.tasks.max")
    assert origin(there["topics"]) == ("x, y.*", "file", 7, "flows[0].topics")
    assert origin(there["replication.factor"]) == (-1, "default", None, None)
    assert origin(there["offset.lag.max"]) == (100, "MM2 default", None, None)
    assert origin(there["buffer.memory"]) == (67108864, "default", None, None)
    assert origin(there["source.admin.bootstrap.servers"]) == (
        "a:1, a:2",
        "file",
        2,
        "clusters.a.bootstrap.servers",
    )
    back = connector(document, "b->a", flow_connector_configs.CHECKPOINT_CONNECTOR)
    factor = (3, "file", 8, "flows[1].replication.factor")
    assert origin(back["checkpoints.topic.replication.factor"]) == factor
    worker = document["flows"]["b->a"]["worker"]
    assert origin(worker["config.storage.replication.factor"]) == factor
    assert origin(worker["group.id"]) == ("b-mm2", "MM2 default", None, None)
    assert origin(worker["task.restart.max"]) == (10, "default", None, None)
    assert origin(document["rest"]["listeners"]) == ("http://:0", "default", None, None)
    assert origin(document["metrics"]["port"]) == (0, "file", 10, "metrics.port")
    assert origin(document["spark"]["conf.spark.cores.max"]) == (
        2,
        "file",
        9,
        "spark.conf.spark.cores.max",
    )


def test_of_properties_the_defaults_are_mirror_makers():
    document = as_json(read_properties(PROPERTIES))
    heartbeat = connector(document, "a->b", flow_connector_configs.HEARTBEAT_CONNECTOR)
    checkpoint = connector(document, "a->b", flow_connector_configs.CHECKPOINT_CONNECTOR)
    source = connector(document, "a->b", flow_connector_configs.SOURCE_CONNECTOR)
    default = ("MM2 default", None, None)
    assert origin(heartbeat["emit.heartbeats.enabled"]) == (True, *default)
    assert origin(checkpoint["emit.checkpoints.interval.seconds"]) == (60, *default)
    assert origin(checkpoint["sync.group.offsets.interval.seconds"]) == (60, *default)
    assert origin(checkpoint["checkpoints.topic.replication.factor"]) == (3, *default)
    assert origin(source["replication.factor"]) == (2, *default)
    assert origin(source["topics"]) == ("orders", "file", 5, "a->b.topics")
    worker = document["flows"]["a->b"]["worker"]
    assert origin(worker["config.storage.replication.factor"]) == (3, *default)
    given = (1, "file", 6, "b.status.storage.replication.factor")
    assert origin(worker["status.storage.replication.factor"]) == given
    assert document["rest"]["listeners"]["used"] is False
    assert origin(document["rest"]["dedicated.mode.enable.internal.rest"]) == (False, *default)
    assert document["flows"]["b->a"]["mirrors"] is False


def test_the_text_is_yaml_with_sorted_keys_and_plain_numbers():
    text = shown(read_yaml(YAML))
    assert "      tasks.max: 3  # c.yaml:5 defaults.tasks.max\n" in text
    own = "      replication.factor: -1  # default: the brokers' default.replication.factor\n"
    assert own in text
    assert "      sync.topic.configs.enabled: false  # c.yaml:7\n" in text
    read = yaml.safe_load(text)
    flow = read["flows"]["a->b"]
    assert list(flow) == [
        "worker",
        "MirrorSourceConnector",
        "MirrorHeartbeatConnector",
        "MirrorCheckpointConnector",
        "clients",
    ]
    for section in flow.values():
        assert list(section) == sorted(section)
    assert "topics" not in flow["MirrorHeartbeatConnector"]
    assert flow["MirrorSourceConnector"]["topics"] == "x, y.*"


def test_a_connector_that_is_not_created_is_named():
    text = shown(read_yaml(YAML.replace("tasks.max: 3", "emit.checkpoints.enabled: false")))
    line = next(each for each in text.splitlines() if "MirrorCheckpointConnector" in each)
    assert "not created" in line
    assert "emit.checkpoints.enabled set to false" in line


def test_secrets_are_hidden():
    text = YAML.replace("metrics: {port: 0}", "metrics: {host: '${env:HOST}'}").replace(
        'bootstrap.servers: "b:1"',
        "bootstrap.servers: '${env:B}', security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, "
        "sasl.jaas.config: 'org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="u" password="hunter2";\'',
    )
    found = read_yaml(text, {"HOST": "secret-host", "B": "secret-broker:1"})
    told = shown(found) + str(as_json(found))
    for secret in ("hunter2", "secret-host", "secret-broker"):
        assert secret not in told
    assert "      target.admin.bootstrap.servers: '[hidden]'  # c.yaml:3" in told
    assert "  host: '[hidden]'  # c.yaml:10" in told
    assert "sasl.mechanism: PLAIN" in told


def test_secrets_inside_values_and_of_spark_are_hidden():
    conf = (
        "    spark.hadoop.fs.azure.account.key.x.net: hunter2\n"
        "    spark.driver.extraJavaOptions: -Djavax.net.ssl.trustStorePassword=hunter3 -Da=b\n"
        "    spark.hadoop.fs.s3a.endpoint: 'https://h/?token=hunter4&a=b'\n"
        "hooks: {stop-producers: {command: [curl, -u, 'admin:hunter5']}}\n"
    )
    text = YAML.replace("spark: {conf: {spark.cores.max: 2}}\n", f"spark:\n  conf:\n{conf}")
    found = read_yaml(text)
    told = shown(found) + str(as_json(found)) + str(found.effective)
    assert "hunter" not in told
    assert "-Djavax.net.ssl.trustStorePassword=[hidden] -Da=b" in told


def test_hooks_and_the_sample_are_shown():
    text = shown(read_yaml(YAML + "hooks: {stop-producers: {command: [stop, --now]}}\n"))
    assert '  stop-producers.command: ["stop", "[hidden]"]  # c.yaml hooks.' in text
    sample = pathlib.Path(__file__).parents[4] / "deploy" / "clusters.yaml"
    assert "  east->west:\n" in shown(config_loader.load_config_file(sample, environment={}))
