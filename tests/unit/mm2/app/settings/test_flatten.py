"""The flat properties that a YAML file stands for; that all of it survives: test_convert."""

from __future__ import annotations

import pathlib

import pytest

from connect_runtime.adapters.config import yaml_source
from mm2.app.settings import flatten
from mm2.app.settings import mirror_maker_keys as keys
from mm2.core.configs import connector_configs, dedicated

TEXT = """
clusters:
  a: {bootstrap.servers: 'a:1', request.timeout.ms: 5, sasl.jaas.config: '${file:s.p:k}'}
  b: {bootstrap.servers: [b:1, b:2], ssl.truststore.location: ca.pem}
defaults: {tasks.max: 4, start: latest}
flows:
- {from: a, to: b, topics: [x, y], replication.policy.class: identityreplicationpolicy}
- {from: b, to: a, enabled: false}
"""
ENDS = dedicated.Ends("a", "b")


def flat(text: str = TEXT) -> flatten.Flattened:
    root = yaml_source.parse(text).root
    assert isinstance(root, yaml_source.Section)
    return flatten.flatten(root, folder=pathlib.Path("/conf"))


def props(text: str = TEXT) -> dict[str, str]:
    return {pair.key: pair.value for pair in flat(text).pairs}


def test_connectors_read_what_the_file_says():
    given = props()
    assert dedicated.flows(given) == [ENDS]
    found = connector_configs.source(dedicated.connector(given, ENDS, "MirrorSourceConnector"))
    assert (found.common.source, found.common.target, found.flow.tasks_max) == ("a", "b", 4)
    assert found.flow.topics.listed == ("x", "y")
    assert not found.flow.policy.renames_topics
    assert found.flow.start.at.value == "latest"


def test_secrets_and_paths_stay_what_they_were():
    given = props()
    assert given["a.sasl.jaas.config"] == "${file:/conf/s.p:k}"
    assert given["config.providers"] == "file"
    assert given["config.providers.file.class"].endswith("FileConfigProvider")
    assert given["b.ssl.truststore.location"] == "/conf/ca.pem"
    assert given["b.bootstrap.servers"] == "b:1,b:2"


def test_a_property_for_all_clients_is_said_of_each_kind():
    assert {key for key in props() if key.endswith("request.timeout.ms")} == {
        f"a.{each}.request.timeout.ms" for each in ("consumer", "producer", "admin")
    }


def test_what_is_made_for_a_flow_has_as_many_replicas_as_its_topics():
    given = props(TEXT.replace("tasks.max: 4", "replication.factor: 7"))
    worker = dedicated.worker(given, ENDS)
    assert worker["offset.storage.replication.factor"] == "7"
    checkpoints = dedicated.connector(given, ENDS, "MirrorCheckpointConnector")
    assert checkpoints["checkpoints.topic.replication.factor"] == "7"


THREE = """
clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}, c: {bootstrap.servers: c}}
flows:
- {from: a, to: b, replication.factor: 2}
- {from: c, to: b, replication.factor: 10}
- {from: a, to: c, replication.factor: 3}
- {from: b, to: c, replication.factor: 7, enabled: false}
"""


@pytest.mark.parametrize("turned", [False, True])
def test_workers_of_a_cluster_have_the_largest_factor_of_its_flows(turned):
    """Whichever flow is first: their topics are as safe as any that they mirror."""
    lines = THREE.splitlines(keepends=True)
    given = props("".join([*lines[:3], *(reversed(lines[3:]) if turned else lines[3:])]))
    for ends, factor in ((ENDS, "10"), (dedicated.Ends("a", "c"), "3")):
        worker = dedicated.worker(given, ends)
        assert {worker[key] for key in keys.WORKER_FACTORS} == {factor}


def test_a_stated_factor_goes_before_the_clusters_own():
    given = props(THREE.replace("replication.factor: 10", "replication.factor: -1"))
    assert dedicated.worker(given, ENDS)["config.storage.replication.factor"] == "2"


def test_factors_that_cannot_be_compared_have_to_be_stated():
    text = THREE.replace("replication.factor: 10", "replication.factor: '${env:F}'")
    (found,) = flat(text).unsaid
    assert (found.line, found.key) == (5, "flows[1].replication.factor")
    assert "config.storage.replication.factor" in found.text
    stated = "".join(f"  {key}: 3\n" for key in keys.WORKER_FACTORS)
    assert flat(f"{text}worker:\n{stated}").unsaid == ()


def test_checkpoints_and_groups_are_a_matter_of_seconds_unless_something_else_is_asked_for():
    names = ("emit.checkpoints.interval.seconds", "sync.group.offsets.interval.seconds")
    for name in names:
        assert props()[name] == "5"
        asked = props(TEXT.replace("tasks.max: 4", f"{name}: 60"))
        assert "60" in {value for key, value in asked.items() if key.endswith(name)}


def test_heartbeats_are_off_unless_asked_for():
    assert props()["emit.heartbeats.enabled"] == "false"
    asked = props(TEXT.replace("tasks.max: 4", "emit.heartbeats.enabled: true"))
    assert len(dedicated.flows(asked)) == 2


def test_every_property_says_where_it_is_from():
    found = {pair.key: (pair.line, pair.path) for pair in flat().pairs}
    assert found["a->b.topics"] == (7, "flows[0].topics")
    assert found["tasks.max"] == (5, "defaults.tasks.max")
    assert found["a.consumer.request.timeout.ms"] == (3, "clusters.a.request.timeout.ms")


@pytest.mark.parametrize("listed", ["['x{1,2}']", "['']"])
def test_a_list_whose_items_hold_commas_cannot_be_said(listed):
    (found,) = flat(TEXT.replace("[x, y]", listed)).unsaid
    assert (found.line, found.key) == (7, "flows[0].topics")
