"""A transaction of ours that nobody ends, on real brokers: it is told, named, and gone once
somebody has typed what is told.

Brokers that ask no coordinator before a transaction begins, as those before 3.6 do, let one begin
under a producer id that its transactional id has lost since.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connect_runtime.protocol import api_versions, request_builders
from connect_runtime.protocol.produce_requests import ProduceBatch
from connect_runtime.protocol.request_builders import CoordinatorKey
from mm2 import suggested_commands
from mm2.formats import record_set_splitter
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp
from tests.interop import java_tools
from tests.support import content, eventually, kafka, mirror, operations
from tests.support.kafka import Properties
from tests.support.mirror import Mirror
from tests.support.wire import Driver

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(300),
    pytest.mark.kafka_versions("2.8"),
]

EXPIRY_S = 6.0
SOON_S = 120.0
FORGETFUL = {
    "transactional.id.expiration.ms": str(int(EXPIRY_S * 1000)),
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
}
UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""As every broker is before 3.6, which does not know the word."""


@pytest.mark.full
@pytest.mark.parametrize("version", ["2.8", "4.3"])
def test_its_partition_stops_until_it_is_aborted(
    tmp_path: Path, east: Any, own_cluster: Any, topic: Any, version: str
):
    """Also where its beginning is deleted, so that nothing in the log tells of it."""
    more = {} if version == "2.8" else UNVERIFIED
    west = own_cluster("west", kafka_version=version, settings=FORGETFUL | more)
    source, target = east.client_properties(), west.client_properties()
    name = kafka.create_topic(source, topic())
    given = mirror.settings(source, target, topics=[name], spark={"engine": "inline"})
    kafka.produce(source, name, content.some(10))
    mirror.catch_up(tmp_path, given)

    begins = leave_open(target, f"east.{name}", transactional_id=f"mm2-east->west-{name}-0")
    operations.delete_records(target, f"east.{name}", begins + 1)
    kafka.produce(source, name, content.some(7))
    with Mirror(tmp_path, given, name="stopped") as run:
        run.await_stopped(name, "hanging-transaction", SOON_S)
        told = run.await_log(rf"east\.{name}-0: this flow's transaction at offset {begins}, .*")[0]
        line = suggested_commands.extract_remedy_from_message(told)
        assert line.endswith(f"abort --topic east.{name} --partition 0 --start-offset {begins}")
        # Where the transaction begins, or, with older brokers, where the log starts since.
        stable = min(kafka.offsets(target, f"east.{name}", isolation="read_committed"))
        assert begins <= stable <= begins + 1
        ((code, said),) = java_tools.run([line], folder=tmp_path)
        assert code == 0, said
        run.await_records(7, SOON_S, topic=name)
        assert run.stopped() == set()
        assert run.stop() == 143
    sent = kafka.read_partition(source, name, start=10)
    there = kafka.read_partition(target, f"east.{name}", isolation="read_committed")
    assert kafka.differences(sent, there) == []


def leave_open(target: Properties, topic: str, *, transactional_id: str) -> int:
    """A batch comes late, from the writer of the mirror, and its transactional id gets another
    producer id: the offset at which the transaction begins."""
    to = CoordinatorKey(request_builders.TRANSACTION_COORDINATOR, transactional_id)
    with Driver(target) as driver:
        driver.leader(topic)
        end = driver.fetch(topic).high_watermark
        headers = [
            each for each, _ in record_set_splitter.iter_batches(driver.fetch(topic).records)
        ]
        last = headers[-1]
        written = sum(
            each.record_count
            for each in headers
            if not each.is_control and each.producer_epoch == last.producer_epoch
        )
        stamp = Stamp(
            producer_id=last.producer_id,
            producer_epoch=last.producer_epoch,
            base_sequence=written,
            attributes=batches.TRANSACTIONAL,
        )
        late = [Record(value=b"late", timestamp=driver.clock.wall_ms()) for _ in range(3)]
        held = memoryview(bytearray(batches.data(late, stamp)))
        (answer,) = driver.produce(
            [ProduceBatch(topic, driver.topic_id(topic), 0, held)],
            asked=api_versions.TRANSACTIONAL_PRODUCE_VERSIONS,
            transactional_id=transactional_id,
        )
        assert (answer.error_code, answer.base_offset) == (0, end)

        def another_id() -> bool:
            """Asking renews what is known: so it is left alone for long enough each time."""
            until_s = driver.clock.now_s() + 2 * EXPIRY_S
            driver.until(lambda: driver.clock.now_s() >= until_s)
            found = driver.ask(
                to, request_builders.build_init_producer_id_request(transactional_id, 60_000)
            )
            return not int(found.error_code) and int(found.producer_id) != last.producer_id

        eventually.eventually(another_id, SOON_S, "the transactional id is forgotten")
    return end
