"""Brokers that cannot do their work: full disks, damaged logs, few replicas, a strict policy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mm2 import suggested_commands
from mm2.formats import record_set_splitter
from mm2.sandbox import java_server_process
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import content, disks, eventually, java_class, kafka, mirror, obeying
from tests.support.kafka import Properties
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]


@pytest.mark.full
def test_a_damaged_batch_is_not_copied_and_stops_its_partition_alone(tmp_path, own_cluster, west):
    east = own_cluster("east")
    source, target = east.client_properties(), west.client_properties()
    for topic in ("damaged", "sound"):
        kafka.create_topic(source, topic)
        for _ in range(3):
            kafka.produce(source, topic, content.some(5))
    east.stop()
    damage_second_batch(east, "damaged")
    east.start()
    given = mirror.settings(source, target, topics=["damaged", "sound"], spark={"engine": "inline"})
    status, log = mirror.run_to_end(tmp_path, given, "--until-caught-up")
    assert status == 1
    told = log[log.index("not caught up") :]
    assert re.search(r"damaged-0 at source offset 5: the checksum .* does not match", told), told
    content.assert_mirrored(source, target, "sound")
    assert len(kafka.read_partition(target, "east.damaged")) == 5
    (line,) = {
        suggested_commands.extract_remedy_from_message(each)
        for each in told.splitlines()
        if "mm2 topic reset" in each
    }
    obeying.obey(line, folder=tmp_path)
    status, log = mirror.run_to_end(tmp_path, given, "--until-caught-up")
    assert status == 0, log
    whole = [each.value for each in kafka.read_partition(target, "east.damaged")]
    assert len(whole) == 10, "the damaged batch is left out, and nothing else"


def damage_second_batch(east: SandboxCluster, topic: str) -> None:
    """Flip a bit in the last record of the second batch on the stopped broker's disk."""
    folder = east.brokers[1].folder / "data" / f"{topic}-0"
    log = folder / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    _, (second, batch), *_ = record_set_splitter.iter_batches(memoryview(bytes(data)))
    place = bytes(data).index(bytes(batch)) + second.size - 3
    data[place] ^= 0x10
    log.write_bytes(data)


@pytest.mark.full
def test_too_few_replicas_hold_up_their_topic_alone(tmp_path, own_cluster, east):
    source = east.client_properties()
    target = own_cluster("west", brokers=3)
    properties = target.client_properties()
    for topic, needed in (("scarce", "3"), ("modest", "1")):
        kafka.create_topic(source, topic)
        kafka.produce(source, topic, content.some())
        kafka.create_topic(
            properties,
            f"east.{topic}",
            replication_factor=3,
            config={"min.insync.replicas": needed},
        )
    syncs: dict[str, Any] = {"offset-syncs_topic_replication_factor": 1}  # of the source's broker
    given = mirror.settings(
        source,
        properties,
        topics=["scarce", "modest"],
        replication_factor=3,
        sync_topic_configs_enabled=False,
        **syncs,
    )
    with Mirror(tmp_path, given) as run:
        run.await_records(20, topic="scarce")
        run.await_records(20, topic="modest")
        victim = unneeded_broker(properties)
        target.brokers[victim].kill()
        await_in_sync(properties, "east.scarce", 2)
        kafka.produce(source, "scarce", content.some())
        kafka.produce(source, "modest", content.some())
        run.await_records(40, topic="modest", deadline_s=180.0)
        # Refused outright, or found out when the fence's marker is not replicated.
        run.await_log(r"scarce-0 is waiting: .*east\.scarce-0: .*min\.insync\.replicas", 180.0)
        assert run.records(topic="scarce") < 40
        target.brokers[victim].start(timeout_s=180.0)
        run.await_records(40, topic="scarce", deadline_s=180.0)
        assert run.stop() == 143
    content.assert_mirrored(source, properties, "scarce", "modest")


def unneeded_broker(target: Properties) -> int:
    """Of three brokers one that leads neither of the two mirrors."""
    mirrors = [kafka.partitions(target, name)[0] for name in ("east.scarce", "east.modest")]
    return min({1, 2, 3} - {each.leader for each in mirrors})


def await_in_sync(target: Properties, topic: str, count: int) -> None:
    eventually.eventually(
        lambda: len(kafka.partitions(target, topic)[0].isrs) == count, 120.0, interval_s=0.3
    )


@pytest.mark.full
def test_a_policy_that_forbids_a_mirror_topic_is_told(tmp_path, own_cluster, east):
    source = east.client_properties()
    flags = java_class.policy_flags(tmp_path, "forbidden", "no topic of this name in our cluster")
    target = own_cluster("west", jvm=(*java_server_process.TEST_JVM_FLAGS, *flags))
    name = java_class.NAME.replace("/", ".")
    target.brokers[1].change_settings({"create.topic.policy.class.name": name})
    target.restart()
    for topic in ("welcome", "forbidden"):
        kafka.create_topic(source, f"policy-{topic}")
        kafka.produce(source, f"policy-{topic}", content.some())
    given = mirror.settings(
        source, target.client_properties(), topics="policy-.*", spark={"engine": "inline"}
    )
    status, log = mirror.run_to_end(tmp_path, given, "--until-caught-up")
    assert status == 1
    told = log[log.index("not caught up") :]
    assert re.search(
        r"policy-forbidden-0: .*east\.policy-forbidden.*no topic of this name in our cluster", told
    ), told
    assert "welcome" not in told
    content.assert_mirrored(source, target.client_properties(), "policy-welcome")


@pytest.mark.full
def test_a_full_disk_is_waited_out(tmp_path, own_cluster, east):
    with disks.small(tmp_path / "small-disk") as small_disk:
        a_full_disk_is_waited_out(tmp_path, small_disk, own_cluster, east)


def a_full_disk_is_waited_out(
    tmp_path: Path, small_disk: Path, own_cluster: Any, east: SandboxCluster
) -> None:
    """The target's only disk fills up; when it has room again everything arrives, once."""
    source = east.client_properties()
    target = own_cluster("west", settings={"log.segment.bytes": "4000000"})
    disks.move_data(target, small_disk)
    properties = target.client_properties()
    kafka.create_topic(source, "much", partitions=2)
    for number in range(2):
        kafka.produce(source, "much", content.some(30_000, bytes_each=1_000, partition=number))
    given = mirror.settings(source, properties, topics="much")
    with Mirror(tmp_path, given) as run:
        eventually.eventually(
            lambda: not target.brokers[1].is_running, 180.0, "the broker's disk is full"
        )
        assert run.records() < 60_000
        run.await_log(r"broker .*: Connection refused", 120.0)
        run.await_log("the group's coordinator was unavailable for too long", 120.0)
        assert run.running
        disks.grow(small_disk)
        target.start(timeout_s=180.0)
        run.await_records(60_000, 180.0)
        assert run.stop() == 143
    content.assert_mirrored(source, properties, "much")
