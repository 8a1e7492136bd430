"""A difference between what is shown and what is so is found."""

from __future__ import annotations

import copy
import pathlib
from typing import Any

import pytest

from mm2.config import config_loader, effective_config, flow_connector_configs
from tests.support import shown_config

TEXT = """clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}}
flows:
- {from: a, to: b, replication.factor: 3, tasks.max: 2}
"""
SETTINGS = config_loader.parse_clusters_yaml(
    TEXT, file="c.yaml", folder=pathlib.Path("/"), environment={}
)
DOCUMENT = effective_config.render_json(
    effective_config.derive_effective_config(SETTINGS, environment={})
)
(PLAN,) = flow_connector_configs.plan_flows(
    SETTINGS, flow_connector_configs.ALL_FLOWS, environment={}
)
REPLICAS = {
    "a:mm2-offset-syncs.b.internal": 3,
    **dict.fromkeys(
        (
            *("b:mm2-offset-map.a.internal", "b:mm2-incidents.a.internal"),
            *("b:a.checkpoints.internal", "b:heartbeats"),
            *("b:mm2-configs.a.internal", "b:mm2-offsets.a.internal", "b:mm2-status.a.internal"),
        ),
        3,
    ),
}


def differences(document: dict[str, Any], **really: Any) -> list[str]:
    usual = {"configs": PLAN.connectors, "replicas": REPLICAS}
    factors = {"a": 1, "b": 2}
    return shown_config.differences(document, "a->b", default_factors=factors, **usual | really)


def test_what_is_shown_as_it_is_has_no_differences():
    assert differences(DOCUMENT) == []


@pytest.mark.parametrize(
    ("connector", "key", "line"),
    [
        ("MirrorSourceConnector", "tasks.max", "tasks.max: 2, really 7"),
        ("MirrorSourceConnector", "mirrored.by", "mirrored.by: None, really 7"),
        (
            "MirrorCheckpointConnector",
            "emit.checkpoints.interval.seconds",
            "emit.checkpoints.interval.seconds: 5, really 7",
        ),
    ],
)
def test_a_connector_that_is_configured_otherwise_is_found(connector, key, line):
    configs = {name: dict(config) for name, config in PLAN.connectors.items()}
    configs[connector][key] = "7"
    assert differences(DOCUMENT, configs=configs) == [f"{connector} {line}"]


def test_a_value_that_is_shown_otherwise_is_found():
    document = copy.deepcopy(DOCUMENT)
    flow = document["flows"]["a->b"]
    flow["connectors"]["MirrorSourceConnector"]["topics.exclude"] = {
        "value": "x",
        "origin": "file",
    }
    flow["worker"]["status.storage.replication.factor"]["value"] = -1
    assert differences(document) == [
        "MirrorSourceConnector topics.exclude: x, really None",
        "status.storage.replication.factor: -1, mm2-status.a.internal of b has 3 replicas",
    ]


def test_a_topic_that_was_created_otherwise_is_found():
    really = REPLICAS | {"b:a.checkpoints.internal": 1}
    assert differences(DOCUMENT, replicas=really) == [
        "checkpoints.topic.replication.factor: 3, a.checkpoints.internal of b has 1 replicas"
    ]
