"""`mm2 run` with the file of a MirrorMaker 2 that was there before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import content, kafka, mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def test_a_file_of_mirror_maker_runs_as_it_is(tmp_path: Path, own_cluster, topic):
    """On clusters of its own: what it leaves in the group's topics names a file that goes away."""
    source = own_cluster("east").client_properties()
    target = own_cluster("west").client_properties()
    name, draft = (kafka.create_topic(source, topic(label), partitions=2) for label in "ab")
    for each in (name, draft):
        kafka.produce(source, each, content.some(30))
    (tmp_path / "secrets.properties").write_text(f"servers={target['bootstrap.servers']}\n")
    path = tmp_path / "mm2.properties"
    path.write_text(
        f"""# as it was, but for the engine
clusters = east, west
config.providers = secrets
config.providers.secrets.class = org.apache.kafka.common.config.provider.FileConfigProvider
east.bootstrap.servers = {source["bootstrap.servers"]}
west.bootstrap.servers = ${{secrets:{tmp_path}/secrets.properties:servers}}
east->west.enabled = true
east->west.topics = {name[:-3]}.*
east->west.topics.exclude = {draft}
east.consumer.fetch.max.bytes = 1048576
west.producer.request.timeout.ms = 20000
replication.factor = 1
tasks.max = 2
errors.tolerance = all
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
config.storage.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
heartbeats.replication.enabled = false
emit.heartbeats.interval.seconds = 5
mm2.spark.engine = inline
"""
    )
    done = mirror.mm2("run", path, "--until-caught-up", "--timeout", "60", "--metrics-port", "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("caught up: 2 partitions, 30 records")
    assert f"{path}:14: errors.tolerance: has no effect: mm2 copies whole batches" in done.stderr
    content.assert_mirrored(source, target, name)
