"""Requests of every kind against one real broker."""

from __future__ import annotations

import pytest

from connect_runtime.protocol import api_versions, fetch_requests, request_builders
from connect_runtime.protocol.fetch_requests import (
    FetchRequestPartition,
    FetchResponse,
    FetchSession,
    FetchSessionRequest,
)
from connect_runtime.protocol.produce_requests import ProduceBatch
from connect_runtime.protocol.request_builders import (
    CoordinatorKey,
    EpochEndOffsetQuery,
    LeaderTarget,
    OffsetQuery,
    RequestBuilder,
)
from connect_runtime.protocol.request_errors import UnsupportedVersion
from mm2.formats import record_batch, record_set_splitter
from tests.support import kafka
from tests.support.kafka import Outgoing
from tests.support.wire import Driver

pytestmark = pytest.mark.integration

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NO_PRODUCER = (-1, -1, -1)


def outgoing(count: int, *, size: int = 200) -> list[Outgoing]:
    return [
        Outgoing(
            key=b"k%d" % index,
            value=(b"value %d " % index) * (size // 8),
            headers=(("h", b"x"), ("null", None)),
            timestamp=1_700_000_000_000 + index,
        )
        for index in range(count)
    ]


def copied(driver: Driver, source: str, target: str, **options) -> None:
    """Fetch everything of partition 0 and produce it, batch by batch, to another topic."""
    found = driver.fetch(source)
    assert found.last_stable_offset == found.high_watermark
    driver.leader(target)
    for header, batch in record_set_splitter.iter_batches(found.records):
        record_batch.stamp_producer_fields(
            batch, attributes=header.attributes, producer=NO_PRODUCER
        )
        (acked,) = driver.produce(
            [ProduceBatch(target, driver.topic_id(target), 0, batch)], **options
        )
        assert (acked.error_code, acked.error_message) == (0, None)
        assert acked.base_offset == header.base_offset


def test_versions_brokers_topics_and_ids_are_known(east, topic):
    name = kafka.create_topic(east.client_properties(), topic(), partitions=3)
    with Driver(east.client_properties()) as driver:
        driver.leader(name)
        view = driver.connections.view
        found = view.get_topic(name)
        assert found is not None
        assert sorted(found.leaders) == [0, 1, 2]
        assert found.topic_id != bytes(16)
        assert [f"{each.host}:{each.port}" for each in view.brokers.values()] == [east.bootstrap]
        assert driver.version(1, api_versions.FETCH_KEY, api_versions.FETCH_VERSIONS) == 17
        assert driver.version(1, api_versions.PRODUCE_KEY, api_versions.PRODUCE_VERSIONS) == 13
        assert (
            driver.version(1, api_versions.PRODUCE_KEY, api_versions.TRANSACTIONAL_PRODUCE_VERSIONS)
            == 11
        )
        with pytest.raises(UnsupportedVersion, match=east.bootstrap):
            driver.connections.choose_version(1, api_versions.FETCH_KEY, 90, 99)
        rtt_s = driver.connections.get_min_rtt_s(1)
        assert rtt_s is not None
        assert 0 < rtt_s < 10


@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_every_codec_pass_through_and_an_ordinary_client_reads_them(east, topic, codec):
    properties = east.client_properties()
    source, target = (kafka.create_topic(properties, topic(label)) for label in ("from", "to"))
    kafka.produce(properties, source, outgoing(2000), compression_type=codec)
    with Driver(properties) as driver:
        copied(driver, source, target)
    one, other = (kafka.read_partition(properties, name, 0) for name in (source, target))
    assert len(one) == 2000
    assert kafka.differences(one, other) == []


@pytest.mark.parametrize(
    "version", range(api_versions.FETCH_VERSIONS[0], api_versions.FETCH_VERSIONS[1] + 1)
)
def test_every_fetch_version_reads_the_same(east, topic, version):
    properties = east.client_properties()
    name = kafka.create_topic(properties, topic())
    kafka.produce(properties, name, outgoing(10))
    kafka.produce_transaction(properties, name, outgoing(5), transactional_id=name, commit=False)
    with Driver(properties) as driver:
        # The marker is written after the abort was acknowledged.
        driver.until(lambda: driver.fetch(name).last_stable_offset == 16)
        found = driver.fetch(name, asked=(version, version))
        assert (found.topic, found.topic_id) == (
            (name, bytes(16)) if version == 12 else ("", driver.topic_id(name))
        )
        assert (found.error_code, found.high_watermark, found.log_start_offset) == (0, 16, 0)
        assert [first for _, first in found.aborted] == [10]
        assert found.current_leader is None
        assert [h.base_offset for h, _ in record_set_splitter.iter_batches(found.records)] == [
            0,
            10,
        ]
        # The marker is much younger than the records and so in the log's next segment.
        ((marker, _),) = record_set_splitter.iter_batches(
            driver.fetch(name, 15, asked=(version, version)).records
        )
        assert (marker.base_offset, marker.is_control) == (15, True)
        missing = driver.fetch(name, 999, asked=(version, version))
        assert (missing.error_code, len(missing.records)) == (1, 0)


@pytest.mark.parametrize(
    "version", range(api_versions.PRODUCE_VERSIONS[0], api_versions.PRODUCE_VERSIONS[1] + 1)
)
def test_every_produce_version_is_understood(east, topic, version):
    properties = east.client_properties()
    source, target = (kafka.create_topic(properties, topic(label)) for label in ("from", "to"))
    kafka.produce(properties, source, outgoing(50))
    with Driver(properties) as driver:
        copied(driver, source, target, asked=(version, version))
        found = driver.fetch(source)
        refused = ProduceBatch(
            target, driver.topic_id(target), 0, memoryview(bytes(found.records[:-1]) + b"?")
        )
        (answer,) = driver.produce([refused], asked=(version, version))
        assert answer.error_code in {2, 87}
    assert len(kafka.read_partition(properties, target, 0)) == 50


def test_several_partitions_share_a_request_and_answer_each_for_itself(east, topic):
    properties = east.client_properties()
    source, one = (kafka.create_topic(properties, topic(label)) for label in ("from", "one"))
    two = kafka.create_topic(properties, topic("two"), partitions=3)
    kafka.produce(properties, source, outgoing(3))
    with Driver(properties) as driver:
        records = driver.fetch(source).records
        for name in (one, two):
            driver.leader(name)
        batches = [
            ProduceBatch(name, driver.topic_id(name), partition, records)
            for name, partition in ((one, 0), (two, 0), (two, 2), (two, 9))
        ]
        answers = {
            (each.topic_id, each.partition): each.error_code for each in driver.produce(batches)
        }
        assert answers == {
            (driver.topic_id(one), 0): 0,
            (driver.topic_id(two), 0): 0,
            (driver.topic_id(two), 2): 0,
            (driver.topic_id(two), 9): 3,
        }


class FetchingSession:
    """One fetch session over partition 0 of some topics; `read` is where each goes on."""

    def __init__(self, driver: Driver, names: list[str]) -> None:
        for name in names:
            driver.leader(name)
        self.session = FetchSession()
        self.read = dict.fromkeys(names, 0)
        self._driver = driver
        self._by_id = {driver.topic_id(name): name for name in names}
        self._version = driver.version(1, api_versions.FETCH_KEY, api_versions.FETCH_VERSIONS)
        for name in names:
            self._want(name)

    def _want(self, name: str) -> None:
        topic_id = self._driver.topic_id(name)
        asked = FetchRequestPartition(name, topic_id, 0, -1, self.read[name], -1, 1 << 20)
        self.session.set_partition(name, asked)

    def round_trip(self) -> tuple[FetchSessionRequest, FetchResponse]:
        request = self.session.start_next_request()
        body = fetch_requests.encode_fetch_request(
            self._version,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 24,
            isolation_level=1,
            session_id=request.session_id,
            session_epoch=request.session_epoch,
            partitions=request.partitions,
            forgotten=request.forgotten,
            rack_id="",
        )
        reply = self._driver.raw(1, api_versions.FETCH_KEY, self._version, chunks=[body], lane="s")
        assert reply.body is not None
        response = fetch_requests.decode_fetch_response(
            self._version,
            reply.body,
            max_partitions=self.session.count_requested_partitions(),
        )
        self.session.on_response(response)
        for found in response.partitions:
            name = self._by_id[found.topic_id]
            for header, _ in record_set_splitter.iter_batches(found.records):
                self.read[name] = header.last_offset + 1
            if name in self.session._wanted:
                self._want(name)
        return request, response


def test_a_fetch_session_sends_changes_only_and_survives_a_forgetful_broker(east, topic):
    properties = east.client_properties()
    names = [kafka.create_topic(properties, topic(f"t{i}")) for i in range(3)]
    with Driver(properties) as driver:
        fetching = FetchingSession(driver, names)
        request, response = fetching.round_trip()
        assert (request.session_epoch, len(response.partitions)) == (0, 3)
        request, response = fetching.round_trip()
        assert (request.partitions, request.forgotten, response.partitions) == ([], [], [])
        kafka.produce(properties, names[1], outgoing(7))
        _, response = fetching.round_trip()
        assert [p.topic_id for p in response.partitions] == [driver.topic_id(names[1])]
        fetching.session.remove_partition(names[0])
        request, _ = fetching.round_trip()
        assert [p.topic for p in request.partitions] == [names[1]]
        assert [p.topic for p in request.forgotten] == [names[0]]
        kafka.produce(properties, names[0], outgoing(7))
        _, response = fetching.round_trip()
        assert response.partitions == []
        fetching.session._session_id += 1  # as if the broker had dropped it
        _, response = fetching.round_trip()
        assert response.error_code == fetch_requests.SESSION_NOT_FOUND
        request, response = fetching.round_trip()
        assert (request.session_epoch, len(response.partitions)) == (0, 2)
        assert fetching.read == {names[0]: 0, names[1]: 7, names[2]: 0}


def test_a_transaction_of_our_own_is_committed_and_fences_the_one_before(east, topic):
    properties = east.client_properties()
    source, target = (kafka.create_topic(properties, topic(label)) for label in ("from", "to"))
    kafka.produce(properties, source, outgoing(4))
    to = CoordinatorKey(request_builders.TRANSACTION_COORDINATOR, f"mm2-test-{target}")
    with Driver(properties) as driver:
        (batch,) = (b for _, b in record_set_splitter.iter_batches(driver.fetch(source).records))
        driver.leader(target)

        def settled(message: RequestBuilder) -> object:
            """Coordinators answer 14 to 16 and 51 for a while: ask again."""
            found: list[object] = []

            def ask() -> bool:
                body = driver.ask(to, message)
                if hasattr(body, "error_code"):
                    code = int(body.error_code)
                else:
                    topics = body.results_by_topic_v3_and_below
                    code = int(topics[0].results_by_partition[0].partition_error_code)
                if code in {15, 16}:
                    driver.connections.forget_coordinator(to.kind, to.key)
                found[:] = [body]
                return code not in {14, 15, 16, 51}

            driver.until(ask)
            return found[0]

        def init() -> tuple[int, int]:
            body = settled(request_builders.build_init_producer_id_request(to.key, 60_000))
            assert body.error_code == 0  # type: ignore[attr-defined]
            return int(body.producer_id), int(body.producer_epoch)  # type: ignore[attr-defined]

        old = init()
        producer_id, epoch = init()
        assert (producer_id, epoch) == (old[0], old[1] + 1)
        added = settled(
            request_builders.build_add_partitions_to_txn_request(
                to.key, producer_id=producer_id, epoch=epoch, topics={target: [0]}
            )
        )
        (result,) = added.results_by_topic_v3_and_below  # type: ignore[attr-defined]
        assert result.results_by_partition[0].partition_error_code == 0
        record_batch.stamp_producer_fields(batch, attributes=0x10, producer=(producer_id, epoch, 0))
        (acked,) = driver.produce(
            [ProduceBatch(target, driver.topic_id(target), 0, batch)],
            asked=api_versions.TRANSACTIONAL_PRODUCE_VERSIONS,
            transactional_id=to.key,
        )
        assert (acked.error_code, acked.base_offset) == (0, 0)
        zombie = settled(
            request_builders.build_end_txn_request(
                to.key, producer_id=old[0], epoch=old[1], committed=True
            )
        )
        assert int(zombie.error_code) in {47, 90}  # type: ignore[attr-defined]
        done = settled(
            request_builders.build_end_txn_request(
                to.key, producer_id=producer_id, epoch=epoch, committed=True
            )
        )
        assert done.error_code == 0  # type: ignore[attr-defined]
        driver.until(lambda: driver.fetch(target).last_stable_offset == 5)
    assert len(kafka.read_partition(properties, target, 0)) == 4


def test_offsets_and_epochs_can_be_asked_for(east, topic):
    properties = east.client_properties()
    name = kafka.create_topic(properties, topic(), partitions=2)
    kafka.produce(properties, name, outgoing(9))
    with Driver(properties) as driver:
        driver.leader(name)
        queries = [OffsetQuery(partition=0, timestamp=t) for t in (-1,)]
        body = driver.ask(
            LeaderTarget(name, 0),
            request_builders.build_list_offsets_request({name: queries}, read_committed=True),
        )
        assert body.topics[0].partitions[0].offset == 9
        ends = driver.ask(
            LeaderTarget(name, 0),
            request_builders.build_offsets_for_leader_epochs_request(
                {name: [EpochEndOffsetQuery(partition=0, current_epoch=0, leader_epoch=0)]}
            ),
        )
        assert ends.topics[0].partitions[0].end_offset == 9


def test_a_large_response_arrives_whole_and_its_buffer_is_used_again(east, topic):
    properties = east.client_properties()
    name = kafka.create_topic(properties, topic(), config={"max.message.bytes": "8000000"})
    kafka.produce(properties, name, [Outgoing(value=b"x" * 5_000_000)], message_max_bytes=8_000_000)
    with Driver(properties) as driver:
        for _ in range(3):
            found = driver.fetch(name)
            ((header, batch),) = record_set_splitter.iter_batches(found.records)
            assert record_batch.has_valid_crc(batch, header)
            assert len(batch) > 5_000_000
            assert driver.pool.free_bytes == 0
            del found, batch
        assert 5_000_000 < driver.pool.free_bytes < 12_000_000


def test_a_topic_that_appears_later_is_found(east, topic):
    name = topic()
    with Driver(east.client_properties()) as driver:
        driver.connections.set_metadata_topics([name])
        driver.until(lambda: driver.connections.view.get_topic(name))
        found = driver.connections.view.get_topic(name)
        assert found is not None
        assert found.error_code == 3
        kafka.create_topic(east.client_properties(), name)
        driver.until(lambda: driver.connections.view.get_leader(name, 0))


def test_idling_takes_no_turns(east, topic):
    name = kafka.create_topic(east.client_properties(), topic())
    with Driver(east.client_properties()) as driver:
        driver.leader(name)
        before, end_s = driver.rounds, driver.clock.now_s() + 1.0
        while driver.clock.now_s() < end_s:
            driver.turn(wait_s=1.0)
        assert driver.rounds - before < 10
