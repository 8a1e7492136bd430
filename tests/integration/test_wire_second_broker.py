"""The wire against a second implementation of Kafka's protocol, and answers that are rare."""

from __future__ import annotations

import pytest

from connect_runtime.protocol import api_versions, produce_requests, request_builders
from connect_runtime.protocol.produce_requests import ProduceBatch
from connect_runtime.protocol.request_builders import CoordinatorKey
from mm2.formats import record_batch, record_set_splitter
from tests.support import kafka
from tests.support.kafka import Outgoing
from tests.support.second_brokers import SecondCluster
from tests.support.wire import Driver

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(1200)]

NOT_LEADER, STORAGE, NOT_COORDINATOR, THROTTLED = 6, 56, 16, 89


@pytest.fixture(scope="module")
def second(tmp_path_factory):
    with SecondCluster(tmp_path_factory.mktemp("kfake")) as running:
        yield running


@pytest.fixture
def driver(second):
    with Driver(second.client_properties()) as found:
        yield found


@pytest.fixture
def held(second, topic):
    """A topic with a hundred records."""
    name = kafka.create_topic(second.client_properties(), topic(), replication_factor=1)
    kafka.produce(second.client_properties(), name, [Outgoing(value=b"v" * 50)] * 100)
    return name


def test_records_are_read_and_written_as_on_apaches(second, driver, held, topic):
    target = kafka.create_topic(second.client_properties(), topic(), replication_factor=1)
    driver.leader(target)
    offset = 0
    while offset < 100:
        found = driver.fetch(held, offset)
        assert found.error_code == 0
        for header, batch in record_set_splitter.iter_batches(found.records):
            assert record_batch.has_valid_crc(batch, header)
            offset = header.last_offset + 1
            record_batch.stamp_producer_fields(
                batch, attributes=header.attributes, producer=(-1, -1, -1)
            )
            (acked,) = driver.produce([ProduceBatch(target, driver.topic_id(target), 0, batch)])
            assert acked.error_code == 0
    one, other = (
        kafka.read_partition(second.client_properties(), name, 0) for name in (held, target)
    )
    assert kafka.differences(one, other) == []


@pytest.mark.parametrize("error", [NOT_LEADER, STORAGE])
def test_what_a_partition_is_refused_with_arrives(second, driver, held, error):
    fault = second.fault("fetch", error=error, topic=held)
    assert driver.fetch(held).error_code == error
    assert driver.fetch(held).error_code == 0
    assert second.hits(fault) == 1


def test_a_moved_leader_is_found(second, driver, held):
    before = driver.leader(held)
    after = (before + 1) % 3
    second.move(held, 0, node=after)
    assert driver.fetch(held).error_code == NOT_LEADER
    driver.connections.refresh_metadata()
    driver.until(lambda: driver.leader(held) == after)
    assert driver.fetch(held).error_code == 0


def test_a_coordinator_that_is_not_one_is_looked_up_again(second, driver):
    to = CoordinatorKey(request_builders.TRANSACTION_COORDINATOR, "tx-1")
    fault = second.fault("init_producer_id", error=NOT_COORDINATOR)
    refused = driver.ask(to, request_builders.build_init_producer_id_request("tx-1", 1000))
    assert (int(refused.error_code), second.hits(fault)) == (NOT_COORDINATOR, 1)
    driver.connections.forget_coordinator(request_builders.TRANSACTION_COORDINATOR, "tx-1")
    second.rehash()
    assert (
        int(
            driver.ask(to, request_builders.build_init_producer_id_request("tx-1", 1000)).error_code
        )
        == 0
    )


def test_a_throttled_connection_pauses_as_it_is_asked_to(second, driver):
    to = CoordinatorKey(request_builders.TRANSACTION_COORDINATOR, "tx-2")
    driver.ask(to, request_builders.build_init_producer_id_request("tx-2", 1000))
    second.throttle("init_producer_id", ms=700)
    driver.ask(to, request_builders.build_init_producer_id_request("tx-2", 1000))
    started_s = driver.clock.now_s()
    driver.ask(to, request_builders.build_init_producer_id_request("tx-2", 1000))
    assert driver.clock.now_s() - started_s >= 0.6


def test_fetch_and_produce_answers_tell_their_throttle(second, driver, held):
    node = driver.leader(held)
    version = driver.version(node, api_versions.FETCH_KEY, api_versions.FETCH_VERSIONS)
    assert version >= 12
    second.throttle("fetch", ms=250)
    assert driver.fetch(held).error_code == 0, "a throttled answer holds records all the same"
    batch = next(iter(record_set_splitter.iter_batches(driver.fetch(held).records)))[1]
    record_batch.stamp_producer_fields(batch, attributes=0, producer=(-1, -1, -1))
    second.throttle("produce", ms=250)
    (acked,) = driver.produce([ProduceBatch(held, driver.topic_id(held), 0, batch)])
    assert acked.error_code == 0


def test_an_answer_that_is_cut_off_is_a_request_that_may_have_been_done(second, driver, held):
    batch = next(iter(record_set_splitter.iter_batches(driver.fetch(held).records)))[1]
    record_batch.stamp_producer_fields(batch, attributes=0, producer=(-1, -1, -1))
    node = driver.leader(held)
    version = driver.version(node, api_versions.PRODUCE_KEY, api_versions.PRODUCE_VERSIONS)
    chunks = produce_requests.encode_produce_request(
        version,
        transactional_id=None,
        acks=-1,
        timeout_ms=10_000,
        batches=[ProduceBatch(held, driver.topic_id(held), 0, batch)],
    )
    second.cut("produce")
    reply = driver.raw(node, api_versions.PRODUCE_KEY, version, chunks=chunks)
    assert reply.failure is not None
    assert reply.sent
    assert len(kafka.read_partition(second.client_properties(), held, 0)) > 100


def test_metadata_in_trouble_is_asked_again(second, driver, held):
    fault = second.fault("metadata", error=5, topic=held, count=2)
    driver.leader(held)
    assert second.hits(fault) == 2
