"""Text of brokers that is not UTF-8: errors name the cluster, and no thread ends by it."""

from __future__ import annotations

from unittest import mock

import confluent_kafka
import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.kafka import client_errors, librdkafka_clients
from connect_runtime.kafka.admin_client import AdminClient
from connect_runtime.kafka.client_errors import RecentConnectionErrors
from connect_runtime.kafka.kafka_shared_log import LogOffsetRanges, SharedLogReader
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from connect_runtime.system.system_clock import SystemClock
from tests.support import eventually, malformed_broker

CLOCK = SystemClock()
WAIT_S = 20.0


@pytest.fixture
def access():
    with malformed_broker.serve() as found:
        yield found


def create(create_client, access, **settings):
    return create_client(access, client_id="c", settings=settings, reports=RecentConnectionErrors())


def test_a_consumer_raises_a_transient_error_that_names_the_cluster(access):
    consumer = create(librdkafka_clients.create_consumer, access, **{"group.id": "g"})
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    with pytest.raises(RetriableError, match=r"hostile .*malformed text"):
        eventually.eventually(lambda: consumer.poll(0.1), WAIT_S, "the error is raised")
    consumer.close()


def test_a_producer_logs_it_and_goes_on(access, caplog):
    producer = create(librdkafka_clients.create_producer, access)
    producer.produce("t", b"v")

    def is_logged():
        producer.poll(0.1)
        return "hostile" in caplog.text and "malformed text" in caplog.text

    eventually.eventually(is_logged, WAIT_S, "the text is logged as malformed")
    producer.purge()
    assert producer.flush(1.0) == 0


def test_a_reader_records_the_failure_and_reads_on(access):
    positions = []

    class Reader(SharedLogReader):
        def _assign_partitions_at_positions(self, found):
            positions.append(dict(found))
            super()._assign_partitions_at_positions(found)

    reader = Reader(
        access,
        topic="t",
        client_id="c",
        committed_only=False,
        clock=CLOCK,
        listener=mock.Mock(),
        request_ranges=mock.Mock(),
    )
    reader.assign_partitions(LogOffsetRanges(starts={0: 3}, ends={0: 5}))
    ended: list[UnexpectedThreadEnd] = []
    threads = ThreadGroup(on_unexpected_end=ended.append)
    threads.start("reads", reader.run_reader_thread)
    eventually.eventually(lambda: len(positions) > 1, WAIT_S, "the reader continues")
    assert threads.stop_all(WAIT_S) == []
    assert ended == []
    assert positions[:2] == [{0: 3}, {0: 3}]  # from where it was: the library may have lost records


def test_metadata_with_malformed_text_is_rejected(access, caplog):
    client = AdminClient(access, client_id="c", clock=CLOCK)
    for read in (client.read_cluster_id, client.list_brokers, client.list_topics):
        with pytest.raises(RetriableError, match=" on hostile "):
            read(0.5)
    client.close()
    assert "ignoring the cluster's metadata" in caplog.text
    assert "cannot be decoded" in caplog.text


def test_malformed_text_is_logged_once_a_minute_for_each_client(access, caplog, monkeypatch):
    now_s = [1_000.0]
    monkeypatch.setattr(librdkafka_clients._CLOCK, "now_s", lambda: now_s[0], raising=False)
    one, other = (create(librdkafka_clients.create_producer, access) for _ in range(2))
    error = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    for client, passed_s in ((one, 0), (one, 59), (other, 0), (one, 2)):
        now_s[0] += passed_s
        client.log_malformed_text(error)
    assert caplog.text.count("malformed text") == 3


class Unreadable(confluent_kafka.KafkaError):
    """An error whose text the library cannot return."""

    def str(self):
        return b"\xff".decode()


def test_an_error_with_malformed_text_is_translated_by_its_code():
    reports = RecentConnectionErrors()
    reports.record_connection_error(Unreadable(confluent_kafka.KafkaError._TRANSPORT))
    found = client_errors.translate_error(
        Unreadable(confluent_kafka.KafkaError._TRANSPORT), "reading", where="here", reports=reports
    )
    assert isinstance(found, client_errors.UnreachableError)
    assert "malformed" in str(found)
