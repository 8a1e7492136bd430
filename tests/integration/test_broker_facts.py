"""What brokers do that the copy rules rest on: whom a fence refuses, and for how long."""

from __future__ import annotations

import socket
import struct
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from connect_runtime.protocol import (
    api_versions,
    produce_requests,
    request_builders,
    request_framing,
)
from connect_runtime.protocol.produce_requests import ProduceBatch, ProduceResponsePartition
from connect_runtime.protocol.request_builders import CoordinatorKey, RequestBuilder
from mm2.formats import record_batch, record_set_splitter
from tests.fakes import batches
from tests.fakes.batches import Record, Stamp
from tests.support import kafka
from tests.support.wire import Driver

pytestmark = pytest.mark.integration

DAY_MS = 86_400_000
INVALID_PRODUCER_EPOCH = 47
_NOT_YET = {14, 15, 16, 51}
_MOVED = {15, 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A producer of one transactional id, as InitProducerId made it."""

    id: int
    epoch: int
    transactional_id: str


class Partition:
    """Partition 0 of a topic, and the requests by which a copy takes it and writes to it."""

    def __init__(self, driver: Driver, topic: str) -> None:
        self._driver = driver
        self._to = CoordinatorKey(request_builders.TRANSACTION_COORDINATOR, f"mm2-test-{topic}")
        self.topic = topic
        driver.leader(topic)

    def _ask(self, message: RequestBuilder) -> Any:
        """Coordinators ask for patience while they load, or still write a marker."""
        answers: list[Any] = []

        def settled() -> bool:
            answers.append(self._driver.ask(self._to, message))
            code = _code(answers[-1])
            if code in _MOVED:
                self._driver.connections.forget_coordinator(self._to.kind, self._to.key)
            return code not in _NOT_YET

        self._driver.until(settled)
        assert _code(answers[-1]) == 0
        return answers[-1]

    def new_owner(self) -> Owner:
        found = self._ask(request_builders.build_init_producer_id_request(self._to.key, 60_000))
        return Owner(
            id=int(found.producer_id),
            epoch=int(found.producer_epoch),
            transactional_id=self._to.key,
        )

    def begin(self, owner: Owner) -> None:
        self._ask(
            request_builders.build_add_partitions_to_txn_request(
                self._to.key, producer_id=owner.id, epoch=owner.epoch, topics={self.topic: [0]}
            )
        )

    def commit(self, owner: Owner) -> None:
        """Returns when the marker can be read."""
        before = self.end
        self._ask(
            request_builders.build_end_txn_request(
                self._to.key, producer_id=owner.id, epoch=owner.epoch, committed=True
            )
        )
        self._driver.until(lambda: self._driver.fetch(self.topic).last_stable_offset > before)

    def fence(self) -> Owner:
        """A new owner whose empty transaction is in the log."""
        owner = self.new_owner()
        self.begin(owner)
        self.commit(owner)
        return owner

    @property
    def end(self) -> int:
        return self._driver.fetch(self.topic).high_watermark

    def send(self, batch: bytes, *, transactional_id: str | None = None) -> tuple[int, int]:
        """(error code, base offset)"""
        (answer,) = self._driver.produce(
            [self.batch(batch)],
            asked=api_versions.TRANSACTIONAL_PRODUCE_VERSIONS,
            transactional_id=transactional_id,
        )
        return answer.error_code, answer.base_offset

    def batch(self, batch: bytes) -> ProduceBatch:
        records = memoryview(bytearray(batch))
        return ProduceBatch(self.topic, self._driver.topic_id(self.topic), 0, records)


def _code(body: Any) -> int:
    if hasattr(body, "error_code"):
        return int(body.error_code)
    ((result,),) = (each.results_by_partition for each in body.results_by_topic_v3_and_below)
    return int(result.partition_error_code)


def first_batch_of(owner: Owner, *, timestamp: int, transactional: bool = False) -> bytes:
    stamp = Stamp(
        producer_id=owner.id,
        producer_epoch=owner.epoch,
        base_sequence=0,
        attributes=batches.TRANSACTIONAL if transactional else 0,
    )
    records = [Record(value=b"%d" % number, timestamp=timestamp) for number in range(3)]
    return batches.data(records, stamp)


def test_a_half_sent_request_is_refused_once_another_owner_has_fenced_the_partition(east, topic):
    properties = east.client_properties()
    name = kafka.create_topic(properties, topic())
    with Driver(properties) as driver:
        partition = Partition(driver, name)
        old = partition.fence()
        batch = first_batch_of(old, timestamp=driver.clock.wall_ms())
        request = b"".join(map(bytes, produce_request(partition.batch(batch))))
        host, _, port = east.bootstrap.rpartition(":")
        with closing(socket.create_connection((host, int(port)), timeout=20.0)) as late:
            late.sendall(request[: len(request) // 2])
            new = partition.fence()
            assert (new.id, new.epoch) == (old.id, old.epoch + 1)
            end = partition.end
            late.sendall(request[len(request) // 2 :])
            assert answered(late).error_code == INVALID_PRODUCER_EPOCH
        assert partition.end == end
        own = first_batch_of(new, timestamp=driver.clock.wall_ms())
        assert partition.send(own) == (0, end)


VERSION = api_versions.PRODUCE_VERSIONS[1] - 2  # the last that names topics


def produce_request(batch: ProduceBatch) -> list[bytes | memoryview]:
    chunks = produce_requests.encode_produce_request(
        VERSION, transactional_id=None, acks=-1, timeout_ms=10_000, batches=[batch]
    )
    size = sum(map(len, chunks))
    header = request_framing.encode_request_header(
        api_versions.PRODUCE_KEY, VERSION, 1, client_id=b"half-sent", body_size=size
    )
    return [header, *chunks]


def answered(connection: socket.socket) -> ProduceResponsePartition:
    with connection.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        frame = memoryview(stream.read(size))
    body = request_framing.strip_response_header(frame, api_versions.PRODUCE_KEY, VERSION)
    (found,) = produce_requests.decode_produce_response(VERSION, body).partitions
    return found


def test_old_records_are_appended_again_once_their_producer_is_forgotten_but_not_in_transactions(
    own_cluster, topic
):
    """Why they are copied in transactions: the marker carries today's time and is remembered."""
    running = own_cluster(settings={"producer.id.expiration.check.interval.ms": "500"})
    properties = running.client_properties()
    names = [kafka.create_topic(properties, topic(label)) for label in ("plain", "transactions")]
    with Driver(properties) as driver:
        plain, guarded = (Partition(driver, name) for name in names)
        long_ago = driver.clock.wall_ms() - 3 * DAY_MS

        twin, owner = guarded.fence(), guarded.fence()
        guarded.begin(owner)
        batch = first_batch_of(owner, timestamp=long_ago, transactional=True)
        code, _ = guarded.send(batch, transactional_id=owner.transactional_id)
        assert code == 0
        guarded.commit(owner)
        end = guarded.end

        forgotten, successor = plain.fence(), plain.fence()
        first = plain.end
        alone = first_batch_of(successor, timestamp=long_ago)
        assert plain.send(alone) == (0, first)
        driver.until(lambda: plain.send(alone) == (0, first + 3))
        late = first_batch_of(forgotten, timestamp=long_ago)
        driver.until(lambda: plain.send(late) == (0, first + 6))

        guarded.send(batch, transactional_id=owner.transactional_id)
        assert guarded.end == end
        late = first_batch_of(twin, timestamp=long_ago)
        assert guarded.send(late) == (INVALID_PRODUCER_EPOCH, -1)
    assert len(kafka.read_partition(properties, plain.topic)) == 9
    assert len(kafka.read_partition(properties, guarded.topic)) == 3


def test_a_delete_horizon_is_stored_as_it_is_sent(east, topic):
    """Why the copy clears it: the target's cleaner would go by the source's horizon."""
    properties = east.client_properties()
    name = kafka.create_topic(properties, topic())
    stamp = Stamp(attributes=record_batch.DELETE_HORIZON)
    with Driver(properties) as driver:
        partition = Partition(driver, name)
        records = [Record(key=b"k", value=None, timestamp=driver.clock.wall_ms())]
        assert partition.send(batches.data(records, stamp)) == (0, 0)
        ((header, _),) = record_set_splitter.iter_batches(driver.fetch(name).records)
        assert header.attributes & record_batch.DELETE_HORIZON
