"""What stands in the group's topics from before, and cannot be used any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import content, kafka, mirror
from tests.support.kafka import Properties

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def test_a_secrets_file_that_has_moved_keeps_no_flow_from_starting(
    tmp_path: Path, own_cluster, topic
):
    """The group's topics name the old file: connector and tasks fail, until the leader writes."""
    source = own_cluster("east").client_properties()
    target = own_cluster("west").client_properties()
    name = kafka.create_topic(source, topic("a"), partitions=2)
    kafka.produce(source, name, content.some(30))
    old, new = tmp_path / "old.properties", tmp_path / "new.properties"
    old.write_text("id=somebody\n")
    assert run(tmp_path, old, source, target, name).startswith("caught up: 2 partitions, 30")
    old.rename(new)
    kafka.produce(source, name, content.some(30))
    assert run(tmp_path, new, source, target, name).startswith("caught up: 2 partitions, 30")
    content.assert_mirrored(source, target, name)


def run(folder: Path, secrets: Path, source: Properties, target: Properties, name: str) -> str:
    """Until all is copied: what is told."""
    path = folder / "mm2.properties"
    path.write_text(
        f"""clusters = east, west
config.providers = secrets
config.providers.secrets.class = org.apache.kafka.common.config.provider.FileConfigProvider
east.bootstrap.servers = {source["bootstrap.servers"]}
west.bootstrap.servers = {target["bootstrap.servers"]}
east.client.id = ${{secrets:{secrets}:id}}
east->west.enabled = true
east->west.topics = {name}
replication.factor = 1
tasks.max = 2
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
config.storage.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
emit.heartbeats.enabled = false
mm2.spark.engine = inline
task.restart.max = 0
"""
    )
    done = mirror.mm2("run", path, "--until-caught-up", "--timeout", "60", "--metrics-port", "0")
    assert done.returncode == 0, done.stderr
    return done.stdout
