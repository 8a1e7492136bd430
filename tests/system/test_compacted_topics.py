"""Compacted topics: the mirror is compacted too, by itself, and the copy goes on all the same."""

from __future__ import annotations

import pytest

from connect_runtime.protocol.produce_requests import ProduceBatch
from mm2.formats import record_batch, record_set_splitter
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp
from tests.support import content, eventually, kafka, mirror
from tests.support.kafka import Properties
from tests.support.mirror import Mirror
from tests.support.wire import Driver

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

INLINE = {"engine": "inline"}
EAGER_CLEANER = {
    "log.roll.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.backoff.ms": "100",
}


def test_a_mirror_is_cleaned_by_its_own_cluster_and_the_copy_goes_on(
    tmp_path, own_cluster, east, topic
):
    """The source keeps everything: all of it is in the segment that is being written."""
    source = east.client_properties()
    target = own_cluster("west", settings=EAGER_CLEANER).client_properties()
    name = kafka.create_topic(source, topic(), config={"cleanup.policy": "compact"})
    mirrored = f"east.{name}"
    given = mirror.settings(source, target, topics=[name], spark=INLINE)
    with Mirror(tmp_path, given) as run:
        for copied, count in ((20, 20), (25, 5), (28, 3)):
            kafka.produce(source, name, content.some(count, bytes_each=9 * count))
            run.await_records(copied, topic=name)
        eventually.eventually(
            lambda: len(kafka.read_partition(target, mirrored)) < 28, 60.0, "the mirror is cleaned"
        )
        kafka.produce(source, name, content.some(2, bytes_each=18))
        run.await_records(30, topic=name)
        assert run.stop() == 143
    kafka.produce(source, name, content.some(1))
    assert "caught up: 1 partition, 1 record " in mirror.catch_up(tmp_path, given)
    assert len(kafka.read_partition(source, name)) == 31
    assert newest(target, mirrored) == newest(source, name)


def newest(properties: Properties, topic: str) -> dict[bytes | None, tuple[object, ...]]:
    """What a reader of a compacted topic ends up with: the last record of each key."""
    found = {each.key: each.content for each in kafka.read_partition(properties, topic)}
    assert found
    return found


def test_a_delete_horizon_stays_behind(tmp_path, east, west, topic):
    """It says when the source's cleaner may drop tombstones; the target's cleaner sets its own."""
    name = kafka.create_topic(east.client_properties(), topic())
    source, target = east.client_properties(), west.client_properties()
    with Driver(source) as driver:
        wall_ms = driver.clock.wall_ms()
        tombstone = [Record(key=b"key", value=None, timestamp=wall_ms)]
        stamp = Stamp(attributes=record_batch.DELETE_HORIZON)
        driver.leader(name)
        sent = memoryview(bytearray(batches.data(tombstone, stamp)))
        driver.produce([ProduceBatch(name, driver.topic_id(name), 0, sent)])
        assert attributes(driver, name) & record_batch.DELETE_HORIZON
    mirror.catch_up(tmp_path, mirror.settings(source, target, topics=[name], spark=INLINE))
    with Driver(target) as driver:
        assert not attributes(driver, f"east.{name}") & record_batch.DELETE_HORIZON
    content.assert_mirrored(source, target, name)


def attributes(driver: Driver, topic: str) -> int:
    """Those of the topic's only batch of records."""
    found = record_set_splitter.iter_batches(driver.fetch(topic).records)
    ((header, _),) = [each for each in found if not each[0].is_control]
    return header.attributes
