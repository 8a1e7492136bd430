"""What of a user's file a drill keeps."""

from __future__ import annotations

import os
import pathlib

from connect_runtime.adapters.config import properties_source
from mm2.app.failover import drill_file
from mm2.app.settings import load

FILE = """\
clusters:
  east:
    bootstrap.servers: 'prod:9092'
    security.protocol: SASL_SSL
    sasl.mechanism: PLAIN
    sasl.jaas.config: 'PlainLoginModule required username="u" password="geheim";'
    consumer.sasl.mechanism: PLAIN
  north: {bootstrap.servers: 'n:9092'}
  west: {bootstrap.servers: 'w:9092'}
defaults: {replication.factor: 3, replication.policy.separator: _}
flows:
  - {from: east, to: west, topics: [orders.*], topics.exclude: [drill.*], groups: [x],
     emit.checkpoints.interval.seconds: 5}
  - {from: west, to: east}
  - {from: north, to: west, emit.checkpoints.interval.seconds: 9}
spark: {engine: inline}
hooks:
  stop-producers: {command: [drain]}
"""


def test_the_flow_stays_and_what_leads_to_the_users_clusters_goes(tmp_path: pathlib.Path):
    before = load.parse(FILE, file="c.yaml", folder=tmp_path, environment={})
    props = drill_file.sandboxed(before.flat.props, ("east", "west"), ("a:1", "b:2"))
    text = "\n".join(properties_source.render(key, value) for key, value in props.items())
    assert not any(word in text for word in ("prod:", "n:9092", "geheim", "SASL", "north"))
    after = load.parse_properties(
        text, file="d.properties", folder=tmp_path, environment=dict(os.environ)
    )
    (flow,) = after.flows
    assert flow.name == "east->west"
    assert flow.topics.takes("drill")
    assert flow.groups.takes("drill-group")
    assert not flow.topics.takes("orders")
    assert flow.remote_topic("drill") == "east_drill"
    assert flow.replication_factor == 1
    assert after.clusters["east"].bootstrap_servers == ("a:1",)
    factors = {value for key, value in props.items() if key.endswith("replication.factor")}
    assert factors == {"1"}
    assert props["emit.checkpoints.interval.seconds"] == "5"
    assert after.spark == before.spark
    assert after.hooks == {}
